"""The same answers for the same conversations, whichever release of LangGraph stored them, and where.

What is expected stands in ``fixtures/releases/truth.json``, once for all; each case is a release, a backend and a
conversation.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

import pg
from cli_run import run
from docs import DOCS
from recorded import as_noted, shuffle_rows
from releases import IDS, STORES, TRUTH, Cell, restore, unpack
from savers import named
from scenarios.kit import AgentState, at, chain
from turnstate.history.jsonform import jsonable
from turnstate.history.places import turn_place
from turnstate.history.reading import read
from turnstate.history.thread import History
from turnstate_backends.interface import Store
from turnstate_backends.stores import open_store

CASES = [
    pytest.param(place, name, id=f"{place[0]}-{place[1]}-{name}")
    for place in STORES
    for name in IDS[place[0]][place[1]]
]
# By module, so that a store is laid once for all that is asked of it.
each_case = pytest.mark.parametrize(("cell", "name"), CASES, indirect=["cell"], scope="module")
each_store = pytest.mark.parametrize("cell", STORES, indirect=True, ids="-".join)


def laid(release: str, backend: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Cell]:
    if backend == "sqlite":
        yield Cell(release, backend, str(unpack(release, folder)))
        return
    with pg.database(request.getfixturevalue("pg_server")) as dsn:
        restore(release, dsn)
        yield Cell(release, backend, dsn)


@pytest.fixture(scope="module")
def cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """A recorded store that is only read."""
    yield from laid(*request.param, tmp_path_factory.mktemp("release"), request)


@pytest.fixture
def changing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cell]:
    """A recorded store of the test's own."""
    yield from laid(*request.param, tmp_path, request)


def asked(cell: Cell, verb: str, *argv: str) -> Any:
    result = run(verb, "--store", cell.address, "--json", *argv)
    assert result.code == 0, result.err
    return result.document


def shown(cell: Cell, *argv: str) -> Any:
    document = asked(cell, "show", *argv)
    return as_noted(document["value"]), document["checkpoint"]


def test_the_matrix_has_every_conversation_of_every_release_in_both_backends() -> None:
    held = {"linear", "fork", "interrupt", "summary", "classes", "subgraph"}
    late = held | {"asking-back"}
    both = {"sqlite": late, "postgres": late}
    in_js = {backend: names - {"classes"} | {"classes-js"} for backend, names in both.items()}
    in_js["postgres"] = in_js["postgres"] - {"fork"} | {"fork-js-postgres"}
    assert {release: {b: set(ids) for b, ids in found.items()} for release, found in IDS.items()} == {
        "0.1.19": {"sqlite": held},  # there was no PostgreSQL saver, and no node could ask
        "0.2.0": {"sqlite": held, "postgres": held},
        "0.2.76": both,
        "0.4.10": both,
        "0.6.11": both,
        "1.0.10": both,
        "1.2.24": both,
        "js-1.7.3": in_js,
    }


def assert_values(store: Store, cell: Cell, name: str) -> None:
    history = History(store, name)
    for number, turn in enumerate(TRUTH[name]["turns"], 1):
        place = turn_place(history, number)
        for key, value in turn["state"].items():
            reading = read(history, key, place)
            assert as_noted(jsonable(reading.value)) == value, (number, key)
            assert reading.checkpoint == cell.ids(name)["ends"][number - 1]


def stored(cell: Cell) -> tuple[bytes, list[Any], list[str]]:
    """What stands in the tables: messages that one node wrote, the metadata of each row, the path of each task."""
    with contextlib.ExitStack() as stack:
        connection: Any
        if cell.backend == "sqlite":
            connection = stack.enter_context(closing(sqlite3.connect(cell.address)))
            table, payload = "writes", "value"
            columns = [row[1] for row in connection.execute("PRAGMA table_info(writes)")]
        else:
            connection = stack.enter_context(psycopg.connect(cell.address))
            table, payload = "checkpoint_writes", "blob"
            columns = [column.name for column in connection.execute(f"SELECT * FROM {table}").description]
        paths = (
            connection.execute(f"SELECT task_path FROM {table}").fetchall() if "task_path" in columns else []
        )
        ((messages,),) = connection.execute(
            f"SELECT {payload} FROM {table} WHERE channel = 'messages' AND thread_id = 'linear' LIMIT 1"
        )
        metadata = [row[0] for row in connection.execute("SELECT metadata FROM checkpoints")]
    given = [row if isinstance(row, dict) else json.loads(row) for row in metadata]
    return messages, given, [path for (path,) in paths]


