"""Who wrote: the same node where the store records task paths, and where they must be inferred."""

from __future__ import annotations

import operator
import sqlite3
from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

from recorded import copy_db, scenarios
from turnstate.history.thread import History
from turnstate_backends.stores import open_store


class State(TypedDict, total=False):
    by: Annotated[list[str], operator.add]


def record_parallel_nodes(path: Path) -> None:
    """Two nodes at once, a join, then packets to one node: each writes its own name."""
    graph = StateGraph(State)
    for name in ("north", "south", "both", "packet"):
        graph.add_node(name, lambda _, name=name: {"by": [name]})
    graph.add_edge(START, "north").add_edge(START, "south")
    graph.add_edge(["north", "south"], "both")
    graph.add_conditional_edges("both", lambda _: [Send("packet", {}), Send("packet", {})], ["packet"])
    graph.add_edge("packet", END)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph.compile(checkpointer=saver).invoke(
            {"by": ["input"]}, {"configurable": {"thread_id": "t"}}, durability="sync"
        )


def forget_paths(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE writes SET task_path = ''")
    connection.close()


def named_writes(path: Path, thread: str, channel: str | None = None) -> list[tuple[str, Any, str | None]]:
    """Checkpoint, payload and node of each write along the line."""
    found: list[tuple[str, Any, str | None]] = []
    with open_store(str(path)) as store:
        history = History(store, thread)
        for row, step in enumerate(history.steps):
            for write in step.writes or ():
                if channel in (None, write.channel):
                    node = history.writers.node(row, write)
                    found.append((write.checkpoint, (write.task, write.idx, write.value.data), node))
    return sorted(found, key=lambda item: (item[0], item[1]))


@pytest.mark.parametrize("recorded_path", [True, False])
def test_each_of_several_nodes_in_a_step_is_named_by_its_own_writes(
    tmp_path: Path, recorded_path: bool
) -> None:
    path = tmp_path / "parallel.db"
    record_parallel_nodes(path)
    if not recorded_path:
        forget_paths(path)
    names = {
        "north": b"\x91\xa5north",
        "south": b"\x91\xa5south",
        "both": b"\x91\xa4both",
        "packet": b"\x91\xa6packet",
    }
    nodes = {payload: name for name, payload in names.items()} | {b"\x91\xa5input": "__start__"}
    found = named_writes(path, "t", "by")
    assert len(found) == 6
    for _, (_, _, payload), node in found:
        assert node == nodes[payload]


@pytest.mark.parametrize("recorded", [r for r in scenarios() if r.name != "encrypted"], ids=lambda r: r.name)
def test_nodes_are_inferred_as_the_task_paths_name_them(recorded: Any, tmp_path: Path) -> None:
    path = copy_db(recorded.path, tmp_path)
    told = {thread: named_writes(path, thread) for thread in recorded.threads}
    forget_paths(path)
    for thread, expected in told.items():
        assert named_writes(path, thread) == expected
