"""Whether an expectation holds for a thread: a pure function of both, whose result says what was found and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from turnstate.checking import compare
from turnstate.checking.expectations import Expectation
from turnstate.checking.forms import expected_form
from turnstate.history.branches import branch_report
from turnstate.history.changes import DiffReport, End, Standpoint, diff_report
from turnstate.history.diff import Operation, form_type
from turnstate.history.gaps import gap_report
from turnstate.history.jsonform import jsonable, room_for_depth
from turnstate.history.keys import AmbiguousKey, Key, matching
from turnstate.history.places import Miss, turn_place
from turnstate.history.query import QueryError, compiled, selected
from turnstate.history.reading import Reading, read
from turnstate.history.thread import History

Status = Literal["holds", "fails", "error", "not_run"]
"""``error``: it could not be told; ``not_run``: another one had failed before, and that was to be the end."""

_NOT_THERE = ("no_such_key", "not_yet_written", "removed")


class Found(Struct, frozen=True):
    """What a condition was held against.

    Attributes:
        form: The JSON form of what is there; None also where nothing is, see ``outcome``.
        outcome: As in :data:`turnstate.history.reading.Outcome`; all but ``value`` mean that there is nothing.
        message: What must be said about it.
    """

    form: Any = None
    outcome: str = "value"
    message: str = ""

    @property
    def is_value(self) -> bool:
        return self.outcome == "value"


class Finding(Struct, frozen=True):
    """One condition of an expectation.

    Attributes:
        condition: Its name.
        expected: The JSON form of what is expected.
        found: What there is.
        holds: Whether it is as expected.
        operations: What makes the expected value into the found one, where the two were compared as a whole.
        tolerance: How far numbers may lie apart.
    """

    condition: str
    expected: Any
    found: Found
    holds: bool
    operations: tuple[Operation, ...] = ()
    tolerance: float | None = None


class Result(Struct, frozen=True):
    """How an expectation came out.

    Attributes:
        expectation: The expectation.
        status: See :data:`Status`.
        findings: One per condition, in the order of the file; empty where it could not be told.
        turn: The turn that was read.
        checkpoint: The checkpoint that was read.
        reading: Of a key: the read, its value included.
        since: Of a change: the end that came first; ``turn`` and ``checkpoint`` are then the other's.
        message: Why it could not be told.
        hint: What to do about that.
    """

    expectation: Expectation
    status: Status
    findings: tuple[Finding, ...] = ()
    turn: int | None = None
    checkpoint: str | None = None
    reading: Reading | None = None
    since: End | None = None
    message: str = ""
    hint: str = ""

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The conditions that do not hold."""
        return tuple(finding for finding in self.findings if not finding.holds)


def judge(expectation: Expectation, history: History | Miss) -> Result:
    """Hold an expectation against a thread along a line.

    Args:
        expectation: What is expected.
        history: The thread, or why there is none.
    """
    if isinstance(history, Miss):
        return _judged(expectation, _of_nothing(expectation, history))
    with room_for_depth():
        return _JUDGES[expectation.kind](expectation, history)


def _judged(expectation: Expectation, findings: Iterator[Finding], **where: Any) -> Result:
    found = tuple(findings)
    return Result(expectation, "holds" if all(each.holds for each in found) else "fails", found, **where)


def _of_nothing(expectation: Expectation, miss: Miss) -> Iterator[Finding]:
    """What holds where there is no thread, or no such turn."""
    for name, value in expectation.conditions.items():
        found = Found(outcome=miss.outcome, message=miss.message)
        if name == "outcome":
            yield Finding(name, value, Found(miss.outcome, message=miss.message), miss.outcome == value)
        elif name == "exists" and miss.outcome == "no_such_thread":
            yield Finding(name, value, Found(False, message=miss.message), value is False)
        else:
            yield Finding(name, expected_form(value), found, False)


def _plain(name: str, expected: Any, found: Any, message: str = "") -> Finding:
    """A condition that one plain answer meets."""
    return Finding(name, expected, Found(found, message=message), expected == found)


# A key.


