"""Where on a line a command reads: by turn, by checkpoint or by time. At most one of them is given."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

import typer
from msgspec import Struct

from turnstate.commands import options
from turnstate.commands.exits import Missed
from turnstate.commands.session import checkpoint_id

if TYPE_CHECKING:
    from turnstate.history.places import Miss, Place
    from turnstate.history.thread import ThreadHistory

NO_BRANCH = "a checkpoint is read on its own line; leave --branch out."
_RANGE = re.compile(r"(-?\d{1,9})?\.\.(-?\d{1,9})?", re.ASCII)


class When(Struct, frozen=True):
    """What was asked for: ``checkpoint``, else ``at``, else the end or start of ``turn``."""

    turn: int
    at_start: bool
    checkpoint: str | None
    at: datetime | None


def when(
    *, turn: str | None, at_start: bool, checkpoint: str | None, at: str | None, branch: str | None
) -> When:
    """The options as they belong together; the last turn when none is given.

    Raises:
        typer.BadParameter: Two of them, ``--at-start`` without a turn, or a branch beside a checkpoint.
    """
    if branch is not None and checkpoint is not None:
        raise typer.BadParameter(NO_BRANCH, param_hint="'--branch'")
    given = [
        name
        for name, value in (("--turn", turn), ("--checkpoint", checkpoint), ("--at", at))
        if value is not None
    ]
    if len(given) > 1:
        raise typer.BadParameter(f"give only one of {' and '.join(given)}.", param_hint=f"'{given[1]}'")
    if at_start and given and given != ["--turn"]:
        raise typer.BadParameter("it goes with --turn only.", param_hint="'--at-start'")
    number = options.whole_number("-1" if turn is None else turn, "--turn")
    moment = None if at is None else options.moment(at, "--at")
    return When(number, at_start, checkpoint, moment)


def place_in(history: ThreadHistory, asked: When) -> tuple[ThreadHistory, Place | Miss]:
    """The place, and the history of the line that it lies on: a checkpoint may lie on another one than the head's.

    Raises:
        Missed: There is no such checkpoint.
        Refused: There are several.
    """
    from turnstate.history import places

    if asked.checkpoint is not None:
        id = checkpoint_id(history, asked.checkpoint)
        if id not in history.line.index:
            history = history.along(history.forest.tip_beyond(id))
        return history, places.checkpoint_place(history, id)
    if asked.at is not None:
        return history, places.time_place(history, asked.at)
    return history, places.turn_place(history, asked.turn, at_start=asked.at_start)


def missed(history: ThreadHistory, miss: Miss) -> Missed:
    """That there is no place to read at, with the turns that there are."""
    return Missed(
        miss.outcome,
        miss.message,
        **({} if miss.turn is None else {"turn": miss.turn}),
        total_turns=history.turns.total,
        retained_turns=list(history.turns.retained),
    )


def turns_from_to(text: str) -> tuple[int | None, int | None]:
    """Turns as typed: :func:`turn_range`, or one turn, ``N``.

    Raises:
        typer.BadParameter: It is neither.
    """
    if ".." in text:
        return turn_range(text)
    number = options.whole_number(text, "--turns")
    return number, number


def turn_range(text: str, option: str = "--turns") -> tuple[int | None, int | None]:
    """Two turns as typed: ``A..B``, ``A..`` or ``..B``; None for an end left open. Negative ones count from the last.

    Raises:
        typer.BadParameter: It is no range.
    """
    match = _RANGE.fullmatch(text)
    if match is None or not any(match.groups()):
        raise typer.BadParameter(
            f"{text!r} is no range of turns; write A..B, A.. or ..B.", param_hint=f"'{option}'"
        )
    first, last = match.groups()
    return (None if first is None else int(first), None if last is None else int(last))
