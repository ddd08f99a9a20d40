"""Which versions of a log their turns ended with; marked as they come by, in either order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from turnstate.history.keys import Key
from turnstate.history.thread import History

if TYPE_CHECKING:
    from turnstate.history.log import Logged


def ending_forwards(history: History, versions: Iterator[Logged], stop: int) -> Iterator[Logged]:
    """Versions in order of time: each waits until a later one of its key, or its turn's end, has come."""
    waiting: deque[Logged | None] = deque()
    place: dict[Key, int] = {}  # of a key's last version, counted from the first that ever waited
    gone = 0

    def settled(until: int) -> Iterator[Logged]:
        nonlocal gone
        while waiting:
            first = waiting[0]
            if first is not None and place.get(first.key) == gone:
                end = _end_row(history, first)
                if end is not None and end >= until:
                    return
                ends = end is not None and first.row <= end
                del place[first.key]
                first = replace(first, ends_turn=ends)
            waiting.popleft()
            gone += 1
            if first is not None:
                yield first

    for version in versions:
        if version.key in place:
            earlier = waiting[place[version.key] - gone]
            end = _end_row(history, earlier) if earlier is not None else None
            if end is None or version.row > end:  # its turn ended before this one came
                waiting[place[version.key] - gone] = earlier and replace(
                    earlier, ends_turn=end is not None and earlier.row <= end
                )
        place[version.key] = gone + len(waiting)
        waiting.append(version)
        yield from settled(version.row)
    yield from settled(stop + 1)


def ending_backwards(history: History, versions: Iterator[Logged]) -> Iterator[Logged]:
    """Versions newest first: a later one of its key has come already."""
    later: dict[Key, int] = {}
    for version in versions:
        end = _end_row(history, version)
        ends = end is not None and version.row <= end and later.get(version.key, end + 1) > end
        later[version.key] = version.row
        yield replace(version, ends_turn=ends)


def _end_row(history: History, version: Logged) -> int | None:
    """The row with the state as the version's turn ended; None where there is no such turn or row."""
    return history.turns.turns[version.turns[-1]].end if version.turns else None
