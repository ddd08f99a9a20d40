"""Layouts and ways of writing that a store may have, read by the whole program."""

from __future__ import annotations

import json
import shutil
import sqlite3
import warnings
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import psycopg
import pytest
from langchain_core.load.dump import default
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import releases
from cli_run import run, store
from delta_graphs import place
from recorded import copy_db, recording
from scenarios.kit import AgentState, chain

ANSWERS = ("turns", "keys", "show", "log", "diff", "gaps", "branches")


def told(address: str, thread: str, *argv: str) -> list[Any]:
    """What every command tells of a thread, in JSON."""
    keys = {"show": ["*"], "log": ["--values"]}
    found = []
    for verb in ANSWERS:
        result = run(verb, "--store", address, thread, *keys.get(verb, []), "--json", *argv)
        assert result.code in (0, 1), (verb, result.err)
        found.append(result.document)
    return found


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def converse(saver: Any, thread: str = "t", questions: int = 2) -> None:
    def tool(state: AgentState) -> dict[str, Any]:
        return {"plan": f"plan {len(state['messages'])}", "tool_state": {"a": len(state["messages"])}}

    def answer(state: AgentState) -> dict[str, Any]:
        return {"messages": [AIMessage("A", id=f"a{len(state['messages'])}")]}

    graph = chain(saver, AgentState, tool=tool, answer=answer)
    for number in range(1, questions + 1):
        graph.invoke({"messages": [HumanMessage(f"q{number}", id=f"h{number}")]}, place(thread))


def as_json(path: Path, thread: str, *, before: str) -> None:
    """Give the older rows of a thread the encoding that LangGraph had then: JSON, with ``lc`` constructors."""
    serde = JsonPlusSerializer()
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, column in (("checkpoints", "checkpoint"), ("writes", "value")):
            rows = connection.execute(
                f"SELECT rowid, type, {column} FROM {table} WHERE thread_id = ? AND checkpoint_id < ?",
                (thread, before),
            ).fetchall()
            assert rows
            for rowid, kind, data in rows:
                value = serde.loads_typed((kind, data))
                text = json.dumps(value, default=default).encode()
                connection.execute(
                    f"UPDATE {table} SET type = 'json', {column} = ? WHERE rowid = ?", (text, rowid)
                )


def test_rows_in_json_and_in_msgpack_make_one_thread(tmp_path: Path) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    before = told(str(path), "demo")
    (turn,) = [turn for turn in before[0]["turns"] if turn["turn"] == 2]
    as_json(path, "demo", before=turn["first_checkpoint"])
    after = told(str(path), "demo")
    assert [(t["question"], t["keys_written"], t["status"]) for t in after[0]["turns"]] == [
        (t["question"], t["keys_written"], t["status"]) for t in before[0]["turns"]
    ]
    for index in (2, 3, 4, 5, 6):  # of show, log, diff, gaps and branches everything
        assert plain(after[index]) == plain(before[index])


def plain(value: Any) -> Any:
    """A document in which a message is told by class name, role, text and id, however it was stored."""
    if isinstance(value, dict):
        if "$type" in value and isinstance(value.get("$value"), dict) and "content" in value["$value"]:
            held = value["$value"]
            return (value["$type"].rpartition(".")[2], held["content"], held.get("id"))
        return {key: plain(item) for key, item in value.items() if key not in ("bytes", "summary", "patch")}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("verb", ["threads", "turns"])
def test_a_wal_whose_database_is_gone_is_named_and_left_alone(tmp_path: Path, verb: str) -> None:
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE checkpoints (thread_id TEXT)")
        shutil.copy(tmp_path / "agent.db-wal", tmp_path / "lone.db-wal")
    before = (tmp_path / "lone.db-wal").read_bytes()
    result = run(verb, "--store", str(tmp_path / "lone.db"), *(["t"] if verb == "turns" else []))
    assert result.code == 2
    assert "lone.db-wal" in result.err
    assert (tmp_path / "lone.db-wal").read_bytes() == before
    assert [path.name for path in tmp_path.glob("lone*")] == ["lone.db-wal"]


