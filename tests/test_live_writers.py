"""Reading beside programs that write: each answer is of one moment, no writer waits longer than it would for a SELECT.

The writers are real processes: LangGraph graphs in a loop (see :mod:`live`), or LangGraph's saver alone.
``make soak`` does the same for long.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

import live
from cli_run import command, environment, run, run_process
from turnstate_backends import sqlite_files, sqlite_open
from turnstate_backends.sqlite import open_sqlite

SECONDS = 3.0
"""How long answers are asked for beside each kind of writer."""


def read_beside(kind: str, store: str) -> None:
    """Ask for every kind of answer in turn, most in this process and one of each kind as a process."""

    def ask(*argv: str) -> Any:
        result = run(*argv, "--json", "--store", store)
        assert (result.code, result.err) == (0, "")
        return result.document

    def ask_a_process(*argv: str) -> Any:
        result = run_process(*argv, "--json", "--store", store)
        assert (result.code, result.err) == (0, "")
        return result.document

    with live.writing(kind, store) as writer:
        end = time.monotonic() + SECONDS
        for read in cycle(live.READS):
            read(ask, live.newest(ask))
            if time.monotonic() > end:
                break
        for read in live.READS:
            read(ask_a_process, live.newest(ask))
        assert writer.fared().turns > 0
        writer.end()


@pytest.mark.parametrize("kind", ["wal", "rollback"])
def test_every_answer_beside_a_running_graph_is_of_one_moment_and_no_file_is_left(
    kind: str, tmp_path: Path
) -> None:
    read_beside(kind, str(tmp_path / "agent.db"))
    assert [path.name for path in tmp_path.iterdir()] == ["agent.db"]


def test_every_answer_beside_a_graph_on_postgresql_is_of_one_moment_and_no_session_is_left(
    pg_dsn: str,
) -> None:
    read_beside("postgres", pg_dsn)
    with psycopg.connect(pg_dsn) as connection:
        sessions = "select application_name from pg_stat_activity where datname = current_database()"
        assert connection.execute(sessions).fetchall() == [("",)]


# Rollback-journal mode, where a writer cannot commit before its readers are done.

ROWS, SIZE = 60, 20_000  # together far more than a pipe takes before it is read


def put(connection: sqlite3.Connection, number: int) -> None:
    saver = SqliteSaver(connection)
    saver.is_setup = True  # which would change to WAL mode
    checkpoint = empty_checkpoint() | {
        "id": f"{number:08}",
        "channel_values": {"text": f"{number} {'x' * SIZE}"},
        "channel_versions": {"text": str(number)},
    }
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, {})


@pytest.fixture
def rollback(tmp_path: Path) -> Path:
    """A store in rollback-journal mode."""
    path = tmp_path / "agent.db"
    with closing(sqlite3.connect(path)) as connection:
        SqliteSaver(connection).setup()
        for number in range(ROWS):
            put(connection, number)
        assert connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    return path


@pytest.mark.parametrize(
    "argv",
    [("log", "t", "text", "--values"), ("log", "t", "text", "--jsonl"), ("log", "t", "text", "--json")],
    ids=["text", "jsonl", "json"],
)
def test_who_reads_the_output_slowly_keeps_no_writer_waiting_and_loses_nothing(
    argv: tuple[str, ...], rollback: Path
) -> None:
    whole = run_process(*argv, "--store", str(rollback))
    process = subprocess.Popen(
        command(*argv, "--store", str(rollback)),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdout
    begun = process.stdout.read(1)  # and nothing more for now
    with closing(sqlite3.connect(rollback, timeout=20)) as connection:
        put(connection, ROWS)
    assert process.poll() is None
    out, err = process.communicate(timeout=60)
    assert (process.returncode, (begun + out).decode(), err.decode()) == (0, whole.out, whole.err)


WAIT_IN_MID_READ = """
import os, sys, time
from pathlib import Path
from turnstate_backends.sqlite import open_sqlite

def end(error):
    print(error.what, error.why, error.hint, sep="|", flush=True)
    os._exit(2)

with open_sqlite(Path(sys.argv[1]), if_cut=end) as store:
    next(iter(store.checkpoints("t", "")))
    print("reading", flush=True)
    time.sleep(60)
"""


def test_a_long_read_gives_way_before_a_writer_that_waits_for_it_fails(rollback: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAIT_IN_MID_READ, str(rollback)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout
        assert reader.stdout.readline() == "reading\n"
        with closing(
            sqlite3.connect(rollback)
        ) as connection:  # with the five seconds that it waits by itself
            put(connection, ROWS)
        assert reader.wait(timeout=60) == 2
        what, why, hint = reader.stdout.read().strip().split("|")
        assert what == f"cannot read {rollback} in one snapshot"
        assert why == "in rollback-journal mode reading keeps writers waiting, and one has waited 2 seconds"
        assert "copy" in hint


PUT_WHEN_TOLD = """
import sqlite3, sys
from contextlib import closing
from pathlib import Path
from test_live_writers import ROWS, put

sys.stdin.readline()
with closing(sqlite3.connect(sys.argv[1])) as connection:
    put(connection, ROWS)
"""


def test_a_reader_and_a_writer_that_begin_at_once_do_not_wait_for_each_other(
    rollback: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PUT_WHEN_TOLD, str(rollback)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        text=True,
    ) as writer:
        needs_locks = sqlite_open._needs_locks

        def once_the_writer_waits(real: Path, main: int) -> bool:
            if not writer.stdin.closed:  # type: ignore[union-attr]
                writer.stdin.close()  # type: ignore[union-attr]
                while not sqlite_files.writer_waits(main):
                    time.sleep(0.01)
            return needs_locks(real, main)

        monkeypatch.setattr(sqlite_open, "_needs_locks", once_the_writer_waits)
        with open_sqlite(rollback, busy_seconds=60) as store:
            assert writer.wait(timeout=60) == 0
            assert len(list(store.checkpoints("t", ""))) == ROWS + 1