def _judge_value(expectation: Expectation, history: History) -> Result:
    table = expectation.table
    place = turn_place(history, table.get("turn", -1), at_start=table.get("at_start", False))
    try:
        reading = read(history, table["key"], place)
    except AmbiguousKey as error:
        words = f"{table['key']!r} is an entry of {len(error.names)} channels: {', '.join(error.names)}"
        return Result(expectation, "error", message=words, hint="Give one of these names.")
    found = found_by(reading, table.get("query"))
    return _judged(
        expectation,
        (_of_value(name, value, table, reading, found) for name, value in expectation.conditions.items()),
        turn=reading.turn,
        checkpoint=reading.checkpoint,
        reading=reading,
    )


def found_by(reading: Reading, query: str | None = None) -> Found:
    """The value of a read, or what a JMESPath expression selects of it."""
    if reading.outcome != "value":
        return Found(outcome=reading.outcome, message=reading.message)
    if query is None:
        return Found(jsonable(reading.value))
    try:
        return Found(jsonable(selected(compiled(query), reading.value)))
    except QueryError as error:
        return Found(outcome="not_selectable", message=f"the query cannot be applied to the value: {error}")


def _of_value(name: str, value: Any, table: Mapping[str, Any], reading: Reading, found: Found) -> Finding:
    if name in _OF_READING:
        return _OF_READING[name](value, reading)
    expected = expected_form(value)
    if not found.is_value:
        return Finding(name, expected, found, False)
    return compared(name, expected, found, table.get("tolerance"))


def compared(name: str, expected: Any, found: Found, tolerance: float | None = None) -> Finding:
    """A condition on a value, by its name in the vocabulary; both sides are JSON forms."""
    form = found.form
    if name in ("equals", "not_equals"):
        operations = compare.differences(expected, form, tolerance)
        holds = bool(operations) == (name == "not_equals")
        return Finding(name, expected, found, holds, operations if name == "equals" else (), tolerance)
    if name == "type":
        kind = form_type(form)
        return Finding(name, expected, Found(kind), compare.is_of_type(kind, expected))
    if name == "contains":
        return Finding(name, expected, found, compare.contains(form, expected))
    verdict = compare.matches(form, expected) if name == "matches" else compare.ordered(form, name, expected)
    if verdict is None:
        words = f"{compare.type_in_words(form)} has no such order, nor text to match"
        return Finding(name, expected, Found(form, message=words), False)
    return Finding(name, expected, found, verdict)


def _outcome(expected: Any, reading: Reading) -> Finding:
    return _plain("outcome", expected, reading.outcome, reading.message)


def _absent(expected: Any, reading: Reading) -> Finding:
    absent = reading.outcome in _NOT_THERE
    if not absent and reading.outcome != "value":  # then it cannot be told
        return Finding("absent", expected, Found(outcome=reading.outcome, message=reading.message), False)
    return _plain("absent", expected, absent, reading.message if absent else "it is there")


def _written_in(expected: Any, reading: Reading) -> Finding:
    if reading.channel is None and reading.outcome != "no_such_key":
        found = Found(outcome=reading.outcome, message=reading.message)
        return Finding("written_in", expected, found, False)
    lost = "rows that are gone wrote it too, in turns that can no longer be told"
    return _plain(
        "written_in", expected, list(reading.turns_written), lost if reading.earlier_unknown else ""
    )


def _written_by(expected: Any, reading: Reading) -> Finding:
    written = reading.written
    if written is not None and written.node is not None:
        return _plain("written_by", expected, written.node)
    nobody = "nothing tells which node wrote it" if reading.outcome == "value" else reading.message
    outcome = "unknown" if reading.outcome == "value" else reading.outcome
    return Finding("written_by", expected, Found(outcome=outcome, message=nobody), False)


_OF_READING: Mapping[str, Callable[[Any, Reading], Finding]] = {
    "outcome": _outcome,
    "absent": _absent,
    "written_in": _written_in,
    "written_by": _written_by,
}


# What changed.


def _judge_change(expectation: Expectation, history: History) -> Result:
    old, new = (turn_place(history, number) for number in expectation.table["between"])
    if isinstance(old, Miss) or isinstance(new, Miss):
        report: DiffReport | Miss = old if isinstance(old, Miss) else new  # type: ignore[assignment]
    else:
        report = diff_report(Standpoint(history, old), Standpoint(history, new))
    if isinstance(report, Miss):
        return _judged(expectation, _of_nothing(expectation, report), turn=report.turn)
    changed = {each.key: each.name for each in report.changes}
    unsure = [each.name for each in report.incomparable]
    return _judged(
        expectation,
        (_of_change(name, value, changed, unsure) for name, value in expectation.conditions.items()),
        turn=report.new.turn,
        checkpoint=report.new.checkpoint,
        since=report.old,
    )


