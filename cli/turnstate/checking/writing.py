"""Values as TOML text, on one line, safe to print."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from datetime import date, datetime, time
from typing import Any

from turnstate.checking.compare import differences
from turnstate.checking.forms import ISO, NULL, expected_form

_DEEPEST = 40  # levels; a parser of TOML in Python gives up at some two hundred


class Unwritable(Exception):
    """A value cannot be written into a file of expectations; the text says why."""


def writable(form: Any) -> Any:
    """A JSON form as plain data that TOML can write and :func:`expected_form` reads back.

    Raises:
        Unwritable: It holds a masked secret, or text that no file can hold.
    """
    if form is None:
        return dict(NULL)
    if type(form) is list:
        return [writable(item) for item in form]
    if type(form) is dict:
        if "$masked" in form:
            raise Unwritable("it holds a secret, which is masked")
        if form.get("$type") == "float":
            return float(form["$value"])
        if (moment := _moment(form)) is not None:
            return moment
        return {writable(name): writable(item) for name, item in form.items()}
    if type(form) is str and any("\ud800" <= char <= "\udfff" for char in form):
        raise Unwritable("it holds text that is no Unicode")
    return form


def _moment(form: dict[str, Any]) -> datetime | date | time | None:
    """What TOML has a form of its own for."""
    for of, name in ISO:
        if form.get("$type") == name and type(form.get("$value")) is str:
            with suppress(ValueError):
                moment: datetime | date | time = of.fromisoformat(form["$value"])
                zoned = of is time and getattr(moment, "tzinfo", None)
                return moment if moment.isoformat() == form["$value"] and not zoned else None
    return None


def toml_text(value: Any) -> str:
    """A value on one line of TOML; mappings as inline tables, what cannot be seen as escapes.

    Raises:
        Unwritable: A parser would not read the same from it.
    """
    try:
        # Outside of quoted text, where an escape would not do, TOML has only what can be seen.
        text = "".join(char if char.isprintable() else _escaped(char) for char in _text(value, 0))
        if not differences(expected_form(value), expected_form(tomllib.loads(f"v = {text}")["v"])):
            return text
    except tomllib.TOMLDecodeError:
        pass
    raise Unwritable("TOML has no form for it")


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _text(value: Any, level: int) -> str:
    import tomlkit

    if level > _DEEPEST:
        raise Unwritable("it is nested too deeply")
    # Not as containers of tomlkit's: one that grows item by item takes the square of their number.
    if type(value) is dict:
        entries = (
            f"{tomlkit.key(name).as_string()} = {_text(item, level + 1)}" for name, item in value.items()
        )
        return "{" + ", ".join(entries) + "}"
    if type(value) is list:
        return "[" + ", ".join(_text(item, level + 1) for item in value) + "]"
    return str(tomlkit.item(value).as_string())
