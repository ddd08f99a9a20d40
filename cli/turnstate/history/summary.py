"""One line about a value: its type, and the beginning of what it holds.

Pure functions over plain data. The text is not escaped; whoever prints it does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from turnstate.history.phrases import clip, counted
from turnstate_backends.values import Absent, Tagged

SUMMARY_LENGTH = 72
_REASON_LENGTH = 200
"""Characters of a summary, at most."""

_ATOM_LENGTH = 24
_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bytes",
    list: "list",
    tuple: "list",
    dict: "dict",
}


def type_of(value: Any) -> str:
    """``null``, ``bool``, ``int``, ``float``, ``str``, ``bytes``, ``list``, ``dict``; the dotted class name of what
    was an instance; the kind of an absence."""
    if isinstance(value, Tagged):
        return value.type
    if isinstance(value, Absent):
        return value.kind
    return _NAMES.get(type(value), type(value).__name__)


def summary_of(value: Any) -> str:
    """What a value holds, in at most :data:`SUMMARY_LENGTH` characters: ``4 items: 12.4, 55.5, 12.7, 55.8``.

    The reason of an absence may take :data:`_REASON_LENGTH`: it ends with what to do.
    """
    if isinstance(value, Absent):
        return clip(str(value.stored.get("reason") or "no value"), _REASON_LENGTH)
    if isinstance(value, Tagged):
        if value.masked:
            return "masked"
        return summary_of(value.value) if isinstance(value.value, str | list | dict) else atom(value.value)
    if isinstance(value, str):
        return clip(value, SUMMARY_LENGTH)
    if isinstance(value, list | tuple):
        return _listed(len(value), "item", (atom(item) for item in value))
    if isinstance(value, dict):
        return _listed(len(value), "field", (clip(str(name), _ATOM_LENGTH) for name in value))
    return clip(atom(value), SUMMARY_LENGTH)


def _listed(count: int, noun: str, parts: Iterable[str]) -> str:
    head = counted(count, noun)
    shown = ", ".join(islice(parts, 12))
    return clip(f"{head}: {shown}{', …' if count > 12 else ''}", SUMMARY_LENGTH) if count else head


def atom(value: Any) -> str:
    """A value inside another one: a scalar as it is, a container by its type."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{clip(value, _ATOM_LENGTH)}"'
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Tagged):
        return _class_atom(value)
    if isinstance(value, list | tuple | dict):
        return f"{type_of(value)}[{len(value)}]"
    return clip(type_of(value) if isinstance(value, Absent) else _number(value), _ATOM_LENGTH)


def _class_atom(value: Tagged) -> str:
    name = value.type.rpartition(".")[2]
    fields = value.value
    content = fields.get("content") if isinstance(fields, dict) else fields
    if value.masked or not isinstance(content, str):
        return name
    return f'{name} "{clip(content, _ATOM_LENGTH)}"'


def _number(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 4096:  # Python refuses to print longer ones
        return f"int of {value.bit_length()} bits"
    return str(value)
