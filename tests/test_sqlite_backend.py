"""What a SQLite store's reads give, compared with LangGraph's own reading and with rows made by hand."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
import tracemalloc
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from turnstate_backends.interface import Checkpoint, StoreError, ThreadRow
from turnstate_backends.sqlite import open_sqlite
from turnstate_backends.values import Absent, Stored

CHECKPOINTS = """
CREATE TABLE checkpoints (
  thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
  parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
"""
WRITES = """
CREATE TABLE writes (
  thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL,
  task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    plan: str


def think(state: State) -> dict[str, Any]:
    return {"plan": f"after {len(state['messages'])}"}


def answer(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage("a")]}


def build(saver: SqliteSaver) -> Any:
    graph = StateGraph(State).add_node(think).add_node(answer)
    graph.add_edge(START, "think").add_edge("think", "answer").add_edge("answer", END)
    return graph.compile(checkpointer=saver)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "recorded.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as conn:
        graph = build(SqliteSaver(conn))
        for thread, questions in (("one", ["q1", "q2"]), ("two", ["q3"])):
            for question in questions:
                graph.invoke({"messages": [HumanMessage(question)]}, {"configurable": {"thread_id": thread}})
    return path


def make(path: Path, schema: str, rows: Mapping[str, Iterable[tuple[Any, ...]]]) -> Path:
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(schema)
        for table, values in rows.items():
            for row in values:
                conn.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        conn.commit()
    return path


def keys_only(*keys: tuple[str, str, str]) -> dict[str, list[tuple[Any, ...]]]:
    return {"checkpoints": [(*key, None, "msgpack", b"\x80", b"{}") for key in keys]}


def one(path: Path, checkpoint: Any, type_: str | None = "msgpack", metadata: Any = b"{}") -> Path:
    return make(
        path, CHECKPOINTS + WRITES, {"checkpoints": [("t", "", "1", None, type_, checkpoint, metadata)]}
    )


def as_listed_by_langgraph(path: Path, copy: Path, thread: str) -> list[Any]:
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy, check_same_thread=False)) as conn:
        return list(SqliteSaver(conn).list({"configurable": {"thread_id": thread}}))


def test_checkpoints_are_those_that_langgraph_lists(recorded: Path, tmp_path: Path) -> None:
    listed = as_listed_by_langgraph(recorded, tmp_path / "copy.db", "one")
    assert len(listed) == 8
    with open_sqlite(recorded) as store:
        found = {checkpoint.id: checkpoint for checkpoint in store.checkpoints("one", "")}
    assert found == {
        entry.checkpoint["id"]: Checkpoint(
            id=entry.checkpoint["id"],
            parent=entry.parent_config["configurable"]["checkpoint_id"] if entry.parent_config else None,
            source=entry.metadata["source"],
            step=entry.metadata["step"],
            run_id=None,
        )
        for entry in listed
    }


def test_values_versions_and_times_are_those_that_langgraph_decodes(recorded: Path, tmp_path: Path) -> None:
    serde = JsonPlusSerializer()
    listed = [entry.checkpoint for entry in as_listed_by_langgraph(recorded, tmp_path / "copy.db", "one")]
    with open_sqlite(recorded) as store:
        ids = [checkpoint["id"] for checkpoint in listed]
        versions = store.versions("one", "", [*ids, "no such checkpoint"])
        times = store.times("one", "", [*ids, "no such checkpoint"])
        for checkpoint in listed:
            found = store.values("one", "", checkpoint["id"])
            values = {name: v for name, v in found.items() if isinstance(v, Stored)}
            assert {
                name: serde.loads_typed((value.type or "", value.data)) for name, value in values.items()
            } == checkpoint["channel_values"]
            assert {name for name, v in found.items() if v == Absent("empty")} == (
                checkpoint["channel_versions"].keys() - checkpoint["channel_values"].keys()
            )
            assert all(value.complete for value in values.values())
    assert versions == {
        checkpoint["id"]: {name: str(v) for name, v in checkpoint["channel_versions"].items()}
        for checkpoint in listed
    }
    assert times == {checkpoint["id"]: checkpoint["ts"] for checkpoint in listed}
    with open_sqlite(recorded) as store:
        assert store.seen("one", "", ids) == {c["id"]: c["versions_seen"] for c in listed}


