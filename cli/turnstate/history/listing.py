"""Reports about a whole thread: one row per turn, one row per key. Data only; how they look is not known here.

Nothing here keeps a decoded value: each is looked at once, for its type and a one-line summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history import keys as key_names
from turnstate.history.keys import Key
from turnstate.history.lines import Branch, is_beginning
from turnstate.history.places import Place
from turnstate.history.questions import Aside
from turnstate.history.sealing import Sealing, is_encrypted, sealing_of
from turnstate.history.sharing import shared_values
from turnstate.history.steps import ERROR, INTERRUPT, by_checkpoint, node_of
from turnstate.history.summary import summary_of, type_of
from turnstate.history.thread import History
from turnstate.history.turns import Turn, Turns, stopped_at
from turnstate.history.versions import Version, Written, latest, turns_of, versions_by_key, versions_of
from turnstate_backends.interface import WHOLE, Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored, Tagged


class TurnRow(Struct, frozen=True):
    """One turn as ``turns`` lists it.

    Attributes:
        turn: The turn itself.
        first_checkpoint: Its first row; None where it has no row of its own.
        last_checkpoint: The row with the state as it ended; else the last one kept of it.
        started: When its first row was made; None where that row is not kept, or holds a whole run: such a row is
            made when the run has ended.
        ended: When its last row was made; None where that row is not kept.
        checkpoints: How many rows of its own are kept.
        keys_written: Keys written in it; a mapping by its entries where those are known.
        stops: What stopped it, where it ended in an error or an interrupt.
        thinned: Its end is kept, and steps of it are gone.
    """

    turn: Turn
    first_checkpoint: str | None
    last_checkpoint: str | None
    started: datetime | None
    ended: datetime | None
    checkpoints: int
    keys_written: tuple[str, ...]
    stops: tuple[Stop, ...] = ()
    thinned: bool = False

    @property
    def may_have_written_more(self) -> bool:
        """Whether steps of it are gone, so that ``keys_written`` need not be all."""
        return self.thinned or not self.turn.retained


class Stop(Struct, frozen=True):
    """What a task left where it stopped.

    Attributes:
        kind: It raised, or it asked.
        node: The node, where the store tells.
        value: The exception's representation, or what was asked; an absence where that cannot be read.
        id: The interrupt's id, which a resume can name.
    """

    kind: Literal["error", "interrupt"]
    node: str | None
    value: Any
    id: str | None = None


class TurnReport(Struct, frozen=True):
    """The turns of a line, and what must be said with them.

    Attributes:
        thread: ``thread_id``.
        ns: ``checkpoint_ns``.
        head: The checkpoint that LangGraph would resume.
        tip: The line's last checkpoint.
        turns: All turns, and how they were counted.
        rows: One per turn from 1, those no longer retained included.
        asides: Human messages that are no questions, where questions were counted.
        branches: Tips that are not on the line.
        skewed: Checkpoints whose id sorts before their parent's.
        sealing: What is encrypted; None where nothing is.
        shared: Channels of which sibling branches share a value though each wrote its own.
    """

    thread: str
    ns: str
    head: str
    tip: str
    turns: Turns
    rows: tuple[TurnRow, ...]
    asides: tuple[AsideRow, ...]
    branches: tuple[Branch, ...]
    skewed: tuple[str, ...]
    sealing: Sealing | None = None
    shared: tuple[str, ...] = ()


class AsideRow(Struct, frozen=True):
    """A human message that is no question: in which turns and checkpoint it stands."""

    aside: Aside
    turns: tuple[int, ...]
    checkpoint: str


class KeyReport(Struct, frozen=True):
    """The keys of one row of a line.

    Attributes:
        thread: ``thread_id``.
        ns: ``checkpoint_ns``.
        turns: All turns, and how they were counted.
        turn: The turn that the row shows; None before the first where it was named by id or time.
        checkpoint: The row's id.
        rows: One per key, by channel; entries in stored order.
    """

    thread: str
    ns: str
    turns: Turns
    turn: int | None
    checkpoint: str
    rows: tuple[KeyRow, ...]

    @property
    def damage(self) -> KeyRow | None:
        """The row that says why the checkpoint as a whole cannot be read, where it cannot."""
        return next((row for row in self.rows if row.key.channel == WHOLE and row.absence), None)


class KeyRow(Struct, frozen=True):
    """One key as ``keys`` lists it.

    Attributes:
        key: Channel and entry.
        name: Its shortest unambiguous address.
        type: See :func:`turnstate.history.summary.type_of`; the kind where there is no value.
        size: Bytes of the stored payload; None where that cannot be told.
        summary: One line about the value.
        absence: Which kind, where there is no value to read.
        turns_written: The turns of the line that wrote it.
        written: The latest write up to the place.
        earlier_unknown: Rows that are no longer kept wrote it too; in which turns cannot be told.
        plain: The value stands in clear in a thread of which other rows are encrypted.
    """

    key: Key
    name: str
    type: str
    size: int | None
    summary: str
    absence: str | None
    turns_written: tuple[int, ...]
    written: Written | None
    earlier_unknown: bool = False
    plain: bool = False


def turn_report(history: History) -> TurnReport:
    """The turns of the history's line."""
    from turnstate.history.gaps import thinned_turns

    times = history.row_times()
    thinned = thinned_turns(history)
    written = _keys_by_turn(history)
    stops = _stops(history)
    turns = history.turns
    asides = history.findings.asides if turns.by == "questions" else []
    return TurnReport(
        history.thread,
        history.ns,
        history.forest.head,
        history.line.rows[-1].id,
        turns,
        tuple(
            _turn_row(history, turn, times, written, stops, turn.number in thinned)
            for turn in turns.turns[1:]
        ),
        tuple(AsideRow(a, turns.at_row(a.row), history.line.rows[a.row].id) for a in asides),
        history.forest.branches(history.line),
        history.forest.skewed,
        sealing_of(history),
        tuple(sorted({c for c, _ in shared_values(history) if not history.is_internal(c)})),
    )


