"""How a channel that is kept as deltas adds them up: a few rules, each over raw payload pieces.

LangGraph runs the application's reducer (``langgraph.channels.delta.DeltaChannel``); the store does not say which it
was. A rule here is a candidate: whether it is the channel's own is for ``deltas`` to find out from snapshots.
Nothing here reads a store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from turnstate.history.messages import CLASSES, ROLES
from turnstate_backends import heads, pieces
from turnstate_backends.heads import Cut, Unreadable
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored, Tagged

REMOVE_ALL = "__remove_all__"
"""``langgraph.graph.message.REMOVE_ALL_MESSAGES``."""


_LONGEST_ROLE = 1 + max(map(len, ROLES))  # bytes: what begins a ["user", text] pair


class Unfit(Exception):
    """A rule cannot take these payloads; the text says why, without content."""


class Rule(Struct, frozen=True):
    """One way of adding up.

    Attributes:
        name: How a user names it.
        start: The state of a channel that holds nothing yet.
        load: The state that a whole value is. Raises :class:`Unfit`.
        add: A new state from one and the writes of a super-step, in their order. Raises :class:`Unfit`.
        payload: The whole value of a state.
        same: Whether a state is the value of a payload. Raises :class:`Unfit`.
    """

    name: str
    start: Callable[[], Any]
    load: Callable[[Stored], Any]
    add: Callable[[Any, Sequence[Stored]], Any]
    payload: Callable[[Any], Stored]
    same: Callable[[Any, Stored], bool]


# Lists: the state is a tuple of elements.

_List = tuple[Stored, ...]


def _elements(stored: Stored) -> _List:
    found = _looked(heads.elements, stored)
    if found is None:
        raise Unfit("it is no list")
    return tuple(found)


def _extend(state: _List, writes: Sequence[Stored]) -> _List:
    """``reducer(list, writes)``: the elements of each list, and what is no list itself."""
    added: list[Stored] = []
    for write in writes:
        found = _looked(heads.elements, write)
        added += [write] if found is None else found
    return (*state, *added)


def _append(state: _List, writes: Sequence[Stored]) -> _List:
    return (*state, *writes)


def _add_new(state: _List, writes: Sequence[Stored]) -> _List:
    """Elements that are not there yet."""
    return tuple({part.data: part for part in _extend(state, writes)}.values())


def _same_list(state: _List, stored: Stored) -> bool:
    return _alike(state, _elements(stored))


# Mappings: the state is a mapping of key bytes to values.


def _entries(stored: Stored) -> dict[bytes, Stored]:
    if _looked(heads.class_name, stored) is not None:
        raise Unfit("it is no mapping")
    found = _looked(pieces.pairs, stored)
    if found is None:
        raise Unfit("it is no mapping")
    return dict(found)


def _merge(state: Mapping[bytes, Stored], writes: Sequence[Stored]) -> dict[bytes, Stored]:
    merged = dict(state)
    for write in writes:
        if not pieces.is_nothing(write):
            merged |= _entries(write)
    return merged


def _same_mapping(state: Mapping[bytes, Stored], stored: Stored) -> bool:
    other = _entries(stored)
    return state.keys() == other.keys() and _alike(list(state.values()), [other[key] for key in state])


# Sets: the state is a mapping of member bytes to members.


def _members(stored: Stored) -> dict[bytes, Stored]:
    found = _looked(pieces.members, stored)
    if found is None:
        found = _looked(heads.elements, stored)
    if found is None:
        raise Unfit("it is no set")
    return {part.data: part for part in found}


def _set(stored: Stored) -> dict[bytes, Stored]:
    if _looked(pieces.members, stored) is None:
        raise Unfit("it is no set")
    return _members(stored)


def _union(state: Mapping[bytes, Stored], writes: Sequence[Stored]) -> dict[bytes, Stored]:
    joined = dict(state)
    for write in writes:
        joined |= _members(write)
    return joined


# Messages: the state is a tuple of them.


class _Message(Struct, frozen=True):
    """A message as its reducer sees it.

    Attributes:
        id: None where the write that brought it has none.
        removes: It takes the message of its id away.
        stored: Its payload.
    """

    id: str | None
    removes: bool
    stored: Stored


_Messages = tuple[_Message, ...]


def is_message(stored: Stored) -> bool:
    """Whether a payload is an instance of one of LangChain's message classes."""
    try:
        name = heads.class_name(stored)
    except (Unreadable, Cut):
        return False
    return name is not None and name.rpartition(".")[2] in CLASSES


