"""What changed between two decoded values, in one line, and whether anything did.

Pure functions over plain data, cheap enough for a log of many versions: they stop where the rest does not matter.
Every difference is :mod:`turnstate.history.diff`'s affair. The text is not escaped; whoever prints it does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnstate.history.diff import SETS, diff
from turnstate.history.jsonform import jsonable
from turnstate.history.summary import atom, summary_of
from turnstate_backends.values import Tagged

_FEW = 3
_SHORT = 40


def equal_values(old: Any, new: Any) -> bool:
    """Whether two decoded values are the same as :func:`turnstate.history.diff.diff` tells it, but for the order of
    what has none; it ends at the first difference."""
    kind = type(old)
    if kind is not type(new):
        return False
    if kind is list or kind is tuple:
        return len(old) == len(new) and all(map(equal_values, old, new))
    if kind is float:
        return repr(old) == repr(new)
    if kind is dict and all(type(name) is str for name in (*old, *new)):
        return old.keys() == new.keys() and all(equal_values(item, new[name]) for name, item in old.items())
    if kind is Tagged and old.type == new.type and old.type not in SETS:
        return equal_values(old.value, new.value)
    if kind is dict or kind is Tagged:
        return all(operation.order_only for operation in diff(jsonable(old), jsonable(new)))
    return bool(old == new)


def difference_in_words(old: Any, new: Any) -> str:
    """The difference of two values in one line: what came and went in lists and mappings, else ``old → new``."""
    if isinstance(old, Tagged) and isinstance(new, Tagged) and old.type == new.type:
        return f"{old.type.rpartition('.')[2]} {difference_in_words(old.value, new.value)}"
    if isinstance(old, list) and isinstance(new, list):
        return _lists_in_words(old, new)
    if isinstance(old, dict) and isinstance(new, dict):
        return _mappings_in_words(old, new)
    return f"{_short(old)} → {_short(new)}"


def _lists_in_words(old: list[Any], new: list[Any]) -> str:
    most = min(len(old), len(new))
    front = next((i for i in range(most) if not equal_values(old[i], new[i])), most)
    back = next((i for i in range(most - front) if not equal_values(old[-1 - i], new[-1 - i])), most - front)
    gone, come = old[front : len(old) - back], new[front : len(new) - back]
    if gone and len(gone) == len(come):
        first = f"[{front}] {difference_in_words(gone[0], come[0])}"
        return first if len(gone) == 1 else f"{len(gone)} of {len(new)} items: {first}, …"
    return "; ".join(items_in_words(sign, items) for sign, items in (("-", gone), ("+", come)) if items)


def items_in_words(sign: str, items: Sequence[Any]) -> str:
    """Items that came or went: ``+2 items: "a", "b"``."""
    shown = ", ".join(map(atom, items[:_FEW]))
    return f"{sign}{_count(len(items), 'item')}: {shown}{', …' if len(items) > _FEW else ''}"


def _mappings_in_words(old: dict[Any, Any], new: dict[Any, Any]) -> str:
    changed = [name for name in new if name in old and not equal_values(old[name], new[name])]
    parts = [f"-{name}" for name in old if name not in new] + [f"+{name}" for name in new if name not in old]
    if len(changed) == 1:
        parts.append(f"{changed[0]}: {difference_in_words(old[changed[0]], new[changed[0]])}")
    else:
        parts += [f"~{name}" for name in changed]
    shown = ", ".join(parts[: 2 * _FEW])
    return f"{shown}, … ({len(parts)} fields)" if len(parts) > 2 * _FEW else shown


def summary(value: Any) -> str:
    """A value in one line, text in quotes."""
    return f'"{summary_of(value)}"' if isinstance(value, str) else summary_of(value)


def _short(value: Any) -> str:
    text = summary(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
