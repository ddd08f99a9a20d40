"""Real graphs with channels kept as deltas, run by scripts of operations, and what LangGraph says of each row.

Nothing here knows turnstate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer

from noted import noted

Saver = BaseCheckpointSaver[Any]
Script = Sequence[dict[str, Any]]
"""What each step of a run returns: a node's update, channel by channel."""

Reducer = Callable[[Any, Sequence[Any]], Any]


def extend(state: list[Any], writes: Sequence[Any]) -> list[Any]:
    """A list that grows by the elements of each write."""
    return [*state, *(item for write in writes for item in write)]


def append(state: list[Any], writes: Sequence[Any]) -> list[Any]:
    """A list that grows by each write as a whole."""
    return [*state, *writes]


def merge(state: dict[str, Any], writes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A mapping in which an entry's latest write wins."""
    for write in writes:
        state = {**state, **write}
    return state


def union(state: set[Any], writes: Sequence[Any]) -> set[Any]:
    """A set that grows."""
    return state.union(*writes)


def last_three(state: list[Any], writes: Sequence[Any]) -> list[Any]:
    """A list of which only the end is kept: no rule of turnstate's."""
    return extend(state, writes)[-3:]


def state_type(frequency: int, **channels: tuple[type[Any], Reducer]) -> type[Any]:
    """A state schema of ``messages`` and more delta channels."""
    fields: dict[str, Any] = {
        "messages": Annotated[
            list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=frequency)
        ]
    }
    for name, (typ, reducer) in channels.items():
        fields[name] = Annotated[typ, DeltaChannel(reducer, typ, snapshot_frequency=frequency)]
    return TypedDict("State", fields, total=False)  # type: ignore[operator, no-any-return]


class Runner:
    """One graph with a single node that does what the next line of its script says.

    Attributes:
        graph: The compiled graph.
        steps: Updates that are still to be returned, one per pass of the node.
    """

    def __init__(self, saver: Saver, schema: type[Any]) -> None:
        self.steps: list[dict[str, Any]] = []

        def work(_: Any) -> Any:
            return self.steps.pop(0)

        builder: Any = StateGraph(schema)
        builder.add_node("work", work)
        builder.add_edge(START, "work")
        builder.add_conditional_edges("work", lambda _: "work" if self.steps else END, ["work", END])
        self.graph: Any = builder.compile(checkpointer=saver)

    def run(
        self,
        thread: str,
        brought: Any,
        *steps: dict[str, Any],
        checkpoint: str | None = None,
        durability: str = "sync",
    ) -> str:
        """Run once; the id of the checkpoint it ends with."""
        self.steps[:] = steps or ({},)
        config = place(thread, checkpoint)
        self.graph.invoke(brought, config, durability=durability)
        return self.head(thread)

    def update(self, thread: str, values: Any, checkpoint: str | None = None) -> str:
        """``update_state``; the id of the checkpoint it makes."""
        config = self.graph.update_state(place(thread, checkpoint), values, as_node="work")
        return str(config["configurable"]["checkpoint_id"])

    def replay(self, thread: str, checkpoint: str) -> None:
        """Run again from a checkpoint, without an input."""
        self.steps[:] = ({},)
        self.graph.invoke(None, place(thread, checkpoint))

    def head(self, thread: str) -> str:
        return str(self.graph.get_state(place(thread)).config["configurable"]["checkpoint_id"])

    def states(self, thread: str) -> dict[str, dict[str, Any]]:
        """Checkpoint id → the values that LangGraph reads there, for each row of the thread, branches included."""
        history = self.graph.get_state_history(place(thread))
        ids = [row.config["configurable"]["checkpoint_id"] for row in history]
        return {id: noted(dict(self.graph.get_state(place(thread, id)).values)) for id in ids}


def place(thread: str, checkpoint: str | None = None) -> Any:
    """The config of a thread's head or of one of its checkpoints."""
    where = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": {**where, "checkpoint_id": checkpoint} if checkpoint else where}


@contextmanager
def sqlite_saver(path: Path) -> Iterator[SqliteSaver]:
    """A saver on a new file."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
        yield saver
