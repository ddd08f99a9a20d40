"""``log`` from outside: tables, blocks, JSON, ranges, and how it ends."""

from __future__ import annotations

import json
import re
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cli_run import run, run_in_terminal, store
from recorded import copy_db, delete_rows, recording

BBOX = "gazet/get_aoi/bbox"
DEMO = ("--store", store("demo"))
FIRST, THIRD = [12.4, 55.5, 12.7, 55.8], [9.9, 56.1, 10.3, 56.2]


def test_a_line_says_turn_time_step_node_change_checkpoint_and_what_changed() -> None:
    result = run("log", "demo", BBOX, *DEMO)
    rows = [re.split(r" {2,}", line.strip()) for line in result.out.splitlines()]
    assert rows[0] == ["TURN", "TIME", "STEP", "NODE", "CHANGE", "CHECKPOINT", "WHAT"]
    assert [(r[0], r[2], r[3], r[4], r[6]) for r in rows[1:]] == [
        ("1", "1", "tool", "added", "4 items: 12.4, 55.5, 12.7, 55.8"),
        ("3", "9", "tool", "changed", "4 of 4 items: [0] 12.4 → 9.9, …"),
    ]
    assert result.err == f"{BBOX} · channel tool_state · written in 2 turns (1, 3)\n"


def test_one_document_has_every_field_of_the_contract() -> None:
    told = run("log", "demo", BBOX, "--json", *DEMO).document
    assert {n: told[n] for n in ("schema", "thread", "key", "channel", "turns_written", "gaps")} == {
        "schema": "turnstate.log/1",
        "thread": "demo",
        "key": BBOX,
        "channel": "tool_state",
        "turns_written": [1, 3],
        "gaps": [],
    }
    assert [
        (v["turn"], v["step"], v["node"], v["change"], v["ends_turn"], v["value"]) for v in told["versions"]
    ] == [(1, 1, "tool", "added", True, FIRST), (3, 9, "tool", "changed", True, THIRD)]
    assert told["versions"][0]["entry"]["seq"] == 1
    assert all(re.fullmatch(r"2026-.*Z", v["time"]) for v in told["versions"])
    assert not any("inferred" in v or "absence" in v for v in told["versions"])


def test_lines_are_the_same_versions_and_reverse_turns_them_round() -> None:
    document = run("log", "demo", "plan", "--json", *DEMO).document
    lines = run("log", "demo", "plan", "--jsonl", *DEMO).documents
    head = {"schema": "turnstate.log/1", "thread": "demo", "namespace": "", "key": "plan", "channel": "plan"}
    assert lines == [{**head, **version} for version in document["versions"]]
    assert run("log", "demo", "plan", "--jsonl", "--reverse", *DEMO).documents == lines[::-1]
    assert run("log", "demo", "plan", "--jsonl", "--limit", "1", *DEMO).documents == lines[-1:]


def test_a_line_has_the_name_of_an_entry_and_the_entry_apart() -> None:
    of_key = run("log", "demo", BBOX, "--jsonl", *DEMO).documents
    of_all = [v for v in run("log", "demo", "--values", "--jsonl", *DEMO).documents if v["key"] == BBOX]
    for lines in (of_key, of_all):
        assert [(v["entry_name"], v["entry"]["seq"]) for v in lines] == [(BBOX, 1), (BBOX, 2)]


def test_without_a_key_all_keys_stand_in_order_of_time() -> None:
    lines = run("log", "demo", "--jsonl", *DEMO).documents
    assert [(v["turn"], v["key"], v["change"]) for v in lines] == [
        (1, "messages", "added"),
        (1, "plan", "added"),
        (1, BBOX, "added"),
        (1, "messages", "changed"),
        (2, "messages", "changed"),
        (2, "messages", "changed"),
        (3, "messages", "changed"),
        (3, "plan", "changed"),
        (3, BBOX, "changed"),
        (3, "messages", "changed"),
    ]
    assert not any("value" in v for v in lines)
    with_values = run("log", "demo", "--jsonl", "--values", *DEMO).documents
    assert [v["value"] for v in with_values if v["key"] == "plan"] == [
        "look up the area",
        "look up the area, then compare",
    ]


