"""A module that leaves a mark when it is imported or called, named in every form of payload: no command springs it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgpack
import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

import mutations
from cli_run import run
from http_client import client
from turnstate import CheckpointHistory
from turnstate.commands import app
from turnstate.serving.allowed import Allowed
from turnstate.serving.caps import Caps
from turnstate.serving.desk import Desk

MODULE = "planted_module"
IDS = [f"1f1ecbdf-6{n}00-6000-{step:04x}-000000000000" for n, step in enumerate([0xBFFF, 0x8000, 0x8001])]
SEEDS = [(kind, data) for kind, data in mutations.seeds(MODULE) if MODULE.encode() in data]
FORMS = ([], ["--json"], ["--jsonl"])
CONSTRUCTOR = {"lc": 2, "type": "constructor", "id": [MODULE, "mkdir"], "args": ["x"], "kwargs": {}}


def commands(folder: Path, address: str) -> dict[str, list[list[str]]]:
    """Each verb and ways to call it; what ``check`` drafts it checks then."""
    drafted = str(folder / f"{len(list(folder.glob('*.toml')))}.toml")
    return {
        "threads": [[], ["--turns"]],
        "turns": [["t"], ["t", "--chart"], ["t", "--turns-by", "inputs"]],
        "keys": [["t", "--all"], ["t", "--turn", "0"]],
        "show": [["t", "*", "--all", "--reveal"], ["t", "messages"], ["t", "v0", "--query", "@"]],
        "log": [["t", "--values", "--all", "--reveal"], ["t", "*", "--patch"], ["t", "--chart"]],
        "diff": [["t", "--turns", "0.."], ["t", "*", "--all"], ["t", "--against", address]],
        "gaps": [[], ["t"]],
        "branches": [["t"]],
        "check": [["--init", "t", "--to", drafted], [drafted], [drafted, "--accept"]],
        "record": [
            ["t", "--to", str(folder / "cut.db"), "--force", *more] for more in ([], ["--redact", "v*"])
        ],
        "report": [["t", "--html", str(folder / "t.html"), "--force"]],
    }


def ask_over_http(address: str) -> None:
    """What ``serve`` answers."""
    asked = [
        "/threads",
        *(f"/threads/t/{what}" for what in ("turns", "keys", "chart", "log", "diff", "gaps")),
    ]
    asked += [f"/threads/t/state/{key}" for key in ("messages", "v0", "v1")]
    with client(address) as started:
        assert {started.get(path).status_code for path in asked} <= {200, 404, 410, 422}


def ask_as_a_model(address: str) -> None:
    """What ``mcp`` answers."""
    desk = Desk(address, allowed=Allowed(), caps=Caps(100, 1 << 20), report=lambda *_: None)
    for tool, more in {
        "threads": [{}],
        "turns": [{"thread": "t"}],
        "keys": [{"thread": "t"}],
        "show": [{"thread": "t", "key": key} for key in ("messages", "v0", "v*")],
        "log": [{"thread": "t", "key": "messages"}],
        "diff": [{"thread": "t"}],
        "gaps": [{"thread": "t"}],
    }.items():
        for arguments in more:
            assert "should not have happened" not in desk.call(tool, arguments).text


def ask_from_python(address: str) -> None:
    """What the library gives."""
    past = asyncio.run(CheckpointHistory(address).snapshots("t"))
    assert past.total >= 0


LISTENING = {"serve": ask_over_http, "mcp": ask_as_a_model}


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that exists once the planted module has run."""
    mark = tmp_path / "mark"
    touch = f"pathlib.Path({str(mark)!r}).touch()"
    called = f"def mkdir(*args, **kwargs):\n    {touch}\n"
    (tmp_path / f"{MODULE}.py").write_text(f"import pathlib\n{touch}\n{called}path = mkdir\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield mark
    sys.modules.pop(MODULE, None)


def holding(kind: str, values: list[bytes], at: int) -> bytes:
    """A checkpoint payload that holds values in its channels, in their own encoding; in each row in other channels."""
    values = values[at:] + values[:at]
    version = str(at + 1)
    if kind == "pickle":
        return values[0]
    names = [f"v{number}" for number in range(len(values))]
    if kind == "json":
        decoded = [json.loads(value) for value in values]
        state = {
            "v": 4,
            "ts": "2026-01-01T00:00:00Z",
            "id": "1",
            "channel_values": {"messages": decoded, **dict(zip(names, decoded, strict=True))},
            "channel_versions": dict.fromkeys(["messages", *names], version),
            "versions_seen": {"tool": decoded[0]},
        }
        return json.dumps(state).encode()
    packer = msgpack.Packer()
    return b"".join(
        [
            *(
                packer.pack_map_header(2),
                packer.pack("channel_values"),
                packer.pack_map_header(len(values) + 1),
            ),
            *(packer.pack("messages"), packer.pack_array_header(len(values)), *values),
            *(part for name, value in zip(names, values, strict=True) for part in (packer.pack(name), value)),
            *(packer.pack("channel_versions"), packer.pack(dict.fromkeys(["messages", *names], version))),
        ]
    )


def sqlite_stores(folder: Path) -> list[str]:
    """A file for each encoding, with every form of it in the state and in the writes, and one in the metadata."""
    found = []
    for encoding in ("msgpack", "json", "pickle"):
        values = [data for kind, data in SEEDS if kind == encoding]
        path = folder / f"{encoding}.db"
        with SqliteSaver.from_conn_string(str(path)) as saver:
            saver.setup()
        with closing(sqlite3.connect(path)) as connection, connection:
            for at, id in enumerate(IDS):
                metadata = {"source": ["input", "loop", "loop"][at], "step": at - 1, "writes": CONSTRUCTOR}
                connection.execute(
                    "INSERT INTO checkpoints VALUES ('t', '', ?, ?, ?, ?, ?)",
                    (
                        id,
                        IDS[at - 1] if at else None,
                        encoding,
                        holding(encoding, values, at),
                        json.dumps(metadata),
                    ),
                )
                channels = ("messages", "v0", "__interrupt__", "__error__", "__resume__", "__start__")
                columns = "(thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value)"
                connection.executemany(
                    f"INSERT INTO writes {columns} VALUES ('t', '', ?, ?, ?, ?, ?, ?)",
                    [
                        (id, f"task {number}", idx, channel, encoding, value)
                        for idx, channel in enumerate(channels)
                        for number, value in enumerate(values)
                    ],
                )
        found.append(str(path))
    return found


def postgres_store(dsn: str) -> None:
    """One store: a channel for each form, and a write of each."""
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.setup()
    versions = {f"v{n}": "1" for n in range(len(SEEDS))} | {"messages": "1"}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for at, id in enumerate(IDS):
            connection.execute(
                "INSERT INTO checkpoints VALUES ('t', '', %s, %s, NULL, %s, %s)",
                (
                    id,
                    IDS[at - 1] if at else None,
                    json.dumps(
                        {"id": id, "channel_values": {"inline": CONSTRUCTOR}, "channel_versions": versions}
                    ),
                    json.dumps(
                        {"source": ["input", "loop", "loop"][at], "step": at - 1, "writes": CONSTRUCTOR}
                    ),
                ),
            )
            for number, (kind, data) in enumerate(SEEDS):
                connection.execute(
                    "INSERT INTO checkpoint_writes VALUES ('t', '', %s, 'task', %s, 'messages', %s, %s)",
                    (id, number, kind, data),
                )
        for number, (kind, data) in enumerate(SEEDS):
            connection.execute(
                "INSERT INTO checkpoint_blobs VALUES ('t', '', %s, '1', %s, %s)", (f"v{number}", kind, data)
            )
        connection.execute(
            "INSERT INTO checkpoint_blobs VALUES ('t', '', 'messages', '1', 'msgpack', %s)",
            (b"\x91" + mutations.instance(2, MODULE, "mkdir", {"content": "q", "type": "human"}),),
        )


def spring_every_command(address: str, folder: Path) -> None:
    calls = commands(folder, address)
    assert set(app._VERBS) == {*calls, *LISTENING}
    for ask in (*LISTENING.values(), ask_from_python):
        ask(address)
    for verb in calls:
        for argv in calls[verb]:
            for form in FORMS if verb not in ("check", "record", "report") else FORMS[:1]:
                result = run(verb, "--store", address, *argv, *form)
                assert "should not have happened" not in result.err, (verb, argv, result.err)
                assert "Usage:" not in result.err, (verb, argv, result.err)


def test_no_command_runs_what_a_payload_of_a_file_names(tmp_path: Path, mark: Path) -> None:
    assert len(SEEDS) == 10
    for address in sqlite_stores(tmp_path):
        spring_every_command(address, tmp_path)
    assert not mark.exists()
    assert MODULE not in sys.modules


def test_no_command_runs_what_a_payload_of_postgres_names(tmp_path: Path, mark: Path, pg_dsn: str) -> None:
    postgres_store(pg_dsn)
    spring_every_command(pg_dsn, tmp_path)
    assert not mark.exists()
    assert MODULE not in sys.modules


def test_the_plant_works(mark: Path) -> None:
    """LangGraph's own reader springs it."""
    JsonPlusSerializer().loads_typed(("msgpack", mutations.instance(0, MODULE, "mkdir", "x")))
    assert mark.exists()
