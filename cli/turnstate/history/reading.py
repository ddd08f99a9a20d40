"""A read and its outcome: a key's value as of a turn, or which kind of absence stands there.

The value, a turn that never was and a turn that is no longer kept are never confused; see :data:`Outcome`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from turnstate.history import keys as key_names
from turnstate.history.keys import Key
from turnstate.history.orphans import orphaned
from turnstate.history.phrases import counted
from turnstate.history.sealing import is_encrypted
from turnstate.history.sharing import shared_with
from turnstate.history.thread import ThreadHistory
from turnstate.history.times import iso
from turnstate.history.turns import Turn
from turnstate.history.versions import Version, Written, latest, turns_of, versions_by_key, versions_of
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored

_FEW_NAMES = 8  # that a message lists

Outcome = Literal[
    "value",
    "no_such_thread",
    "no_such_turn",
    "no_such_key",
    "not_yet_written",
    "removed",
    "turn_no_longer_retained",
    "value_missing",
    "encrypted",
    "undecodable",
    "delta_unresolved",
]


@dataclass(frozen=True, slots=True)
class Place:
    """Where on a line to read.

    Attributes:
        row: Position of the row.
        turn: The turn whose end (or beginning) the row shows; None where the row was named by id or time
            and lies before the first turn.
        at_start: The turn's beginning was asked for.
        named: What the row was named by.
    """

    row: int
    turn: int | None
    at_start: bool = False
    named: Literal["turn", "checkpoint", "time"] = "turn"


@dataclass(frozen=True, slots=True)
class Miss:
    """Why there is no place to read at: ``no_such_turn`` or ``turn_no_longer_retained``, in words."""

    outcome: Outcome
    message: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer to a read.

    Attributes:
        outcome: See :data:`Outcome`.
        message: The outcome in words, for everything but a plain value.
        key: The key's address; the name as typed when no key was found.
        channel: Its channel, when a key was found.
        turn: The turn that was read.
        together: The turns whose questions came in one input with its, its own number included.
        at_start: The turn's beginning was read.
        value: The plain value, for ``value``.
        entry: The whole entry where ``value`` is only its ``value`` field.
        has_entry: Whether there is such an entry.
        checkpoint: The checkpoint that was read.
        borrowed: The checkpoint is the next turn's input row, as the turn's own rows are gone.
        written: The latest write up to the place.
        turns_written: All turns of the line that wrote the key.
        spans_written: The same, those together that came in one input.
        earlier_unknown: Rows that are no longer kept wrote it too; in which turns cannot be told.
        total: Turns of the thread.
        retained: The turns whose end can be read.
        stored: What is stored where the value cannot be read: type, bytes, hash.
        nearest: Names like the one that was not found.
        plain: The value stands in clear in a thread of which other rows are encrypted.
        shared_with: Checkpoints on other branches that wrote the same version before, so that the value is theirs.
    """

    outcome: Outcome
    key: str
    message: str = ""
    channel: str | None = None
    turn: int | None = None
    together: tuple[int, ...] = ()
    at_start: bool = False
    value: Any = None
    entry: Any = None
    has_entry: bool = False
    checkpoint: str | None = None
    borrowed: bool = False
    written: Written | None = None
    turns_written: tuple[int, ...] = ()
    spans_written: tuple[tuple[int, ...], ...] = ()
    earlier_unknown: bool = False
    total: int | None = None
    retained: tuple[int, ...] = ()
    stored: Mapping[str, Any] = field(default_factory=dict)
    nearest: tuple[str, ...] = ()
    plain: bool = False
    shared_with: tuple[str, ...] = ()


# Where to read.


