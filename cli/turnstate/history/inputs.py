"""Inputs taken for questions, for threads whose question does not travel as a message.

Which rows begin a turn then, whether its beginning is kept, and what text stands for the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnstate.history.lines import Line, is_anchor
from turnstate.history.questions import Question
from turnstate.history.steps import RESUME, Step
from turnstate_backends.interface import Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Stored

if TYPE_CHECKING:
    from turnstate.history.thread import History

_SHORT_TEXT = 200  # characters of a text field that can still stand for the question


def inputs_of(history: History) -> list[Question]:
    """Each input of the line as a question; its row and the one that its turn begins with are the same."""
    rows = history.line.rows
    return [
        Question(
            _text(history, i),
            row=i,
            start=i,
            waiting=rows[i].source == "input",
            inherited=_is_inherited(history, i),
        )
        for i in input_rows(history.line, history.steps, history.writes)
    ]


def input_rows(line: Line, steps: Sequence[Step], writes: Mapping[str, Sequence[Write]]) -> list[int]:
    """Rows that begin a turn where inputs are counted: each input, and each run saved in one row."""
    starts = []
    for i, (row, step) in enumerate(zip(line.rows, steps, strict=True)):
        whole_run = step.arrival in ("first", "run") and not step.took_input
        whole_run &= row.source not in ("fork", "update") and not is_anchor(row)
        resumed = i > 0 and any(w.channel == RESUME for w in writes.get(line.rows[i - 1].id, ()))
        if row.source == "input" or (whole_run and not resumed):
            starts.append(i)
    return starts


def _is_inherited(history: History, i: int) -> bool:
    """Whether the turn of a first kept row had begun before it."""
    row = history.line.rows[i]
    if history.steps[i].arrival != "first" or row.source == "input":
        return False
    return bool(i) or history.line.front_dangling or not history.conversation.in_first_run(row.id)


def _text(history: History, i: int) -> str | None:
    """An input's own short text fields."""
    is_input = history.line.rows[i].source == "input"
    fields = _spread_input(history, i) if is_input else _saved_input(history, i)
    texts = {str(k): v for k, v in fields.items() if isinstance(v, str) and 0 < len(v) <= _SHORT_TEXT}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{name}: {text}" for name, text in texts.items()) or None


def _spread_input(history: History, i: int) -> dict[str, Any]:
    """From what ``__start__`` wrote, else from what still waits there."""
    row = history.line.rows[i]
    fields = {
        w.channel: decode(w.value)
        for w in history.writes.get(row.id, ())
        if not history.is_internal(w.channel) and w.value.complete
    }
    if fields:
        return fields
    value = history.conversation.input(row.id)
    return dict(value) if isinstance(value, Mapping) else {"input": value}


def _saved_input(history: History, i: int) -> dict[str, Any]:
    """Of a run saved in one row: the channels written last in the step that spread its input."""
    row = history.line.rows[i]
    versions = history.store.versions(history.thread, history.ns, [row.id]).get(row.id, {})
    spread = versions.get("__start__")
    names = [
        name for name, version in versions.items() if version == spread and not history.is_internal(name)
    ]
    found = history.values(row.id, names) if names else {}
    return {name: decode(stored) for name, stored in found.items() if isinstance(stored, Stored)}
