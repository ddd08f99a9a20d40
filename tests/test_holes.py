"""Steps that are missing along a line: by hand, for what no recorded store shows."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from turnstate.history.holes import Hole, Steps, find_holes
from turnstate.history.lines import forest
from turnstate_backends.interface import Checkpoint


def uuid6(tick: int, step: int) -> str:
    """An id as LangGraph makes it: time, then the step in 14 bits."""
    return f"1f1ecbdf-{tick:04x}-6000-{0x8000 | step & 0x3FFF:04x}-000000000000"


def row(
    tick: int, step: int, parent: str | None, *, recorded: bool = True, source: str = "loop"
) -> Checkpoint:
    return Checkpoint(uuid6(tick, step), parent, source, step if recorded else None, None)


ROOT = row(1, -1, None, source="input")


def holes(
    rows: list[Checkpoint],
    gone: Collection[str] = (),
    *,
    first_run: bool = False,
    begins: Steps | None = None,
    forked: bool = False,
) -> list[Hole]:
    wood = forest(rows)
    return find_holes(wood.line(wood.head), gone, first_run=first_run, begins=begins, forked=forked)


def test_a_whole_line_has_no_holes() -> None:
    assert holes([ROOT, row(2, 0, ROOT.id), row(3, 1, uuid6(2, 0))]) == []


def test_steps_are_counted_between_the_rows_of_a_seam() -> None:
    assert holes([ROOT, row(9, 7, uuid6(8, 6))]) == [Hole(1, Steps(0, 6))]
    assert holes([ROOT, row(9, 7, None)]) == [Hole(1, Steps(0, 6))]


def test_steps_that_only_ids_tell_are_at_least_so_many() -> None:
    rows = [ROOT, row(9, 7, uuid6(8, 6), recorded=False)]
    assert holes(rows) == [Hole(1, Steps(0, 6, "at_least"))]


def test_the_step_in_an_id_goes_round_after_14_bits() -> None:
    first = row(2, 16380, uuid6(1, 16379), recorded=False)
    rows = [first, row(9, 16384 + 2, uuid6(8, 16384 + 1), recorded=False)]
    [_, hole] = holes(rows, begins=Steps(-1, 16379, "at_least"))
    # 16381 and 16382, then what ids call -1, 0 and 1.
    assert (hole.at, hole.steps.count, hole.steps.sure) == (1, 5, "at_least")
    assert all(step in hole.steps for step in (16381, 16382, -1, 0, 1))
    assert not any(step in hole.steps for step in (16380, 2))


def test_recorded_steps_are_exact_beyond_14_bits() -> None:
    first = row(2, 16370, uuid6(1, 16369))
    rows = [first, row(9, 16400, uuid6(8, 16399))]
    assert holes(rows, begins=Steps(-1, 16369))[1:] == [Hole(1, Steps(16371, 16399))]


@pytest.mark.parametrize("parent", [uuid6(8, 4), "no-uuid"])
def test_a_row_before_a_seam_that_cannot_be_an_ancestor_gives_no_count(parent: str) -> None:
    rows = [ROOT, row(2, 0, ROOT.id), row(3, 6, uuid6(2, 0)), row(9, 5, parent)]
    [jump, seam] = holes(rows)
    assert jump == Hole(2, Steps(1, 5), recorded=False)
    assert seam.steps.count is None


def test_across_a_seam_where_branches_are_a_count_is_an_estimate() -> None:
    assert holes([ROOT, row(9, 7, uuid6(8, 6))], forked=True) == [Hole(1, Steps(0, 6, "estimate"))]


def test_a_parent_that_was_cleared_beside_a_row_that_is_kept_is_no_hole() -> None:
    assert holes([ROOT, row(2, 0, None)]) == []


def test_rows_that_tell_no_step_and_name_no_parent_show_no_loss() -> None:
    rows = [Checkpoint(id, None, None, None, None) for id in ("2", "10", "11")]
    assert holes(rows) == []


def test_rows_that_tell_no_step_and_name_a_lost_parent_show_a_loss_that_cannot_be_counted() -> None:
    rows = [Checkpoint("10", None, "input", -1, None), Checkpoint("13", "12", None, None, None)]
    assert holes(rows) == [Hole(1, Steps(None, None))]


def test_a_jump_from_a_kept_parent_was_never_recorded_unless_writes_say_otherwise() -> None:
    rows = [ROOT, row(9, 4, ROOT.id)]
    assert holes(rows) == [Hole(1, Steps(0, 3), recorded=False)]
    # A pruning program joined the row to a parent that is kept; what its deleted rows' tasks wrote is left.
    assert holes(rows, [uuid6(5, 2)]) == [Hole(1, Steps(0, 3), recorded=True)]
    # Writes of another time, or of a step that is not missing, say nothing about it.
    assert holes(rows, [uuid6(12, 2), uuid6(5, 9)]) == [Hole(1, Steps(0, 3), recorded=False)]


def test_a_first_row_without_parent_in_a_first_run_was_saved_by_its_run_alone() -> None:
    rows = [row(9, 3, None)]
    begins = Steps(-1, 2)
    assert holes(rows, first_run=True, begins=begins) == [Hole(0, begins, recorded=False)]
    assert holes(rows, first_run=False, begins=begins) == [Hole(0, begins)]
    assert holes(rows, [uuid6(5, 1)], first_run=True, begins=begins) == [Hole(0, begins)]


def test_where_runs_are_saved_by_one_row_deleted_steps_may_never_have_been_rows() -> None:
    saved = [row(20, 13, uuid6(10, 8)), row(30, 18, uuid6(20, 13))]
    # The lost parent was step 8, so that steps 9 to 12 were no rows, and of those before nobody knows.
    assert holes(saved, begins=Steps(-1, 12)) == [
        Hole(0, Steps(-1, 8, "at_most")),
        Hole(0, Steps(9, 12), recorded=False),
        Hole(1, Steps(14, 17), recorded=False),
    ]


def test_a_row_that_stands_for_writes_of_a_run_saved_at_its_end_comes_before_the_first_step() -> None:
    # With delta channels ``durability="exit"`` puts a row at step -2 for the writes of the first run to hang on.
    stub = Checkpoint(uuid6(1, 0), None, None, -2, None)
    assert holes([stub, row(9, 3, stub.id)], begins=None) == [Hole(1, Steps(-1, 2), recorded=False)]
