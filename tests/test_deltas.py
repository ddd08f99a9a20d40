"""Channels kept as deltas: every row of threads that real graphs ran, against LangGraph's own reading of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from delta_graphs import Runner, append, extend, last_three, merge, sqlite_saver, state_type, union
from recorded import as_noted, copy_db, delete_blobs, delete_rows, record_to_postgres, recording
from turnstate.history.accumulate import MERGE, Rule, called
from turnstate.history.jsonform import jsonable
from turnstate.history.places import turn_place
from turnstate.history.reading import read
from turnstate.history.thread import History
from turnstate_backends.interface import Store
from turnstate_backends.payload import decode
from turnstate_backends.stores import open_store
from turnstate_backends.values import Absent, Stored

FIELDS: Mapping[str, Any] = {
    "trail": (list, extend),
    "notes": (list, append),
    "facts": (dict, merge),
    "seen": (set, union),
}
EMPTY = ([], {}, {"$type": "builtins.set", "$value": []})


def plain(stored: Stored | Absent) -> Any:
    return as_noted(jsonable(decode(stored))) if isinstance(stored, Stored) else stored


def assert_rows(
    store: Store, truth: Mapping[str, Mapping[str, Any]], thread: str = "t", *, may_refuse: bool = False
) -> History:
    """Every channel of every row, read in the order of a line, as LangGraph reads it.

    Args:
        store: The store.
        truth: Checkpoint id → channel → value.
        thread: The thread.
        may_refuse: A row may also be said to be unresolved, as forks can make it.
    """
    history = History(store, thread)
    for id, state in sorted(truth.items()):
        found = history.values(id)
        for channel, expected in state.items():
            if may_refuse and isinstance(found.get(channel), Absent):
                assert plain(found[channel]).kind == "delta_unresolved"
            elif channel in found:
                assert plain(found[channel]) == expected, (id, channel)
            else:
                assert expected in EMPTY, (id, channel)  # what a channel without a version is said to hold
    return history


def reasons(history: History, channel: str) -> list[str | None]:
    """Row by row: why there is no value; None where there is one, or where nothing had been written."""
    found = (history.values(row.id, [channel]).get(channel) for row in history.line.rows)
    return [
        str(stored.stored["reason"])
        if isinstance(stored, Absent) and stored.kind == "delta_unresolved"
        else None
        for stored in found
    ]


@contextmanager
def runner(path: Path, frequency: int = 100, **channels: Any) -> Iterator[Runner]:
    with sqlite_saver(path) as saver:
        yield Runner(saver, state_type(frequency, **channels))


def four_questions(run: Runner, durability: str) -> None:
    """Appends, removals by id, and one write to each other channel now and then."""
    for n in range(1, 5):
        run.run(
            "t",
            {"messages": [HumanMessage(f"Q{n}")]},
            {"trail": [n], "facts": {f"k{n}": n, "x": n}, "seen": {n, 0}},
            {"messages": [AIMessage("thinking", id=f"tmp{n}")], "notes": f"note {n}"},
            {"messages": [RemoveMessage(id=f"tmp{n}"), AIMessage(f"A{n}", id=f"a{n}")], "trail": [n, n]},
            durability=durability,
        )


def every_operation(run: Runner, durability: str) -> str:
    """All that a message channel knows, an edit, and two forks; returns where the forks leave."""
    first = run.run("t", {"messages": [HumanMessage("Q1", id="q1")]}, {"messages": [AIMessage("A", id="a")]})
    run.run(
        "t",
        {"messages": [HumanMessage("Q2", id="q2")]},
        {"messages": Overwrite([AIMessage("B", id="b")])},
        {"messages": [AIMessage("C")]},
        durability=durability,
    )
    run.run(
        "t",
        {
            "messages": [
                HumanMessage("Q1 changed", id="q1"),
                ("user", "pair"),
                {"role": "user", "content": "d"},
            ]
        },
        {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), AIMessage("D")]},
        durability=durability,
    )
    run.update("t", {"messages": [AIMessage("edited", id="e")]})
    run.run("t", {"messages": "text"}, {"messages": AIMessage("single")}, durability=durability)
    run.run(
        "t",
        {"messages": [HumanMessage("fork")]},
        {"messages": [AIMessage("F")]},
        checkpoint=first,
        durability=durability,
    )
    run.update("t", {"messages": [AIMessage("old edit")]}, checkpoint=first)
    run.replay("t", first)
    return first


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("frequency", [1, 2, 3, 100])
def test_every_row_of_every_branch_reads_as_langgraph_reads_it(
    tmp_path: Path, frequency: int, durability: str
) -> None:
    with runner(tmp_path / "a.db", frequency) as run:
        every_operation(run, durability)
        truth = run.states("t")
    with open_store(str(tmp_path / "a.db")) as store:
        history = assert_rows(store, truth)
        for branch in history.forest.branches(history.line):
            along = history.along(branch.tip)
            found = dict(along.values_along([row.id for row in along.line.rows], ["messages"]))
            assert {id: plain(state["messages"]) for id, state in found.items() if state} == {
                id: truth[id]["messages"] for id, state in found.items() if state
            }


@pytest.mark.parametrize("frequency", [2, 3])
def test_lists_mappings_and_sets_add_up_where_snapshots_prove_how(tmp_path: Path, frequency: int) -> None:
    with runner(tmp_path / "a.db", frequency, **FIELDS) as run:
        four_questions(run, "sync")
        truth = run.states("t")
    with open_store(str(tmp_path / "a.db")) as store:
        assert_rows(store, truth)


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("frequency", [1, 3, 100])
def test_postgres_gives_the_same(pg_dsn: str, frequency: int, durability: str) -> None:
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        run = Runner(saver, state_type(frequency))
        every_operation(run, durability)
        truth = run.states("t")
    with open_store(pg_dsn) as store:
        assert_rows(store, truth)


def test_without_a_snapshot_nothing_proves_how_a_mapping_adds_up(tmp_path: Path) -> None:
    with runner(tmp_path / "a.db", **FIELDS) as run:
        four_questions(run, "sync")
        truth = run.states("t")
    with open_store(str(tmp_path / "a.db")) as store:
        history = History(store, "t")
        head = history.values(history.forest.head)
        for channel in FIELDS:
            assert head[channel] == Absent(
                "delta_unresolved",
                {
                    "type": "delta",
                    "reason": "no later or earlier snapshot shows how its writes add up",
                    "rule": "unknown",
                    "writes": {"trail": 8, "notes": 4, "facts": 4, "seen": 4}[channel],
                },
            )
        assert plain(head["messages"]) == truth[history.forest.head]["messages"]


def test_a_rule_that_the_user_names_needs_no_proof(tmp_path: Path) -> None:
    with runner(tmp_path / "a.db", facts=(dict, merge), trail=(list, last_three)) as run:
        four_questions_without_notes(run)
        truth = run.states("t")
    with open_store(str(tmp_path / "a.db")) as store:
        reducers = {"facts": MERGE, "trail": called("last", last_three)}
        history = History(store, "t", reducers=reducers)
        for id, state in truth.items():
            for channel in ("facts", "trail"):
                assert plain(history.values(id).get(channel, Stored("msgpack", b"\xc0", 1))) in (
                    state[channel],
                    None,
                )
        assert plain(history.values(history.forest.head)["trail"]) == [4, 4, 4]


def four_questions_without_notes(run: Runner) -> None:
    for n in range(1, 5):
        run.run(
            "t",
            {"messages": [HumanMessage(f"Q{n}")]},
            {"trail": [n], "facts": {f"k{n}": n}},
            {"trail": [n, n]},
        )


def test_a_reducer_that_no_rule_describes_is_never_guessed(tmp_path: Path) -> None:
    with runner(tmp_path / "a.db", 4, trail=(list, last_three)) as run:
        for n in range(1, 10):
            run.run("t", {"messages": [HumanMessage(f"Q{n}")]}, {"trail": [n, n]})
        truth = run.states("t")
    with open_store(str(tmp_path / "a.db")) as store:
        history = History(store, "t")
        assert set(reasons(history, "trail")) == {
            None,
            "no rule that is known leads from one snapshot to the next",
        }
        for id, state in truth.items():
            found = history.values(id).get("trail")
            if isinstance(found, Stored):
                assert plain(found) == state["trail"]


def test_a_rule_that_the_snapshots_refute_is_not_used_even_when_named(tmp_path: Path) -> None:
    with runner(tmp_path / "a.db", 4, trail=(list, extend)) as run:
        for n in range(1, 10):
            run.run("t", {"messages": [HumanMessage(f"Q{n}")]}, {"trail": [n, n]})
    with open_store(str(tmp_path / "a.db")) as store:
        reducers = {"trail": called("mine:none", lambda old, new: old)}
        history = History(store, "t", reducers=reducers)
        assert set(reasons(history, "trail")) == {
            None,
            "mine:none does not lead from one snapshot to the next; leave that rule out or name another",
        }


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda old, new: 1 / 0, "by the rule mine: mine raised ZeroDivisionError"),
        (
            lambda old, new: object(),
            "by the rule mine: mine returned what is no plain data: a builtins.object, ",
        ),
    ],
)
def test_a_function_of_the_users_that_fails_is_said_without_what_it_was_given(
    tmp_path: Path, function: Any, reason: str
) -> None:
    with runner(tmp_path / "a.db", trail=(list, extend)) as run:
        run.run("t", {"messages": [HumanMessage("Q")]}, {"trail": ["secret"]})
    with open_store(str(tmp_path / "a.db")) as store:
        history = History(store, "t", reducers={"trail": called("mine", function)})
        assert str(reasons(history, "trail")[-1]).startswith(reason)


# Rows that are gone.


def lines_of_twelve(path: Path, frequency: int) -> dict[str, dict[str, Any]]:
    """Four questions with ids, three rows each; messages are written in the second and third of them."""
    with runner(path, frequency) as run:
        for n in range(1, 5):
            run.run(
                "t",
                {"messages": [HumanMessage(f"Q{n}", id=f"q{n}")]},
                {"messages": [AIMessage(f"A{n}", id=f"a{n}")]},
            )
        return run.states("t")


def test_a_pruned_ancestor_between_snapshot_and_row_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    ids = sorted(lines_of_twelve(path, 3))
    delete_rows(path, "t", [ids[6]])  # snapshots are in rows 4 and 8
    with open_store(str(path)) as store:
        history = History(store, "t")
        gone = "rows before it, with its snapshot or its writes, are gone"
        assert reasons(history, "messages") == [None] * 6 + [gone] + [None] * 4


def test_a_pruned_front_is_said_up_to_the_next_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    truth = lines_of_twelve(path, 3)
    ids = sorted(truth)
    delete_rows(path, "t", ids[:2])
    with open_store(str(path)) as store:
        history = History(store, "t")
        found = reasons(history, "messages")
        first = next(i for i, reason in enumerate(found) if reason is None)
        assert found[:first] == ["rows before it, with its snapshot or its writes, are gone"] * first
        assert found[first:] == [None] * (len(found) - first)
        assert 0 < first < 4
        for row in history.line.rows[first:]:
            assert plain(history.values(row.id)["messages"]) == truth[row.id]["messages"]


def test_writes_that_are_gone_are_said_from_there_to_the_next_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    truth = lines_of_twelve(path, 3)
    ids = sorted(truth)
    delete_rows(path, "t", [ids[4]], checkpoints=False, writes=True)
    with open_store(str(path)) as store:
        history = History(store, "t")
        found = reasons(history, "messages")
        assert {reason for reason in found if reason} <= {f"writes on checkpoint {ids[4]} are gone"}
        for row, reason in zip(history.line.rows, found, strict=True):
            if reason is None and truth[row.id]["messages"]:
                assert plain(history.values(row.id)["messages"]) == truth[row.id]["messages"]


@pytest.mark.parametrize("lost", range(12))
def test_whichever_writes_are_gone_no_wrong_value_is_given(tmp_path: Path, lost: int) -> None:
    """LangGraph reads a wrong value there, and says nothing."""
    path = tmp_path / "a.db"
    truth = lines_of_twelve(path, 100)
    ids = sorted(truth)
    delete_rows(path, "t", [ids[lost]], checkpoints=False, writes=True)
    with open_store(str(path)) as store:
        history = History(store, "t")
        for row in history.line.rows:
            found = history.values(row.id).get("messages")
            if isinstance(found, Stored):
                assert plain(found) == truth[row.id]["messages"]
            elif isinstance(found, Absent):
                assert row.id > ids[lost]
                assert found.stored["reason"] == f"writes on checkpoint {ids[lost]} are gone"


def test_one_write_of_a_task_that_is_gone_is_noticed_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with runner(path, trail=(list, extend)) as run:
        run.run("t", {"messages": [HumanMessage("Q")]}, {"messages": AIMessage("A"), "trail": [1]})
    connection = sqlite3.connect(path)
    with connection:
        gone = "DELETE FROM writes WHERE channel = 'messages' AND task_path LIKE '%, work'"
        assert connection.execute(gone).rowcount == 1
    connection.close()
    with open_store(str(path)) as store:
        history = History(store, "t")
        assert str(reasons(history, "messages")[-1]).endswith("are gone")


def test_a_snapshot_whose_blob_is_gone_is_missing_and_so_is_what_follows(pg_dsn: str) -> None:
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        run = Runner(saver, state_type(3))
        for n in range(1, 5):
            run.run("t", {"messages": [HumanMessage(f"Q{n}", id=f"q{n}")]}, {"messages": AIMessage(f"A{n}")})
    with open_store(pg_dsn) as store:
        rows = History(store, "t").line.rows
        snapshot = next(row.id for row in rows[1:] if "messages" not in row.delta_channels)
    assert delete_blobs(pg_dsn, "t", "messages", checkpoint=snapshot) == 1
    with open_store(pg_dsn) as store:
        history = History(store, "t")
        kinds = [
            found.kind if isinstance(found, Absent) else "value"
            for row in history.line.rows
            for found in [history.values(row.id).get("messages", Absent("empty"))]
        ]
        at = history.line.index[snapshot]
        assert kinds[at] == "value_missing"
        assert "delta_unresolved" in kinds[at + 1 :]
        assert "delta_unresolved" not in kinds[:at]
        later = kinds.index("delta_unresolved")
        unresolved = history.values(history.line.rows[later].id)["messages"]
        assert isinstance(unresolved, Absent)
        assert unresolved.stored["reason"] == "its snapshot cannot be read (value missing)"
        assert unresolved.stored["snapshot"] == snapshot


# Forks, some of which only older releases leave as they are here.


def test_writes_of_two_branches_on_one_parent_are_told_apart_by_nobody(tmp_path: Path) -> None:
    """Two workers that ran the same step: their writes have the same task id, and only the first is kept."""
    path = tmp_path / "a.db"
    truth = lines_of_twelve(path, 100)
    ids = sorted(truth)
    connection = sqlite3.connect(path)
    with connection:  # what the second worker left: another child of the same parent
        twin = ids[5][:-1] + ("0" if ids[5][-1] != "0" else "1")
        connection.execute(
            "INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, ?, parent_checkpoint_id, type, checkpoint, "
            "metadata FROM checkpoints WHERE checkpoint_id = ?",
            (twin, ids[5]),
        )
    connection.close()
    with open_store(str(path)) as store:
        history = History(store, "t")
        for id in (ids[5], twin):
            found = history.values(id)["messages"]
            assert isinstance(found, Absent)
            assert found.stored["reason"] == f"writes on checkpoint {ids[4]} may be another branch's"
        assert plain(history.values(ids[4])["messages"]) == truth[ids[4]]["messages"]


def test_an_update_beside_a_step_without_a_snapshot_is_ambiguous(tmp_path: Path) -> None:
    """Releases before 1.2.1 made no snapshot for a branch, and read both branches' writes into either."""
    path = tmp_path / "a.db"
    truth = lines_of_twelve(path, 100)
    ids = sorted(truth)
    connection = sqlite3.connect(path)
    with connection:
        row = connection.execute("SELECT * FROM writes WHERE checkpoint_id = ? LIMIT 1", (ids[4],)).fetchone()
        connection.execute(
            "INSERT INTO writes VALUES (?, ?, ?, '7d5d5c9e-0000-5000-8000-000000000000', '~__interrupt__', 0, "
            "'messages', ?, ?)",
            (*row[:3], *row[-2:]),
        )
    connection.close()
    with open_store(str(path)) as store:
        found = reasons(History(store, "t"), "messages")
    assert found[:5] == [None] * 5
    assert set(found[5:]) == {f"writes on checkpoint {ids[4]} may be another branch's"}


