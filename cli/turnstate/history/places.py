"""Where on a line to read: the row with the state as a turn ended or began, a checkpoint, the last row at a moment.

A turn that never was and one that is no longer kept have no place; why stands in :class:`Miss`, in words.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from turnstate.history.orphans import orphaned
from turnstate.history.phrases import counted
from turnstate.history.thread import History
from turnstate.history.times import iso
from turnstate.history.turns import Turn

if TYPE_CHECKING:
    from turnstate.history.reading import Outcome


class Place(Struct, frozen=True):
    """Where on a line to read.

    Attributes:
        row: Position of the row.
        turn: The turn whose end (or beginning) the row shows; None where the row was named by id or time
            and lies before the first turn.
        at_start: The turn's beginning was asked for.
        named: What the row was named by.
    """

    row: int
    turn: int | None
    at_start: bool = False
    named: Literal["turn", "checkpoint", "time"] = "turn"


class Miss(Struct, frozen=True):
    """Why there is no place to read at: ``no_such_turn`` or ``turn_no_longer_retained``, in words."""

    outcome: Outcome
    message: str
    turn: int | None = None


def turn_place(history: History, number: int, *, at_start: bool = False) -> Place | Miss:
    """The row with the state as turn ``number`` ended, or as it began.

    Args:
        history: The thread.
        number: From 0; -1 is the last turn, -2 the one before.
        at_start: What the turn began with: the end of the one before.
    """
    turns = history.turns
    wanted = turns.total + 1 + number if number < 0 else number
    if at_start and wanted == 0:
        return Miss("no_such_turn", "turn 0 is the state before the first question: it has no start", number)
    if not 0 <= wanted <= turns.total:
        return Miss("no_such_turn", turns_had(history), number)
    row = _start_row(history, turns.turns[wanted]) if at_start else turns.turns[wanted].end
    if row is None and _never_recorded(history, wanted - at_start):
        what = "the first run was saved in one row, and the state before it never"
        return Miss("no_such_turn", what, wanted)
    if row is None:
        words = _retained_words(history, turns.turns[wanted], at_start=at_start)
        return Miss("turn_no_longer_retained", words, wanted)
    return Place(row, wanted, at_start)


def _start_row(history: History, turn: Turn) -> int | None:
    """The turn's own input row, which holds the state it found; else the row where the turn before it ended."""
    if turn.first is not None and history.line.rows[turn.first].source == "input" and not turn.inherited:
        return turn.first
    first_of_its_input = min(turn.asked_with, default=turn.number)
    return history.turns.turns[first_of_its_input - 1].end


def _never_recorded(history: History, turn: int) -> bool:
    """Whether turn 0 is meant and no row ever held it, as ``durability="exit"`` has it."""
    line = history.line
    cleared = line.front_missing and not line.front_dangling
    return turn == 0 and cleared and history.conversation.in_first_run(line.rows[0].id)


def _retained_words(history: History, turn: Turn, *, at_start: bool) -> str:
    if at_start and turn.retained:
        return pruned_words(history, f"the start of turn {turn.number} was pruned, its end is kept")
    more = "" if turn.last is None else f"; the last row kept of it is {history.line.rows[turn.last].id}"
    what = f"turn {turn.number}" if turn.number else end_words(0)
    return pruned_words(history, f"{what} was pruned", more)


def checkpoint_place(history: History, checkpoint: str) -> Place:
    """A row of the line by its whole id."""
    row = history.line.index[checkpoint]
    return Place(row, max(history.turns.at_row(row)), named="checkpoint")


def time_place(history: History, moment: datetime) -> Place | Miss:
    """The row that was the line's last at a moment."""
    times = history.row_times()
    rows = [i for i, time in enumerate(times) if time is not None and time <= moment]
    if rows:
        return Place(rows[-1], max(history.turns.at_row(rows[-1])), named="time")
    first = next((time for time in times if time is not None), None)
    if first is None:
        return Miss("no_such_turn", "no checkpoint of this thread carries a time")
    if history.line.front_missing:
        return Miss("turn_no_longer_retained", f"the first row kept is of {iso(first)}")
    return Miss("no_such_turn", f"the thread began at {iso(first)}")


def turns_had(history: History) -> str:
    """How many turns the line has had, and how sure that is: ``the branch has had at least 2 turns``."""
    sure = {"exact": "", "at_least": "at least ", "estimate": "about "}[history.turns.total_is]
    what = "branch" if history.is_branch else "thread"
    return f"the {what} has had {sure}{counted(history.turns.total, 'turn')}"


def end_words(turn: int) -> str:
    """The state with which a turn ended, in words."""
    return f"the end of turn {turn}" if turn else "the state before the first question"


def pruned_words(history: History, what: str, more: str = "") -> str:
    """What was pruned, what can still be read, and what else may tell."""
    can = ", ".join(map(str, history.turns.retained)) or "none"
    words = f"{what}; turns that can be read: {can}{more}"
    if gone := orphaned(history):
        words += f"; {counted(len(gone), 'deleted checkpoint')} left writes behind, see gaps THREAD --writes"
    return words


def place_words(place: Place) -> str:
    """A place in words: ``the end of turn 2``, ``this checkpoint``."""
    if place.named != "turn":
        return "this checkpoint" if place.named == "checkpoint" else "that time"
    return f"the {'start' if place.at_start else 'end'} of turn {place.turn}"
