"""What every backend must give for the same rows. A new backend is one more way to fill a store.

A saver is read through :mod:`savers`: over SQLite, over PostgreSQL, and one in memory that lists its rows as LangGraph
does, the other way round, or in no order at all.
"""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from savers import Ascending, Shuffled, named
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
    writes: tuple[tuple[str, str, Any], ...] = ()
    """(task, channel, value), each task's in the order of its numbers."""

    @property
    def held(self) -> dict[str, Any]:
        """The checkpoint without values."""
        return {
            "v": 4,
            "ts": "2026-01-01T00:00:00+00:00",
            "id": self.id,
            "channel_values": {},
            "channel_versions": dict(self.versions),
            "versions_seen": {"a": {"x": "1"}},
        }

    @property
    def numbered_writes(self) -> list[tuple[str, int, str, Any]]:
        """(task, number, channel, value)."""
        tasks = [task for task, _, _ in self.writes]
        return [
            (task, tasks[:at].count(task), channel, value)
            for at, (task, channel, value) in enumerate(self.writes)
        ]


def fill_sqlite(where: str, rows: list[Row]) -> None:
    with SqliteSaver.from_conn_string(where) as saver:
        saver.setup()
        for row in rows:
            kind, payload = SERDE.dumps_typed(row.held | {"channel_values": dict(row.values)})
            saver.conn.execute(
                "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)",
                (row.thread, row.ns, row.id, row.parent, kind, payload, json.dumps(row.metadata).encode()),
            )
            saver.conn.executemany(
                "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (row.thread, row.ns, row.id, task, idx, channel, *SERDE.dumps_typed(value))
                    for task, idx, channel, value in row.numbered_writes
                ],
            )
        saver.conn.commit()


def fill_postgres(where: str, rows: list[Row]) -> None:
    with PostgresSaver.from_conn_string(where) as saver:
        saver.setup()
    with psycopg.connect(where) as connection:
        for row in rows:
            connection.execute(
                "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint,"
                " metadata) VALUES (%s, %s, %s, %s, %s, %s)",
                (row.thread, row.ns, row.id, row.parent, json.dumps(row.held), json.dumps(row.metadata)),
            )
            for channel, value in row.values.items():
                kind, payload = SERDE.dumps_typed(value)
                connection.execute(
                    "INSERT INTO checkpoint_blobs VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (row.thread, row.ns, channel, str(row.versions[channel]), kind, payload),
                )
            for task, idx, channel, value in row.numbered_writes:
                connection.execute(
                    "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
                    " type, blob) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                    (row.thread, row.ns, row.id, task, idx, channel, *SERDE.dumps_typed(value)),
                )


def fill_memory(saver: InMemorySaver, rows: list[Row]) -> None:
    for row in rows:
        kept = SERDE.dumps_typed(row.held), SERDE.dumps_typed(dict(row.metadata)), row.parent
        saver.storage[row.thread][row.ns][row.id] = kept
        for channel, value in row.values.items():
            version = row.versions[channel]
            saver.blobs[row.thread, row.ns, channel, version] = SERDE.dumps_typed(value)
        for task, idx, channel, value in row.numbered_writes:
            write = task, channel, SERDE.dumps_typed(value), ""
            saver.writes[row.thread, row.ns, row.id][task, idx] = write


def held_in_sqlite(where: str) -> object:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(where).parent.iterdir()}


def rows_in_sqlite(where: str) -> object:
    with closing(sqlite3.connect(where)) as connection:
        return list(connection.iterdump())


def held_in_postgres(where: str) -> object:
    with psycopg.connect(where) as connection:
        return [
            (table, connection.execute(f'SELECT t.*, xmin FROM "{table}" t'.encode()).fetchall())
            for (table,) in connection.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND"
                " relnamespace = 'public'::regnamespace ORDER BY 1"
            ).fetchall()
        ]


def held_in_memory(saver: InMemorySaver) -> object:
    return repr((dict(saver.storage), dict(saver.writes), saver.blobs))