def test_writes_are_the_rows_of_the_table(recorded: Path) -> None:
    with open_sqlite(recorded) as store:
        found = {
            (w.checkpoint, w.task, w.path, w.idx, w.channel, w.value.type, w.value.data, w.value.size)
            for w in store.writes("one", "", head=None)
        }
    with closing(sqlite3.connect(recorded)) as conn:
        rows = conn.execute(
            "SELECT checkpoint_id, task_id, task_path, idx, channel, type, value, length(value) FROM writes"
            " WHERE thread_id = 'one'"
        ).fetchall()
    assert len(found) == 10
    assert found == set(rows)
    assert "~__pregel_pull, think" in {row[2] for row in found}


def test_writes_can_be_limited_to_channels_and_checkpoints(recorded: Path) -> None:
    with open_sqlite(recorded) as store:
        every = list(store.writes("one", ""))
        plans = [write for write in every if write.channel == "plan"]
        assert len(plans) == 2
        assert list(store.writes("one", "", channels=["plan"])) == plans
        assert (
            list(store.writes("one", "", channels=["plan"], checkpoints=[plans[0].checkpoint])) == plans[:1]
        )
        assert list(store.writes("one", "", checkpoints=[])) == []
        many = [f"{number:040}" for number in range(50_000)]
        assert (
            list(store.writes("one", "", channels=["plan"], checkpoints=[*many, plans[1].checkpoint]))
            == plans[1:]
        )


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 2048, 2049, 3_000_000])
def test_a_head_is_the_first_bytes_of_a_payload_and_its_whole_size(tmp_path: Path, size: int) -> None:
    payload = bytes(number % 251 for number in range(size))
    rows = {"writes": [("t", "", "1", "task", "", 0, "c", "msgpack", payload)]}
    with open_sqlite(make(tmp_path / "a.db", CHECKPOINTS + WRITES, rows)) as store:
        for head in (0, 4, 3000, None):
            (write,) = store.writes("t", "", head=head)
            assert write.value == Stored("msgpack", payload[:head], size)


def test_a_table_without_rowid_is_read(tmp_path: Path) -> None:
    schema = (CHECKPOINTS + WRITES).replace("));", ")) WITHOUT ROWID;")
    rows = keys_only(("t", "", "1")) | {
        "writes": [("t", "", "1", "task", "", 0, "c", "msgpack", b"ab" * 5000)]
    }
    with open_sqlite(make(tmp_path / "a.db", schema, rows)) as store:
        assert [row.id for row in store.threads()] == ["t"]
        (write,) = store.writes("t", "", head=3)
        assert write.value == Stored("msgpack", b"aba", 10_000)


def test_writes_of_a_checkpoint_that_is_gone_are_given(tmp_path: Path) -> None:
    rows = {"writes": [("t", "", "gone", "task", "", -1, "__error__", None, None)]}
    with open_sqlite(make(tmp_path / "a.db", CHECKPOINTS + WRITES, rows)) as store:
        (write,) = store.writes("t", "")
    assert (write.checkpoint, write.idx, write.value) == ("gone", -1, Stored(None, b"", 0))


def test_threads_come_by_last_activity_and_ties_by_name(tmp_path: Path) -> None:
    rows = keys_only(
        ("b", "", "5"), ("a", "", "5"), ("old", "", "1"), ("old", "", "2"), ("sub", "node:1", "9"), ("sub", "", "3"),
        ("sub", "", "4"), ("ns only", "n", "6"),
    )  # fmt: skip
    with open_sqlite(make(tmp_path / "a.db", CHECKPOINTS, rows)) as store:
        assert store.threads() == [
            ThreadRow("sub", 3, ("", "node:1"), "3", "9", "4"),
            ThreadRow("ns only", 1, ("n",), "6", "6", None),
            ThreadRow("a", 1, ("",), "5", "5", "5"),
            ThreadRow("b", 1, ("",), "5", "5", "5"),
            ThreadRow("old", 2, ("",), "1", "2", "2"),
        ]
        assert [row.id for row in store.threads(limit=2)] == ["sub", "ns only"]
        assert store.threads(limit=0) == []
        assert [row.id for row in store.threads(thread="old")] == ["old"]
        assert store.threads(thread="ol") == []
        assert store.threads(thread="old", pattern="a*") == []


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("*", ["User-1", "user-1", "user-[1]", "user-\n2"]),
        ("user-?", ["user-1"]),
        ("user-*", ["user-1", "user-[1]", "user-\n2"]),
        ("[!u]*", ["User-1"]),
        ("user-[[]*", ["user-[1]"]),
        ("user-[", []),
        ("user", []),
    ],
)
def test_a_pattern_is_a_shell_glob_over_the_whole_id(
    tmp_path: Path, pattern: str, matching: list[str]
) -> None:
    rows = keys_only(*((thread, "", "1") for thread in ("User-1", "user-1", "user-[1]", "user-\n2")))
    with open_sqlite(make(tmp_path / "a.db", CHECKPOINTS, rows)) as store:
        assert sorted(row.id for row in store.threads(pattern=pattern)) == sorted(matching)


