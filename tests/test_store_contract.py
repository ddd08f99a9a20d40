"""What every backend must give for the same rows. A new backend is one more way to fill a store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from turnstate_backends.interface import Checkpoint, Store
from turnstate_backends.payload import decode
from turnstate_backends.stores import open_store
from turnstate_backends.values import Absent, Stored

SERDE = JsonPlusSerializer()


@dataclass(frozen=True)
class Row:
    """One checkpoint to be stored."""

    id: str
    parent: str | None = None
    thread: str = "t"
    ns: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)


def fill_sqlite(where: str, rows: list[Row]) -> None:
    with SqliteSaver.from_conn_string(where) as saver:
        saver.setup()
        for row in rows:
            held = {
                "v": 4,
                "ts": "2026-01-01T00:00:00+00:00",
                "id": row.id,
                "channel_values": dict(row.values),
            }
            kind, payload = SERDE.dumps_typed(
                held | {"channel_versions": dict(row.versions), "versions_seen": {"a": {"x": "1"}}}
            )
            saver.conn.execute(
                "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)",
                (row.thread, row.ns, row.id, row.parent, kind, payload, json.dumps(row.metadata).encode()),
            )
        saver.conn.commit()


def fill_postgres(where: str, rows: list[Row]) -> None:
    with PostgresSaver.from_conn_string(where) as saver:
        saver.setup()
    with psycopg.connect(where) as connection:
        for row in rows:
            held = {"v": 4, "ts": "2026-01-01T00:00:00+00:00", "id": row.id, "channel_values": {}}
            held |= {"channel_versions": dict(row.versions), "versions_seen": {"a": {"x": "1"}}}
            connection.execute(
                "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint,"
                " metadata) VALUES (%s, %s, %s, %s, %s, %s)",
                (row.thread, row.ns, row.id, row.parent, json.dumps(held), json.dumps(row.metadata)),
            )
            for channel, value in row.values.items():
                kind, payload = SERDE.dumps_typed(value)
                connection.execute(
                    "INSERT INTO checkpoint_blobs VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (row.thread, row.ns, channel, str(row.versions[channel]), kind, payload),
                )


@pytest.fixture(params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[list[Row]], Store]]:
    """Stores rows and opens the store."""
    where = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("pg_dsn")
    opened: list[Store] = []

    def fill(rows: list[Row]) -> Store:
        (fill_sqlite if request.param == "sqlite" else fill_postgres)(where, rows)
        opened.append(open_store(where))
        return opened[0]

    yield fill
    for store in opened:
        store.close()


Fill = Callable[[list[Row]], Store]


@pytest.mark.parametrize(
    ("stored", "step"),
    [
        (3, 3),
        (-1, -1),
        ("3", 3),
        (3.0, 3),
        (3.5, None),
        ("three", None),
        (True, None),
        (None, None),
        ([3], None),
    ],
)
def test_a_step_is_a_whole_number_however_it_was_written(filled: Fill, stored: Any, step: int | None) -> None:
    store = filled([Row("1", metadata={"source": "loop", "step": stored})])
    assert list(store.checkpoints("t", "")) == [Checkpoint("1", None, "loop", step, None)]


@pytest.mark.parametrize(
    ("stored", "source"), [("input", "input"), ("fork", "fork"), (5, None), ("imported", None), (None, None)]
)
def test_a_source_is_one_of_four_words_or_not_recorded(filled: Fill, stored: Any, source: str | None) -> None:
    store = filled([Row("1", metadata={"source": stored})])
    assert [row.source for row in store.checkpoints("t", "")] == [source]


def test_rows_of_another_thread_or_namespace_are_not_among_those_asked_for(filled: Fill) -> None:
    store = filled([Row("1"), Row("2", "1"), Row("3", ns="sub:1"), Row("4", thread="u")])
    assert {row.id for row in store.checkpoints("t", "")} == {"1", "2"}
    assert {row.id for row in store.checkpoints("t", "sub:1")} == {"3"}
    assert list(store.checkpoints("t", "none")) == list(store.checkpoints("none", "")) == []
    (thread,) = store.threads(thread="t")
    assert (thread.checkpoints, thread.namespaces, thread.first, thread.last, thread.head) == (
        3,
        ("", "sub:1"),
        "1",
        "3",
        "2",
    )


def test_threads_come_by_last_activity_and_equals_by_their_id(filled: Fill) -> None:
    store = filled([Row("5", thread="b"), Row("5", thread="a"), Row("9", thread="c"), Row("1", thread="d")])
    assert [row.id for row in store.threads()] == ["c", "a", "b", "d"]
    assert [row.id for row in store.threads(limit=2)] == ["c", "a"]
    assert [row.id for row in store.threads(pattern="[ab]")] == ["a", "b"]


def test_values_and_absences_are_told_apart(filled: Fill) -> None:
    store = filled([Row("1", values={"a": {"k": 1}, "none": None}, versions={"a": "1.x", "none": "1.y"})])
    found = store.values("t", "", "1")
    assert {name: decode(value) for name, value in found.items() if isinstance(value, Stored)} == {
        "a": {"k": 1},
        "none": None,
    }
    assert store.values("t", "", "1", ["never"]) == store.values("t", "", "2") == {}
    assert store.versions("t", "", ["1", "2"]) == {"1": {"a": "1.x", "none": "1.y"}}
    assert store.seen("t", "", ["1", "2"]) == {"1": {"a": {"x": "1"}}}
    assert store.times("t", "", ["1", "2"]) == {"1": "2026-01-01T00:00:00+00:00"}


def test_versions_are_text_and_a_null_is_none(filled: Fill) -> None:
    store = filled([Row("1", versions={"a": 3, "b": "2.0", "c": None})])
    assert store.versions("t", "", ["1"]) == {"1": {"a": "3", "b": "2.0"}}


def test_several_checkpoints_are_read_as_each_alone(filled: Fill) -> None:
    rows = [
        Row("1", values={"a": 1, "b": [1]}, versions={"a": "1", "b": "1"}),
        Row("2", "1", values={"a": 1, "b": [2]}, versions={"a": "1", "b": "2"}),
        Row("3", "2", values={"a": 3, "b": [2]}, versions={"a": "3", "b": "2"}),
    ]
    store = filled(rows)
    for asked in (["1", "2", "3"], ["3", "1", "3", "2"], ["4"], []):
        along = list(store.along("t", "", asked))
        assert [id for id, _ in along] == [id for id in asked if id != "4"]
        for id, found in along:
            assert found == store.values("t", "", id)
            assert not any(isinstance(value, Absent) for value in found.values())


def test_a_value_that_stands_in_a_blob_wins_over_the_inline_one_for_each_row_that_refers_to_it(
    pg_dsn: str,
) -> None:
    rows = [Row(id, values={"a": "blob"}, versions={"a": "1"}) for id in ("1", "2")]
    fill_postgres(pg_dsn, rows)
    with psycopg.connect(pg_dsn) as connection:
        connection.execute(
            "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values}', '{\"a\": \"inline\"}')"
        )
    with open_store(pg_dsn) as store:
        assert [decode(found["a"]) for _, found in store.along("t", "", ["1", "2"])] == ["blob", "blob"]  # type: ignore[arg-type]


def test_a_closed_store_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fill_sqlite(str(path), [Row("1")])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    before = path.read_bytes(), sorted(tmp_path.iterdir())
    with open_store(str(path)) as store:
        list(store.checkpoints("t", ""))
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before
