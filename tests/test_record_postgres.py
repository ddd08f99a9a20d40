"""Recordings of PostgreSQL stores: values that stood in rows of their own go into one payload, and losses stay told."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState

from agreeing import threads_of, told
from cli_run import run
from recorded import delete_blobs, record_to_postgres
from releases import restore
from scenarios.kit import AgentState, at, chain
from scenarios.values import AES_KEY

WITH_KEY = {"LANGGRAPH_AES_KEY": AES_KEY.decode()}


def record(address: str, target: Path, *argv: str, env: Mapping[str, str] | None = None) -> Any:
    names = threads_of(address)
    result = run("record", "--store", address, "--to", str(target), "--json", *argv, "--", *names, env=env)
    assert result.code == 0, result.err
    return result.document


def without_sizes(document: Any) -> Any:
    """A document without what depends on how a layout writes a value: a number takes more bytes in JSON."""
    if isinstance(document, dict):
        return {
            name: without_sizes(item)
            for name, item in document.items()
            if name not in ("bytes", "size", "stored")
        }
    return [without_sizes(item) for item in document] if isinstance(document, list) else document


def assert_agree(address: str, target: Path, *, but: str = "") -> None:
    for thread in (each for each in threads_of(address) if each != but):
        for source, copy in zip(told(address, thread), told(str(target), thread), strict=True):
            assert without_sizes(list(copy)) == without_sizes(list(source))


def gone_on(target: Path, thread: str, serde: Any = None) -> tuple[list[Any], list[Any]]:
    """The messages' contents before and after one more question, asked by LangGraph of the recording."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("gone on", id="gone-on")]}

    with closing(sqlite3.connect(target, check_same_thread=False)) as connection:
        graph = chain(SqliteSaver(connection, serde=serde), MessagesState, answer_more=answer)
        before = graph.get_state(at(thread)).values.get("messages", [])
        graph.invoke({"messages": [HumanMessage("And now?", id="and-now")]}, at(thread))
        after = graph.get_state(at(thread)).values["messages"]
    return [each.content for each in before], [each.content for each in after]


@pytest.mark.parametrize("name", ["demo", "values", "deltas", "subgraphs"])
def test_every_command_says_of_a_recording_what_it_says_of_postgres(
    name: str, pg_dsn: str, tmp_path: Path
) -> None:
    record_to_postgres(name, pg_dsn)
    target = tmp_path / "r.db"
    record(pg_dsn, target, "--keep-secrets")
    assert_agree(pg_dsn, target)
    for thread in threads_of(pg_dsn)[:1]:
        before, after = gone_on(target, thread)
        assert after == [*before, "And now?", "gone on"]


@pytest.mark.parametrize("release", ["0.2.0", "1.2.24", "js-1.7.3"])
def test_recordings_of_what_every_release_left_in_postgres_agree_and_resume(
    release: str, pg_dsn: str, tmp_path: Path
) -> None:
    restore(release, pg_dsn)
    target = tmp_path / "r.db"
    record(pg_dsn, target, "--keep-secrets")
    # Bytes are a value of their own in PostgreSQL, and in SQLite an object in JSON, which is told otherwise.
    assert_agree(pg_dsn, target, but="classes-js")
    if not release.startswith("js"):  # Python does not go on with what LangGraph.js wrote
        for thread in threads_of(pg_dsn):
            before, after = gone_on(target, thread)
            assert before
            assert after == [*before, "And now?", "gone on"]


def test_a_payload_holds_the_very_bytes_of_the_values_it_was_put_together_from(
    pg_dsn: str, tmp_path: Path
) -> None:
    record_to_postgres("values", pg_dsn)
    target = tmp_path / "r.db"
    record(pg_dsn, target, "--keep-secrets")
    with closing(sqlite3.connect(target)) as connection:
        payloads = b"".join(data for (data,) in connection.execute("SELECT checkpoint FROM checkpoints"))
    with psycopg.connect(pg_dsn) as connection:
        blobs = connection.execute("SELECT blob FROM checkpoint_blobs WHERE type = 'msgpack'").fetchall()
    assert len(blobs) > 10
    assert all(blob in payloads for (blob,) in blobs)


def test_a_value_that_postgres_has_lost_is_lost_in_the_recording_too(pg_dsn: str, tmp_path: Path) -> None:
    recorded = record_to_postgres("demo", pg_dsn)
    checkpoint = recorded.threads["demo"].turn(1).last_checkpoint
    assert delete_blobs(pg_dsn, "demo", "tool_state", checkpoint=checkpoint) == 1
    target = tmp_path / "r.db"
    record(pg_dsn, target)
    shown = run("show", "--store", str(target), "demo", "tool_state", "--turn", "1", "--json")
    assert (shown.code, shown.document["outcome"]) == (6, "value_missing")
    gaps = run("gaps", "--store", str(target), "demo", "--json").document["gaps"]
    assert {gap["kind"] for gap in gaps} == {"value_missing"}
    assert_agree(pg_dsn, target)
    second = tmp_path / "2.db"
    record(str(target), second)
    assert_agree(pg_dsn, second)