def turn_place(history: ThreadHistory, number: int, *, at_start: bool = False) -> Place | Miss:
    """The row with the state as turn ``number`` ended, or as it began.

    Args:
        history: The thread.
        number: From 0; -1 is the last turn, -2 the one before.
        at_start: What the turn began with: the end of the one before.
    """
    turns = history.turns
    wanted = turns.total + 1 + number if number < 0 else number
    if at_start and wanted == 0:
        return Miss("no_such_turn", "turn 0 is the state before the first question: it has no start", number)
    if not 0 <= wanted <= turns.total:
        return Miss("no_such_turn", turns_had(history), number)
    row = _start_row(history, turns.turns[wanted]) if at_start else turns.turns[wanted].end
    if row is None and _never_recorded(history, wanted - at_start):
        what = "the first run was saved in one row, and the state before it never"
        return Miss("no_such_turn", what, wanted)
    if row is None:
        words = _retained_words(history, turns.turns[wanted], at_start=at_start)
        return Miss("turn_no_longer_retained", words, wanted)
    return Place(row, wanted, at_start)


def turns_had(history: ThreadHistory) -> str:
    """How many turns the line has had, and how sure that is: ``the branch has had at least 2 turns``."""
    sure = {"exact": "", "at_least": "at least ", "estimate": "about "}[history.turns.total_is]
    what = "branch" if history.is_branch else "thread"
    return f"the {what} has had {sure}{counted(history.turns.total, 'turn')}"


def _never_recorded(history: ThreadHistory, turn: int) -> bool:
    """Whether turn 0 is meant and no row ever held it, as ``durability="exit"`` has it."""
    line = history.line
    cleared = line.front_missing and not line.front_dangling
    return turn == 0 and cleared and history.conversation.in_first_run(line.rows[0].id)


def _start_row(history: ThreadHistory, turn: Turn) -> int | None:
    """The turn's own input row, which holds the state it found; else the row where the turn before it ended."""
    if turn.first is not None and history.line.rows[turn.first].source == "input" and not turn.inherited:
        return turn.first
    first_of_its_input = min(turn.asked_with, default=turn.number)
    return history.turns.turns[first_of_its_input - 1].end


def _retained_words(history: ThreadHistory, turn: Turn, *, at_start: bool) -> str:
    if at_start and turn.retained:
        return pruned_words(history, f"the start of turn {turn.number} was pruned, its end is kept")
    more = "" if turn.last is None else f"; the last row kept of it is {history.line.rows[turn.last].id}"
    what = f"turn {turn.number}" if turn.number else end_words(0)
    return pruned_words(history, f"{what} was pruned", more)


def end_words(turn: int) -> str:
    """The state with which a turn ended, in words."""
    return f"the end of turn {turn}" if turn else "the state before the first question"


def pruned_words(history: ThreadHistory, what: str, more: str = "") -> str:
    """What was pruned, what can still be read, and what else may tell."""
    can = ", ".join(map(str, history.turns.retained)) or "none"
    words = f"{what}; turns that can be read: {can}{more}"
    if gone := orphaned(history):
        words += f"; {counted(len(gone), 'deleted checkpoint')} left writes behind, see gaps --writes"
    return words


def checkpoint_place(history: ThreadHistory, checkpoint: str) -> Place:
    """A row of the line by its whole id."""
    row = history.line.index[checkpoint]
    return Place(row, max(history.turns.at_row(row)), named="checkpoint")


def time_place(history: ThreadHistory, moment: datetime) -> Place | Miss:
    """The row that was the line's last at a moment."""
    times = history.row_times()
    rows = [i for i, time in enumerate(times) if time is not None and time <= moment]
    if rows:
        return Place(rows[-1], max(history.turns.at_row(rows[-1])), named="time")
    first = next((time for time in times if time is not None), None)
    if first is None:
        return Miss("no_such_turn", "no checkpoint of this thread carries a time")
    if history.line.front_missing:
        return Miss("turn_no_longer_retained", f"the first row kept is of {iso(first)}")
    return Miss("no_such_turn", f"the thread began at {iso(first)}")


# What stands there.


def read(
    history: ThreadHistory, name: str, place: Place | Miss, *, internal: bool = False, reveal: bool = False
) -> Reading:
    """One key's value at a place.

    Args:
        history: The thread.
        name: The key as the user typed it.
        place: Where to read.
        internal: LangGraph's own channels may be named.
        reveal: Show secrets.

    Raises:
        keys.AmbiguousKey: Two channels have an entry of that name.
    """
    if isinstance(place, Miss):
        return _missed(history, name, place)
    return _read_at(history, name, place, _state(history, place, name), internal=internal, reveal=reveal)


