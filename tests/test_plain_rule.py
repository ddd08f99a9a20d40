"""Where the plain counting rule over ``saver.list`` applies, turns and values are the same as by that rule."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from conversations import CONVERSATIONS, Exchange, plain_rule, run
from turnstate.history.places import turn_place
from turnstate.history.reading import read
from turnstate.history.thread import History
from turnstate_backends.interface import Store
from turnstate_backends.stores import open_store

ORDERS = {
    "ascending": "ORDER BY checkpoint_id",
    "descending": "ORDER BY checkpoint_id DESC",
    "shuffled": None,
}
_SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def assert_same_as_plain_rule(store: Store, rows: Sequence[CheckpointTuple]) -> None:
    expected = plain_rule(rows)
    history = History(store, "t")
    assert history.turns.total == max(expected)
    assert history.turns.total_is == "exact"
    assert history.turns.retained == tuple(n for n in sorted(expected) if n)
    for number, row in expected.items():
        place = turn_place(history, number)
        values = row.checkpoint["channel_values"]
        for channel, entry in [
            ("plan", None),
            ("trail", None),
            *(("tool_state", e) for e in ("a", "b", "c/d")),
        ]:
            held = values.get(channel, {}) if entry else values
            name = entry or channel
            reading = read(history, name, place)
            if name not in held:
                assert reading.outcome in ("not_yet_written", "no_such_key"), (number, name)
                continue
            assert reading.outcome == "value", (number, name, reading.message)
            assert repr(reading.value) == repr(held[name])
            # The plain rule names the next turn's input row where ours names the row before it.
            parent = (row.parent_config or {}).get("configurable", {}).get("checkpoint_id")
            ours = parent if row.metadata["source"] == "input" and number else row.checkpoint["id"]
            assert reading.checkpoint == ours


@settings(_SETTINGS, max_examples=20)
@given(exchanges=CONVERSATIONS, durability=st.sampled_from(["sync", "async"]), seed=st.integers(0, 99))
def test_sqlite_gives_the_turns_and_values_of_the_plain_rule_in_any_row_order(
    tmp_path_factory: pytest.TempPathFactory, exchanges: list[Exchange], durability: str, seed: int
) -> None:
    path = tmp_path_factory.mktemp("plain") / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        run(saver, "t", exchanges, durability)
        rows = list(saver.list({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}))
    for order in ORDERS:
        _reorder_sqlite(path, order, seed)
        with open_store(str(path)) as store:
            assert_same_as_plain_rule(store, rows)
    # The fast way reads small write rows. Without them the message lists must tell the same.
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM writes")
    with open_store(str(path)) as store:
        assert_same_as_plain_rule(store, rows)


@settings(_SETTINGS, max_examples=8)
@given(exchanges=CONVERSATIONS, durability=st.sampled_from(["sync", "async"]), seed=st.integers(0, 99))
def test_postgres_gives_the_turns_and_values_of_the_plain_rule_in_any_row_order(
    pg_dsn: str, exchanges: list[Exchange], durability: str, seed: int
) -> None:
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        saver.delete_thread("t")
        run(saver, "t", exchanges, durability)
        rows = list(saver.list({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}))
    for order in ORDERS:
        _reorder_postgres(pg_dsn, order)
        with open_store(pg_dsn) as store:
            assert_same_as_plain_rule(store, rows)


def _reorder_sqlite(path: Path, order: str, seed: int) -> None:
    by = ORDERS[order] or f"ORDER BY (rowid * 7919 + {seed}) % 101, rowid"
    with sqlite3.connect(path) as connection:
        for table in ("checkpoints", "writes"):
            connection.execute(f"CREATE TEMP TABLE held AS SELECT * FROM {table} {by}")
            connection.execute(f"DELETE FROM {table}")
            connection.execute(f"INSERT INTO {table} SELECT * FROM held ORDER BY rowid")
            connection.execute("DROP TABLE held")
    connection.close()


def _reorder_postgres(dsn: str, order: str) -> None:
    by = ORDERS[order] or "ORDER BY md5(checkpoint_id || 'x')"
    with psycopg.connect(dsn, autocommit=True) as connection:
        for table in ("checkpoints", "checkpoint_writes"):
            connection.execute(f"CREATE TEMP TABLE held AS SELECT * FROM {table} {by}")
            connection.execute(f"TRUNCATE {table}")
            connection.execute(f"INSERT INTO {table} SELECT * FROM held")
            connection.execute("DROP TABLE held")
