"""Turns: a question and everything up to the next one, as spans of rows on a line.

Pure functions. What a question is stands in ``questions``; here they are numbered, given their rows, and
told apart by whether the state with which they ended is still kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Literal, Protocol

from msgspec import Struct

from turnstate.history.lines import Line
from turnstate.history.questions import Findings, Question
from turnstate.history.steps import (
    ERROR,
    INTERRUPT,
    NO_WRITES,
    SPECIAL,
    Step,
    is_trigger,
    is_update_task,
)
from turnstate_backends.interface import Write

Status = Literal["complete", "interrupted", "error", "unfinished", "never_ran"]
TurnsBy = Literal["questions", "inputs"]
TotalIs = Literal["exact", "at_least", "estimate"]
Doubt = Literal["unread", "nodes", "branches"]
"""Why a total is an estimate: an input's messages cannot be read; a message may be a node's own; rows before a seam may
be another branch's."""


class Turn(Struct, frozen=True):
    """One turn of a line.

    Attributes:
        number: From 1; 0 is the state before the first question.
        question: What was asked; None where no text is known (some inputs carry none).
        first: Position of the turn's first row; None where it has no row of its own any more.
        last: Position of its last row.
        end: Position of the row that holds the state as the turn ended; None when that is no longer kept.
        status: How it ended; None when its rows are gone.
        asked_with: All numbers of the questions that came in one input, where several did.
        edited: ``update_state`` was used within the turn.
        inherited: Its question was already there in a first kept row: its beginning is gone.
    """

    number: int
    question: str | None
    first: int | None
    last: int | None
    end: int | None
    status: Status | None
    asked_with: tuple[int, ...] = ()
    edited: bool = False
    inherited: bool = False

    @property
    def retained(self) -> bool:
        """Whether the state with which the turn ended can be read."""
        return self.end is not None

    @property
    def borrowed(self) -> bool:
        """Whether that state is read from the row that took the next input, the turn's own last row being gone."""
        return self.end is not None and self.end != self.last


class Turns(Struct, frozen=True, dict=True):
    """The turns of one line.

    Attributes:
        turns: All of them, those no longer retained included, in order; ``turns[0]`` is turn 0.
        by: What was counted.
        total_is: ``exact``; ``at_least`` where rows and messages are both gone, so some may not be seen;
            ``estimate`` where a message had to be counted that may be a node's own or another branch's, or that
            cannot be read.
        doubt: See :data:`Doubt`; None where the total is no estimate.
    """

    turns: tuple[Turn, ...]
    by: TurnsBy
    total_is: TotalIs
    doubt: Doubt | None = None

    @property
    def total(self) -> int:
        return len(self.turns) - 1

    @property
    def retained(self) -> tuple[int, ...]:
        """Numbers of the turns from 1 whose end can be read."""
        return tuple(t.number for t in self.turns[1:] if t.retained)

    def at_row(self, row: int) -> tuple[int, ...]:
        """Numbers of the turns that a row belongs to: several where several questions came in one input."""
        i = bisect_right(self._firsts, row) - 1
        return self._numbers[i] if i >= 0 else (0,)

    def together(self, number: int) -> tuple[int, ...]:
        """The numbers of the questions that came in one input with that of a turn, its own included."""
        return self.turns[number].asked_with or (number,)

    @cached_property
    def _spans(self) -> dict[int, tuple[int, ...]]:
        spans: dict[int, tuple[int, ...]] = {}
        for turn in self.turns:
            if turn.first is not None:
                spans[turn.first] = (*spans.get(turn.first, ()), turn.number)
        return spans

    @cached_property
    def _firsts(self) -> list[int]:
        return list(self._spans)

    @cached_property
    def _numbers(self) -> list[tuple[int, ...]]:
        return list(self._spans.values())


class Records(Protocol):
    """What turns ask of a thread beside its line."""

    @property
    def writes(self) -> Mapping[str, Sequence[Write]]:
        """Write rows by the checkpoint they hang on."""

    @property
    def edges(self) -> Mapping[str, bool]:
        """Channels that are edges of an older release, and whether a node that ran listens to them."""

    def took_input_on_top_of(self, before: str, after: str) -> bool:
        """Whether the latest input that ``after`` knows of was taken on top of ``before``, with nothing in between."""

    def at_rest(self, checkpoint: str) -> bool | None:
        """Whether no node was set off in a checkpoint; None where its layout does not tell."""


def turns_by_questions(line: Line, steps: Sequence[Step], found: Findings, records: Records) -> Turns:
    """Number the questions and give each its span: from the row that took it to the row before the next one."""
    pruned = line.front_missing or bool(line.seams)
    total_is: TotalIs = "exact"
    doubt: Doubt | None = None
    if found.unreadable or found.perhaps_asked or (pruned and found.named_at_front):
        total_is, doubt = "estimate", "unread" if found.unreadable else "nodes"
    elif found.unseen or (pruned and (found.trimmed_at_front or found.removes)):
        total_is = "at_least"
    elif found.parted:
        total_is, doubt = "estimate", "branches"
    return Turns(_number(line, steps, found.questions, records), "questions", total_is, doubt)


