"""Looking into a payload without decoding it.

Slices are found by stepping over values in C; a value that was not asked for is never built. A payload
may be whole or only its first bytes: what the bytes at hand cannot tell is a :class:`Cut`, so that the
caller can read more. What a class or a key means is not known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Raw, Struct

from turnstate_backends import packed, payload
from turnstate_backends.values import Stored

_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = frozenset({"null", "empty", "bytes", "bytearray"})
# Numbers are measured, not built: Python refuses to build long ones.
_SCAN = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len).raw_decode
_ARRAY, _MAP, _EXT = 0xDD, 0xDF, 0xC9
_SIZED = frozenset({0xDB, 0xC6, _EXT})  # text, bytes, extension
_MAY_NAME_LC = re.compile(r'"(?:l|\\u006c)(?:c|\\u0063)"', re.IGNORECASE)
_EXT_WIDTHS = {0xC7: 1, 0xC8: 2, 0xC9: 4}  # head → bytes of the length
_ANY_NAME = range(packed.CLASS_OF_ONE, packed.PYDANTIC_2 + 1)
_Fields = TypeVar("_Fields", bound=Struct)


class Cut(Exception):
    """The bytes at hand end before the answer is known; more of the payload would tell."""


class Unreadable(Exception):
    """No answer is possible for this payload: encrypted, pickled, of an unknown type, or damaged."""


def elements(stored: Stored) -> list[Stored] | None:
    """The elements of a top-level array, in order, each as a payload of its own.

    The last element may be incomplete where only a head is at hand and its size is known from its header.

    Returns:
        None when the payload is not an array.

    Raises:
        Cut: The bytes end before the last element begins, or inside one whose size is not known.
        Unreadable: See the class.
    """
    kind = _encoding(stored)
    if kind == "json":
        text, errors = _json(stored)
        if not text.startswith("["):
            return None
        return [_json_slice(text[start:end], errors) for start, end in _json_items(stored, text)]
    if kind != "msgpack":
        return None
    cut = packed.listed(stored.data) if stored.complete else None
    if cut is not None:
        return [_slice(item) for item in cut]
    count = _count(stored, _ARRAY)
    return None if count is None else [item for _, item in _items(stored, count, keyed=False)]


def length(stored: Stored) -> int | None:
    """How many elements a msgpack array announces; None for what is no such array."""
    return _count(stored, _ARRAY) if _encoding(stored) == "msgpack" else None


def each_element(stored: Stored) -> Iterator[Stored] | None:
    """:func:`elements` of a whole msgpack payload one at a time, for who may not need them all.

    Returns:
        None when the payload is no such array.

    Raises:
        Unreadable: Also while going on.
    """
    if not stored.complete or _encoding(stored) != "msgpack":
        return None
    count = _count(stored, _ARRAY)
    return None if count is None else (item for _, item in _items(stored, count, keyed=False))


def appended(before: Stored, after: Stored) -> list[Stored] | None:
    """The elements of one msgpack array beyond those of another, where it begins with the very bytes of these.

    Returns:
        None where it does not.

    Raises:
        Unreadable: See the class.
    """
    if not before.complete or not after.complete or not _encoding(before) == _encoding(after) == "msgpack":
        return None
    old, new = _count(before, _ARRAY), _count(after, _ARRAY)
    if old is None or new is None or new <= old:
        return None
    kept = memoryview(before.data)[packed.body(before.data) :]
    start = packed.body(after.data)
    if not after.data.startswith(kept, start):  # two memory views would be compared byte by byte
        return None
    return [item for _, item in _items(after, new - old, keyed=False, start=start + len(kept))]


def entries(stored: Stored) -> dict[Any, Stored] | None:
    """The entries of a top-level map, each value as a payload of its own, by key.

    Keys are those of the decoded map (see :func:`turnstate_backends.payload.decode`).

    The last value may be incomplete, as in :func:`elements`.

    Returns:
        None when the payload is not a map.

    Raises:
        Cut: As in :func:`elements`.
        Unreadable: See the class.
    """
    kind = _encoding(stored)
    if kind == "json":
        text, errors = _json(stored)
        if not text.startswith("{"):
            return None
        pairs = _json_pairs(stored, text)
        return {key: _json_slice(text[start:end], errors) for key, start, end in pairs}
    if kind != "msgpack":
        return None
    cut = packed.named(stored.data) if stored.complete else None
    if cut is not None:
        return {name: _slice(value) for name, value in cut.items()}
    count = _count(stored, _MAP)
    return None if count is None else dict(_items(stored, count, keyed=True))


def picked(stored: Stored, field: str, names: Collection[str]) -> dict[str, Stored] | None:
    """Some entries of the map that is one field of a msgpack map; of the rest only where it ends is looked at.

    Returns:
        None unless the payload is whole and has them all: :func:`entries` then tells what is wrong.
    """
    with suppress(Unreadable):
        if stored.complete and _encoding(stored) == "msgpack":
            values = packed.named_in(stored.data, field)
            if values is not None and all(name in values for name in names):
                return {name: _slice(values[name]) for name in names}
    return None


def keys(stored: Stored) -> list[Any] | None:
    """The keys of a top-level map in stored order. Of a head the last value need not be at hand.

    Returns:
        None when the payload is not a map.

    Raises:
        Cut: The bytes end before the last key does. A JSON object announces no count, so a head of one
            is always cut.
        Unreadable: See the class.
    """
    kind = _encoding(stored)
    if kind == "json":
        text, _ = _json(stored)
        if not text.startswith("{"):
            return None
        return list(dict.fromkeys(key for key, *_ in _json_pairs(stored, text)))
    if kind != "msgpack":
        return None
    count = _count(stored, _MAP)
    if count is None:
        return None
    if stored.complete and (cut := packed.named(stored.data)) is not None:
        return list(cut)
    if not stored.complete and count == 1:  # the one entry that most writes name
        name = _short_text(stored.data, packed.body(stored.data))
        if name is not None:
            return [name]
    return list(dict.fromkeys(key for key, _ in _items(stored, count, keyed=True, last_value=False)))


def class_name(stored: Stored) -> str | None:
    """The dotted class name of a value that was stored as an instance.

    Equal to ``Tagged.type`` of the decoded value, which is ``bytes`` where the class is one of these: whoever looks for
    elements or entries must not take the parts of an instance for them.

    Only the first bytes are looked at, so a head of a hundred bytes is mostly enough. A head of a JSON
    object is an instance when its first field is ``lc``, which is where every known writer puts it.

    Returns:
        None for plain values.

    Raises:
        Cut: The bytes end before the name does.
        Unreadable: See the class.
    """
    data = stored.data
    if stored.type == "msgpack" and (name := _common_class(data, stored.size)) is not None:
        return name
    kind = _encoding(stored)
    if kind == "json":
        return _json_class(stored)
    if kind != "msgpack":
        return None
    try:
        family, length = packed.header(data)
        if family != _EXT:
            return None
        code, start = packed.ext_code(data), packed.body(data)
        if start + length != stored.size:
            raise Unreadable("its length is not the payload's")
        if code in _ANY_NAME:
            return _packed_class(data, start)
    except packed.EndsEarly:
        raise _ends(stored) from None
    except packed.Damage as damage:
        raise Unreadable(str(damage)) from None
    names = {
        packed.ARRAY: payload.NDARRAY,
        packed.DELTA_SNAPSHOT: payload.DELTA_SNAPSHOT,
        packed.TIMESTAMP: payload.TIMESTAMP,
    }
    if code not in names:
        raise Unreadable("no such extension is known")
    return names[code]


def fields_of(stored: Stored, form: type[_Fields]) -> _Fields | None:
    """Some fields of an instance that :func:`class_name` names.

    Args:
        stored: The payload.
        form: The fields that are wanted.

    Returns:
        None unless it is a model whose fields are of the kinds that the form has; the decoded value then tells.
    """
    if stored.type != "msgpack" or not stored.complete:
        return None
    return packed.model(stored.data, form)


def _short_text(data: bytes, at: int) -> str | None:
    """The text at ``at`` where it is of less than 32 ASCII characters and at hand; else None."""
    end = at + 1 + (data[at] & 0x1F) if at < len(data) and 0xA0 <= data[at] < 0xC0 else 0
    raw = data[at + 1 : end]
    return raw.decode("ascii") if 0 < end <= len(data) and raw.isascii() else None


def _slice(value: Raw) -> Stored:
    data = bytes(value)
    return Stored("msgpack", data, len(data))


def _encoding(stored: Stored) -> str:
    """``json``, ``msgpack`` or ``plain``."""
    if stored.type is None and not stored.complete and not stored.data.strip(b" \t\r\n"):
        raise Cut
    kind = payload.encoding(stored)
    if kind in ("json", "msgpack"):
        return kind
    if kind in _PLAIN:
        return "plain"
    raise Unreadable(payload.why_closed(kind))


def _ends(stored: Stored) -> Cut | Unreadable:
    """What it means that the bytes end inside a value."""
    return Unreadable("the payload ends inside a value") if stored.complete else Cut()


def _count(stored: Stored, family: int) -> int | None:
    """Elements or entries that a top-level container of this family announces; None for any other value."""
    try:
        found, count = packed.header(stored.data)
    except packed.EndsEarly:
        raise _ends(stored) from None
    if found != family:
        return None
    if count > stored.size:
        raise Unreadable("it announces more than its bytes can hold")
    return count


def _items(
    stored: Stored, count: int, *, keyed: bool, last_value: bool = True, start: int | None = None
) -> Iterator[tuple[Any, Stored]]:
    """The slices of a top-level container; keys are None in an array. Bytes behind the last are damage."""
    data = stored.data
    skipper = packed.Skipper(data, stored.size, packed.body(data) if start is None else start)
    key = None
    try:
        for left in range(count - 1, -1, -1):
            if keyed:
                start = skipper.position
                key = _key(data[start : skipper.skip()])
                if not left and not last_value and not stored.complete:
                    yield key, Stored("msgpack", b"", 0)
                    return
            start = skipper.position
            if not left and not stored.complete:
                yield key, _last(stored, start)
                return
            end = skipper.skip()
            yield key, Stored("msgpack", data[start:end], end - start)
    except packed.EndsEarly:
        raise _ends(stored) from None
    except packed.Damage as damage:
        raise Unreadable(str(damage)) from None
    if skipper.position != stored.size:
        raise Unreadable("bytes follow the value")


def _last(stored: Stored, start: int) -> Stored:
    """The last value of a container whose payload is cut, where its header gives its size."""
    family, length = packed.header(stored.data, start)
    if family not in _SIZED:
        raise Cut
    size = packed.body(stored.data, start) - start + length
    if start + size != stored.size:
        raise Unreadable("its length is not the payload's")
    return Stored("msgpack", stored.data[start:], size)


def _key(raw: bytes) -> Any:
    """A map's key from its own bytes, the same as the decoded map has."""
    if 0xA0 <= raw[0] < 0xC0 and raw[1:].isascii():
        return raw[1:].decode("ascii")
    ((key, _),) = packed.unpack(b"\x81" + raw + b"\xc0").items()
    return packed.hashable(key)