# The row that a first run saved as a whole hangs its writes on.


def test_the_anchor_row_is_a_beginning_and_no_input(tmp_path: Path) -> None:
    with runner(tmp_path / "a.db") as run:
        for n in range(1, 4):
            run.run(
                "t", {"messages": [HumanMessage(f"Q{n}")]}, {"messages": AIMessage("A")}, durability="exit"
            )
        truth = run.states("t")
    with open_store(str(tmp_path / "a.db")) as store:
        history = assert_rows(store, truth)
        anchor = history.line.rows[0]
        assert (anchor.source, anchor.step, anchor.parent) == (None, -2, None)
        assert not history.line.front_missing
        assert [turn.question for turn in history.turns.turns] == [None, "Q1", "Q2", "Q3"]
        assert history.turns.total_is == "exact"
        assert history.turns.retained == (1, 2, 3)


def test_the_anchor_row_is_no_turn_where_inputs_are_counted(tmp_path: Path) -> None:
    with runner(tmp_path / "a.db", trail=(list, extend)) as run:
        for n in range(1, 4):
            run.run("t", {"trail": [n]}, {"trail": [n]}, durability="exit")
    with open_store(str(tmp_path / "a.db")) as store:
        turns = History(store, "t").turns
        assert (turns.by, turns.total, turns.total_is) == ("inputs", 3, "exact")