ById = tuple[str, str | None, int]
"""What an application inserts: a checkpoint's id, its parent's, and how many questions its list holds."""


def inserted(address: str, rows: Sequence[ById], *, ts: bool = True, metadata: str | None = "{}") -> str:
    """Rows that application code wrote with its own ids: role dicts and a plan, no step, no source, no writes.

    The list of ``n`` questions is of 2026-01-0n where ``ts`` says so; else the time stamp and the id inside are empty.
    """
    serde = JsonPlusSerializer()
    states = []
    for id, parent, asked in rows:
        messages = [{"role": "user", "content": f"q{n}"} for n in range(1, asked + 1)]
        written = f"2026-01-0{asked}T00:00:00+00:00" if ts else ""
        state = {"v": 1, "ts": written, "id": id if ts else "", "versions_seen": {}}
        versions = {"messages": asked, "plan": asked}
        states.append((id, parent, state | {"channel_versions": versions}, messages, f"p{asked}"))
    if address.startswith("postgresql:"):
        with PostgresSaver.from_conn_string(address) as saver:
            saver.setup()
        with psycopg.connect(address, autocommit=True) as connection:
            for id, parent, state, messages, plan in states:
                whole = json.dumps(state | {"channel_values": {"plan": plan}})
                connection.execute(
                    "INSERT INTO checkpoints (thread_id, checkpoint_id, parent_checkpoint_id, checkpoint, metadata) "
                    "VALUES ('t', %s, %s, %s, %s)",
                    (id, parent, whole, metadata or "{}"),
                )
                kind, payload = serde.dumps_typed(messages)
                connection.execute(
                    "INSERT INTO checkpoint_blobs (thread_id, channel, version, type, blob) "
                    "VALUES ('t', 'messages', %s, %s, %s)",
                    (str(len(messages)), kind, payload),
                )
        return address
    with SqliteSaver.from_conn_string(address) as saver:
        saver.setup()
    with closing(sqlite3.connect(address)) as connection, connection:
        for id, parent, state, messages, plan in states:
            kind, payload = serde.dumps_typed(
                state | {"channel_values": {"messages": messages, "plan": plan}}
            )
            connection.execute(
                "INSERT INTO checkpoints (thread_id, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) "
                "VALUES ('t', ?, ?, ?, ?, ?)",
                (id, parent, kind, payload, metadata),
            )
    return address