def _common_class(data: bytes, size: int) -> str | None:
    """:func:`class_name` where it stands as nearly always, as two short texts: asked of every message of a thread.

    None where anything is otherwise; :func:`_packed_class` then tells.
    """
    try:
        width = _EXT_WIDTHS[data[0]]
        start = 2 + width
        module, named = start + 1, data[start + 1]
        if data[start - 1] not in _ANY_NAME or not 0x93 <= data[start] <= 0x9F:
            return None
        if named == 0xD9:
            module, named = module + 2, data[module + 1]
        elif 0xA0 <= named < 0xC0:
            module, named = module + 1, named & 0x1F
        else:
            return None
        name = module + named + 1
        end = name + (data[name - 1] & 0x1F)
        if not 0xA0 <= data[name - 1] < 0xC0 or end > len(data):
            return None
    except (IndexError, KeyError):
        return None
    if start + int.from_bytes(data[1 : 1 + width], "big") != size:
        return None
    return _dotted(data[module : name - 1], data[name:end])


@lru_cache(maxsize=256)
def _dotted(module: bytes, name: bytes) -> str:
    return f"{module.decode('utf-8', 'surrogateescape')}.{name.decode('utf-8', 'surrogateescape')}"


def _packed_class(data: bytes, start: int) -> str:
    family, length = packed.header(data, start)
    if family != _ARRAY or length < 3:
        raise packed.Damage("no class name where one is expected")
    module, end = packed.text_at(data, packed.body(data, start))
    return f"{module}.{packed.text_at(data, end)[0]}"


