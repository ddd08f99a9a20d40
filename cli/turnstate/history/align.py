"""Which items of two sequences belong together: a longest common subsequence, at bounded cost.

Pure functions over hashable items. Nothing here knows what an item is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

Pairs = list[tuple[int, int]]

_MOST_EDITS = 300  # the work grows with the square of it
_MOST_STEPS = 1_000_000  # edits × items
_LEVELS = 8  # of gaps between anchors within gaps


def aligned(old: Sequence[Hashable], new: Sequence[Hashable]) -> Pairs:
    """Positions of equal items, ascending on both sides.

    As many as possible where the sequences are short or much alike. Where they are long and differ much,
    items that occur once on both sides are anchors, and what lies between two is aligned as far as it is
    cheap: one insertion stays one insertion, and no input takes quadratic time.
    """
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(item, len(numbers)) for item in old]
    b = [numbers.setdefault(item, len(numbers)) for item in new]
    found: Pairs = []
    _align(a, b, 0, len(a), 0, len(b), _LEVELS, found)
    return found


def _align(
    a: list[int], b: list[int], i: int, i_end: int, j: int, j_end: int, levels: int, found: Pairs
) -> None:
    """Add the pairs of ``a[i:i_end]`` and ``b[j:j_end]``, in order."""
    while i < i_end and j < j_end and a[i] == b[j]:
        found.append((i, j))
        i += 1
        j += 1
    tail = 0
    while i < i_end - tail and j < j_end - tail and a[i_end - tail - 1] == b[j_end - tail - 1]:
        tail += 1
    if i < i_end - tail and j < j_end - tail:
        _between(a, b, i, i_end - tail, j, j_end - tail, levels, found)
    found += [(i_end - back, j_end - back) for back in range(tail, 0, -1)]


def _between(
    a: list[int], b: list[int], i: int, i_end: int, j: int, j_end: int, levels: int, found: Pairs
) -> None:
    in_a, in_b = Counter(a[i:i_end]), Counter(b[j:j_end])
    shared = in_a.keys() & in_b.keys()
    if not shared:
        return
    # What only one side has belongs to nothing, and would cost as if it might.
    left = [k for k in range(i, i_end) if a[k] in shared]
    right = [k for k in range(j, j_end) if b[k] in shared]
    steps = _fewest_edits([a[k] for k in left], [b[k] for k in right])
    if steps is not None:
        found += [(left[x], right[y]) for x, y in steps]
        return
    anchors = _anchors(a, b, left, right, {n for n in shared if in_a[n] == in_b[n] == 1}) if levels else []
    if not anchors:
        return
    for x, y in [*anchors, (i_end, j_end)]:
        _align(a, b, i, x, j, y, levels - 1, found)
        if x < i_end:
            found.append((x, y))
        i, j = x + 1, y + 1


def _anchors(a: list[int], b: list[int], left: list[int], right: list[int], once: set[int]) -> Pairs:
    """The longest ascending run of items that occur once on both sides."""
    where = {b[k]: k for k in right if b[k] in once}
    pairs = [(k, where[a[k]]) for k in left if a[k] in once]
    ends: list[int] = []  # least end of a run of each length
    at: list[int] = []
    before: list[int] = []
    for n, (_, y) in enumerate(pairs):
        length = bisect_left(ends, y)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [y]
        at[length : length + 1] = [n]
    run: Pairs = []
    n = at[-1] if at else -1
    while n >= 0:
        run.append(pairs[n])
        n = before[n]
    run.reverse()
    return run


def _fewest_edits(a: list[int], b: list[int]) -> Pairs | None:
    """The pairs that the shortest edit script keeps; None when it is too long to be looked for.

    Myers, "An O(ND) difference algorithm and its variations" (1986), the greedy form.
    """
    most = max(16, min(_MOST_EDITS, _MOST_STEPS // (len(a) + len(b))))
    if abs(len(a) - len(b)) > most:
        return None
    furthest = [0] * (2 * most + 3)
    rounds: list[list[int]] = []
    for edits in range(most + 1):
        rounds.append(furthest[most - edits : most + edits + 3])
        for k in range(-edits, edits + 1, 2):
            below, above = furthest[most + k], furthest[most + k + 2]
            x = above if k == -edits or (k != edits and below < above) else below + 1
            y = x - k
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x += 1
                y += 1
            furthest[most + k + 1] = x
            if x >= len(a) and y >= len(b):
                return _walked_back(rounds, len(a), len(b))
    return None


def _walked_back(rounds: list[list[int]], x: int, y: int) -> Pairs:
    pairs: Pairs = []
    for edits in range(len(rounds) - 1, -1, -1):
        furthest = rounds[edits]  # diagonal k stands at k + edits + 1
        k = x - y
        below, above = furthest[k + edits], furthest[k + edits + 2]
        came_down = k == -edits or (k != edits and below < above)
        start_x = above if came_down else below
        start_y = start_x - (k + 1 if came_down else k - 1)
        edit_x, edit_y = (start_x, start_y + 1) if came_down else (start_x + 1, start_y)
        if edits == 0:
            edit_x, edit_y = 0, 0
        while x > edit_x and y > edit_y:
            x -= 1
            y -= 1
            pairs.append((x, y))
        x, y = start_x, start_y
    pairs.reverse()
    return pairs