def read_all(
    history: ThreadHistory, pattern: str, place: Place | Miss, *, internal: bool = False, reveal: bool = False
) -> list[Reading]:
    """Every key that matches a glob and has a value at a place, by channel, entries in stored order.

    Where none has, the keys that match and have a value at another time, each with its absence.
    """
    if isinstance(place, Miss):
        return [_missed(history, pattern, place)]
    state = dict(sorted(_state(history, place, None).items(), key=lambda item: item[0]))
    names = key_names.display_names(key_names.all_keys(state, None if internal else history.is_internal))
    wanted = key_names.matching(pattern, names)
    index = versions_by_key(history, {key.channel for key in wanted}, at=place.row) if wanted else None
    if not wanted:  # keys that the thread has at another time
        known = _known(history, state, versions_by_key(history), internal=internal)
        names = key_names.display_names(sorted(known, key=lambda key: key.full_name))
        wanted = key_names.matching(pattern, names)
    return [
        _read_at(history, names[key], place, state, internal=internal, reveal=reveal, index=index)
        for key in wanted
    ]


def _missed(history: ThreadHistory, name: str, miss: Miss) -> Reading:
    return Reading(
        miss.outcome,
        name,
        miss.message,
        turn=miss.turn,
        total=history.turns.total,
        retained=history.turns.retained,
    )


def _state(history: ThreadHistory, place: Place, name: str | None) -> Mapping[str, Stored | Absent]:
    """The payloads of a row; of one channel only where ``name`` is that of a channel."""
    checkpoint = history.line.rows[place.row].id
    if name is not None and not key_names.is_glob(name):
        found = history.values(checkpoint, [name])
        if isinstance(found.get(name), Stored):
            return found
    return history.values(checkpoint)


def _read_at(
    history: ThreadHistory,
    name: str,
    place: Place,
    state: Mapping[str, Stored | Absent],
    *,
    internal: bool,
    reveal: bool,
    index: Mapping[Key, Sequence[Version]] | None = None,
) -> Reading:
    turns = history.turns
    base = Reading(
        "value",
        name,
        turn=place.turn,
        together=() if place.turn is None else turns.together(place.turn),
        at_start=place.at_start,
        checkpoint=history.line.rows[place.row].id,
        borrowed=place.turn is not None and not place.at_start and _is_borrowed(history, place),
        total=turns.total,
        retained=turns.retained,
    )
    here = key_names.all_keys(state, None if internal else history.is_internal)
    key = key_names.find(name, here)
    if key is None or isinstance(state.get(key.channel), Absent):
        return _not_here(history, name, place, base, state, internal=internal)
    if index is None:
        index = versions_by_key(history, [key.channel], at=place.row)
    versions = versions_of(index, key)
    base = _with_versions(history, base, key, place, versions)
    stored: Stored = state[key.channel]  # type: ignore[assignment]
    base = _replace(
        base,
        plain=not stored.encrypted and is_encrypted(history),
        shared_with=shared_with(history, key.channel, base.checkpoint or ""),
    )
    value = decode(stored, reveal=reveal)
    if isinstance(value, Absent):
        return _replace(base, outcome=value.kind, stored=value.stored, message=_stored_words(value))
    if key.entry is None:
        return _replace(base, value=value)
    _, item = key_names.entry_of(value, key.entry)
    if isinstance(item, Absent):
        return _replace(base, outcome=item.kind, stored=item.stored, message=_stored_words(item))
    shown, has_entry = key_names.shown_value(item)
    return _replace(base, value=shown, entry=item if has_entry else None, has_entry=has_entry)


def _is_borrowed(history: ThreadHistory, place: Place) -> bool:
    turn = history.turns.turns[place.turn or 0]
    return turn.number > 0 and turn.end == place.row and turn.borrowed


