"""What changed in a thread's state between two places: one report, key by key.

Payloads are compared as bytes first; only what differs is decoded. An absence is compared by its kind and by
what is stored, and never passes for a removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from turnstate.history import keys as key_names
from turnstate.history.diff import Operation, diff, masked, masked_operations
from turnstate.history.generated import without_generated_ids
from turnstate.history.jsonform import jsonable
from turnstate.history.keys import Key
from turnstate.history.places import Miss, Place
from turnstate.history.reading import read
from turnstate.history.thread import History
from turnstate.history.turns import Turns
from turnstate_backends.interface import damage_of
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored

_UNREADABLE = ("value_missing", "encrypted", "undecodable", "delta_unresolved")

_Part = Stored | Absent | None
"""A key's payload at one end; None where the key is not there."""


class End(Struct, frozen=True):
    """One end of a comparison.

    Attributes:
        turn: The turn whose end the row shows, or that it lies in; None before the first.
        checkpoint: The row that was read.
        borrowed: It is the next turn's input row, the turn's own rows being gone.
        at_fork: It is the last row that a branch shares with the head's line.
        on_branch: It was read on another line than the head's.
    """

    turn: int | None
    checkpoint: str
    borrowed: bool = False
    at_fork: bool = False
    on_branch: bool = False


class KeyChange(Struct, frozen=True):
    """One key that is not the same at both ends.

    Attributes:
        key: Channel and entry.
        name: Its shortest unambiguous address.
        change: ``added`` and ``removed`` where it is not there at one end, else ``changed``.
        old: The JSON form at the first end; an absence is ``{"$absent": …}``. None for ``added``.
        new: The same at the second end. None for ``removed``.
        operations: What makes ``old`` into ``new``.
        entry: What else changed in the entry, where ``old`` and ``new`` are only its ``value`` field.
        old_size: Bytes of the payload; None where there is none or that cannot be told.
        new_size: The same at the second end.
    """

    key: Key
    name: str
    change: Literal["added", "removed", "changed"]
    old: Any
    new: Any
    operations: tuple[Operation, ...]
    entry: tuple[Operation, ...] = ()
    old_size: int | None = None
    new_size: int | None = None

    @property
    def absences(self) -> tuple[str, ...]:
        """The kinds of the absences that stand for the value, at most one per end."""
        return tuple(kind for form in (self.old, self.new) if (kind := _absence(form)))


class Incomparable(Struct, frozen=True):
    """A key that can be read at neither end, and nothing tells whether it is the same.

    Attributes:
        key: Channel and entry.
        name: Its shortest unambiguous address.
        old: The absence's JSON form at the first end.
        new: The same at the second end.
    """

    key: Key
    name: str
    old: Any
    new: Any


class DiffReport(Struct, frozen=True):
    """What changed between two ends.

    Attributes:
        thread: ``thread_id``.
        ns: ``checkpoint_ns``.
        asked: The key or pattern that was asked for; None for all keys.
        old: The first end.
        new: The second end.
        turns: The turns of the second end's line.
        changes: By channel, then by entry.
        incomparable: The same order.
        nowhere: The key that was asked for is known, but there at neither end.
    """

    thread: str
    ns: str
    asked: str | None
    old: End
    new: End
    turns: Turns
    changes: tuple[KeyChange, ...]
    incomparable: tuple[Incomparable, ...] = ()
    nowhere: bool = False


class Standpoint(Struct, frozen=True):
    """A place and the history of the line that it lies on; ``at_fork`` as in :class:`End`."""

    history: History
    place: Place
    at_fork: bool = False

    @property
    def checkpoint(self) -> str:
        return self.history.line.rows[self.place.row].id

    @property
    def end(self) -> End:
        turn = self.place.turn
        turns = self.history.turns.turns
        # A row that was named by its id is nobody's substitute.
        borrowed = bool(turn and turns[turn].borrowed and turns[turn].end == self.place.row)
        return End(turn, self.checkpoint, borrowed, self.at_fork, self.history.is_branch)


