"""The JSON form of plain data: every distinction kept, and valid JSON always.

It is what ``--json`` prints and what differences are computed over. Values are at most
:data:`turnstate_backends.payload.LEVELS` deep, so the form is made by recursion.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from turnstate_backends.values import Absent, Tagged


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
        return value if math.isfinite(value) else {"$type": "float", "$value": float_name(value)}
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


def float_name(value: float) -> str:
    """How a float that JSON cannot hold is named."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@contextmanager
def room_for_depth() -> Iterator[None]:
    """Every level of a value may take four of JSON, and more than one frame of Python each."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
