"""Where on a line a command reads: by turn, by checkpoint or by time. At most one of them is given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

from turnstate.commands import options

if TYPE_CHECKING:
    from turnstate.history.asked import When
NO_BRANCH = "a checkpoint is read on its own line; leave --branch out."
_RANGE = re.compile(r"(-?\d{1,9})?\.\.(-?\d{1,9})?", re.ASCII)


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
    from turnstate.history.asked import When

    return When(number, at_start, checkpoint, moment)


def turns_from_to(text: str) -> tuple[int | None, int | None]:
    """Turns as typed: :func:`turn_range`, or one turn, ``N``.

    Raises:
        typer.BadParameter: It is neither.
    """
    try:
        number = int(text)
    except ValueError:
        return turn_range(text, or_one="N, ")
    return number, number


def turn_range(text: str, *, or_one: str = "") -> tuple[int | None, int | None]:
    """Two turns as typed: ``A..B``, ``A..`` or ``..B``; None for an end left open. Negative ones count from the last.

    Raises:
        typer.BadParameter: It is no range.
    """
    match = _RANGE.fullmatch(text)
    if match is None or not any(match.groups()):
        raise typer.BadParameter(
            f"{text!r} is no range of turns; write {or_one}A..B, A.. or ..B.", param_hint="'--turns'"
        )
    first, last = match.groups()
    return (None if first is None else int(first), None if last is None else int(last))
