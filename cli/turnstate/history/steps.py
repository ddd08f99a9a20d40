"""Which write rows made which checkpoint: a step leads from one row of a line to the next.

A task's writes hang on the checkpoint that it ran on, the parent, not on the row that holds their result.
Pure functions over narrow rows and write rows; nothing here decodes a payload or knows a turn.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from turnstate.history.lines import Line
from turnstate_backends.interface import Checkpoint, Write

ERROR, INTERRUPT, RESUME, NO_WRITES = "__error__", "__interrupt__", "__resume__", "__no_writes__"
SPECIAL = (ERROR, INTERRUPT, RESUME, "__scheduled__", "__error_source_node__")
NULL_TASK = "00000000-0000-0000-0000-000000000000"
_UPDATE_PATH = f"~{INTERRUPT}"
_INTERNAL = ("__", "branch:", "start:", "join:")
_ROOT = "__root__"  # the whole state of a graph whose schema is one value (``langgraph.graph.state``)

Arrival = Literal["first", "input", "update", "fork", "step", "run"]
"""How a row came to be: nothing before it is kept; it took an input; ``update_state``; a copy; one super-step; or
more than can be split (a whole run in one row, or a row that does not say how it was made)."""


class Step(Struct, frozen=True):
    """The way from one row of a line to the next.

    Attributes:
        arrival: See :data:`Arrival`.
        took_input: The parent had just taken an input, which this step spread to the channels.
        writes: The task writes that made the row. None where the store cannot tell: no rows are left, or
            the parent has several results and the rows may belong to another of them.
    """

    arrival: Arrival
    took_input: bool
    writes: tuple[Write, ...] | None


def is_internal(channel: str) -> bool:
    """Whether the channel is LangGraph's own bookkeeping and not part of an application's state."""
    return channel.startswith(_INTERNAL) and channel != _ROOT


def is_trigger(write: Write) -> bool:
    """Whether the write sets off a node of the next super-step."""
    return write.channel.startswith(("branch:", "start:", "join:", "__pregel_tasks"))


def node_of(write: Write) -> str | None:
    """The node that the task path names; None where the store records no path.

    Format: ``langgraph.pregel._algo.task_path_str``: ``~__pregel_pull, NODE`` or
    ``~__pregel_push, INDEX…``; for a push task the node is not in the path.
    """
    kind, _, rest = write.path.removeprefix("~").partition(", ")
    if kind == "__pregel_pull" and rest:
        return rest
    return "update_state" if kind == INTERRUPT else None


def is_update_task(write: Write) -> bool:
    """Whether ``update_state`` wrote the row: its path says so, or its task id is the one that it derives.

    Source: ``langgraph.pregel.main.Pregel.update_state``: ``uuid5(UUID(checkpoint["id"]), INTERRUPT)``.
    """
    if write.path:
        return write.path.startswith(_UPDATE_PATH)
    try:
        return write.task == str(uuid.uuid5(uuid.UUID(write.checkpoint), INTERRUPT))
    except ValueError:
        return False


def is_outside(write: Write) -> bool:
    """Whether no task wrote the row: a caller's ``Command(update=…)`` or its answer to an interrupt did."""
    return write.task == NULL_TASK


def by_checkpoint(writes: Iterable[Write]) -> Mapping[str, tuple[Write, ...]]:
    """Write rows grouped by the checkpoint they hang on, in the order in which LangGraph applies them."""
    groups: dict[str, list[Write]] = {}
    for write in writes:
        groups.setdefault(write.checkpoint, []).append(write)
    for rows in groups.values():
        if len(rows) > 1:
            rows.sort(key=lambda w: (w.path, w.rank, w.task, w.idx))
    return {id: tuple(rows) for id, rows in groups.items()}


def steps_of(
    line: Line,
    children: Mapping[str, Sequence[Checkpoint]],
    writes: Mapping[str, Sequence[Write]],
    *,
    trusted: bool = True,
) -> tuple[Step, ...]:
    """One step per row of the line; the first and every row at a seam arrive as ``first``.

    Args:
        line: The line.
        children: Parent id → its children, on all lines.
        writes: Write rows by the checkpoint they hang on.
        trusted: False where some are known to be lost: then no step is told by the rest.
    """
    steps: list[Step] = []
    carries_input = False  # a copy of an input row takes the input again
    for i, row in enumerate(line.rows):
        parent = line.parent(i)
        if parent is None:
            steps.append(Step("first", False, None))
            carries_input = row.source == "input"
            continue
        arrival = _arrival(parent, row)
        made_by = _made_by(arrival, parent, children, writes.get(parent.id, ()))
        if not trusted and arrival != "input":
            made_by = None
        steps.append(Step(arrival, carries_input and arrival not in ("input", "update"), made_by))
        carries_input = arrival == "input" or (arrival == "fork" and carries_input)
    return tuple(steps)


def _made_by(
    arrival: Arrival,
    parent: Checkpoint,
    children: Mapping[str, Sequence[Checkpoint]],
    on_parent: Sequence[Write],
) -> tuple[Write, ...] | None:
    if arrival == "input":  # the input waits in ``__start__``; what tasks left on the parent was dropped
        return ()
    siblings = children.get(parent.id, ())
    if arrival == "update":  # a second update of one parent has the first one's task id
        updates = sum(1 for c in siblings if c.source == "update")
        return None if updates > 1 else tuple(w for w in on_parent if is_update_task(w)) or None
    rivals = 0 if len(siblings) < 2 else sum(c.source not in ("update", "fork", "input") for c in siblings)
    if arrival != "step" or rivals > 1:
        return None
    made = tuple([w for w in on_parent if not is_update_task(w)])
    # A task that came to its end left at least a marker. Where only an interrupt is told of, the run that went
    # on after it was not recorded.
    return made if any(w.channel not in SPECIAL for w in made) else None


def are_complete(line: Line, steps: Sequence[Step], writes: Mapping[str, Sequence[Write]]) -> bool:
    """Whether no write row of the line's steps seems to be lost: each step has some, and no task lacks a number.

    A task's writes are numbered from 0; a special channel takes a number and stores another in its place
    (``langgraph.checkpoint.base.WRITES_IDX_MAP``).
    """
    for i, step in enumerate(steps):
        if step.arrival != "step":
            continue
        on_parent = writes.get(line.rows[i - 1].id, ())
        if not on_parent:
            return False
        if [w.idx for w in on_parent] == [*range(len(on_parent))] and len({w.task for w in on_parent}) == 1:
            continue  # as nearly always: one task, all of its writes
        tasks: dict[str, list[int]] = {}
        for write in on_parent:
            tasks.setdefault(write.task, []).append(write.idx)
        for numbers in tasks.values():
            plain = {n for n in numbers if n >= 0}
            if plain and max(plain) + 1 - len(plain) > len(numbers) - len(plain):
                return False
    return True


def _arrival(parent: Checkpoint, row: Checkpoint) -> Arrival:
    match row.source:
        case "input" | "update" | "fork":
            return row.source
        case "loop" if row.step is not None and parent.step is not None and row.step == parent.step + 1:
            return "step"
        case _:
            return "run"


def resumed_tasks(on_checkpoint: Iterable[Write]) -> Collection[str]:
    """The tasks of a checkpoint that were interrupted and then resumed."""
    rows = list(on_checkpoint)
    resumed = {w.task for w in rows if w.channel == RESUME}
    if resumed == {NULL_TASK}:  # older releases record the answer, but not for which task
        return {w.task for w in rows if w.channel == INTERRUPT}
    return resumed - {NULL_TASK}