@each_case
def test_turns_are_those_that_were_asked(cell: Cell, name: str) -> None:
    document = asked(cell, "turns", name)
    expected = TRUTH[name]["turns"]
    assert (document["total"], document["total_is"], document["turns_by"]) == (
        len(expected),
        "exact",
        "questions",
    )
    found = [turn for turn in document["turns"] if turn["turn"] > 0]
    assert [turn["question"] for turn in found] == [turn["question"] for turn in expected]
    assert [turn["status"] for turn in found] == [turn["status"] for turn in expected]
    assert [turn.get("edited", False) for turn in found] == [turn.get("edited", False) for turn in expected]
    assert [turn["last_checkpoint"] for turn in found] == cell.ids(name)["ends"]


@each_case
def test_values_are_those_that_the_graph_held_as_each_turn_ended(cell: Cell, name: str) -> None:
    with open_store(cell.address) as store:
        assert_values(store, cell, name)


@each_case
def test_keys_are_those_of_the_state_and_say_in_which_turns_they_were_written(cell: Cell, name: str) -> None:
    expected = TRUTH[name]
    rows = asked(cell, "keys", name)["keys"]
    state = expected["turns"][-1]["state"]
    assert {row["channel"] for row in rows} == set(state)
    # What was an instance is noted by its type, and is no mapping of entries.
    mappings = {
        name
        for name, value in state.items()
        if isinstance(value, dict) and not {"$type", "type"} & set(value)
    }
    assert {row["channel"] for row in rows if row["key"] != row["channel"]} == mappings
    for key, turns in expected["turns_written"].items():
        assert asked(cell, "show", name, key)["turns_written"] == turns, key


@each_case
def test_every_version_names_the_node_that_wrote_it(cell: Cell, name: str) -> None:
    for key, versions in TRUTH[name]["writers"].items():
        found = [[v["turn"], v.get("node")] for v in asked(cell, "log", name, key)["versions"]]
        assert found == versions, key


@each_case
def test_a_line_that_was_left_is_a_branch_with_its_own_questions_and_values(cell: Cell, name: str) -> None:
    left = TRUTH[name].get("branches", [])
    found = [row for row in asked(cell, "branches", name)["branches"] if not row.get("current")]
    tips = cell.ids(name)["branches"]
    assert [row["tip"] for row in found] == tips
    for branch, tip, row in zip(left, tips, found, strict=True):
        assert row["forked_at"] == cell.ids(name)["ends"][0]
        turns = asked(cell, "turns", name, "--branch", tip)["turns"]
        assert [turn["question"] for turn in turns[-len(branch["questions"]) :]] == branch["questions"]
        for key, value in branch["state"].items():
            assert shown(cell, name, key, "--branch", tip) == (value, tip)


@each_store
def test_each_call_of_a_subgraph_is_a_namespace_with_the_values_it_ended_with(cell: Cell) -> None:
    calls = TRUTH["subgraph"]["namespaces"]
    found = cell.ids("subgraph")["namespaces"]
    # In these releases a subgraph that was not interrupted left no rows.
    assert len(found) == (0 if cell.release in ("0.1.19", "0.2.0") else len(calls))
    for ns, call in zip(found, calls, strict=False):
        assert ns.partition(":")[0] == call["node"]
        for key, value in call["state"].items():
            assert shown(cell, "subgraph", key, "--ns", ns)[0] == value


@each_case
def test_a_store_of_which_nothing_was_deleted_has_no_gaps(cell: Cell, name: str) -> None:
    for ns in ("", *cell.ids(name)["namespaces"]):
        document = asked(cell, "gaps", name, "--ns", ns)
        assert document["gaps"] == TRUTH[name]["gaps"]
        assert (document["orphans"]["writes"], document["orphans"]["blobs"]) == (0, 0)