# What stands above: turns, reads, and the recorded stores.


@pytest.mark.parametrize("frequency", [1, 2, 100])
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_questions_are_counted_with_and_without_snapshots(
    tmp_path: Path, frequency: int, durability: str
) -> None:
    with runner(tmp_path / "a.db", frequency, **FIELDS) as run:
        four_questions(run, durability)
    with open_store(str(tmp_path / "a.db")) as store:
        turns = History(store, "t").turns
        assert [turn.question for turn in turns.turns] == [None, "Q1", "Q2", "Q3", "Q4"]
        assert (turns.by, turns.total_is) == ("questions", "exact")
        assert {turn.status for turn in turns.turns[1:]} == {"complete"}


@pytest.mark.parametrize("frequency", [1, 3, 100])
def test_questions_are_counted_that_were_trimmed_away(tmp_path: Path, frequency: int) -> None:
    with runner(tmp_path / "a.db", frequency) as run:
        for n in range(1, 6):
            run.run(
                "t",
                {"messages": [HumanMessage(f"Q{n}", id=f"q{n}")]},
                {"messages": [AIMessage(f"A{n}", id=f"a{n}")]},
                {"messages": [RemoveMessage(id=f"q{n}"), RemoveMessage(id=f"a{n}")] if n % 2 else []},
            )
    with open_store(str(tmp_path / "a.db")) as store:
        turns = History(store, "t").turns
        assert [turn.question for turn in turns.turns] == [None, "Q1", "Q2", "Q3", "Q4", "Q5"]


