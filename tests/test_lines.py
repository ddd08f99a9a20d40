"""Lines and ids: literals for the shapes people meet, and random forests for everything else."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstate.history.ids import id_step, id_time
from turnstate.history.lines import Branch, forest, matching
from turnstate_backends.interface import Checkpoint


def row(id: str, parent: str | None = None, step: int | None = 0, source: str | None = "loop") -> Checkpoint:
    return Checkpoint(id, parent, source, step, None)


ROOT = row("10", None, -1, "input")


def ids_of(rows: list[Checkpoint], tip: str | None = None) -> list[str]:
    wood = forest(rows)
    return [r.id for r in wood.line(tip or wood.head).rows]


def test_a_line_follows_parent_ids_whatever_the_order_of_rows() -> None:
    rows = [ROOT, row("11", "10"), row("12", "11"), row("13", "12")]
    for seed in range(10):
        random.Random(seed).shuffle(rows)
        assert ids_of(rows) == ["10", "11", "12", "13"]


def test_the_head_is_the_greatest_id_and_other_tips_are_branches() -> None:
    wood = forest([ROOT, row("11", "10"), row("12", "11"), row("13", "10"), row("14", "13")])
    line = wood.line(wood.head)
    assert [r.id for r in line.rows] == ["10", "13", "14"]
    assert wood.branches(line) == (Branch(tip="12", forked_at="10", length=2),)


def test_a_parent_that_is_gone_is_stitched_to_the_latest_older_island_and_leaves_a_seam() -> None:
    line = forest([ROOT, row("11", "10"), row("20", "19"), row("21", "20")]).line("21")
    assert [r.id for r in line.rows] == ["10", "11", "20", "21"]
    assert line.seams == {2}
    assert not line.front_missing
    assert line.parent(2) is None
    assert line.parent(3) == row("20", "19")


def test_a_parent_that_a_saver_cleared_is_stitched_as_well() -> None:
    line = forest([ROOT, row("20", None, 9), row("21", "20", 10)]).line("21")
    assert [r.id for r in line.rows] == ["10", "20", "21"]
    assert line.seams == {1}


def test_rows_that_tell_neither_a_parent_nor_a_step_follow_each_other_without_a_seam() -> None:
    line = forest(row(id, None, None, None) for id in ("3", "1", "2")).line("3")
    assert ([r.id for r in line.rows], line.seams) == (["1", "2", "3"], frozenset())
    lost = forest([row("1", None, None, None), row("2", None, 7)]).line("2")
    assert ([r.id for r in lost.rows], lost.seams) == (["1", "2"], frozenset({1}))
    by_its_id = row("1f1ecbb1-20be-635e-8006-d0fce39eff2c", None, None, None)  # step 6
    assert forest([row("1", None, None, None), by_its_id]).line(by_its_id.id).seams == frozenset({1})


def test_two_beginnings_are_never_stitched_to_each_other() -> None:
    rows = [ROOT, row("11", "10"), row("20", None, -1, "input"), row("21", "20")]
    assert ids_of(rows) == ["20", "21"]
    assert ids_of(rows, "11") == ["10", "11"]


def test_update_state_on_an_empty_thread_is_a_beginning() -> None:
    assert not forest([row("10", None, 0, "update")]).line("10").front_missing
    assert forest([row("10", None, 0, "loop")]).line("10").front_missing


def test_a_front_that_names_a_lost_parent_is_told_from_one_that_names_none() -> None:
    lost = forest([row("12", "11", 3)]).line("12")
    assert (lost.front_missing, lost.front_dangling) == (True, True)
    cleared = forest([row("12", None, 3)]).line("12")
    assert (cleared.front_missing, cleared.front_dangling) == (True, False)


def test_a_child_whose_id_sorts_first_stays_behind_its_parent_and_is_reported() -> None:
    wood = forest([ROOT, row("30", "10"), row("20", "30"), row("21", "20")])
    assert [r.id for r in wood.line("21").rows] == ["10", "30", "20", "21"]
    assert wood.skewed == ("20",)
    assert wood.head == "30"
    assert wood.tip_beyond("30") == "21"


def test_parents_that_form_a_loop_end_where_it_closes() -> None:
    assert ids_of([row("11", "13"), row("12", "11"), row("13", "12")]) == ["11", "12", "13"]
    assert ids_of([row("11", "11")]) == ["11"]


def test_a_prefix_names_a_checkpoint_and_a_whole_id_only_itself() -> None:
    assert matching(["1f", "1f2", "20"], "1f") == ["1f"]
    assert matching(["1f1", "1f2", "20"], "1f") == ["1f1", "1f2"]
    assert matching(["1f1"], "3") == []


@pytest.mark.parametrize(
    ("checkpoint", "step"),
    [
        ("1f1ecbb1-20be-635e-8006-d0fce39eff2c", 6),
        ("1f1ecbb1-2097-630e-bfff-b604284a1c68", -1),
        ("1f1ecbb1-2097-630e-ffff-b604284a1c68", -1),  # as LangGraph.js prints it
        ("1f1ecbb1-2097-630e-8010-b604284a1c68", 16),
        ("1f1ecbb1-2097-430e-8010-b604284a1c68", None),  # a random UUIDv4
        ("10", None),
        ("", None),
    ],
)
def test_the_step_is_read_from_the_clock_sequence(checkpoint: str, step: int | None) -> None:
    assert id_step(checkpoint) == step


def test_the_time_in_an_id_is_the_one_that_langgraph_stored_beside_it() -> None:
    # ``ts`` of the same checkpoint: 2026-11-30T12:39:23.084455+00:00, taken just before the id was made.
    made = id_time("1f1ecbb1-2097-630e-bfff-b604284a1c68")
    assert made is not None
    assert abs((made - datetime(2026, 11, 30, 12, 39, 23, 84455, tzinfo=UTC)).total_seconds()) < 0.01
    assert id_time("10") is None


IDS = st.sampled_from([f"{n:02}" for n in range(12)])
ROWS = st.lists(
    st.builds(
        Checkpoint,
        id=IDS,
        parent=st.none() | IDS,
        source=st.sampled_from(["input", "loop", "update", "fork", None]),
        step=st.none() | st.integers(-1, 6),
        run_id=st.none(),
    ),
    min_size=1,
    unique_by=lambda r: r.id,
)


@settings(max_examples=300, deadline=None)
@given(rows=ROWS, seed=st.integers())
def test_any_forest_gives_one_line_without_repeats_in_any_row_order(
    rows: list[Checkpoint], seed: int
) -> None:
    wood = forest(rows)
    line = wood.line(wood.head)
    ids = [r.id for r in line.rows]
    assert len(ids) == len(set(ids))
    assert ids[-1] == max(r.id for r in rows)
    for i in range(1, len(ids)):
        tells_nothing = line.rows[i].parent is None and line.rows[i].step is None
        assert (line.rows[i].parent == ids[i - 1]) or (i in line.seams) != tells_nothing
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    again = forest(shuffled).line(forest(shuffled).head)
    assert (again, forest(shuffled).branches(again)) == (line, wood.branches(line))
