"""Answers of a bounded size: what is too much of a document is left out, and the document says so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from turnstate.history.refusals import Refused
from turnstate.history.summary import summary_of
from turnstate.render.documents import Document
from turnstate.render.values import json_text

Which = Literal["first", "last"]
"""Which rows of a list are kept."""

LEAST = 256
"""Bytes of a field, below which leaving it out gains little."""

_LEVELS = 100  # of JSON; parsers refuse what is nested more than about twice as deep
_NOTE = 600  # bytes that it may take to say what was left out
_LONE = re.compile("[\ud800-\udfff]")
_STAYS = frozenset(
    {"schema", "thread", "namespace", "key", "channel", "turn", "outcome", "checkpoint", "cut"}
)


class TooLarge(Refused):
    """Nothing that is left out makes the answer small enough."""


class Caps(Struct, frozen=True):
    """How much one answer may hold.

    Attributes:
        rows: Items of its list: threads, turns, keys, versions, changes, gaps.
        bytes: Of its JSON.
    """

    rows: int
    bytes: int


def fitted(
    document: Document,
    caps: Caps,
    *,
    ask: str,
    rows: str | None = None,
    keep: Which = "first",
) -> Document:
    """A document that keeps within its caps. What was left out stands in ``cut``, of the whole and of each row.

    Args:
        document: What was found.
        caps: How much it may hold.
        ask: How to ask for less, in words.
        rows: The field with its list.
        keep: Which rows stay.

    Raises:
        TooLarge: It cannot be made small enough.
    """
    document = {name: _shallow(value, _LEVELS) for name, value in document.items()}
    had = len(document[rows]) if rows else 0
    if rows:
        document[rows] = _some(document[rows], min(had, caps.rows), keep)
    room = caps.bytes
    if _size(document) > room:
        room -= _NOTE
        if rows:
            document[rows] = [dict(row) for row in document[rows]]
            _lighten(document, document[rows] if keep == "last" else reversed(document[rows]), room)
            _fill(document, rows, room, keep)
        _lighten(document, [document], room, but=rows)
    kept = len(document[rows]) if rows else 0
    lighter = "cut" in document or any("cut" in row for row in (document[rows] if rows else ()))
    if kept == had and not lighter:
        return document
    cut = document.get("cut", {})
    if kept < had:
        of = {} if "rows" in cut else {"of": had}  # else there were even more
        cut = {**cut, "rows": {"shown": kept, **of, "which": keep}}
    cut = {**cut, "ask": ask}
    document = {**document, "cut": cut}
    if _size(document) > caps.bytes:
        raise TooLarge("the answer is too large", f"it may have {caps.bytes} bytes", ask)
    return document


def lightened(row: Document, caps: Caps) -> Document:
    """A row that alone keeps within the caps, as far as leaving out fields can make it."""
    if _size(row) > caps.bytes:
        row = dict(row)
        _lighten(row, [row], caps.bytes - _NOTE)
    return row


def _lighten(document: Document, parts: Iterable[Document], room: int, *, but: str | None = None) -> None:
    """Leave out the largest fields of some parts, one part after the other, then those of half the size, until the
    document fits."""
    sizes = [(part, {name: _size(value) for name, value in part.items()}) for part in parts]
    over = _size(document) - room
    limit = max(room // 2, LEAST)
    while over > 0 and limit >= LEAST:
        for part, size in sizes:
            for name in [each for each in size if each not in _STAYS and each != but and size[each] > limit]:
                if over > 0:
                    over -= _leave_out(part, name, size.pop(name))
        limit //= 2


def _leave_out(part: Document, name: str, size: int) -> int:
    """Put in a field's place how large it was and what it holds. Returns by how much that is smaller."""
    left = {"bytes": size, "holds": summary_of(part.pop(name))}
    cut = part.get("cut", {})
    part["cut"] = {**cut, "fields": {**cut.get("fields", {}), name: left}}
    return size - _size(left) - len(name)


def _fill(document: Document, rows: str, room: int, keep: Which) -> None:
    """As many rows as there is room for."""
    held = document[rows]
    free = room - _size({**document, rows: []})
    count = 0
    for row in held if keep == "first" else reversed(held):
        free -= _size(row) + 1
        if free < 0:
            break
        count += 1
    document[rows] = _some(held, count, keep)


def _some(rows: list[Any], count: int, keep: Which) -> list[Any]:
    return rows[:count] if keep == "first" else rows[len(rows) - count :]


def _size(part: Any) -> int:
    return len(json_text(part).encode())


def _shallow(value: Any, levels: int) -> Any:
    """A value whose deepest parts are left out."""
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return {"$cut": f"nested deeper than {_LEVELS} levels"}
    if isinstance(value, list):
        return [_shallow(each, levels - 1) for each in value]
    return {name: _shallow(each, levels - 1) for name, each in value.items()}


def encodable(value: Any) -> Any:
    """A document without lone surrogates, which no protocol carries; they become U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else _LONE.sub("\ufffd", value)
    if isinstance(value, list):
        return [encodable(each) for each in value]
    if isinstance(value, dict):
        return {encodable(name): encodable(each) for name, each in value.items()}
    return value