def _message(stored: Stored) -> _Message | None:
    """The message that a payload is or that ``convert_to_messages`` makes of it; None for anything else."""
    name = _looked(heads.class_name, stored)
    if name is not None:
        role = CLASSES.get(name.rpartition(".")[2])
        found = _looked(pieces.fields, stored).get("id") if role else None
        given = None if found is None else decode(found)
        return _Message(_text(given), role == "remove", stored) if role else None
    value = decode(stored)
    if isinstance(value, str):
        return _Message(None, False, pieces.packed_value({"type": "human", "content": value}))
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and value[0] in ROLES:
        return _Message(None, False, pieces.packed_value({"type": ROLES[value[0]], "content": value[1]}))
    if isinstance(value, Mapping):
        role = ROLES.get(str(value.get("type"))) or ROLES.get(str(value.get("role")))
        return _Message(_text(value.get("id")), role == "remove", stored) if role else None
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _messages(stored: Stored) -> _Messages:
    """The messages of a list, or of a write that is one message."""
    found = _looked(heads.elements, stored)
    if found is None or (len(found) == 2 and found[0].size <= _LONGEST_ROLE and _message(stored) is not None):
        found = [stored]
    messages = [_message(part) for part in found]
    if None in messages:
        raise Unfit("it holds what is no message")
    return tuple(message for message in messages if message is not None)


def _loaded_messages(stored: Stored) -> _Messages:
    _elements(stored)
    return _messages(stored)


def _reduce_messages(state: _Messages, writes: Sequence[Stored]) -> _Messages:
    """Append, replace and remove by id as ``langgraph.pregel._messages._messages_delta_reducer`` does.

    It gives no ids: a message that was written without one has none, also where another reducer made one up.
    """
    brought = [message for write in writes for message in _messages(write)]
    last = max((i for i, m in enumerate(brought) if m.removes and m.id == REMOVE_ALL), default=None)
    if last is not None:
        state, brought = (), brought[last + 1 :]
    if not any(m.id is not None for m in brought):
        return (*state, *brought)
    result: list[_Message | None] = list(state)
    at = {m.id: i for i, m in enumerate(state) if m.id is not None}
    nameless = any(m.id is None for m in state)
    for message in brought:
        if message.id is None:
            nameless = True
            result.append(message)
        elif message.removes:
            place = at.pop(message.id, None)
            if place is not None:
                result[place] = None
            elif nameless:
                raise Unfit("a message is removed by an id that no write gave to it")
        elif message.id in at:
            result[at[message.id]] = message
        else:
            at[message.id] = len(result)
            result.append(message)
    return tuple(message for message in result if message is not None)


def _same_messages(state: _Messages, stored: Stored) -> bool:
    other = _loaded_messages(stored)
    return len(state) == len(other) and all(map(_is_same_message, state, other))


def _is_same_message(rebuilt: _Message, kept: _Message) -> bool:
    """Equal, or equal in what the reducer leaves as it is: role and content, and the id where one was written."""
    if rebuilt.stored.data == kept.stored.data:
        return True
    if rebuilt.id is not None and rebuilt.id != kept.id:
        return False
    return _role_and_content(rebuilt.stored) == _role_and_content(kept.stored)


def _role_and_content(stored: Stored) -> tuple[object, object]:
    value = decode(stored)
    if isinstance(value, Tagged):
        fields = value.value if isinstance(value.value, Mapping) else {}
        return CLASSES.get(value.type.rpartition(".")[2]), fields.get("content")
    fields = value if isinstance(value, Mapping) else {}
    role = ROLES.get(str(fields.get("type"))) or ROLES.get(str(fields.get("role")))
    return role, fields.get("content")


# What holds for any of them.


