"""A value in an answer of bounded size: whole where it is short, else its outline, or the lines that match.

Pure but for :mod:`turnstate.agent.bounded`, which may wait for another process. Knows no state and no turns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from turnstate.agent.bounded import at_path, is_steps, matching_lines
from turnstate.history.jsonform import jsonable
from turnstate.history.phrases import clip, counted
from turnstate.history.summary import atom, summary_of, type_of
from turnstate.render.values import json_text, value_text
from turnstate_backends.values import Tagged

MOST_WHOLE = 4_000
"""Characters of JSON that a value may have to be given whole."""
_MOST_ROWS = 25  # of an outline
_MOST_MATCHES = 40
_MOST_OF_A_LINE = 200
_BEFORE_MATCH = 60


def content_of(value: Any, path: str | None = None, pattern: str | None = None) -> dict[str, Any]:
    """The fields of an answer that say what a value is.

    Args:
        value: Plain data, as :func:`turnstate.agent.live.plain` gives it.
        path: JMESPath into it.
        pattern: A regular expression; only the lines of the value's text in which it matches are given.

    Returns:
        ``type``, and one of ``value``; ``outline`` with ``size`` and ``hint``; ``matches`` with ``matching_lines`` and
        ``lines``. Also ``path`` where one was given.

    Raises:
        BadExpression: ``path`` or ``pattern`` cannot be read or applied.
        TooCostly: One of them was given up.
    """
    told: dict[str, Any] = {}
    if path is not None:
        value = at_path(path, value)
        told["path"] = path
        if value is None:
            told["hint"] = (
                "the path leads to null, or to nothing: read the key without path to see its fields"
            )
    told["type"] = type_of(value)
    if pattern is not None:
        return {**told, **_matches(value, pattern)}
    form = jsonable(value)
    size = len(json_text(form))
    if size <= MOST_WHOLE:
        return {**told, "value": form}
    return {**told, "size": size, **_outline(value, path)}


def _matches(value: Any, pattern: str) -> dict[str, Any]:
    lines = value_text(value).splitlines()
    count, places = matching_lines(pattern, lines, _MOST_MATCHES)
    found = [{"line": i + 1, "text": _around(lines[i], start)} for i, start in places]
    told: dict[str, Any] = {
        "pattern": pattern,
        "lines": len(lines),
        "matching_lines": count,
        "matches": found,
    }
    if count > len(found):
        told["hint"] = "only the first matching lines are shown: narrow the pattern, or give a path too"
    return told


def _around(line: str, start: int) -> str:
    begin = max(0, start - _BEFORE_MATCH) if len(line) > _MOST_OF_A_LINE else 0
    return ("…" if begin else "") + clip(line[begin:], _MOST_OF_A_LINE)


def _outline(value: Any, path: str | None) -> dict[str, Any]:
    """What a long value consists of: its lines where it is a text, else its fields or items, with a path to each."""
    parts = value.value if isinstance(value, Tagged) else value
    if isinstance(parts, str):
        lines = value_text(parts).splitlines()
        rows = [{"line": i, "text": clip(s, 120)} for i, s in enumerate(lines[:_MOST_ROWS], 1)]
        hint = "give pattern, a regular expression, to read the lines that match"
        return _listed(rows, len(lines), "line", hint)
    hint = (
        "give one of these paths (JMESPath) as path to read that part, or pattern to read matching lines only"
    )
    if isinstance(parts, Mapping):
        rows = [_row(path, _step(str(name)), item) for name, item in islice(parts.items(), _MOST_ROWS)]
        return _listed(rows, len(parts), "field", hint)
    if isinstance(parts, list | tuple):
        rows = [_row(path, f"[{i}]", item) for i, item in enumerate(parts[:_MOST_ROWS])]
        return _listed(rows, len(parts), "item", hint)
    return {"outline": [{"summary": clip(atom(parts), 120)}]}


def _listed(rows: list[dict[str, Any]], count: int, noun: str, hint: str) -> dict[str, Any]:
    return {"holds": counted(count, noun), "outline": rows, "hint": hint}


def _row(path: str | None, step: str, item: Any) -> dict[str, Any]:
    if path is None:
        full = step
    elif is_steps(path):
        full = f"{path}{step}" if step.startswith("[") else f"{path}.{step}"
    else:
        full = f"{path} | {step}"
    return {"path": full, "type": type_of(item), "summary": summary_of(item)}


def _step(name: str) -> str:
    """A field's name as JMESPath has it: quoted where it is not a word."""
    return name if name.isascii() and name.isidentifier() else json.dumps(name)
