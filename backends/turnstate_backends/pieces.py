"""Taking a payload apart into raw pieces, and putting raw pieces together again, nothing decoded.

The counterpart of :mod:`turnstate_backends.heads` for values that no single row holds: a rebuilt value is an
ordinary payload, so that whoever decodes, measures or compares it needs to know nothing of how it came about.
Formats: ``langgraph.checkpoint.serde.jsonplus`` (ext 7 for a delta snapshot, ext 2 for ``Overwrite``, ext 0 for a
set) and ``langgraph.channels.binop._get_overwrite`` (the dictionary forms of ``Overwrite``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from turnstate_backends import heads, packed, payload
from turnstate_backends.heads import Unreadable
from turnstate_backends.instances import is_secret
from turnstate_backends.values import Absent, Stored, Tagged

OVERWRITE = "langgraph.types.Overwrite"
SETS = ("builtins.set", "builtins.frozenset")

_OVERWRITE_FIELD = "__overwrite__"
_FIELDS = frozenset({packed.CLASS_OF_FIELDS, packed.PYDANTIC_1, packed.PYDANTIC_2})


def is_nothing(stored: Stored) -> bool:
    """Whether the payload is a null."""
    return stored.type == "null" or stored.data == {"msgpack": b"\xc0", "json": b"null"}.get(
        stored.type or ""
    )


def snapshot_value(stored: Stored) -> Stored | None:
    """The value inside a delta snapshot; None for any other payload."""
    data = stored.data
    if stored.type != "msgpack" or not data or not _is_ext(data, packed.DELTA_SNAPSHOT):
        return None
    return _sliced(data[packed.body(data) :])


def overwritten(stored: Stored) -> Stored | None:
    """The value inside an ``Overwrite``, in each of its stored forms; None for any other payload.

    Raises:
        Unreadable: The payload cannot be looked into.
    """
    if heads.class_name(stored) == OVERWRITE:
        return fields(stored)["value"]
    found = heads.entries(stored)
    if found is None:
        return None
    if set(found) == {_OVERWRITE_FIELD}:
        return found[_OVERWRITE_FIELD]
    if "type" in found and "value" in found and payload.decode(found["type"]) == _OVERWRITE_FIELD:
        return found["value"]
    return None


def fields(stored: Stored) -> dict[Any, Stored]:
    """The fields of an instance that was stored with its fields; empty for every other payload.

    Raises:
        Unreadable: The payload cannot be looked into.
    """
    data = stored.data
    if payload.encoding(stored) == "json":
        found = heads.entries(stored) or {}
        return heads.entries(found["kwargs"]) or {} if "kwargs" in found else found
    if not any(_is_ext(data, code) for code in _FIELDS):
        return {}
    parts = heads.elements(_sliced(data[packed.body(data) :]))
    return (heads.entries(parts[2]) or {}) if parts and len(parts) > 2 else {}


def members(stored: Stored) -> list[Stored] | None:
    """The members of a set in stored order; None for any other payload.

    Raises:
        Unreadable: The payload cannot be looked into.
    """
    if heads.class_name(stored) not in SETS:
        return None
    parts = heads.elements(_sliced(stored.data[packed.body(stored.data) :]))
    return heads.elements(parts[2]) if parts and len(parts) > 2 else None


def pairs(stored: Stored) -> list[tuple[bytes, Stored]] | None:
    """The entries of a map in stored order, each with its key's own bytes; None for any other payload.

    Raises:
        Unreadable: The payload cannot be looked into.
    """
    values = heads.entries(stored)
    if values is None:
        return None
    if payload.encoding(stored) != "msgpack":
        raise Unreadable("a mapping that is not msgpack")
    data = stored.data
    skipper = packed.Skipper(data, stored.size, packed.body(data))
    found = []
    for _ in range(packed.header(data)[1]):
        start = skipper.position
        middle = skipper.skip()
        found.append((data[start:middle], _sliced(data[middle : skipper.skip()])))
    return found


def array(parts: Sequence[Stored]) -> Stored:
    """An array of values.

    Raises:
        Unreadable: One of them is no msgpack.
    """
    return _sliced(_packer().pack_array_header(len(parts)) + b"".join(map(_piece, parts)))


def mapping(parts: Sequence[tuple[bytes, Stored]]) -> Stored:
    """A map of msgpack keys and values.

    Raises:
        Unreadable: One of the values is no msgpack.
    """
    body = b"".join(key + _piece(value) for key, value in parts)
    return _sliced(_packer().pack_map_header(len(parts)) + body)


def set_of(parts: Sequence[Stored]) -> Stored:
    """A set of values.

    Raises:
        Unreadable: One of them is no msgpack.
    """
    return _sliced(instance(packed.CLASS_OF_ONE, SETS[0], array(parts).data))


def packed_value(value: Any) -> Stored:
    """Decoded plain data as a payload again, so that it decodes to an equal value.

    Raises:
        TypeError: The value holds something else than plain data.
    """
    return _sliced(_pack(value))


def _pack(value: Any) -> bytes:
    kind = type(value)
    if kind is list or kind is tuple:
        return bytes(_packer().pack_array_header(len(value))) + b"".join(map(_pack, value))
    if kind is dict:
        return bytes(_packer().pack_map_header(len(value))) + b"".join(_joined(value.items()))
    if kind is set or kind is frozenset:
        return instance(packed.CLASS_OF_ONE, f"builtins.{kind.__name__}", _pack(list(value)))
    if isinstance(value, Tagged):
        if value.masked or is_secret(value.type):
            raise TypeError("a secret")
        return instance(packed.CLASS_OF_ONE, value.type, _pack(value.value))
    if isinstance(value, Absent):
        raise TypeError("a part that could not be read")
    if value is not None and kind not in (bool, int, float, str, bytes):
        raise TypeError(f"a {kind.__module__}.{kind.__qualname__}, which is no plain data")
    try:
        return bytes(_packer().pack(value))
    except (OverflowError, ValueError, UnicodeError) as error:
        raise TypeError(str(error)) from None


def _joined(items: Iterable[tuple[Any, Any]]) -> Iterable[bytes]:
    for key, item in items:
        yield _pack(key)
        yield _pack(item)


def instance(code: int, name: str, argument: bytes) -> bytes:
    """An extension that names a class and its packed argument."""
    module, _, cls = name.rpartition(".")
    packer = _packer()
    body = packer.pack_array_header(3) + packer.pack(module) + packer.pack(cls) + argument
    return bytes(packer.pack_ext_type(code, body) or b"")


def _piece(stored: Stored) -> bytes:
    if stored.type == "null":
        return b"\xc0"
    if stored.type != "msgpack":
        raise Unreadable(f"a value of type {stored.type}")
    return stored.data


def _is_ext(data: bytes, code: int) -> bool:
    try:
        return packed.header(data)[0] == 0xC9 and packed.ext_code(data) == code
    except packed.Damage:
        return False


def _sliced(data: bytes) -> Stored:
    return Stored("msgpack", data, len(data))


def _packer() -> Any:
    import msgpack

    return msgpack.Packer(use_bin_type=True)