@pytest.mark.parametrize("metadata", ["{}", None])
def test_rows_that_an_application_inserted_are_read_with_its_own_ids(
    tmp_path: Path, metadata: str | None
) -> None:
    path = inserted(str(tmp_path / "app.db"), [("2", None, 1), ("10", "2", 2)], metadata=metadata)
    change(
        Path(path),
        "ALTER TABLE checkpoints ADD COLUMN tenant TEXT DEFAULT 'acme'",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)",
    )
    turns = run("turns", "--store", path, "t", "--branch", "10", "--json").document
    assert [(turn["question"], turn["ended"]) for turn in turns["turns"]] == [
        ("q1", "2026-01-01T00:00:00Z"),
        ("q2", "2026-01-02T00:00:00Z"),
    ]
    shown = run("show", "--store", path, "t", "messages", "--checkpoint", "10", "--json").document
    assert [message["content"] for message in shown["value"]] == ["q1", "q2"]


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_of_hand_made_ids_the_greatest_text_is_the_head_and_a_child_with_a_smaller_one_is_pointed_out(
    tmp_path: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    address = str(tmp_path / "app.db") if backend == "sqlite" else request.getfixturevalue("pg_dsn")
    inserted(address, [("2", None, 1), ("10", "2", 2), ("11", "10", 3)])
    saver_of: Any = SqliteSaver if backend == "sqlite" else PostgresSaver
    with saver_of.from_conn_string(address) as saver:
        resumed = saver.get_tuple(place("t"))
    assert resumed.config["configurable"]["checkpoint_id"] == "2"
    turns = run("turns", "--store", address, "t", "--json")
    assert [turn["question"] for turn in turns.document["turns"]] == ["q1"]
    assert (turns.document["head"], turns.document["branches"]) == ("2", ["11"])
    noted = run("turns", "--store", address, "t").err
    assert "clock skew: checkpoints whose id sorts before their parent's: 1" in noted
    assert "the head 2 has a child with a smaller id (10)" in run("branches", "--store", address, "t").err
    followed = run("turns", "--store", address, "t", "--branch", "11", "--json").document
    assert [turn["question"] for turn in followed["turns"]] == ["q1", "q2", "q3"]
    # The least id is not the first row, nor the greatest the last.
    (thread,) = run("threads", "--store", address, "--json").document
    assert (thread["first"], thread["last"]) == ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z")
    assert run("threads", "--store", address, "--since", "2026-01-03", "--json").document == [thread]
    assert run("gaps", "--store", address, "--since", "2026-01-03", "--json").code == 0


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    "rows",
    [
        [("", None, 1), ("b", "", 2), ("c", "b", 3)],  # the first row's id is empty
        [("a", "", 1), ("b", "a", 2), ("c", "b", 3)],  # no parent is an empty one
        [("a", None, 1), ("b", None, 2), ("c", None, 3)],  # no row names a parent
        [("a", "", 1), ("b", "", 2), ("c", "", 3)],
    ],
)
def test_rows_with_empty_ids_times_and_parents_follow_each_other_by_id_and_none_is_called_lost(
    tmp_path: Path, backend: str, rows: list[ById], request: pytest.FixtureRequest
) -> None:
    address = str(tmp_path / "app.db") if backend == "sqlite" else request.getfixturevalue("pg_dsn")
    inserted(address, rows, ts=False)
    turns = run("turns", "--store", address, "t", "--json").document
    assert (turns["turns_by"], turns["total"], turns["total_is"]) == ("questions", 3, "exact")
    assert [
        (
            turn["question"],
            turn["retained"],
            turn["last_checkpoint"],
            sorted(turn["keys_written"]),
            "ended" in turn,
        )
        for turn in turns["turns"]
    ] == [(f"q{n}", True, rows[n - 1][0], ["messages", "plan"], False) for n in (1, 2, 3)]
    for turn in (1, 2, 3):
        shown = run("show", "--store", address, "t", "plan", "--turn", str(turn), "--json").document
        assert (shown["value"], shown["turns_written"]) == (f"p{turn}", [1, 2, 3])
        assert (shown["checkpoint"], shown["written"]["checkpoint"]) == (rows[turn - 1][0],) * 2
    assert run("gaps", "--store", address, "t", "--json").document["gaps"] == []
    (thread,) = run("threads", "--store", address, "--json").document
    assert "first" not in thread
    assert "last" not in thread


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("CREATE TABLE checkpoints (id INTEGER, step INTEGER, loss REAL)", "id, step, loss"),
        ("CREATE TABLE checkpoints (thread_id TEXT, state TEXT)", "thread_id, state"),
        ("CREATE TABLE users (id INTEGER)", "users"),
    ],
)
def test_a_foreign_database_is_refused_by_every_command_with_what_was_found(
    tmp_path: Path, script: str, says: str
) -> None:
    change(tmp_path / "other.db", script)
    for argv in (["threads"], ["turns", "t"], ["gaps"], ["show", "t", "x"]):
        result = run(argv[0], "--store", str(tmp_path / "other.db"), *argv[1:])
        assert (result.code, result.out) == (2, "")
        assert "is not a LangGraph checkpoint store" in result.err
        assert says in result.err


def test_an_empty_file_is_refused_by_every_command_and_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    path.touch()
    for argv in (["threads"], ["turns", "t"], ["gaps"], ["show", "t", "x"]):
        result = run(argv[0], "--store", str(path), *argv[1:])
        assert (result.code, result.out) == (2, "")
        assert "the file is empty (0 bytes)" in result.err
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("new.db", 0)]


