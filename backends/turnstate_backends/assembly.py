"""A checkpoint payload put together from parts, as ``SqliteSaver`` would have written it.

For stores that keep a checkpoint's values apart from it. What is msgpack already goes in as it is; nothing is decoded
that need not be, and no class is looked up. Formats: ``langgraph.checkpoint.sqlite.SqliteSaver.put`` and
``langgraph.checkpoint.serde.jsonplus`` (constructors in JSON, extensions 0 to 2 and 5 in msgpack).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from turnstate_backends import packed, payload, pieces
from turnstate_backends.values import Stored

_FIRST = ("v", "ts", "id", "channel_values", "channel_versions", "versions_seen")
_EMBEDDED = frozenset({"msgpack", "json", "null", "bytes", "bytearray"})


def assembled(state: Mapping[str, Stored], values: Mapping[str, Stored]) -> tuple[Stored, frozenset[str]]:
    """One payload of a checkpoint and its values.

    Args:
        state: The checkpoint's fields without ``channel_values``, each JSON or msgpack.
        values: Payload by channel, not encrypted.

    Returns:
        The payload, and the channels that it cannot hold: pickles, and numbers beyond 64 bits beside msgpack. It is
        JSON where values are instances in JSON and none is anything else, as the releases wrote it that knew only
        JSON; else msgpack.

    Raises:
        TypeError: A field of the checkpoint itself cannot be held.
    """
    parts = [*(name for name in _FIRST if name in state or name == "channel_values")]
    parts += [name for name in state if name not in _FIRST]
    if _is_all_json(values, {"bytes"} if _is_of_javascript(state) else set()):
        fields = dict(state, channel_values=_json_map(values))
        return _json_map({name: fields[name] for name in parts}), frozenset()
    held = {name: found for name, value in values.items() if (found := _held(value))}
    fields = dict(state, channel_values=_msgpack_map(held))
    return _msgpack_map({name: fields[name] for name in parts}), frozenset(values.keys() - held)


def _held(value: Stored) -> Stored | None:
    try:
        return as_msgpack(value) if value.type in _EMBEDDED else None
    except (TypeError, RecursionError):
        return None


def _is_of_javascript(state: Mapping[str, Stored]) -> bool:
    """Whether LangGraph.js wrote the checkpoint, which counts versions by numbers and writes JSON throughout."""
    versions = payload.decode(state["channel_versions"]) if "channel_versions" in state else None
    return isinstance(versions, dict) and any(isinstance(version, int) for version in versions.values())


def _is_all_json(values: Mapping[str, Stored], besides: Collection[str]) -> bool:
    if any(value.type not in ("json", "null", *besides) for value in values.values()):
        return False
    return any(value.type == "json" and not _is_short(value.data) for value in values.values())


def _is_short(data: bytes) -> bool:
    """Whether JSON is text or another scalar, of those that msgpack can hold."""
    if data.lstrip()[:1] in (b"{", b"["):
        return False
    number = json.loads(data, parse_float=str)
    return not isinstance(number, int) or -(2**63) <= number < 2**64


def _json_map(parts: Mapping[str, Stored]) -> Stored:
    entries = (json.dumps(name).encode() + b": " + _as_json(part) for name, part in parts.items())
    data = b"{" + b", ".join(entries) + b"}"
    return Stored("json", data, len(data))


def _as_json(stored: Stored) -> bytes:
    if stored.type == "null":
        return b"null"
    if stored.type == "json":
        return stored.data
    if stored.type == "bytes":  # as LangGraph.js has them inside a value
        named = {"lc": 2, "type": "constructor", "id": ["Uint8Array"], "method": "from"}
        return json.dumps({**named, "args": [list(stored.data)]}).encode()
    return json.dumps(payload.decode(stored)).encode()


def _msgpack_map(parts: Mapping[str, Stored]) -> Stored:
    return pieces.mapping([(_packed(name), as_msgpack(part)) for name, part in parts.items()])


def as_msgpack(stored: Stored) -> Stored:
    """A value as msgpack: JSON's instances become the extensions that name the same class and arguments.

    Raises:
        TypeError: It holds a number that msgpack cannot hold.
    """
    if stored.type in ("bytes", "bytearray"):
        data = _packed(stored.data)
    elif stored.type == "json":
        text, _ = payload.json_text(stored.data)
        data = _converted(json.loads(text))
    else:
        return stored
    return Stored("msgpack", data, len(data))


def _converted(value: Any) -> bytes:
    if type(value) is list:
        return pieces.array([_wrapped(item) for item in value]).data
    if type(value) is not dict:
        return _packed(value)
    name = payload.constructor(value)
    args, kwargs = value.get("args"), value.get("kwargs")
    if name is None or value.get("type") != "constructor" or (args and kwargs):
        return pieces.mapping([(_packed(key), _wrapped(item)) for key, item in value.items()]).data
    if kwargs or not args:
        code = packed.PYDANTIC_2 if value["lc"] == 1 else packed.CLASS_OF_FIELDS
        return pieces.instance(code, name, _converted(kwargs or {}))
    if type(args) is list and len(args) == 1:
        return pieces.instance(packed.CLASS_OF_ONE, name, _converted(args[0]))
    return pieces.instance(packed.CLASS_OF_MANY, name, _converted(args))


def _wrapped(value: Any) -> Stored:
    data = _converted(value)
    return Stored("msgpack", data, len(data))


def _packed(value: Any) -> bytes:
    return pieces.packed_value(value).data
