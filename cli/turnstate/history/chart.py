"""A thread at a glance: keys by turns, and what each turn did to each key. Data only.

Made from a log, version by version; no value is kept or decoded. A mapping is charted by its entries, and has a row of
its own only where it never had one, or held something else than a mapping.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from turnstate.history.keys import Key, is_empty_mapping
from turnstate.history.log import Log, Logged, Span
from turnstate.history.parts import Part, change_of, readable
from turnstate.history.turns import Turn, Turns
from turnstate.history.versions import turns_of, versions_of

Cell = Literal[
    "written",
    "same",
    "unchanged",
    "removed",
    "added",
    "changed",
    "equal",
    "unknown",
    "unreadable",
    "pruned",
    "absent",
]
"""What a turn did to a key: wrote another value; wrote an equal one only; left it as it was; removed it; it cannot be
read as the turn ended; the turn's end is no longer kept; it is not there, not yet or not any more.

Of a turn that has lost steps, what a comparison with the end of the turn before tells: it came, is another or is equal
to what it was; or nothing, as that end is not kept or cannot be read. ``added`` and ``changed`` are also what comes
without any step, see :attr:`turnstate.history.log.Logged.reread`.
"""

_COMPARED: Mapping[str | None, Cell] = {
    "added": "added",
    "changed": "changed",
    "same": "equal",
    None: "unknown",
}
_TOLD_BY_A_STEP: Collection[tuple[Cell | None, Cell]] = (("same", "equal"), ("removed", "absent"))
"""What a kept step did and a comparison of ends leaves open, or cannot see."""

_State = Literal["unchanged", "unreadable", "absent"]
"""What a key is at a row, as the cell of a turn that did nothing to it."""


class ChartRow(Struct, frozen=True):
    """One key.

    Attributes:
        key: Channel and entry.
        name: Its address.
        cells: One for each of the chart's turns.
        turns_written: All turns of the line that wrote it, charted or not.
        earlier_unknown: Rows that are no longer kept wrote it too; in which turns cannot be told.
    """

    key: Key
    name: str
    cells: tuple[Cell, ...]
    turns_written: tuple[int, ...] = ()
    earlier_unknown: bool = False


class Chart(Struct, frozen=True):
    """Keys by turns.

    Attributes:
        thread: ``thread_id``.
        ns: ``checkpoint_ns``.
        turns: All turns, and how they were counted.
        numbers: The turns that are charted, ascending.
        rows: One per key, in order of its first version.
    """

    thread: str
    ns: str
    turns: Turns
    numbers: tuple[int, ...]
    rows: tuple[ChartRow, ...]


class _Track(Struct):
    """What is known of one key so far.

    Attributes:
        did: Turn → what it did.
        since: Rows from which the key is in another state.
        whole: It held something that a chart of entries would not show.
    """

    did: dict[int, Cell] = {}
    since: list[tuple[int, _State]] = []
    whole: bool = False

    def at(self, row: int) -> _State:
        """The state at a row."""
        return next((state for since, state in reversed(self.since) if since <= row), "absent")


def chart_of(log: Log, keys: Collection[Key] | None = None, *, span: Span | None = None) -> Chart:
    """Chart keys of a log.

    Args:
        log: Where the versions are read.
        keys: Only these; all when None, a mapping by its entries.
        span: Only the turns of these rows; turn 0 is charted where something was written in it.
    """
    history = log.history
    followed = None if keys is None else dict.fromkeys([*keys, *(Key(key.channel) for key in keys)])
    tracks: dict[Key, _Track] = {key: _Track() for key in followed or ()}
    until = len(history.line.rows) - 1 if span is None else span.last
    for version in log.versions(followed, span=Span(0, until)):
        _follow(tracks.setdefault(version.key, _Track()), version)
    _tell_entries(tracks)
    turns = history.turns
    tracks = _by_entries(tracks, turns) if keys is None else {key: tracks[key] for key in keys}
    asked = range(turns.total + 1) if span is None or span.turns is None else span.turns
    zero = any(0 in track.did for track in tracks.values())
    numbers = tuple(n for n in asked if n <= turns.total and (n or zero))
    again = _readable_again(log, tracks, [turns.turns[n] for n in numbers])
    for key, number, cell in _compared(log, tracks, turns, numbers):
        did = tracks[key].did
        if did.get(number) != "written" and (did.get(number), cell) not in _TOLD_BY_A_STEP:
            did[number] = cell
    rows = []
    for key, track in tracks.items():
        cells = tuple(_cell(track, turns.turns[n], again.get(key, {})) for n in numbers)
        versions = versions_of(log.index, key)
        written, lost = turns_of(history, versions), any(version.lost for version in versions)
        rows.append(ChartRow(key, log.name(key), cells, written, lost))
    return Chart(history.thread, history.ns, turns, numbers, tuple(rows))


def _follow(track: _Track, version: Logged) -> None:
    if version.now is None:
        track.since.append((version.row, "absent"))
        did: Cell | None = "removed" if version.change == "removed" else None
    elif readable(version.now):
        track.since.append((version.row, "unchanged"))
        track.whole = track.whole or not is_empty_mapping(version.now)
        did = "same" if version.change == "same" else "written"
        if version.reread:
            did = _COMPARED.get(version.change)
    else:
        track.since.append((version.row, "unreadable"))
        did = None if version.inferred else "written"
    for number in version.turns:
        if did is not None and not (did == "same" and number in track.did):
            track.did[number] = did


def _tell_entries(tracks: Mapping[Key, _Track]) -> None:
    """No version of an entry need tell that its channel cannot be read."""
    for key, track in tracks.items():
        if key.entry is not None and (channel := tracks.get(Key(key.channel))):
            track.since = _merged(track.since, [each for each in channel.since if each[1] == "unreadable"])


def _by_entries(tracks: Mapping[Key, _Track], turns: Turns) -> dict[Key, _Track]:
    """The tracks of a mapping's entries in place of its own, and both where it was something else before or after."""
    found = dict(tracks)
    for key, track in tracks.items():
        if key.entry is None or (channel := tracks.get(Key(key.channel))) is None:
            continue
        if not channel.whole:
            found.pop(Key(key.channel), None)
            continue
        here, there = (
            [row for row, state in each.since if state == "unchanged"] for each in (track, channel)
        )
        for row in there:
            if track.at(row) == "unchanged":
                track.did |= dict.fromkeys(turns.at_row(row), "removed")
        track.since = _merged(track.since, [(row, "absent") for row in there])
        channel.since = _merged(channel.since, [(row, "absent") for row in here])
    return found


