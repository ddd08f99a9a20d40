"""Holes: places on a line where super-steps are missing, how many, and which turns they belonged to.

Pure functions over the rows of a line. Every row of a line is one step further than its parent, whatever made it
(``langgraph.pregel._loop``), so what is missing between two kept rows can be counted. Nothing here reads a store,
knows a payload, or says what is to be done about a hole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history.ids import id_step
from turnstate.history.lines import Line
from turnstate.history.turns import Turns
from turnstate_backends.interface import Checkpoint

Sure = Literal["exact", "at_least", "at_most", "estimate"]
"""How sure a count is: ``at_least`` where steps had to be read from ids, which keep 14 bits of them; ``at_most``
where some of the steps may never have been stored; ``estimate`` where the rows on both sides of a seam may
belong to different branches."""

BEGINNING = -1  # the step of a first input
_CLOCK = 1 << 14


class Steps(Struct, frozen=True):
    """A run of steps that the store does not hold.

    Attributes:
        first: The first of them; None where it cannot be told.
        last: The last of them.
        sure: How sure their number is.
    """

    first: int | None
    last: int | None
    sure: Sure = "exact"

    @property
    def count(self) -> int | None:
        """How many; None where it cannot be told."""
        return None if self.first is None or self.last is None else self.last - self.first + 1

    def __contains__(self, step: int | None) -> bool:
        """Whether a step, as an id tells it, may be one of these; what is not told may be any."""
        if step is None or self.first is None or self.last is None:
            return True
        return (step - self.first) % _CLOCK <= self.last - self.first


class Hole(Struct, frozen=True):
    """Steps missing before a row of a line.

    Attributes:
        at: Position of the first row kept after them.
        steps: Which.
        recorded: They had been stored; False where ``durability="exit"`` never stored them.
    """

    at: int
    steps: Steps
    recorded: bool = True


class Part(Struct, frozen=True):
    """Steps of a hole that belong to these turns, together where no boundary between them is known."""

    turns: tuple[int, ...]
    steps: Steps


def step_of(row: Checkpoint) -> tuple[int | None, bool]:
    """A row's step, and whether it is the recorded one rather than the 14 bits in its id."""
    return (id_step(row.id), False) if row.step is None else (row.step, True)


def gone_in(line: Line, at: int, steps: Steps, gone: Collection[str]) -> list[str]:
    """Of checkpoints that are gone and are known by their writes, those that lay before row ``at``, by id."""
    low = line.rows[at - 1].id if at else ""
    parent = line.rows[at].parent
    return sorted(id for id in gone if (low < id < line.rows[at].id and id_step(id) in steps) or id == parent)


def find_holes(
    line: Line, gone: Collection[str], *, first_run: bool, begins: Steps | None, forked: bool
) -> list[Hole]:
    """Every place of a line where steps are missing, in order.

    Args:
        line: The line.
        gone: Checkpoints that are not kept and on which write rows hang.
        first_run: The first row shows that one input at most had come (``channel_versions.__start__``).
        begins: The steps before the first row, where the thread's beginning is missing.
        forked: There are rows that the line does not pass, so a seam may join two branches.
    """
    saved_by_run = any(_unsaved(line, i) is not None for i in range(1, len(line.rows)) if i not in line.seams)
    holes: list[Hole] = []
    for i in range(len(line.rows)):
        if i and i not in line.seams:
            jump = _unsaved(line, i)
            if jump is not None:
                holes.append(Hole(i, jump, recorded=bool(gone_in(line, i, jump, gone))))
        elif i or line.front_missing:
            between = (_between(line, i, forked) if i else begins) or Steps(None, None)
            holes += _deleted(line, i, between, gone, never=not i and first_run, doubt=saved_by_run)
    return holes


def _unsaved(line: Line, i: int) -> Steps | None:
    """The steps between a row and its kept parent."""
    (before, sure), (after, also_sure) = step_of(line.rows[i - 1]), step_of(line.rows[i])
    if before is None or after is None or after <= before + 1:
        return None
    return Steps(before + 1, after - 1, "exact" if sure and also_sure else "at_least")