def diff_report(
    old: Standpoint,
    new: Standpoint,
    asked: str | None = None,
    *,
    internal: bool = False,
    reveal: bool = False,
    ids: bool = True,
) -> DiffReport | Miss:
    """What changed from one place to another of the same namespace.

    Args:
        old: The first end.
        new: The second; its line may be another one, of another thread or store.
        asked: A key or a pattern; all keys when None.
        internal: LangGraph's own channels too.
        reveal: Show secrets. They are compared by their content either way.
        ids: Compare the ids that a run makes up for its messages too, see :mod:`turnstate.history.generated`. Without
            them operations are for the values without them.

    Returns:
        The report; ``no_such_key``, or why a checkpoint as a whole cannot be read.

    Raises:
        keys.AmbiguousKey: Two channels have an entry of the name that was asked for.
    """
    states = _states(old, new, asked)
    for standpoint, state in zip((old, new), states, strict=True):
        if damage := damage_of(state):
            why = damage.stored.get("reason") or "its payload cannot be read"
            words = f"checkpoint {standpoint.checkpoint}: {why}"
            return Miss(
                damage.kind if damage.kind != "empty" else "undecodable", words, standpoint.place.turn
            )
    known = list(dict.fromkeys(key for state in states for key in key_names.all_keys(state)))
    names = key_names.display_names(known)
    shown = [key for key in known if internal or not _is_internal(old, new, key)]
    wanted, alone = _wanted(known, shown, asked)
    nowhere = False
    if asked is not None and not wanted:
        missed = [read(each.history, asked, each.place, internal=internal) for each in (new, old)]
        if all(reading.outcome == "no_such_key" for reading in missed):
            return Miss("no_such_key", missed[0].message)
        unread = next((reading for reading in missed if reading.outcome in _UNREADABLE), None)
        if unread is not None:
            return Miss(unread.outcome, f"{asked} can be read at neither end: {unread.message}")
        nowhere = True
    found = list(_compared(old, new, states, wanted, names, alone=alone, reveal=reveal, ids=ids))
    return DiffReport(
        new.history.thread,
        new.history.ns,
        asked,
        old.end,
        new.end,
        new.history.turns,
        tuple(each for each in found if isinstance(each, KeyChange)),
        tuple(each for each in found if isinstance(each, Incomparable)),
        nowhere,
    )


# What is compared.


def _is_internal(old: Standpoint, new: Standpoint, key: Key) -> bool:
    return any(each.history.is_internal(key.channel) for each in (old, new))


def _states(old: Standpoint, new: Standpoint, asked: str | None) -> list[Mapping[str, Stored | Absent]]:
    """The payloads of both rows, without what is not there; of one channel only where ``asked`` is that of one."""
    ends = (old, new)
    if asked is not None and not key_names.is_glob(asked):
        states = [_state(end, [asked]) for end in ends]
        if all(isinstance(state.get(asked), Stored) for state in states):
            return states
    return [_state(end, None) for end in ends]


def _state(at: Standpoint, channels: Sequence[str] | None) -> Mapping[str, Stored | Absent]:
    found = at.history.values(at.checkpoint, channels)
    return {
        channel: stored
        for channel, stored in found.items()
        if not (isinstance(stored, Absent) and stored.kind == "empty")
    }


def _wanted(known: Sequence[Key], shown: list[Key], asked: str | None) -> tuple[list[Key], bool]:
    """The keys to compare, a mapping by its entries; and whether it is one that was asked for by name."""
    if asked is None:
        return shown, False
    if key_names.is_glob(asked) and (matched := key_names.matching(asked, shown)):
        return matched, False
    key = key_names.find(asked, shown)
    return ([], False) if key is None else ([key], True)


def _compared(
    old: Standpoint,
    new: Standpoint,
    states: Sequence[Mapping[str, Stored | Absent]],
    wanted: Sequence[Key],
    names: Mapping[Key, str],
    *,
    alone: bool,
    reveal: bool,
    ids: bool,
) -> Iterator[KeyChange | Incomparable]:
    by_channel: dict[str, list[Key]] = {}
    for key in wanted:
        by_channel.setdefault(key.channel, []).append(key)
    for channel, keys in sorted(by_channel.items()):
        a, b = (state.get(channel) for state in states)
        if _same_payload(a, b):
            continue
        for key, (part_a, part_b) in _pairs(channel, keys, a, b, alone=alone).items():
            name = names.get(key, key.name)
            found = _change(old, new, key, name, part_a, part_b, ids=ids)
            if isinstance(found, KeyChange) and not reveal:
                found = _hidden(found)
            if found is not None:
                yield found


def _pairs(
    channel: str, keys: Sequence[Key], a: _Part, b: _Part, *, alone: bool
) -> Mapping[Key, tuple[_Part, _Part]]:
    """A key's payloads at both ends: those of a mapping's entries, or the channel's where an end cannot be split.

    An entry that was asked for by name is as absent as its channel.
    """
    whole = Key(channel)
    if alone and keys == [whole]:
        return {whole: (a, b)}
    parts_a, parts_b = _entries(channel, a), _entries(channel, b)
    if parts_a is None or parts_b is None or not (parts_a or parts_b):
        if alone:
            return {key: (_entry(channel, key, a), _entry(channel, key, b)) for key in keys}
        return {whole: (a, b)}
    entries = sorted((key for key in keys if key.entry is not None), key=lambda key: key.entry or "")
    return {key: (parts_a.get(key), parts_b.get(key)) for key in entries}


