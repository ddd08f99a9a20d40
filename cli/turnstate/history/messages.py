"""What a stored message is: its role, id and text, in every form that LangChain or an application stores.

Decodes human messages and nothing else: of an AI or tool message only the class is looked at. Knows no
turns; which human message is a question is decided in ``questions``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnstate_backends import heads
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored, Tagged

Role = Literal["human", "ai", "tool", "system", "remove", "other"]

ROLES: Mapping[str, Role] = {
    "human": "human",
    "user": "human",
    "ai": "ai",
    "assistant": "ai",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
    "remove": "remove",
}
_CLASS_ROLES: Mapping[str, Role] = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "ToolMessage": "tool",
    "FunctionMessage": "tool",
    "SystemMessage": "system",
    "RemoveMessage": "remove",
}
CLASSES = {f"{name}{suffix}": role for name, role in _CLASS_ROLES.items() for suffix in ("", "Chunk")}
_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=repr)  # made once, not per message
_OVERWRITE = "langgraph.types.Overwrite"


class Message(Struct, frozen=True):
    """One message of a list, decoded as far as turns need it.

    Attributes:
        role: Who speaks; ``remove`` for a RemoveMessage, ``other`` for what is no message.
        id: The message's id; None when it has none, or when the role is not human.
        name: A human message's ``name``: sub-agents and reflection nodes set it.
        text: A human message's text; other content blocks stand as ``[image]`` and the like.
        content: What two human messages are compared by: the content as canonical JSON.
        summary: Tagged by summarisation middleware (``additional_kwargs.lc_source``).
        bare: It is only a text. A message reducer makes a human message of it; a plain list keeps a text.
        raw: The message's payload, to tell an unchanged one without decoding it.
    """

    role: Role
    id: str | None = None
    name: str | None = None
    text: str = ""
    content: str = ""
    summary: bool = False
    bare: bool = False
    raw: bytes = b""


_NONE: Mapping[bytes, Message] = {}


class _Spoken(Struct):
    """A human message as nearly all are: what it says is one text."""

    content: str
    id: str | None = None
    name: str | None = None
    additional_kwargs: dict[str, Any] = {}


class MessageList(Struct, frozen=True):
    """The messages of a channel, or of one write to it.

    Attributes:
        messages: In stored order.
        replaces: The write said ``Overwrite``: it does not add to the list, it becomes the list.
        ambiguous: Two texts, the first of them a role: one message as a pair, or two messages.
    """

    messages: tuple[Message, ...]
    replaces: bool = False
    ambiguous: bool = False


class NotMessages(Exception):
    """The value of the channel is not a list of messages, or cannot be read; the text says which."""


def read_messages(stored: Stored | Absent, known: Mapping[bytes, Message] = _NONE) -> MessageList:
    """Messages of a channel's value or of a write to the channel, in any stored form.

    Args:
        stored: The payload.
        known: Messages by their payloads of the same type, which are not read again.

    Raises:
        heads.Cut: Only a head of the payload was read, and it ends too early.
        NotMessages: Nothing in the value is a message.
    """
    if isinstance(stored, Absent):
        if stored.kind == "empty":
            return MessageList(())
        raise NotMessages(stored.kind)
    if stored.type == "null":
        return MessageList(())
    try:
        parts = heads.elements(stored)
        if parts is None and heads.class_name(stored) == _OVERWRITE:
            return MessageList(_of_plain_list(_overwritten(stored)), replaces=True)
    except heads.Unreadable as error:
        raise NotMessages(str(error)) from None
    if parts is None:
        return _of_one(stored)
    if _is_pair(parts):
        return replace(_of_one(stored), ambiguous=True)
    return MessageList(tuple(known.get(part.data) or _message(part) for part in parts))


def read_after(stored: Stored, old: Stored, messages: MessageList) -> MessageList:
    """:func:`read_messages` of a list that may have much of another: none of that is read again.

    Args:
        stored: The list's payload.
        old: A payload that was read.
        messages: What was read of it.
    """
    if stored.type != old.type or messages.ambiguous:
        return read_messages(stored)
    if stored.data == old.data:
        return messages
    try:
        tail = heads.appended(old, stored)
    except heads.Unreadable:
        tail = None
    if tail is not None and len(messages.messages) + len(tail) != 2:  # two texts can be a pair
        return MessageList(messages.messages + tuple(_message(part) for part in tail))
    return read_messages(stored, {message.raw: message for message in messages.messages})


def _is_pair(parts: Sequence[Stored]) -> bool:
    """``["user", text]`` is one message, not two texts."""
    if len(parts) != 2 or parts[0].size > 12 or not parts[0].complete:
        return False
    role = decode(parts[0])
    return isinstance(role, str) and role in ROLES


def _of_one(stored: Stored) -> MessageList:
    if heads.class_name(stored) is None:
        if not stored.complete:
            raise heads.Cut
        value = decode(stored)
        if isinstance(value, Absent):
            raise NotMessages(value.kind)
        if isinstance(value, Mapping) and "__overwrite__" in value:
            return MessageList(_of_plain_list(value["__overwrite__"]), replaces=True)
        return MessageList((of_plain(value, stored.data),))
    return MessageList((_message(stored),))


def _overwritten(stored: Stored) -> Any:
    if not stored.complete:
        raise heads.Cut
    value = decode(stored)
    fields = value.value if isinstance(value, Tagged) else value
    return fields.get("value") if isinstance(fields, Mapping) else fields


def _of_plain_list(value: Any) -> tuple[Message, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(of_plain(item) for item in items)


def _message(stored: Stored) -> Message:
    try:
        name = heads.class_name(stored)
    except heads.Unreadable:
        return Message("other", raw=stored.data)
    role = CLASSES.get(name.rpartition(".")[2]) if name else None
    if role is not None and role != "human":
        return Message(role, raw=stored.data)
    if not stored.complete:
        raise heads.Cut
    spoken = heads.fields_of(stored, _Spoken) if role else None
    if spoken is None:
        return of_plain(decode(stored), stored.data)
    return _human(spoken.content, spoken.id, spoken.name, spoken.additional_kwargs, stored.data)


def of_plain(value: Any, raw: bytes = b"") -> Message:
    """A message from its decoded form: an object, a dict with ``type`` or ``role``, an ``lc`` dict, a pair, a text."""
    role: Role | None = None
    if isinstance(value, str):
        return Message("human", text=value, content=_canonical(value), bare=True, raw=raw)
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        role, value = ROLES.get(value[0]), {"content": value[1]}
    elif isinstance(value, Tagged):
        role, value = CLASSES.get(value.type.rpartition(".")[2]), value.value
    elif isinstance(value, Mapping) and value.get("lc") and isinstance(value.get("id"), list):
        role, value = CLASSES.get(str(value["id"][-1:] and value["id"][-1])), value.get("kwargs")
    if not isinstance(value, Mapping):
        return Message(role or "other", raw=raw)
    role = role or ROLES.get(str(value.get("type"))) or ROLES.get(str(value.get("role")))
    if role != "human":
        return Message(role or "other", raw=raw)
    return _human(
        value.get("content"), value.get("id"), value.get("name"), value.get("additional_kwargs"), raw
    )


def _human(content: Any, id: Any, name: Any, extra: Any, raw: bytes) -> Message:
    return Message(
        "human",
        id=_text_or_none(id),
        name=_text_or_none(name),
        text=_text_of(content),
        content=_canonical(content),
        summary=isinstance(extra, Mapping) and bool(extra.get("lc_source")),
        raw=raw,
    )


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else _canonical(content)
    parts = []
    for block in content:
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, Mapping) and isinstance(block.get("text"), str):
            parts.append(block["text"])
        elif isinstance(block, Mapping):
            parts.append(f"[{block.get('type', 'block')}]")
    return "\n".join(parts)


def _canonical(content: Any) -> str:
    try:
        return _CANONICAL.encode(content)
    except (TypeError, ValueError, RecursionError):  # keys of several types cannot be sorted
        return repr(content)
