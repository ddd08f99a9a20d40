"""What goes wrong while a command runs: its exit code and message are those of the contract, and no JSON is half there.

Processes, signals, servers and files are real ones. What a store refuses at opening is tested with its backend.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.conninfo import conninfo_to_dict

import pg
from cli_run import FIXTURES, Result, command, environment, run, run_process, store
from recorded import record_to_postgres
from scenarios.kit import AgentState, at, chain
from turnstate.render import held

THREADS = 40
TURNS = 8


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store whose answers are longer than a pipe is wide: one thread of a real graph, under many names."""
    path = tmp_path_factory.mktemp("large") / "agent.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        graph = chain(
            SqliteSaver(connection),
            AgentState,
            tool=lambda state: {"plan": f"Plan {len(state['messages'])}: " + "step " * 4000},
            answer=lambda state: {"messages": [AIMessage("Answer")]},
        )
        for turn in range(TURNS):
            graph.invoke({"messages": [HumanMessage(f"Question {turn}")]}, at("t"))
        for number in range(THREADS):
            for table in ("checkpoints", "writes"):
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")][1:]
                listed = ", ".join(columns)
                connection.execute(
                    f"INSERT INTO {table} (thread_id, {listed}) SELECT ?, {listed} FROM {table} WHERE thread_id = 't'",
                    (f"t{number:03} {'x' * 200}",),
                )
        # A gap in each, so that they are listed as having one.
        connection.execute("DELETE FROM checkpoints WHERE substr(checkpoint_id, 20, 4) = '8010'")
        connection.commit()
    return str(path)


def sound(result: Result) -> bool:
    """Whether an ending leaves no traceback, no half document and no unfinished line."""
    assert "Traceback" not in result.err
    assert "should not have happened" not in result.err
    assert "Exception ignored" not in result.err
    return True


# An interrupt.

LONG = [("gaps",), ("threads", "--turns"), ("log", "t", "--values")]


def has_open(process: subprocess.Popen[bytes], path: str) -> bool:
    with suppress(OSError):
        return any(str(each.readlink()) == path for each in Path(f"/proc/{process.pid}/fd").iterdir())
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc to see how far a process is")
@pytest.mark.parametrize("form", [(), ("--json",), ("--jsonl",)], ids=["text", "json", "jsonl"])
@pytest.mark.parametrize("argv", LONG, ids=" ".join)
def test_an_interrupt_in_mid_work_is_exit_130_without_a_traceback_and_without_half_a_document(
    argv: tuple[str, ...], form: tuple[str, ...], large: str
) -> None:
    moments = random.Random(" ".join((*argv, *form)))
    whole = run_process(*argv, *form, "--store", large).out
    codes = set()
    for _ in range(2):
        process = subprocess.Popen(
            command(*argv, *form, "--store", large),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        while process.poll() is None and not has_open(process, large):
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.15))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        codes.add(process.returncode)
        assert sound(Result(process.returncode, out.decode(), err.decode()))
        # Of a document that is being handed over, a reader may have taken a part: then the code says so.
        assert out.decode() == whole if process.returncode == 0 else whole.startswith(out.decode())
    assert codes <= {0, 130}


