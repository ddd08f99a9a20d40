"""Payloads as trees that give back the very bytes they were read from, for who changes some of it and no more.

msgpack and JSON come out as the same few nodes: lists, :class:`Pairs`, text, bytes, :class:`Raw` for whatever holds no
text, and :class:`turnstate_backends.packed.Ext`, closed. What a class or a key means is not known here.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from msgspec import Struct

from turnstate_backends import packed, payload
from turnstate_backends.packed import Damage, Ext

Node = Any
"""``str`` (bytes that are not UTF-8 as lone surrogates), ``bytes``, ``list``, :class:`Pairs`, :class:`Raw`,
:class:`Closed`, ``Ext``."""


class Pairs(list[tuple[Node, Node]]):
    """A mapping in stored order, repeated keys included."""

    __slots__ = ()


class Raw(Struct, frozen=True):
    """Null, true, false or a number.

    Attributes:
        token: As stored.
        number: Its digits as Python writes them; empty for null, true and false.
    """

    token: bytes
    number: str


class Closed(Struct, frozen=True):
    """A msgpack array, map or extension that is not read yet; ``token`` as stored."""

    token: bytes


_TEXT, _BYTES, _ARRAY, _MAP, _EXT = 0xDB, 0xC6, 0xDD, 0xDF, 0xC9


def from_msgpack(data: bytes, levels: int = -1) -> Node:
    """One msgpack value.

    Args:
        data: All of it.
        levels: How many levels are read; what nests deeper comes out :class:`Closed`. All when negative.

    Raises:
        Damage: The bytes are something else, or others follow.
        RecursionError: It nests too deeply.
    """
    if packed.extent(data) != len(data):
        raise Damage("bytes follow the value")
    return _read(data, 0, levels)[0]


def to_msgpack(node: Node) -> bytes:
    """The bytes of a tree; those of a value that :func:`from_msgpack` read where its headers were the shortest."""
    parts: list[bytes] = []
    _write(node, parts)
    return b"".join(parts)


def from_json(text: str) -> Node:
    """One JSON value.

    Raises:
        ValueError: It is none.
        RecursionError: It nests too deeply.
    """
    value = json.loads(
        text, object_pairs_hook=Pairs, parse_int=_number, parse_float=_number, parse_constant=_number
    )
    return _plain(value)


def to_json(node: Node, *, escape: bool = True) -> str:
    """A tree as JSON text.

    Args:
        node: Without bytes and extensions.
        escape: Write what is not ASCII as escapes.
    """
    if isinstance(node, str):
        return json.dumps(node, ensure_ascii=escape)
    if isinstance(node, Pairs):
        entries = (f"{to_json(k, escape=escape)}: {to_json(v, escape=escape)}" for k, v in node)
        return "{" + ", ".join(entries) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(to_json(item, escape=escape) for item in node) + "]"
    return str(node.token.decode())


def json_of(data: bytes) -> tuple[Node, str]:
    """JSON bytes as a tree, and the error handler that turns its text into the same bytes again.

    Raises:
        ValueError: They are no JSON.
        RecursionError: It nests too deeply.
    """
    text, errors = payload.json_text(data)
    return from_json(text), errors


def _number(token: str) -> Raw:
    return Raw(token.encode(), token)


def _plain(value: Any) -> Node:
    """Null, true and false as nodes, for which the parser has no hook."""
    if isinstance(value, Pairs):
        return Pairs((key, _plain(item)) for key, item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool):
        return Raw(json.dumps(value).encode(), "")
    return value


def _read(data: bytes, at: int, levels: int) -> tuple[Node, int]:
    family, length = packed.header(data, at)
    if levels == 0 and family in (_MAP, _ARRAY, _EXT):
        end = packed.Skipper(data, len(data), at).skip()
        return Closed(data[at:end]), end
    start = packed.body(data, at)
    end = start + length
    if family == _TEXT:
        return data[start:end].decode("utf-8", "surrogateescape"), end
    if family == _MAP:
        pairs = Pairs()
        for _ in range(length):
            key, start = _read(data, start, levels - 1)
            value, start = _read(data, start, levels - 1)
            pairs.append((key, value))
        return pairs, start
    if family == _ARRAY:
        items = []
        for _ in range(length):
            item, start = _read(data, start, levels - 1)
            items.append(item)
        return items, start
    if family == _BYTES:
        return data[start:end], end
    if family == _EXT:
        return Ext(packed.ext_code(data, at), data[start:end]), end
    number, end = packed.scalar(data, at)
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return Raw(data[at:end], str(number) if is_number else ""), end


def _write(node: Node, parts: list[bytes]) -> None:
    if isinstance(node, Raw | Closed):
        parts.append(node.token)
    elif isinstance(node, str):
        content = node.encode("utf-8", "surrogateescape")
        parts += (_header(len(content), 0xA0, 31, (0xD9, 0xDA, 0xDB)), content)
    elif isinstance(node, bytes):
        parts += (_header(len(node), 0, -1, (0xC4, 0xC5, 0xC6)), node)
    elif isinstance(node, Pairs):
        parts.append(_header(len(node), 0x80, 15, (0, 0xDE, 0xDF)))
        for key, value in node:
            _write(key, parts)
            _write(value, parts)
    elif isinstance(node, list):
        parts.append(_header(len(node), 0x90, 15, (0, 0xDC, 0xDD)))
        for item in node:
            _write(item, parts)
    else:
        parts += (_ext_header(len(node.data), node.code), node.data)


def _header(length: int, fixed: int, most: int, wide: tuple[int, int, int]) -> bytes:
    if length <= most:
        return bytes([fixed | length])
    if wide[0] and length < 1 << 8:
        return bytes([wide[0], length])
    if length < 1 << 16:
        return struct.pack(">BH", wide[1], length)
    return struct.pack(">BI", wide[2], length)


def _ext_header(length: int, code: int) -> bytes:
    if length in (1, 2, 4, 8, 16):
        return struct.pack(">Bb", 0xD4 + length.bit_length() - 1, code)
    return _header(length, 0, -1, (0xC7, 0xC8, 0xC9)) + struct.pack(">b", code)
