"""A thread at a glance: keys by turns, and what each turn did to each key. Data only.

Made from a log, version by version; no value is kept or decoded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from turnstate.history.keys import Key
from turnstate.history.log import Log, Logged, Span, readable
from turnstate.history.turns import Turn, Turns

Cell = Literal["written", "same", "unchanged", "removed", "unreadable", "pruned", "absent"]
"""What a turn did to a key: wrote another value; wrote an equal one only; left it as it was; removed it; it cannot be
read as the turn ended; the turn's end is no longer kept; it is not there, not yet or not any more."""

_State = Literal["held", "unreadable", "gone"]


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One key: its address, and one cell for each of the chart's turns."""

    key: Key
    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Chart:
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


@dataclass(slots=True)
class _Track:
    """What is known of one key so far: what turns did, and what it is since which row."""

    did: dict[int, Cell] = field(default_factory=dict)
    since: list[tuple[int, _State]] = field(default_factory=list)


def chart_of(log: Log, keys: Collection[Key] | None = None, *, span: Span | None = None) -> Chart:
    """Chart keys of a log.

    Args:
        log: Where the versions are read.
        keys: Only these; all when None, a mapping by its entries.
        span: Only the turns of these rows; turn 0 is charted where something was written in it.
    """
    history = log.history
    tracks: dict[Key, _Track] = {key: _Track() for key in keys or ()}
    until = len(history.line.rows) - 1 if span is None else span.last
    for version in log.versions(keys, span=Span(0, until)):
        _follow(tracks.setdefault(version.key, _Track()), version)
    turns = history.turns
    asked = range(turns.total + 1) if span is None or span.turns is None else span.turns
    zero = any(0 in track.did for track in tracks.values())
    numbers = tuple(n for n in asked if n <= turns.total and (n or zero))
    rows = (
        ChartRow(key, log.name(key), tuple(_cell(track, turns.turns[n]) for n in numbers))
        for key, track in tracks.items()
    )
    return Chart(history.thread, history.ns, turns, numbers, tuple(rows))


def _follow(track: _Track, version: Logged) -> None:
    did: Cell
    state: _State
    if version.now is None:
        did, state = "removed", "gone"
    elif not readable(version.now):
        did, state = "unreadable", "unreadable"
    else:
        did, state = ("same" if version.change == "same" else "written"), "held"
    for number in version.turns:
        if not (did == "same" and number in track.did):
            track.did[number] = did
    track.since.append((version.row, state))


def _cell(track: _Track, turn: Turn) -> Cell:
    if turn.number in track.did:
        return track.did[turn.number]
    if turn.end is None:
        return "pruned"
    end = turn.end
    state = next((state for row, state in reversed(track.since) if row <= end), "gone")
    return {"held": "unchanged", "unreadable": "unreadable", "gone": "absent"}[state]  # type: ignore[return-value]
