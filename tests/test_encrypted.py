"""Encrypted stores: read with the key from the environment, and what is said where that does not do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

from cli_run import environment, run, store
from delta_graphs import Runner, Saver, append, place, state_type
from recorded import Recording, as_noted, copy_db, record_to_postgres, recording, rename_checkpoints
from scenarios.kit import AgentState, chain
from scenarios.values import AES_KEY
from turnstate_backends.payload import decode
from turnstate_backends.stores import open_store
from turnstate_backends.values import Absent, Stored, Tagged

KEY = AES_KEY.decode()
OTHER_KEY = "fedcba9876543210"
WITH_KEY = {"LANGGRAPH_AES_KEY": KEY}

Open = Callable[[SerializerProtocol], Any]


def cipher(inner: SerializerProtocol | None = None) -> EncryptedSerializer:
    """LangGraph's own writer of encrypted payloads."""
    given = {} if inner is None else {"serde": inner}
    return EncryptedSerializer.from_pycryptodome_aes(key=AES_KEY, **given)


@contextmanager
def sqlite_with(path: Path, serde: SerializerProtocol) -> Iterator[Saver]:
    with closing(connect(path, check_same_thread=False)) as connection:
        yield SqliteSaver(connection, serde=serde)


@contextmanager
def postgres_with(dsn: str, serde: SerializerProtocol) -> Iterator[Saver]:
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.serde = serde
        saver.setup()
        yield saver


def converse(saver: Saver) -> None:
    """Two questions, the first of which waits for an answer; message contents longer than any head."""

    def tool(state: AgentState) -> dict[str, Any]:
        count = len(state["messages"])
        chosen = interrupt("which?") if count == 1 else "none"
        return {"plan": f"plan {count}, {chosen}", "tool_state": {f"lookup/{count}": {"value": [count]}}}

    def answer(state: AgentState) -> dict[str, Any]:
        count = len(state["messages"])
        return {"messages": [AIMessage("long " * 400, id=f"a{count}")]}

    graph = chain(saver, AgentState, tool=tool, answer=answer)
    graph.invoke({"messages": [HumanMessage("Find Aarhus " * 300, id="h1")]}, place("t"))
    graph.invoke(Command(resume="the city"), place("t"))
    graph.invoke({"messages": [HumanMessage("And Odense", id="h2")]}, place("t"))


def answers(address: str, env: dict[str, str]) -> list[Any]:
    """What the commands tell of the thread, in JSON, apart from ids, times, sizes and encryption itself."""
    found = []
    for argv in (
        ("turns", "t"),
        ("keys", "t"),
        ("keys", "t", "--turn", "1"),
        ("show", "t", "messages"),
        ("show", "t", "tool_state", "--turn", "1"),
        ("log", "t", "--values"),
        ("log", "t", "messages"),
        ("diff", "t", "--turns", "0..2"),
        ("gaps", "t"),
        ("branches", "t"),
    ):
        result = run(argv[0], "--store", address, *argv[1:], "--json", env=env)
        assert result.code in (0, 1), (argv, result.err)
        found.append(comparable(result.document))
    return found


