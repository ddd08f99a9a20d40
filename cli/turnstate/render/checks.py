"""Expectations and what became of them, for a person: what was expected, what was found, where, and the difference."""

from __future__ import annotations

from collections.abc import Iterable

from turnstate.checking.accept import Acceptance
from turnstate.checking.expectations import Expectation, Problem
from turnstate.checking.judge import CheckReport, Finding, Result, Status
from turnstate.history.jsonform import plain, room_for_depth
from turnstate.history.phrases import clip, counted
from turnstate.render.diff import end_in_words, rows_of, unified_lines
from turnstate.render.reading import provenance
from turnstate.render.screen import Screen
from turnstate.render.tables import Style
from turnstate.render.text import numbers, one_line
from turnstate.render.values import json_text, value_text

_MARKS: dict[Status, tuple[str, Style]] = {
    "holds": ("ok   ", "green"),
    "fails": ("FAIL ", "red"),
    "error": ("ERROR", "red"),
    "not_run": ("-    ", "dim"),
}
_LONGEST = 200  # characters of a value on one line; a difference shows more
_MOST_LINES = 40  # of a difference
_BAR = "  | "  # before a line of stored text: a CI runner obeys one that begins with ``::``, blanks aside


def write_report(screen: Screen, report: CheckReport) -> None:
    """Every expectation, and how many hold."""
    said: set[str] = set()
    for result in report.results:
        mark, style = _MARKS[result.status]
        screen.line(f"{screen.on_out(mark, style)} {title(result.expectation)}")
        for line in details(result, color=screen.color):
            if result.message and line in said:  # such as a store that cannot be opened
                continue
            said.add(line)
            screen.line(f"  {line}")
    screen.line(totals(report))


def title(expectation: Expectation) -> str:
    """Where the expectation stands, and its name; safe to print."""
    return f"{place(expectation)}  {one_line(expectation.name)}"


def place(expectation: Expectation) -> str:
    """File and line; safe to print."""
    return one_line(f"{expectation.file}:{expectation.line}")


def totals(report: CheckReport) -> str:
    """``5 expectations: 3 hold, 2 do not``."""
    words: tuple[tuple[Status, str, str], ...] = (
        ("holds", "holds", "hold"),
        ("fails", "does not", "do not"),
        ("error", "cannot be told", "cannot be told"),
        ("not_run", "not run", "not run"),
    )
    counts = [(report.count(status), one, many) for status, one, many in words]
    parts = [f"{n} {one if n == 1 else many}" for n, one, many in counts if n or one == "holds"]
    return f"{counted(len(report.results), 'expectation')}: {', '.join(parts)}"


def details(result: Result, *, color: bool = False) -> list[str]:
    """What was expected and found where it does not hold, where that was read, and the difference; safe to print."""
    if result.status == "error":
        return [one_line(text) for text in (result.message, result.hint) if text]
    if result.status != "fails":
        return []
    lines: list[str] = []
    for finding in result.failed:
        lines += [f"expected  {expected_words(finding)}", f"found     {found_words(finding)}"]
        lines += _difference(finding, color)
    return [*lines, *filter(None, [where(result)])]


def expected_words(finding: Finding) -> str:
    """The condition and its value, on one line."""
    near = "" if finding.tolerance is None else f" ± {finding.tolerance}"
    return f"{finding.condition} {form_words(finding.expected)}{near}"


def found_words(finding: Finding) -> str:
    """The value or the outcome, and what must be said about it, on one line."""
    found = finding.found
    if not found.is_value:
        return one_line(f"{found.outcome}: {found.message}" if found.message else found.outcome)
    return form_words(found.form) + (f" ({one_line(found.message)})" if found.message else "")


def form_words(form: object) -> str:
    """A value on one line, not all of it where it is long."""
    if isinstance(form, str):
        return clip(json_text(form), _LONGEST)
    with room_for_depth():
        lines = value_text(plain(form)).splitlines()
    return clip(" ".join(line.strip() for line in lines), _LONGEST)


def where(result: Result) -> str:
    """Turn and checkpoint, and of a key who wrote it."""
    if result.since is not None and result.checkpoint is not None:
        return f"{end_in_words(result.since)} → turn {result.turn} · checkpoint {one_line(result.checkpoint)}"
    facts = provenance(result.reading) if result.reading is not None else []
    if not facts and result.checkpoint is not None:
        facts = [] if result.turn is None else [f"turn {result.turn}"]
        facts.append(f"checkpoint {result.checkpoint}")
    return " · ".join(map(one_line, facts))


def _difference(finding: Finding, color: bool) -> list[str]:
    """Where two values differ, unless both are short."""
    forms = finding.expected, finding.found.form
    if not finding.operations or not any(isinstance(form, list | dict) or _is_long(form) for form in forms):
        return []
    lines = list(unified_lines(rows_of(*forms, finding.operations), color=color, indent=_BAR))
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"{_BAR}… {counted(more, 'line')} more"] if more > 0 else lines


def _is_long(form: object) -> bool:
    return isinstance(form, str) and (len(form) > 60 or "\n" in form)


def write_acceptance(screen: Screen, acceptance: Acceptance) -> None:
    """What was changed in a file, and what was not."""
    for change in acceptance.changes:
        finding = change.finding
        mark = screen.on_out("accepted", "yellow")
        screen.line(f"{mark} {title(change.expectation)}")
        screen.line(f"  {screen.on_out(f'- {expected_words(finding)}', 'red')}")
        screen.line(f"  {screen.on_out(f'+ {finding.condition} {form_words(finding.found.form)}', 'green')}")
    for kept in acceptance.kept:
        screen.note(f"{place(kept.expectation)}: {kept.finding.condition} stays, {kept.why}", "yellow")


def write_problems(screen: Screen, problems: Iterable[Problem]) -> None:
    """What is wrong with files: place and what, then what to do."""
    for each in problems:
        screen.note(f": {each.what}", "red", lead=f"{each.file}:{each.line}:{each.column}")
        screen.note(f"  {each.hint}")


def failure_text(result: Result) -> str:
    """What an expectation is about and why it does not hold, for another program's report."""
    lines = [one_line(result.expectation.name), *(f"  {line}" for line in details(result))]
    if result.reading is not None and result.reading.total is not None:
        lines.append(
            f"  turns that can be read: {numbers(result.reading.retained) or 'none'} of {result.reading.total}"
        )
    return "\n".join(lines)
