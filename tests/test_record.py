"""Recordings: what they say is what their source says, LangGraph goes on with them, and nothing else is written."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState
from langgraph.types import Command, interrupt

from agreeing import threads_of, told
from cli_run import FIXTURES, Result, run, run_process, store
from delta_graphs import Runner, append, state_type
from recorded import copy_db
from releases import STORES, unpack
from savers import named
from scenarios.kit import AgentState, at, chain
from scenarios.values import AES_KEY

FILES = sorted(path.stem for path in FIXTURES.glob("*.db"))


def record(source: str, target: Path, *argv: str, env: Mapping[str, str] | None = None) -> Result:
    return run("record", "--store", source, "--to", str(target), *argv, env=env)


def record_all(source: str, target: Path, *argv: str) -> Result:
    result = record(source, target, *argv, "--", *threads_of(source))
    assert result.code == 0, result.err
    return result


def rows_of(path: str) -> list[Any]:
    """Every row, payloads as bytes, in the columns that all layouts share."""
    found = []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.text_factory = bytes
        for table, columns in (
            ("checkpoints", "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type"),
            ("writes", "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type"),
        ):
            blobs = "checkpoint, metadata" if table == "checkpoints" else "value"
            payloads = ", ".join(f"CAST({each} AS BLOB)" for each in blobs.split(", "))
            found.append(sorted(connection.execute(f"SELECT {columns}, {payloads} FROM {table}")))
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_command_says_of_a_recording_what_it_says_of_its_source(name: str, tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    record_all(store(name), target, "--keep-secrets")
    listed = [
        run("threads", "--store", each, "--turns", "--json").document for each in (store(name), str(target))
    ]
    assert listed[0] == listed[1]
    for thread in threads_of(store(name))[:2]:  # of the others, the rows are compared below
        for source, copy in zip(told(store(name), thread), told(str(target), thread), strict=True):
            assert copy == source


@pytest.mark.parametrize(("release", "backend"), [each for each in STORES if each[1] == "sqlite"])
def test_recordings_of_every_release_say_what_their_source_says(
    release: str, backend: str, tmp_path: Path
) -> None:
    source = str(unpack(release, tmp_path))
    target = tmp_path / "r.db"
    record_all(source, target, "--keep-secrets")
    for thread in threads_of(source)[:1]:
        for before, copy in zip(told(source, thread), told(str(target), thread), strict=True):
            assert copy == before


@pytest.mark.parametrize("name", [each for each in FILES if each != "values"])
def test_rows_are_copied_byte_for_byte_where_nothing_is_redacted(name: str, tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    result = record_all(store(name), target, "--json")
    assert result.document["redacted"] == []
    assert rows_of(str(target)) == rows_of(store(name))


def resumed(target: Path, thread: str) -> tuple[list[Any], list[Any]]:
    """The contents of the messages before and after one more question, asked by LangGraph of the recording."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("gone on", id="gone-on")]}

    serde = EncryptedSerializer.from_pycryptodome_aes(key=AES_KEY)
    with closing(sqlite3.connect(target, check_same_thread=False)) as connection:
        graph = chain(SqliteSaver(connection, serde=serde), MessagesState, answer_more=answer)
        before = graph.get_state(at(thread)).values.get("messages", [])
        count = len(list(graph.get_state_history(at(thread))))
        graph.invoke({"messages": [HumanMessage("And now?", id="and-now")]}, at(thread))
        after = graph.get_state(at(thread)).values["messages"]
        assert len(list(graph.get_state_history(at(thread)))) > count
    return [_content(each) for each in before], [_content(each) for each in after]


def _content(message: Any) -> Any:
    match message:
        case {"content": content}:
            return content
        case [_, content]:
            return content
        case str():
            return message
    return message.content


