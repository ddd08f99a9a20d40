"""The JSON form of plain data: every distinction kept, and valid JSON always.

It is what ``--json`` prints and what differences are computed over. Values are at most
:data:`turnstate_backends.payload.LEVELS` deep, so the form is made by recursion.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from turnstate_backends.values import Absent, Tagged

_HEX = re.compile("-?0x[0-9a-f]+")
_FRAMES = 10_000


_AS_THEY_ARE = frozenset({str, bool, type(None)})


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
        if _are_numbers(value) or _AS_THEY_ARE.issuperset(map(type, value)):
            return list(value)
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
    if kind is bytes:
        return {"$type": "bytes", "$base64": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"{kind.__qualname__} is no plain data")


def _are_numbers(items: list[Any] | tuple[Any, ...]) -> bool:
    """Whether all are numbers that JSON can hold, told in C, as a value can be a long list of them.

    A sum that begins with a float is not finite when a part is not, and refuses an integer that no float can hold.
    """
    try:
        return math.isfinite(sum(items, 0.0))
    except (TypeError, OverflowError):
        return False


def plain(form: Any) -> Any:
    """The plain data that a JSON form stands for, for whoever shows a part of one.

    What cannot be a name in a ``dict`` becomes its JSON text there; a masked secret stays masked.
    """
    kind = type(form)
    if kind is list:
        return [plain(item) for item in form]
    if kind is not dict:
        return form
    if "$absent" in form:
        return Absent(
            form["$absent"], {name: plain(item) for name, item in form.items() if name != "$absent"}
        )
    if "$type" not in form:
        return {name: plain(item) for name, item in form.items()}
    name, value = form["$type"], form.get("$value")
    if name == "bytes" and "$base64" in form:
        return base64.b64decode(form["$base64"])
    if name == "float" and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if name == "int" and type(value) is str and _HEX.fullmatch(value):
        return int(value, 16)
    if is_mapping_of_pairs(form):
        return {_name(key): plain(item) for key, item in form["$value"]}
    return Tagged(name, plain(value), masked="$masked" in form)


def is_mapping_of_pairs(form: Any) -> bool:
    """Whether a JSON form is that of a mapping that JSON cannot hold as an object: ``[[name, item], …]``."""
    if type(form) is not dict or form.get("$type") != "dict" or type(form.get("$value")) is not list:
        return False
    pairs = form["$value"]
    return bool(pairs) and all(type(item) is list and len(item) == 2 for item in pairs)


def _name(form: Any) -> Any:
    key = tuple(map(_name, form)) if type(form) is list else plain(form)
    try:
        hash(key)
    except TypeError:
        return json.dumps(form)
    return key


def float_name(value: float) -> str:
    """How a float that JSON cannot hold is named."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@contextmanager
def room_for_depth() -> Iterator[None]:
    """Every level of a value may take four of JSON, and more than one frame of Python each.

    The limit is that of the whole process: it is lowered again when no thread needs the room any more.
    """
    _ROOM.take()
    try:
        yield
    finally:
        _ROOM.leave()


class _Room:
    """How many are within, and the limit that was there before the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._within = 0
        self._before = 0

    def take(self) -> None:
        with self._lock:
            if not self._within:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, _FRAMES))
            self._within += 1

    def leave(self) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                sys.setrecursionlimit(self._before)


_ROOM = _Room()
