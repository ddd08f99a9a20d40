"""What there is without turnstate: walk one thread with LangGraph's own saver, ``walk.py list|history STORE``.

``list`` goes through ``saver.list``, ``history`` through ``graph.get_state_history``; each prints the number of rows.
Imports only what a script written for one backend would import.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

THREAD = "bench"


def open_saver(store: str) -> AbstractContextManager[Any]:
    """The saver of a SQLite file or of a ``postgresql://`` URL."""
    if store.startswith("postgresql://"):
        from langgraph.checkpoint.postgres import PostgresSaver

        return PostgresSaver.from_conn_string(store)
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver.from_conn_string(store)


def rows(saver: Any, way: str) -> Iterable[Any]:
    """Every checkpoint of the thread, newest first."""
    config: Any = {"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}
    if way == "list":
        checkpoints: Iterable[Any] = saver.list(config)
        return checkpoints
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))
    from scenarios.kit import AgentState, chain

    graph = chain(saver, AgentState, tool=_nothing, answer=_nothing)
    return graph.get_state_history(config)


def _nothing(state: Any) -> dict[str, Any]:
    return {}


if __name__ == "__main__":
    with open_saver(sys.argv[2]) as opened:
        print(sum(1 for _ in rows(opened, sys.argv[1])))