@pytest.mark.parametrize("name", FILES)
def test_langgraph_goes_on_with_a_recording_of_every_thread(name: str, tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    record_all(store(name), target)
    for thread in threads_of(store(name)):
        if run("turns", "--store", store(name), "--json", "--", thread).code:
            continue  # a thread without a root graph
        before, after = resumed(target, thread)
        assert after == [*before, "And now?", "gone on"]


# LangGraph for Python does not go on with what LangGraph.js wrote, in the source neither: versions are numbers there.
PYTHON = [each for each in STORES if each[1] == "sqlite" and not each[0].startswith("js")]


@pytest.mark.parametrize(("release", "backend"), PYTHON)
def test_langgraph_goes_on_with_recordings_of_what_every_release_wrote(
    release: str, backend: str, tmp_path: Path
) -> None:
    source = str(unpack(release, tmp_path))
    target = tmp_path / "r.db"
    record_all(source, target)
    for thread in threads_of(source):
        before, after = resumed(target, thread)
        assert before
        assert after == [*before, "And now?", "gone on"]


def test_the_graph_itself_goes_on_from_an_interrupt_in_a_recording(tmp_path: Path) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"so {interrupt('which?')}", id="a1")]}

    source, target = tmp_path / "s.db", tmp_path / "r.db"
    with closing(sqlite3.connect(source, check_same_thread=False)) as connection:
        graph = chain(SqliteSaver(connection), MessagesState, ask=ask)
        graph.invoke({"messages": [HumanMessage("q", id="h1")]}, at("t"))
    assert record(str(source), target, "t").code == 0
    with closing(sqlite3.connect(target, check_same_thread=False)) as connection:
        graph = chain(SqliteSaver(connection), MessagesState, ask=ask)
        held = graph.invoke(Command(resume="this one"), at("t"))
    assert [message.content for message in held["messages"]] == ["q", "so this one"]


