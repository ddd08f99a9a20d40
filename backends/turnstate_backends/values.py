"""Stored values as plain data: the types that a decoded payload is made of.

A decoded value is built from ``None``, ``bool``, ``int``, ``float``, ``str``, ``bytes``, ``list``,
``dict`` (keys of any hashable plain type) and the two types below. Nothing here knows a database,
and nothing here is ever an instance of a class that a store names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

AbsenceKind = Literal[
    "empty",  # the channel exists in this checkpoint and holds no value
    "value_missing",  # the checkpoint refers to a version whose row is gone
    "encrypted",
    "undecodable",
    "delta_unresolved",
]


class Tagged(Struct, frozen=True):
    """What was an instance of a class when it was stored.

    Attributes:
        type: Dotted name as stored, ``"module.Class"``. Never imported.
        value: The stored argument or fields as plain data: a ``dict`` for an object with fields, a
            ``list`` for positional arguments, the members of a set, or one scalar (the ISO text of a
            ``datetime.datetime``, the hex digits of a ``uuid.UUID`` written with dashes, the value of
            an enum member).
        masked: True where a secret's content was replaced and ``value`` is only a placeholder.
    """

    type: str
    value: Any
    masked: bool = False


class Absent(Struct, frozen=True):
    """Why a value that was looked for cannot be given. Never equal to a stored null.

    Attributes:
        kind: See :data:`AbsenceKind`.
        stored: What the store does hold, for the reader's own judgement: ``type`` (payload type),
            ``bytes`` (length), ``sha256`` (hex digest of the payload), ``version``, ``reason``.
    """

    kind: AbsenceKind
    stored: Mapping[str, Any] = {}


class Stored(Struct, frozen=True):
    """A payload as the store holds it, not decoded.

    Attributes:
        type: ``null``, ``bytes``, ``bytearray``, ``json``, ``msgpack``, ``pickle``, … or the same
            with an encryption suffix (``msgpack+aes``); ``None`` in layouts that have no type column.
        data: The payload, or its first bytes where only a head was asked for.
        size: Bytes of the whole payload.
        encrypted: Whether the store holds it encrypted, also where it was opened; no part of the value.
    """

    type: str | None
    data: bytes
    size: int
    encrypted: bool = False

    def __eq__(self, other: object) -> bool:
        if type(other) is not Stored:
            return NotImplemented
        return (self.type, self.data, self.size) == (other.type, other.data, other.size)

    def __hash__(self) -> int:
        return hash((self.type, self.data, self.size))

    @property
    def complete(self) -> bool:
        """Whether ``data`` is the whole payload."""
        return len(self.data) >= self.size
