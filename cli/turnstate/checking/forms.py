"""Values as an expectation writes them, and as a store holds them: both in one JSON form, so that they compare.

The form is that of :func:`turnstate.history.jsonform.jsonable`. What TOML cannot write has the same tags there as in
JSON, ``{ "$type" = "module.Class", "$value" = … }``, and a null is ``{ "$type" = "null" }``.
"""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any, Final
from uuid import UUID

from turnstate.history.jsonform import jsonable

NULL: Final = {"$type": "null"}
ISO: Final[tuple[tuple[type[datetime] | type[date] | type[time], str], ...]] = (
    (datetime, "datetime.datetime"),
    (date, "datetime.date"),
    (time, "datetime.time"),
)
"""What TOML has a form of its own for, and its tag."""


def expected_form(value: Any) -> Any:
    """The JSON form of what an expectation says: plain data, its dates, and tags.

    Raises:
        TypeError: It holds what no store gives back, such as an instance of a class.
    """
    kind = type(value)
    if kind in (list, tuple):
        return [expected_form(item) for item in value]
    if kind is dict:
        return _mapping_form(value)
    for of, name in ISO:
        if kind is of:
            return {"$type": name, "$value": value.isoformat()}
    if kind in (set, frozenset):
        return {"$type": f"builtins.{kind.__name__}", "$value": [expected_form(item) for item in value]}
    if kind is UUID:
        return {"$type": "uuid.UUID", "$value": str(value)}
    return jsonable(value)


def _mapping_form(value: dict[Any, Any]) -> Any:
    if value == NULL:
        return None
    if "$type" in value or "$absent" in value or all(_is_plain(name) for name in value):
        return {name: expected_form(item) for name, item in value.items()}
    pairs = [[expected_form(name), expected_form(item)] for name, item in value.items()]
    return {"$type": "dict", "$value": pairs}


def _is_plain(name: Any) -> bool:
    return type(name) is str and not name.startswith("$")