def test_unknown_names_give_nothing(recorded: Path) -> None:
    with open_sqlite(recorded) as store:
        for thread, ns in (("nobody", ""), ("one", "nowhere"), ("\udcff", ""), ("\ud800", ""), ("o\0ne", "")):
            assert list(store.checkpoints(thread, ns)) == []
            assert list(store.writes(thread, ns)) == []
            assert store.values(thread, ns, "1", ["plan"]) == {}
            assert store.versions(thread, ns, ["1"]) == {}
            assert store.times(thread, ns, ["1"]) == {}
        assert store.threads(thread="\ud800") == []


def test_an_empty_store_has_no_threads(tmp_path: Path) -> None:
    with open_sqlite(make(tmp_path / "a.db", CHECKPOINTS + WRITES, {})) as store:
        assert store.threads() == []


@pytest.mark.parametrize(
    "raw", [b"a\x00b", b"\xff\xfe", b"\xed\xa0\x80", "žlutý 会話".encode(), b"", b"' OR 1=1 --"]
)
def test_an_id_may_hold_any_bytes_and_can_be_asked_for_again(tmp_path: Path, raw: bytes) -> None:
    path = make(tmp_path / "a.db", CHECKPOINTS + WRITES, {})
    with closing(sqlite3.connect(path)) as conn:
        text = "CAST(? AS TEXT)"
        conn.execute(
            f"INSERT INTO checkpoints VALUES ({text}, {text}, {text}, NULL, {text}, x'80', '{{}}')", [raw] * 4
        )
        conn.execute(
            f"INSERT INTO writes VALUES ({text}, {text}, {text}, {text}, {text}, 0, {text}, {text}, x'c0')",
            [raw] * 7,
        )
        conn.commit()
    with open_sqlite(path) as store:
        (row,) = store.threads()
        (again,) = store.threads(thread=row.id, pattern="*")
        assert row == again
        assert row.id.encode("utf-8", "surrogateescape") == raw
        (ns,) = row.namespaces
        (checkpoint,) = store.checkpoints(row.id, ns)
        (write,) = store.writes(row.id, ns, channels=[row.id], checkpoints=[checkpoint.id], head=None)
        assert write.channel == checkpoint.id == write.path == row.id
        assert write.value == Stored(row.id, b"\xc0", 1)


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_a_database_in_utf_16_is_read(tmp_path: Path, encoding: str) -> None:
    rows = keys_only(("žlutý", "", "1"))
    rows["checkpoints"] += [("žlutý", "", "2", "1", "msgpack", b"\x80", '{"source": "input", "step": -1}')]
    with open_sqlite(make(tmp_path / "a.db", f"PRAGMA encoding='{encoding}';" + CHECKPOINTS, rows)) as store:
        assert [row.id for row in store.threads(pattern="ž*")] == ["žlutý"]
        assert list(store.checkpoints("žlutý", "")) == [
            Checkpoint("1", None, None, None, None),
            Checkpoint("2", "1", "input", -1, None),
        ]


