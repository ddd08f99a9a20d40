"""Gaps against what was really deleted: recorded stores as literals, and random deletions from whole ones."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorded import (
    copy_db,
    delete_blobs,
    delete_rows,
    record_to_postgres,
    recording,
    scenarios,
    shuffle_rows,
)
from turnstate.history.gaps import Gap, GapReport, gap_report
from turnstate.history.thread import History
from turnstate_backends.interface import Store
from turnstate_backends.stores import open_store

Told = list[tuple[str, tuple[int, ...], int | None, str]]
"""Kind, turns, steps missing (None where turns of another gap share them), and how sure that is."""


def told(report: GapReport) -> Told:
    return [
        (g.kind, g.turns, g.steps.count if g.steps else None, g.parts[0].steps.sure if g.parts else "")
        for g in report.gaps
    ]


def report_of(store: Store, thread: str, ns: str = "") -> GapReport:
    return gap_report(History(store, thread, ns))


@contextmanager
def reported(path: Path, thread: str) -> Iterator[GapReport]:
    with open_store(str(path)) as store:
        yield report_of(store, thread)


# Each turn of the agent is four rows: input, question, tool, answer. The first row of a thread is step -1.
RETENTION: dict[str, Told] = {
    "front": [("pruned", (1, 2, 3), 12, "exact"), ("thinned", (4,), 1, "exact")],
    "front-and-writes": [("pruned", (1, 2, 3), 12, "exact"), ("thinned", (4,), 1, "exact")],
    "front-at-input": [("pruned", (1, 2), 8, "exact"), ("thinned", (3,), 4, "exact")],
    # Ten rows of turns 1 to 3, and nothing is left that tells how they divide.
    "front-mid-turn": [("pruned", (1, 2), None, "exact"), ("thinned", (3,), None, "exact")],
    "latest-only": [("pruned", (1, 2, 3, 4), 16, "exact"), ("thinned", (5,), 3, "exact")],
    "latest-by-saver": [("pruned", (1, 2, 3, 4), None, "exact"), ("thinned", (5,), None, "exact")],
    "first-and-last": [("pruned", (2, 3, 4), 12, "exact"), ("thinned", (5,), 1, "exact")],
    "one-turn-gone": [("thinned", (2,), 4, "exact")],
    "thinned": [("thinned", (n,), 3, "exact") for n in (1, 2, 3, 4)],
}
DURABILITY: dict[str, Told] = {
    "sync": [],
    "async": [],
    "exit": [("not_recorded", (n,), 4, "exact") for n in (1, 2, 3)],
    "exit-several": [("not_recorded", (1,), 4, "exact"), ("not_recorded", (2, 3), 4, "exact")],
    "exit-mixed": [("not_recorded", (2,), 4, "exact")],
    "exit-nodes": [("not_recorded", (1,), 4, "exact"), ("not_recorded", (2,), 4, "exact")],
    "exit-resumed": [("not_recorded", (1,), 1, "exact"), ("not_recorded", (2,), 1, "exact")],
}
UNSURE: dict[str, Told] = {
    # Six were asked and three are counted: the twenty steps are more turns' than turn 1's.
    "front-and-trimmed": [("pruned", (1,), 20, "exact"), ("thinned", (2,), 1, "exact")],
    "front-and-named": [("pruned", (1, 2, 3, 4), 10, "exact"), ("thinned", (5,), 1, "exact")],
}
EXPECTED = {"retention": RETENTION, "durability": DURABILITY, "retention-unsure": UNSURE}
CASES = [(name, thread) for name, threads in EXPECTED.items() for thread in threads]


@pytest.mark.parametrize(("name", "thread"), CASES)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_each_recorded_deletion_is_told_in_any_order_of_rows(
    name: str, thread: str, seed: int | None, tmp_path: Path
) -> None:
    path = copy_db(recording(name).path, tmp_path)
    if seed is not None:
        shuffle_rows(path, seed)
    with reported(path, thread) as report:
        assert told(report) == EXPECTED[name][thread]


@pytest.mark.parametrize("name", list(EXPECTED))
def test_each_recorded_deletion_is_told_in_postgresql_too(name: str, pg_dsn: str) -> None:
    record_to_postgres(name, pg_dsn)
    with open_store(pg_dsn) as store:
        for thread, expected in EXPECTED[name].items():
            assert told(report_of(store, thread)) == expected, thread


def test_a_store_of_which_nothing_was_deleted_has_no_gaps_in_any_namespace() -> None:
    whole = [r for r in scenarios() if r.name not in EXPECTED and "pruned" not in r.name]
    assert len(whole) > 20
    for each in whole:
        with open_store(str(each.path)) as store:
            for thread in store.threads():
                for ns in thread.namespaces:
                    report = report_of(store, thread.id, ns)
                    assert report.losses == (), (each.name, thread.id, ns)
                    assert report.orphans.writes == report.orphans.blobs == 0


def test_writes_that_were_left_behind_tell_which_turn_each_deleted_step_belonged_to() -> None:
    with reported(recording("demo-pruned").path, "demo") as report:
        pruned, thinned = report.gaps
    # Eight rows of turns 1 and 2 were deleted, four of each; turn 2's end stands in turn 3's input row.
    assert (pruned.kind, pruned.turns, thinned.kind, thinned.turns) == ("pruned", (1,), "thinned", (2,))
    assert pruned.steps is not None
    assert thinned.steps is not None
    assert (pruned.steps.first, pruned.steps.last) == (-1, 2)
    assert (thinned.steps.first, thinned.steps.last) == (3, 6)
    assert report.turns.retained == (2, 3)
    assert [e.kind for e in pruned.evidence] == [
        "dangling_parent",
        "first_step",
        "question_count",
        "orphaned_writes",
    ]
    parent, first, questions, writes = pruned.evidence
    assert parent.details["step"] == 6
    assert first.details == {"step": 7}
    assert questions.details["questions"] == 2
    assert writes.details["writes"] == 11
    # Turn 1's input wrote messages, its tool plan and tool_state, its answer messages; turn 2's tool no plan.
    assert (pruned.recoverable.writes, pruned.recoverable.channels) == (4, ("messages", "plan", "tool_state"))
    assert (thinned.recoverable.writes, thinned.recoverable.channels) == (3, ("messages", "tool_state"))
    assert (report.orphans.writes, report.orphans.checkpoints, report.orphans.newer) == (11, 6, 0)


def test_without_writes_the_steps_are_counted_for_both_turns_together() -> None:
    with reported(recording("demo-pruned-writes").path, "demo") as report:
        assert told(report) == [("pruned", (1,), None, "exact"), ("thinned", (2,), None, "exact")]
        for gap in report.gaps:
            [part] = gap.parts
            assert (part.turns, part.steps.first, part.steps.last) == ((1, 2), -1, 6)
            assert gap.recoverable.writes == 0
        assert report.orphans.writes == 0


# The recorded thread "plain": ten turns of four rows each, so a step's turn is known.
PLAIN = recording("plain")
[PLAIN_THREAD] = [id for id, thread in PLAIN.threads.items() if thread.total == 10]
ROWS = 40


def turn_of_step(step: int) -> int:
    return (step + 1) // 4 + 1


def ids_by_step(path: Path) -> list[str]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = connection.execute(
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY json_extract(metadata, '$.step')",
            (PLAIN_THREAD,),
        ).fetchall()
    finally:
        connection.close()
    return [id for (id,) in rows]


IDS = ids_by_step(PLAIN.path)


def clear_parents(path: Path, kept: Collection[str]) -> None:
    """Null each parent that is not kept, as a saver that prunes does."""
    connection = sqlite3.connect(path)
    with connection:
        marks = ", ".join("?" * len(kept))
        connection.execute(
            f"UPDATE checkpoints SET parent_checkpoint_id = NULL "
            f"WHERE thread_id = ? AND parent_checkpoint_id NOT IN ({marks})",
            (PLAIN_THREAD, *kept),
        )
    connection.close()


def write_rows(path: Path, ids: Collection[str]) -> int:
    connection = sqlite3.connect(path)
    try:
        marks = ", ".join("?" * len(ids))
        query = f"SELECT count(*) FROM writes WHERE thread_id = ? AND checkpoint_id IN ({marks})"
        [count] = connection.execute(query, (PLAIN_THREAD, *ids)).fetchone()
    finally:
        connection.close()
    return int(count)


def check(report: GapReport, deleted: Collection[int], *, told_apart: bool) -> None:
    """What holds whatever was deleted.

    Args:
        report: The gaps.
        deleted: Steps of the deleted rows.
        told_apart: Steps that were deleted are never taken for steps that were not recorded.
    """
    pruned = [n for gap in report.gaps if gap.kind == "pruned" for n in gap.turns]
    assert sorted([*report.turns.retained, *pruned]) == list(range(1, report.turns.total + 1))
    newest = max(step for step in range(-1, ROWS - 1) if step not in deleted)
    gaps = report.losses if told_apart else report.gaps
    parts = {(gap.row, part): None for gap in gaps for part in gap.parts}
    steps: list[int] = []
    for _, part in parts:
        assert part.steps.sure == "exact"
        assert part.steps.first is not None
        assert part.steps.last is not None
        missing = range(part.steps.first, part.steps.last + 1)
        steps += missing
        assert {turn_of_step(step) for step in missing} <= set(part.turns)
    assert sorted(steps) == [step for step in sorted(deleted) if step < newest]
    for gap in report.gaps:
        check_place(gap, report)


def check_place(gap: Gap, report: GapReport) -> None:
    kept = {id: step for step, id in enumerate(IDS, -1)}
    assert gap.evidence
    after = -2 if gap.after is None else kept[gap.after]
    assert all(after < p.steps.first <= p.steps.last < kept[gap.before] for p in gap.parts if p.steps.count)  # type: ignore[operator]
    assert all(1 <= n <= report.turns.total for n in gap.turns)


@settings(max_examples=150, deadline=None)
@given(
    deleted=st.sets(st.integers(-1, ROWS - 2), max_size=ROWS - 1)
    | st.builds(lambda a, b: set(range(min(a, b), max(a, b))), st.integers(-1, 38), st.integers(-1, 38)),
    writes=st.booleans(),
    cleared=st.booleans(),
    seed=st.integers(0, 3),
)
def test_whatever_rows_are_deleted_every_step_and_every_turn_is_accounted_for(
    deleted: set[int], writes: bool, cleared: bool, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = copy_db(PLAIN.path, Path(folder))
        gone = [IDS[step + 1] for step in deleted]
        delete_rows(path, PLAIN_THREAD, gone, writes=writes)
        if cleared:
            clear_parents(path, set(IDS) - set(gone))
        shuffle_rows(path, seed)
        with reported(path, PLAIN_THREAD) as report:
            check(report, deleted, told_apart=not cleared)
            assert report.orphans.writes == (0 if writes else write_rows(path, gone))
            newest = max(id for id in IDS if id not in gone)
            left = 0 if writes else len([id for id in gone if id > newest and write_rows(path, [id])])
            assert report.orphans.newer == left


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        (range(0), []),
        (range(-1, 0), [("thinned", (1,), 1, "exact")]),
        (range(-1, 2), [("thinned", (1,), 3, "exact")]),
        (range(-1, 3), [("thinned", (1,), 4, "exact")]),
        (range(3, 7), [("thinned", (2,), 4, "exact")]),
        (range(3, 8), [("pruned", (2,), 4, "exact"), ("thinned", (3,), 1, "exact")]),
        (range(4, 6), [("thinned", (2,), 2, "exact")]),
        (range(5, 7), [("thinned", (2,), 2, "exact")]),
        (range(5, 8), [("pruned", (2,), 2, "exact"), ("thinned", (3,), 1, "exact")]),
        (range(5, 15), [("pruned", (2, 3), 6, "exact"), ("thinned", (4,), 4, "exact")]),
        (range(36, 39), []),
    ],
)
def test_rows_deleted_by_hand_are_told_with_the_turns_they_belonged_to(
    deleted: range, expected: Told, tmp_path: Path
) -> None:
    path = copy_db(PLAIN.path, tmp_path)
    delete_rows(path, PLAIN_THREAD, [IDS[step + 1] for step in deleted])
    with reported(path, PLAIN_THREAD) as report:
        assert told(report) == expected
        check(report, deleted, told_apart=True)


def test_rows_deleted_after_the_head_show_only_in_their_writes(tmp_path: Path) -> None:
    path = copy_db(PLAIN.path, tmp_path)
    delete_rows(path, PLAIN_THREAD, IDS[-3:])
    with reported(path, PLAIN_THREAD) as report:
        assert report.gaps == ()
        # The last of the three held an answer, and no task ran on it.
        assert (report.orphans.checkpoints, report.orphans.newer) == (2, 2)


def test_a_run_saved_by_one_row_is_told_apart_from_the_rows_that_were_deleted_before_it(
    tmp_path: Path,
) -> None:
    path = copy_db(recording("durability").path, tmp_path)
    connection = sqlite3.connect(path)
    [(first,)] = connection.execute(
        "SELECT min(checkpoint_id) FROM checkpoints WHERE thread_id = 'exit'"
    ).fetchall()
    connection.close()
    delete_rows(path, "exit", [first], writes=True)
    with reported(path, "exit") as report:
        # One row at step 3 was deleted; that its run had stored no other is not known any more.
        assert told(report) == [
            ("pruned", (1,), 5, "at_most"),
            ("not_recorded", (2,), 4, "exact"),
            ("not_recorded", (3,), 4, "exact"),
        ]


def test_a_missing_value_is_told_by_channel_version_and_turns_and_reads_no_value(pg_dsn: str) -> None:
    truth = record_to_postgres("demo", pg_dsn).threads["demo"]
    assert delete_blobs(pg_dsn, "demo", "tool_state", checkpoint=truth.turn(1).last_checkpoint) == 1
    with psycopg.connect(pg_dsn) as connection:
        row = connection.execute(
            "SELECT checkpoint -> 'channel_versions' ->> 'tool_state' FROM checkpoints WHERE checkpoint_id = %s",
            [truth.turn(1).last_checkpoint],
        ).fetchone()
        assert row is not None
    with open_store(pg_dsn) as store:
        report = report_of(store, "demo")
    [gap] = report.gaps
    # Written by turn 1's tool into step 1; turn 2's tool wrote an empty update, which is a new version, at step 5.
    assert (gap.kind, gap.turns, gap.channel, gap.version) == ("value_missing", (1, 2), "tool_state", row[0])
    assert gap.checkpoints == 4
    assert gap.recoverable.writes == 1
    assert report.turns.retained == (1, 2, 3)
    assert report.losses == (gap,)
    assert [e.kind for e in gap.evidence] == ["reference_without_row"]


def test_values_that_deleted_rows_left_in_postgresql_are_counted_for_the_turns_they_were_of(
    pg_dsn: str,
) -> None:
    record_to_postgres("demo-pruned", pg_dsn)
    with open_store(pg_dsn) as store:
        report = report_of(store, "demo")
        left = list(store.unreferenced_values("demo", ""))
    pruned, thinned = report.gaps
    assert (pruned.turns, thinned.turns) == ((1,), (2,))
    # Turn 1's question, tool and answer made messages, tool_state, messages; turn 2's question made messages, and
    # what its tool and its answer made is what turn 3's input row still refers to. Plan stands in the checkpoints.
    assert (pruned.recoverable.blobs, thinned.recoverable.blobs) == (3, 1)
    assert report.orphans.blobs == len(left) >= 4
    assert "orphaned_values" in [e.kind for e in pruned.evidence]


def test_values_left_over_are_told_of_the_hole_that_their_versions_lie_in(pg_dsn: str) -> None:
    record_to_postgres("retention", pg_dsn)
    with open_store(pg_dsn) as store:
        gaps = report_of(store, "thinned").gaps
    # Of each turn only its last row is kept. What its question made of messages is left; the rest is referred to.
    assert [(gap.turns, gap.recoverable.blobs, gap.recoverable.channels) for gap in gaps] == [
        ((n,), 1, ("messages",)) for n in (1, 2, 3, 4)
    ]
