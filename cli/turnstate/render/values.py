"""Plain data in two forms: as JSON that keeps every distinction, and as text for a person.

Knows the types of :mod:`turnstate_backends.values`; knows neither keys nor turns. Values are at most
:data:`turnstate_backends.payload.LEVELS` deep, so both forms recurse.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from turnstate.render.text import json_safe, multi_line, one_line
from turnstate_backends.values import Absent, Tagged

_WIDTH = 100
_INDENT = "  "
_LONGEST_INT = 4300  # digits that Python prints and reads without being told to


def jsonable(value: Any) -> Any:
    """A value as what ``json`` can write, nothing lost.

    Instances become ``{"$type", "$value"}``, bytes ``{"$type": "bytes", "$base64"}``, absences
    ``{"$absent": kind, …}``, NaN and the infinities ``{"$type": "float", "$value": "NaN"}``. A dict with a
    name that is no text, or one that begins with ``$``, becomes ``{"$type": "dict", "$value": [[name, item], …]}``.
    The rest stays plain.
    """
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() < 14000 else {"$type": "int", "$value": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$type": "float", "$value": _float_name(value)}
    if kind is list or kind is tuple:
        return [jsonable(item) for item in value]
    if kind is dict:
        if all(type(name) is str and not name.startswith("$") for name in value):
            return {name: jsonable(item) for name, item in value.items()}
        return {"$type": "dict", "$value": [[jsonable(k), jsonable(v)] for k, v in value.items()]}
    if kind is Tagged:
        masked = {"$masked": True} if value.masked else {}
        return {"$type": value.type, "$value": jsonable(value.value), **masked}
    if kind is Absent:
        return {"$absent": value.kind, **{str(k): jsonable(v) for k, v in value.stored.items()}}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$type": "bytes", "$base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, set | frozenset):
        return {"$type": f"builtins.{kind.__name__}", "$value": [jsonable(item) for item in value]}
    return {"$type": f"{kind.__module__}.{kind.__qualname__}", "$value": str(value)}


def queryable(value: Any) -> Any:
    """A value as a JMESPath expression looks into it: an instance is its fields, every name is text."""
    if isinstance(value, Tagged):
        return queryable(value.value)
    if isinstance(value, list | tuple):
        return [queryable(item) for item in value]
    if isinstance(value, dict):
        return {str(name): queryable(item) for name, item in value.items()}
    return value


def value_text(value: Any) -> str:
    """A value for a person: text as it is, the rest like JSON, with class names before instances."""
    if isinstance(value, str):
        return multi_line(value)
    with _room_for_depth():
        return "\n".join(_lines(value, _WIDTH))


def _lines(value: Any, width: int) -> list[str]:
    """The lines of a value; one line where it fits into ``width``."""
    if isinstance(value, Tagged):
        lines = ["(masked)"] if value.masked else _lines(value.value, width)
        return [f"{one_line(value.type)} {lines[0]}", *lines[1:]]
    if isinstance(value, list | tuple):
        parts = [_lines(item, max(width - 2, 20)) for item in value]
        return _joined("[", parts, "]", width)
    if isinstance(value, dict):
        parts = [
            [f"{_name(name)}: {lines[0]}", *lines[1:]]
            for name, item in value.items()
            for lines in [_lines(item, max(width - 2, 20))]
        ]
        return _joined("{", parts, "}", width)
    return [_scalar(value)]


def _joined(opening: str, parts: list[list[str]], closing: str, width: int) -> list[str]:
    if all(len(part) == 1 for part in parts):
        line = opening + ", ".join(part[0] for part in parts) + closing
        if len(line) <= width:
            return [line]
    lines = [opening]
    for i, part in enumerate(parts):
        comma = "," if i + 1 < len(parts) else ""
        lines += [_INDENT + line for line in part[:-1]]
        lines.append(_INDENT + part[-1] + comma)
    return [*lines, closing]


def _name(name: Any) -> str:
    return _quoted(name) if isinstance(name, str) else "\n".join(_lines(name, _WIDTH))


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and not math.isfinite(value):
        return _float_name(value)
    if isinstance(value, bytes):
        return f"bytes {base64.b64encode(value).decode('ascii')!r}"
    if isinstance(value, Absent):
        reason = value.stored.get("reason")
        return f"<{value.kind}{': ' + one_line(str(reason)) if reason else ''}>"
    if isinstance(value, int) and value.bit_length() >= 14000:
        return hex(value)
    return json.dumps(jsonable(value))


def _quoted(text: str) -> str:
    return json_safe(json.dumps(text, ensure_ascii=False))


def _float_name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_text(document: Any, *, ascii_only: bool = False) -> str:
    """A document of :func:`jsonable` parts on one line of JSON; never ``NaN``, safe to print.

    Args:
        document: What to write.
        ascii_only: For a stream whose encoding cannot hold every character.
    """
    with _room_for_depth():
        return json_safe(json.dumps(document, ensure_ascii=ascii_only, allow_nan=False))


@contextmanager
def _room_for_depth() -> Iterator[None]:
    """Every level of a value may take four of JSON, and more than one frame of Python each."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
