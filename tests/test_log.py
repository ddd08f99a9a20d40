"""The versions of a key along a line, against what real graphs did and held."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from msgspec.structs import replace
from typing_extensions import TypedDict

from conversations import CONVERSATIONS, Exchange, run
from recorded import (
    Thread,
    as_noted,
    copy_db,
    delete_blobs,
    delete_rows,
    record_to_postgres,
    recording,
    scenarios,
    shuffle_rows,
)
from turnstate.history.changes import DiffReport, Standpoint, diff_report
from turnstate.history.chart import chart_of
from turnstate.history.gaps import Gap
from turnstate.history.jsonform import jsonable
from turnstate.history.key_log import KeyLog
from turnstate.history.keys import Key
from turnstate.history.log import Log, Logged, span_of
from turnstate.history.log_words import change_in_words, value_of
from turnstate.history.places import Miss, turn_place
from turnstate.history.thread import History
from turnstate.history.wording import difference_in_words, equal_values
from turnstate_backends.interface import Store
from turnstate_backends.stores import open_store
from turnstate_backends.values import Absent, Stored, Tagged

BBOX = Key("tool_state", "gazet/get_aoi/bbox")
ALL = [each.name for each in scenarios()]
# What these hold is compared by tests of their own: class instances, deltas, ciphertext.
OTHER_VALUES = {"values", "deltas", "encrypted", "functional"}


def log_of(store: Store, thread: str, **options: Any) -> Log:
    return Log(History(store, thread, **options))


def value(version: Logged) -> Any:
    assert isinstance(version.now, Stored)
    return value_of(version.key, version.now)[0]


def brief(versions: Iterator[Logged]) -> list[tuple[Any, ...]]:
    """Turn, nodes, change and whether the turn ended with it."""
    return [(v.turns, v.nodes, v.change, v.ends_turn) for v in versions]


def without_payloads(versions: Iterator[Logged]) -> list[Logged]:
    return [replace(version, before=None, now=None) for version in versions]


# Recorded stores.


def test_the_area_of_the_demo_was_written_in_turns_1_and_3_by_the_tool() -> None:
    with open_store(str(recording("demo").path)) as store:
        log = log_of(store, "demo")
        versions = list(log.versions([BBOX]))
        assert brief(iter(versions)) == [
            ((1,), ("tool",), "added", True),
            ((3,), ("tool",), "changed", True),
        ]
        assert [value(v) for v in versions] == [[12.4, 55.5, 12.7, 55.8], [9.9, 56.1, 10.3, 56.2]]
        assert [v.step for v in versions] == [1, 9]
        assert not any(v.inferred or v.lost for v in versions)


def assert_log(store: Store, thread: Thread, scenario: str) -> None:
    """What a turn ended with is what the graph held then; a turn without a version of a channel changed nothing."""
    log = log_of(store, thread.id, messages=thread.more.get("messages", "messages"))
    forwards = list(log.versions())
    assert without_payloads(log.versions(reverse=True)) == without_payloads(reversed(forwards))
    assert without_payloads(log.versions(limit=3)) == without_payloads(iter(forwards[-3:]))
    if scenario in OTHER_VALUES:
        return
    whole = {turn.turn: turn for turn in thread.turns if turn.outcome == "value" and turn.retained}
    for channel in sorted({name for turn in whole.values() for name in turn.written}):
        last = {n: v for v in log.versions([Key(channel)]) if v.ends_turn for n in v.turns}
        held: Any = None
        for number, turn in sorted(whole.items()):
            if number in last and channel in turn.state:
                assert as_noted(jsonable(value(last[number]))) == turn.state[channel], (number, channel)
            elif number - 1 in whole and channel in turn.state and not any(v.lost for v in forwards):
                assert turn.state[channel] == held, (number, channel)
            held = turn.state.get(channel)


@pytest.mark.parametrize("name", ALL)
def test_a_recorded_store_logs_what_each_turn_ended_with(name: str) -> None:
    recorded = recording(name)
    with open_store(str(recorded.path)) as store:
        for thread in recorded.threads.values():
            if thread.total:
                assert_log(store, thread, name)


@pytest.mark.parametrize("name", ["demo", "forks", "parallel", "several", "edited", "trimmed", "durability"])
def test_the_order_of_rows_changes_no_log(name: str, tmp_path: Path) -> None:
    recorded = recording(name)
    path = copy_db(recorded.path, tmp_path)
    shuffle_rows(path, seed=3)
    for thread in recorded.threads.values():
        if thread.total:
            with open_store(str(recorded.path)) as store, open_store(str(path)) as shuffled:
                assert list(log_of(shuffled, thread.id).versions()) == list(
                    log_of(store, thread.id).versions()
                )


@pytest.mark.parametrize("name", ["demo", "forks", "parallel", "edited", "trimmed", "durability"])
def test_postgres_logs_what_each_turn_ended_with(name: str, pg_dsn: str) -> None:
    recorded = record_to_postgres(name, pg_dsn)
    with open_store(pg_dsn) as store:
        for thread in recorded.threads.values():
            assert_log(store, thread, name)


def test_tasks_that_wrote_in_one_super_step_are_one_version() -> None:
    with open_store(str(recording("parallel").path)) as store:
        versions = list(log_of(store, "parallel").versions([Key("tool_state")]))
    assert [(v.turns, v.nodes) for v in versions] == [
        ((1,), ("maps", "weather")),
        ((2,), ("maps", "weather")),
    ]


# Generated conversations.

_SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def expected(exchanges: Sequence[Exchange]) -> dict[Key, list[tuple[int, str, Any]]]:
    """Key → turn, change and value of each write, by what the script made the nodes return."""
    found: dict[Key, list[tuple[int, str, Any]]] = {}

    def wrote(key: Key, turn: int, new: Any) -> None:
        before = found.setdefault(key, [])
        same = bool(before) and repr(before[-1][2]) == repr(new)
        before.append((turn, "same" if same else "changed" if before else "added", new))

    for turn, exchange in enumerate(exchanges, 1):
        for update in exchange.updates:
            for name, item in update.items():
                wrote(Key("tool_state", name), turn, item)
        if exchange.plan is not None:
            wrote(Key("plan"), turn, exchange.plan)
    return found


def assert_conversation(store: Store, exchanges: Sequence[Exchange]) -> None:
    log = log_of(store, "t")
    for key, writes in expected(exchanges).items():
        versions = list(log.versions([key]))
        told = [(v.turns[0], v.change, repr(value(v))) for v in versions]
        assert told == [(turn, change, repr(new)) for turn, change, new in writes], key
        last = {turn: at for at, (turn, _, _) in enumerate(writes)}
        assert [at for at, v in enumerate(versions) if v.ends_turn] == sorted(last.values()), key
        assert all(v.nodes == ("tool",) for v in versions)
        assert KeyLog(log, key).turns_written == tuple(sorted(last))
    every = [(v.row, v.key) for v in log.versions()]
    alone = [(v.row, key) for key in expected(exchanges) for v in log.versions([key])]
    assert sorted(alone, key=str) == sorted((v for v in every if v[1] in expected(exchanges)), key=str)
    assert [row for row, _ in every] == sorted(row for row, _ in every)


@settings(_SETTINGS, max_examples=40)
@given(exchanges=CONVERSATIONS, durability=st.sampled_from(["sync", "async"]), seed=st.integers(0, 99))
def test_a_generated_conversation_is_logged_as_its_script_says(
    tmp_path_factory: pytest.TempPathFactory, exchanges: list[Exchange], durability: str, seed: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        run(saver, "t", exchanges, durability)
    with open_store(str(path)) as store:
        assert_conversation(store, exchanges)
    shuffle_rows(path, seed)
    with open_store(str(path)) as store:
        assert_conversation(store, exchanges)


# What reducers and channels do by themselves.


def latest_two(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any]:
    merged = {**(old or {}), **(new or {})}
    return dict(list(merged.items())[-2:])


class Kept(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]
    notes: Annotated[dict[str, Any], latest_two]
    signal: Annotated[str, EphemeralValue(str)]
    plan: str


def converse(path: Path, turns: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Each turn runs one node per update, one after the other."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for number, updates in enumerate(turns, 1):
            graph = StateGraph(Kept)
            names = [START, *(f"n{i}" for i in range(len(updates))), END]
            for name, update in zip(names[1:], updates, strict=False):
                graph.add_node(name, lambda _, update=update: update)
            for before, after in pairwise(names):
                graph.add_edge(before, after)
            graph.compile(checkpointer=saver).invoke(
                {"messages": [{"role": "user", "content": f"q{number}"}]},
                {"configurable": {"thread_id": "t"}},
                durability="sync",
            )


def log_in(path: Path, key: Key) -> list[tuple[Any, ...]]:
    with open_store(str(path)) as store:
        log = log_of(store, "t")
        forwards = list(log.versions([key]))
        # What was there before may be read from another row each way, with a set in another order.
        backwards = log.versions([key], reverse=True)
        assert [replace(v, before=None) for v in backwards] == [
            replace(v, before=None) for v in forwards[::-1]
        ]
        return [(v.turns, v.change, v.inferred, v.ends_turn, v.now and value(v)) for v in forwards]


def test_an_entry_that_a_reducer_drops_is_removed_where_it_went_and_added_when_it_comes_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"notes": {"a": 1}}], [{"notes": {"b": 2}}, {"notes": {"c": 3}}], [{"notes": {"a": 4}}]])
    assert log_in(path, Key("notes", "a")) == [
        ((1,), "added", False, True, 1),
        ((2,), "removed", True, True, None),
        ((3,), "added", False, True, 4),
    ]
    assert log_in(path, Key("notes", "b")) == [
        ((2,), "added", False, True, 2),
        ((3,), "removed", True, True, None),
    ]


def test_of_several_writes_in_a_turn_the_last_is_what_it_ended_with(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"plan": "a"}, {"plan": "b"}, {"plan": "b"}], [{}], [{"plan": "a"}]])
    assert log_in(path, Key("plan")) == [
        ((1,), "added", False, False, "a"),
        ((1,), "changed", False, False, "b"),
        ((1,), "same", False, True, "b"),
        ((3,), "changed", False, True, "a"),
    ]


def test_a_value_that_is_kept_for_one_step_is_removed_in_the_next(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"signal": "go"}, {}], [{"signal": "go"}, {"signal": "stop"}, {}]])
    assert log_in(path, Key("signal")) == [
        ((1,), "added", False, False, "go"),
        ((1,), "removed", True, True, None),
        ((2,), "added", False, False, "go"),
        ((2,), "changed", False, False, "stop"),
        ((2,), "removed", True, True, None),
    ]


def test_without_any_write_row_changed_values_tell_the_versions(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"plan": "a"}], [{}], [{"plan": "b"}]])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM writes")
    assert log_in(path, Key("plan")) == [
        ((1,), "added", True, True, "a"),
        ((3,), "changed", True, True, "b"),
    ]


# What is no longer kept, or cannot be read.


def test_gaps_stand_where_they_are_and_what_was_written_in_them_has_no_turn() -> None:
    with open_store(str(recording("demo-pruned").path)) as store:
        log = log_of(store, "demo")
        entries = list(KeyLog(log, BBOX))
        gaps = [entry for entry in entries if isinstance(entry, Gap)]
        versions = [entry for entry in entries if isinstance(entry, Logged)]
        assert entries == [*gaps, *versions]
        assert [(gap.turns, gap.kind, gap.after) for gap in gaps] == [
            ((1,), "pruned", None),
            ((2,), "thinned", None),
        ]
        assert [(v.turns, v.change, v.lost, v.inferred, v.time is None) for v in versions] == [
            ((), None, True, True, True),
            ((3,), "changed", False, False, False),
        ]
        newest_first = list(KeyLog(log, BBOX, reverse=True))
        assert newest_first == entries[::-1]


def test_a_turn_in_the_middle_that_is_gone_is_a_gap_between_two_versions(tmp_path: Path) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        ids = [id for (id,) in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")]
    delete_rows(path, "demo", ids[4:8], writes=True)
    with open_store(str(path)) as store:
        entries = list(KeyLog(log_of(store, "demo"), BBOX))
    assert [e.turns if isinstance(e, Gap) else (e.turns, e.change) for e in entries] == [
        ((1,), "added"),
        (2,),
        ((3,), "changed"),
    ]


def test_a_value_whose_row_is_gone_keeps_its_kind_and_is_compared_with_nothing(pg_dsn: str) -> None:
    recorded = record_to_postgres("demo", pg_dsn)
    thread = recorded.threads["demo"]
    for turn in (1, 2):  # the empty update of turn 2 made a version of its own
        assert delete_blobs(pg_dsn, "demo", "tool_state", checkpoint=thread.turn(turn).last_checkpoint)
    with open_store(pg_dsn) as store:
        found = list(log_of(store, "demo").versions([BBOX]))
    assert [(v.turns, v.change) for v in found] == [((1,), "added"), ((3,), None)]
    assert isinstance(found[0].now, Absent)
    assert found[0].now.kind == "value_missing"
    assert value(found[1]) == [9.9, 56.1, 10.3, 56.2]


def test_encrypted_versions_are_listed_with_their_writers() -> None:
    with open_store(str(recording("encrypted").path)) as store:
        log = KeyLog(log_of(store, "encrypted"), Key("plan"))
        versions = [entry for entry in log if isinstance(entry, Logged)]
    last = versions[-1].now
    assert isinstance(last, Absent)
    assert (last.kind, versions[-1].nodes, versions[-1].change) == ("encrypted", ("tool",), None)


# Parts of a log.


def test_a_span_of_turns_has_the_versions_of_those_turns_only() -> None:
    with open_store(str(recording("plain").path)) as store:
        log = log_of(store, "plain")
        every = list(log.versions([Key("plan")]))
        for first, last in ((1, 10), (3, 3), (4, 7), (10, 10)):
            span = span_of(log.history, first, last)
            found = list(log.versions([Key("plan")], span=span))
            assert found == [v for v in every if first <= v.turns[0] <= last]
            assert list(log.versions([Key("plan")], span=span, reverse=True)) == found[::-1]
            assert list(log.versions([Key("plan")], span=span, limit=1)) == found[-1:]
        assert list(log.versions([Key("plan")], span=span_of(log.history, 0, 0))) == []


def test_no_limit_reads_more_than_it_must_to_be_the_end_of_the_whole() -> None:
    with open_store(str(recording("plain").path)) as store:
        log = log_of(store, "plain")
        every = list(log.versions())
        for limit in (0, 1, 5, len(every), len(every) + 1):
            assert list(log.versions(limit=limit)) == every[max(len(every) - limit, 0) :]
            assert list(log.versions(limit=limit, reverse=True)) == every[::-1][:limit]


# Words and equality.


def test_of_a_long_list_only_the_first_item_that_differs_is_told(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    numbers = [n / 7 for n in range(1000)]
    converse(path, [[{"plan": numbers}], [{"plan": [*numbers[:5], 0.5, *numbers[6:-1], 0.25]}]])
    with open_store(str(path)) as store:
        told = [change_in_words(v) for v in log_of(store, "t").versions([Key("plan")])]
    assert told[1] == "1000 items: [5] 0.7142857142857143 → 0.5, …"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("a", "b", '"a" → "b"'),
        (1, None, "1 → null"),
        ([1, 2], [1, 2, 3, 4], "+2 items: 3, 4"),
        ([1, 2, 3], [1, 3], "-1 item: 2"),
        ([1, 2, 3], [1, 5, 3], "[1] 2 → 5"),
        ([1, 2, 3], [4, 5, 3], "2 of 3 items: [0] 1 → 4, …"),
        ([1, 2], [3], "-2 items: 1, 2; +1 item: 3"),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "b: 2 → 3"),
        ({"a": 1, "b": 2}, {"b": 2, "c": 3}, "-a, +c"),
        ({"a": 1, "b": 2}, {"a": 2, "b": 3}, "~a, ~b"),
        (Tagged("m.Point", {"x": 1}), Tagged("m.Point", {"x": 2}), "Point x: 1 → 2"),
        ([1], {"a": 1}, "1 item: 1 → 1 field: a"),
    ],
)
def test_a_difference_is_told_in_one_line(old: Any, new: Any, words: str) -> None:
    assert difference_in_words(old, new) == words


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}, True),
        (Tagged("builtins.set", ["a", "b"]), Tagged("builtins.set", ["b", "a"]), True),
        (Tagged("builtins.set", ["a", "b"]), Tagged("builtins.set", ["b", "c"]), False),
        (Tagged("m.A", {"x": 1}), Tagged("m.B", {"x": 1}), False),
        ([1, [2, 3]], [1, [2, 4]], False),
    ],
)
def test_values_are_equal_by_type_and_content_and_not_by_an_order_they_have_not(
    old: Any, new: Any, equal: bool
) -> None:
    assert equal_values(old, new) is equal


def test_a_set_stored_in_another_order_is_the_same_value(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"plan": {"x", "y"}}], [{"plan": {"x", "y"}}]])
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT checkpoint_id, checkpoint FROM checkpoints ORDER BY 1").fetchall()
        (id, last) = rows[-1]
        either = b"\x92\xa1x\xa1y", b"\x92\xa1y\xa1x"
        stored = either[0] if either[0] in last else either[1]
        other = either[1] if stored == either[0] else either[0]
        for id, payload in rows[-1:]:
            connection.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?",
                (payload.replace(stored, other), id),
            )
    assert [found[:2] for found in log_in(path, Key("plan"))] == [((1,), "added"), ((2,), "same")]


def test_an_equal_value_in_an_entry_that_changed_beside_it_says_what_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"notes": {"a": {"value": 7, "seq": n}}}] for n in (1, 2)])
    with open_store(str(path)) as store:
        versions = list(log_of(store, "t").versions([Key("notes", "a")]))
        assert [(v.change, change_in_words(v)) for v in versions] == [
            ("added", "7"),
            ("changed", "value equal, beside it seq: 1 → 2"),
        ]


def secret(content: str) -> Any:
    from pydantic import SecretStr

    return SecretStr(content)


ENTRIES: list[tuple[Any, Any, str, str]] = [
    ({"value": 7, "seq": 1}, {"value": 7, "seq": 1}, "same", "7"),
    ({"value": 7, "a": 1, "b": 2}, {"value": 7, "b": 2, "a": 1}, "same", "7"),
    ({"value": {1, 2}, "a": {"x", "y"}}, {"value": {2, 1}, "a": {"y", "x"}}, "same", "2 items: 1, 2"),
    ({"value": 7}, {"value": 7, "seq": 1}, "changed", "value equal, beside it +seq"),
    ({"value": 7, "seq": 1}, {"value": 7}, "changed", "value equal, beside it -seq"),
    ({"value": 7, "a": 1, "b": 1}, {"value": 7, "a": 2, "b": 2}, "changed", "value equal, beside it ~a, ~b"),
    ({"value": 7, "a": 1}, {"value": 7, "a": 1.0}, "changed", "value equal, beside it a: 1 → 1.0"),
    ({"value": 7, "a": 1}, {"value": 8, "a": 2}, "changed", "7 → 8"),
    ({"value": 7}, 7, "changed", "1 field: value → 7"),
    (7, {"value": 7}, "changed", "7 → 1 field: value"),
    (
        {"value": 7, "key": secret("hunter1")},
        {"value": 7, "key": secret("hunter2")},
        "changed",
        "value equal, beside it key: SecretStr → another secret",
    ),
    ({"value": secret("hunter1")}, {"value": secret("hunter2")}, "changed", "SecretStr → another secret"),
    ([1, secret("hunter1")], [1, secret("hunter2")], "changed", "[1] SecretStr → another secret"),
    ([secret("hunter1")], [], "changed", "-1 item: SecretStr"),
    (secret("hunter1"), [1, [secret("hunter2")]], "changed", "masked → 2 items: 1, list[1]"),
]


@pytest.mark.parametrize(("old", "new", "change", "words"), ENTRIES)
def test_an_entry_is_changed_where_anything_of_it_is_and_log_and_diff_agree(
    tmp_path: Path, old: Any, new: Any, change: str, words: str
) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"notes": {"a": each}}] for each in (old, new)])
    with open_store(str(path)) as store:
        history = History(store, "t")
        _, logged = Log(history).versions([Key("notes", "a")])
        ends = [turn_place(history, turn) for turn in (1, 2)]
        assert not any(isinstance(end, Miss) for end in ends)
        report = diff_report(*(Standpoint(history, end) for end in ends), "a")  # type: ignore[arg-type]
    assert isinstance(report, DiffReport)
    assert (logged.change, change_in_words(logged)) == (change, words)
    assert [each.change for each in report.changes] == [each for each in [change] if each != "same"]


def test_what_was_written_and_dropped_in_one_super_step_was_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(Kept)
        for name in "abc":  # the reducer keeps two of them
            graph.add_node(name, lambda _, name=name: {"notes": {name: 1}})
            graph.add_edge(START, name).add_edge(name, END)
        graph.compile(checkpointer=saver).invoke(
            {"messages": [{"role": "user", "content": "q1"}]},
            {"configurable": {"thread_id": "t"}},
            durability="sync",
        )
    converse(path, [[{"notes": {"a": 2}}]])
    with open_store(str(path)) as store:
        log = log_of(store, "t")
        versions = list(log.versions([Key("notes", "a")]))
        assert [(v.turns, v.change, change_in_words(v)) for v in versions] == [
            ((1,), None, "not there after the step"),
            ((2,), "added", "2"),
        ]
        [row] = chart_of(log, [Key("notes", "a")]).rows
    assert row.cells == ("absent", "written")