def _turn_row(
    history: History,
    turn: Turn,
    times: Sequence[datetime | None],
    written: Mapping[int, tuple[str, ...]],
    stops: Mapping[int, tuple[Stop, ...]],
    thinned: bool,
) -> TurnRow:
    rows = history.line.rows
    end = turn.end if turn.end is not None else turn.last
    return TurnRow(
        turn,
        first_checkpoint=None if turn.first is None else rows[turn.first].id,
        last_checkpoint=None if end is None else rows[end].id,
        started=times[turn.first] if turn.first is not None and _begins(history, turn, turn.first) else None,
        ended=times[turn.last] if turn.last is not None and turn.last == turn.end else None,
        checkpoints=0 if turn.first is None or turn.last is None else turn.last - turn.first + 1,
        keys_written=written.get(turn.number, ()),
        stops=stops.get(turn.number, ()),
        thinned=thinned,
    )


def _stops(history: History) -> dict[int, tuple[Stop, ...]]:
    """Turn → what stopped it. Only the rows of the turns that were stopped are asked about."""
    line = history.line
    stopped = {
        turn.number: line.rows[stopped_at(line, turn.first, turn.last)].id
        for turn in history.turns.turns
        if turn.status in ("error", "interrupted") and turn.first is not None and turn.last is not None
    }
    if not stopped:
        return {}
    channels, rows = (ERROR, INTERRUPT), set(stopped.values())
    writes = history.store.writes(history.thread, history.ns, channels=channels, checkpoints=rows, head=None)
    left = by_checkpoint(writes)
    return {
        number: tuple(stop for write in left.get(row, ()) for stop in _stops_of(write))
        for number, row in stopped.items()
    }


def _stops_of(write: Write) -> Iterator[Stop]:
    """An error is one representation; an interrupt a list of ``langgraph.types.Interrupt``, of old without id."""
    value = decode(write.value)
    if write.channel == ERROR:
        yield Stop("error", node_of(write), value)
        return
    for asked in value if isinstance(value, list | tuple) else [value]:
        fields = asked.value if isinstance(asked, Tagged) else asked
        known = fields if isinstance(fields, dict) and "value" in fields else {"value": asked}
        id = known.get("id")
        yield Stop("interrupt", node_of(write), known["value"], id if isinstance(id, str) else None)


def _begins(history: History, turn: Turn, first: int) -> bool:
    """Whether the first row kept of a turn is the one that it began with, and not that of a whole run."""
    row = history.line.rows[first]
    if turn.inherited:
        return is_beginning(row)
    return row.source == "input" or history.steps[first].arrival not in ("first", "run")


def _keys_by_turn(history: History) -> dict[int, tuple[str, ...]]:
    """Turn → names of the keys written in it; a channel only where none of its entries was."""
    keys: dict[int, dict[Key, None]] = {}
    index = versions_by_key(history)
    for key, versions in index.items():
        for turn in turns_of(history, versions):
            keys.setdefault(turn, {})[key] = None
    names = key_names.display_names(index)
    found = {}
    for turn, written in keys.items():
        by_entry = {key.channel for key in written if key.entry is not None}
        found[turn] = tuple(
            names[key] for key in written if key.entry is not None or key.channel not in by_entry
        )
    return found


def keys_at(history: History, place: Place, *, internal: bool = False) -> KeyReport:
    """Every key that a row holds, by channel, entries in stored order, those that cannot be read included.

    Args:
        history: The thread.
        place: Which row.
        internal: LangGraph's own channels too.
    """
    row = history.line.rows[place.row]
    state = history.values(row.id)
    index = versions_by_key(history, [c for c in state if internal or not history.is_internal(c)])
    found = [
        (key, stored)
        for channel, stored in sorted(state.items(), key=lambda item: item[0])
        if internal or not history.is_internal(channel)
        for key, stored in key_names.parts(channel, stored)
        if not _never_written(stored, index.get(key, ()), place)
    ]
    names = key_names.display_names(key for key, _ in found)
    plain = {
        channel for channel, stored in state.items() if isinstance(stored, Stored) and not stored.encrypted
    }
    plain = plain if is_encrypted(history) else set()
    rows = tuple(
        replace(row, plain=row.key.channel in plain)
        for key, stored in found
        for row in [_key_row(history, key, names[key], stored, versions_of(index, key), place)]
    )
    return KeyReport(history.thread, history.ns, history.turns, place.turn, row.id, rows)


def _never_written(stored: Stored | Absent, versions: Sequence[Version], place: Place) -> bool:
    empty = isinstance(stored, Absent) and stored.kind == "empty"
    return empty and not any(v.row <= place.row for v in versions)


def _key_row(
    history: History,
    key: Key,
    name: str,
    stored: Stored | Absent,
    versions: Sequence[Version],
    place: Place,
) -> KeyRow:
    value = stored if isinstance(stored, Absent) else decode(stored)
    if key.entry is not None:
        value, _ = key_names.shown_value(value)
    size = stored.size if isinstance(stored, Stored) else stored.stored.get("bytes")
    return KeyRow(
        key,
        name,
        type_of(value),
        size,
        summary_of(value),
        value.kind if isinstance(value, Absent) else None,
        turns_of(history, versions),
        latest(history, versions, place.row),
        earlier_unknown=any(version.lost for version in versions),
    )