def test_values_that_deleted_checkpoints_left_behind_come_along(pg_dsn: str, tmp_path: Path) -> None:
    recorded = record_to_postgres("demo", pg_dsn)
    with psycopg.connect(pg_dsn) as connection:
        last = recorded.threads["demo"].turn(3).last_checkpoint
        connection.execute("DELETE FROM checkpoints WHERE checkpoint_id < %s", (last,))
    target = tmp_path / "r.db"
    record(pg_dsn, target)
    orphans = run("gaps", "--store", str(target), "demo", "--json").document["orphans"]
    assert orphans["blobs"] > 0
    assert orphans["writes"] > 0
    assert_agree(pg_dsn, target)


def test_what_no_payload_can_hold_stands_apart_and_is_told_of(pg_dsn: str, tmp_path: Path) -> None:
    record_to_postgres("demo", pg_dsn)
    with psycopg.connect(pg_dsn) as connection:
        connection.execute(
            "UPDATE checkpoint_blobs SET type = 'pickle', blob = %s WHERE channel = 'tool_state'",
            (b"\x80\x04N.",),
        )
    target = tmp_path / "r.db"
    document = record(pg_dsn, target)
    assert document["threads"][0]["apart"] > 0
    assert_agree(pg_dsn, target)
    shown = run("show", "--store", str(target), "demo", "tool_state", "--json")
    assert (shown.code, shown.document["outcome"]) == (6, "undecodable")


def encrypted(dsn: str) -> EncryptedSerializer:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=AES_KEY)
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.serde = serde
        saver.setup()
        graph = chain(saver, AgentState, node=lambda state: {"tool_state": {"k": "CASE-1"}, "plan": "p"})
        graph.invoke({"messages": [HumanMessage("hidden question", id="h")]}, at("t"))
    return serde


def test_encrypted_values_are_put_together_and_encrypted_again(pg_dsn: str, tmp_path: Path) -> None:
    serde = encrypted(pg_dsn)
    target = tmp_path / "r.db"
    record(pg_dsn, target, env=WITH_KEY)
    assert b"CASE-1" not in target.read_bytes()
    shown = run("show", "--store", str(target), "t", "tool_state", "--json", env=WITH_KEY).document
    assert shown["value"] == {"k": "CASE-1"}
    assert gone_on(target, "t", serde) == (["hidden question"], ["hidden question", "And now?", "gone on"])


def test_encrypted_values_without_the_key_are_refused(pg_dsn: str, tmp_path: Path) -> None:
    encrypted(pg_dsn)
    result = run("record", "--store", pg_dsn, "t", "--to", str(tmp_path / "r.db"))
    assert result.code == 2
    assert "LANGGRAPH_AES_KEY is not set" in result.err
    assert list(tmp_path.iterdir()) == []


def test_encrypted_values_from_postgres_are_redacted_and_stored_in_clear(pg_dsn: str, tmp_path: Path) -> None:
    encrypted(pg_dsn)
    target = tmp_path / "r.db"
    document = record(pg_dsn, target, "--redact-pattern", r"CASE-\d", env=WITH_KEY)
    assert document["encrypted"]["opened"] > 0
    assert b"CASE-1" not in target.read_bytes()
    assert gone_on(target, "t")[0] == ["hidden question"]


def test_secrets_in_values_of_postgres_are_redacted(pg_dsn: str, tmp_path: Path) -> None:
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        graph = chain(
            saver,
            AgentState,
            node=lambda state: {"tool_state": {"password": "hunter-two"}, "plan": "AKIAIOSFODNN7EXAMPLE"},
        )
        config: Any = {**at("t"), "metadata": {"api_key": "in-metadata-7"}}
        graph.invoke({"messages": [HumanMessage("q", id="h")]}, config)
    target = tmp_path / "r.db"
    record(pg_dsn, target)
    data = target.read_bytes()
    assert not any(text in data for text in (b"hunter-two", b"AKIAIOSFODNN7EXAMPLE", b"in-metadata-7"))


def test_the_shallow_layout_is_recorded(pg_dsn: str, tmp_path: Path) -> None:
    with ShallowPostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        graph = chain(
            saver, AgentState, node=lambda state: {"messages": [AIMessage("a", id="a")], "plan": "p"}
        )
        graph.invoke({"messages": [HumanMessage("q", id="h")]}, at("t"))
    target = tmp_path / "r.db"
    record(pg_dsn, target)
    assert_agree(pg_dsn, target)
    assert gone_on(target, "t") == (["q", "a"], ["q", "a", "And now?", "gone on"])