def _between(line: Line, i: int, forked: bool) -> Steps:
    """The steps across a seam."""
    (before, sure), (after, also_sure) = step_of(line.rows[i - 1]), step_of(line.rows[i])
    if before is None or after is None:
        return Steps(None, None)
    recorded = sure and also_sure
    missing = after - before - 1 if recorded else (after - before - 1) % _CLOCK
    if missing < bool(line.rows[i].parent):  # the row before is no ancestor: it lies on another branch
        return Steps(None, None, "estimate")
    first = after - missing
    return Steps(first, after - 1, "estimate" if forked else "exact" if recorded else "at_least")


def _deleted(
    line: Line, i: int, between: Steps, gone: Collection[str], *, never: bool, doubt: bool
) -> Iterator[Hole]:
    """What is missing where a row's parent is not kept: deleted rows, and steps that its run had not stored."""
    row = line.rows[i]
    known = gone_in(line, i, between, gone)
    if not row.parent and not known:
        if never and between.count:
            yield Hole(i, between, recorded=False)
            return
        if not between.count:  # nothing shows that there had been a row
            return
    parent = _step_of_lost_parent(row, between)
    if parent is None:
        yield Hole(i, _doubted(between) if doubt else between)
    elif between.first is None or between.last is None or parent < between.first:
        yield Hole(i, Steps(None, None, "estimate"))
    else:  # that the row's own run was saved by it alone says nothing of the runs before
        yield Hole(i, _doubted(replace(between, last=parent)))
        yield Hole(i, Steps(parent + 1, between.last), recorded=False)


def _doubted(steps: Steps) -> Steps:
    return replace(steps, sure="at_most" if steps.sure in ("exact", "at_most") else "estimate")


def _step_of_lost_parent(row: Checkpoint, between: Steps) -> int | None:
    """The step of a row's lost parent, by the parent's id, where that is not the step right before."""
    parent = id_step(row.parent) if row.parent else None
    if parent is None or row.step is None or id_step(row.id) != _clocked(row.step):
        return None
    if between.last is None or parent == _clocked(between.last):
        return None
    return between.last - (between.last - parent) % _CLOCK


def _clocked(step: int) -> int:
    clocked = step % _CLOCK
    return -1 if clocked == _CLOCK - 1 else clocked


def turns_across(
    line: Line, turns: Turns, hole: Hole
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The turns that deleted rows can belong to: the one under way before them whose later rows are gone, those
    that have no row left, and the one that goes on after them; each empty where there is none.
    """
    at = hole.at
    before = turns.at_row(at - 1) if at else ()
    after = turns.at_row(at)
    if before == after:
        return (), (), after
    whole = tuple(range(max(before, default=0) + 1, min(after)))
    went_on = before if before and turns.turns[before[-1]].end != at - 1 else ()
    began = (
        turns.turns[after[-1]].first == at and line.rows[at].source != "input" and not _ends_early(line, hole)
    )
    return went_on, whole, after if began else ()


def _ends_early(line: Line, hole: Hole) -> bool:
    """Whether the row after a hole was saved for its whole run, which began after the hole."""
    step, _ = step_of(line.rows[hole.at])
    return step is not None and hole.steps.last is not None and hole.steps.last + 1 < step


def divide(hole: Hole, across: Sequence[tuple[int, ...]], starts: Mapping[int, int]) -> tuple[Part, ...]:
    """Share out the steps of a hole among turns.

    Args:
        hole: The hole.
        across: See :func:`turns_across`.
        starts: Turn → the step that took its question, where that is known.
    """
    went_on, whole, after = across
    groups = [group for group in (went_on, *((n,) for n in whole), after) if group]
    if not groups:
        return (Part((), hole.steps),)
    parts: list[Part] = []
    turns, first = groups[0], hole.steps.first
    for group in groups[1:]:
        start = starts.get(group[0])
        if start is None or first is None or (start == first and turns != went_on):
            turns += group
            continue
        parts.append(Part(turns, replace(hole.steps, first=first, last=start - 1)))
        turns, first = group, start
    parts.append(Part(turns, replace(hole.steps, first=first)))
    return tuple(parts)