def assert_recorded(store: Store, threads: Mapping[str, Any], reducers: Mapping[str, Rule]) -> None:
    for thread in threads.values():
        history = History(store, thread.id, reducers=reducers)
        for turn in thread.turns:
            place = turn_place(history, turn.turn)
            for channel in turn.written:
                reading = read(history, channel, place)
                assert reading.outcome == "value", (thread.id, turn.turn, channel, reading.message)
                assert as_noted(jsonable(reading.value)) == turn.state[channel]


def test_the_recorded_store_reads_as_its_graphs_had_it() -> None:
    recorded = recording("deltas")
    with open_store(str(recorded.path)) as store:
        assert_recorded(store, recorded.threads, {"tool_state": MERGE})


def test_the_recorded_thread_with_snapshots_needs_no_help() -> None:
    recorded = recording("deltas")
    with open_store(str(recorded.path)) as store:
        assert_recorded(store, {"snapshots": recorded.threads["snapshots"]}, {})


def test_the_recorded_runs_on_postgres_read_as_their_graphs_had_them(pg_dsn: str) -> None:
    recorded = record_to_postgres("deltas", pg_dsn)
    with open_store(pg_dsn) as store:
        assert_recorded(store, recorded.threads, {"tool_state": MERGE})


def test_an_entry_of_a_rebuilt_mapping_is_a_key() -> None:
    with open_store(str(recording("deltas").path)) as store:
        history = History(store, "snapshots")
        reading = read(history, "lookup/2", turn_place(history, 2))
        assert (reading.outcome, reading.value, reading.turns_written) == ("value", 20, (2,))


