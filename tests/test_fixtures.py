"""The recorded stores are what they claim to be: LangGraph reads them, and new runs agree."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from noted import noted
from record import FIXTURES, load_truth, record_sqlite
from recorded import (
    Recording,
    copy_db,
    delete_blobs,
    delete_rows,
    record_to_postgres,
    recording,
    rename_checkpoints,
    scenarios,
    shuffle_rows,
)
from scenarios import SCENARIOS
from scenarios.kit import at
from scenarios.values import AES_KEY

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
KEPT_ELSEWHERE = {"deltas", "functional"}
"""Scenarios whose state LangGraph assembles from more than one checkpoint's channels of the same names."""


def without_ids(value: Any) -> Any:
    """A truth with every generated id blanked."""
    match value:
        case str():
            return UUID.sub("*", value)
        case dict():
            pairs = [(UUID.sub("*", key), without_ids(item)) for key, item in value.items()]
            return dict(pairs) if len(dict(pairs)) == len(pairs) else sorted(pairs)
        case list() | tuple():
            return [without_ids(item) for item in value]
    return value


def truth_of(found: Recording) -> Any:
    """A recording's expectations without where it lies and without generated ids."""
    return without_ids({name: asdict(thread) for name, thread in found.threads.items()})


@contextmanager
def saver_on(path: Path) -> Iterator[SqliteSaver]:
    """LangGraph's own saver, with the key of the encrypted store; it changes the file it opens."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        yield SqliteSaver(connection, serde=EncryptedSerializer.from_pycryptodome_aes(key=AES_KEY))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_recorded_store_is_one_file_without_a_write_ahead_log(name: str) -> None:
    path = recording(name).path
    assert path.read_bytes()[18:20] == b"\x01\x01"
    assert not path.with_name(f"{path.name}-wal").exists()


@pytest.mark.parametrize("name", SCENARIOS)
def test_langgraph_lists_as_many_checkpoints_as_the_truth_states(name: str, tmp_path: Path) -> None:
    expected = recording(name)
    with saver_on(copy_db(expected.path, tmp_path)) as saver:
        found: dict[str, Counter[str]] = {}
        for row in saver.list(None):
            place = row.config["configurable"]
            found.setdefault(place["thread_id"], Counter())[place["checkpoint_ns"]] += 1
    assert found == {name: thread.checkpoints for name, thread in expected.threads.items()}


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in KEPT_ELSEWHERE])
def test_the_noted_checkpoint_of_a_retained_turn_holds_the_noted_state(name: str, tmp_path: Path) -> None:
    expected = recording(name)
    compared = 0
    with saver_on(copy_db(expected.path, tmp_path)) as saver:
        for thread in expected.threads.values():
            for turn in (each for each in thread.turns if each.retained):
                row = saver.get_tuple(at(thread.id, turn.last_checkpoint))
                assert row is not None
                held = noted(row.checkpoint["channel_values"])
                for channel in turn.written:
                    assert held[channel] == turn.state[channel], (thread.id, turn.turn, channel)
                    compared += 1
    assert compared


@pytest.mark.parametrize("name", SCENARIOS)
def test_turns_of_a_thread_are_numbered_up_to_its_total(name: str) -> None:
    for thread in recording(name).threads.values():
        numbers = [turn.turn for turn in thread.turns]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == thread.total
        for turn in thread.turns:
            assert not turn.asked_with or turn.turn in turn.asked_with


@pytest.mark.parametrize("name", ["demo", "demo-pruned", "edited", "parallel", "resumed", "workers"])
def test_running_the_graphs_again_notes_the_same_truth_apart_from_ids(name: str, tmp_path: Path) -> None:
    again = record_sqlite(name, tmp_path)
    assert without_ids(again) == without_ids(load_truth(FIXTURES / f"{name}.json"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_runs_on_postgresql_note_the_same_truth_apart_from_ids(name: str, pg_dsn: str) -> None:
    expected, found = truth_of(recording(name)), truth_of(record_to_postgres(name, pg_dsn))
    if name == "values":
        # PostgresSaver puts strings and numbers into JSONB, so an enum that is one loses its class.
        for turn in expected["values"]["turns"]:
            turn["state"] |= {"mode": "fast", "level": 3}
    assert found == expected


def test_shuffled_rows_are_the_same_rows_in_another_order(tmp_path: Path) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    query = "SELECT checkpoint_id, checkpoint FROM checkpoints ORDER BY rowid"
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute(query).fetchall()
    shuffle_rows(path, seed=1)
    with closing(sqlite3.connect(path)) as connection:
        after = connection.execute(query).fetchall()
    assert after != before
    assert sorted(after) == sorted(before)


def test_deleted_rows_leave_their_writes_unless_told_otherwise(tmp_path: Path) -> None:
    expected = recording("demo")
    path = copy_db(expected.path, tmp_path)
    ends = [expected.threads["demo"].turn(number).last_checkpoint for number in (1, 3)]

    def counts() -> tuple[int, int]:
        with closing(sqlite3.connect(path)) as connection:
            (rows,) = connection.execute("SELECT count(*) FROM checkpoints").fetchone()
            (writes,) = connection.execute("SELECT count(*) FROM writes").fetchone()
        return rows, writes

    assert counts() == (12, 17)
    delete_rows(path, "demo", ends)
    assert counts() == (10, 17)
    with saver_on(path) as saver:
        (answered,) = saver.list(at("demo"), limit=1)
    delete_rows(path, "demo", [answered.checkpoint["id"]], writes=True)
    assert counts() == (9, 16)


def test_renamed_checkpoints_keep_their_children_and_their_writes(tmp_path: Path) -> None:
    expected = recording("demo").threads["demo"]
    path = copy_db(recording("demo").path, tmp_path)
    rename_checkpoints(path, "demo", {expected.turn(1).last_checkpoint: "7"})
    with saver_on(path) as saver:
        (child,) = (row for row in saver.list(at("demo")) if row.metadata["step"] == 3)
    assert child.parent_config is not None
    assert child.parent_config["configurable"]["checkpoint_id"] == "7"


def test_a_deleted_blob_leaves_a_checkpoint_whose_value_langgraph_silently_lacks(pg_dsn: str) -> None:
    demo = record_to_postgres("demo", pg_dsn).threads["demo"]
    last = demo.turn(3).last_checkpoint
    assert delete_blobs(pg_dsn, "demo", "plan", checkpoint=last) == 0
    assert delete_blobs(pg_dsn, "demo", "tool_state", checkpoint=last) == 1
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        row = saver.get_tuple(at("demo", last))
    assert row is not None
    assert set(row.checkpoint["channel_values"]) == {"messages", "plan"}


def test_every_committed_store_has_a_truth_that_is_loaded() -> None:
    loaded = {each.path for each in scenarios()}
    assert {path.resolve() for path in FIXTURES.glob("*.db")} == {path.resolve() for path in loaded}