def test_an_interrupt_is_heard_while_the_output_waits_for_its_reader(large: str) -> None:
    process = subprocess.Popen(
        command("log", "t", "plan", "--json", "--store", large),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdout
    assert process.stdout.read(1) == b"{"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    with pytest.raises(json.JSONDecodeError):
        json.loads(b"{" + out)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc to see how far a process is")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_whichever_signal_ends_a_recording_no_part_of_it_is_left(
    number: signal.Signals, large: str, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        command("record", "t", "--store", large, "--to", str(tmp_path / "r.db"), "--redact-personal"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while process.poll() is None and not has_open(process, large):
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, b"", b"")
    assert list(tmp_path.iterdir()) == []


LONG_QUERY = """
import os, signal, sys, threading, time
from pathlib import Path
from turnstate_backends.sqlite_open import open_database

endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
database = open_database(Path(sys.argv[1]))
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    list(database.rows(endless))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_is_heard_in_a_query_that_finds_no_row_for_long() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LONG_QUERY, store("demo")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


# The output.


@pytest.mark.parametrize(
    "argv",
    [
        ("threads",),
        ("turns", "t"),
        ("keys", "t"),
        ("show", "t", "messages"),
        ("log", "t"),
        ("log", "t", "--jsonl"),
        ("log", "t", "--json"),
        ("diff", "t", "--turns", "1.."),
        ("gaps",),
        ("gaps", "--jsonl"),
        ("gaps", "--json"),
        ("branches", "t"),
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_after_its_first_bytes_is_exit_0_and_nothing_is_said_of_it(
    argv: tuple[str, ...], large: str
) -> None:
    process = subprocess.Popen(
        command(*argv, "--store", large),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdout
    assert process.stderr
    assert process.stdout.read(80)
    process.stdout.close()
    err = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert sound(Result(0, "", err))
    assert "Broken pipe" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("form", [(), ("--json",), ("--jsonl",)], ids=["text", "json", "jsonl"])
def test_output_that_is_handed_over_in_mid_work_and_finds_no_room_is_exit_2(
    form: tuple[str, ...], large: str
) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            command("log", "t", "plan", *form, "--store", large),
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "turnstate: the output cannot be written",
        "  No space left on device",
        "  See whether the device is full.",
    ]


def test_output_too_large_to_be_kept_in_memory_is_the_same(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    argvs = [("log", "t", "plan", "--json"), ("gaps", "--jsonl"), ("log", "t")]
    whole = [run(*argv, "--store", large) for argv in argvs]
    monkeypatch.setattr(held, "_IN_MEMORY", 1000)
    assert [run(*argv, "--store", large) for argv in argvs] == whole
    assert min(len(each.out) for each in whole) > 2000


# The file.

VERBS = [
    ("threads", "--turns"),
    ("turns", "demo"),
    ("keys", "demo"),
    ("show", "demo", "*"),
    ("log", "demo"),
    ("diff", "demo"),
    ("gaps",),
    ("branches", "demo"),
]


@pytest.mark.parametrize("argv", VERBS, ids=" ".join)
def test_a_file_cut_anywhere_has_an_answer_or_a_reason_and_never_half_a_document(
    argv: tuple[str, ...], tmp_path: Path
) -> None:
    whole = (FIXTURES / "demo.db").read_bytes()
    path = tmp_path / "agent.db"
    cuts = random.Random(" ".join(argv))
    codes = set()
    for _ in range(15):
        path.write_bytes(whole[: cuts.randrange(len(whole))])
        result = run(*argv, "--json", "--store", str(path))
        assert sound(result)
        assert result.code in (0, 2, 4, 5, 6)
        codes.add(result.code)
        if result.code == 2:
            assert result.out == ""
            assert len(result.err.splitlines()) == 3
        else:
            assert json.loads(result.out)
    assert 2 in codes


def test_a_wal_cut_anywhere_is_read_up_to_its_last_whole_commit(tmp_path: Path) -> None:
    live_store, path = tmp_path / "live.db", tmp_path / "agent.db"
    with closing(sqlite3.connect(live_store, check_same_thread=False)) as connection:
        graph = chain(
            SqliteSaver(connection), AgentState, answer=lambda _: {"messages": [AIMessage("Answer")]}
        )
        for turn in range(4):
            graph.invoke({"messages": [HumanMessage(f"Question {turn}")]}, at("t"))
        shutil.copy(live_store, path)
        wal = live_store.with_name("live.db-wal").read_bytes()
    cuts = random.Random(0)
    seen = set()
    for _ in range(15):
        path.with_name("agent.db-wal").write_bytes(wal[: cuts.randrange(len(wal))])
        result = run("turns", "t", "--json", "--store", str(path))
        assert sound(result)
        assert result.code in (0, 2, 4)
        if result.code == 0:
            questions = [turn["question"] for turn in result.document["turns"]]
            assert questions == [f"Question {turn}" for turn in range(len(questions))]
            seen.add(len(questions))
    assert len(seen) > 1


WITHOUT_PERMISSION = """
import os, sys
from turnstate.commands.app import main

argv, path = sys.argv[1:-1], sys.argv[-1]
print(main([*argv, "--store", path]), flush=True)
os.chmod(path, 0)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(main([*argv, "--store", path]), flush=True)
"""


@pytest.mark.parametrize("argv", [("turns", "demo"), ("show", "demo", "plan", "--json")], ids=" ".join)
def test_permission_taken_away_between_two_commands_is_exit_2(argv: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as made:  # which other users can reach, unlike pytest's own
        Path(made).chmod(0o755)
        path = Path(made).resolve() / "agent.db"
        path.write_bytes((FIXTURES / "demo.db").read_bytes())
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_PERMISSION, *argv, str(path)],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
    first, _, second = done.stdout.rpartition("0\n")
    assert first
    assert second == "2\n"
    assert done.stderr.splitlines()[-3:-1] == [
        f"turnstate: cannot open {path}",
        "  reading it is not permitted",
    ]


# The server.


class Relay:
    """Stands between a client and a server, and after so many of the server's bytes does something to them."""

    def __init__(self, address: str, after: int, then: Callable[[], None] | None = None) -> None:
        params = conninfo_to_dict(address)
        self._server = (str(params["host"]), int(params.get("port") or 5432))
        self._after, self._then = after, then
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = pg.url(address, host="127.0.0.1", port=str(self._listening.getsockname()[1]))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            client, _ = self._listening.accept()
            host, port = self._server
            server = socket.socket(socket.AF_UNIX if host.startswith("/") else socket.AF_INET)
            with client, server:
                server.connect(f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port))
                threading.Thread(target=self._pass, args=(client, server), daemon=True).start()
                while data := server.recv(1024):
                    client.sendall(data[: max(self._after, 0)] if self._then is None else data)
                    self._after -= len(data)
                    if self._after > 0:
                        continue
                    if self._then is None:
                        break
                    self._then()
                    self._after = sys.maxsize
                client.shutdown(socket.SHUT_RDWR)
                server.shutdown(socket.SHUT_RDWR)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1024):
                target.sendall(data)

    def close(self) -> None:
        self._listening.close()