def test_rows_of_all_four_formats_make_one_thread(tmp_path: Path) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    before = told(str(path), "demo")
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute(
            "SELECT rowid, checkpoint FROM checkpoints ORDER BY checkpoint_id"
        ).fetchall()
        for n, (rowid, data) in enumerate(rows):
            assert data.count(b"\xa1v\x04") == 1
            data = data.replace(b"\xa1v\x04", b"\xa1v" + bytes([1 + n * 4 // len(rows)]))
            connection.execute("UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (data, rowid))
    assert told(str(path), "demo") == before


@pytest.mark.parametrize("moved", ["0", "rowid % 2", "thread_ts > '1f1ece0d-dd80'", "1"])
def test_rows_of_the_layout_before_1_0_and_of_the_present_one_in_one_table_make_one_thread(
    tmp_path: Path, moved: str
) -> None:
    path = releases.unpack("0.1.19", tmp_path)
    before = told(str(path), "linear")
    for table in ("checkpoints", "writes"):
        change(
            path,
            f"ALTER TABLE {table} ADD COLUMN checkpoint_ns TEXT NOT NULL DEFAULT ''",
            f"ALTER TABLE {table} ADD COLUMN checkpoint_id TEXT",
            f"UPDATE {table} SET checkpoint_id = thread_ts, thread_ts = 'moved ' || thread_ts WHERE {moved}",
        )
    change(
        path,
        "ALTER TABLE checkpoints ADD COLUMN parent_checkpoint_id TEXT NOT NULL DEFAULT ''",
        "UPDATE checkpoints SET parent_checkpoint_id = parent_ts, parent_ts = NULL "
        "WHERE checkpoint_id IS NOT NULL AND parent_ts IS NOT NULL",
    )
    assert [turn["question"] for turn in before[0]["turns"]] == [
        "Find the area of Copenhagen",
        "Describe it",
        "Now find Aarhus and compare",
    ]
    assert told(str(path), "linear") == before
    threads = {row["thread"]: row for row in run("threads", "--store", str(path), "--json").document}
    assert (threads["linear"]["checkpoints"], threads["linear"]["first"]) == (
        12,
        before[0]["turns"][0]["started"],
    )


def test_rows_without_a_namespace_are_of_the_root_graph(tmp_path: Path) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    before = told(str(path), "demo")
    change(
        path,
        *(
            statement
            for table in ("checkpoints", "writes")
            for statement in (
                f"CREATE TABLE held AS SELECT * FROM {table}",  # which keeps no constraint
                f"DROP TABLE {table}",
                f"ALTER TABLE held RENAME TO {table}",
                f"UPDATE {table} SET checkpoint_ns = NULL",
            )
        ),
    )
    assert told(str(path), "demo") == before
    (thread,) = run("threads", "--store", str(path), "--json").document
    assert (thread["namespaces"], thread["checkpoints"]) == ([""], 12)


def test_a_workflow_of_functions_has_what_it_returned_and_what_it_saved_in_channels_of_langgraphs_own(
    tmp_path: Path, pg_dsn: str
) -> None:
    for address, saver_of in ((str(tmp_path / "f.db"), SqliteSaver), (pg_dsn, PostgresSaver)):
        with saver_of.from_conn_string(address) as saver:  # type: ignore[attr-defined]
            saver.setup()

            @entrypoint(checkpointer=saver)
            def workflow(query: str, *, previous: list[str] | None = None) -> Any:
                asked = [*(previous or []), query]
                return entrypoint.final(value=f"{len(asked)} asked", save=asked)

            for query in ("q1", "q2", "q3"):
                workflow.invoke(query, place("t"))
        turns = run("turns", "--store", address, "t", "--json").document
        assert (turns["turns_by"], [t["question"] for t in turns["turns"]]) == ("inputs", ["q1", "q2", "q3"])
        for turn in (1, 2, 3):
            argv = ("--store", address, "t", "--turn", str(turn), "--all", "--json")
            assert run("show", *argv, "__end__").document["value"] == f"{turn} asked"
            assert run("show", *argv, "__previous__").document["value"] == ["q1", "q2", "q3"][:turn]
        refused = run("show", "--store", address, "t", "__end__")
        assert (refused.code, "a channel of LangGraph's own has that name: see --all" in refused.err) == (
            4,
            True,
        )


class Rooted:
    """A graph whose whole state is one value: LangGraph keeps it in the channel ``__root__``."""

    @staticmethod
    def run(saver: Any) -> None:
        def extend(old: list[str] | None, new: list[str] | None) -> list[str]:
            return [*(old or []), *(new or [])]

        builder: Any = StateGraph(Annotated[list[str], extend])
        builder.add_node("node", lambda state: [f"n{len(state)}"])
        builder.add_edge(START, "node").add_edge("node", END)
        graph = builder.compile(checkpointer=saver)
        for number in (1, 2):
            graph.invoke([f"i{number}"], place("t"))


def test_a_state_that_is_one_value_is_the_key_root(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "root.db")) as saver:
        Rooted.run(saver)
    address = str(tmp_path / "root.db")
    for turn, value in ((1, ["i1", "n1"]), (2, ["i1", "n1", "i2", "n3"])):
        shown = run("show", "--store", address, "t", "__root__", "--turn", str(turn), "--json").document
        assert (shown["outcome"], shown["value"]) == ("value", value)
    keys = run("keys", "--store", address, "t", "--json").document["keys"]
    assert [key["key"] for key in keys] == ["__root__"]
    turns = run("turns", "--store", address, "t", "--json").document
    assert (turns["turns_by"], [turn["keys_written"] for turn in turns["turns"]]) == (
        "inputs",
        [["__root__"], ["__root__"]],
    )


def test_a_graph_of_messages_alone_keeps_them_in_root_and_its_questions_can_be_counted(
    tmp_path: Path,
) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "root.db")) as saver:
        builder: Any = StateGraph(Annotated[list[Any], add_messages])
        builder.add_node("node", lambda state: [AIMessage("A")]).add_edge(START, "node").add_edge("node", END)
        graph = builder.compile(checkpointer=saver)
        for number in (1, 2):
            graph.invoke([HumanMessage(f"q{number}")], place("t"))
    argv = ("turns", "--store", str(tmp_path / "root.db"), "t", "--messages", "__root__", "--json")
    turns = run(*argv).document
    assert [turn["question"] for turn in turns["turns"]] == ["q1", "q2"]
    assert (turns["turns_by"], turns["total_is"]) == ("questions", "exact")


def test_subgraphs_that_keep_their_memory_and_those_called_anew_are_namespaces(tmp_path: Path) -> None:
    def node(state: AgentState) -> dict[str, Any]:
        return {"plan": f"{state.get('plan', '')}x"}

    path = tmp_path / "nested.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        kept = chain(True, AgentState, inner=node)  # type: ignore[arg-type]
        anew = chain(None, AgentState, inner=node)  # type: ignore[arg-type]
        graph = chain(saver, AgentState, kept=kept, anew=anew)
        for number in (1, 2):
            graph.invoke({"messages": [HumanMessage(f"q{number}")], "plan": ""}, place("t"))
    (thread,) = run("threads", "--store", str(path), "--json").document
    names = thread["namespaces"]
    assert [name.partition(":")[0] for name in names] == ["", "anew", "anew", "kept"]
    asked = []
    for name in names[1:]:
        turns = run("turns", "--store", str(path), "t", "--ns", name, "--json").document
        assert turns["namespace"] == name
        asked.append((name.partition(":")[0], [turn["question"] for turn in turns["turns"]]))
        assert run("show", "--store", str(path), "t", "plan", "--ns", name).code == 0
    # A call is given all messages so far, and one that keeps its memory is given the new one.
    assert sorted(asked) == [("anew", ["q1"]), ("anew", ["q1", "q2"]), ("kept", ["q1", "q2"])]
    listed = run("threads", "--store", str(path), "--namespaces")
    assert listed.out.splitlines() == [
        "THREAD  NAMESPACE",
        *(f"t       {name or '-'}" for name in names),
    ]


def test_a_shallow_and_a_full_store_in_two_schemas_are_each_read_by_name(pg_dsn: str) -> None:
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        for schema in ("whole", "shallow"):
            connection.execute(f"CREATE SCHEMA {schema}")
    for schema, kind in (("whole", PostgresSaver), ("shallow", ShallowPostgresSaver)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the shallow saver says that it is old
            with kind.from_conn_string(f"{pg_dsn}&options=-csearch_path%3D{schema}") as saver:
                saver.setup()
                converse(saver)
    refused = run("turns", "--store", pg_dsn, "t")
    assert refused.code == 2
    assert "There is one in 'shallow', 'whole': choose it with --schema." in refused.err
    full = run("turns", "--store", pg_dsn, "--schema", "whole", "t", "--json").document
    assert [turn["question"] for turn in full["turns"]] == ["q1", "q2"]
    assert [turn["retained"] for turn in full["turns"]] == [True, True]
    shallow = run("turns", "--store", pg_dsn, "--schema", "shallow", "t", "--json").document
    assert [turn["question"] for turn in shallow["turns"]] == ["q1", "q2"]
    assert [turn["retained"] for turn in shallow["turns"]] == [False, True]
    for schema in ("whole", "shallow"):
        shown = run("show", "--store", pg_dsn, "--schema", schema, "t", "plan", "--json")
        assert (shown.code, shown.document["value"]) == (0, "plan 3")
    gone = run("show", "--store", pg_dsn, "--schema", "shallow", "t", "plan", "--turn", "1", "--json")
    assert (gone.code, gone.document["outcome"]) == (5, "turn_no_longer_retained")
    gaps = run("gaps", "--store", pg_dsn, "--schema", "shallow", "t", "--json").document
    assert [gap["turns"] for gap in gaps["gaps"] if gap["kind"] == "pruned"] == [[1]]


def test_columns_and_tables_of_others_change_nothing(tmp_path: Path, pg_dsn: str) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    before = told(str(path), "demo")
    change(
        path,
        "ALTER TABLE checkpoints ADD COLUMN created_at TEXT DEFAULT '2026'",
        "ALTER TABLE writes ADD COLUMN tenant TEXT",
        "CREATE TABLE messages (thread_id TEXT, checkpoint BLOB)",
        "CREATE VIEW checkpoint_view AS SELECT * FROM checkpoints",
    )
    assert told(str(path), "demo") == before
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        converse(saver)
    before = told(pg_dsn, "t")
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN tenant TEXT DEFAULT 'acme'")
        connection.execute("CREATE TABLE messages (thread_id TEXT)")
    assert told(pg_dsn, "t") == before


def test_branches_that_share_a_value_by_its_version_are_pointed_out(pg_dsn: str) -> None:
    releases.restore("js-1.7.3", pg_dsn)
    thread = "fork-js-postgres"
    turns = run("turns", "--store", pg_dsn, thread, "--json").document
    assert turns["shared_channels"] == ["messages", "tool_state"]
    assert "branches share values of messages, tool_state" in run("turns", "--store", pg_dsn, thread).err
    (branch,) = turns["branches"]
    later = run("show", "--store", pg_dsn, thread, "messages", "--json").document
    assert later["shared_with"] == [branch]
    assert "this value is another branch's" in run("show", "--store", pg_dsn, thread, "messages").err
    first = run("show", "--store", pg_dsn, thread, "messages", "--branch", branch, "--json").document
    assert "shared_with" not in first
    shared_trunk = run("show", "--store", pg_dsn, thread, "messages", "--turn", "1", "--json").document
    assert "shared_with" not in shared_trunk
    assert "shared_channels" not in run("turns", "--store", pg_dsn, "linear", "--json").document


def test_branches_that_hold_their_own_values_are_not_said_to_share(tmp_path: Path, pg_dsn: str) -> None:
    sqlite = str(releases.unpack("js-1.7.3", tmp_path))
    for name in ("forks", "edited"):
        document = run(
            "turns", "--store", store(name), next(iter(recording(name).threads)), "--json"
        ).document
        assert "shared_channels" not in document
    assert "shared_channels" not in run("turns", "--store", sqlite, "fork", "--json").document