@pytest.mark.parametrize(
    ("metadata", "source", "step", "run_id"),
    [
        (b'{"source": "input", "step": -1, "run_id": "r"}', "input", -1, "r"),
        ('{"source": "loop", "step": 3}', "loop", 3, None),
        (b'{"source": "loop", "step": NaN, "score": Infinity}', "loop", None, None),
        (b'{"source": 7, "step": "3", "run_id": {}}', None, 3, None),
        (b'{"source": "\\ud800", "step": true}', None, None, None),
        (b'{"source": "\xff", "step": 1}', None, 1, None),
        (b'{"writes": {"n": "' + b"x" * 1_000_000 + b'"}, "source": "update", "step": 1}', "update", 1, None),
        (None, None, None, None),
        (b"", None, None, None),
        (b"{broken", None, None, None),
        (b"[1, 2]", None, None, None),
        (b'"text"', None, None, None),
        (ormsgpack.packb({"source": "loop", "step": 1}), None, None, None),
        (b"\x0c", None, None, None),
    ],
)
def test_metadata_of_any_kind_gives_what_can_be_read(
    tmp_path: Path, metadata: Any, source: str | None, step: int | None, run_id: str | None
) -> None:
    with open_sqlite(one(tmp_path / "a.db", b"\x80", metadata=metadata)) as store:
        assert list(store.checkpoints("t", "")) == [Checkpoint("1", None, source, step, run_id)]


def test_channels_kept_as_deltas_are_named(tmp_path: Path) -> None:
    metadata = json.dumps(
        {"source": "loop", "step": 1, "counters_since_delta_snapshot": {"messages": [1, 2], "ž": [0, 0]}}
    )
    with open_sqlite(one(tmp_path / "a.db", b"\x80", metadata=metadata)) as store:
        (checkpoint,) = store.checkpoints("t", "")
    assert checkpoint.delta_channels == ("messages", "ž")


STATE = {
    "v": 4, "ts": "2024-05-04T06:32:42.235444+00:00", "id": "1",
    "channel_values": {"plan": "p", "nothing": None, "n": 1e16},
    "channel_versions": {"plan": "0001.5", "nothing": 2, "n": 3.0, "__start__": 9},
    "versions_seen": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "payload"),
    [
        ("msgpack", ormsgpack.packb(STATE)),
        ("json", json.dumps(STATE).encode()),
        ("json", json.dumps(STATE, indent=2)),
        (None, json.dumps(STATE).encode()),
    ],
    ids=["msgpack", "json", "json in a text column", "no type"],
)
def test_a_checkpoint_is_cut_into_channels_in_every_encoding(
    tmp_path: Path, type_: str | None, payload: Any
) -> None:
    serde = JsonPlusSerializer()
    with open_sqlite(one(tmp_path / "a.db", payload, type_)) as store:
        found = store.values("t", "", "1")
        assert found.keys() == {"plan", "nothing", "n", "__start__"}
        assert found["__start__"] == Absent("empty")
        decoded = {
            name: serde.loads_typed((value.type or "", value.data))
            for name, value in found.items()
            if isinstance(value, Stored)
        }
        assert decoded == {"plan": "p", "nothing": None, "n": 1e16}
        assert store.values("t", "", "1", ["plan", "__start__", "unheard of"]).keys() == {"plan", "__start__"}
        assert store.versions("t", "", ["1"]) == {
            "1": {"plan": "0001.5", "nothing": "2", "n": "3.0", "__start__": "9"}
        }
        assert store.times("t", "", ["1"]) == {"1": "2024-05-04T06:32:42.235444+00:00"}


def test_an_encrypted_checkpoint_says_what_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as conn:
        serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
        build(SqliteSaver(conn, serde=serde)).invoke(
            {"messages": [HumanMessage("q")]}, {"configurable": {"thread_id": "t"}}
        )
        conn.commit()
        (checkpoint, payload), *_ = conn.execute("SELECT checkpoint_id, checkpoint FROM checkpoints")
    expected = Absent(
        "encrypted",
        {
            "type": "msgpack+aes",
            "bytes": len(payload),
            "sha256": hashlib.sha256(payload).hexdigest(),
            "reason": "LANGGRAPH_AES_KEY is not set",
        },
    )
    with open_sqlite(path) as store:
        assert store.values("t", "", checkpoint, ["plan"]) == {"plan": expected}
        assert store.values("t", "", checkpoint) == {"*": expected}
        assert store.versions("t", "", [checkpoint]) == {}
        assert store.times("t", "", [checkpoint]) == {}
        assert {entry.source for entry in store.checkpoints("t", "")} == {"input", "loop"}
        assert {write.value.type for write in store.writes("t", "")} == {"msgpack+aes", "null+aes"}


