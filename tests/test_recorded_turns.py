"""Turns and values of every recorded store against what the running graphs said at the time.

Each case runs on the committed SQLite file, on a copy with its rows in shuffled order, on a copy without write
rows where values must then tell, on a real PostgreSQL into which the same graphs ran, and through LangGraph's savers
of both.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from recorded import (
    Thread,
    as_noted,
    copy_db,
    record_to_memory,
    record_to_postgres,
    recording,
    scenarios,
    shuffle_rows,
)
from savers import Ascending, Shuffled, named
from turnstate.history.jsonform import jsonable
from turnstate.history.places import checkpoint_place, turn_place
from turnstate.history.reading import read
from turnstate.history.thread import History
from turnstate_backends.interface import Store
from turnstate_backends.stores import open_store

SCENARIOS = [each.name for each in scenarios()]
# What these hold is compared by tests of their own: class instances, deltas, ciphertext.
OTHER_VALUES = {"values", "deltas", "encrypted", "functional"}
# LangGraph's own saver reads no encrypted row without its key.
NOT_THROUGH_A_SAVER = {"encrypted"}


def history_of(store: Store, thread: Thread) -> History:
    return History(store, thread.id, messages=thread.more.get("messages", "messages"))


def assert_turns(history: History, thread: Thread) -> None:
    """Number, texts, status and what can be read, as the scenario states them."""
    turns = history.turns
    assert (turns.total, turns.by, turns.total_is) == (thread.total, thread.turns_by, thread.total_is)
    stated = {turn.turn: turn for turn in thread.turns}
    for number, turn in stated.items():
        found = turns.turns[number]
        assert found.question == turn.question
        assert found.retained == (turn.outcome == "value"), number
        assert found.asked_with == (turn.asked_with if turn.retained else ())
        if turn.retained and not found.borrowed:
            assert found.status == turn.status
            assert found.edited == turn.edited


def assert_values(history: History, thread: Thread) -> None:
    """Every channel that was written, as the graph held it when the turn ended."""
    for turn in thread.turns:
        place = turn_place(history, turn.turn)
        for channel in turn.written:
            reading = read(history, channel, place)
            assert reading.outcome == turn.outcome, (turn.turn, channel, reading.message)
            if turn.outcome != "value" or channel not in turn.state:
                continue
            assert as_noted(jsonable(reading.value)) == turn.state[channel], (turn.turn, channel)
            if not reading.borrowed:
                assert reading.checkpoint == turn.last_checkpoint


def assert_writers(history: History, thread: Thread) -> None:
    """The turns that wrote a key, of those whose rows are kept."""
    kept = {turn.turn for turn in thread.turns if turn.retained}
    for name, written in thread.turns_written.items():
        reading = read(history, name, turn_place(history, thread.total))
        assert [n for n in reading.turns_written if n in kept] == [n for n in written if n in kept], name


def assert_thread(store: Store, thread: Thread, scenario: str) -> None:
    history = history_of(store, thread)
    if scenario == "encrypted":
        assert history.turns.total == 2
        return
    assert_turns(history, thread)
    if scenario not in OTHER_VALUES:
        assert_values(history, thread)
        assert_writers(history, thread)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_recorded_sqlite_store_gives_what_the_graph_had(name: str) -> None:
    recorded = recording(name)
    with open_store(str(recorded.path)) as store:
        for thread in recorded.threads.values():
            assert_thread(store, thread, name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_order_of_rows_in_the_file_changes_nothing(name: str, tmp_path: Path) -> None:
    recorded = recording(name)
    path = copy_db(recorded.path, tmp_path)
    shuffle_rows(path, seed=7)
    with open_store(str(path)) as store:
        for thread in recorded.threads.values():
            assert_thread(store, thread, name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_runs_on_postgres_give_what_the_graph_had(name: str, pg_dsn: str) -> None:
    recorded = record_to_postgres(name, pg_dsn)
    with open_store(pg_dsn) as store:
        for thread in recorded.threads.values():
            assert_thread(store, thread, name)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in NOT_THROUGH_A_SAVER])
def test_the_same_rows_through_a_saver_give_what_the_graph_had(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = recording(name)
    path = copy_db(recorded.path, tmp_path)
    with open_store(named(monkeypatch, SqliteSaver.from_conn_string(str(path)))) as store:
        assert {row.id for row in store.threads()} == set(recorded.threads)
        for thread in recorded.threads.values():
            assert_thread(store, thread, name)


@pytest.mark.parametrize("saver", [PostgresSaver, AsyncPostgresSaver])
@pytest.mark.parametrize("name", ["demo", "forks", "stopped", "parallel"])
def test_the_same_runs_on_postgres_through_a_saver_give_what_the_graph_had(
    name: str, saver: Any, pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = record_to_postgres(name, pg_dsn)
    with open_store(named(monkeypatch, saver.from_conn_string(pg_dsn))) as store:
        for thread in recorded.threads.values():
            assert_thread(store, thread, name)


@pytest.mark.parametrize("cls", [InMemorySaver, Ascending, Shuffled])
@pytest.mark.parametrize("name", ["plain", "several", "trimmed", "forks", "edited", "resumed"])
def test_a_saver_in_memory_gives_what_the_graph_had_in_whatever_order_it_lists(
    name: str, cls: type[InMemorySaver], monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = cls()
    recorded = record_to_memory(name, saver)
    with open_store(named(monkeypatch, saver)) as store:
        for thread in recorded.threads.values():
            assert_thread(store, thread, name)


# Only write rows tell that words came in with the answer to an interrupt, and what ran or stopped on a last row.
NEEDS_WRITES = {"resumed"}


@pytest.mark.parametrize("name", [n for n in SCENARIOS if n not in NEEDS_WRITES | OTHER_VALUES])
def test_values_tell_the_same_questions_where_all_write_rows_are_gone(name: str, tmp_path: Path) -> None:
    recorded = recording(name)
    path = copy_db(recorded.path, tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM writes")
    connection.close()
    with open_store(str(path)) as store:
        for thread in recorded.threads.values():
            history = history_of(store, thread)
            assert history.turns.total == thread.total
            for turn in thread.turns:
                assert history.turns.turns[turn.turn].question == turn.question
            for turn in thread.turns:
                for channel in turn.written if turn.retained and turn.outcome == "value" else ():
                    reading = read(history, channel, turn_place(history, turn.turn))
                    if name == "retention" and reading.outcome == "turn_no_longer_retained":
                        continue  # whether rows that are gone went on from there only writes could tell
                    assert reading.outcome == "value"
                    if channel in turn.state:
                        assert as_noted(jsonable(reading.value)) == turn.state[channel]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_branch_keeps_its_own_turns_and_state(name: str) -> None:
    recorded = recording(name)
    with open_store(str(recorded.path)) as store:
        for thread in recorded.threads.values():
            tips = {b.tip for b in history_of(store, thread).forest.branches(history_of(store, thread).line)}
            assert tips >= {branch["tip"] for branch in thread.branches}
            for branch in thread.branches:
                history = History(store, thread.id, tip=branch["tip"])
                asked = branch["questions"]
                assert [turn.question for turn in history.turns.turns][
                    history.turns.total + 1 - len(asked) :
                ] == asked
                for channel, expected in branch["state"].items() if name not in OTHER_VALUES else ():
                    reading = read(history, channel, checkpoint_place(history, branch["tip"]))
                    if reading.outcome == "value":
                        assert as_noted(jsonable(reading.value)) == expected
                    else:
                        assert expected in ({}, [], None), (channel, reading.outcome)


def test_a_read_leaves_the_recorded_files_as_they_are() -> None:
    folder = recording("demo").path.parent
    assert not [
        path.name for path in folder.iterdir() if path.suffix not in (".db", ".json", ".py", ".md", "")
    ]