def _entries(channel: str, part: _Part) -> Mapping[Key, Stored | Absent] | None:
    """The entries of a mapping, none where the channel is not there; None where it cannot be split into them."""
    if part is None:
        return {}
    found = list(key_names.parts(channel, part))
    if found[0][0].entry is None:
        return {} if key_names.is_empty_mapping(part) else None
    split = dict(found)
    return split if len(split) == len(found) else None  # two names may read the same


def _entry(channel: str, key: Key, part: _Part) -> _Part:
    if part is None or isinstance(part, Absent):
        return part
    if isinstance(value := decode(part), Absent):
        return value
    return next((each for name, each in key_names.parts(channel, part) if name == key), None)


def _same_payload(a: _Part, b: _Part) -> bool:
    return isinstance(a, Stored) and isinstance(b, Stored) and (a.type, a.data) == (b.type, b.data)


# One key.


def _change(
    old: Standpoint, new: Standpoint, key: Key, name: str, a: _Part, b: _Part, *, ids: bool
) -> KeyChange | Incomparable | None:
    if (a is None and b is None) or _same_payload(a, b):
        return None
    value_a, value_b = _decoded(a), _decoded(b)
    sizes = _size(a), _size(b)
    if isinstance(value_a, Absent) and isinstance(value_b, Absent) and value_a.kind == value_b.kind:
        same = _same_absence(old, new, key, value_a, value_b)
        if same:
            return None
        if same is None:
            return Incomparable(key, name, jsonable(value_a), jsonable(value_b))
    if a is None or b is None:
        form = jsonable(_shown(key, value_a if b is None else value_b))
        if a is None:
            added = (Operation("add", (), (), None, form),)
            return KeyChange(key, name, "added", None, form, added, (), *sizes)
        removed = (Operation("remove", (), (), form, None),)
        return KeyChange(key, name, "removed", form, None, removed, (), *sizes)
    form_a, form_b, operations, rest = sides(key, value_a, value_b, ids=ids)
    if all(each.order_only for each in (*operations, *rest)):
        return None
    return KeyChange(key, name, "changed", form_a, form_b, operations, rest, *sizes)


def sides(
    key: Key, old: Any, new: Any, *, ids: bool = True
) -> tuple[Any, Any, tuple[Operation, ...], tuple[Operation, ...]]:
    """Two values of a key by their JSON forms, what makes the one into the other, and what else changed in an entry.

    The forms are those of the ``value`` field where both are entries that are shown by it. ``ids`` as in
    :func:`diff_report`.
    """
    rest: tuple[Operation, ...] = ()
    if key.entry is not None and _has_value(old) and _has_value(new):
        others = [jsonable({k: v for k, v in each.items() if k != "value"}) for each in (old, new)]
        rest = _differences(*others, ids=ids)
        old, new = old["value"], new["value"]
    forms = jsonable(old), jsonable(new)
    return *forms, _differences(*forms, ids=ids), rest


def _differences(old: Any, new: Any, *, ids: bool) -> tuple[Operation, ...]:
    return diff(old, new) if ids else diff(without_generated_ids(old), without_generated_ids(new))


def _decoded(part: _Part) -> Any:
    """Secrets included, so that two are told apart; they are masked once they were compared."""
    return decode(part, reveal=True) if isinstance(part, Stored) else part


def _has_value(value: Any) -> bool:
    return key_names.shown_value(value)[1]


def _shown(key: Key, value: Any) -> Any:
    return value if key.entry is None else key_names.shown_value(value)[0]


def _same_absence(old: Standpoint, new: Standpoint, key: Key, a: Absent, b: Absent) -> bool | None:
    """Whether what cannot be read is the same, by its bytes, else by the channel's version; None if neither tells.

    What is encrypted differs each time it is written, also where the value does not. Versions of two stores say nothing
    about each other.
    """
    if "sha256" in a.stored and "sha256" in b.stored:
        same_bytes = bool(a.stored["sha256"] == b.stored["sha256"])
        return None if not same_bytes and a.kind == "encrypted" else same_bytes
    history = new.history
    if old.history.store is not history.store:
        return None
    ends = (old.checkpoint, new.checkpoint)
    versions = history.store.versions(history.thread, history.ns, set(ends))
    version_a, version_b = (versions.get(end, {}).get(key.channel) for end in ends)
    return True if version_a is not None and version_a == version_b else None


def _size(part: _Part) -> int | None:
    if isinstance(part, Stored):
        return part.size
    return None if part is None else part.stored.get("bytes")


def _hidden(change: KeyChange) -> KeyChange:
    return KeyChange(
        change.key,
        change.name,
        change.change,
        masked(change.old),
        masked(change.new),
        masked_operations(change.operations),
        masked_operations(change.entry),
        change.old_size,
        change.new_size,
    )


def _absence(form: Any) -> str | None:
    return form.get("$absent") if type(form) is dict else None
