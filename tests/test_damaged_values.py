"""One value that cannot be read is one marked cell: every listing goes on, and says of the others what it did."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from cli_run import run
from delta_graphs import place
from scenarios.kit import AgentState, chain

DAMAGE = [
    ("pickle", b"\x80\x04N.", "undecodable", "a pickle, which can only be read by running what it names"),
    ("msgpack", b"\x93\x01", "undecodable", "the bytes end inside a value"),
    ("msgpack", b"\x93\x01\x02\x03\x04", "undecodable", "1 bytes follow the value"),
    ("msgpack", b"", "undecodable", "the bytes end inside a value"),
    (
        "msgpack",
        b"\x82\xa1a\x01\xa1b\x92\x02",
        "undecodable",
        "the bytes end inside a value",
    ),  # in its last entry
    ("msgpack", b"\x82\xa1a\x01\xa1b\x92\x02\x03\x04", "undecodable", "1 bytes follow the value"),
    ("msgpack", b"\xc7\x0c\x02\x93\xa1m\xa1C\x81\xa1a", "undecodable", "the bytes end inside a value"),
    (
        "msgpack",
        b"\x82\xa1a\x01\xa1b\xda\xff\xff" + b"x" * 9000,
        "undecodable",
        "the bytes end inside a value",
    ),
    ("json", b'{"a": 1, "b": [2', "undecodable", "not JSON at character 16: Expecting ',' delimiter"),
    ("json", b'{"a": ', "undecodable", "not JSON at character 6: Expecting value"),
    ("yaml", b"a: 1", "undecodable", "no such payload type is known"),
    ("msgpack+aes", b"x" * 40, "encrypted", "LANGGRAPH_AES_KEY is not set"),
]


def converse(saver: Any) -> None:
    def tool(state: AgentState) -> dict[str, Any]:
        count = len(state["messages"])
        return {"plan": f"plan {count}", "tool_state": {"a": count, "b": [count]}}

    def answer(state: AgentState) -> dict[str, Any]:
        return {"messages": [AIMessage("A", id=f"a{len(state['messages'])}")]}

    graph = chain(saver, AgentState, tool=tool, answer=answer)
    for number in (1, 2):
        graph.invoke({"messages": [HumanMessage(f"q{number}", id=f"h{number}")]}, place("t"))


@pytest.mark.parametrize(("kind", "data", "outcome", "reason"), DAMAGE)
def test_a_damaged_blob_is_one_marked_cell(
    kind: str, data: bytes, outcome: str, reason: str, pg_dsn: str
) -> None:
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        converse(saver)
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        hit = connection.execute(
            "UPDATE checkpoint_blobs SET type = %s, blob = %s WHERE channel = 'tool_state' AND type <> 'empty' "
            "AND version = (SELECT max(version) FROM checkpoint_blobs WHERE channel = 'tool_state')",
            (kind, data),
        )
        assert hit.rowcount == 1

    def asked(verb: str, *argv: str) -> Any:
        return run(verb, "--store", pg_dsn, "t", *argv, "--json").document

    assert {row["key"]: row.get("absence") for row in asked("keys")["keys"]} == {
        "messages": None,
        "plan": None,
        "tool_state": outcome,
    }
    shown = {each["key"]: each for each in asked("show", "*")["readings"]}
    assert {key: each["outcome"] for key, each in shown.items()} == {
        "messages": "value",
        "plan": "value",
        "tool_state": outcome,
    }
    assert shown["tool_state"]["stored"]["reason"] == reason
    assert (shown["tool_state"]["stored"]["type"], shown["tool_state"]["stored"]["bytes"]) == (
        kind,
        len(data),
    )
    assert asked("show", "tool_state", "--turn", "1")["value"] == {"a": 1, "b": [1]}
    assert [turn["question"] for turn in asked("turns")["turns"]] == ["q1", "q2"]
    absences = [v.get("absence") for v in asked("log", "tool_state")["versions"]]
    assert absences == [None, outcome]
    assert [v["value"] for v in asked("log", "plan")["versions"]] == ["plan 1", "plan 3"]
    changes = {change["key"].partition("/")[0] for change in asked("diff", "--turns", "1..2")["changes"]}
    assert {"messages", "plan"} <= changes
    assert f"<{outcome}" in run("diff", "--store", pg_dsn, "t").out
    for verb in ("log", "diff", "keys", "turns"):
        assert run(verb, "--store", pg_dsn, "t").code in (0, 1)


def test_a_damaged_part_is_one_marked_part(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        converse(saver)
    with closing(sqlite3.connect(path)) as connection, connection:
        ((id, state),) = connection.execute(
            "SELECT checkpoint_id, checkpoint FROM checkpoints ORDER BY checkpoint_id DESC LIMIT 1"
        ).fetchall()
        held = b"\xa1a\x03\xa1b\x91\x03"  # {"a": 3, "b": [3]}
        assert state.count(held) == 1
        broken = b"\xa1a\x03\xa1b\xd4\x2a\0"  # an extension that nobody knows in place of the list
        connection.execute(
            "UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?", (state.replace(held, broken), id)
        )
    rows = run("keys", "--store", str(path), "t", "--json").document["keys"]
    assert {row["key"]: row.get("absence") for row in rows} == {
        "messages": None,
        "plan": None,
        "a": None,
        "b": "undecodable",
    }
    whole = run("show", "--store", str(path), "t", "tool_state", "--json").document
    assert whole["outcome"] == "value"
    assert whole["value"]["a"] == 3
    assert whole["value"]["b"]["$absent"] == "undecodable"
    part = run("show", "--store", str(path), "t", "b", "--json")
    assert (part.code, part.document["stored"]["reason"]) == (6, "no such extension is known")


def test_rows_without_a_time_or_an_id_are_listed_in_the_order_of_their_parents(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
    rows = [("", None, "input", 1), ("zz", "", "loop", 2), ("b", "zz", "loop", 3)]
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, (id, parent, source, humans) in enumerate(rows):
            kind, state = JsonPlusSerializer().dumps_typed(
                {
                    "v": 1,
                    "ts": "",
                    "id": id,
                    "channel_values": {"n": humans, "messages": [HumanMessage("q", id="h")]},
                    "channel_versions": {"n": str(humans), "messages": "1"},
                    "versions_seen": {},
                }
            )
            metadata = json.dumps({"source": source, "step": number - 1})
            connection.execute(
                "INSERT INTO checkpoints VALUES ('t', '', ?, ?, ?, ?, ?)", (id, parent, kind, state, metadata)
            )
    (thread,) = run("threads", "--store", str(path), "--json").document
    assert (thread["checkpoints"], thread["head"], "first" in thread) == (3, "zz", False)
    turns = run("turns", "--store", str(path), "t", "--branch", "b", "--json").document
    assert [(turn["question"], turn["last_checkpoint"], "started" in turn) for turn in turns["turns"]] == [
        ("q", "b", False)
    ]
    assert turns["skewed"] == ["b"]
    shown = run("show", "--store", str(path), "t", "n", "--branch", "b", "--json").document
    assert shown["value"] == 3
