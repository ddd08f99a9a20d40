"""What a caller must know of a thread's past to answer for a turn, without knowing what a checkpointer is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Snapshots:
    """A thread's state as each of its turns ended.

    Attributes:
        turns: Retained turn, counted from 1 → key → entry, as that turn ended. A turn that is not among them and not
            above ``total`` was, and is no longer retained.
        total: How many turns the thread has had.
        present: The turn that goes on, of a history that a run asks for (:meth:`CheckpointHistory.of_run`); None
            where nothing tells.
    """

    turns: Mapping[int, Mapping[str, Any]]
    total: int
    present: int | None = None


@runtime_checkable
class ThreadHistory(Protocol):
    """Whatever can tell the past of a thread."""

    async def snapshots(self, thread_id: str) -> Snapshots:
        """The thread's state as each of its turns ended; no turns, and a total of 0, of a thread that never was."""
        ...