@contextmanager
def relayed(address: str, after: int, then: Callable[[], None] | None = None) -> Iterator[str]:
    relay = Relay(address, after, then)
    try:
        yield relay.url
    finally:
        relay.close()


@pytest.fixture
def demo_dsn(pg_dsn: str) -> str:
    record_to_postgres("demo", pg_dsn)
    return pg_dsn


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_a_connection_cut_anywhere_is_exit_2_and_no_line_is_half_there(form: str, demo_dsn: str) -> None:
    argv = ("log", "demo", form)
    whole = run(*argv, "--store", demo_dsn)
    codes = []
    for after in (0, 100, 600, 1200, 2500, 4000, 6000, 9000, 13_000, 1 << 30):
        with relayed(demo_dsn, after) as url:
            result = run(*argv, "--store", url)
        assert sound(result)
        codes.append(result.code)
        if result.code == 0:
            assert result.out == whole.out
            continue
        assert result.code == 2
        assert len(result.err.splitlines()) == 3
        assert whole.out.startswith(result.out)
        assert result.out == "" if form == "--json" else all(map(json.loads, result.out.splitlines()))
    assert codes[0] == 2
    assert codes[-1] == 0
    assert codes == sorted(codes, reverse=True)
    assert codes.count(2) >= 4


def test_a_session_that_the_server_ends_in_mid_read_is_exit_2(demo_dsn: str) -> None:
    ended: list[Any] = []

    def end_session() -> None:
        with psycopg.connect(demo_dsn, autocommit=True) as connection:
            ended.extend(
                connection.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'turnstate'"
                ).fetchall()
            )

    with relayed(demo_dsn, 2500, end_session) as url:
        result = run("log", "demo", "--json", "--store", url)
    assert ended == [(True,)]
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[0].endswith("was lost")


@pytest.mark.skipif("TURNSTATE_TEST_DSN" in os.environ, reason="a server of somebody else is not stopped")
def test_a_server_that_stops_in_mid_read_is_exit_2() -> None:
    with pg.server() as address:
        record_to_postgres("demo", address)
        with psycopg.connect(address) as connection:
            row = connection.execute("show data_directory").fetchone()
        assert row
        postmaster = int(Path(str(row[0]), "postmaster.pid").read_text().split()[0])
        with relayed(address, 2500, lambda: os.kill(postmaster, signal.SIGQUIT)) as url:
            result = run("log", "demo", "--json", "--store", url)
        assert (result.code, result.out) == (2, "")
        assert sound(result)
        assert len(result.err.splitlines()) == 3
