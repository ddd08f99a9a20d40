"""``threads``, ``turns`` and ``keys``: as lines for programs, as tables for a person, as JSON."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import ormsgpack
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from msgspec.structs import replace
from rich.cells import cell_len

from cli_run import run, run_in_terminal, store
from recorded import copy_db, recording, rename_checkpoints, threads
from turnstate.render.screen import folded, screen
from turnstate.render.tables import Cell, Column, _laid_out

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")


def without_times(text: str) -> list[str]:
    return [
        re.sub(r"\b\d+ms\b|\b\d\.\ds\b", "TOOK", ISO.sub("TIME", line)).replace("  ", " ")
        for line in text.splitlines()
    ]


def test_turns_are_one_line_each_with_the_question_last() -> None:
    result = run("turns", "demo", "--store", store("demo"))
    assert result.err == ""
    rows = [re.split(r" {2,}", line.strip()) for line in result.out.splitlines()]
    assert rows[0] == ["TURN", "STATUS", "STARTED", "TOOK", "CHECKPOINTS", "KEYS_WRITTEN", "QUESTION"]
    assert [(r[0], r[1], r[4], r[5], r[6]) for r in rows[1:]] == [
        ("1", "complete", "4", "messages,gazet/get_aoi/bbox,plan", "Find the area of Copenhagen"),
        ("2", "complete", "4", "messages", "Describe it"),
        ("3", "complete", "4", "messages,gazet/get_aoi/bbox,plan", "Now find Aarhus and compare"),
    ]
    assert all(ISO.fullmatch(r[2]) for r in rows[1:])


def test_a_turn_says_what_was_raised_and_what_was_asked() -> None:
    notes = {
        ("parallel", "half-failed"): ["turn 2: error in maps: ConnectionError('maps are down')"],
        ("stopped", "raised-then-asked"): ["turn 2: error in answer: LookupError('no such map: Odense')"],
        ("stopped", "interrupted-then-asked"): ['turn 1: interrupt in confirm: {"ask": "Really?"}'],
        ("resumed", "resume-approves"): [],
    }
    for (name, thread), told in notes.items():
        assert run("turns", thread, "--store", store(name)).err.splitlines() == told
    raised = run("turns", "raised-then-asked", "--json", "--store", store("stopped")).document["turns"]
    assert [turn.get("errors") for turn in raised] == [
        None,
        [{"node": "answer", "value": "LookupError('no such map: Odense')"}],
        None,
    ]
    (asked, resumed) = run(
        "turns", "interrupted-then-asked", "--jsonl", "--store", store("stopped")
    ).documents
    ((interrupt,), more) = asked["interrupts"], resumed.get("interrupts")
    assert (interrupt["node"], interrupt["value"], more) == ("confirm", {"ask": "Really?"}, None)
    assert re.fullmatch("[0-9a-f]{32}", interrupt["id"])


def test_what_a_task_raised_is_one_line_and_safe_to_print(tmp_path: Path) -> None:
    path = copy_db(recording("parallel").path, tmp_path)
    hostile = ormsgpack.packb("Error('\x1b]0;x\x07 [red]')\n  File \"a.py\", line 1")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE writes SET value = ? WHERE channel = '__error__'", [hostile])
    (note,) = run("turns", "half-failed", "--store", str(path)).err.splitlines()
    assert note == "turn 2: error in maps: Error('\\x1b]0;x\\x07 [red]') …"
    with sqlite3.connect(path) as db:
        db.execute("UPDATE writes SET type = 'pickle' WHERE channel = '__error__'")
    (note,) = run("turns", "half-failed", "--store", str(path)).err.splitlines()
    assert note.startswith("turn 2: error in maps: <undecodable")


def test_of_many_stops_the_latest_are_told(tmp_path: Path) -> None:
    def fails(state: MessagesState) -> None:
        raise ValueError(len(state["messages"]))

    path = tmp_path / "fails.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(MessagesState)
        graph.add_node("fails", fails)
        graph.add_edge(START, "fails")
        app = graph.compile(checkpointer=saver)
        for n in range(7):
            with pytest.raises(ValueError, match=str(n + 1)):
                app.invoke(
                    {"messages": [("user", f"Question {n + 1}")]}, {"configurable": {"thread_id": "t"}}
                )
    assert run("turns", "t", "--store", str(path)).err.splitlines() == [
        "2 more before these, see --json",
        *(f"turn {n}: error in fails: ValueError({n})" for n in range(3, 8)),
    ]


def test_a_pruned_turn_keeps_its_row_and_its_number() -> None:
    result = run("turns", "demo", "--store", store("demo-pruned-writes"))
    assert [line.split()[:3] for line in result.out.splitlines()[1:]] == [
        ["1", "pruned", "-"],
        ["2", "pruned*", "-"],
        ["3", "complete", result.out.splitlines()[3].split()[2]],
    ]
    assert result.err == (
        "pruned*: its own rows are gone; the next turn's input row still holds the state as it ended\n"
    )
    told = run("turns", "demo", "--json", "--store", store("demo-pruned-writes")).document
    assert [turn["retained"] for turn in told["turns"]] == [False, True, True]
    assert "status" not in told["turns"][0]
    assert told["turns"][0]["question"] == "Find the area of Copenhagen"


def test_turns_that_came_in_one_input_share_a_row_and_name_each_other() -> None:
    result = run("turns", "greeted", "--store", store("several"))
    assert [line.split()[0] for line in result.out.splitlines()] == ["TURN", "1", "2–3"]
    assert result.out.splitlines()[2].endswith("A larger one⏎Of Aarhus")
    told = run("turns", "greeted", "--json", "--store", store("several")).document["turns"]
    assert [turn.get("asked_with") for turn in told] == [None, [2, 3], [2, 3]]


@pytest.mark.parametrize(
    ("name", "id"),
    [
        (r.name, t.id)
        for r, t in threads()
        if r.name in ("demo", "demo-pruned", "several", "stopped", "resent", "fields", "odd-threads")
        and t.total
    ],
)
def test_turns_json_agrees_with_the_recorded_truth(name: str, id: str) -> None:
    truth = recording(name).threads[id]
    told = run("turns", "--json", "--store", store(name), "--", id).document
    assert (told["schema"], told["thread"], told["namespace"]) == ("turnstate.turns/1", truth.id, "")
    assert (told["total"], told["total_is"], told["turns_by"]) == (
        truth.total,
        truth.total_is,
        truth.turns_by,
    )
    assert told["head"] == truth.head
    assert [turn.get("question") for turn in told["turns"]] == [t.question for t in truth.turns if t.turn]
    lines = run("turns", "--jsonl", "--store", store(name), "--", id).documents
    assert [line["turn"] for line in lines] == [turn["turn"] for turn in told["turns"]]
    assert all(line["schema"] == "turnstate.turns/1" for line in lines)


def test_a_turn_that_a_clock_ended_before_it_began_has_no_duration_and_says_why(tmp_path: Path) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    tip = recording("demo").threads["demo"].head
    assert tip is not None
    earlier = f"1f1ecbde{tip[8:]}"  # a minute or more before
    rename_checkpoints(path, "demo", {tip: earlier})
    result = run("turns", "demo", "--branch", earlier, "--store", str(path))
    rows = [re.split(r" {2,}", line.strip()) for line in result.out.splitlines()[1:]]
    assert [(row[0], row[3] == "-") for row in rows] == [("1", False), ("2", False), ("3", True)]
    assert result.err.splitlines()[-2:] == [
        "clock skew: checkpoints whose id sorts before their parent's: 1",
        "clock skew: turn 3 ends before its first row's time, so took is not told",
    ]


def test_human_messages_that_are_no_questions_are_shown_as_such() -> None:
    result = run("turns", "reflection", "--store", store("nodes"))
    assert (
        "turn 1: human message, by node reflect, not a question: Be more precise." in result.err.splitlines()
    )
    told = run("turns", "reflection", "--json", "--store", store("nodes")).document
    assert [(a["turns"], a["why"], a["node"]) for a in told["asides"]] == [
        ([1], "node", "reflect"),
        ([2], "node", "reflect"),
    ]


def test_other_branches_are_named() -> None:
    branches = recording("forks").threads["edited-past"].branches
    result = run("turns", "edited-past", "--store", store("forks"))
    assert f"{len(branches)} other branch, see --branch ID: {branches[0]['tip']}" in result.err.splitlines()


def test_keys_are_one_line_each_with_the_summary_last() -> None:
    result = run("keys", "demo", "--store", store("demo"))
    rows = {line.split()[0]: line.split(None, 6)[1:] for line in result.out.splitlines()}
    assert rows["KEY"] == ["CHANNEL", "TYPE", "SIZE", "WRITTEN_IN", "LAST_BY", "SUMMARY"]
    assert rows["plan"] == ["-", "str", "31", "2", "tool,3", '"look up the area, then compare"']
    assert rows["gazet/get_aoi/bbox"][:2] == ["tool_state", "list"]
    assert rows["gazet/get_aoi/bbox"][3:] == ["2", "tool,3", "4 items: 9.9, 56.1, 10.3, 56.2"]
    assert result.err == f"turn 3 · checkpoint {recording('demo').threads['demo'].turn(3).last_checkpoint}\n"


def test_keys_json_has_every_field_of_the_contract() -> None:
    told = run("keys", "demo", "--turn", "2", "--json", "--store", store("demo")).document
    plan = next(key for key in told["keys"] if key["key"] == "plan")
    written = plan.pop("last_written")
    assert (told["schema"], told["thread"], told["turn"]) == ("turnstate.keys/1", "demo", 2)
    assert told["checkpoint"] == recording("demo").threads["demo"].turn(2).last_checkpoint
    assert plan == {
        "key": "plan",
        "channel": "plan",
        "type": "str",
        "bytes": 17,
        "summary": "look up the area",
        "turns_written": [1, 3],
    }
    assert (written["turn"], written["node"]) == (1, "tool")
    lines = run("keys", "demo", "--turn", "2", "--jsonl", "--store", store("demo")).documents
    assert [line["key"] for line in lines] == [key["key"] for key in told["keys"]]


def test_bookkeeping_channels_are_listed_only_with_all() -> None:
    def names(*more: str) -> list[str]:
        return [
            k["key"] for k in run("keys", "demo", *more, "--json", "--store", store("demo")).document["keys"]
        ]

    assert not [name for name in names() if name.startswith(("__", "branch:"))]
    assert set(names()) <= set(names("--all"))


def test_keys_of_a_turn_that_is_gone_or_never_was_end_like_a_read() -> None:
    gone = run("keys", "demo", "--turn", "1", "--json", "--store", store("demo-pruned"))
    assert (gone.code, gone.document["outcome"], gone.document["retained_turns"]) == (
        5,
        "turn_no_longer_retained",
        [2, 3],
    )
    never = run("keys", "demo", "--turn", "9", "--store", store("demo"))
    assert (never.code, never.out, never.err) == (4, "", "no_such_turn: the thread has had 3 turns\n")


def test_threads_are_listed_by_last_activity() -> None:
    truth = recording("stopped").threads
    told = run("threads", "--json", "--store", store("stopped")).document
    assert {t["thread"]: (t["checkpoints"], t["head"]) for t in told} == {
        id: (sum(t.checkpoints.values()), t.head) for id, t in truth.items()
    }
    last = [t["last"] for t in told]
    assert last == sorted(last, reverse=True)
    assert all(t["schema"] == "turnstate.threads/1" and ISO.fullmatch(t["first"]) for t in told)
    assert run("threads", "--jsonl", "--store", store("stopped")).documents == told


def test_threads_can_be_limited_filtered_and_counted() -> None:
    every = run("threads", "--json", "--store", store("stopped")).document
    some = run("threads", "interrupted*", "--json", "--store", store("stopped")).document
    assert {t["thread"] for t in some} == {"interrupted", "interrupted-then-asked"}
    assert run("threads", "--limit", "2", "--json", "--store", store("stopped")).document == every[:2]
    since = every[2]["last"]
    assert run("threads", "--since", since, "--json", "--store", store("stopped")).document == every[:3]
    assert (
        run("threads", "--since", since, "--limit", "1", "--json", "--store", store("stopped")).document
        == every[:1]
    )
    counted = run("threads", "--turns", "--json", "--store", store("stopped")).document
    truth = recording("stopped").threads
    assert {t["thread"]: t["turns"] for t in counted} == {id: t.total for id, t in truth.items()}


def test_no_threads_is_an_empty_list_and_a_word() -> None:
    assert run("threads", "zz*", "--json", "--store", store("demo")).document == []
    result = run("threads", "zz*", "--store", store("demo"))
    assert (result.code, result.out, result.err) == (0, "", "no threads match\n")


def test_piped_lines_are_never_cut_or_wrapped(tmp_path: Path) -> None:
    long = "x" * 300
    path = tmp_path / "copy.db"
    path.write_bytes(Path(store("demo")).read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE checkpoints SET thread_id = ?", (long,))
        connection.execute("UPDATE writes SET thread_id = ?", (long,))
    connection.close()
    result = run("threads", "--store", str(path), env={"COLUMNS": "80"})
    assert len(result.out.splitlines()) == 2
    assert result.out.splitlines()[1].startswith(long)


@pytest.mark.parametrize("columns", [80, 160])
def test_a_terminal_gets_a_table_that_fits_it(columns: int) -> None:
    seen = run_in_terminal("turns", "demo", "--store", store("demo"), columns=columns)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    assert max(map(len, plain.splitlines())) <= columns
    assert plain.split()[:3] == ["turn", "status", "started"]
    words = plain.split()
    assert all(
        word in words
        for word in ["Copenhagen", "Describe", "it", "Now", "find", "Aarhus", "and", "compare", "messages"]
    )
    assert not ISO.search(plain)
    keys = re.sub(
        r"\x1b\[[0-9;]*m", "", run_in_terminal("keys", "demo", "--store", store("demo"), columns=columns)
    )
    assert keys.split()[:3] == ["key", "channel", "type"]
    assert "tool_state" in keys
    checkpoint = recording("demo").threads["demo"].turn(3).last_checkpoint
    assert max(map(len, keys.splitlines())) <= columns
    assert len(keys.splitlines()) == {80: 10, 160: 5}[columns]
    assert checkpoint in keys


def test_a_terminal_too_narrow_for_a_date_in_one_piece_gets_a_line_per_cell() -> None:
    seen = run_in_terminal(
        "turns", "demo", "--turns-by", "questions", "--color", "never", "--store", store("demo"), columns=60
    )
    first = [line.split(maxsplit=1) for line in seen.split("\n\n")[0].splitlines()]
    assert first == [
        ["turn", "1"],
        ["status", "complete"],
        ["started", "2026-11-30 13:00:04Z"],
        ["took", "30ms"],
        ["ckpts", "4"],
        ["keys", "written  messages, gazet/get_aoi/bbox, plan"],
        ["question", "Find the area of Copenhagen"],
    ]
    pruned = run_in_terminal("gaps", "demo", "--store", store("demo-pruned"), columns=60)
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", pruned).splitlines())) <= 60


def test_the_ids_of_threads_stay_in_one_piece_where_eighty_columns_hold_them(tmp_path: Path) -> None:
    path, id = tmp_path / "uuid.db", "0b6c2c1e-8a5b-4f6e-9d2e-3f1b7a9c5d10"
    path.write_bytes(Path(store("demo")).read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE checkpoints SET thread_id = ?", (id,))
    seen = run_in_terminal("threads", "--color", "never", "--store", str(path), columns=80).splitlines()
    assert seen[0].split() == ["thread", "ckpts", "namespaces", "first", "last"]
    assert [line.split() for line in seen[1:]] == [
        [id, "12", "1", "2026-11-30", "2026-11-30"],
        ["13:00:04Z", "13:00:04Z"],
    ]


LONG_KEY = "gazetteer/get_area_of_interest/bounding_box/" + "Llanfairpwllgwyngyllgogerychwyrndrobwll" * 2
LONG_NODE = "a_node_with_a_long_name_that_retrieves_the_area_of_interest_from_the_gazetteer"


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A thread of two turns in which one long node wrote one long key."""
    path = tmp_path_factory.mktemp("long") / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for number in (1, 2):
            graph = StateGraph(Areas)
            graph.add_node(LONG_NODE, lambda _, n=number: {"areas": {LONG_KEY: {"value": "x" * 30 * n}}})
            graph.add_edge(START, LONG_NODE).add_edge(LONG_NODE, END)
            graph.compile(checkpointer=saver).invoke(
                {"messages": [("user", "Find it")]},
                {"configurable": {"thread_id": "t"}},
                durability="sync",
            )
    return str(path)