@pytest.mark.parametrize(
    ("type_", "payload"),
    [
        ("msgpack", ormsgpack.packb(STATE)[:60]),
        ("msgpack", ormsgpack.packb(STATE)[:-1]),
        ("msgpack", b"\xc1\xc1"),
        ("msgpack", b""),
        ("msgpack", None),
        ("msgpack", ormsgpack.packb([1])),
        ("json", b'{"v": 4, "channel_values": {"plan"'),
        ("json", b"[" * 100_000),
        ("json", b"[1]"),
        ("pickle", b"\x80\x04N."),
        (None, b"\x80\x04N."),
        ("unheard of", b"\x80"),
    ],
)
def test_a_damaged_checkpoint_is_undecodable_and_says_what_is_stored(
    tmp_path: Path, type_: str | None, payload: bytes | None
) -> None:
    with open_sqlite(one(tmp_path / "a.db", payload, type_)) as store:
        (absent,) = store.values("t", "", "1", ["plan"]).values()
        assert store.values("t", "", "1") == {"*": absent}
        assert store.versions("t", "", ["1"]) == {}
        store.times("t", "", ["1"])
        assert len(list(store.checkpoints("t", ""))) == 1
    assert isinstance(absent, Absent)
    assert absent.kind == "undecodable"
    assert absent.stored.keys() == {"type", "bytes", "sha256", "reason"}
    assert absent.stored["bytes"] == len(payload or b"")
    assert absent.stored["sha256"] == hashlib.sha256(payload or b"").hexdigest()


def test_the_layout_before_1_0_is_read(tmp_path: Path) -> None:
    schema = """
    CREATE TABLE checkpoints (thread_id TEXT NOT NULL, thread_ts TEXT NOT NULL, parent_ts TEXT, checkpoint BLOB,
      metadata BLOB, PRIMARY KEY (thread_id, thread_ts));
    CREATE TABLE writes (thread_id TEXT NOT NULL, thread_ts TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL,
      channel TEXT NOT NULL, value BLOB, PRIMARY KEY (thread_id, thread_ts, task_id, idx));
    """
    state = json.dumps(STATE).encode()
    rows: dict[str, list[tuple[Any, ...]]] = {
        "checkpoints": [
            ("t", "1", None, state, b'{"source": "input", "step": -1}'),
            ("t", "2", "1", state, b"{}"),
        ],
        "writes": [("t", "1", "task", 0, "plan", b'"p"')],
    }
    with open_sqlite(make(tmp_path / "a.db", schema, rows)) as store:
        assert store.threads() == [ThreadRow("t", 2, ("",), "1", "2", "2")]
        assert list(store.checkpoints("t", "")) == [
            Checkpoint("1", None, "input", -1, None),
            Checkpoint("2", "1", None, None, None),
        ]
        assert list(store.checkpoints("t", "sub")) == []
        assert store.values("t", "", "2", ["plan"]) == {"plan": Stored("json", b'"p"', 3)}
        (write,) = store.writes("t", "", checkpoints=["1"], head=None)
        assert (write.path, write.value) == ("", Stored(None, b'"p"', 3))