def test_a_pattern_gives_a_log_for_each_key() -> None:
    told = run("log", "plain", "lookup/[12]", "--json", "--store", store("plain")).document
    assert (told["schema"], told["key"]) == ("turnstate.log/1", "lookup/[12]")
    assert [(log["key"], [v["turn"] for v in log["versions"]]) for log in told["logs"]] == [
        ("lookup/1", [1]),
        ("lookup/2", [2]),
    ]
    text = run("log", "plain", "lookup/[12]", "--store", store("plain")).out.splitlines()
    assert [line for line in text if line.startswith("lookup")] == ["lookup/1", "lookup/2"]


@pytest.mark.parametrize(
    ("turns", "found"),
    [("1..1", [1]), ("2..", [3]), ("..2", [1]), ("-1..", [3]), ("2..2", []), ("1..99", [1, 3])],
)
def test_a_range_of_turns_has_their_versions(turns: str, found: list[int]) -> None:
    result = run("log", "demo", BBOX, f"--turns={turns}", "--jsonl", *DEMO)
    assert (result.code, [v["turn"] for v in result.documents]) == (0, found)


@pytest.mark.parametrize("form", [[], ["--json"], ["--jsonl"]])
@pytest.mark.parametrize(
    ("argv", "code", "outcome"),
    [
        (["demo", "gazet/get_aoi/bbx"], 4, "no_such_key"),
        (["dem", "plan"], 4, "no_such_thread"),
        (["demo", "plan", "--turns", "7..9"], 4, "no_such_turn"),
        (["demo", "plan", "--turns", "x"], 2, None),
        (["demo", "plan", "--turns", "3..1"], 2, None),
        (["demo", "--chart", "--values"], 2, None),
    ],
)
def test_what_is_not_there_is_said_by_its_outcome(
    argv: list[str], code: int, outcome: str | None, form: list[str]
) -> None:
    result = run("log", *argv, *form, *DEMO)
    assert result.code == code
    if outcome and form:
        assert (result.document["schema"], result.document["outcome"]) == ("turnstate.log/1", outcome)
    elif outcome:
        assert (result.out, result.err.split(":")[0]) == ("", outcome)
    if outcome == "no_such_key":
        assert BBOX in result.out + result.err


