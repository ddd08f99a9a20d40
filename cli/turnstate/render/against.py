"""Two recordings compared turn by turn, for a person and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from turnstate.history.against import AgainstReport, Compared, Side
from turnstate.history.changes import DiffReport
from turnstate.history.places import Miss
from turnstate.render.diff import (
    SCHEMA,
    Detail,
    change_fields,
    difference_rows,
    end_fields,
    flat_ends,
    incomparable_fields,
)
from turnstate.render.documents import Document, present
from turnstate.render.listings import total_notes
from turnstate.render.screen import Screen
from turnstate.render.text import one_line
from turnstate.render.values import json_text

NO_IDS = "generated ids are not compared; --ids compares them too"

_WHERE: dict[Side | None, str] = {"from": " here", "to": " in the other", None: ""}


def write_against(
    screen: Screen, report: AgainstReport, write: Callable[[Screen, DiffReport], object]
) -> None:
    """Each turn under a heading, the way that ``write`` has for one comparison, or why there is none."""
    for each in report.turns:
        for line in _heading(screen, each):
            screen.line(line)
        for side, miss in each.missing:
            screen.line(f"  {screen.on_out(miss.outcome, 'red')}{_WHERE[side]}: {one_line(miss.message)}")
        if each.report is not None:
            write(screen, each.report)
    for note in dict.fromkeys(total_notes(report.first.turns) + total_notes(report.second.turns)):
        screen.note(note)
    if not report.ids:
        screen.note(NO_IDS)


def _heading(screen: Screen, each: Compared) -> Iterator[str]:
    first, second = each.questions
    question = first if first is not None else second
    number = screen.on_out(f"turn {each.turn}", "bold")
    yield number if question is None else f"{number}  {json_text(question)}"
    if not each.asked_alike:
        yield f"  the other asks {json_text(second)}"


def against_document(report: AgainstReport, *, detail: Detail) -> Document:
    """``turnstate.diff/1`` of two recordings: ``turns``, each with its two ends and what differs, or its outcomes."""
    turns: list[Document] = []
    for each in report.turns:
        turns += [_missing_fields(each, *missing) for missing in each.missing]
        if each.report is not None:
            turns.append(_turn_fields(report, each, each.report, detail))
    return {**_head(report), "turns": turns}


def against_lines(report: AgainstReport, *, detail: Detail) -> list[Document]:
    """``turnstate.diff/1`` of two recordings: one document per key of a turn, and per side that has no such turn."""
    head = _head(report)
    lines: list[Document] = []
    for each in report.turns:
        lines += [{**head, **_missing_fields(each, *missing)} for missing in each.missing]
        if each.report is not None:
            ends = {**head, "turn": each.turn, **flat_ends(each.report)}
            rows = difference_rows(each.report, detail=detail, patched=report.ids)
            lines += [{**ends, **row} for row in rows]
    return lines


def _head(report: AgainstReport) -> Document:
    return present(
        schema=SCHEMA,
        thread=report.first.thread,
        namespace=report.first.ns,
        against={"thread": report.second.thread, "total_turns": report.second.turns.total},
        asked=report.asked,
        ids_compared=report.ids,
        total_turns=report.first.turns.total,
        total_is=report.first.turns.total_is,
        turns_by=report.first.turns.by,
    )


def _turn_fields(report: AgainstReport, each: Compared, found: DiffReport, detail: Detail) -> Document:
    first, second = each.questions
    return {
        "turn": each.turn,
        "from": {**end_fields(found.old), **present(question=first)},
        "to": {**end_fields(found.new), **present(question=second)},
        "changes": [change_fields(change, detail=detail, patched=report.ids) for change in found.changes],
        **present(
            nowhere=found.nowhere or None,
            incomparable=[incomparable_fields(key) for key in found.incomparable] or None,
        ),
    }


def _missing_fields(each: Compared, side: Side | None, miss: Miss) -> Document:
    return present(turn=each.turn, outcome=miss.outcome, side=side, message=miss.message)