@dataclass(frozen=True)
class Kind:
    """One way to keep rows and to open what was kept.

    Attributes:
        fill: Stores rows; may be called again with more.
        open: Opens the store.
        held: All that is stored now, for comparison.
        is_saver: Whether a saver stands in between.
        backed_by: ``sqlite``, ``postgres`` or ``memory``.
    """

    fill: Callable[[list[Row]], None]
    open: Callable[[], Store]
    held: Callable[[], object]
    is_saver: bool
    backed_by: str


MEMORIES = {"memory": InMemorySaver, "ascending": Ascending, "shuffled": Shuffled}
DATABASES = {
    "sqlite": (None, held_in_sqlite),
    "postgres": (None, held_in_postgres),
    "saver-sqlite": (SqliteSaver, rows_in_sqlite),
    "saver-async-sqlite": (AsyncSqliteSaver, rows_in_sqlite),
    "saver-postgres": (PostgresSaver, held_in_postgres),
    "saver-async-postgres": (AsyncPostgresSaver, held_in_postgres),
}


@pytest.fixture(params=[*DATABASES, *MEMORIES])
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    """Each backend, and the saver backend with each saver. An agent stays connected to a SQLite file."""
    if request.param in MEMORIES:
        saver = MEMORIES[request.param]()
        address = named(monkeypatch, saver)
        yield Kind(
            lambda rows: fill_memory(saver, rows),
            lambda: open_store(address),
            lambda: held_in_memory(saver),
            True,
            "memory",
        )
        return
    cls, held = DATABASES[request.param]
    backed_by = "sqlite" if "sqlite" in request.param else "postgres"
    where = str(tmp_path / "store.db") if backed_by == "sqlite" else request.getfixturevalue("pg_dsn")
    address = where if cls is None else named(monkeypatch, lambda: cls.from_conn_string(where))
    fill = fill_sqlite if backed_by == "sqlite" else fill_postgres
    with closing(sqlite3.connect(where if backed_by == "sqlite" else ":memory:")) as agent:
        agent.execute("PRAGMA journal_mode=WAL")

        def store_rows(rows: list[Row]) -> None:
            fill(where, rows)
            agent.execute("SELECT count(*) FROM sqlite_master").fetchall()

        yield Kind(
            store_rows,
            lambda: open_store(address),
            lambda: held(where),
            cls is not None,
            backed_by,
        )


@pytest.fixture
def filled(kind: Kind) -> Iterator[Fill]:
    """Stores rows and opens the store."""
    with ExitStack() as opened:

        def fill(rows: list[Row]) -> Store:
            kind.fill(rows)
            return opened.enter_context(kind.open())

        yield fill


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


def test_the_order_in_which_rows_were_stored_changes_nothing(filled: Fill) -> None:
    rows = [
        Row(
            f"{n:02}",
            f"{n - 1:02}" if n else None,
            metadata={"source": "loop", "step": n},
            values={"a": n},
            versions={"a": f"{n}"},
            writes=(("t1", "a", n), ("t0", "a", -n)),
        )
        for n in range(12)
    ]
    random.Random(5).shuffle(rows)
    store = filled(rows)
    found = sorted(store.checkpoints("t", ""), key=lambda row: row.id)
    assert [(row.id, row.parent, row.step) for row in found] == [
        (f"{n:02}", f"{n - 1:02}" if n else None, n) for n in range(12)
    ]
    ids = [row.id for row in found]
    assert [decode(values["a"]) for _, values in store.along("t", "", ids)] == list(range(12))  # type: ignore[arg-type]
    writes = {(w.checkpoint, w.task): decode(w.value) for w in store.writes("t", "", head=None)}
    assert writes == {
        (f"{n:02}", task): sign * n for n in range(12) for task, sign in (("t1", 1), ("t0", -1))
    }


def test_a_row_of_one_namespace_is_not_read_for_another_with_the_same_id(filled: Fill) -> None:
    rows = [
        Row("1", ns=ns, values={"a": ns}, versions={"a": "1"}, writes=(("t", "a", ns),))
        for ns in ("", "sub:1", "sub:1|deep:2")
    ]
    store = filled(rows)
    for ns in ("", "sub:1", "sub:1|deep:2"):
        assert decode(store.values("t", ns, "1")["a"]) == ns  # type: ignore[arg-type]
        assert [decode(write.value) for write in store.writes("t", ns, head=None)] == [ns]
    assert list(store.writes("t", "sub", head=None)) == []


