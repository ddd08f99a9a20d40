"""``gaps`` on the command line: one thread, all threads, as lines, tables and JSON, and its exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli_run import run, run_in_terminal, store
from recorded import copy_db, delete_blobs, delete_rows, record_to_postgres, recording

PRUNED = store("demo-pruned")


def test_gaps_are_one_line_each_with_the_evidence_last() -> None:
    result = run("gaps", "demo", "--store", PRUNED)
    rows = [re.split(r" {2,}", line.strip()) for line in result.out.splitlines()]
    kept = recording("demo-pruned").threads["demo"]
    assert rows[0] == ["KIND", "TURNS", "MISSING", "STEPS", "AFTER", "BEFORE", "LEFT", "EVIDENCE"]
    first = rows[1][5]
    assert [row[:7] for row in rows[1:]] == [
        ["pruned", "1", "4", "-1..2", "-", first, "4 writes"],
        ["thinned", "2", "4", "3..6", "-", first, "3 writes"],
    ]
    assert first < str(kept.head)
    assert re.fullmatch(
        r"the parent [0-9a-f-]{36} \(step 6 by its id\) is gone; the first row kept is step 7; "
        r"2 questions were already there in the first row kept; 11 write rows hang on 6 checkpoints that are gone",
        rows[1][7],
    )
    assert result.err.splitlines() == [
        "turns that are kept as they ended: 2, 3 of 3",
        "left: writes hold a channel without reducer and entries of a mapping whole, "
        "and of other reducers only what was added",
        "11 write rows hang on 6 checkpoints not kept, see gaps THREAD --writes",
    ]
    assert result.code == 0


LEFT = [  # step, node, channel and value of what deleted checkpoints left behind
    (-1, "__start__", "messages", "Find the area of Copenhagen"),
    (0, "tool", "tool_state", {"gazet/get_aoi/bbox": [12.4, 55.5, 12.7, 55.8]}),
    (0, "tool", "plan", "look up the area"),
    (1, "answer", "messages", "Copenhagen lies within 12.4, 55.5, 12.7, 55.8."),
    (3, "__start__", "messages", "Describe it"),
    (4, "tool", "tool_state", {}),
    (5, "answer", "messages", "A capital on two islands, with a harbour between them."),
]


def _short(write: dict[str, Any]) -> tuple[Any, ...]:
    value = write["value"]
    if write["channel"] == "messages":
        value = value[0]["$value"]["content"]
    elif write["channel"] == "tool_state":
        value = {name: entry["value"] for name, entry in value.items()}
    return write["step"], write["node"], write["channel"], value


def test_writes_without_a_checkpoint_can_be_read() -> None:
    told = run("gaps", "demo", "--writes", "--json", "--store", PRUNED).document
    assert (told["schema"], told["thread"], told["namespace"]) == ("turnstate.writes/1", "demo", "")
    assert [_short(write) for write in told["writes"]] == LEFT
    lines = run("gaps", "demo", "--writes", "--jsonl", "--store", PRUNED).documents
    head = {"schema": "turnstate.writes/1", "thread": "demo", "namespace": ""}
    assert lines == [{**head, **write} for write in told["writes"]]
    kept = {
        row["checkpoint"]
        for row in run("log", "demo", "--jsonl", "--store", PRUNED).documents
        if "gap" not in row
    }
    assert not kept & {write["checkpoint"] for write in told["writes"]}
    table = run("gaps", "demo", "--writes", "--store", PRUNED)
    rows = [re.split(r" {2,}", line.strip()) for line in table.out.splitlines()]
    assert rows[0] == ["CHECKPOINT", "TIME", "STEP", "NODE", "CHANNEL", "SIZE", "VALUE"]
    assert [(row[0], row[1], int(row[2]), row[3], row[4]) for row in rows[1:]] == [
        (write["checkpoint"], write["time"], write["step"], write["node"], write["channel"])
        for write in told["writes"]
    ]
    everything = run("gaps", "demo", "--writes", "--all", "--jsonl", "--store", PRUNED).documents
    assert len(everything) == 11
    assert len([write for write in everything if write["channel"].startswith("branch:to:")]) == 4


def test_a_pruned_turn_leads_to_the_writes_that_are_left() -> None:
    result = run("show", "demo", "plan", "--turn", "1", "--store", PRUNED)
    assert result.err.endswith("6 deleted checkpoints left writes behind, see gaps THREAD --writes\n")
    none = run("gaps", "demo", "--writes", "--exit-code", "--store", store("demo"))
    assert (none.code, none.out) == (0, "")
    assert run("gaps", "demo", "--writes", "--exit-code", "--store", PRUNED).code == 1


@pytest.mark.parametrize("argv", [["--writes"], ["demo*", "--writes"], ["demo", "--all"]])
def test_writes_are_listed_of_one_thread(argv: list[str]) -> None:
    assert run("gaps", *argv, "--store", PRUNED).code == 2


def test_steps_that_turns_share_are_said_to_be_shared() -> None:
    result = run("gaps", "demo", "--store", store("demo-pruned-writes"))
    assert [line.split()[:4] for line in result.out.splitlines()[1:]] == [
        ["pruned", "1", "of", "8"],
        ["thinned", "2", "of", "8"],
    ]
    assert "of N: the steps are missing from several turns together" in result.err


def test_gaps_json_has_every_field_of_the_contract() -> None:
    told = run("gaps", "demo", "--json", "--store", PRUNED).document
    pruned, thinned = told.pop("gaps")
    head = recording("demo-pruned").threads["demo"].head
    assert told == {
        "schema": "turnstate.gaps/1",
        "thread": "demo",
        "namespace": "",
        "head": head,
        "tip": head,
        "turns_by": "questions",
        "total": 3,
        "total_is": "exact",
        "retained": [2, 3],
        "steps_missing": 8,
        "steps_missing_is": "exact",
        "orphans": {"writes": 11, "checkpoints": 6, "newer_than_head": 0, "blobs": 0},
    }
    evidence = pruned.pop("evidence")
    assert [(e["kind"], e.get("step"), e.get("questions"), e.get("writes")) for e in evidence] == [
        ("dangling_parent", 6, None, None),
        ("first_step", 7, None, None),
        ("question_count", None, 2, None),
        ("orphaned_writes", None, None, 11),
    ]
    assert all(e["text"] for e in evidence)
    assert pruned == {
        "turns": [1],
        "kind": "pruned",
        "before": evidence[0]["checkpoint"],
        "steps_missing": 4,
        "steps_missing_is": "exact",
        "first_step": -1,
        "last_step": 2,
        "parts": [{"turns": [1], "steps_missing": 4, "first_step": -1, "last_step": 2}],
        "recoverable": {"writes": 4, "blobs": 0, "channels": ["messages", "plan", "tool_state"]},
    }
    assert (thinned["kind"], thinned["turns"], thinned["steps_missing"]) == ("thinned", [2], 4)
    lines = run("gaps", "demo", "--jsonl", "--store", PRUNED).documents
    assert [(line["kind"], line["turns"], line["total"]) for line in lines] == [
        ("pruned", [1], 3),
        ("thinned", [2], 3),
    ]


def test_a_thread_that_lost_nothing_says_so() -> None:
    result = run("gaps", "demo", "--store", store("demo"))
    assert (result.code, result.out, result.err) == (
        0,
        "",
        "no gaps: all 3 turns are kept as they ended\n",
    )
    told = run("gaps", "demo", "--json", "--store", store("demo")).document
    assert (told["gaps"], told["retained"], told["steps_missing"]) == ([], [1, 2, 3], 0)


@pytest.mark.parametrize(
    ("name", "thread", "notes", "field"),
    [
        (
            "encrypted",
            "encrypted",
            [
                "about 2 turns: an input's messages cannot be read, and were counted as one question",
                "no gaps: all 2 turns are kept as they ended",
                "kept encrypted, and not read: turn 2: LANGGRAPH_AES_KEY is not set",
            ],
            ("encrypted_turns", [2]),
        ),
        (
            "deltas",
            "no-snapshot",
            [
                "no gaps: all 4 turns are kept as they ended",
                "kept as deltas, and not to be rebuilt in the last checkpoint: tool_state; see show",
            ],
            ("unresolved", ["tool_state"]),
        ),
        ("deltas", "snapshots", ["no gaps: all 4 turns are kept as they ended"], None),
    ],
)
def test_what_is_kept_and_cannot_be_read_is_said_not_to_be(
    name: str, thread: str, notes: list[str], field: tuple[str, Any] | None
) -> None:
    assert run("gaps", thread, "--store", store(name)).err.splitlines() == notes
    told = run("gaps", thread, "--json", "--store", store(name)).document
    assert {n: told[n] for n in ("encrypted_turns", "unresolved") if n in told} == dict(
        [field] if field else []
    )


def test_a_gap_in_the_middle_says_after_what_a_question_was_there_and_a_single_step_is_one_number() -> None:
    middle = run("gaps", "one-turn-gone", "--store", store("retention")).out
    assert "1 question was already there in the first row kept after the gap" in middle
    rows = run("gaps", "exit-resumed", "--store", store("durability")).out.splitlines()[1:]
    assert [re.split(r" {2,}", row)[3] for row in rows] == ["-1", "1"]


@pytest.mark.parametrize(
    ("name", "argv", "code"),
    [
        ("demo-pruned", ("demo", "--exit-code"), 1),
        ("demo-pruned", ("demo",), 0),
        ("demo", ("demo", "--exit-code"), 0),
        ("durability", ("exit", "--exit-code"), 0),  # what was never stored was not lost
        ("retention", ("--exit-code",), 1),
        ("retention", ("--exit-code", "--jsonl"), 1),
        ("retention", ("nobody*", "--exit-code"), 0),
        ("durability", ("--exit-code",), 0),
        ("demo", ("nobody", "--exit-code"), 4),
        ("demo", ("demo", "--limit", "1"), 2),
        ("demo", ("demo", "--since", "1d"), 2),
        ("demo", ("--branch", "1f"), 2),
        ("demo", ("--limit", "-1"), 2),
    ],
)
def test_the_exit_code_tells_a_loss_only_when_it_is_asked_to(
    name: str, argv: tuple[str, ...], code: int
) -> None:
    assert run("gaps", *argv, "--store", store(name)).code == code


def test_of_many_threads_those_that_lost_something_are_listed() -> None:
    result = run("gaps", "--store", store("retention"))
    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines()}
    assert rows.pop("THREAD") == ["TURNS", "PRUNED", "THINNED", "VALUES", "STEPS", "ORPHANS"]
    assert rows == {
        "front": ["5", "3", "1", "0", "13", "20"],
        "front-and-writes": ["5", "3", "1", "0", "13", "0"],
        "front-at-input": ["5", "2", "1", "0", "12", "18"],
        "front-mid-turn": ["4", "2", "1", "0", "10", "0"],
        "latest-only": ["5", "4", "1", "0", "19", "30"],
        "latest-by-saver": ["5", "4", "1", "0", "19", "0"],
        "first-and-last": ["6", "3", "1", "0", "13", "0"],
        "one-turn-gone": ["4", "0", "1", "0", "4", "0"],
        "thinned": ["4", "0", "4", "0", "12", "0"],
    }
    assert result.err == "9 of 9 threads with gaps or rows left over\n"
    whole = run("gaps", "--store", store("durability"))
    assert (whole.out, whole.err) == ("", "0 of 7 threads with gaps or rows left over\n")


def test_many_threads_come_as_an_array_or_as_lines_that_are_each_a_whole_report() -> None:
    array = run("gaps", "--json", "--store", store("retention"))
    lines = run("gaps", "--jsonl", "--store", store("retention")).documents
    assert array.document == lines
    assert len(array.out.splitlines()) == 10  # a line per thread, after the bracket that opens
    one = run("gaps", "first-and-last", "--json", "--store", store("retention")).document
    assert next(line for line in lines if line["thread"] == "first-and-last") == one
    assert run("gaps", "--json", "--store", store("demo")).document == []
    assert run("gaps", "--jsonl", "--store", store("demo")).out == ""


def test_many_threads_can_be_narrowed_by_pattern_activity_and_number() -> None:
    def listed(*argv: str) -> list[str]:
        return [
            line["thread"] for line in run("gaps", *argv, "--jsonl", "--store", store("retention")).documents
        ]

    every = listed()
    assert set(listed("front*")) == {"front", "front-and-writes", "front-at-input", "front-mid-turn"}
    assert listed("--limit", "2") == every[:2]
    last = run("threads", "--json", "--store", store("retention")).document[2]["last"]
    assert listed("--since", last) == every[:3]
    assert listed("--since", last, "--limit", "1") == every[:1]


def test_a_thread_whose_id_looks_like_a_pattern_is_that_thread(tmp_path: Path) -> None:
    import sqlite3

    path = copy_db(recording("demo-pruned").path, tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE checkpoints SET thread_id = 'd[e]mo*'")
        connection.execute("UPDATE writes SET thread_id = 'd[e]mo*'")
    connection.close()
    assert run("gaps", "d[e]mo*", "--json", "--store", str(path)).document["thread"] == "d[e]mo*"


@pytest.mark.parametrize("columns", [80, 160])
def test_a_terminal_gets_a_table_that_fits_it_and_tells_the_same_evidence_once(columns: int) -> None:
    seen = run_in_terminal("gaps", "demo", "--store", PRUNED, "--color", "never", columns=columns)
    assert max(map(len, seen.splitlines())) <= columns
    words = seen.split()
    assert words[:7] == ["kind", "turns", "missing", "steps", "between", "left", "evidence"]
    assert words.count("checkpoints") == 2  # in the evidence of both gaps, and in a note
    assert "the same" in seen
    first = run("gaps", "demo", "--json", "--store", PRUNED).document["gaps"][0]["before"]
    assert any(first.startswith(word) for word in words if len(word) >= 13)
    many = run_in_terminal("gaps", "--json", "--store", store("retention"), columns=columns)
    assert len(json.loads(many)) == 9


def test_a_branch_has_gaps_of_its_own(tmp_path: Path) -> None:
    path = copy_db(recording("forks").path, tmp_path)
    truth = recording("forks").threads["asked-again"]
    tip = truth.branches[0]["tip"]
    from turnstate_backends.stores import open_store

    with open_store(str(path)) as opened:
        parent = {row.id: row.parent for row in opened.checkpoints("asked-again", "")}
    gone = str(parent[tip])
    delete_rows(path, "asked-again", [gone])
    assert run("gaps", "asked-again", "--exit-code", "--store", str(path)).code == 0
    told = run("gaps", "asked-again", "--branch", tip, "--json", "--store", str(path)).document
    # The last row of four is an island now, stitched to the greatest id before it.
    [gap] = told["gaps"]
    assert (told["tip"], gap["kind"], gap["turns"], gap["before"]) == (tip, "thinned", [2], tip)
    assert gap["steps_missing_is"] == "estimate" or "steps_missing" not in gap


def test_a_missing_value_is_a_loss(pg_dsn: str) -> None:
    truth = record_to_postgres("demo", pg_dsn).threads["demo"]
    assert run("gaps", "--exit-code", "--store", pg_dsn).code == 0
    delete_blobs(pg_dsn, "demo", "tool_state", checkpoint=truth.turn(3).last_checkpoint)
    result = run("gaps", "demo", "--exit-code", "--store", pg_dsn)
    assert result.code == 1
    assert result.out.splitlines()[1].split()[:2] == ["value_missing", "3"]
    [gap] = run("gaps", "demo", "--json", "--store", pg_dsn).document["gaps"]
    assert (gap["kind"], gap["turns"], gap["channel"], gap["checkpoints"]) == (
        "value_missing",
        [3],
        "tool_state",
        2,
    )
    assert result.err.splitlines()[0] == ("all 3 turns are kept as they ended, but for tool_state in turn 3")
    [row] = run("gaps", "--jsonl", "--store", pg_dsn).documents
    assert row["gaps"] == [gap]
