"""Writes that hang on checkpoints which are no longer kept: what their deletion left behind, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from turnstate.history.ids import id_step, id_time
from turnstate.history.steps import by_checkpoint, is_outside, is_update_task, node_of
from turnstate.history.thread import History
from turnstate_backends.interface import Write
from turnstate_backends.values import Stored


class OrphanedWrite(Struct, frozen=True):
    """One write row without its checkpoint.

    Attributes:
        checkpoint: The checkpoint that it hangs on.
        time: When that was made, by its id.
        step: Its step, by its id; what was written came into the state a step later.
        task: The task that wrote.
        node: The task's node, where the row tells.
        channel: What it wrote to.
        stored: What it wrote.
    """

    checkpoint: str
    time: datetime | None
    step: int | None
    task: str
    node: str | None
    channel: str
    stored: Stored


def orphaned(history: History) -> list[str]:
    """The checkpoints that are not kept and have writes, on whatever line, by id."""
    return sorted(set(history.writes) - set(history.forest.rows))


def orphaned_writes(history: History, *, internal: bool = False) -> Iterator[OrphanedWrite]:
    """What hangs on them, in the order of LangGraph; the payloads of one checkpoint are held at a time.

    Args:
        history: The thread; its line does not matter.
        internal: What was written to LangGraph's own channels too.
    """
    for id in orphaned(history):
        rows = history.store.writes(history.thread, history.ns, checkpoints=[id], head=None)
        for write in by_checkpoint(rows).get(id, ()):
            if internal or not history.is_internal(write.channel):
                yield OrphanedWrite(
                    id, id_time(id), id_step(id), write.task, _node(write), write.channel, write.value
                )


def _node(write: Write) -> str | None:
    if is_update_task(write):
        return "update_state"
    return "Command" if is_outside(write) else node_of(write)
