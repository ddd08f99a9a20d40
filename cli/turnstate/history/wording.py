"""What changed between two decoded values, in one line, and whether anything did.

Pure functions over plain data, cheap enough for a log of many versions: they stop where the rest does not matter.
Every difference is :mod:`turnstate.history.diff`'s affair. The text is not escaped; whoever prints it does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnstate.history.diff import SETS, diff, masked
from turnstate.history.jsonform import jsonable, plain
from turnstate.history.phrases import clip, counted
from turnstate.history.summary import atom, summary_of
from turnstate_backends.instances import is_secret
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


def difference_in_words(old: Any, new: Any, *, reveal: bool = False) -> str:
    """The difference of two values in one line: what came and went in lists and mappings, else ``old → new``.

    Args:
        old: A value, its secrets included: two that differ are told apart.
        new: Another one.
        reveal: Show the content of secrets.
    """
    if isinstance(old, Tagged) and isinstance(new, Tagged) and old.type == new.type:
        name = old.type.rpartition(".")[2]
        if is_secret(old.type) and not reveal:
            return f"{name} → another secret"
        return f"{name} {difference_in_words(old.value, new.value, reveal=reveal)}"
    if isinstance(old, list) and isinstance(new, list):
        return _lists_in_words(old, new, reveal)
    if isinstance(old, dict) and isinstance(new, dict):
        return _mappings_in_words(old, new, reveal)
    return f"{_short(old, reveal)} → {_short(new, reveal)}"


def _lists_in_words(old: list[Any], new: list[Any], reveal: bool) -> str:
    most = min(len(old), len(new))
    front = next((i for i in range(most) if not equal_values(old[i], new[i])), most)
    back = next((i for i in range(most - front) if not equal_values(old[-1 - i], new[-1 - i])), most - front)
    gone, come = old[front : len(old) - back], new[front : len(new) - back]
    if gone and len(gone) == len(come):
        first = f"[{front}] {difference_in_words(gone[0], come[0], reveal=reveal)}"
        return first if len(gone) == 1 else f"{len(gone)} of {len(new)} items: {first}, …"
    return "; ".join(
        items_in_words(sign, items, reveal=reveal) for sign, items in (("-", gone), ("+", come)) if items
    )


def items_in_words(sign: str, items: Sequence[Any], *, reveal: bool) -> str:
    """Items that came or went: ``+2 items: "a", "b"``."""
    shown = ", ".join(atom(_seen(item, reveal)) for item in items[:_FEW])
    return f"{sign}{counted(len(items), 'item')}: {shown}{', …' if len(items) > _FEW else ''}"


def _mappings_in_words(old: dict[Any, Any], new: dict[Any, Any], reveal: bool) -> str:
    changed = [name for name in new if name in old and not equal_values(old[name], new[name])]
    marked = [("-", name) for name in old if name not in new] + [
        ("+", name) for name in new if name not in old
    ]
    if len(changed) != 1:
        marked += [("~", name) for name in changed]
    parts = [f"{sign}{_seen(name, reveal)}" for sign, name in marked]
    if len(changed) == 1:
        words = difference_in_words(old[changed[0]], new[changed[0]], reveal=reveal)
        parts.append(f"{_seen(changed[0], reveal)}: {words}")
    shown = ", ".join(parts[: 2 * _FEW])
    return f"{shown}, … ({len(parts)} fields)" if len(parts) > 2 * _FEW else shown


def summary(value: Any) -> str:
    """A value in one line, text in quotes."""
    return f'"{summary_of(value)}"' if isinstance(value, str) else summary_of(value)


def _seen(value: Any, reveal: bool) -> Any:
    """A value as it is shown: without the content of secrets unless they are revealed."""
    return value if reveal or isinstance(value, str) else plain(masked(jsonable(value)))


def _short(value: Any, reveal: bool) -> str:
    return clip(summary(_seen(value, reveal)), _SHORT)
