"""What was an instance when it was stored, as a :class:`Tagged` value that a person can read.

It receives the class name and the arguments that LangGraph stored, already plain data, and finds the
readable form of the standard types that LangGraph encodes (``langgraph.checkpoint.serde.jsonplus``
since 1.0, LangGraph.js ``serde/jsonplus.ts``). No class is looked up: names are only text here. Every
other class shows its arguments as stored. It knows neither msgpack nor JSON.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from turnstate_backends.values import Tagged

MASK = "**********"

_BYTES = {"builtins.bytes", "builtins.bytearray", "Uint8Array"}
_Args = Sequence[Any]
_Fields = Mapping[str, Any]


def instance(
    name: str, args: Sequence[Any], fields: Mapping[str, Any], shown: Any, *, reveal: bool = False
) -> Any:
    """The plain form of a stored constructor call.

    Args:
        name: Dotted class name as stored.
        args: Positional arguments; empty when there are none.
        fields: Keyword arguments; empty when there are none.
        shown: The value to show for a class that has no form of its own here, or whose arguments
            are not the ones its form expects.
        reveal: Show the content of secrets.

    Returns:
        A :class:`Tagged`; ``bytes`` for the bytes that old releases and LangGraph.js store as a constructor call.
    """
    if not reveal and is_secret(name):
        return Tagged(name, MASK, masked=True)
    form = _FORMS.get(name) or _path_form(name)
    if form is not None:
        try:
            shown = form(args, fields)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError):
            pass
        else:
            if name in _BYTES:
                return shown
    return Tagged(name, shown)


@lru_cache(maxsize=256)  # asked once for each message of a conversation
def is_secret(name: str) -> bool:
    """Whether a class of this name keeps its content from being shown (pydantic's ``Secret*``)."""
    name = name.split("[", 1)[0].rpartition(".")[2]
    return name.startswith("Secret") or name.endswith(("SecretStr", "SecretBytes"))


def _uuid(args: _Args, _: _Fields) -> str:
    digits = args[0]
    if not isinstance(digits, str) or len(digits) != 32 or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise ValueError
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _date(args: _Args, _: _Fields) -> str:
    year, month, day = args
    return datetime.date(year, month, day).isoformat()


def _time(_: _Args, fields: _Fields) -> str:
    parts = (fields["hour"], fields["minute"], fields["second"], fields["microsecond"])
    zone = fields.get("tzinfo")
    text = datetime.time(*parts).isoformat()
    if isinstance(zone, Tagged) and zone.type == "datetime.timezone":
        offset = zone.value.removeprefix("UTC").partition(" ")[0]
        text += offset or "+00:00"
    elif isinstance(zone, Tagged):
        text += f"[{zone.value}]"
    elif zone is not None:
        raise ValueError
    return text + (" fold=1" if fields.get("fold") == 1 else "")


def _timedelta(args: _Args, _: _Fields) -> dict[str, Any]:
    days, seconds, microseconds = args
    return {"days": days, "seconds": seconds, "microseconds": microseconds}


def _timezone(args: _Args, _: _Fields) -> str:
    """``UTC``, ``UTC+01:00``, ``UTC+01:00 NAME``: Python's own text, then the name that was given."""
    offset, *name = args
    parts = offset.value
    zone = datetime.timezone(
        datetime.timedelta(parts["days"], parts["seconds"], parts["microseconds"]),
    )
    return " ".join([str(zone), *name])


def _members(args: _Args, _: _Fields) -> list[Any]:
    """A set's members in an order of their own: the stored one depends on the writer's hash seed."""
    members = list(args[0])
    kinds = {type(member) for member in members}
    if kinds == {int} or kinds == {str}:
        return sorted(members)
    return sorted(members, key=_order)


def _order(value: Any, depth: int = 4) -> str:
    """A text to sort by, of bounded depth: sets of sets of sets would be walked once per level."""
    if depth and isinstance(value, Tagged):
        return f"{value.type} {_order(value.value, depth - 1)}"
    if depth and isinstance(value, list):
        return f"list {[_order(item, depth - 1) for item in value]}"
    if isinstance(value, (str, bytes, int, float)):
        return f"{type(value).__name__} {value!r}"
    return type(value).__name__


def _pattern(args: _Args, _: _Fields) -> dict[str, Any]:
    pattern, flags = args
    return {"pattern": pattern, "flags": flags}


def _send(args: _Args, fields: _Fields) -> dict[str, Any]:
    if fields:
        return dict(fields)
    node, arg, *timeout = args
    return {"node": node, "arg": arg, **({"timeout": timeout[0]} if timeout else {})}


def _bytes(args: _Args, _: _Fields) -> bytes:
    return bytes.fromhex(args[0])


def _byte_array(args: _Args, _: _Fields) -> bytes:
    if not isinstance(args[0], list):  # a number would be a length
        raise TypeError
    return bytes(args[0])


def _path_form(name: str) -> Callable[[_Args, _Fields], str] | None:
    if not name.startswith(("pathlib.", "pathlib._local.")):
        return None
    separator = "\\" if "Windows" in name else "/"

    def join(args: _Args, _: _Fields) -> str:
        if not args:
            return "."
        first, *rest = args
        gap = "" if first.endswith(separator) or not rest else separator
        return f"{first}{gap}{separator.join(rest)}"

    return join


_FORMS: dict[str, Callable[[_Args, _Fields], Any]] = {
    "uuid.UUID": _uuid,
    "asyncpg.pgproto.pgproto.UUID": _uuid,
    "datetime.date": _date,
    "datetime.time": _time,
    "datetime.timedelta": _timedelta,
    "datetime.timezone": _timezone,
    "builtins.set": _members,
    "builtins.frozenset": _members,
    "Set": _members,
    "re.compile": _pattern,
    "RegExp": _pattern,
    "langgraph.types.Send": _send,
    "langgraph.constants.Send": _send,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytes,
    "Uint8Array": _byte_array,
}
