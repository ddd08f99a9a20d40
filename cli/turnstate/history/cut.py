"""Which rows of a line hold some of its turns, so that these can be read, told apart and gone on from without the rest.

Pure functions over an opened thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from turnstate.history.steps import ERROR, INTERRUPT, is_update_task
from turnstate.history.thread import History
from turnstate_backends.interface import Write


class Part(Struct, frozen=True):
    """Some turns of a line as rows.

    Attributes:
        first: Number of the first turn.
        last: Number of the last turn.
        checkpoints: Their rows, oldest first, and before them those without which they cannot be read.
        before: How many of these come before the first turn's own.
        left_out: (task, index) of the writes on the last row that made what came after.
        until: The row that came after; None where the line ends with the part.
    """

    first: int
    last: int
    checkpoints: tuple[str, ...]
    before: int
    left_out: frozenset[tuple[str, int]]
    until: str | None


def part_of(history: History, first: int, last: int) -> Part:
    """Rows from the one that holds the state before turn ``first`` to the one in which turn ``last`` ended.

    A turn's input row holds the state that it found; where there is none, the row before comes along, and so do the
    rows from the latest snapshots on where channels are kept as deltas.

    Args:
        history: Along the line.
        first: A turn that the line has rows of, or whose end is kept.
        last: The same, not before ``first``.
    """
    turns, rows = history.turns.turns, history.line.rows
    start = _row(turns[first].first, turns[first].end)
    stop = _row(turns[last].last, turns[last].end)
    begin = start
    if start and start not in history.line.seams and rows[start].source != "input":
        begin -= 1
    begin = _from_snapshots(history, begin)
    return Part(
        first=first,
        last=last,
        checkpoints=tuple(row.id for row in rows[begin : stop + 1]),
        before=start - begin,
        left_out=_left_out(history, stop),
        until=rows[stop + 1].id if stop + 1 < len(rows) else None,
    )


def first_since(history: History, moment: datetime) -> int | None:
    """The first turn that still was active at a moment or began later; None where all had ended."""
    times = history.row_times()
    for turn in history.turns.turns[1:]:
        end = turn.last if turn.last is not None else turn.end
        time = None if end is None else times[end]
        if time is not None and time >= moment:
            return turn.number
    return None


def _row(own: int | None, kept: int | None) -> int:
    found = own if own is not None else kept
    if found is None:
        raise ValueError("the turn is no longer kept")
    return found


def _from_snapshots(history: History, begin: int) -> int:
    """The latest row at or before ``begin`` from which on every channel kept as deltas has two snapshots: one to add
    up from, and one more to show how it adds up. The first row where there are fewer."""
    rows = history.line.rows
    lacking = dict.fromkeys(rows[begin].delta_channels, 2)
    within = set(lacking)
    while begin and begin not in history.line.seams and lacking:
        begin -= 1
        found = within - set(rows[begin].delta_channels)
        within = {name for name in lacking if name in rows[begin].delta_channels}
        lacking = {name: lacks - (name in found) for name, lacks in lacking.items()}
        lacking = {name: lacks for name, lacks in lacking.items() if lacks}
    return begin


def _left_out(history: History, stop: int) -> frozenset[tuple[str, int]]:
    """The writes on a row that made the next one, where that is another turn's."""
    if stop + 1 >= len(history.line.rows):
        return frozenset()
    on_row: Sequence[Write] = history.writes.get(history.line.rows[stop].id, ())
    match history.steps[stop + 1].arrival:
        case "update":
            made = [write for write in on_row if is_update_task(write)]
        case "step" | "run":
            made = [write for write in on_row if write.channel not in (INTERRUPT, ERROR)]
        case _:
            made = []
    return frozenset((write.task, write.idx) for write in made)