def held(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_recording_is_one_file_for_its_owner_alone_and_without_free_pages(tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    record_all(store("retention"), target)
    assert [path.name for path in tmp_path.iterdir()] == ["r.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with closing(sqlite3.connect(target)) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    assert sorted(tables) == [("checkpoints",), ("writes",)]


def test_what_stands_there_is_replaced_only_when_forced(tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    target.write_text("mine")
    refused = record(store("demo"), target, "demo")
    assert (refused.code, target.read_text()) == (2, "mine")
    assert "is there already" in refused.err
    assert record(store("demo"), target, "demo", "--force").code == 0
    assert threads_of(str(target)) == ["demo"]


def test_a_recording_that_fails_leaves_nothing_and_keeps_what_stood_there(tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    target.write_text("mine")
    for argv in (("nobody",), ("demo", "--turns", "7..8"), ("demo", "--since", "2027-01-01")):
        assert record(store("demo"), target, *argv, "--force").code == 4
        assert held(tmp_path) == {"r.db": hashlib.sha256(b"mine").hexdigest()}


def test_the_store_itself_is_never_written_to_by_whichever_name(tmp_path: Path) -> None:
    source = copy_db(FIXTURES / "demo.db", tmp_path)
    (tmp_path / "symbolic.db").symlink_to(source)
    os.link(source, tmp_path / "hard.db")
    before = held(tmp_path)
    for name in ("demo.db", "symbolic.db", "hard.db", "demo.db-wal", "demo.db-shm", "demo.db-journal"):
        for force in ((), ("--force",)):
            result = record(str(source), tmp_path / name, "demo", *force)
            assert result.code == 2
            assert "Give another name" in result.err
            assert held(tmp_path) == before


def test_a_file_of_sqlites_that_waits_beside_the_target_is_not_taken_into_the_recording(
    tmp_path: Path,
) -> None:
    (tmp_path / "r.db-wal").write_bytes(b"another's")
    result = record(store("demo"), tmp_path / "r.db", "demo", "--force")
    assert result.code == 2
    assert held(tmp_path) == {"r.db-wal": hashlib.sha256(b"another's").hexdigest()}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--to", "/no/such/folder/r.db", "demo"), "cannot be written"),
        (("--to", "/tmp", "demo"), "is a folder"),
        (("--to", ".", "demo"), "is a folder"),
        (("--to", "/", "demo"), "is a folder"),
        (("--to", "postgresql://host/db", "demo"), "a recording is a file"),
        (("demo",), "give the new file"),
        (("--to", "r.db"), "name a thread"),
        (("--to", "r.db", "demo", "--redact-pattern", "("), "no regular expression"),
        (("--to", "r.db", "demo", "--turns", "1..2", "--since", "7d"), "only one of --turns and --since"),
        (("--to", "r.db", "demo", "--turns", "1-2"), "write N, A..B, A.. or ..B"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    argv: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = run("record", "--store", store("demo"), *argv, cwd=tmp_path)
    assert result.code == 2
    assert said in " ".join(result.err.split())
    assert list(tmp_path.iterdir()) == []


def test_turns_of_several_threads_at_once_are_refused(tmp_path: Path) -> None:
    names = threads_of(store("fleet"))
    assert len(names) > 1
    result = record(store("fleet"), tmp_path / "r.db", *names, "--turns", "1..2")
    assert (result.code, list(tmp_path.iterdir())) == (2, [])


def test_a_pattern_names_several_threads_and_each_is_copied_once(tmp_path: Path) -> None:
    wanted = [each for each in threads_of(store("retention")) if each.startswith("front")]
    result = record(store("retention"), tmp_path / "r.db", "front*", "front", "--json")
    assert sorted(each["thread"] for each in result.document["threads"]) == sorted(wanted)
    assert sorted(threads_of(str(tmp_path / "r.db"))) == sorted(wanted)


def test_ids_that_are_no_text_are_copied_as_they_are(tmp_path: Path) -> None:
    source, target = copy_db(FIXTURES / "demo.db", tmp_path), tmp_path / "r.db"
    with closing(sqlite3.connect(source)) as connection, connection:
        for table in ("checkpoints", "writes"):
            connection.execute(f"UPDATE {table} SET thread_id = CAST(x'610062ff' AS TEXT)")
    record_all(str(source), target)
    assert rows_of(str(target)) == rows_of(str(source))


def cut(name: str, thread: str, target: Path, *argv: str) -> dict[str, Any]:
    result = record(store(name), target, "--json", *argv, "--", thread)
    assert result.code == 0, result.err
    return dict(result.document["threads"][0])


def values_at(address: str, thread: str, *at: str) -> Any:
    """Every value as of somewhere, and whether that could be read."""
    result = run("show", "--store", address, *at, "--json", "--", thread, "*")
    readings = result.document.get("readings", [])
    return result.code, {each["key"]: each["value"] for each in readings}


def test_turns_that_are_cut_out_keep_numbers_values_and_gaps(tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    found = cut("demo", "demo", target, "--turns", "2..2")
    assert found == {
        "thread": "demo",
        "checkpoints": 4,
        "writes": 5,
        "turns": [2, 2],
        "checkpoints_before": 0,
    }
    turns = run("turns", "--store", str(target), "demo", "--json").document
    assert turns["total"] == 2
    assert [(each["turn"], each["question"]) for each in turns["turns"]] == [
        (1, "Find the area of Copenhagen"),
        (2, "Describe it"),
    ]
    gaps = run("gaps", "--store", str(target), "demo", "--json").document
    assert [(gap["kind"], gap["turns"], gap["steps_missing"]) for gap in gaps["gaps"]] == [
        ("thinned", [1], 4)
    ]
    for turn in ("1", "2"):
        code, values = values_at(str(target), "demo", "--turn", turn)
        assert (code, values) == values_at(store("demo"), "demo", "--turn", turn)
        assert code == 0
    before, after = resumed(target, "demo")
    assert len(before) == 4
    assert after == [*before, "And now?", "gone on"]


def test_an_open_end_of_a_range_is_the_threads(tmp_path: Path) -> None:
    assert cut("demo", "demo", tmp_path / "1.db", "--turns", "..2")["turns"] == [0, 2]
    assert cut("demo", "demo", tmp_path / "2.db", "--turns", "2..")["turns"] == [2, 3]
    assert cut("demo", "demo", tmp_path / "3.db", "--turns", "-1")["turns"] == [3, 3]
    assert rows_of(str(tmp_path / "1.db"))[0] == rows_of(store("demo"))[0][:8]


@pytest.mark.parametrize(
    "name",
    ["durability", "edited", "resumed"],
)
def test_every_turn_can_be_the_last_or_the_first_of_a_recording(name: str, tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    for thread in threads_of(store(name)):
        turns = run("turns", "--store", store(name), "--json", "--", thread).document
        by = ("--turns-by", turns["turns_by"])
        kept = [each for each in turns["turns"] if each["retained"] and "first_checkpoint" in each]
        for turn in kept:
            number = turn["turn"]
            cut(name, thread, target, "--turns", f"..{number}", *by, "--force")
            copied = run("turns", "--store", str(target), "--json", *by, "--", thread).document
            assert copied["total"] == max(turn.get("asked_with", [number])), (thread, number)
            assert copied["turns"][number - 1]["status"] == turn["status"], (thread, number)
            assert copied["turns"][number - 1]["last_checkpoint"] == turn["last_checkpoint"]
            at = ("--checkpoint", turn["last_checkpoint"])
            assert values_at(str(target), thread, *at) == values_at(store(name), thread, *at)
            cut(name, thread, target, "--turns", f"{number}..", *by, "--force")
            at = ("--checkpoint", kept[-1]["last_checkpoint"])
            assert values_at(str(target), thread, *at) == values_at(store(name), thread, *at)


def test_rows_before_come_along_where_a_channel_is_kept_as_deltas(tmp_path: Path) -> None:
    source, target = tmp_path / "s.db", tmp_path / "r.db"
    with closing(sqlite3.connect(source, check_same_thread=False)) as connection:
        runner = Runner(SqliteSaver(connection), state_type(4, notes=(list, append)))
        for number in range(6):
            runner.run("t", {"messages": [HumanMessage(f"q{number}", id=f"h{number}")]}, {"notes": number})
    found = record(str(source), target, "t", "--turns", "6", "--json").document["threads"][0]
    assert found["checkpoints_before"] > 0
    shown = run("show", "--store", str(target), "t", "notes", "--turn", "6", "--json").document
    assert shown["value"] == [0, 1, 2, 3, 4, 5]
    with closing(sqlite3.connect(target, check_same_thread=False)) as connection:
        runner = Runner(SqliteSaver(connection), state_type(4, notes=(list, append)))
        runner.run("t", {"messages": [HumanMessage("q6", id="h6")]}, {"notes": 6})
    shown = run("show", "--store", str(target), "t", "notes", "--json").document
    assert shown["value"] == [0, 1, 2, 3, 4, 5, 6]


def test_the_calls_of_subgraphs_come_with_the_turns_that_made_them(tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    cut("subgraphs", "per-call", target, "--turns", "1..1")
    (whole,) = run("threads", "--store", store("subgraphs"), "per-call", "--jsonl").documents
    (part,) = run("threads", "--store", str(target), "per-call", "--jsonl").documents
    calls = [ns for ns in whole["namespaces"] if ns]
    assert len(calls) == 2
    assert [ns for ns in part["namespaces"] if ns] in ([calls[0]], [calls[1]])
    cut("subgraphs", "own-memory", target, "--turns", "1..1", "--force")
    assert 0 < _rows(target, "research") < _rows(Path(store("subgraphs")), "research")


def _rows(path: Path, ns: str) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        query = "SELECT count(*) FROM checkpoints WHERE checkpoint_ns = ?"
        return int(connection.execute(query, (ns,)).fetchone()[0])


def test_a_branch_is_cut_out_alone_and_becomes_the_head(tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    thread = "asked-again"
    found = run("branches", "--store", store("forks"), thread, "--json").document["branches"]
    (branch,) = [each["tip"] for each in found if not each["current"]][:1]
    cut("forks", thread, target, "--branch", branch)
    copied = run("branches", "--store", str(target), thread, "--json").document["branches"]
    assert [(each["tip"], each["current"]) for each in copied] == [(branch, True)]


def test_since_takes_the_turns_that_were_active_and_leaves_out_threads_without(tmp_path: Path) -> None:
    target = tmp_path / "r.db"
    found = cut("demo", "demo", target, "--since", "2026-11-30T13:00:04.9Z")
    assert found["turns"] == [2, 3]
    result = record(store("fleet"), tmp_path / "f.db", "--since", "2026-01-01", "--json")
    assert {each["thread"] for each in result.document["threads"]} == set(threads_of(store("fleet")))


def test_a_saver_in_memory_is_recorded_as_sqlite_would_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver, target = InMemorySaver(), tmp_path / "r.db"
    with closing(sqlite3.connect(tmp_path / "s.db", check_same_thread=False)) as connection:
        for each in (saver, SqliteSaver(connection)):
            graph = chain(
                each, AgentState, node=lambda state: {"plan": "p", "messages": [AIMessage("a", id="a")]}
            )
            graph.invoke({"messages": [HumanMessage("q", id="h")]}, at("t"))
    address = named(monkeypatch, saver)
    assert record(address, target, "t").code == 0
    for source, copy in zip(told(address, "t"), told(str(target), "t"), strict=True):
        assert copy == source
    before, after = resumed(target, "t")
    assert before == ["q", "a"]
    assert after == ["q", "a", "And now?", "gone on"]
    assert _forms(target) == _forms(tmp_path / "s.db")


def _forms(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            (kind, list(JsonPlusSerializer().loads_typed((kind, data))))
            for kind, data in connection.execute(
                "SELECT type, checkpoint FROM checkpoints WHERE thread_id = 't' ORDER BY checkpoint_id LIMIT 3"
            )
        ]


def test_a_recording_of_a_recording_is_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "1.db", tmp_path / "2.db"
    record_all(store("values"), first, "--redact", "plan")
    record_all(str(first), second)
    assert rows_of(str(second)) == rows_of(str(first))


def test_the_program_says_what_it_did_on_stderr(tmp_path: Path) -> None:
    result = run_process("record", "--store", store("values"), "values", "--to", str(tmp_path / "r.db"))
    assert (result.code, result.out) == (0, "")
    assert "recorded thread values to" in result.err
    assert "redacted, secret class: key (7), secret (7)" in result.err
