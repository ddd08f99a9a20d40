"""Whether a value is what an expectation says. Pure functions over JSON forms.

Equal is what :mod:`turnstate.history.diff` finds no difference in: 1, 1.0, true and "1" differ, members of a set and
entries of a mapping have no order.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from turnstate.history.diff import Operation, diff, form_type


def differences(expected: Any, found: Any, tolerance: float | None = None) -> tuple[Operation, ...]:
    """What makes the expected form into the found one; empty where they are equal.

    Args:
        expected: A JSON form.
        found: Another one.
        tolerance: How far two numbers may lie apart; whole numbers and others are then not told apart.
    """
    if tolerance is not None:
        expected = _drawn_to(expected, found, tolerance)
    return tuple(each for each in diff(expected, found) if not each.order_only)


def _drawn_to(expected: Any, found: Any, tolerance: float) -> Any:
    """The expected form with the found numbers in place of those that lie near enough."""
    if type(expected) is list and type(found) is list and len(expected) == len(found):
        return [_drawn_to(a, b, tolerance) for a, b in zip(expected, found, strict=True)]
    if type(expected) is dict and type(found) is dict:
        return {
            name: _drawn_to(item, found[name], tolerance) if name in found else item
            for name, item in expected.items()
        }
    if _is_number(expected) and _is_number(found) and _near(expected, found, tolerance):
        return found
    return expected


def _near(a: float, b: float, tolerance: float) -> bool:
    try:
        return abs(a - b) <= tolerance or math.isclose(abs(a - b), tolerance, rel_tol=1e-9)
    except OverflowError:  # a whole number that no float can hold
        return a == b


def _is_number(form: Any) -> bool:
    return type(form) in (int, float)


def contains(found: Any, expected: Any) -> bool:
    """Whether a text has a part, a list an item, a mapping a name or entries; of an array, each of these.

    An instance is its fields, and an item or entry that is a mapping is found by the entries that are expected of it.
    """
    wanted = expected if type(expected) is list else [expected]
    return all(_holds(found, each) for each in wanted)


def _holds(found: Any, expected: Any) -> bool:
    held = _fields(found)
    if type(held) is str:
        return type(expected) is str and expected in held
    if type(held) is list:
        return any(_includes(item, expected) for item in held)
    if type(held) is dict and "$type" not in held and "$absent" not in held:
        return expected in held if type(expected) is str else _includes(held, expected)
    return False


def _includes(found: Any, expected: Any) -> bool:
    """Whether they are equal, or the one has the entries of the other."""
    if not differences(expected, found):
        return True
    held = _fields(found)
    if type(expected) is not dict or type(held) is not dict or "$type" in expected:
        return False
    return all(name in held and _includes(held[name], item) for name, item in expected.items())


def _fields(form: Any) -> Any:
    """What an instance holds; any other form as it is."""
    tagged = type(form) is dict and "$type" in form and "$masked" not in form
    return form["$value"] if tagged and "$value" in form else form


def matches(found: Any, pattern: str) -> bool | None:
    """Whether a text has a part that matches; None where it is no text."""
    return None if type(found) is not str else re.search(pattern, found) is not None


ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "less_than": operator.lt,
    "at_most": operator.le,
    "at_least": operator.ge,
    "more_than": operator.gt,
}
"""Conditions that order two numbers, or two texts."""


def ordered(found: Any, name: str, expected: Any) -> bool | None:
    """Whether a value stands in an order to another; None where they have none."""
    both_numbers = _is_number(found) and _is_number(expected)
    both_texts = type(found) is str and type(expected) is str
    return ORDERS[name](found, expected) if both_numbers or both_texts else None


def is_of_type(found: str, expected: str) -> bool:
    """Whether a type is the one that is named, by its last name where that is all that is given."""
    return expected in (found, found.rpartition(".")[2])


def type_in_words(form: Any) -> str:
    """What a value is, for a condition that only texts or numbers can meet."""
    kind = form_type(form)
    return f"a value of type {kind}"
