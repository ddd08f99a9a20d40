"""The PostgreSQL backend on a real server, on stores that LangGraph's own savers recorded."""

from __future__ import annotations

import operator
import socket
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict
from urllib.parse import quote

import psycopg
import pytest
from langgraph.channels import EphemeralValue
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver, ShallowPostgresSaver
from langgraph.graph import START, StateGraph
from psycopg import sql

import pg
from turnstate_backends import postgres
from turnstate_backends.address import parse
from turnstate_backends.interface import StoreError, Write
from turnstate_backends.postgres import PostgresStore, open_postgres
from turnstate_backends.stores import open_store
from turnstate_backends.values import Absent, Stored


def _joined(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


class State(TypedDict, total=False):
    count: int
    note: Any
    flag: bool
    plan: dict[str, Any]
    log: Annotated[list[str], operator.add]
    jump: Annotated[str, EphemeralValue(str)]
    story: Annotated[list[str], DeltaChannel(_joined, list, snapshot_frequency=3)]


def _first(state: State) -> State:
    return {
        "count": state.get("count", 0) + 1,
        "note": None,
        "flag": True,
        "plan": {"goal": "é"},
        "log": ["first"],
        "jump": "second",
        "story": ["first"],
    }


def _second(state: State) -> State:
    return {"log": ["second"], "story": ["second"]}


def _run(saver: Any, thread: str, questions: int = 2) -> None:
    graph = StateGraph(State)
    graph.add_node("first", _first)
    graph.add_node("second", _second)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    app = graph.compile(checkpointer=saver)
    for number in range(questions):
        app.invoke({"log": [f"question {number}"]}, {"configurable": {"thread_id": thread}})


def _record(dsn: str, *threads: str, questions: int = 2) -> None:
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.setup()
        for thread in threads:
            _run(saver, thread, questions)


def _open(dsn: str, schema: str | None = None) -> PostgresStore:
    store = open_store(dsn, schema=schema)
    assert isinstance(store, PostgresStore)
    return store


def _execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _fails(dsn: str, schema: str | None = None) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_store(dsn, schema=schema)
    for line in (caught.value.what, caught.value.why, caught.value.hint):
        assert line
        assert "\n" not in line
    return caught.value


@pytest.fixture(scope="module")
def recorded(pg_server: str) -> Iterator[str]:
    """A store with the threads ``a`` and ``b``, two questions each. Not to be changed."""
    with pg.database(pg_server) as dsn:
        _record(dsn, "a", "b")
        yield dsn


# --- reads ------------------------------------------------------------------------------------------


def test_every_checkpoint_reads_as_langgraph_reads_it(recorded: str) -> None:
    with PostgresSaver.from_conn_string(recorded) as saver, _open(recorded) as store:
        tuples = {t.checkpoint["id"]: t for t in saver.list({"configurable": {"thread_id": "a"}})}
        rows = {row.id: row for row in store.checkpoints("a", "")}
        # Two questions, each: input, step of __start__, first, second.
        assert len(tuples) == 8
        assert rows.keys() == tuples.keys()
        versions = store.versions("a", "", list(rows))
        times = store.times("a", "", list(rows))
        for id_, expected in tuples.items():
            assert rows[id_].source == expected.metadata["source"]
            assert rows[id_].step == expected.metadata["step"]
            parent = expected.parent_config
            assert rows[id_].parent == (parent and parent["configurable"]["checkpoint_id"])
            counters = expected.metadata.get("counters_since_delta_snapshot", {})
            assert rows[id_].delta_channels == tuple(sorted(counters))
            assert versions[id_] == expected.checkpoint["channel_versions"]
            assert store.seen("a", "", [id_]) == {id_: expected.checkpoint["versions_seen"]}
            assert times[id_] == expected.checkpoint["ts"]
            values = store.values("a", "", id_)
            assert values.keys() == expected.checkpoint["channel_versions"].keys()
            held = {name: value for name, value in values.items() if isinstance(value, Stored)}
            assert held.keys() == expected.checkpoint["channel_values"].keys()
            for name, value in held.items():
                assert value.complete
                loaded = saver.serde.loads_typed((str(value.type), value.data))
                if name != "story":  # a snapshot is an object without equality
                    assert loaded == expected.checkpoint["channel_values"][name]
            assert {value.kind for value in values.values() if isinstance(value, Absent)} <= {"empty"}


def test_writes_are_the_pending_writes_of_every_checkpoint(recorded: str) -> None:
    with PostgresSaver.from_conn_string(recorded) as saver, _open(recorded) as store:
        expected = {
            (t.checkpoint["id"], task, channel, repr(value))
            for t in saver.list({"configurable": {"thread_id": "a"}})
            for task, channel, value in t.pending_writes or ()
        }
        found = {
            (
                w.checkpoint,
                w.task,
                w.channel,
                repr(saver.serde.loads_typed((str(w.value.type), w.value.data))),
            )
            for w in store.writes("a", "", head=None)
        }
        assert len(expected) > 20
        assert found == expected


def test_writes_are_narrowed_by_channel_and_checkpoint_and_cut_to_a_head(recorded: str) -> None:
    with _open(recorded) as store:
        plans = list(store.writes("a", "", channels=["plan"], head=None))
        assert [write.channel for write in plans] == ["plan", "plan"]
        assert {write.path for write in plans} == {"~__pregel_pull, first"}
        # msgpack: map of one, fixstr "goal", fixstr of the two bytes of é
        assert {write.value for write in plans} == {Stored("msgpack", b"\x81\xa4goal\xa2\xc3\xa9", 9)}
        heads = list(store.writes("a", "", channels=["plan"], checkpoints=[plans[0].checkpoint], head=2))
        assert [write.value for write in heads] == [Stored("msgpack", b"\x81\xa4", 9)]
        none = list(store.writes("a", "", channels=["plan"]))
        assert {write.value for write in none} == {Stored("msgpack", b"", 9)}
        assert not list(store.writes("a", "", channels=[]))
        assert not list(store.writes("a", "", checkpoints=[]))


def test_more_writes_than_one_batch_all_arrive(pg_dsn: str) -> None:
    _record(pg_dsn)
    _execute(
        pg_dsn,
        "insert into checkpoint_writes select 't', '', 'c', 'task', i, 'x', 'bytes', "
        "repeat('x', 200000)::bytea from generate_series(1, 150) i",
    )
    with _open(pg_dsn) as store:
        whole = list(store.writes("t", "", head=None))
        assert sorted(write.idx for write in whole) == list(range(1, 151))
        assert {(len(write.value.data), write.value.size) for write in whole} == {(200000, 200000)}


def test_threads_come_by_last_activity_with_their_namespaces_counted(pg_dsn: str) -> None:
    _record(pg_dsn)
    rows = [
        ("old", "", "1"),
        ("old", "", "2"),
        ("new", "", "3"),
        ("new", "sub:1", "9"),
        ("mid", "", "4"),
        ("only sub", "sub:2", "5"),
    ]
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        connection.cursor().executemany(
            "insert into checkpoints (thread_id, checkpoint_ns, checkpoint_id, checkpoint) "
            "values (%s, %s, %s, '{}')",
            rows,
        )
    with _open(pg_dsn) as store:
        found = [(t.id, t.checkpoints, t.namespaces, t.first, t.last, t.head) for t in store.threads()]
        assert found == [
            ("new", 2, ("", "sub:1"), "3", "9", "3"),
            ("only sub", 1, ("sub:2",), "5", "5", None),
            ("mid", 1, ("",), "4", "4", "4"),
            ("old", 2, ("",), "1", "2", "2"),
        ]
        assert [t.id for t in store.threads(limit=2)] == ["new", "only sub"]
        assert [t.id for t in store.threads(limit=1, pattern="[mo]*d")] == ["mid"]
        assert [t.id for t in store.threads(pattern="O*")] == []
        assert [(t.id, t.checkpoints) for t in store.threads(thread="old")] == [("old", 2)]


def test_what_does_not_exist_or_cannot_exist_is_empty_and_no_error(recorded: str) -> None:
    with _open(recorded) as store:
        for name in ("nobody", "nul\0", "lone \ud800", "%s", "' or true --"):
            assert list(store.threads(thread=name)) == []
            assert list(store.checkpoints(name, "")) == []
            assert list(store.checkpoints("a", name)) == []
            assert list(store.writes("a", name)) == []
            assert list(store.writes("a", "", channels=[name])) == []
            assert store.versions("a", "", [name]) == {}
            assert store.times("a", "", [name]) == {}
            assert store.values("a", "", name) == {}
            head = store.threads(thread="a")[0].head
            assert head is not None
            assert store.values("a", "", head, [name]) == {}


def test_inline_values_are_json_and_a_stored_null_is_no_absence(recorded: str) -> None:
    with _open(recorded) as store:
        head = store.threads(thread="a")[0].head
        assert head is not None
        values = store.values("a", "", head, ["note", "count", "flag"])
        assert values == {
            "note": Stored("json", b"null", 4),
            "count": Stored("json", b"2", 1),
            "flag": Stored("json", b"true", 4),
        }


def test_an_emptied_channel_is_empty_and_a_deleted_value_is_missing(pg_dsn: str) -> None:
    _record(pg_dsn, "a")
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        latest = saver.get_tuple({"configurable": {"thread_id": "a"}})
        assert latest is not None
        head, versions = latest.checkpoint["id"], latest.checkpoint["channel_versions"]
        assert "jump" in versions  # it was written, then emptied
    _execute(pg_dsn, "delete from checkpoint_blobs where channel in ('plan', 'story')")
    with _open(pg_dsn) as store:
        values = store.values("a", "", head)
        assert values["jump"] == Absent("empty", {"version": versions["jump"]})
        assert values["branch:to:first"] == Absent("empty", {"version": versions["branch:to:first"]})
        assert values["__start__"] == Absent("empty", {"version": versions["__start__"]})
        assert values["plan"] == Absent("value_missing", {"version": versions["plan"]})
        assert isinstance(values["log"], Stored)


def test_a_delta_channel_is_empty_between_snapshots_and_missing_where_a_snapshot_is_gone(pg_dsn: str) -> None:
    _record(pg_dsn, "a")
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        rows = list(saver.list({"configurable": {"thread_id": "a"}}))
    snapshots = [t.checkpoint["id"] for t in rows if "story" in t.checkpoint["channel_values"]]
    between = [
        t.checkpoint["id"]
        for t in rows
        if "story" in t.checkpoint["channel_versions"] and "story" not in t.checkpoint["channel_values"]
    ]
    assert snapshots
    assert between
    with _open(pg_dsn) as store:
        assert isinstance(store.values("a", "", snapshots[0])["story"], Stored)
    _execute(pg_dsn, "delete from checkpoint_blobs where channel = 'story'")
    with _open(pg_dsn) as store:
        for kind, ids in (("value_missing", snapshots), ("empty", between)):
            for id_ in ids:
                value = store.values("a", "", id_, ["story"])["story"]
                assert isinstance(value, Absent)
                assert value.kind == kind


def test_rows_of_older_savers_hold_their_emptiness_as_a_row_and_no_inline_values(pg_dsn: str) -> None:
    _record(pg_dsn)
    _execute(
        pg_dsn,
        """insert into checkpoints (thread_id, checkpoint_id, checkpoint, metadata) values ('t', 'c',
           '{"v": 1, "ts": "2024-06-01T00:00:00+00:00", "channel_versions": {"a": 3, "b": "2.0", "start:x": "1",
           "node": "00000000000000000000000000000004.", "lost": "4.5"}}',
           '{"source": "loop", "step": "7", "writes": {"x": 1}, "run_id": "r"}')""",
        "insert into checkpoint_blobs values ('t', '', 'a', '3', 'json', '[1]'), "
        "('t', '', 'b', '2.0', 'empty', null)",
    )
    with _open(pg_dsn) as store:
        [row] = store.checkpoints("t", "")
        assert (row.parent, row.source, row.step, row.run_id) == (None, "loop", 7, "r")
        assert store.versions("t", "", ["c"]) == {
            "c": {
                "a": "3",
                "b": "2.0",
                "start:x": "1",
                "node": "00000000000000000000000000000004.",
                "lost": "4.5",
            }
        }
        assert store.values("t", "", "c") == {
            "a": Stored("json", b"[1]", 3),
            "b": Absent("empty", {"version": "2.0"}),
            "start:x": Absent("empty", {"version": "1"}),
            "node": Absent("empty", {"version": "00000000000000000000000000000004."}),
            "lost": Absent("value_missing", {"version": "4.5"}),
        }


def test_a_blob_wins_over_the_inline_reading_and_names_with_odd_characters_are_kept(pg_dsn: str) -> None:
    _record(pg_dsn)
    name = "a\\b\"c%s'{é}"
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        connection.execute(
            "insert into checkpoints (thread_id, checkpoint_id, checkpoint) values ('t', 'c', jsonb_build_object("
            "'channel_versions', jsonb_build_object(%(n)s::text, '1.5'), "
            "'channel_values', jsonb_build_object(%(n)s::text, true)))",
            {"n": name},
        )
        connection.execute(
            "insert into checkpoint_blobs values ('t', '', %s, '1.5', 'bytes', '\\x00ff')", [name]
        )
        connection.execute(
            "insert into checkpoint_writes values ('t', '', 'gone', 'k', -1, %s, null, '\\x01')", [name]
        )
    with _open(pg_dsn) as store:
        assert store.values("t", "", "c", [name]) == {name: Stored("bytes", b"\x00\xff", 2)}
        assert list(store.writes("t", "", channels=[name], head=None)) == [
            Write("gone", "k", "", -1, name, Stored(None, b"\x01", 1))
        ]


@pytest.mark.parametrize(
    ("metadata", "source", "step"),
    [
        ("[]", None, None),
        ("null", None, None),
        ('"text"', None, None),
        ('{"step": 3.0, "source": "loop"}', "loop", 3),
        ('{"step": "-1"}', None, -1),
        ('{"step": "many", "counters_since_delta_snapshot": 1}', None, None),
        ('{"step": 1e99}', None, None),
        ('{"step": null, "source": null}', None, None),
    ],
)
def test_odd_metadata_is_read_as_far_as_it_goes(
    pg_dsn: str, metadata: str, source: str | None, step: int | None
) -> None:
    _record(pg_dsn)
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        connection.execute(
            "insert into checkpoints (thread_id, checkpoint_id, parent_checkpoint_id, checkpoint, metadata) "
            "values ('t', 'c', '', '{}', %s)",
            [metadata],
        )
    with _open(pg_dsn) as store:
        [row] = store.checkpoints("t", "")
        assert (row.parent, row.source, row.step, row.delta_channels) == (None, source, step, ())


@pytest.mark.parametrize("checkpoint", ["[]", '"text"', '{"channel_versions": []}', '{"channel_values": 1}'])
def test_a_damaged_checkpoint_is_undecodable_by_name_or_as_a_whole(pg_dsn: str, checkpoint: str) -> None:
    _record(pg_dsn)
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        connection.execute(
            "insert into checkpoints (thread_id, checkpoint_id, checkpoint) values ('t', 'c', %s)",
            [checkpoint],
        )
    with _open(pg_dsn) as store:
        for channels, names in ((None, {"*"}), (["a", "b"], {"a", "b"})):
            values = store.values("t", "", "c", channels)
            assert values.keys() == names
            assert {value.kind for value in values.values() if isinstance(value, Absent)} == {"undecodable"}
        assert store.times("t", "", ["c"]) == {}
        assert store.versions("t", "", ["c"]) == {"c": {}}


# --- layouts ----------------------------------------------------------------------------------------


def test_a_store_from_before_task_paths_has_empty_paths(pg_dsn: str) -> None:
    _record(pg_dsn, "a")
    _execute(pg_dsn, "alter table checkpoint_writes drop column task_path")
    with _open(pg_dsn) as store:
        assert {write.path for write in store.writes("a", "")} == {""}


def test_the_shallow_layout_gives_the_one_checkpoint_it_keeps(pg_dsn: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with ShallowPostgresSaver.from_conn_string(pg_dsn) as saver:
            saver.setup()
            _run(saver, "a")
            kept = saver.get_tuple({"configurable": {"thread_id": "a"}})
    assert kept is not None
    id_ = kept.checkpoint["id"]
    with _open(pg_dsn) as store:
        [thread] = store.threads()
        assert (thread.id, thread.checkpoints, thread.first, thread.last, thread.head) == (
            "a",
            1,
            id_,
            id_,
            id_,
        )
        [row] = store.checkpoints("a", "")
        assert (row.id, row.parent, row.source, row.step) == (id_, None, "loop", 6)
        values = store.values("a", "", id_)
        held = {name for name, value in values.items() if isinstance(value, Stored)}
        assert held == set(kept.checkpoint["channel_values"])
        assert store.times("a", "", [id_, "other"]) == {id_: kept.checkpoint["ts"]}
        assert store.values("a", "", "other") == {}
        assert list(store.lost_values("a", "")) == []
        assert list(store.unreferenced_values("a", "")) == []


@pytest.mark.parametrize("schema", ["agents", 'we"ird Schema%s'])
def test_tables_in_another_schema_are_named_in_the_hint_and_read_when_chosen(
    pg_dsn: str, schema: str
) -> None:
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
        connection.execute(sql.SQL("set search_path = {}").format(sql.Identifier(schema)))
        saver = PostgresSaver(connection)  # type: ignore[arg-type]
        connection.row_factory = psycopg.rows.dict_row  # type: ignore[assignment]
        saver.setup()
        _run(saver, "a", 1)
    error = _fails(pg_dsn)
    assert error.why == "no schema on the search path has a table checkpoints"
    assert error.hint == f"There is one in {schema!r}: choose it with --schema."
    with _open(pg_dsn, schema) as store:
        [thread] = store.threads()
        assert (thread.id, thread.checkpoints) == ("a", 4)
        assert len(list(store.checkpoints("a", ""))) == 4
    assert "no table checkpoints" in _fails(pg_dsn, "public").why


def test_the_search_path_of_the_connection_decides(pg_dsn: str) -> None:
    _record(pg_dsn, "a")
    _execute(
        pg_dsn,
        "create schema other",
        "create table other.checkpoints (like public.checkpoints)",
        "create table other.checkpoint_blobs (like public.checkpoint_blobs)",
        "create table other.checkpoint_writes (like public.checkpoint_writes)",
    )
    assert [t.id for t in _listed(pg_dsn)] == ["a"]
    assert _listed(pg.url(pg_dsn, options="-csearch_path=other,public")) == []


def _listed(dsn: str) -> list[Any]:
    with _open(dsn) as store:
        return list(store.threads())


def test_a_database_without_a_store_says_what_is_there(pg_dsn: str) -> None:
    assert _fails(pg_dsn).hint == "Check the database name; the saver's setup() creates the tables."
    _execute(pg_dsn, "create table checkpoints (id int, epoch int)")
    assert _fails(pg_dsn).why == (
        "the schema 'public' has checkpoints, but not checkpoint_blobs, checkpoint_writes"
    )


def test_an_unknown_layout_is_refused_with_its_columns(pg_dsn: str) -> None:
    _record(pg_dsn)
    _execute(pg_dsn, "alter table checkpoint_blobs rename column version to revision")
    assert _fails(pg_dsn).why == (
        "public.checkpoint_blobs has the columns blob, channel, checkpoint_ns, revision, thread_id, type"
    )


def test_text_in_a_database_without_an_encoding_is_read_and_found_again(pg_server: str) -> None:
    with pg.database(pg_server, encoding="SQL_ASCII") as dsn:
        _record(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("set client_encoding = 'SQL_ASCII'")
            connection.execute(
                b"insert into checkpoints (thread_id, checkpoint_id, checkpoint) values "
                b"(convert_from('\\xe9'::bytea, 'SQL_ASCII'), 'latin', '{}'), ('\xc3\xa9', 'utf8', '{}')"
            )
        with _open(dsn) as store:
            assert {(t.id, t.head) for t in store.threads()} == {("\udce9", "latin"), ("é", "utf8")}
            assert [row.id for row in store.checkpoints("\udce9", "")] == ["latin"]


# --- nothing is written, one snapshot ---------------------------------------------------------------


def _read_everything(store: PostgresStore) -> int:
    """Use every method; the number of checkpoints seen."""
    seen = 0
    for thread in store.threads():
        for ns in thread.namespaces:
            ids = [row.id for row in store.checkpoints(thread.id, ns)]
            list(store.writes(thread.id, ns, head=None))
            store.versions(thread.id, ns, ids)
            store.times(thread.id, ns, ids)
            list(store.lost_values(thread.id, ns))
            list(store.unreferenced_values(thread.id, ns))
            for id_ in ids:
                store.values(thread.id, ns, id_)
            seen += len(ids)
    return seen


def test_a_role_that_may_only_select_reads_everything_without_a_write_or_a_prepared_statement(
    recorded: str,
) -> None:
    tables = "checkpoints, checkpoint_blobs, checkpoint_writes, checkpoint_migrations"
    with pg.role(recorded) as reader:
        _execute(recorded, f"grant select on {tables} to {reader}")
        with _open(pg.url(recorded, user=reader)) as store:
            for _ in range(7):  # psycopg would prepare a statement the fifth time
                assert _read_everything(store) == 16
            state = store._connection.execute(
                "select current_setting('transaction_read_only'), current_setting('transaction_isolation'), "
                "pg_current_xact_id_if_assigned(), (select count(*) from pg_prepared_statements), "
                "(select count(*) from pg_cursors), (select count(*) from pg_locks where pid = pg_backend_pid() "
                "and mode not in ('AccessShareLock', 'ExclusiveLock')), "
                "(select count(*) from pg_locks where locktype = 'advisory')"
            ).fetchone()
            assert state == ("on", "repeatable read", None, 0, 0, 0, 0)


@pytest.mark.parametrize("denied", ["checkpoints", "checkpoint_blobs", "checkpoint_writes"])
def test_a_missing_select_names_the_table(recorded: str, denied: str) -> None:
    granted = {"checkpoints", "checkpoint_blobs", "checkpoint_writes"} - {denied}
    with pg.role(recorded) as reader:
        _execute(recorded, f"grant select on {', '.join(granted)} to {reader}")
        assert _fails(pg.url(recorded, user=reader)).why == f"it has no SELECT on public.{denied}"


def test_a_missing_usage_names_the_schema(pg_dsn: str) -> None:
    _execute(pg_dsn, "create schema agents")
    _record(pg.url(pg_dsn, options="-csearch_path=agents"))
    with pg.role(pg_dsn) as reader:
        assert _fails(pg.url(pg_dsn, user=reader), "agents").why == "it has no USAGE on the schema agents"


def test_a_policy_that_hides_rows_is_an_error_and_not_a_short_list(pg_dsn: str) -> None:
    _record(pg_dsn, "a")
    with pg.role(pg_dsn) as reader:
        _execute(
            pg_dsn,
            f"grant select on checkpoints, checkpoint_blobs, checkpoint_writes to {reader}",
            "alter table checkpoints enable row level security",
        )
        with _open(pg.url(pg_dsn, user=reader)) as store, pytest.raises(StoreError) as caught:
            store.threads()
        assert caught.value.why == (
            'query would be affected by row-level security policy for table "checkpoints"'
        )


def test_what_a_writer_commits_meanwhile_is_not_seen(pg_dsn: str) -> None:
    _record(pg_dsn, "a", questions=1)
    with _open(pg_dsn) as store:
        before = [(t.id, t.checkpoints) for t in store.threads()]
        _record(pg_dsn, "a", "b", questions=1)
        _execute(pg_dsn, "delete from checkpoint_blobs")
        assert [(t.id, t.checkpoints) for t in store.threads()] == before == [("a", 4)]
        head = store.threads()[0].head
        assert head is not None
        assert isinstance(store.values("a", "", head, ["log"])["log"], Stored)
    assert {(t.id, t.checkpoints) for t in _listed(pg_dsn)} == {("a", 8), ("b", 4)}


def test_listing_threads_never_scans_the_table(pg_dsn: str) -> None:
    _record(pg_dsn)
    _execute(
        pg_dsn,
        "insert into checkpoints (thread_id, checkpoint_id, checkpoint) "
        "select 't' || t, to_char(i, 'FM00') || '-' || t, '{}' "
        "from generate_series(1, 2000) t, generate_series(1, 20) i",
        "analyze checkpoints",
    )
    with _open(pg_dsn) as store:
        assert [(t.id, t.checkpoints) for t in store.threads(limit=1)] == [("t999", 20)]
        for statement, params in ((postgres.NAMESPACES, None), (postgres.COUNTS, [["t1", "t2"]])):
            query = sql.SQL("explain {}").format(sql.SQL(statement).format(**store._parts))
            plan = "\n".join(line for (line,) in store._connection.execute(query, params))
            assert "Index Only Scan" in plan
            assert "Seq Scan" not in plan
            assert "Bitmap" not in plan


# --- errors -----------------------------------------------------------------------------------------


def test_a_connection_lost_in_mid_read_is_said_in_three_lines(pg_dsn: str) -> None:
    _record(pg_dsn, "a")
    with _open(pg_dsn) as store:
        rows = iter(store.writes("a", ""))
        next(rows)
        pid = store._connection.info.backend_pid
        _execute(pg_dsn, f"select pg_terminate_backend({pid}, 5000)")
        with pytest.raises(StoreError) as caught:
            list(rows)
        assert caught.value.what == f"the connection to {store.name} was lost"
        assert caught.value.why == "terminating connection due to administrator command"
        with pytest.raises(StoreError):
            store.threads()
        store.close()
        store.close()


def test_a_reader_that_stops_early_leaves_the_store_usable(recorded: str) -> None:
    with _open(recorded) as store:
        rows, more = iter(store.writes("a", "")), iter(store.checkpoints("a", ""))
        next(rows)
        next(more)
        del rows
        assert len(list(more)) == 7
        assert len(store.threads()) == 2
        unfinished = iter(store.checkpoints("b", ""))
        next(unfinished)
    del unfinished


def test_a_statement_timeout_says_so(pg_dsn: str) -> None:
    _record(pg_dsn)
    with (
        _open(pg.url(pg_dsn, options="-cstatement_timeout=200")) as store,
        psycopg.connect(pg_dsn) as blocker,
    ):
        blocker.execute("lock table checkpoints in access exclusive mode")
        with pytest.raises(StoreError) as caught:
            store.threads()
        assert caught.value.why == "canceling statement due to statement timeout"
        assert "statement_timeout" in caught.value.hint


def test_failures_to_connect_say_what_to_check(
    pg_dsn: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "none.conf"))
    assert _fails(pg.url(pg_dsn, dbname="no such db")).hint == "Check the database name in the address."
    assert _fails(pg.url(pg_dsn, user="nobody here")).hint == "Check the user name."
    assert _fails("service=nope").hint == "Check ~/.pg_service.conf or PGSERVICEFILE."
    (tmp_path / "none.conf").write_text("[other]\nhost=h\n")
    missing = _fails("service=nope")
    assert missing.why == 'definition of service "nope" not found'
    assert missing.hint == "Check ~/.pg_service.conf or PGSERVICEFILE."
    assert _fails("postgresql://no-host.invalid/db").hint == "Check host name and port."
    assert _fails(f"host={'a' * 70}.invalid").what == f"cannot connect to host={'a' * 70}.invalid"
    down = _fails("postgresql://127.0.0.1:1/db")
    assert down.what == "cannot connect to postgresql://127.0.0.1:1/db"
    assert down.why.endswith("Connection refused")
    assert down.hint == "Check host and port, and that the server runs."


def test_a_server_without_tls_is_said_when_tls_was_required() -> None:
    def refuse(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(8)  # SSLRequest
            connection.sendall(b"N")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=[listener])
        thread.start()
        error = _fails(f"postgresql://127.0.0.1:{listener.getsockname()[1]}/db?sslmode=require")
        thread.join()
    assert error.hint == "The server offers no TLS: leave sslmode out, or ask its operator."


def test_a_service_and_pg_variables_complete_a_bare_address(
    recorded: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = psycopg.conninfo.conninfo_to_dict(recorded)
    (tmp_path / "service.conf").write_text("[prod]\n" + "".join(f"{k}={v}\n" for k, v in params.items()))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "service.conf"))
    assert len(_listed("service=prod")) == 2
    assert len(_listed("postgresql://?service=prod")) == 2
    for key, variable in (
        ("host", "PGHOST"),
        ("port", "PGPORT"),
        ("user", "PGUSER"),
        ("dbname", "PGDATABASE"),
    ):
        if key in params:
            monkeypatch.setenv(variable, str(params[key]))
    assert len(_listed("postgresql://")) == 2


PASSWORDS = ["s3cr@t:%/?#", "p%40ss", "a b'c\\d", "pässwörd", "%s%(x)s{}", "Zq9"]


def _spellings(password: str) -> set[str]:
    return {password, quote(password, safe=""), quote(password)}


def _assert_hidden(password: str, error: StoreError) -> None:
    shown = "".join(traceback.format_exception(error)) + repr(error) + error.what + error.why + error.hint
    for spelling in _spellings(password):
        assert spelling not in shown
    assert error.__suppress_context__ or error.__context__ is None


@contextmanager
def _passworded(dsn: str, password: str) -> Iterator[str]:
    """A role that may read the store, if it gives the password; skips where the server asks for none."""
    with pg.role(dsn, password=password) as reader:
        _execute(dsn, f"grant select on checkpoints, checkpoint_blobs, checkpoint_writes to {reader}")
        try:
            psycopg.connect(pg.url(dsn, user=reader, password="wrong")).close()
        except psycopg.OperationalError:
            yield reader
        else:
            pytest.skip("this server asks for no password")


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_works_and_stays_hidden_in_every_place_it_can_stand(
    recorded: str, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    with _passworded(recorded, password) as reader:
        bare = pg.url(recorded, user=reader)
        conninfo = psycopg.conninfo.make_conninfo(bare, password=password)
        in_userinfo = pg.url(recorded, user=reader, password=password)
        in_query = f"{bare}&password={quote(password, safe='')}"
        for address in (
            in_userinfo,
            in_query,
            conninfo,
            in_userinfo.replace("postgresql:", "postgresql+psycopg:"),
        ):
            with _open(address) as store:
                for spelling in _spellings(password):
                    assert spelling not in store.name
                    assert spelling not in repr(store) + repr(parse(address))
                store._connection.close()
                with pytest.raises(StoreError) as caught:
                    store.threads()
                _assert_hidden(password, caught.value)
        monkeypatch.setenv("PGPASSWORD", password)
        with _open(bare) as store:
            assert len(store.threads()) == 2


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_wrong_password_is_refused_without_being_shown(
    recorded: str, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    with _passworded(recorded, "right") as reader:
        for address in (
            pg.url(recorded, user=reader, password=password),
            psycopg.conninfo.make_conninfo(pg.url(recorded, user=reader), password=password),
        ):
            error = _fails(address)
            assert f'password authentication failed for user "{reader}"' in error.why
            assert error.hint == "Check user and password."
            _assert_hidden(password, error)
        monkeypatch.setenv("PGPASSWORD", password)
        _assert_hidden(password, _fails(pg.url(recorded, user=reader)))


def test_a_password_that_a_message_repeats_is_replaced_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # The server and libpq repeat host, user and database names; here they hold the password by mistake.
    for address in (
        "postgresql://u:hunter22@hunter22.invalid/db",
        "host=hunter22.invalid password=hunter22",
    ):
        assert "hunter22" not in _fails(address).why
    monkeypatch.setenv("PGPASSWORD", "hunter22")
    assert "hunter22" not in _fails("host=hunter22.invalid").why


def test_open_postgres_takes_a_parsed_address(recorded: str) -> None:
    address = parse(recorded)
    assert not hasattr(address, "path")
    with open_postgres(address) as store:  # type: ignore[arg-type]
        assert store.name == address.display


def test_values_along_checkpoints_come_in_the_order_asked_and_a_shared_one_is_read_once(
    recorded: str,
) -> None:
    with _open(recorded) as store:
        ids = [row.id for row in sorted(store.checkpoints("a", ""), key=lambda row: row.id)]
        for asked in (ids, ids[::-1], [ids[2], "no such checkpoint", ids[0], ids[2]]):
            along = list(store.along("a", "", asked))
            assert [id_ for id_, _ in along] == [id_ for id_ in asked if id_ in ids]
            for id_, found in along:
                assert found == store.values("a", "", id_)
        held = [found["log"] for _, found in store.along("a", "", ids, ["log"]) if "log" in found]
        versions = [
            version["log"] for _, version in sorted(store.versions("a", "", ids).items()) if "log" in version
        ]
        # Neighbours with one version share one payload, sent once.
        assert len({id(value) for value in held}) == len(set(versions)) < len(held)
        assert list(store.along("a", "", [])) == []


def _missing(store: PostgresStore, thread: str) -> set[tuple[str, str, str]]:
    """What reading every value of every checkpoint finds missing."""
    return {
        (row.id, channel, value.stored["version"])
        for row in store.checkpoints(thread, "")
        for channel, value in store.values(thread, "", row.id).items()
        if isinstance(value, Absent) and value.kind == "value_missing"
    }


@pytest.mark.parametrize("channels", ["", "plan", "story", "log,plan,story,jump"])
def test_lost_values_are_those_that_reading_everything_finds_missing(pg_dsn: str, channels: str) -> None:
    _record(pg_dsn, "a", "b")
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        gone = connection.execute(
            "delete from checkpoint_blobs where thread_id = 'a' and channel = any(%s)", [channels.split(",")]
        )
        assert bool(gone.rowcount) == bool(channels)
    with _open(pg_dsn) as store:
        found = list(store.lost_values("a", ""))
        assert len(found) == len(set(found))
        assert set(found) == _missing(store, "a")
        assert bool(found) == bool(channels)
        assert list(store.lost_values("b", "")) == []
        assert list(store.lost_values("nul\0", "")) == []


def test_unreferenced_values_are_those_of_deleted_checkpoints(pg_dsn: str) -> None:
    _record(pg_dsn, "a")
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        with _open(pg_dsn) as store:
            assert list(store.unreferenced_values("a", "")) == []
        connection.execute(
            "delete from checkpoints where checkpoint_id <> (select max(checkpoint_id) from checkpoints)"
        )
        kept = connection.execute("select checkpoint -> 'channel_versions' from checkpoints").fetchone()
        held = connection.execute("select channel, version from checkpoint_blobs where type <> 'empty'")
        assert kept is not None
        expected = [(channel, version) for channel, version in held if kept[0].get(channel) != version]
    with _open(pg_dsn) as store:
        assert sorted(store.unreferenced_values("a", ""), key=str) == sorted(expected, key=str)
        assert expected
        assert list(store.unreferenced_values("nul\0", "")) == []


def test_values_of_damaged_checkpoints_are_neither_lost_nor_an_error(pg_dsn: str) -> None:
    _record(pg_dsn)
    _execute(
        pg_dsn,
        *(
            f"insert into checkpoints (thread_id, checkpoint_id, checkpoint, metadata) values ('t', '{n}', "
            f"'{checkpoint}', '{{}}')"
            for n, checkpoint in enumerate(
                (
                    '{"channel_versions": []}',
                    '{"channel_versions": {"a": "1"}, "channel_values": []}',
                    "3",
                    "{}",
                )
            )
        ),
        "insert into checkpoint_blobs values ('t', '', 'b', '2.0', 'json', '1')",
    )
    with _open(pg_dsn) as store:
        assert list(store.lost_values("t", "")) == []
        assert list(store.unreferenced_values("t", "")) == [("b", "2.0")]


def test_a_table_that_a_migration_has_locked_is_said_to_be_locked(pg_dsn: str) -> None:
    _record(pg_dsn, "a")
    with psycopg.connect(pg_dsn) as migration:
        migration.execute("LOCK TABLE checkpoints IN ACCESS EXCLUSIVE MODE")
        impatient = f"{pg_dsn}{'&' if '?' in pg_dsn else '?'}options=-c%20lock_timeout%3D100ms"
        with pytest.raises(StoreError) as caught, _open(impatient) as store:
            list(store.checkpoints("a", ""))
    assert caught.value.what.endswith("is locked")
