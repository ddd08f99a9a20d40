"""The recorded stores as test data: their truth, copies to work on, and the same runs in PostgreSQL.

What the fields mean stands in ``fixtures/README.md``. Nothing here knows turnstate.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from record import FIXTURES, Truth, load_truth
from scenarios import SCENARIOS
from scenarios.kit import Recorder, Tables


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn is expected to be.

    Attributes:
        turn: Its number; 0 is what precedes the first question.
        question: Its text; None for turn 0.
        status: ``complete``, ``interrupted``, ``error``, ``unfinished`` or ``never_ran``; None for turn 0.
        retained: Whether the store still holds rows of its own.
        outcome: How a read of a channel in ``written`` ends.
        last_checkpoint: The checkpoint that holds the state as the turn ended.
        state: The real values of every channel then, as ``fixtures/README.md`` writes them.
        written: The channels written by then; another channel in ``state`` is a reducer's default.
        asked_with: Turns that share one input, this one included; empty when it stands alone.
        edited: Whether ``update_state`` changed it.
        more: Fields that only some scenarios state.
    """

    turn: int
    question: str | None
    status: str | None
    retained: bool
    outcome: str
    last_checkpoint: str
    state: Mapping[str, Any]
    written: tuple[str, ...]
    asked_with: tuple[int, ...] = ()
    edited: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Thread:
    """What one thread is expected to be.

    Attributes:
        id: Thread id.
        total: Number of its last turn.
        total_is: ``exact``, ``at_least`` or ``estimate``.
        turns_by: ``questions`` or ``inputs``.
        turns: The turns of the default line, in order, pruned ones included where they are known.
        head: Greatest checkpoint id of the root namespace; None when it has no row there.
        checkpoints: Namespace → number of rows, by LangGraph's own ``list``.
        turns_written: Key → the turns that wrote it, where the scenario states it.
        branches: Lines that were left: ``tip``, ``forked_at``, ``questions``, ``state``.
        doubt: Why another reading of the contract is possible; empty when there is none.
        more: Fields that only some scenarios state.
    """

    id: str
    total: int
    total_is: str
    turns_by: str
    turns: tuple[Turn, ...]
    head: str | None
    checkpoints: Mapping[str, int]
    turns_written: Mapping[str, list[int]] = field(default_factory=dict)
    branches: tuple[Mapping[str, Any], ...] = ()
    doubt: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    def turn(self, number: int) -> Turn:
        """The turn with this number."""
        return next(each for each in self.turns if each.turn == number)


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded store.

    Attributes:
        name: Scenario.
        path: The committed SQLite file; never open it for writing, see :func:`copy_db`.
        threads: Thread id → what is expected of it.
    """

    name: str
    path: Path
    threads: Mapping[str, Thread]


def scenarios() -> list[Recording]:
    """Every committed recording."""
    return [recording(name) for name in SCENARIOS]


def recording(name: str) -> Recording:
    """One committed recording."""
    return _recording(name, load_truth(FIXTURES / f"{name}.json"))


def threads() -> list[tuple[Recording, Thread]]:
    """Every thread of every committed recording, for tests that are parametrised over threads."""
    return [(each, thread) for each in scenarios() for thread in each.threads.values()]


def as_noted(value: Any) -> Any:
    """A tagged JSON value as the truth files write it: messages become ``{"type", "content", "id"}``.

    Everything else stays as it is. A test applies it to what it read before it compares with a truth.
    """
    match value:
        case {"$type": str(kind), "$value": dict(given)} if kind.startswith(
            ("langchain_core.messages.", "langchain.schema.messages.")
        ):
            named = {"name": given["name"]} if given.get("name") else {}
            # LangGraph.js leaves the type to the class.
            of = given.get("type") or kind.rpartition(".")[2].removesuffix("Message").lower()
            return {"type": of, "content": given["content"], "id": given.get("id"), **named}
        case dict():
            return {key: as_noted(item) for key, item in value.items()}
        case list():
            return [as_noted(item) for item in value]
    return value


def record_to_postgres(name: str, dsn: str) -> Recording:
    """Run a scenario (and the one it starts from) on a real PostgreSQL: the same truth under new ids.

    Args:
        name: Scenario.
        dsn: An empty database that may be written to.
    """
    with _postgres(dsn) as connection:
        return _recording(name, _run_on_postgres(name, connection))


def record_to_memory(name: str, saver: InMemorySaver) -> Recording:
    """Run a scenario that deletes nothing on a saver in memory: the same truth under new ids."""

    def run(statement: str, values: tuple[str, ...]) -> None:
        raise NotImplementedError

    recorder = Recorder(saver, Tables(run, "writes"))
    SCENARIOS[name].run(saver, recorder)
    return _recording(name, recorder.finish())


def _run_on_postgres(name: str, connection: psycopg.Connection[dict[str, Any]]) -> Truth:
    entry = SCENARIOS[name]
    base = _run_on_postgres(entry.base, connection) if entry.base else None

    def run(statement: str, values: tuple[str, ...]) -> None:
        connection.execute(statement.replace("?", "%s").encode(), values)

    saver = PostgresSaver(connection)
    saver.setup()
    recorder = Recorder(saver, Tables(run, "checkpoint_writes"), base)
    entry.run(saver, recorder)
    return recorder.finish()


@contextmanager
def _postgres(dsn: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0, row_factory=dict_row) as connection:
        yield connection


def copy_db(path: Path, folder: Path) -> Path:
    """A copy of a store in another folder, to be opened for writing or changed."""
    return Path(shutil.copyfile(path, folder / path.name))


def shuffle_rows(path: Path, seed: int) -> None:
    """Rewrite the tables of a SQLite store so that rowid order says nothing. Changes ``path``."""
    order = random.Random(seed)
    with _changing(path) as connection:
        for table in ("checkpoints", "writes"):
            held = connection.execute(f"SELECT * FROM {table}").fetchall()
            order.shuffle(held)
            connection.execute(f"DELETE FROM {table}")
            if held:
                marks = ", ".join("?" * len(held[0]))
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", held)


def delete_rows(
    path: Path,
    thread: str,
    ids: Collection[str],
    *,
    checkpoints: bool = True,
    writes: bool = False,
    ns: str = "",
) -> None:
    """Delete checkpoints of a SQLite store, and the writes on top of them if asked. Changes ``path``."""
    with _changing(path) as connection:
        for table, wanted in (("checkpoints", checkpoints), ("writes", writes)):
            if wanted:
                connection.executemany(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
                    [(thread, ns, each) for each in ids],
                )


def rename_checkpoints(path: Path, thread: str, ids: Mapping[str, str]) -> None:
    """Give checkpoints of a SQLite store other ids, as parents and under their writes too. Changes ``path``.

    What a payload says of its own id stays, so the store is then one that a third party wrote or a stepped-back
    clock left: only the columns are to be trusted.
    """
    columns = (
        ("checkpoints", "checkpoint_id"),
        ("checkpoints", "parent_checkpoint_id"),
        ("writes", "checkpoint_id"),
    )
    with _changing(path) as connection:
        for table, column in columns:
            connection.executemany(
                f"UPDATE {table} SET {column} = ? WHERE thread_id = ? AND {column} = ?",
                [(new, thread, old) for old, new in ids.items()],
            )


def delete_blobs(dsn: str, thread: str, channel: str, *, checkpoint: str) -> int:
    """Delete one channel's value of one checkpoint from PostgreSQL, as a clean-up of old blobs does.

    Returns:
        How many blobs went: 0 where the value stands inline in the checkpoint.
    """
    query = """
        DELETE FROM checkpoint_blobs AS b USING checkpoints AS c
        WHERE c.thread_id = %s AND c.checkpoint_ns = '' AND c.checkpoint_id = %s
          AND b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = %s
          AND b.version = c.checkpoint -> 'channel_versions' ->> b.channel
    """
    with _postgres(dsn) as connection:
        return connection.execute(query, (thread, checkpoint, channel)).rowcount


@contextmanager
def _changing(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


_TURN_FIELDS = (
    "turn",
    "question",
    "status",
    "retained",
    "outcome",
    "last_checkpoint",
    "state",
    "written",
    "asked_with",
    "edited",
)
_THREAD_FIELDS = (
    "total",
    "total_is",
    "turns_by",
    "turns",
    "head",
    "checkpoints",
    "turns_written",
    "branches",
    "doubt",
)


def _recording(name: str, truth: Truth) -> Recording:
    found = {thread: _thread(thread, noted) for thread, noted in truth.items()}
    return Recording(name, FIXTURES / f"{name}.db", found)


def _thread(thread: str, noted: Mapping[str, Any]) -> Thread:
    return Thread(
        id=thread,
        total=noted["total"],
        total_is=noted["total_is"],
        turns_by=noted["turns_by"],
        turns=tuple(_turn(each) for each in noted["turns"]),
        head=noted["head"],
        checkpoints=noted["checkpoints"],
        turns_written=noted.get("turns_written", {}),
        branches=tuple(noted.get("branches", ())),
        doubt=noted.get("doubt", ""),
        more={key: value for key, value in noted.items() if key not in _THREAD_FIELDS},
    )


def _turn(noted: Mapping[str, Any]) -> Turn:
    return Turn(
        turn=noted["turn"],
        question=noted.get("question"),
        status=noted.get("status"),
        retained=noted["retained"],
        outcome=noted["outcome"],
        last_checkpoint=noted["last_checkpoint"],
        state=noted["state"],
        written=tuple(noted["written"]),
        asked_with=tuple(noted.get("asked_with", ())),
        edited=noted.get("edited", False),
        more={key: value for key, value in noted.items() if key not in _TURN_FIELDS},
    )
