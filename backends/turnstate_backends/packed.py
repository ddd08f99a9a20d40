"""msgpack as LangGraph writes it: structure, extension headers, and values with extensions left closed.

What an extension means is not known here. Every failure is a :class:`Damage`.
"""

from __future__ import annotations

import hashlib
import struct
from functools import cache
from typing import Any, TypeVar, cast

from msgspec import MsgspecError, Raw, Struct, defstruct
from msgspec.msgpack import Decoder

CLASS_OF_ONE = 0
CLASS_OF_MANY = 1
CLASS_OF_FIELDS = 2
METHOD = 3
PYDANTIC_1 = 4
PYDANTIC_2 = 5
ARRAY = 6
DELTA_SNAPSHOT = 7
TIMESTAMP = -1

_Fields = TypeVar("_Fields", bound=Struct)
_KEY_LEVELS = 8  # of an array that serves as a key


class Damage(Exception):
    """Bytes that are not the payload they are said to be; ``str()`` gives the reason, never content."""


class EndsEarly(Damage):
    """The bytes end inside a value."""


class Ext:
    """An extension that was met and not opened. Whoever opens it may empty ``data``."""

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code = code
        self.data = data


class BadText:
    """Bytes that stand where text was announced and are not UTF-8."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def unpack(data: bytes) -> Any:
    """One value as plain data, with an :class:`Ext` wherever an extension stands.

    Bytes after the value are ignored, as LangGraph ignores them. Keys of a mapping come out as
    :func:`hashable` gives them. Text that is not UTF-8 comes out as
    :class:`BadText`.

    Raises:
        Damage: No whole value begins at the first byte, or it nests deeper than about 1,000 levels.
    """
    read, option = _ormsgpack()
    try:
        return read(data, ext_hook=Ext, option=option)
    except Exception:  # it says little about the cause, and refuses keys and text that can be read
        extent(data)
        return _read(data)


def extent(data: bytes) -> int:
    """Bytes of the value at the start, found without building it.

    Raises:
        EndsEarly: The value is longer than the data.
        Damage: It is not msgpack, or nests too deeply.
    """
    return len(data) if _cut(data, Raw) is not None else Skipper(data, len(data)).skip()


def named(data: bytes | Raw) -> dict[str, Raw] | None:
    """The values of a map by their names, cut in C and not copied; ``bytes()`` of one is its payload.

    Returns:
        None unless the data is one whole map whose keys are all UTF-8 text: stepping over it tells what it is.
    """
    values: dict[str, Raw] | None = _cut(data, dict[str, Raw])
    return values


def named_in(data: bytes, field: str) -> dict[str, Raw] | None:
    """:func:`named` of the map that stands under one name in a map; of the rest only where it ends is looked at.

    Returns:
        None unless the data is one whole map that has a map of this kind there.
    """
    held = _cut(data, _holding(field))
    return None if held is None else cast(dict[str, Raw], held.values)


def listed(data: bytes) -> list[Raw] | None:
    """The elements of an array, as :func:`named` gives the values of a map; None unless the data is one whole array."""
    elements: list[Raw] | None = _cut(data, list[Raw])
    return elements


def model(data: bytes, form: type[_Fields]) -> _Fields | None:
    """Some fields of a pydantic model, read in C.

    Args:
        data: An extension, all of it.
        form: The fields that are wanted.

    Returns:
        None unless it is a model whose fields are of the kinds that the form has.
    """
    family, width = _LENGTHS.get(data[0], (0, 0)) if data else (0, 0)
    start = width + 2
    if family != 0xC9 or data[start - 1 : start] not in _MODELS:
        return None
    parts = _cut(memoryview(data)[start:], tuple[str, str, form, Raw])  # type: ignore[valid-type]
    return None if parts is None else cast(_Fields, parts[2])


def _cut(data: bytes | memoryview | Raw, form: Any) -> Any:
    try:
        return _decoder(form).decode(data)
    except (MsgspecError, RecursionError, UnicodeDecodeError):
        return None


@cache
def _holding(field: str) -> type[Struct]:
    return defstruct("_Holding", [("values", dict[str, Raw])], rename={"values": field})


@cache
def _decoder(form: Any) -> Any:
    return Decoder(form)


class Skipper:
    """Steps over values one at a time at C speed.

    Args:
        data: The bytes at hand.
        size: Bytes of the whole, which bounds every length that a header may claim.
        start: Where in ``data`` the first value begins.

    Attributes:
        position: Where in ``data`` the next value begins.
    """

    __slots__ = ("_deep", "_ends", "_start", "_unpacker", "position")

    def __init__(self, data: bytes, size: int, start: int = 0) -> None:
        import msgpack

        self._ends = msgpack.OutOfData
        self._deep = msgpack.StackError
        self._unpacker = msgpack.Unpacker(None, max_buffer_size=max(len(data), size, 16))
        self._unpacker.feed(memoryview(data)[start:])
        self._start = self.position = start

    def skip(self) -> int:
        """Step over one value and return the new ``position``. After an error no further step is possible.

        Raises:
            EndsEarly: The data ends first.
            Damage: See :func:`extent`.
        """
        try:
            self._unpacker.skip()
        except self._ends:
            raise EndsEarly("the bytes end inside a value") from None
        except self._deep:
            raise Damage("nested too deeply") from None
        except Exception:  # FormatError; ValueError for a length beyond the payload
            raise Damage("not msgpack") from None
        self.position = self._start + int(self._unpacker.tell())
        return self.position


def header(data: bytes, at: int = 0) -> tuple[int, int]:
    """The family of the value at ``at`` and the length that it announces.

    Returns:
        The head byte of the family's widest form (``0xdd`` array, ``0xdf`` map, ``0xdb`` text, ``0xc6``
        bytes, ``0xc9`` extension, else the byte itself), and how many elements, entries or bytes follow.
        :func:`body` says where they begin.

    Raises:
        EndsEarly: The header is cut.
    """
    head = _byte(data, at)
    if head < 0x80 or head >= 0xE0:
        return head, 0
    if head < 0xC0:
        if head < 0x90:
            return 0xDF, head & 0x0F
        return (0xDD, head & 0x0F) if head < 0xA0 else (0xDB, head & 0x1F)
    if 0xD4 <= head <= 0xD8:
        return 0xC9, 1 << (head - 0xD4)
    form = _LENGTHS.get(head)
    if form is None:
        return head, 0
    family, width = form
    raw = data[at + 1 : at + 1 + width]
    if len(raw) < width:
        raise EndsEarly("the bytes end inside a value")
    return family, int.from_bytes(raw, "big")


def body(data: bytes, at: int = 0) -> int:
    """Where the content begins of the array, map, text, bytes or extension whose header is at ``at``."""
    head = data[at]
    if 0xD4 <= head <= 0xD8:
        return at + 2
    family, width = _LENGTHS.get(head, (0, 0))
    return at + 1 + width + (family == 0xC9)


def ext_code(data: bytes, at: int = 0) -> int:
    """The code, signed, of the extension whose header is at ``at``.

    Raises:
        EndsEarly: The header is cut.
    """
    code = _byte(data, body(data, at) - 1)
    return code - 256 if code > 127 else code


def scalar(data: bytes, at: int) -> tuple[Any, int]:
    """The null, boolean or number at ``at``, within bytes that :func:`extent` has passed, and where it ends."""
    return _scalar(data, at, data[at], 0, False)


def text_at(data: bytes, at: int) -> tuple[str, int]:
    """The text at ``at`` and where the next value begins.

    Raises:
        EndsEarly: The data ends first.
        Damage: Something else stands there.
    """
    family, length = header(data, at)
    if family != 0xDB:
        raise Damage("no text where a class name is expected")
    start = body(data, at)
    raw = data[start : start + length]
    if len(raw) < length:
        raise EndsEarly("the bytes end inside a value")
    return raw.decode("utf-8", "surrogateescape"), start + length


def hashable(key: Any) -> Any:
    """A stored key as something a ``dict`` accepts: an array becomes a tuple, and a key that has no
    hashable form (a map, an extension, an array of those) a text that tells it from every other key."""
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind is list or kind is tuple:
        key_tuple = _tuple(key, _KEY_LEVELS)
        return _stand_in("array", key) if key_tuple is None else key_tuple
    if kind is dict:
        return _stand_in("map", key)
    if kind is Ext:
        return _stand_in("ext", key)
    return key


@cache
def _ormsgpack() -> tuple[Any, int]:
    # Late, because a program that only prints its help must not pay for it.
    from ormsgpack import OPT_NON_STR_KEYS, unpackb

    return unpackb, OPT_NON_STR_KEYS


def _tuple(items: Any, levels: int) -> tuple[Any, ...] | None:
    if not levels:
        return None
    parts = []
    for item in items:
        kind = type(item)
        if kind is list or kind is tuple:
            item = _tuple(item, levels - 1)
            if item is None:
                return None
        elif kind is dict or kind is Ext or kind is BadText:
            return None
        parts.append(item)
    return tuple(parts)


def _stand_in(noun: str, key: Any) -> str:
    digest = hashlib.sha256()
    todo = [key]
    while todo:
        item = todo.pop()
        if isinstance(item, (list, tuple)):
            digest.update(b"array %d;" % len(item))
            todo.extend(item)
        elif isinstance(item, dict):
            digest.update(b"map %d;" % len(item))
            todo.extend(item)
            todo.extend(item.values())
        elif isinstance(item, Ext):
            digest.update(b"ext %d %d;" % (item.code, len(item.data)) + item.data)
        elif isinstance(item, BadText):
            digest.update(b"text %d;" % len(item.data) + item.data)
        else:
            digest.update(f"{type(item).__name__} {item!r};".encode("utf-8", "backslashreplace"))
    return f"<{noun} {digest.hexdigest()[:16]}>"


_LENGTHS = {
    0xC4: (0xC6, 1),
    0xC5: (0xC6, 2),
    0xC6: (0xC6, 4),
    0xC7: (0xC9, 1),
    0xC8: (0xC9, 2),
    0xC9: (0xC9, 4),
    0xD9: (0xDB, 1),
    0xDA: (0xDB, 2),
    0xDB: (0xDB, 4),
    0xDC: (0xDD, 2),
    0xDD: (0xDD, 4),
    0xDE: (0xDF, 2),
    0xDF: (0xDF, 4),
}
_MODELS = (bytes([PYDANTIC_1]), bytes([PYDANTIC_2]))
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise EndsEarly("the bytes end inside a value")
    return data[at]


def _read(data: bytes) -> Any:
    """:func:`unpack` one token at a time, for what the fast reader refuses. :func:`extent` has passed it."""
    position = 0
    stack: list[tuple[list[Any], int, bool]] = [([], 1, False)]
    while True:
        items, wanted, is_map = stack[-1]
        if len(items) == wanted:
            stack.pop()
            value: Any = dict(zip(items[::2], items[1::2], strict=True)) if is_map else items
            if not stack:
                return items[0]
        else:
            family, length = header(data, position)
            if family in (0xDD, 0xDF):
                position = body(data, position)
                pairs = family == 0xDF
                stack.append(([], 2 * length if pairs else length, pairs))
                continue
            is_key = is_map and len(items) % 2 == 0
            value, position = _scalar(data, position, family, length, is_key)
        items, _, is_map = stack[-1]
        items.append(hashable(value) if is_map and len(items) % 2 == 0 else value)


def _scalar(data: bytes, at: int, family: int, length: int, is_key: bool) -> tuple[Any, int]:
    if family < 0x80:
        return family, at + 1
    if family >= 0xE0:
        return family - 256, at + 1
    if family in _CONSTANTS:
        return _CONSTANTS[family], at + 1
    if family in _NUMBERS:
        form = _NUMBERS[family]
        return struct.unpack_from(form, data, at + 1)[0], at + 1 + struct.calcsize(form)
    start = body(data, at)
    raw = data[start : start + length]
    if family == 0xC6:
        return raw, start + length
    if family == 0xC9:
        return Ext(ext_code(data, at), raw), start + length
    return _text(raw, is_key), start + length


def _text(raw: bytes, is_key: bool) -> str | BadText:
    for errors in ("strict", "surrogatepass"):
        try:
            return raw.decode("utf-8", errors)
        except UnicodeDecodeError:
            continue
    if is_key:  # a mapping cannot do without its key
        return raw.decode("utf-8", "surrogateescape")
    return BadText(raw)