def comparable(value: Any) -> Any:
    """A document without what differs between two runs of one graph."""
    if isinstance(value, dict):
        left_out = ("started", "ended", "time", "first", "last", "last_activity", "encryption", "bytes")
        return {key: comparable(item) for key, item in value.items() if key not in left_out}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return (
        re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-6[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", value)
        if isinstance(value, str)
        else value
    )


def test_an_encrypted_file_tells_with_the_key_what_a_plain_one_tells(tmp_path: Path) -> None:
    told = []
    for name, serde in (("plain", JsonPlusSerializer()), ("sealed", cipher())):
        path = tmp_path / f"{name}.db"
        with sqlite_with(path, serde) as saver:
            converse(saver)
        told.append(answers(str(path), WITH_KEY))
    assert told[1] == told[0]
    assert [turn["question"] for turn in told[1][0]["turns"]] == ["Find Aarhus " * 300, "And Odense"]


def test_an_encrypted_postgres_store_tells_with_the_key_what_a_plain_one_tells(
    pg_dsn: str, tmp_path: Path
) -> None:
    with postgres_with(pg_dsn, cipher()) as saver:
        converse(saver)
    with psycopg.connect(pg_dsn) as connection:
        types = connection.execute(
            "select distinct type from checkpoint_blobs where type <> 'empty'"
        ).fetchall()
        assert types == [("msgpack+aes",)]
    with sqlite_with(tmp_path / "plain.db", JsonPlusSerializer()) as saver:
        converse(saver)
    sealed, plain = answers(pg_dsn, WITH_KEY), answers(str(tmp_path / "plain.db"), {})
    for document in (sealed, plain):
        for show in (document[1], document[2]):
            for key in show["keys"]:
                key.pop("plain", None)  # PostgresSaver leaves short values in clear
    assert sealed == plain


def test_without_the_key_no_turn_no_row_and_no_channel_name_in_clear_is_lost(tmp_path: Path) -> None:
    with sqlite_with(tmp_path / "s.db", cipher()) as saver:
        converse(saver)
    turns = run("turns", "--store", str(tmp_path / "s.db"), "t", "--json").document
    assert [turn["checkpoints"] for turn in turns["turns"]] == [4, 4]
    assert [turn["keys_written"] for turn in turns["turns"]] == [["messages", "plan", "tool_state"]] * 2
    assert turns["encryption"] == {
        "checkpoints": 8,
        "writes": turns["encryption"]["writes"],
        "plain_checkpoints": [],
        "plain_writes": 0,
        "plain_turns": [],
        "reason": "LANGGRAPH_AES_KEY is not set",
    }


def assert_states(encrypted: Recording, address: str) -> None:
    """Every channel of both turns, as the graph held it."""
    (thread,) = encrypted.threads.values()
    for turn in thread.turns:
        for channel in turn.written:
            argv = ("show", "--store", address, thread.id, channel, "--turn", str(turn.turn), "--json")
            document = run(*argv, env=WITH_KEY).document
            assert document["outcome"] == "value"
            assert as_noted(document["value"]) == turn.state[channel], (turn.turn, channel)
    assert [turn.turn for turn in thread.turns] == [1, 2]


def test_values_of_encrypted_rows_are_those_that_the_graph_held() -> None:
    assert_states(recording("encrypted"), store("encrypted"))


def test_values_of_encrypted_blobs_are_those_that_the_graph_held(pg_dsn: str) -> None:
    assert_states(record_to_postgres("encrypted", pg_dsn), pg_dsn)


def test_deltas_of_an_encrypted_thread_are_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "deltas.db"
    with sqlite_with(path, cipher()) as saver:
        runner = Runner(saver, state_type(4, notes=(list, append)))
        for number in range(6):
            runner.run("t", {"messages": [HumanMessage(f"q{number}", id=f"h{number}")]}, {"notes": number})
    for turn, notes in ((1, [0]), (3, [0, 1, 2]), (6, [0, 1, 2, 3, 4, 5])):
        argv = ("show", "--store", str(path), "t", "notes", "--turn", str(turn), "--json")
        assert run(*argv, env=WITH_KEY).document["value"] == notes


def test_an_encrypted_value_kept_as_deltas_is_called_encrypted_without_the_key(pg_dsn: str) -> None:
    with postgres_with(pg_dsn, cipher()) as saver:
        runner = Runner(saver, state_type(4, notes=(list, append)))
        for number in range(6):
            runner.run("t", {"messages": [HumanMessage("q", id=f"h{number}")]}, {"notes": "long " * 400})
    for env, reason in (({}, NO_KEY), ({"LANGGRAPH_AES_KEY": OTHER_KEY}, WRONG_KEY)):
        for turn in ("1", "4", "6"):  # before the first snapshot, at it, and behind it
            shown = run("show", "--store", pg_dsn, "t", "notes", "--turn", turn, "--json", env=env)
            assert (shown.code, shown.document["outcome"]) == (6, "encrypted")
            assert shown.document["stored"]["reason"] == reason
        turns = run("turns", "--store", pg_dsn, "t", "--json", env=env)
        assert turns.document["encryption"]["reason"] == reason
    shown = run("show", "--store", pg_dsn, "t", "notes", "--turn", "6", "--json", env=WITH_KEY)
    assert shown.document["value"] == ["long " * 400] * 6
    assert "plain" not in shown.document


@pytest.mark.parametrize(
    ("kind", "plain", "value"),
    [
        ("null", b"", None),
        ("bytes", b"\0\xff", b"\0\xff"),
        ("bytearray", b"\0", b"\0"),
        ("json", b'{"a": 1}', {"a": 1}),
        ("msgpack", b"\xd6\x00\x93\xa1m", None),
        ("msgpack", b"\x81\xa1a\x01", {"a": 1}),
    ],
)
def test_every_payload_type_is_read_through_its_encryption(
    kind: str, plain: bytes, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    name, data = cipher().cipher.encrypt(plain)
    found = decode(Stored(f"{kind}+{name}", data, len(data)))
    assert found == (decode(Stored(kind, plain, len(plain))) if isinstance(found, Absent) else value)


def test_an_encrypted_pickle_is_as_opaque_as_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    _, data = cipher().cipher.encrypt(b"\x80\x04N.")
    found = decode(Stored("pickle+aes", data, len(data)))
    assert (found.kind, found.stored["reason"]) == (
        "undecodable",
        "a pickle, which can only be read by running what it names",
    )


def test_a_secret_in_an_encrypted_payload_stays_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic import SecretStr

    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    kind, data = cipher().dumps_typed({"token": SecretStr("hush")})
    found = decode(Stored(kind, data, len(data)))
    assert found == {"token": Tagged("pydantic.types.SecretStr", "**********", masked=True)}


def sealed_value() -> Stored:
    kind, data = cipher().dumps_typed(["content"])
    return Stored(kind, data, len(data))


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_of_each_size_that_aes_has_open_what_they_closed(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "0123456789abcdefghijklmnopqrstuv"[:size]
    monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    kind, data = EncryptedSerializer.from_pycryptodome_aes().dumps_typed([1])
    assert decode(Stored(kind, data, len(data))) == [1]


NO_KEY = "LANGGRAPH_AES_KEY is not set"
NO_AES_KEY = "LANGGRAPH_AES_KEY holds no AES key: that has 16, 24 or 32 bytes"
WRONG_KEY = "the key in LANGGRAPH_AES_KEY does not open it: another key wrote it, or its bytes were changed"
NO_LIBRARY = "pycryptodome, which opens it, is not installed: pip install 'turnstate[aes]'"


@pytest.mark.parametrize(
    ("key", "has_library", "reason"),
    [
        (None, True, NO_KEY),
        ("", True, NO_KEY),
        (None, False, NO_KEY),
        ("a key that fits no AES", True, NO_AES_KEY),
        (OTHER_KEY, True, WRONG_KEY),
        (KEY, False, NO_LIBRARY),
    ],
)
def test_each_cause_of_not_reading_has_a_message_of_its_own(
    key: str | None, has_library: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_library:
        monkeypatch.setitem(sys.modules, "Crypto.Cipher", None)  # as where it is not installed
    env = {} if key is None else {"LANGGRAPH_AES_KEY": key}
    shown = run("show", "--store", store("encrypted"), "encrypted", "messages", "--json", env=env)
    assert (shown.code, shown.document["outcome"]) == (6, "encrypted")
    assert shown.document["stored"]["reason"] == reason
    turns = run("turns", "--store", store("encrypted"), "encrypted", env=env)
    assert turns.code == 0
    assert f"encrypted: 4 checkpoints and 6 writes, of which the latest cannot be read: {reason}" in turns.err


@pytest.mark.parametrize("has", [{}, {"AES": types.SimpleNamespace(MODE_CBC=2)}])
def test_a_library_that_does_not_work_has_a_message_too(
    has: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(types.ModuleType):
        def __getattr__(self, name: str) -> Any:  # as pycryptodome without its compiled part
            raise OSError("Cannot load native module 'Crypto.Cipher._raw_ecb'")

    library = Broken("Crypto.Cipher")
    vars(library).update(has)
    monkeypatch.setitem(sys.modules, "Crypto.Cipher", library)
    turns = run("turns", "--store", store("encrypted"), "encrypted", env=WITH_KEY)
    assert turns.code == 0
    assert "cannot be read: what is installed as Crypto is no working pycryptodome" in turns.err


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("msgpack+\x1b[2J", r"\x1b[2J is no cipher that is known here"),
        ("pickle", "a pickle, which can only be read by running what it names"),
    ],
)
def test_why_a_row_cannot_be_read_is_told_whole_and_moves_no_cursor(
    kind: str, reason: str, tmp_path: Path
) -> None:
    path = copy_db(recording("encrypted").path, tmp_path)
    with closing(connect(path)) as connection, connection:
        connection.execute(
            "UPDATE checkpoints SET type = ?, checkpoint = ? "
            "WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)",
            (kind, b"\x80\x04N."),
        )
    env = WITH_KEY
    told = [run(verb, "--store", str(path), "encrypted", env=env).err for verb in ("turns", "keys", "diff")]
    assert all("\x1b" not in each for each in told)
    assert all(reason in each for each in (told if "+" in kind else told[1:]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:31], "cut short: nonce and tag take 32 bytes"),
        (lambda data: data[:-1], WRONG_KEY),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], WRONG_KEY),
        (lambda data: b"", "cut short: nonce and tag take 32 bytes"),
    ],
)
def test_a_changed_ciphertext_is_never_shown(
    change: Callable[[bytes], bytes], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    whole = sealed_value()
    data = change(whole.data)
    found = decode(Stored(whole.type, data, len(data)))
    assert (found.kind, found.stored["reason"]) == ("encrypted", reason)


def test_a_cipher_of_somebody_s_own_is_named_whatever_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    found = decode(Stored("msgpack+fernet", b"gAAAA", 5))
    assert (found.kind, found.stored["reason"]) == ("encrypted", "fernet is no cipher that is known here")


@pytest.mark.parametrize("key", [KEY, OTHER_KEY, "hunter2-is-no-aes-key"])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_key_stands_in_no_output(key: str, form: tuple[str, ...]) -> None:
    for argv in (
        ("threads",),
        ("turns", "encrypted"),
        ("keys", "encrypted"),
        ("show", "encrypted", "messages"),
        ("show", "encrypted", "no such key"),
        ("log", "encrypted"),
        ("diff", "encrypted"),
        ("gaps", "encrypted"),
        ("branches", "encrypted"),
    ):
        env = {"LANGGRAPH_AES_KEY": key, "TURNSTATE_DEBUG": "1"}
        result = run(argv[0], "--store", store("encrypted"), *argv[1:], *form, env=env)
        assert key not in result.out + result.err, argv


@pytest.mark.parametrize(
    ("name", "env", "loaded"),
    [("demo", WITH_KEY, False), ("encrypted", {}, False), ("encrypted", WITH_KEY, True)],
)
def test_the_library_is_loaded_for_an_encrypted_payload_and_a_key_only(
    name: str, env: dict[str, str], loaded: bool
) -> None:
    script = (
        "import sys; from turnstate.commands.app import main; "
        f"main(['show', '--store', {store(name)!r}, {name!r}, 'messages']); "
        "print(); print('Crypto' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(env), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == str(loaded)


def test_rows_in_clear_beside_encrypted_ones_are_pointed_out() -> None:
    (thread,) = recording("encrypted").threads.values()
    address = store("encrypted")
    for env in ({}, WITH_KEY):
        turns = run("turns", "--store", address, "encrypted", env=env)
        words = "stored in clear, though other rows are encrypted: 4 checkpoints and 4 writes (turn 1)"
        assert words in turns.err
        document = run("turns", "--store", address, "encrypted", "--json", env=env).document
        assert document["encryption"]["plain_checkpoints"][-1] == thread.turn(1).last_checkpoint
        assert len(document["encryption"]["plain_checkpoints"]) == 4
        assert document["encryption"]["plain_turns"] == [1]
        shown = run("show", "--store", address, "encrypted", "plan", "--turn", "1", env=env)
        assert "this value is stored in clear, other rows of the thread are encrypted" in shown.err
        keys = run("keys", "--store", address, "encrypted", "--turn", "1", env=env)
        assert "stored in clear, though other rows are encrypted: messages, plan, lookup/1" in keys.err


def test_an_encrypted_value_and_a_thread_in_clear_are_not_said_to_be_the_exception() -> None:
    shown = run("show", "--store", store("encrypted"), "encrypted", "plan", "--json", env=WITH_KEY)
    assert "plain" not in shown.document
    turns = run("turns", "--store", store("demo"), "demo", "--json", env=WITH_KEY)
    assert "encryption" not in turns.document


def test_short_values_that_postgres_keeps_in_clear_are_pointed_out(pg_dsn: str) -> None:
    with postgres_with(pg_dsn, cipher()) as saver:
        converse(saver)
    keys = run("keys", "--store", pg_dsn, "t", "--json", env=WITH_KEY).document["keys"]
    assert {row["channel"]: row.get("plain", False) for row in keys} == {
        "messages": False,
        "plan": True,
        "tool_state": False,
    }


def test_the_time_of_an_encrypted_row_is_read_where_its_id_has_none(tmp_path: Path) -> None:
    path = copy_db(recording("encrypted").path, tmp_path)
    with open_store(str(path)) as opened:
        rows = sorted(row.id for row in opened.checkpoints("encrypted", ""))
    rename_checkpoints(path, "encrypted", {id: f"row {n}" for n, id in enumerate(rows)})
    turns = run("turns", "--store", str(path), "encrypted", "--json", env=WITH_KEY).document["turns"]
    with sqlite_with(path, cipher()) as saver:
        tip = saver.get(
            {"configurable": {"thread_id": "encrypted", "checkpoint_ns": "", "checkpoint_id": "row 7"}}
        )
    assert tip is not None
    assert turns[1]["ended"].removesuffix("Z") == tip["ts"].removesuffix("+00:00")


def test_a_json_payload_of_an_old_release_is_read_through_its_encryption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_db(recording("encrypted").path, tmp_path)
    state = {
        "v": 1,
        "ts": "2024-05-04T06:32:42.235444+00:00",
        "id": "row 7",
        "channel_values": {"plan": "from json"},
        "channel_versions": {"plan": 2},
        "versions_seen": {},
        "pending_sends": [],
    }
    _, sealed = cipher().cipher.encrypt(json.dumps(state).encode())
    with closing(connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO checkpoints VALUES ('old', '', 'a', NULL, 'json+aes', ?, '{}')", [sealed]
        )
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    with open_store(str(path)) as opened:
        assert opened.values("old", "", "a") == {"plan": Stored("json", b'"from json"', 11)}
        assert opened.times("old", "", ["a"]) == {"a": "2024-05-04T06:32:42.235444+00:00"}
        assert opened.versions("old", "", ["a"]) == {"a": {"plan": "2"}}