def turns_by_inputs(line: Line, steps: Sequence[Step], inputs: Sequence[Question], records: Records) -> Turns:
    """One turn per input, for threads whose question does not travel as a message."""
    pruned = line.front_dangling or bool(line.seams)
    return Turns(_number(line, steps, inputs, records), "inputs", "at_least" if pruned else "exact")


def _number(
    line: Line, steps: Sequence[Step], questions: Sequence[Question], records: Records
) -> tuple[Turn, ...]:
    groups = [(start, list(group)) for start, group in groupby(enumerate(questions, 1), lambda q: q[1].start)]
    starts = [*(start for start, _ in groups), len(line.rows)]
    inherited_starts = {question.start for question in questions if question.inherited}
    turns = [_turn_zero(line, starts[0])]
    for (start, group), stop in zip(groups, starts[1:], strict=True):
        inherited = [(n, q) for n, q in group if q.inherited]
        own = [(n, q) for n, q in group if not q.inherited] or inherited[-1:]
        for number, question in inherited:
            if (number, question) not in own:
                # Its rows are gone. A first kept row that took the next input still holds the state it found.
                last = number == inherited[-1][0] and line.rows[start].source == "input"
                turns.append(
                    Turn(number, question.text, None, None, start if last else None, None, inherited=True)
                )
        end = _end(line, stop, stop in inherited_starts, records)
        for number, question in own:
            turns.append(
                Turn(
                    number=number,
                    question=question.text,
                    first=start,
                    last=stop - 1,
                    end=end,
                    status=_status(stop - 1, line, steps, question, records) if end == stop - 1 else None,
                    asked_with=tuple(n for n, _ in own) if len(own) > 1 else (),
                    edited=any(step.arrival == "update" for step in steps[start + 1 : stop]),
                    inherited=question.inherited,
                )
            )
    return tuple(turns)


def _turn_zero(line: Line, stop: int) -> Turn:
    """The state before the first question; it needs the thread's true beginning."""
    if line.front_missing:
        return Turn(0, None, None, None, None, None)
    if stop == 0:  # the first input row holds the state that it found
        return Turn(0, None, None, None, 0 if line.rows[0].source == "input" else None, None)
    edited = any(row.source == "update" for row in line.rows[:stop])
    return Turn(0, None, 0, stop - 1, stop - 1, None, edited=edited)


def _end(line: Line, stop: int, others_between: bool, records: Records) -> int | None:
    """The row with the state as a turn ended whose rows stop before ``stop``."""
    if stop not in line.seams:
        return stop - 1
    if line.rows[stop].source == "input" and not others_between:
        return stop  # an input row holds the state that it found
    # Rows are missing after the last kept one. It is the turn's last where the next input came right on top of it,
    # or where the graph had come to rest and neither a task nor ``update_state`` left a write on it.
    before, after = line.rows[stop - 1].id, line.rows[stop].id
    kept = any(row.id in records.writes for row in line.rows)
    untouched = kept and not records.writes.get(before) and records.at_rest(before)
    return stop - 1 if untouched or records.took_input_on_top_of(before, after) else None


def _task_writes(on_row: Sequence[Write]) -> list[Write]:
    return [w for w in on_row if w.channel not in (*SPECIAL, NO_WRITES) and not is_update_task(w)]


def stopped_at(line: Line, first: int, last: int) -> int:
    """The row of a turn that its last tasks ran on: no input that another one replaced."""
    while first < last < len(line.rows) - 1 and line.rows[last].source == "input":
        last -= 1
    return last


def _status(last: int, line: Line, steps: Sequence[Step], question: Question, records: Records) -> Status:
    """How a turn ended, by what its tasks left on its last row and what the step before it had set off."""
    last = stopped_at(line, question.start, last)
    on_last = records.writes.get(line.rows[last].id, ())
    channels = {w.channel for w in on_last}
    if ERROR in channels:
        return "error"
    if INTERRUPT in channels:
        return "interrupted"
    # A run saved as a whole hangs what it wrote to channels kept as deltas on the row before it.
    of_next_run = last + 1 < len(steps) and steps[last + 1].arrival == "run"
    if _task_writes(on_last) and not of_next_run:
        return "unfinished"
    if last == question.start and question.waiting:
        return "never_ran"
    if last == question.row and (steps[last].took_input or steps[last].arrival == "update"):
        return "never_ran"  # it reached the messages, and no node ran
    made_by = steps[last].writes
    if made_by is None:
        is_tip = last == len(line.rows) - 1
        return "unfinished" if is_tip and records.at_rest(line.rows[last].id) is False else "complete"
    sets_off = any(is_trigger(w) or records.edges.get(w.channel) for w in made_by)
    return "unfinished" if sets_off else "complete"
