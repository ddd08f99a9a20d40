"""What changed between turns of recorded threads, against what the running graphs held then."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonpatch
import ormsgpack
import pytest

from recorded import (
    Thread,
    copy_db,
    delete_blobs,
    record_to_postgres,
    recording,
    scenarios,
)
from turnstate.history.changes import DiffReport, KeyChange, Standpoint, diff_report
from turnstate.history.diff import patch
from turnstate.history.jsonform import jsonable
from turnstate.history.keys import AmbiguousKey
from turnstate.history.places import Miss, Place, turn_place
from turnstate.history.reading import read
from turnstate.history.thread import History
from turnstate_backends.interface import Store
from turnstate_backends.stores import open_store

NAMES = [each.name for each in scenarios()]
# Whose truth is not written as JSON of the same form.
OTHER_VALUES = {"values", "deltas", "encrypted", "functional"}


def history_of(store: Store, thread: Thread) -> History:
    return History(store, thread.id, messages=thread.more.get("messages", "messages"))


def at(history: History, turn: int) -> Standpoint:
    place = turn_place(history, turn)
    assert isinstance(place, Place)
    return Standpoint(history, place)


def report_of(history: History, first: int, last: int, key: str | None = None) -> DiffReport:
    report = diff_report(at(history, first), at(history, last), key)
    assert isinstance(report, DiffReport)
    return report


def strict(form: Any) -> str:
    return json.dumps(form, sort_keys=True)


def readable_pairs(thread: Thread) -> Iterator[tuple[int, int]]:
    """Neighbouring turns whose ends can be read, and the first with the last, in both directions."""
    kept = [turn.turn for turn in thread.turns if turn.outcome == "value"]
    yield from pairwise(kept)
    if len(kept) > 2:
        yield kept[0], kept[-1]
        yield kept[-1], kept[0]


def assert_patches_apply(report: DiffReport) -> None:
    for change in report.changes:
        assert change.operations or change.entry
        patched = jsonpatch.JsonPatch(json.loads(json.dumps(patch(change.operations))))
        if change.change == "changed":
            assert strict(patched.apply(json.loads(json.dumps(change.old)))) == strict(change.new)


def assert_values_are_the_ends(history: History, report: DiffReport) -> None:
    """Both sides of a change are what a read of the key gives there."""
    for change in report.changes:
        for side, end in ((change.old, report.old), (change.new, report.new)):
            reading = read(history, change.key.full_name, turn_place(history, end.turn or 0))
            if reading.outcome == "value":
                assert strict(jsonable(reading.value)) == strict(side), change.name


def differing(thread: Thread, first: int, last: int) -> set[str]:
    """The channels that the graph held differently, of those written by both turns or by one."""
    a, b = thread.turn(first), thread.turn(last)
    held_a, held_b = ({c: t.state[c] for c in t.written if c in t.state} for t in (a, b))
    return {c for c in held_a.keys() | held_b.keys() if strict(held_a.get(c)) != strict(held_b.get(c))}


def assert_thread(store: Store, thread: Thread, *, compare: bool) -> None:
    history = history_of(store, thread)
    for first, last in readable_pairs(thread):
        report = report_of(history, first, last)
        assert_patches_apply(report)
        assert_values_are_the_ends(history, report)
        if compare:
            changed = {change.key.channel for change in report.changes}
            # A reducer's default stands in rows before anything was written.
            assert changed - differing(thread, first, last) <= {
                change.key.channel for change in report.changes if not (change.old and change.new)
            }
            assert differing(thread, first, last) <= changed


@pytest.mark.parametrize("name", NAMES)
def test_changes_of_recorded_threads_are_those_of_the_graphs_state(name: str) -> None:
    recorded = recording(name)
    with open_store(str(recorded.path)) as store:
        for thread in recorded.threads.values():
            if name != "encrypted":
                assert_thread(store, thread, compare=name not in OTHER_VALUES)


@pytest.mark.parametrize("name", ["demo", "trimmed", "forks", "values", "deltas"])
def test_the_same_runs_differ_alike_in_postgresql(name: str, pg_dsn: str) -> None:
    recorded = record_to_postgres(name, pg_dsn)
    with open_store(pg_dsn) as store:
        for thread in recorded.threads.values():
            assert_thread(store, thread, compare=name not in OTHER_VALUES)


def paths(change: KeyChange) -> list[tuple[str, str]]:
    return [(each["op"], each["path"]) for each in patch(change.operations)]


def test_every_kind_of_value_is_compared_by_what_it_means() -> None:
    recorded = recording("values")
    with open_store(str(recorded.path)) as store:
        history = history_of(store, next(iter(recorded.threads.values())))
        found = {change.name: paths(change) for change in report_of(history, 1, 2).changes}
    assert {name: found[name] for name in found if name not in ("messages", "generic")} == {
        "members": [("remove", "/$value/1"), ("remove", "/$value/1"), ("add", "/$value/1")],
        "model": [("replace", "/$value/name")],
        "nothing": [("replace", "")],
        "point": [("replace", "/$value/y")],
    }


# Stores that were made for one case.


def rewritten(folder: Path, turn: int, **channels: Any) -> tuple[Path, Thread]:
    """A copy of the demo whose channels hold other values as a turn ended; a channel that is None is taken away."""
    thread = recording("demo").threads["demo"]
    path = copy_db(recording("demo").path, folder)
    connection = sqlite3.connect(path)
    with connection:
        where = (thread.id, thread.turn(turn).last_checkpoint)
        query = "SELECT checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_id = ?"
        saved = ormsgpack.unpackb(connection.execute(query, where).fetchone()[0], ext_hook=_kept_ext)
        values = saved["channel_values"] | channels
        saved["channel_values"] = {name: value for name, value in values.items() if value is not None}
        update = "UPDATE checkpoints SET checkpoint = ? WHERE thread_id = ? AND checkpoint_id = ?"
        connection.execute(update, (ormsgpack.packb(saved, option=_OPTIONS), *where))
    connection.close()
    return path, thread


_OPTIONS = ormsgpack.OPT_NON_STR_KEYS


def _kept_ext(tag: int, data: bytes) -> ormsgpack.Ext:
    return ormsgpack.Ext(tag, data)


def _secret(text: str) -> ormsgpack.Ext:
    return ormsgpack.Ext(0, ormsgpack.packb(["pydantic.types", "SecretStr", text]))


def changes_of(path: Path, thread: Thread, first: int, last: int, **options: Any) -> list[KeyChange]:
    with open_store(str(path)) as store:
        history = history_of(store, thread)
        report = diff_report(at(history, first), at(history, last), **options)
    assert isinstance(report, DiffReport)
    return list(report.changes)


def test_a_set_written_in_another_order_did_not_change(tmp_path: Path) -> None:
    def members(*names: str) -> ormsgpack.Ext:
        return ormsgpack.Ext(0, ormsgpack.packb(["builtins", "set", list(names)]))

    path, thread = rewritten(tmp_path, 1, plan=members("a", "b"))
    folder = tmp_path / "both"
    folder.mkdir()
    moved = copy_db(path, folder)
    path, _ = rewritten(tmp_path, 2, plan=members("b", "a"))
    _take_row(moved, path, thread.turn(1).last_checkpoint)
    assert [change.name for change in changes_of(path, thread, 1, 2) if change.name == "plan"] == []


def _take_row(source: Path, target: Path, checkpoint: str) -> None:
    connection = sqlite3.connect(target)
    with connection:
        connection.execute("ATTACH ? AS other", (str(source),))
        connection.execute("DELETE FROM main.checkpoints WHERE checkpoint_id = ?", (checkpoint,))
        connection.execute(
            "INSERT INTO main.checkpoints SELECT * FROM other.checkpoints WHERE checkpoint_id = ?",
            (checkpoint,),
        )
    connection.close()


def test_two_secrets_are_told_apart_and_not_shown_unless_asked(tmp_path: Path) -> None:
    first, thread = rewritten(tmp_path, 1, plan=_secret("hunter2"))
    folder = tmp_path / "both"
    folder.mkdir()
    kept = copy_db(first, folder)
    path, _ = rewritten(tmp_path, 2, plan=_secret("hunter3"))
    _take_row(kept, path, thread.turn(1).last_checkpoint)
    (change,) = changes_of(path, thread, 1, 2, asked="plan")
    assert "hunter" not in repr(change)
    assert paths(change) == [("replace", "")]
    (revealed,) = changes_of(path, thread, 1, 2, asked="plan", reveal=True)
    assert (revealed.old["$value"], revealed.new["$value"]) == ("hunter2", "hunter3")


def test_a_mapping_that_became_a_list_is_one_change_of_its_channel(tmp_path: Path) -> None:
    path, thread = rewritten(tmp_path, 2, tool_state=[1])
    (change,) = [each for each in changes_of(path, thread, 1, 2) if each.key.channel == "tool_state"]
    assert (change.name, change.change, change.new, paths(change)) == (
        "tool_state",
        "changed",
        [1],
        [("replace", "")],
    )


def test_a_channel_that_came_with_entries_is_listed_by_them(tmp_path: Path) -> None:
    path, thread = rewritten(tmp_path, 1, tool_state=None)
    changes = changes_of(path, thread, 1, 2)
    assert [(c.name, c.change) for c in changes if c.key.channel == "tool_state"] == [
        ("gazet/get_aoi/bbox", "added")
    ]


def test_a_channel_that_cannot_be_decoded_is_a_change_of_kind_and_no_removal(tmp_path: Path) -> None:
    path, thread = rewritten(tmp_path, 2, tool_state=ormsgpack.Ext(99, b"?"))
    (change,) = [each for each in changes_of(path, thread, 1, 2) if each.key.channel == "tool_state"]
    assert (change.change, change.absences) == ("changed", ("undecodable",))
    (entry,) = changes_of(path, thread, 1, 2, asked="gazet/get_aoi/bbox")
    assert (entry.change, entry.absences) == ("changed", ("undecodable",))


def test_a_value_whose_blob_was_deleted_is_missing_and_not_removed(pg_dsn: str) -> None:
    thread = record_to_postgres("demo", pg_dsn).threads["demo"]
    assert delete_blobs(pg_dsn, "demo", "tool_state", checkpoint=thread.turn(3).last_checkpoint) == 1
    with open_store(pg_dsn) as store:
        history = history_of(store, thread)
        (change,) = [c for c in report_of(history, 1, 3).changes if c.key.channel == "tool_state"]
        assert (change.change, change.absences) == ("changed", ("value_missing",))


def test_what_is_missing_at_both_ends_is_the_same_where_its_version_is(pg_dsn: str) -> None:
    thread = record_to_postgres("demo", pg_dsn).threads["demo"]
    for turn in (1, 2):
        delete_blobs(pg_dsn, "demo", "tool_state", checkpoint=thread.turn(turn).last_checkpoint)
    with open_store(pg_dsn) as store:
        history = history_of(store, thread)
        end = at(history, 2)
        input_row = Standpoint(history, Place(end.place.row + 1, 3))
        same, other = diff_report(end, input_row), report_of(history, 1, 2)
    assert isinstance(same, DiffReport)
    assert (same.changes, same.incomparable) == ((), ())
    assert [key.key.channel for key in other.incomparable] == ["tool_state"]
    assert "tool_state" not in {change.key.channel for change in other.changes}


def test_an_unknown_key_has_no_report_and_a_known_one_may_be_at_neither_end() -> None:
    recorded = recording("demo")
    with open_store(str(recorded.path)) as store:
        history = history_of(store, recorded.threads["demo"])
        assert isinstance(diff_report(at(history, 1), at(history, 2), "plam"), Miss)
        report = diff_report(at(history, 0), at(history, 0), "plan")
    assert isinstance(report, DiffReport)
    assert (report.nowhere, report.changes) == (True, ())


def test_an_entry_of_two_channels_is_ambiguous(tmp_path: Path) -> None:
    path, thread = rewritten(tmp_path, 2, plan={"gazet/get_aoi/bbox": 1})
    with pytest.raises(AmbiguousKey):
        changes_of(path, thread, 1, 2, asked="gazet/get_aoi/bbox")
