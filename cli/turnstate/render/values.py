"""Plain data in two forms: as JSON that keeps every distinction, and as text for a person.

Knows the types of :mod:`turnstate_backends.values`; knows neither keys nor turns. Values are at most
:data:`turnstate_backends.payload.LEVELS` deep, so both forms recurse.
"""

from __future__ import annotations

import base64
import json
import math
from contextlib import suppress
from functools import cached_property
from operator import attrgetter
from typing import Any

from turnstate.history.jsonform import float_name, jsonable, room_for_depth
from turnstate.render.text import json_safe, multi_line, one_line
from turnstate_backends.values import Absent, Tagged

_WIDTH = 100
_INDENT = "  "
_QUOTE = json.JSONEncoder(ensure_ascii=False).encode  # made once: a value can hold a hundred thousand names


def value_text(value: Any) -> str:
    """A value for a person: text as it is, the rest like JSON, with class names before instances."""
    if isinstance(value, str):
        return multi_line(value)
    with room_for_depth():
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
        return float_name(value)
    if isinstance(value, bytes):
        return f"bytes {base64.b64encode(value).decode('ascii')!r}"
    if isinstance(value, Absent):
        reason = value.stored.get("reason")
        return f"<{value.kind}{': ' + one_line(str(reason)) if reason else ''}>"
    if type(value) is float:
        return repr(value)
    if type(value) is int:
        return hex(value) if value.bit_length() >= 14000 else repr(value)
    return json.dumps(jsonable(value))


def _quoted(text: str) -> str:
    return json_safe(_QUOTE(text))


class Shared:
    """A part that stands in a document more than once; :func:`json_text` works its text out once."""

    def __init__(self, part: Any) -> None:
        self.part = part

    @cached_property
    def text(self) -> Any:
        """The text, as orjson takes it. Raises ``orjson.JSONEncodeError``."""
        import orjson

        return orjson.Fragment(orjson.dumps(self.part))


def json_text(document: Any, *, ascii_only: bool = False) -> str:
    """A document of :func:`jsonable` and :class:`Shared` parts on one line of JSON; never ``NaN``, safe to print.

    Args:
        document: What to write.
        ascii_only: For a stream whose encoding cannot hold every character.
    """
    import orjson  # writes numbers ten times as fast as the standard library; a log can hold a million

    if not ascii_only:
        with suppress(orjson.JSONEncodeError):  # a number beyond 64 bits, a lone surrogate, deep nesting
            return json_safe(orjson.dumps(document, default=attrgetter("text")).decode())
    with room_for_depth():
        plain = json.JSONEncoder(
            ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"), default=attrgetter("part")
        )
        return json_safe(plain.encode(document))