def test_writes_are_read_by_channel_by_checkpoint_and_as_heads(filled: Fill) -> None:
    long = "x" * 5000
    store = filled(
        [
            Row("1", writes=(("t1", "a", long), ("t1", "b", None), ("t2", "a", [1]))),
            Row("2", "1", writes=(("t3", "a", "short"),)),
        ]
    )

    def of(**asked: Any) -> list[tuple[str, str, int, str]]:
        return sorted((w.checkpoint, w.task, w.idx, w.channel) for w in store.writes("t", "", **asked))

    assert of() == [("1", "t1", 0, "a"), ("1", "t1", 1, "b"), ("1", "t2", 0, "a"), ("2", "t3", 0, "a")]
    assert of(channels=["b", "c"]) == [("1", "t1", 1, "b")]
    assert of(checkpoints=["2", "3"], head=None) == [("2", "t3", 0, "a")]
    assert of(channels=[]) == of(checkpoints=[]) == []
    whole, _ = sorted(
        store.writes("t", "", channels=["a"], checkpoints=["1"], head=None), key=lambda write: write.task
    )
    assert decode(whole.value) == long
    for head in (0, 10, 3000):
        (cut,) = [
            w for w in store.writes("t", "", checkpoints=["1"], head=head) if w.idx == 0 and w.task == "t1"
        ]
        assert (cut.value.data, cut.value.size) == (whole.value.data[:head], whole.value.size)


def test_a_version_without_a_value_is_an_absence_of_its_kind(filled: Fill, kind: Kind) -> None:
    store = filled([Row("1", versions={"gone": "1", "branch:to:x": "2"})])
    found = store.values("t", "", "1")
    assert all(isinstance(value, Absent) for value in found.values())
    kinds = {name: value.kind for name, value in found.items()}  # type: ignore[union-attr]
    # Only where values have rows of their own, and these are looked at, can one be missed.
    missed = kind.backed_by == "postgres" and not kind.is_saver
    assert kinds == {"gone": "value_missing" if missed else "empty", "branch:to:x": "empty"}
    assert list(store.lost_values("t", "")) == ([("1", "gone", "1")] if missed else [])
    assert list(store.unreferenced_values("t", "")) == []


def test_what_is_written_later_is_not_seen_by_a_store_that_has_read_the_thread(
    filled: Fill, kind: Kind
) -> None:
    store = filled([Row("1", values={"a": 1}, versions={"a": "1"}, writes=(("t1", "b", 1),))])
    assert [row.id for row in store.checkpoints("t", "")] == ["1"]
    kind.fill([Row("2", "1", values={"a": 2}, versions={"a": "2"}, writes=(("t2", "b", 1),))])
    assert [row.id for row in store.checkpoints("t", "")] == ["1"]
    assert [write.checkpoint for write in store.writes("t", "")] == ["1"]
    assert store.values("t", "", "2") == store.versions("t", "", ["2"]) == {}
    assert [row.last for row in store.threads(thread="t")] == ["1"]
    with kind.open() as other:
        assert {row.id for row in other.checkpoints("t", "")} == {"1", "2"}


def test_whatever_is_asked_nothing_that_is_stored_changes(kind: Kind) -> None:
    row = Row("1", values={"a": [1]}, versions={"a": "1"}, writes=(("t1", "a", "x" * 5000),))
    kind.fill([row, Row("2", "1", ns="sub:1", values={"a": 1}, versions={"a": "1"}), Row("1", thread="u")])
    before = kind.held()
    with kind.open() as store:
        assert [row.id for row in store.threads()] == ["t", "u"]
        for ns in ("", "sub:1", "none"):
            ids = [row.id for row in store.checkpoints("t", ns)]
            assert len(list(store.along("t", ns, ids))) == len(ids)
            assert len(store.seen("t", ns, ids)) == len(store.versions("t", ns, ids)) == len(ids)
            assert len(store.times("t", ns, ids)) == len(ids)
            assert [*store.lost_values("t", ns), *store.unreferenced_values("t", ns)] == []
        assert [len(write.value.data) > 5000 for write in store.writes("t", "", head=None)] == [True]
    assert kind.held() == before


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
