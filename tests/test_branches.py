"""Branches against the graphs that made them: recorded forks, forks of forks, stepped-back clocks, islands."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.sqlite import SqliteSaver

from cli_run import run, run_in_terminal, store
from recorded import (
    copy_db,
    delete_rows,
    record_to_postgres,
    recording,
    rename_checkpoints,
    shuffle_rows,
)
from scenarios.conversations import agent, ask
from scenarios.kit import at, row_ids
from turnstate.history.branches import BranchReport, branch_report, limbs_of
from turnstate.history.ids import id_time
from turnstate.history.lines import forest
from turnstate.history.thread import History
from turnstate_backends.interface import Checkpoint
from turnstate_backends.stores import open_store

FORKED = [(name, id) for name in ("forks", "workers") for id in recording(name).threads]
# What set the left line apart. The recorded graphs ran without a pause between questions, so that only a question
# sent again under its id, or an interleaved step, tells a person from a second writer.
KINDS = {
    "asked-again": "edit_or_two_writers",
    "replayed-middle": "replay",
    "replayed-input": "replay",
    "regenerated": "edit",
    "regenerated-late": "edit",
    "edited-past": "update_state",
    "raced": "edit_or_two_writers",
    "interleaved": "two_writers",
}


def branches_of(path: Path | str, thread: str) -> BranchReport:
    with open_store(str(path)) as opened:
        return branch_report(History(opened, thread))


@pytest.mark.parametrize(("name", "id"), FORKED)
@pytest.mark.parametrize("seed", [None, 1])
def test_every_recorded_fork_is_a_branch_under_the_line_it_leaves(
    name: str, id: str, seed: int | None, tmp_path: Path
) -> None:
    truth = recording(name).threads[id]
    path = copy_db(recording(name).path, tmp_path)
    if seed is not None:
        shuffle_rows(path, seed)
    report = branches_of(path, id)
    current, *others = report.rows
    assert (current.tip, current.current, current.under) == (truth.head, True, None)
    assert [turn.number for turn in current.turns] == [t.turn for t in truth.turns if t.turn]
    assert [(b.tip, b.forked_at) for b in others] == [(b["tip"], b["forked_at"]) for b in truth.branches]
    for branch, stated in zip(others, truth.branches, strict=True):
        # In "replayed-input" both lines took the same question, in the row that they share.
        asked = [t.question for t in branch.turns if not t.continued or id == "replayed-input"]
        assert asked == stated["questions"]
        assert (branch.depth, branch.under, branch.current, branch.island) == (1, truth.head, False, False)
        assert branch.fork is not None
        assert branch.fork.kind == KINDS[id]
    assert sum(row.checkpoints for row in report.rows) == truth.checkpoints[""]


@pytest.mark.parametrize("name", ["forks", "workers"])
def test_every_recorded_fork_is_a_branch_in_postgresql_too(name: str, pg_dsn: str) -> None:
    for id, truth in record_to_postgres(name, pg_dsn).threads.items():
        _, branch = branches_of(pg_dsn, id).rows
        assert (branch.tip, branch.forked_at) == (truth.branches[0]["tip"], truth.branches[0]["forked_at"])
        assert branch.fork is not None
        assert branch.fork.kind == KINDS[id]


def test_a_line_without_forks_is_its_only_branch() -> None:
    report = branches_of(recording("demo").path, "demo")
    [only] = report.rows
    assert (only.tip, only.current, only.checkpoints) == (recording("demo").threads["demo"].head, True, 12)
    assert (report.skewed, report.beyond_head) == ((), ())


@dataclass(frozen=True)
class Nested:
    """A line that two others leave, one of them from the other; ids as LangGraph gave them."""

    path: Path
    first_end: str
    left_end: str
    left_middle: str
    edited: str
    head: str


HOSTILE = "Ask \x1b[31m[bold]again\u202e"


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Nested:
    """A question and its line; the next one asked twice more, once from the middle of what was left."""
    path = tmp_path_factory.mktemp("nested") / "nested.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        graph = agent(saver)
        ask(graph, "nested", "Find Aarhus")
        first_end = row_ids(saver, "nested")[-1]
        ask(graph, "nested", "Describe it")
        ids = row_ids(saver, "nested")
        left_middle, left_end = ids[-2], ids[-1]
        graph.update_state(at("nested", left_middle), {"plan": "by hand"})
        edited = row_ids(saver, "nested")[-1]
        graph.invoke({"messages": [("user", HOSTILE)]}, at("nested", first_end), durability="sync")
        head = row_ids(saver, "nested")[-1]
    return Nested(path, first_end, left_end, left_middle, edited, head)


def test_a_branch_of_a_branch_hangs_under_the_branch_that_it_leaves(nested: Nested) -> None:
    current, left, leaf = branches_of(nested.path, "nested").rows
    assert (current.tip, current.depth, current.checkpoints) == (nested.head, 0, 8)
    # The tip made last is the branch; what it left behind hangs under it.
    assert (left.tip, left.under, left.forked_at, left.depth) == (
        nested.edited,
        nested.head,
        nested.first_end,
        1,
    )
    assert (leaf.tip, leaf.under, leaf.forked_at, leaf.depth) == (
        nested.left_end,
        nested.edited,
        nested.left_middle,
        2,
    )
    assert (left.forked_turns, leaf.forked_turns) == ((1,), (2,))
    assert [(t.number, t.question, t.continued) for t in left.turns] == [(2, "Describe it", False)]
    assert [(t.number, t.question, t.continued) for t in leaf.turns] == [(2, "Describe it", True)]
    assert leaf.fork is not None
    assert (leaf.fork.kind, leaf.fork.checkpoint) == ("update_state", nested.edited)
    assert (left.checkpoints, leaf.checkpoints) == (4, 1)


def shifted(id: str, seconds: float) -> str:
    """A UUIDv6 with another time (RFC 9562: 60 bits of 100 ns around the version)."""
    high, mid, low, rest = id.split("-", 3)
    ticks = int(high + mid + low[1:], 16) + round(seconds * 10_000_000)
    text = f"{ticks:015x}"
    return f"{text[:8]}-{text[8:12]}-6{text[12:]}-{rest}"


def later(name: str, thread: str, seconds: int, folder: Path) -> Path:
    """A copy in which the head's own rows after the fork were made that much later."""
    path = copy_db(recording(name).path, folder)
    forked_at = recording(name).threads[thread].branches[0]["forked_at"]
    with open_store(str(path)) as opened:
        history = History(opened, thread)
        ids = [row.id for row in history.line.rows[history.line.index[forked_at] + 1 :]]
    rename_checkpoints(path, thread, {id: shifted(id, seconds) for id in ids})
    return path