def test_a_read_says_why_it_cannot_be_answered_and_from_what() -> None:
    with open_store(str(recording("deltas").path)) as store:
        history = History(store, "no-snapshot")
        reading = read(history, "tool_state", turn_place(history, 2))
    assert reading.outcome == "delta_unresolved"
    assert reading.message == (
        "no later or earlier snapshot shows how its writes add up, 2 writes and no snapshot"
    )
    assert reading.turns_written == (1, 2, 3, 4)


def test_the_order_of_reading_changes_nothing(tmp_path: Path) -> None:
    with runner(tmp_path / "a.db", 5, **FIELDS) as run:
        four_questions(run, "sync")
        truth = run.states("t")
    with open_store(str(tmp_path / "a.db")) as store:
        ahead, back = History(store, "t"), History(store, "t")
        ids = sorted(truth)
        forward = {id: ahead.values(id) for id in ids}
        backward = {id: back.values(id) for id in reversed(ids)}
        assert forward == backward


def test_a_line_is_rebuilt_row_by_row_and_not_from_its_snapshot_each_time(tmp_path: Path) -> None:
    with runner(tmp_path / "a.db", 1000) as run:
        for n in range(40):
            run.run("t", {"messages": [HumanMessage(f"Q{n}")]}, {"messages": AIMessage(f"A{n}")})
    calls = 0

    def counting(old: Any, writes: Any) -> Any:
        nonlocal calls
        calls += len(writes)
        return [*old, *writes]

    with open_store(str(tmp_path / "a.db")) as store:
        history = History(store, "t", reducers={"messages": called("counting", counting)})
        for row in history.line.rows:
            history.values(row.id)
    assert calls == 80


def test_a_copy_is_read_like_its_original(tmp_path: Path) -> None:
    path = copy_db(recording("deltas").path, tmp_path)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        run = Runner(saver, state_type(100))
        rows = sorted(run.states("no-snapshot"))
        run.graph.update_state(
            {"configurable": {"thread_id": "no-snapshot", "checkpoint_ns": "", "checkpoint_id": rows[6]}},
            None,
            as_node="__copy__",
        )
        truth = run.states("no-snapshot")
    with open_store(str(path)) as store:
        history = History(store, "no-snapshot")
        for id, state in truth.items():
            found = history.values(id, ["messages"]).get("messages")
            assert found is None or plain(found) == state["messages"]