def _of_change(name: str, patterns: list[str], changed: Mapping[Key, str], unsure: list[str]) -> Finding:
    """Every name that changed is what was found, whatever was expected of it."""
    hit = {pattern: _named(pattern, changed) for pattern in patterns}
    met = {key for keys in hit.values() for key in keys}
    holds = {
        "changed": all(hit.values()),
        "only_changed": met == set(changed) and not unsure,
        "unchanged": not met and not unsure,
    }[name]
    words = f"can be read at neither end, so may have changed: {', '.join(unsure)}" if unsure else ""
    return Finding(name, patterns, Found(sorted(changed.values()), message=words), holds)


def _named(pattern: str, changed: Mapping[Key, str]) -> list[Key]:
    exact = [key for key, name in changed.items() if pattern in (name, key.full_name, key.channel)]
    return exact or matching(pattern, changed)


# A turn, and a thread.


def _judge_turn(expectation: Expectation, history: History) -> Result:
    turns = history.turns
    number = expectation.table["turn"]
    wanted = turns.total + 1 + number if number < 0 else number
    if not 1 <= wanted <= turns.total:
        miss = turn_place(history, number)
        assert isinstance(miss, Miss)
        return _judged(expectation, _of_nothing(expectation, miss), turn=number)
    turn = turns.turns[wanted]
    row = turn.end if turn.end is not None else turn.last
    answers = {"question": turn.question, "question_matches": turn.question, "status": turn.status}
    return _judged(
        expectation,
        (_of_turn(name, value, answers[name]) for name, value in expectation.conditions.items()),
        turn=wanted,
        checkpoint=None if row is None else history.line.rows[row].id,
    )


def _of_turn(name: str, expected: str, found: str | None) -> Finding:
    if found is None:
        what = "its rows are gone" if name == "status" else "no text of it is known"
        return Finding(name, expected, Found(outcome="unknown", message=what), False)
    if name == "question_matches":
        return Finding(name, expected, Found(found), bool(compare.matches(found, expected)))
    return _plain(name, expected, found)


def _judge_thread(expectation: Expectation, history: History) -> Result:
    return _judged(
        expectation,
        (_plain(name, value, *_OF_THREAD[name](history)) for name, value in expectation.conditions.items()),
        turn=history.turns.total,
        checkpoint=history.line.rows[-1].id,
    )


def _total(history: History) -> tuple[int, str]:
    sure = {"exact": "", "at_least": "it has had at least so many", "estimate": "it has had about so many"}
    return history.turns.total, sure[history.turns.total_is]


def _retained(history: History) -> tuple[list[int], str]:
    return list(history.turns.retained), ""


def _gaps(history: History) -> tuple[int, str]:
    losses = gap_report(history).losses
    words = [
        f"{gap.kind} in turn {', '.join(map(str, gap.turns))}"
        if gap.turns
        else f"{gap.kind} before {gap.before}"
        for gap in losses
    ]
    return len(losses), "; ".join(words)


def _forks(history: History) -> tuple[int, str]:
    tips = [row.tip for row in branch_report(history).rows if not row.current]
    return len(tips), f"branches: {', '.join(tips)}" if tips else ""


_OF_THREAD: Mapping[str, Callable[[History], tuple[Any, str]]] = {
    "turns": _total,
    "retained": _retained,
    "gaps": _gaps,
    "forks": _forks,
    "exists": lambda history: (True, ""),
}

_JUDGES: Mapping[str, Callable[[Expectation, History], Result]] = {
    "value": _judge_value,
    "change": _judge_change,
    "turn": _judge_turn,
    "thread": _judge_thread,
}


class CheckReport(Struct, frozen=True):
    """How the expectations of some files came out, in their order."""

    results: tuple[Result, ...]

    def count(self, status: Status) -> int:
        return sum(result.status == status for result in self.results)