def test_turns_of_which_no_row_is_kept_are_no_longer_retained(tmp_path: Path) -> None:
    path = copy_db(recording("plain").path, tmp_path)
    thread = recording("plain").threads["plain"]
    connection = sqlite3.connect(path)
    ids = [id for (id,) in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")]
    connection.close()
    delete_rows(path, "plain", ids[: ids.index(thread.turn(3).last_checkpoint) + 1])
    result = run("log", "plain", "plan", "--turns", "1..2", "--json", "--store", str(path))
    assert (result.code, result.document["outcome"]) == (5, "turn_no_longer_retained")


def test_gaps_are_rows_of_the_table_and_lines_of_their_own() -> None:
    pruned = ("--store", store("demo-pruned"))
    rows = [line.split()[:1] for line in run("log", "demo", BBOX, *pruned).out.splitlines()[1:]]
    assert rows == [["1"], ["2"], ["?"], ["3"]]
    lines = run("log", "demo", BBOX, "--jsonl", *pruned).documents
    assert [line.get("gap", {}).get("turns") for line in lines] == [[1], [2], None, None]
    told = run("log", "demo", BBOX, "--json", *pruned).document
    assert [gap["kind"] for gap in told["gaps"]] == ["pruned", "thinned"]
    assert (told["earlier_unknown"], told["turns_written"]) == (True, [3])
    assert "turn" not in told["versions"][0]
    assert told["versions"][0]["lost"] is True


def test_an_encrypted_value_keeps_its_kind_and_where_no_value_can_be_read_the_exit_code_is_6() -> None:
    encrypted = ("--store", store("encrypted"))  # its second turn is
    both = run("log", "encrypted", "plan", "--json", *encrypted)
    assert both.code == 0
    first, second = both.document["versions"]
    assert "absence" not in first
    assert (second["absence"], second["node"], second["stored"]["type"]) == (
        "encrypted",
        "tool",
        "msgpack+aes",
    )
    assert "change" not in second
    assert "value" not in second
    assert run("log", "encrypted", "plan", "--turns", "2..", *encrypted).code == 6


def test_values_and_patches_stand_under_a_line_of_each_version() -> None:
    lines = run("log", "demo", BBOX, "--values", "--patch", *DEMO).out.splitlines()
    assert lines[0].startswith("turn 1 · 2026-")
    assert " · step 1 · tool · added · checkpoint " in lines[0]
    assert lines[1] == "[12.4, 55.5, 12.7, 55.8]"
    assert lines[2].startswith("turn 3 · ")
    assert lines[-1] == "[9.9, 56.1, 10.3, 56.2]"
    assert any("12.4" in line and "9.9" in line for line in lines[3:-1])


def test_a_patch_makes_the_version_before_into_this_one() -> None:
    jsonpatch = pytest.importorskip("jsonpatch")
    versions = run("log", "demo", "messages", "--json", "--patch", *DEMO).document["versions"]
    assert "patch" not in versions[0]
    for before, version in pairwise(versions):
        assert jsonpatch.apply_patch(before["value"], version["patch"]) == version["value"]


def test_a_secret_is_masked_in_values_and_in_words(tmp_path: Path) -> None:
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from pydantic import SecretStr

    class State(MessagesState):
        token: Any

    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for number in (1, 2):
            graph = StateGraph(State)
            graph.add_node("login", lambda _, number=number: {"token": SecretStr(f"hunter{number}")})
            graph.add_edge(START, "login").add_edge("login", END)
            graph.compile(checkpointer=saver).invoke(
                {"messages": [HumanMessage("Log in")]},
                {"configurable": {"thread_id": "t"}},
                durability="sync",
            )
    for more in ([], ["--values"], ["--patch"], ["--json"], ["--json", "--patch"]):
        told = run("log", "t", "token", *more, "--store", str(path))
        assert "hunter" not in told.out
        assert told.out.count("changed") == 1
    assert "hunter2" in run("log", "t", "token", "--values", "--reveal", "--store", str(path)).out


def test_a_terminal_of_80_columns_gets_no_longer_line() -> None:
    for argv in ([BBOX], [], [BBOX, "--reverse"]):
        seen = run_in_terminal("log", "demo", *argv, "--color", "never", *DEMO, columns=80)
        lines = re.sub(r"[^\n]*\x1b\[2K", "", seen).splitlines()
        assert max(map(len, lines)) <= 80
        assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_a_terminal_gets_ids_that_can_be_copied_and_times_that_a_server_log_has(columns: int) -> None:
    versions = run("log", "demo", "plan", "--jsonl", *DEMO).documents
    seen = run_in_terminal("log", "demo", "plan", "--color", "never", *DEMO, columns=columns).splitlines()
    at = seen[0].index("checkpoint")
    rows = [line for line in seen if re.match(r" {3}\d ", line)]
    ids = [line[at:].split()[0] for line in rows]
    for version, id in zip(versions, ids, strict=True):
        shown = run("show", "demo", "plan", "--checkpoint", id, "--json", *DEMO).document
        assert shown["checkpoint"] == version["checkpoint"]
    day, time = versions[0]["time"][:19].split("T")
    assert rows[0].split()[1] == day
    assert f"{time}Z" in (rows[0] if columns > 80 else seen[2])


def test_turns_may_be_one_turn_and_what_is_not_there_is_said() -> None:
    one, range_ = (run("log", "demo", "plan", "--turns", turns, *DEMO) for turns in ("3", "3..3"))
    assert (one.out, one.err) == (range_.out, range_.err)
    assert one.out.splitlines()[1].split()[0] == "3"
    beyond = run("log", "demo", "plan", "--turns", "3..9", *DEMO)
    assert (beyond.code, beyond.out) == (0, one.out)
    assert beyond.err.splitlines()[0] == "the thread has had 3 turns"
    none = run("log", "demo", "plan", "--turns", "2", *DEMO)
    assert (none.code, none.out) == (0, "")
    assert none.err.splitlines()[0] == "nothing was written in what was asked for"


def test_a_terminal_is_told_where_cells_were_cut_to_its_width() -> None:
    narrow, wide = (
        run_in_terminal("log", "demo", "messages", "--color", "never", *DEMO, columns=n) for n in (100, 200)
    )
    assert [("…" in seen, "what ends in … was cut" in seen) for seen in (narrow, wide)] == [
        (True, True),
        (True, False),
    ]


def test_a_terminal_gets_the_document_laid_out() -> None:
    seen = run_in_terminal("log", "demo", "plan", "--json", *DEMO, columns=80)
    assert json.loads(re.sub(r".*\x1b\[2K", "", seen))["turns_written"] == [1, 3]