def test_a_store_without_metadata_writes_or_task_path_is_read(tmp_path: Path) -> None:
    oldest = "CREATE TABLE checkpoints (thread_id TEXT, thread_ts TEXT, parent_ts TEXT, checkpoint BLOB,"
    oldest += " PRIMARY KEY (thread_id, thread_ts))"
    with open_sqlite(make(tmp_path / "a.db", oldest, {"checkpoints": [("t", "1", None, b"{}")]})) as store:
        assert list(store.checkpoints("t", "")) == [Checkpoint("1", None, None, None, None)]
        assert list(store.writes("t", "", head=None)) == []
    before_paths = WRITES.replace("task_path TEXT NOT NULL DEFAULT '',", "")
    rows = {"writes": [("t", "", "1", "task", 0, "c", "msgpack", b"\xc0")]}
    with open_sqlite(make(tmp_path / "b.db", CHECKPOINTS + before_paths, rows)) as store:
        assert [write.path for write in store.writes("t", "")] == [""]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            'CREATE TABLE notes (id); CREATE TABLE "a\nb" (id)',
            "it has no table 'checkpoints'; its tables: a\N{REPLACEMENT CHARACTER}b, notes",
        ),
        (
            "CREATE VIEW checkpoints AS SELECT 1; CREATE TABLE notes (id)",
            "it has no table 'checkpoints'; its tables: notes",
        ),
        ("PRAGMA user_version=1", "it has no table 'checkpoints'; its tables: none at all"),
        (
            "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, thread_id TEXT, data TEXT)",
            "its table 'checkpoints' has no column checkpoint_id or thread_ts; its columns: id, thread_id, data",
        ),
        (
            CHECKPOINTS + "CREATE TABLE writes (book TEXT)",
            "its table 'writes' has no column thread_id; its columns: book",
        ),
    ],
)  # fmt: skip
def test_another_program_s_database_is_refused_with_what_was_found(
    tmp_path: Path, schema: str, why: str
) -> None:
    with pytest.raises(StoreError) as error:
        open_sqlite(make(tmp_path / "a.db", schema, {}))
    assert error.value.what == f"{tmp_path / 'a.db'} is not a LangGraph checkpoint store"
    assert error.value.why == why


def refuse(path: Path) -> str:
    """Why a path cannot be opened, once it is sure that nothing came or went beside it."""
    before = sorted(os.listdir(path.parent))  # noqa: PTH208
    with pytest.raises(StoreError) as error:
        open_sqlite(path)
    assert sorted(os.listdir(path.parent)) == before  # noqa: PTH208
    for line in (error.value.what, error.value.why, error.value.hint):
        assert line
        assert "\n" not in line
    assert str(path) in error.value.what
    return error.value.why


def test_a_missing_path_is_an_error_and_not_a_new_file(tmp_path: Path) -> None:
    assert refuse(tmp_path / "missing.db") == "there is no such file"
    (tmp_path / "nowhere.db").symlink_to(tmp_path / "gone")
    assert refuse(tmp_path / "nowhere.db") == "there is no such file"
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError) as error:
        open_sqlite(tmp_path / "file" / "a.db")
    assert error.value.why == "the system says: Not a directory"


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert refuse(tmp_path / "folder") == "it is a directory"
    os.mkfifo(tmp_path / "pipe")
    assert refuse(tmp_path / "pipe") == "it is not a regular file"
    for content in (b"hello", b"x" * 5000, b"SQLite format 3\x00"):
        (tmp_path / "text.db").write_bytes(content)
        assert refuse(tmp_path / "text.db").startswith("it is no SQLite database")
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    assert "database" in refuse(tmp_path / "broken.db")


def test_an_empty_file_is_refused_before_sqlite_deletes_the_wal_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    assert refuse(path) == "the file is empty (0 bytes): no checkpointer has written to it"
    wal = tmp_path / "a.db-wal"
    wal.write_bytes(b"\x37\x7f\x06\x82" + b"x" * 5000)
    assert refuse(path) == "the file is empty (0 bytes) although a -wal with data stands beside it"
    assert wal.stat().st_size == 5004


def test_a_wal_given_in_place_of_its_database_is_recognised(recorded: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(recorded)) as conn:
        conn.execute("DELETE FROM writes")
        conn.commit()
        wal = recorded.with_name("recorded.db-wal").read_bytes()
    (tmp_path / "other.db-wal").write_bytes(wal)
    assert refuse(tmp_path / "other.db-wal") == "it is the -wal file of a SQLite database, not the database"
    with pytest.raises(StoreError) as error:
        open_sqlite(tmp_path / "other.db-wal")
    assert error.value.hint.startswith("Find the database other.db")
    (tmp_path / "other.db").touch()
    with pytest.raises(StoreError) as error:
        open_sqlite(tmp_path / "other.db-wal")
    assert error.value.hint == "Give the path of other.db."