@pytest.mark.parametrize(
    ("name", "thread", "seconds", "kind"),
    [
        ("forks", "asked-again", 1, "edit_or_two_writers"),
        ("forks", "asked-again", 600, "edit"),
        ("workers", "raced", 600, "edit"),
        ("workers", "interleaved", 30, "two_writers"),
        ("workers", "interleaved", 6000, "replay"),  # as older releases replay, without a row of their own
    ],
)
def test_how_closely_rows_follow_each_other_tells_a_person_from_a_second_writer(
    name: str, thread: str, seconds: int, kind: str, tmp_path: Path
) -> None:
    _, branch = branches_of(later(name, thread, seconds, tmp_path), thread).rows
    assert branch.fork is not None
    assert branch.fork.kind == kind


def test_a_line_that_went_on_after_another_writer_began_had_two_writers(tmp_path: Path) -> None:
    path = copy_db(recording("workers").path, tmp_path)
    truth = recording("workers").threads["raced"]
    left = truth.branches[0]
    with open_store(str(path)) as opened:
        line = History(opened, "raced").line.rows
    began = line[[row.id for row in line].index(left["forked_at"]) + 1].id
    made, other = id_time(left["tip"]), id_time(began)
    assert made is not None
    assert other is not None
    tip = shifted(left["tip"], (other - made).total_seconds() + 0.0001)
    assert began < tip < str(truth.head)
    rename_checkpoints(path, "raced", {left["tip"]: tip})
    _, branch = branches_of(path, "raced").rows
    assert branch.tip == tip
    assert branch.fork is not None
    assert (branch.fork.kind, branch.fork.checkpoint) == ("two_writers", began)