def _merged(
    some: Iterable[tuple[int, _State]], others: Iterable[tuple[int, _State]]
) -> list[tuple[int, _State]]:
    return sorted([*some, *others], key=lambda each: each[0])


def _readable_again(
    log: Log, tracks: Mapping[Key, _Track], turns: Collection[Turn]
) -> dict[Key, dict[int, _State]]:
    """Key → row → what it is at the ends of turns, after a version that cannot be read: no later one may tell."""
    ends = sorted({turn.end for turn in turns if turn.end is not None})
    rows: dict[int, list[Key]] = {}
    for key, track in tracks.items():
        for end in ends:
            if track.at(end) == "unreadable":
                rows.setdefault(end, []).append(key)
    found: dict[Key, dict[int, _State]] = {}
    if rows:
        for row, parts in log.parts(list(rows), {key for keys in rows.values() for key in keys}):
            for key in rows[row]:
                part = parts[key]
                if part is None or readable(part):
                    found.setdefault(key, {})[row] = "absent" if part is None else "unchanged"
    return found


def _compared(
    log: Log, tracks: Mapping[Key, _Track], turns: Turns, numbers: Collection[int]
) -> Iterator[tuple[Key, int, Cell]]:
    """What the ends of turns that have lost steps tell beside those of the turns before, read one row at a time."""
    from turnstate.history.gaps import thinned_turns

    ends: dict[int, list[int]] = {}
    before: dict[int, int | None] = {}
    for number in sorted(thinned_turns(log.history) & set(numbers)):
        if (end := turns.turns[number].end) is not None:
            ends.setdefault(end, []).append(number)
            before[end] = turns.turns[turns.together(number)[0] - 1].end
    by_entry = {key.channel for key in tracks if key.entry is not None}
    rows = sorted({row for pair in before.items() for row in pair if row is not None})
    last: int | None = None
    held: Mapping[Key, Part] = {}
    for row, parts in log.parts(rows, tracks) if rows else ():
        here = {
            key: None
            if key.entry is None and key.channel in by_entry and track.at(row) == "absent"
            else parts[key]
            for key, track in tracks.items()
        }
        for key, part in here.items():
            known = row in before and last is not None and last == before[row] and not _is_unread(held[key])
            cell = _compared_with(held[key] if known else None, part, known=known)
            yield from ((key, number, cell) for number in ends.get(row, ()))
        last, held = row, here


def _compared_with(old: Part, new: Part, *, known: bool) -> Cell:
    """The cell of a turn by what a key held at its end and at that of the turn before, where the latter is known."""
    if new is None:
        return "absent" if old is None else "removed"
    return _COMPARED[change_of(old, new)] if known else "unknown"


def _is_unread(part: Part) -> bool:
    return part is not None and not readable(part)


def _cell(track: _Track, turn: Turn, again: Mapping[int, _State]) -> Cell:
    did = track.did.get(turn.number)
    if turn.end is None:
        return did or "pruned"
    state = again.get(turn.end, track.at(turn.end))
    return state if state == "unreadable" or did is None else did
