"""Stored payloads as plain data.

:func:`decode` is total: whatever the bytes are, it answers with a value or an :class:`Absent`. It reads
names of modules and classes as text and never acts on them: nothing is imported, constructed or called.
It does not know where a payload came from, nor which channel it fills.

Formats: ``langgraph.checkpoint.serde.jsonplus`` (``json`` until 1.x, ``msgpack`` since 2.0),
``langchain_core.load.dump`` for ``lc`` 1, LangGraph.js ``serde/jsonplus.ts``.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from turnstate_backends import encryption, packed
from turnstate_backends.arrays import ndarray
from turnstate_backends.instances import instance
from turnstate_backends.packed import BadText, Damage, Ext
from turnstate_backends.values import AbsenceKind, Absent, Stored, Tagged

LEVELS = 200
"""Deepest nesting of a decoded value, give or take one, so that whoever walks it may recurse.
What lies deeper is absent."""

DELTA_SNAPSHOT = "langgraph.checkpoint.serde.types._DeltaSnapshot"
NDARRAY = "numpy.ndarray"
TIMESTAMP = "msgpack.Timestamp"

_OPEN = frozenset({list, dict, Ext, BadText})
_OPEN_WITH_TEXT = _OPEN | {str}
_ESCAPED = re.compile("[\udc80-\udcff]")
_JSON_START = re.compile(rb"""[ \t\r\n]*[\[{"\-0-9tfnNI]""")
_NOT_TEXT = "its text is not UTF-8"
_TOO_DEEP = f"nested deeper than {LEVELS} levels"


def decode(stored: Stored, *, reveal: bool = False) -> Any:
    """A payload as plain data, or why it cannot be given.

    Args:
        stored: The whole payload; of a head nothing is decoded.
        reveal: Show the content of ``SecretStr`` and its kind.

    Returns:
        Plain data (see :mod:`turnstate_backends.values`), nested at most :data:`LEVELS` deep. A part that
        cannot be read is an :class:`Absent` in its place, the rest stays readable. ``Absent.stored`` holds
        ``type``, ``bytes``, ``sha256`` and ``reason`` of the payload or of the part.
    """
    try:
        if encryption.is_sealed(stored):
            stored = encryption.opened(stored)
        return _decode(stored, reveal)
    except encryption.Sealed as sealed:
        return absent("encrypted", stored, str(sealed))
    except RecursionError:
        return absent("undecodable", stored, "nested too deeply")
    except MemoryError:
        return absent("undecodable", stored, "does not fit into memory")
    except Damage as damage:
        return absent("undecodable", stored, str(damage))
    except Exception as error:  # a payload may be anything; its content must not reach a message
        return absent("undecodable", stored, f"cannot be read ({type(error).__name__})")


def encoding(stored: Stored) -> str | None:
    """The payload type that decides how to read it: the stored one, or by looking where none is stored.

    Returns:
        ``json``, ``msgpack``, ``pickle``, or any other stored type as it is. None when there is no
        stored type and the bytes look like nothing known.
    """
    if stored.type is not None:
        return stored.type
    data = stored.data
    # A msgpack value that begins with an ASCII byte is that byte alone.
    if (stored.size > 1 or data.isdigit()) and _JSON_START.match(data):
        return "json"
    if (
        len(data) > 1 and data[0] == 0x80 and data[1] <= 5
    ):  # also an empty msgpack map, then followed by bytes
        return "pickle"
    return "msgpack" if data else None


def constructor(fields: Any) -> str | None:
    """The dotted class name when a JSON object is a stored instance (``lc`` 1 or 2), else None."""
    if type(fields) is not dict or fields.get("lc") not in (1, 2) or type(fields["lc"]) is not int:
        return None
    kind = fields.get("type")
    if kind == "undefined":
        return "undefined"
    names = fields.get("id")
    if type(names) is not list or not names or not all(type(name) is str for name in names):
        return None
    if kind == "secret":
        return "secret"
    return ".".join(names) if kind in ("constructor", "not_implemented") else None


def json_text(data: bytes) -> tuple[str, str]:
    """JSON bytes as text, and the error handler that turns the text into the same bytes again."""
    try:
        return data.decode(json.detect_encoding(data), "surrogatepass"), "surrogatepass"
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape"), "surrogateescape"


def _decode(stored: Stored, reveal: bool) -> Any:
    kind = stored.type
    if kind == "null":
        return None
    if kind == "empty":
        return absent("empty", stored, "the channel holds no value")
    if not stored.complete:
        raise Damage(f"only the first {len(stored.data)} of its bytes were read")
    if kind in ("bytes", "bytearray"):
        return bytes(stored.data)
    kind = encoding(stored)
    if kind == "json":
        return _decode_json(stored, reveal)
    if kind == "msgpack":
        return _decode_msgpack(stored, reveal)
    raise Damage(why_closed(kind))


def why_closed(kind: str | None) -> str:
    """Why nothing can be read of a payload of a type other than ``json``, ``msgpack`` and the plain ones."""
    if kind is None:
        return "neither a type nor bytes are stored"
    if kind == "pickle":
        return "a pickle, which can only be read by running what it names"
    return "encrypted" if "+" in kind else "no such payload type is known"


def _decode_json(stored: Stored, reveal: bool) -> Any:
    text, errors = json_text(stored.data)
    try:
        value = _parse(text)
    except json.JSONDecodeError as error:
        raise Damage(f"not JSON at character {error.pos}: {error.msg}") from None
    return _Finish(stored, reveal, is_json=True, escapes=errors == "surrogateescape").value(value, 0)


def _decode_msgpack(stored: Stored, reveal: bool) -> Any:
    end = packed.extent(stored.data)
    if end != len(stored.data):
        raise Damage(f"{len(stored.data) - end} bytes follow the value")
    return _Finish(stored, reveal, is_json=False).value(packed.unpack(stored.data), 0)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a number of more digits than Python turns into an int, or back into text
        return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int | Tagged:
    limit = sys.get_int_max_str_digits()
    return Tagged("builtins.int", digits) if limit and len(digits) > limit else int(digits)


def absent(kind: AbsenceKind, stored: Stored, reason: str) -> Absent:
    """Why a payload has no value, with what there is of it."""
    facts: dict[str, Any] = {"type": stored.type, "bytes": stored.size}
    if stored.complete:
        facts["sha256"] = hashlib.sha256(stored.data).hexdigest()
    return Absent(kind, {**facts, "reason": reason})


def _part(label: str, data: bytes, reason: str) -> Absent:
    return absent("undecodable", Stored(label, data, len(data)), reason)


class _Finish:
    """Opens extensions and constructors in a parsed payload, inside out, and bounds its depth.

    Extensions are opened here and not while the codec runs, so only Python recurses, to a known depth.
    """

    __slots__ = ("_deep", "_escapes", "_is_json", "_open", "_reveal", "_stored")

    def __init__(self, stored: Stored, reveal: bool, *, is_json: bool, escapes: bool = False) -> None:
        self._stored = stored
        self._reveal = reveal
        self._is_json = is_json
        self._escapes = escapes
        self._open = _OPEN_WITH_TEXT if escapes else _OPEN
        self._deep: Absent | None = None

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is Ext:
            return self._extension(value, depth)
        if kind is dict:
            return self._too_deep() if depth >= LEVELS else self._mapping(value, depth)
        if kind is list:
            if depth >= LEVELS:
                return self._too_deep()
            with suppress(TypeError, OverflowError):
                sum(value, 0.0)  # told in C, for long lists of numbers
                return value
            is_open = self._open
            if is_open.isdisjoint(map(type, value)):
                return value
            for index, item in enumerate(value):
                if type(item) in is_open:
                    value[index] = self.value(item, depth + 1)
            return value
        if kind is BadText:
            return _part("msgpack text", value.data, _NOT_TEXT)
        if kind is str and self._escapes and _ESCAPED.search(value):
            return _part("json text", value.encode("utf-8", "surrogateescape"), _NOT_TEXT)
        return value

    def _mapping(self, fields: dict[Any, Any], depth: int) -> Any:
        is_open = self._open
        tuples = False
        for key, item in fields.items():
            if type(item) in is_open:
                fields[key] = self.value(item, depth + 1)
            if type(key) is tuple:
                tuples = True
        if tuples:
            return {packed.hashable(key): item for key, item in fields.items()}
        if self._is_json and "lc" in fields:
            name = constructor(fields)
            if name is not None:
                return self._constructor(name, fields)
        return fields

    def _constructor(self, name: str, fields: dict[str, Any]) -> Any:
        kind = fields["type"]
        if kind == "undefined":
            return Tagged(name, None)
        if kind == "secret":
            return Tagged(name, ".".join(fields["id"]))
        if kind == "not_implemented":
            return instance(name, [], {}, fields.get("repr"), reveal=self._reveal)
        args, kwargs = fields.get("args"), fields.get("kwargs")
        if args and kwargs:
            shown: Any = {"args": args, "kwargs": kwargs}
        elif args:
            shown = args[0] if type(args) is list and len(args) == 1 else args
        else:
            shown = {} if kwargs is None else kwargs
        return instance(name, _list(args), _dict(kwargs), shown, reveal=self._reveal)

    def _extension(self, ext: Ext, depth: int) -> Any:
        code, data = ext.code, ext.data
        ext.data = b""  # nested extensions would otherwise keep a copy of the rest at every level
        label = f"msgpack ext {code}"
        if depth >= LEVELS:
            return _part(label, data, _TOO_DEEP)
        if code == packed.TIMESTAMP:
            return _timestamp(data)
        if not packed.CLASS_OF_ONE <= code <= packed.DELTA_SNAPSHOT:
            return _part(label, data, "no such extension is known")
        try:
            parts = packed.unpack(data)
            if code == packed.ARRAY:
                array = ndarray(*parts)
                deep = depth + len(array["shape"]) > LEVELS
                return _part(label, data, _TOO_DEEP) if deep else Tagged(NDARRAY, array)
        except Damage as damage:
            return _part(label, data, str(damage))
        except (TypeError, ValueError) as error:
            reason = str(error) if type(error) is ValueError else "not the parts of an array"
            return _part(label, data, reason)
        if code == packed.DELTA_SNAPSHOT:
            del data
            return Tagged(DELTA_SNAPSHOT, self.value(parts, depth + 1))
        if type(parts) is not list or len(parts) < 3 + (code == packed.METHOD) or not _named(parts):
            return _part(label, data, "it does not begin with a module, a class and an argument")
        del data
        return self._instance(code, parts, depth)

    def _instance(self, code: int, parts: list[Any], depth: int) -> Any:
        name = f"{parts[0]}.{parts[1]}"
        if code == packed.METHOD and parts[3] != "fromisoformat":  # the only one that LangGraph writes
            call = self.value({"method": parts[3], "argument": parts[2]}, depth + 1)
            return instance(name, [], {}, call, reveal=self._reveal)
        argument = self.value(parts[2], depth + 1)
        if code in (packed.CLASS_OF_ONE, packed.METHOD):
            return instance(name, [argument], {}, argument, reveal=self._reveal)
        return instance(name, _list(argument), _dict(argument), argument, reveal=self._reveal)

    def _too_deep(self) -> Absent:
        if self._deep is None:
            self._deep = absent("undecodable", self._stored, _TOO_DEEP)
        return self._deep


def _named(parts: list[Any]) -> bool:
    return type(parts[0]) is str and type(parts[1]) is str


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _dict(value: Any) -> dict[Any, Any]:
    return value if type(value) is dict else {}


def _timestamp(data: bytes) -> Tagged | Absent:
    """The timestamp extension of the msgpack specification, 4, 8 or 12 bytes, as ISO text in UTC."""
    number = int.from_bytes(data, "big")
    if len(data) == 4:
        seconds, nanoseconds = number, 0
    elif len(data) == 8:
        seconds, nanoseconds = number & (1 << 34) - 1, number >> 34
    elif len(data) == 12:
        seconds, nanoseconds = int.from_bytes(data[4:], "big", signed=True), number >> 64
    else:
        return _part("msgpack ext -1", data, "not a timestamp")
    if nanoseconds >= 1_000_000_000:
        return _part("msgpack ext -1", data, "not a timestamp")
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return Tagged(TIMESTAMP, {"seconds": seconds, "nanoseconds": nanoseconds})
    fraction = f".{nanoseconds:09}".rstrip("0").rstrip(".")
    return Tagged(TIMESTAMP, moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z")