def test_a_child_of_the_head_with_a_smaller_id_is_said_not_to_be_resumed(tmp_path: Path) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    with open_store(str(path)) as opened:
        ids = [row.id for row in History(opened, "demo").line.rows]
    tip = shifted(ids[-1], -3600)
    rename_checkpoints(path, "demo", {ids[-1]: tip})
    report = branches_of(path, "demo")
    current, beyond = report.rows
    assert (report.head, report.skewed, report.beyond_head) == (ids[-2], (tip,), (tip,))
    assert (current.tip, beyond.tip, beyond.forked_at) == (ids[-2], tip, ids[-2])
    assert beyond.fork is not None
    assert beyond.fork.kind == "skewed"
    result = run("branches", "demo", "--store", str(path))
    assert f"the head {ids[-2]} has a child with a smaller id ({tip})" in result.err


def test_an_island_that_no_line_reaches_is_shown_with_the_parent_that_is_gone(tmp_path: Path) -> None:
    path = copy_db(recording("forks").path, tmp_path)
    truth = recording("forks").threads["asked-again"]
    tip = truth.branches[0]["tip"]
    with open_store(str(path)) as opened:
        chain = [row.id for row in History(opened, "asked-again").forest.chain(tip)]
    gone = chain[4]  # the branch's first own row, its input
    delete_rows(path, "asked-again", [gone])
    current, island = branches_of(path, "asked-again").rows
    assert (current.tip, current.checkpoints) == (truth.head, 12)
    assert (island.tip, island.island, island.forked_at, island.under) == (tip, True, None, None)
    assert (island.lost_parent, island.checkpoints, island.fork) == (gone, 3, None)
    result = run("branches", "asked-again", "--store", str(path))
    assert f"{tip}  island, its parent {gone} is gone  3 checkpoints" in result.out.splitlines()[1]


IDS = st.sampled_from([f"{n:02}" for n in range(14)])
ROWS = st.dictionaries(IDS, st.none() | IDS, min_size=1)


@settings(max_examples=300)
@given(parents=ROWS)
def test_every_row_of_any_forest_is_on_one_branch_that_follows_parents(
    parents: dict[str, str | None],
) -> None:
    wood = forest(Checkpoint(id, parent, "loop", 3, None) for id, parent in parents.items())
    line = wood.line(wood.head)
    limbs = limbs_of(wood, line)
    assert sorted(row.id for limb in limbs for row in limb.rows) == sorted(parents)
    assert limbs[0].rows == line.rows
    for number, limb in enumerate(limbs[1:], 1):
        for above, below in zip(limb.rows, limb.rows[1:], strict=False):
            assert below.parent == above.id
        if limb.forked_at is None:
            assert limb.under is None
        else:
            assert limb.under is not None
            assert limb.under < number
            assert limb.forked_at in limbs[limb.under].rows
            assert limb.rows[0].parent == limb.forked_at.id


# On the command line.