def _not_here(
    history: ThreadHistory,
    name: str,
    place: Place,
    base: Reading,
    state: Mapping[str, Stored | Absent],
    *,
    internal: bool,
) -> Reading:
    """The key has no value in the row: it may be unreadable, not written yet, removed, or never have been."""
    if "*" in state and isinstance(damage := state["*"], Absent):
        return _replace(base, outcome=damage.kind, stored=damage.stored, message=_stored_words(damage))
    index = versions_by_key(history)
    known = _known(history, state, index, internal=internal)
    key = key_names.find(name, known)
    if key is None:
        return _no_such_key(base, name, known)
    if history.is_internal(key.channel):
        index = versions_by_key(history, [key.channel])
    versions = index.get(key, [])
    base = _with_versions(history, base, key, place, versions)
    absent = state.get(key.channel)
    if isinstance(absent, Absent) and absent.kind != "empty":
        return _replace(base, outcome=absent.kind, stored=absent.stored, message=_stored_words(absent))
    earlier = [v for v in versions if v.row <= place.row]
    if earlier:
        return _replace(
            base,
            outcome="removed",
            message=f"written before, and no longer there as of {_place_words(place)}",
        )
    if not versions and key.entry is not None and isinstance(absent, Stored):
        words = f"{key.channel} has no such entry as of {_place_words(place)}"
        return _replace(base, outcome="not_yet_written", message=words)
    first = turns_of(history, versions)
    when = f"; first written in turn {first[0]}" if first else ""
    return _replace(
        base, outcome="not_yet_written", message=f"nothing up to {_place_words(place)} had written it{when}"
    )


def _known(
    history: ThreadHistory,
    state: Mapping[str, Stored | Absent],
    index: Mapping[Key, Sequence[Version]],
    *,
    internal: bool,
) -> set[Key]:
    """Every key that the thread is known to have had: what was written, and what a row and the tip hold."""
    tip = history.values(history.line.rows[-1].id)
    channels = {channel for channel in {*state, *tip} if channel != "*"}
    return {
        *index,
        *key_names.all_keys(tip, None if internal else history.is_internal),
        *key_names.all_keys(state, None if internal else history.is_internal),
        *(Key(channel) for channel in channels if internal or not history.is_internal(channel)),
    }


def _no_such_key(base: Reading, name: str, known: Collection[Key]) -> Reading:
    names = list(key_names.display_names(known).values())
    nearest = tuple(key_names.nearest(name, {*names, *(key.full_name for key in known)}))
    few = sorted(names)[:_FEW_NAMES]
    more = f" and {len(names) - len(few)} more" if len(names) > len(few) else ""
    exists = f"; it has: {', '.join(few)}{more}" if few else "; it has none"
    hint = f"; nearest: {', '.join(nearest)}" if nearest else exists
    return _replace(
        base, outcome="no_such_key", message=f"the thread has no key {name!r}{hint}", nearest=nearest
    )


def _with_versions(
    history: ThreadHistory, base: Reading, key: Key, place: Place, versions: Sequence[Version]
) -> Reading:
    written = turns_of(history, versions)
    return _replace(
        base,
        channel=key.channel,
        written=latest(history, versions, place.row),
        turns_written=written,
        spans_written=tuple(dict.fromkeys(map(history.turns.together, written))),
        earlier_unknown=any(version.lost for version in versions),
    )


def _stored_words(absent: Absent) -> str:
    stored = absent.stored
    parts = [str(stored[k]) for k in ("reason",) if stored.get(k)]
    if "writes" in stored:  # what a value that is kept as deltas would be rebuilt from
        since = f"since the snapshot in {stored['snapshot']}" if "snapshot" in stored else "and no snapshot"
        return ", ".join([*parts, f"{counted(stored['writes'], 'write')} {since}"])
    parts += [f"{k} {stored[k]}" for k in ("type", "bytes", "version", "sha256") if stored.get(k) is not None]
    return ", ".join(parts)


def _place_words(place: Place) -> str:
    if place.named != "turn":
        return "this checkpoint" if place.named == "checkpoint" else "that time"
    return f"the {'start' if place.at_start else 'end'} of turn {place.turn}"


def _replace(reading: Reading, **changes: Any) -> Reading:
    from dataclasses import replace

    return replace(reading, **changes)