def test_a_damaged_page_is_said_to_be_so(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.db",
        CHECKPOINTS,
        {"checkpoints": [("t", "", str(n), None, "json", b"x" * 3000, b"{}") for n in range(99)]},
    )
    content = bytearray(path.read_bytes())
    content[3 * 4096 :] = b"\xff" * (len(content) - 3 * 4096)
    path.write_bytes(content)
    with open_sqlite(path) as store, pytest.raises(StoreError) as error:
        list(store.checkpoints("t", ""))
    assert error.value.why.startswith("SQLite says: ")
    assert "recover" in error.value.hint


def test_a_closed_store_says_that_it_is_closed(recorded: Path) -> None:
    store = open_sqlite(recorded)
    store.close()
    store.close()
    with pytest.raises(StoreError) as error:
        store.threads()
    assert error.value.why == "the store was closed"


def test_a_store_that_is_closed_in_the_middle_of_a_read_ends_with_a_plain_error(recorded: Path) -> None:
    store = open_sqlite(recorded)
    reading = iter(store.checkpoints("one", ""))
    next(reading)
    store.close()
    with pytest.raises(StoreError):
        list(reading)


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """200 checkpoints of 100 kB each."""
    return make(
        tmp_path / "big.db",
        CHECKPOINTS + WRITES,
        {
            "checkpoints": (
                ("t", "", f"{n:06}", None, "msgpack", os.urandom(100_000), b'{"step": 1}') for n in range(200)
            )
        },
    )


def bytes_read_so_far() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much a process has read")
def test_listing_threads_reads_no_state(big: Path) -> None:
    with open_sqlite(big) as store:
        before = bytes_read_so_far()
        assert store.threads()[0].checkpoints == 200
        assert bytes_read_so_far() - before < 200_000


def test_listing_checkpoints_holds_no_state_in_memory(big: Path) -> None:
    with open_sqlite(big) as store:
        tracemalloc.start()
        assert {checkpoint.step for checkpoint in store.checkpoints("t", "")} == {1}
        assert tracemalloc.get_traced_memory()[1] < 300_000
        tracemalloc.stop()


def test_values_along_checkpoints_come_in_the_order_asked(recorded: Path) -> None:
    with open_sqlite(recorded) as store:
        ids = [row.id for row in store.checkpoints("one", "")]
        for asked in (ids, ids[::-1], [ids[2], "no such checkpoint", ids[0], ids[2]]):
            along = list(store.along("one", "", asked, ["messages"]))
            assert [id_ for id_, _ in along] == [id_ for id_ in asked if id_ in ids]
            for id_, found in along:
                assert found == store.values("one", "", id_, ["messages"])


@pytest.mark.parametrize(
    ("metadata", "step", "run_id"),
    [
        ('{"source": "loop", "step": 1, "run_id": "r"}', 1, "r"),
        ('{"source": "loop", "step": 1, "run_id": "\\ud800"}', 1, "\ud800"),
        ('{"source": "loop", "step": 1, "run_id": "\\u0000"}', 1, "\x00"),
        ("{source: 'loop', step: +1, run_id: 'r',}", 1, "r"),
        ('{"source": "loop", "step": 1e999, "run_id": "r"}', None, "r"),
        ('{"source": "loop", "step": NaN, "run_id": "r"}', None, "r"),
        ('{"source": "loop", "step": 1, "run_id": 18446744073709551616}', 1, None),
    ],
    ids=["plain", "a lone surrogate", "NUL", "JSON5", "no number holds it", "not a number", "beyond 64 bits"],
)
def test_metadata_of_every_form_that_sqlite_takes_for_json_is_read(
    metadata: str, step: int | None, run_id: str | None, tmp_path: Path
) -> None:
    with open_sqlite(one(tmp_path / "a.db", b"\x80", metadata=metadata.encode())) as store:
        (row,) = store.checkpoints("t", "")
    assert (row.source, row.step, row.run_id) == ("loop", step, run_id)


@pytest.mark.parametrize("index", [None, "", "first", b"\x00", 2.5])
def test_a_write_without_a_whole_number_for_its_index_is_read(index: object, tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(CHECKPOINTS + WRITES.replace("idx INTEGER NOT NULL", "idx"))
        rows = [("t", "", "1", "task", "", idx, "plan", None, b"") for idx in (1, index)]
        connection.executemany("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    with closing(open_sqlite(path)) as store:
        assert sorted(write.idx for write in store.writes("t", "")) == sorted([1, 2 if index == 2.5 else 0])
