"""A fleet for the benchmark: many threads of 50 checkpoints each, in the savers' exact format.

One thread is recorded by a real graph through LangGraph's own saver; the others are copies of its rows under other
thread ids, a minute apart: ids are UUIDv6, so the time in each is moved, and with it the ``ts`` and ``id`` inside each
checkpoint. Samples are read back through the saver. Nothing here may know turnstate.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from stores import kept_database, sqlite_file  # first: it says where the next is found

from scenarios.kit import AgentState, Saver, at, chain

TURNS, ROWS = 12, 50
_APART = timedelta(minutes=1)
_PATTERN = "pattern"


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many threads."""

    threads: int

    @property
    def name(self) -> str:
        """Fit for a file and for a database."""
        return f"fleet_{self.threads}"


def thread_id(number: int) -> str:
    """The id of a thread: the greater the number, the later it was active."""
    return f"user-{number:06}"


def _record(saver: Saver) -> None:
    """The pattern: 12 turns of four checkpoints, and two edits."""

    def tool(state: AgentState) -> dict[str, Any]:
        return {"plan": f"Plan {len(state['messages']) // 2 + 1}"}

    def answer(state: AgentState) -> dict[str, Any]:
        return {"messages": [AIMessage("Yes.", id=f"a{len(state['messages'])}")]}

    agent = chain(saver, AgentState, tool=tool, answer=answer)
    for turn in range(1, TURNS + 1):
        agent.invoke({"messages": [HumanMessage(f"Question {turn}")]}, at(_PATTERN), durability="sync")
    for plan in ("Edited", "Edited again"):
        agent.update_state(at(_PATTERN), {"plan": plan})


def later(checkpoint: str, by: timedelta) -> str:
    """A UUIDv6 moved in time (RFC 9562, §5.6: 60 bits of time around the version)."""
    number = uuid.UUID(checkpoint).int
    time = (number >> 80) << 12 | (number >> 64) & 0xFFF
    time += by // timedelta(microseconds=1) * 10
    return str(uuid.UUID(int=(time >> 12) << 80 | 6 << 76 | (time & 0xFFF) << 64 | number & (1 << 64) - 1))


def _moved(ids: Iterable[str], by: timedelta) -> dict[str, str]:
    return {checkpoint: later(checkpoint, by) for checkpoint in ids}


def sqlite_fleet(folder: Path, fleet: Fleet) -> Path:
    """The SQLite file of this fleet; see :func:`stores.sqlite_file`."""

    def fill(connection: sqlite3.Connection) -> None:
        saver = SqliteSaver(connection)
        _record(saver)
        _copy_in_sqlite(connection, saver, fleet)
        _check(saver, fleet)

    return sqlite_file(folder, fleet.name, fill)


def _copy_in_sqlite(connection: sqlite3.Connection, saver: SqliteSaver, fleet: Fleet) -> None:
    rows = connection.execute(
        "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints"
    ).fetchall()
    writes = connection.execute("SELECT * FROM writes").fetchall()
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(writes)")]
    assert columns[:3] == ["thread_id", "checkpoint_ns", "checkpoint_id"]
    ts = {row[1]: str(saver.serde.loads_typed((row[3], row[4]))["ts"]) for row in rows}
    marks = ", ".join("?" * len(columns))
    for number in range(fleet.threads):
        by = (number - fleet.threads) * _APART
        ids, thread = _moved(ts, by), thread_id(number)
        connection.executemany(
            "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    thread,
                    ns,
                    ids[id],
                    ids.get(parent),
                    type_,
                    _bytes(payload, id, ids, ts[id], by),
                    metadata,
                )
                for ns, id, parent, type_, payload, metadata in rows
            ),
        )
        connection.executemany(
            f"INSERT INTO writes VALUES ({marks})",
            ((thread, ns, ids[id], *rest) for _, ns, id, *rest in writes),
        )
    for table in ("checkpoints", "writes"):
        connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", [_PATTERN])
    connection.commit()


def _bytes(payload: bytes, id: str, ids: dict[str, str], ts: str, by: timedelta) -> bytes:
    moved = payload.replace(id.encode(), ids[id].encode())
    return moved.replace(ts.encode(), (datetime.fromisoformat(ts) + by).isoformat().encode())


@contextmanager
def postgres_fleet(server_url: str, fleet: Fleet, *, keep: bool) -> Iterator[str]:
    """The URL of a database of this fleet; with ``keep``, one that is there is used and a new one stays."""
    with kept_database(server_url, fleet.name, lambda url: _fill(url, fleet), keep=keep) as url:
        yield url


def _fill(url: str, fleet: Fleet) -> None:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        _record(saver)
        with psycopg.connect(url) as connection:
            _copy_in_postgres(connection, fleet)
        _check(saver, fleet)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def _copy_in_postgres(connection: psycopg.Connection[Any], fleet: Fleet) -> None:
    rows = connection.execute(
        "select checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint::text, metadata::text "
        "from checkpoints"
    ).fetchall()
    ts = {row[1]: str(json.loads(row[4])["ts"]) for row in rows}
    tables = {
        "checkpoint_blobs": "thread_id, checkpoint_ns, channel, version, type, blob",
        "checkpoint_writes": "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob, task_path",
    }
    blobs, writes = (
        connection.execute(f"select {names} from {table}").fetchall() for table, names in tables.items()
    )

    def lines(table: str) -> Iterator[tuple[Any, ...]]:
        for number in range(fleet.threads):
            by = (number - fleet.threads) * _APART
            ids, thread = _moved(ts, by), thread_id(number)
            if table == "checkpoints":
                for ns, id, parent, type_, payload, metadata in rows:
                    moved = _bytes(payload.encode(), id, ids, ts[id], by).decode()
                    yield thread, ns, ids[id], ids.get(parent), type_, moved, metadata
            elif table == "checkpoint_blobs":
                yield from ((thread, *rest) for _, *rest in blobs)
            else:
                yield from ((thread, ns, ids[id], *rest) for _, ns, id, *rest in writes)

    names = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
    for table, columns in {"checkpoints": names, **tables}.items():
        with connection.cursor().copy(f"copy {table} ({columns}) from stdin") as copy:
            for line in lines(table):
                copy.write_row(line)
        connection.execute(f"delete from {table} where thread_id = %s", [_PATTERN])
    connection.commit()


def _check(saver: Saver, fleet: Fleet) -> None:
    """SystemExit unless the saver reads samples as it reads what it wrote itself."""
    for number in {0, fleet.threads // 2, fleet.threads - 1}:
        found = list(saver.list(at(thread_id(number))))
        newest = found[0].checkpoint
        right = (
            len(found) == ROWS
            and all(row.checkpoint["id"] == row.config["configurable"]["checkpoint_id"] for row in found)
            and all(a.parent_config["configurable"] == b.config["configurable"] for a, b in pairwise(found))
            and newest["channel_values"]["plan"] == "Edited again"
            and [m.content for m in newest["channel_values"]["messages"]][::2]
            == [f"Question {turn}" for turn in range(1, TURNS + 1)]
        )
        if not right:
            raise SystemExit(f"thread {thread_id(number)} is not what the saver would have written")
