"""A read and its outcome: a key's value as of a turn, or which kind of absence stands there.

The value, a turn that never was and a turn that is no longer kept are never confused; see :data:`Outcome`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history import keys as key_names
from turnstate.history.keys import Key
from turnstate.history.phrases import counted
from turnstate.history.places import Miss, Place, place_words
from turnstate.history.sealing import is_encrypted
from turnstate.history.sharing import shared_with
from turnstate.history.thread import History
from turnstate.history.versions import Version, Written, latest, turns_of, versions_by_key, versions_of
from turnstate_backends.interface import WHOLE, damage_of
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored

_FEW_NAMES = 8  # that a message lists
_FEW_LIKE = 3

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
"""How a read ends. ``value``: it is there. ``no_such_thread``, ``no_such_turn``, ``no_such_key``: the thread never
had it. ``not_yet_written``, ``removed``: nothing had written the key by then, or it was gone.
``turn_no_longer_retained``: the turn was, and has been pruned. The last four: it is stored, and cannot be read."""


class Reading(Struct, frozen=True):
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
    stored: Mapping[str, Any] = {}
    nearest: tuple[str, ...] = ()
    plain: bool = False
    shared_with: tuple[str, ...] = ()


def read(
    history: History, name: str, place: Place | Miss, *, internal: bool = False, reveal: bool = False
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
    history: History, pattern: str, place: Place | Miss, *, internal: bool = False, reveal: bool = False
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


def _missed(history: History, name: str, miss: Miss) -> Reading:
    return Reading(
        miss.outcome,
        name,
        miss.message,
        turn=miss.turn,
        total=history.turns.total,
        retained=history.turns.retained,
    )


def _state(history: History, place: Place, name: str | None) -> Mapping[str, Stored | Absent]:
    """The payloads of a row; of one channel only where ``name`` is that of a channel."""
    checkpoint = history.line.rows[place.row].id
    if name is not None and not key_names.is_glob(name):
        found = history.values(checkpoint, [name])
        if isinstance(found.get(name), Stored):
            return found
    return history.values(checkpoint)


def _read_at(
    history: History,
    name: str,
    place: Place,
    state: Mapping[str, Stored | Absent],
    *,
    internal: bool,
    reveal: bool,
    index: Mapping[Key, Sequence[Version]] | None = None,
) -> Reading:
    base = at_place(history, Reading("value", name), place)
    here = key_names.all_keys(state, None if internal else history.is_internal)
    key = key_names.find(name, here)
    if key is None or isinstance(state.get(key.channel), Absent):
        return _not_here(history, name, place, base, state, internal=internal)
    if index is None:
        index = versions_by_key(history, [key.channel], at=place.row)
    versions = versions_of(index, key)
    base = _with_versions(history, base, key, place, versions)
    stored: Stored = state[key.channel]  # type: ignore[assignment]
    base = replace(
        base,
        plain=not stored.encrypted and is_encrypted(history),
        shared_with=shared_with(history, key.channel, base.checkpoint or ""),
    )
    value = decode(stored, reveal=reveal)
    if isinstance(value, Absent):
        return _unread(base, value)
    if key.entry is None:
        return replace(base, value=value)
    _, item = key_names.entry_of(value, key.entry)
    if isinstance(item, Absent):
        return _unread(base, item)
    shown, has_entry = key_names.shown_value(item)
    return replace(base, value=shown, entry=item if has_entry else None, has_entry=has_entry)


def at_place(history: History, reading: Reading, place: Place) -> Reading:
    """A reading as one of another place, up to which nothing touched the key."""
    turns = history.turns
    return replace(
        reading,
        turn=place.turn,
        together=() if place.turn is None else turns.together(place.turn),
        at_start=place.at_start,
        checkpoint=history.line.rows[place.row].id,
        borrowed=place.turn is not None and not place.at_start and _is_borrowed(history, place),
        total=turns.total,
        retained=turns.retained,
    )


def _is_borrowed(history: History, place: Place) -> bool:
    turn = history.turns.turns[place.turn or 0]
    return turn.number > 0 and turn.end == place.row and turn.borrowed


def _not_here(
    history: History,
    name: str,
    place: Place,
    base: Reading,
    state: Mapping[str, Stored | Absent],
    *,
    internal: bool,
) -> Reading:
    """The key has no value in the row: it may be unreadable, not written yet, removed, or never have been."""
    if damage := damage_of(state):
        return _unread(base, damage)
    index = versions_by_key(history)
    known = _known(history, state, index, internal=internal)
    key = key_names.find(name, known)
    if key is None:
        own = history.is_internal(name) and name in history.channels()
        return _no_such_key(base, name, known, own=own)
    if history.is_internal(key.channel):
        index = versions_by_key(history, [key.channel])
    versions = index.get(key, [])
    base = _with_versions(history, base, key, place, versions)
    absent = state.get(key.channel)
    if isinstance(absent, Absent) and absent.kind != "empty":
        return _unread(base, absent)
    if not versions and key.entry is not None and isinstance(absent, Stored):
        words = f"{key.channel} has no such entry as of {place_words(place)}"
        return replace(base, outcome="not_yet_written", message=words)
    return _without_value(history, base, place, versions)


def absent_at(history: History, name: str, key: Key, place: Place, versions: Sequence[Version]) -> Reading:
    """The reading of a key that is known, and that a place has nothing of.

    Args:
        history: The thread.
        name: The key's address.
        key: The key.
        place: Where to read.
        versions: Those of the key, on the whole line.
    """
    base = at_place(history, Reading("value", name), place)
    return _without_value(history, _with_versions(history, base, key, place, versions), place, versions)


def _without_value(history: History, base: Reading, place: Place, versions: Sequence[Version]) -> Reading:
    if any(version.row <= place.row for version in versions):
        words = f"written before, and no longer there as of {place_words(place)}"
        return replace(base, outcome="removed", message=words)
    first = turns_of(history, versions)
    when = f"; first written in turn {first[0]}" if first else ""
    words = f"nothing up to {place_words(place)} had written it{when}"
    return replace(base, outcome="not_yet_written", message=words)


def _known(
    history: History,
    state: Mapping[str, Stored | Absent],
    index: Mapping[Key, Sequence[Version]],
    *,
    internal: bool,
) -> set[Key]:
    """Every key that the thread is known to have had: what was written, and what a row and the tip hold."""
    tip = history.values(history.line.rows[-1].id)
    channels = {channel for channel in {*state, *tip} if channel != WHOLE}
    return {
        *index,
        *key_names.all_keys(tip, None if internal else history.is_internal),
        *key_names.all_keys(state, None if internal else history.is_internal),
        *(Key(channel) for channel in channels if internal or not history.is_internal(channel)),
    }


def _no_such_key(base: Reading, name: str, known: Collection[Key], *, own: bool) -> Reading:
    if own:
        message = (
            f"the thread's state has no key {name!r}; a channel of LangGraph's own has that name: see --all"
        )
        return replace(base, outcome="no_such_key", message=message)
    shown = key_names.display_names(known)
    names = list(shown.values())
    whose = {each: key for key in known for each in (key.full_name, shown[key])}
    like: dict[Key, str] = {}
    for each in key_names.nearest(name, whose, len(whose)):  # a key has two names, and is listed once
        like.setdefault(whose[each], each)
    nearest = tuple(like.values())[:_FEW_LIKE]
    few = sorted(names)[:_FEW_NAMES]
    more = f" and {len(names) - len(few)} more" if len(names) > len(few) else ""
    exists = f"; it has: {', '.join(few)}{more}" if few else "; it has none"
    hint = f"; nearest: {', '.join(nearest)}" if nearest else exists
    return replace(
        base, outcome="no_such_key", message=f"the thread has no key {name!r}{hint}", nearest=nearest
    )


def _with_versions(
    history: History, base: Reading, key: Key, place: Place, versions: Sequence[Version]
) -> Reading:
    written = turns_of(history, versions)
    return replace(
        base,
        channel=key.channel,
        written=latest(history, versions, place.row),
        turns_written=written,
        spans_written=tuple(dict.fromkeys(map(history.turns.together, written))),
        earlier_unknown=any(version.lost for version in versions),
    )


def _unread(base: Reading, absent: Absent) -> Reading:
    """What is stored and cannot be read; a payload that holds nothing where a value must be is one of them."""
    outcome: Outcome = "undecodable" if absent.kind == "empty" else absent.kind
    return replace(base, outcome=outcome, stored=absent.stored, message=_stored_words(absent))


def _stored_words(absent: Absent) -> str:
    stored = absent.stored
    parts = [str(stored[k]) for k in ("reason",) if stored.get(k)]
    if "writes" in stored:  # what a value that is kept as deltas would be rebuilt from
        since = f"since the snapshot in {stored['snapshot']}" if "snapshot" in stored else "and no snapshot"
        return ", ".join([*parts, f"{counted(stored['writes'], 'write')} {since}"])
    parts += [f"{k} {stored[k]}" for k in ("type", "bytes", "version", "sha256") if stored.get(k) is not None]
    return ", ".join(parts)