def overwritten(stored: Stored) -> Stored | None:
    """The value inside an ``Overwrite``; None for any other write. Raises :class:`Unfit`."""
    found: Stored | None = _looked(pieces.overwritten, stored)
    return found


def _looked(look: Callable[[Stored], Any], stored: Stored) -> Any:
    try:
        return look(stored)
    except (Unreadable, Cut) as error:
        raise Unfit(str(error) or "it ends early") from None


def _alike(ours: Sequence[Stored], theirs: Sequence[Stored]) -> bool:
    """Equal pieces; where bytes differ, a writer may only have chosen another form for the same value."""
    return len(ours) == len(theirs) and all(
        a.data == b.data or decode(a) == decode(b) for a, b in zip(ours, theirs, strict=True)
    )


def _array_of(state: _List) -> Stored:
    return pieces.array(state)


MESSAGES = Rule(
    "messages",
    tuple,
    _loaded_messages,
    _reduce_messages,
    lambda state: pieces.array([m.stored for m in state]),
    _same_messages,
)
EXTEND = Rule("extend", tuple, _elements, _extend, _array_of, _same_list)
APPEND = Rule("append", tuple, _elements, _append, _array_of, _same_list)
ADD_NEW = Rule("add-new", tuple, _elements, _add_new, _array_of, _same_list)
MERGE = Rule(
    "merge", dict, _entries, _merge, lambda state: pieces.mapping(list(state.items())), _same_mapping
)
UNION = Rule(
    "union",
    dict,
    _set,
    _union,
    lambda state: pieces.set_of(list(state.values())),
    lambda state, stored: state.keys() == _set(stored).keys(),
)
REPLACE = Rule(
    "replace",
    lambda: Stored("msgpack", b"\xc0", 1),
    lambda stored: stored,
    lambda _, writes: writes[-1],
    lambda state: state,
    lambda state, stored: _alike([state], [stored]),
)
RULES: Mapping[str, Rule] = {
    rule.name: rule for rule in (MESSAGES, EXTEND, APPEND, ADD_NEW, MERGE, UNION, REPLACE)
}
"""Every rule by the name that a user gives it."""
GUESSES = (EXTEND, APPEND, ADD_NEW, MERGE, UNION, REPLACE)
"""The rules that only count where snapshots prove them."""


def called(name: str, function: Callable[[Any, Sequence[Any]], Any]) -> Rule:
    """A rule that calls the user's own function with plain data.

    Args:
        name: How the user named it.
        function: ``function(old, writes) -> new``: ``old`` is the value before (an empty list, dict or set where there
            is none yet, by the form of the first write), ``writes`` the super-step's writes in order. Sets come as
            sets; other instances as :class:`turnstate_backends.values.Tagged` with their class name and fields. What it
            returns must be made of the same.
    """

    def add(state: Any, writes: Sequence[Stored]) -> Any:
        brought = [_plain(write) for write in writes]
        if state is None:
            state = type(brought[0])() if isinstance(brought[0], (list, dict, set)) else None
        try:
            return function(state, brought)
        except Unfit:
            raise
        except Exception as error:  # its text may hold content: whoever hands the function in says more
            raise Unfit(f"{name} raised {type(error).__name__}") from None

    def payload(state: Any) -> Stored:
        try:
            return pieces.packed_value(state)
        except (TypeError, RecursionError) as error:
            raise Unfit(f"{name} returned what is no plain data: {error}") from None

    def same(state: Any, stored: Stored) -> bool:
        return bool(_plain(payload(state)) == _plain(stored))

    return Rule(name, lambda: None, _plain, add, payload, same)


def _plain(stored: Stored) -> Any:
    value = decode(stored)
    if isinstance(value, Absent):
        raise Unfit(str(value.stored.get("reason", value.kind)))
    return _with_sets(value)


def _with_sets(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_sets(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_sets(item) for key, item in value.items()}
    if isinstance(value, Tagged) and value.type in pieces.SETS and isinstance(value.value, list):
        try:
            return {"builtins.set": set, "builtins.frozenset": frozenset}[value.type](value.value)
        except TypeError:
            return value
    return value