def merge(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    return {**(old or {}), **(new or {})}


class Areas(MessagesState):
    areas: Annotated[dict[str, Any], merge]


@pytest.mark.parametrize(
    "argv",
    [
        ("log",),
        ("log", LONG_KEY),
        ("log", LONG_KEY[:9] + "*", "--patch"),
        ("keys",),
        ("turns",),
        ("diff",),
        ("diff", "--stat"),
        ("diff", "--side-by-side"),
    ],
)
def test_long_names_are_folded_on_a_terminal_and_whole_elsewhere(
    long_names: str, argv: tuple[str, ...]
) -> None:
    verb, *more = argv
    call = (verb, "t", *more, "--store", long_names)
    for color in ("never", "always"):
        seen = run_in_terminal(*call, "--color", color, columns=80)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", seen).splitlines()
        notes = [line for line in lines if line.startswith(LONG_KEY)]  # a note breaks no word
        assert max(cell_len(line) for line in lines if line not in notes) <= 80
        assert ("…" in seen) <= (verb in ("log", "keys"))  # only what a value holds is cut
    piped = run(*call).out
    assert LONG_KEY in piped or LONG_KEY in more
    assert (LONG_NODE in piped) == (verb in ("log", "keys"))


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_no_name_is_cut_however_narrow_the_terminal(columns: int) -> None:
    columns_of = [Column("key", text=True), Column("node", text=True), Column("type")]
    names = [LONG_KEY, LONG_NODE, "a.module.with.a.long.name.and.a.Class"]
    seen = _laid_out(
        replace(screen("never"), width=columns), columns_of, [[Cell(text) for text in names]]
    ).splitlines()
    assert max(map(cell_len, seen)) <= columns
    begins = [seen[1].index(text[:3]) for text in names]
    ends = [*begins[1:], columns]
    for name, begin, end in zip(names, begins, ends, strict=True):
        assert "".join(line[begin:end].strip() for line in seen[1:]) == name


@pytest.mark.parametrize(
    ("text", "folds"),
    [
        ("short", ["short"]),
        ("two words and three more", ["two words and three ", "    more"]),
        ("x" * 20, ["x" * 20]),
        ("x" * 45, ["x" * 20, "    " + "x" * 16, "    " + "x" * 9]),
        ("ab " + "x" * 20, ["ab " + "x" * 17, "    xxx"]),
        ("東京都" * 4, ["東京都" * 3 + "東", "    京都"]),
        ("\x1b[31m" + "x" * 20 + "\x1b[0m", ["\x1b[31m" + "x" * 20 + "\x1b[0m"]),
        ("\x1b[31mtwo words and\x1b[0m three more", ["\x1b[31mtwo words and\x1b[0m three ", "    more"]),
    ],
)
def test_a_line_is_folded_between_words_and_a_longer_word_within_itself(text: str, folds: list[str]) -> None:
    assert folded(text, 20) == folds


@pytest.mark.parametrize("columns", [60, 70, 80, 81, 82, 83, 84, 90, 100, 120])
def test_no_width_costs_a_terminal_a_word(columns: int) -> None:
    columns_of = [
        Column("turn", right=True),
        Column("started"),
        Column("keys", text=True),
        Column("question", text=True),
    ]
    cells = [
        "1",
        "17 min ago",
        "messages, gazet/get_aoi/bbox, plan",
        "Now find Aarhus and compare it with 東京都",
    ]
    seen = _laid_out(replace(screen("never"), width=columns), columns_of, [[Cell(text) for text in cells]])
    assert sorted(seen.split()) == sorted(" ".join(["turn started keys question", *cells]).split())
    assert max(map(cell_len, seen.splitlines())) <= columns


def test_a_summary_is_cut_to_what_is_left() -> None:
    columns_of = [Column("key", text=True), Column("type"), Column("summary", text=True, one_line=True)]
    seen = _laid_out(
        replace(screen("never"), width=50), columns_of, [[Cell("plan"), Cell("str"), Cell("x" * 70)]]
    )
    assert seen.splitlines()[1] == "plan  str   " + "x" * 37 + "…"


def test_a_terminal_gets_json_over_several_lines() -> None:
    seen = run_in_terminal(
        "show", "demo", "plan", "--turn", "1", "--json", "--store", store("demo"), columns=80
    )
    assert json.loads(seen)["value"] == "look up the area"
    assert '  "turns_written": [1, 3],' in seen.splitlines()


def test_what_a_pruned_turn_wrote_is_left_out_and_not_called_nothing() -> None:
    turns = run("turns", "demo", "--json", "--store", store("demo-pruned")).document["turns"]
    assert ["keys_written" in turn for turn in turns] == [False, False, True]


def told_turns(name: str, thread: str) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = run("turns", thread, "--json", "--store", store(name)).document["turns"]
    return turns


@pytest.mark.parametrize(
    ("thread", "thinned", "started", "keys"),
    [
        ("thinned", [1, 2, 3, 4], [], {}),
        ("front-mid-turn", [3], [4], {3: ["messages"], 4: ["messages", "plan", "lookup/4"]}),
        ("one-turn-gone", [2], [1, 3, 4], None),
        ("latest-only", [5], [], {}),
        ("latest-by-saver", [5], [], {}),
    ],
)
def test_of_a_turn_that_lost_steps_no_start_and_no_end_of_its_keys_is_told(
    thread: str, thinned: list[int], started: list[int], keys: dict[int, list[str]] | None
) -> None:
    told = told_turns("retention", thread)
    assert [turn["turn"] for turn in told if turn.get("thinned")] == thinned
    assert [turn["turn"] for turn in told if "started" in turn] == started
    gaps = run("gaps", thread, "--json", "--store", store("retention")).document["gaps"]
    assert {n for gap in gaps if gap["kind"] == "thinned" for n in gap["turns"]} == set(thinned)
    if keys is not None:
        assert {turn["turn"]: turn["keys_written"] for turn in told if "keys_written" in turn} == keys
    for turn in told:
        if "keys_written" in turn:
            assert turn.get("keys_written_is") == ("at_least" if turn["turn"] in thinned else None)


def test_a_turn_that_lost_steps_is_marked_in_the_table_and_the_mark_explained() -> None:
    result = run("turns", "front-mid-turn", "--store", store("retention"))
    rows = [re.split(r" {2,}", line.strip()) for line in result.out.splitlines()[1:]]
    assert rows[2] == ["3", "complete+thinned", "-", "-", "2", "≥messages", "Question 3"]
    assert rows[3][1] == "complete"
    assert result.err.splitlines() == [
        "thinned: the turn's end is kept, steps of it are gone, and what they wrote cannot be told",
        "≥, ?: steps that are gone may have written other keys",
    ]
    only_end = run("turns", "latest-only", "--store", store("retention")).out.splitlines()[-1]
    assert only_end.split()[:6] == ["5", "complete+thinned", "-", "-", "1", "?"]


@pytest.mark.parametrize(
    ("thread", "started"), [("exit", []), ("exit-mixed", [1, 3]), ("exit-resumed", []), ("sync", [1, 2, 3])]
)
def test_a_turn_whose_run_was_stored_in_one_row_tells_no_start_and_no_duration(
    thread: str, started: list[int]
) -> None:
    told = told_turns("durability", thread)
    assert [turn["turn"] for turn in told if "started" in turn] == started
    assert all("ended" in turn and "thinned" not in turn for turn in told)
    result = run("turns", thread, "--store", store("durability"))
    lines = [re.split(r" {2,}", line.strip()) for line in result.out.splitlines()[1:]]
    assert [int(line[0]) for line in lines if line[3] != "-"] == started
    assert ("does not tell when it started" in result.err) == (len(started) < len(told))


def test_keys_mark_a_number_of_turns_to_which_rows_that_are_gone_would_add() -> None:
    result = run("keys", "front", "--store", store("retention"))
    rows = [re.split(r" {2,}", line.strip()) for line in result.out.splitlines()[1:]]
    assert {row[0]: row[4] for row in rows} == {
        "messages": "≥2",
        "plan": "≥2",
        "lookup/1": "?",
        "lookup/2": "?",
        "lookup/3": "?",
        "lookup/4": "1",
        "lookup/5": "1",
    }
    assert "≥, ?: rows that are gone wrote it too, in turns that can no longer be told" in result.err
    told = run("keys", "front", "--json", "--store", store("retention")).document["keys"]
    assert [key["key"] for key in told if key.get("earlier_unknown")] == [
        "messages",
        "plan",
        "lookup/1",
        "lookup/2",
        "lookup/3",
    ]
    assert run("keys", "demo", "--store", store("demo")).err.count("\n") == 1


def test_turns_that_came_in_one_input_are_one_span_wherever_a_key_tells_of_them() -> None:
    where = ("--store", store("several"))
    shown = run("show", "several", "plan", "--turn", "3", *where)
    assert shown.err.startswith("turn 2–3 · ")
    assert shown.err.endswith(" · written in turn 2–3 by tool · written in turns 1, 2–3, 4\n")
    assert run("log", "several", "plan", *where).err == "plan · written in turns 1, 2–3, 4\n"
    lines = run("log", "several", "plan", *where).out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["1", "2–3", "4"]
    rows = [re.split(r" {2,}", line) for line in run("keys", "several", *where).out.splitlines()[1:]]
    assert {row[0]: (row[4], row[5]) for row in rows if row[0] in ("plan", "lookup/2")} == {
        "plan": ("3", "tool,4"),
        "lookup/2": ("1", "tool,2–3"),
    }
    told = run("show", "several", "plan", "--json", *where).document
    assert told["turns_written"] == [1, 2, 3, 4]


def test_a_total_is_said_to_be_an_estimate_for_the_reason_that_it_is_one() -> None:
    unread = run("turns", "encrypted", "--store", store("encrypted")).err
    assert "about 2 turns: an input's messages cannot be read, and were counted as one question" in unread
    nodes = run("turns", "front-and-named", "--store", store("retention-unsure")).err
    assert "about 5 turns: not every question can be told from a node's own message" in nodes


def test_a_value_that_was_read_back_in_another_form_is_told_of_alike_by_every_command() -> None:
    where = ("--store", store("values"))
    keys = {row["key"]: row for row in run("keys", "values", "--json", *where).document["keys"]}
    assert keys["items"]["turns_written"] == [1]
    assert (keys["items"]["last_written"]["turn"], keys["items"]["last_written"]["node"]) == (1, "write")
    for key in ("generic", "items"):
        shown = run("show", "values", key, "--json", *where).document
        assert (shown["turns_written"], shown["written"]["turn"]) == ([1], 1)
        told = run("log", "values", key, "--json", *where).document
        assert told["turns_written"] == [1]
        last = told["versions"][-1]
        assert (last["turn"], last["reread"], last.get("node")) == (2, True, None)
    assert (
        "Page[Place] → dict (no write: read back in another form)"
        in run("log", "values", "generic", *where).out
    )
    before = run("show", "values", "items", "--turn", "1", *where)
    assert (before.code, before.err.splitlines()[0]) == (
        4,
        "not_yet_written: generic has no such entry as of the end of turn 1",
    )
    changed = run("diff", "values", "--json", *where).document["changes"]
    assert next(change["change"] for change in changed if change["key"] == "generic") == "changed"
    assert "reread" not in run("log", "values", "model", "--json", *where).out


def test_every_pruned_turn_is_not_retained_and_has_no_status() -> None:
    for thread in ("front", "front-at-input", "first-and-last"):
        told = told_turns("retention", thread)
        table = run("turns", thread, "--store", store("retention")).out.splitlines()[1:]
        pruned = [int(line.split()[0]) for line in table if line.split()[1] == "pruned"]
        assert [turn["turn"] for turn in told if turn["retained"] is False] == pruned
        assert all("status" not in turn for turn in told if not turn["retained"])
        assert pruned


def test_a_write_in_rows_that_are_gone_is_given_no_checkpoint_and_no_time() -> None:
    told = run("show", "demo", "plan", "--turn", "2", "--json", "--store", store("demo-pruned")).document
    assert told["written"] == {"lost": True, "held_since": told["checkpoint"]}


def test_a_mistyped_message_channel_is_refused_with_what_there_is() -> None:
    for argv in (["turns", "demo"], ["show", "demo", "plan"], ["keys", "demo"]):
        result = run(*argv, "--messages", "mesages", "--store", store("demo"))
        assert (result.code, result.out) == (2, "")
        assert "has no channel 'mesages'" in result.err
        assert "messages" in result.err.splitlines()[1]