def _json(stored: Stored) -> tuple[str, str]:
    text, errors = payload.json_text(stored.data)
    text = text.lstrip(" \t\r\n")
    if not text:
        raise _broken(stored)
    return text, errors


def _json_slice(text: str, errors: str) -> Stored:
    data = text.encode("utf-8", errors)
    return Stored("json", data, len(data))


def _json_items(stored: Stored, text: str) -> Iterator[tuple[int, int]]:
    """Where each element of a JSON array begins and ends."""
    at = _after_space(text, 1)
    more = text[at : at + 1] != "]"
    while more:
        _, end = _scan(stored, text, at)
        yield at, end
        at, more = _next(stored, text, end, "]")
    _nothing_follows(stored, text, at + 1)


def _json_pairs(stored: Stored, text: str) -> Iterator[tuple[str, int, int]]:
    """Each key of a JSON object, and where its value begins and ends."""
    at = _after_space(text, 1)
    more = text[at : at + 1] != "}"
    while more:
        key, at = _scan(stored, text, at)
        at = _after_space(text, at)
        if type(key) is not str or text[at : at + 1] != ":":
            raise _broken(stored)
        at = _after_space(text, at + 1)
        _, end = _scan(stored, text, at)
        yield key, at, end
        at, more = _next(stored, text, end, "}")
    _nothing_follows(stored, text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _scan(stored: Stored, text: str, at: int) -> tuple[Any, int]:
    try:
        return _SCAN(text, at)
    except ValueError:
        raise _broken(stored) from None
    except RecursionError:
        raise Unreadable("nested too deeply") from None


def _next(stored: Stored, text: str, at: int, close: str) -> tuple[int, bool]:
    """Where the next item begins, or where the container closes and False."""
    at = _after_space(text, at)
    mark = text[at : at + 1]
    if mark == close:
        return at, False
    if mark != ",":
        raise _broken(stored)
    return _after_space(text, at + 1), True


def _nothing_follows(stored: Stored, text: str, at: int) -> None:
    if _after_space(text, at) != len(text) or not stored.complete:
        raise _broken(stored)


def _broken(stored: Stored) -> Cut | Unreadable:
    return Unreadable("not JSON") if stored.complete else Cut()


def _json_class(stored: Stored) -> str | None:
    text, _ = _json(stored)
    if not text.startswith("{") or (stored.complete and not _MAY_NAME_LC.search(text)):
        return None
    found: dict[str, Any] = {}
    for key, start, end in _json_pairs(stored, text):
        if not found and key != "lc" and not stored.complete:
            return None
        if key in ("lc", "type", "id"):
            found[key] = None
            with suppress(ValueError):  # a number too long for Python
                found[key] = json.loads(text[start:end])
            name = payload.constructor(found)
            if name is not None and not stored.complete:
                return name
    return payload.constructor(found)  # of names that repeat the last one counts, as where it is decoded