def test_piped_branches_are_one_line_each_indented_by_depth(nested: Nested) -> None:
    result = run("branches", "nested", "--store", str(nested.path))
    lines = [line.split("  ") for line in result.out.splitlines()]
    assert [[part for part in line if "Z" not in part] for line in lines] == [
        [
            nested.head,
            "current",
            "8 checkpoints",
            "turn 1: Find Aarhus",
            "turn 2: Ask \\x1b[31m[bold]again\\u202e",
        ],
        [
            "",
            nested.edited,
            f"leaves {nested.first_end} in turn 1, edit_or_two_writers",
            "4 checkpoints",
            "turn 2: Describe it",
        ],
        [
            "",
            "",
            nested.left_end,
            f"leaves {nested.left_middle} in turn 2, update_state",
            "1 checkpoint",
            "turn 2 (continued): Describe it",
        ],
    ]
    assert result.code == 0
    assert (
        result.err.splitlines()[-1]
        == "turns, keys, show, log, diff and gaps follow a branch with --branch ID"
    )


@pytest.mark.parametrize("columns", [80, 160])
def test_a_terminal_gets_a_tree_that_fits_it_with_whole_ids(nested: Nested, columns: int) -> None:
    seen = run_in_terminal(
        "branches", "nested", "--store", str(nested.path), "--color", "never", columns=columns
    )
    lines = seen.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0] == nested.head
    assert f"└── {nested.edited}" in lines
    assert f"    └── {nested.left_end}" in lines
    assert "\x1b" not in seen
    assert "Ask \\x1b[31m[bold]again\\u202e" in seen


def test_branches_json_has_every_field_of_the_contract() -> None:
    truth = recording("forks").threads["replayed-middle"]
    told = run("branches", "replayed-middle", "--json", "--store", store("forks")).document
    current, branch = told.pop("branches")
    assert told == {
        "schema": "turnstate.branches/1",
        "thread": "replayed-middle",
        "namespace": "",
        "head": truth.head,
        "skewed": [],
        "beyond_head": [],
    }
    assert (current["tip"], current["current"], current["turns"]) == (truth.head, True, [1])
    assert "forked_at" not in current
    assert branch.pop("last_activity").endswith("Z")
    with open_store(store("forks")) as opened:
        parents = {row.id: row.parent for row in opened.checkpoints("replayed-middle", "")}
    assert parents[branch.pop("first_checkpoint")] == truth.branches[0]["forked_at"]
    forked_by = branch.pop("forked_by")
    assert (forked_by["kind"], forked_by["text"]) == ("replay", "run again from an older checkpoint")
    assert branch == {
        "tip": truth.branches[0]["tip"],
        "current": False,
        "under": truth.head,
        "forked_at": truth.branches[0]["forked_at"],
        "forked_at_turns": [1],
        "checkpoints": 6,
        "turns": [1, 2],
        "questions": [
            {"turn": 1, "question": "Find Aarhus", "continued": True},
            {"turn": 2, "question": "Describe it"},
        ],
    }
    lines = run("branches", "replayed-middle", "--jsonl", "--store", store("forks")).documents
    assert [line["tip"] for line in lines] == [truth.head, truth.branches[0]["tip"]]
    assert all(line["schema"] == "turnstate.branches/1" for line in lines)


def test_every_tip_that_is_printed_is_one_that_the_other_verbs_follow(nested: Nested) -> None:
    told = run("branches", "nested", "--json", "--store", str(nested.path)).document
    for branch in told["branches"]:
        argv = ("--branch", branch["tip"], "--json", "--store", str(nested.path))
        turns = run("turns", "nested", *argv).document
        assert turns["tip"] == branch["tip"]
        asked = {turn["turn"]: turn["question"] for turn in turns["turns"]}
        assert {q["turn"]: q["question"] for q in branch["questions"]}.items() <= asked.items()
        assert run("keys", "nested", *argv).document["checkpoint"] == branch["tip"]
        assert run("show", "nested", "plan", *argv).document["checkpoint"] == branch["tip"]
    assert (
        run("show", "nested", "plan", "--branch", nested.edited, "--store", str(nested.path)).out
        == "by hand\n"
    )


def test_branches_of_no_such_thread_end_like_a_read() -> None:
    result = run("branches", "nobody", "--json", "--store", store("demo"))
    assert (result.code, result.document["outcome"], result.document["schema"]) == (
        4,
        "no_such_thread",
        "turnstate.branches/1",
    )