@each_case
def test_a_turn_changed_the_keys_that_differ_between_its_end_and_the_one_before(
    cell: Cell, name: str
) -> None:
    states = [turn["state"] for turn in TRUTH[name]["turns"]]
    for number, (old, new) in enumerate(pairwise(states), 2):
        found = asked(cell, "diff", name, "--turns", f"{number - 1}..{number}")["changes"]
        differing = {key for key in new if old.get(key) != new[key]}
        assert {change.get("channel", change["key"]) for change in found} == differing, number


# LangGraph's own saver reads neither the layout before 1.0 nor what LangGraph.js wrote.
@pytest.mark.parametrize(
    "changing",
    [(release, "sqlite") for release in IDS if release[:4] not in ("0.1.", "js-1")],
    indirect=True,
    ids="-".join,
)
def test_the_newest_saver_gives_the_same_values(changing: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(named(monkeypatch, SqliteSaver.from_conn_string(changing.address))) as store:
        for name in ("linear", "fork", "interrupt", "summary", "subgraph"):
            assert_values(store, changing, name)


@pytest.mark.parametrize(
    "changing", [place for place in STORES if place[1] == "sqlite"], indirect=True, ids=str
)
def test_the_order_of_rows_in_a_file_changes_nothing(changing: Cell) -> None:
    def told() -> list[Any]:
        names = IDS[changing.release][changing.backend]
        return [asked(changing, verb, name) for name in names for verb in ("turns", "keys", "branches")]

    before = told()
    shuffle_rows(Path(changing.address), seed=7)
    assert told() == before


@each_store
def test_the_docs_say_where_a_release_records_nodes_and_how_it_writes_values(cell: Cell) -> None:
    title = (
        f"LangGraph.js {cell.release.removeprefix('js-')}" if cell.release.startswith("js-") else cell.release
    )
    page = (DOCS / "stores.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {title} |")]
    _, _, databases, values, nodes = line.strip("| ").split(" | ")
    first_row, metadata, paths = stored(cell)
    assert {"sqlite": "SQLite", "postgres": "PostgreSQL"}[cell.backend] in databases.split(", ")
    assert ("JSON" if first_row.startswith(b"[{") else "msgpack") == values
    assert any(row.get("writes") for row in metadata) == ("`metadata.writes`" in nodes)
    where = nodes.partition("`task_path`")[1:]
    assert any(paths) == (where[0] != "" and (where[1] == "" or cell.backend == "postgres"))


@pytest.mark.parametrize("changing", STORES, indirect=True, ids="-".join)
def test_deleted_turns_are_told_alike(changing: Cell) -> None:
    expected = TRUTH["linear"]["pruned"]
    end = changing.ids("linear")["ends"][1]
    if changing.backend == "sqlite":
        column = "thread_ts" if changing.release == "0.1.19" else "checkpoint_id"
        with closing(sqlite3.connect(changing.address)) as connection, connection:
            connection.execute(
                f"DELETE FROM checkpoints WHERE thread_id = 'linear' AND {column} <= ?", (end,)
            )
    else:
        with psycopg.connect(changing.address) as connection:
            connection.execute(
                "DELETE FROM checkpoints WHERE thread_id = 'linear' AND checkpoint_id <= %s", (end,)
            )
    document = asked(changing, "gaps", "linear")
    assert [[gap["kind"], gap["turns"], gap["steps_missing"]] for gap in document["gaps"]] == expected["gaps"]
    assert document["retained"] == expected["retained"]
    value, _ = shown(changing, "linear", "plan", "--turn", "2")
    assert value == TRUTH["linear"]["turns"][1]["state"]["plan"]
    lost = run("show", "--store", changing.address, "linear", "plan", "--turn", "1", "--json")
    assert (lost.code, lost.document["outcome"]) == (5, "turn_no_longer_retained")


def test_a_key_that_holds_its_own_name_is_no_edge_between_nodes(tmp_path: Path) -> None:
    path = tmp_path / "route.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = chain(saver, AgentState, choose=lambda _: {"plan": "plan"})
        graph.invoke({"messages": [("human", "Choose")]}, at("route"))
    (row,) = [
        row
        for row in run("keys", "--store", str(path), "--json", "route").document["keys"]
        if row["key"] == "plan"
    ]
    assert row["turns_written"] == [1]
