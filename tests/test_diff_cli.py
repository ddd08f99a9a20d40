"""``turnstate diff``: the scenario of record, ranges, outcomes and exit codes, and every form of the answer."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from cli_run import Result, run, run_in_terminal, store
from recorded import copy_db, recording
from test_diff_operations import VALUES
from turnstate.history.diff import diff
from turnstate.history.jsonform import jsonable
from turnstate.render.diff import rows_of, unified_lines, word_spans
from turnstate_backends.values import Absent, Tagged

BBOX = "gazet/get_aoi/bbox"
FOUR_NUMBERS = [
    {"op": "replace", "path": "/0", "value": 9.9},
    {"op": "replace", "path": "/1", "value": 56.1},
    {"op": "replace", "path": "/2", "value": 10.3},
    {"op": "replace", "path": "/3", "value": 56.2},
]


def diff_of(name: str, thread: str, *argv: str) -> Result:
    return run("diff", thread, *argv, "--store", store(name))


def end(turn: int, name: str = "demo", thread: str = "demo") -> str:
    return recording(name).threads[thread].turn(turn).last_checkpoint


# The scenario of record.


def test_the_area_did_not_change_from_turn_1_to_turn_2() -> None:
    result = diff_of("demo", "demo", BBOX, "--turns", "1..2", "--exit-code")
    assert (result.code, result.out) == (0, "")
    assert result.err == (f"no differences\nturn 1 · checkpoint {end(1)} → turn 2 · checkpoint {end(2)}\n")


def test_exactly_four_numbers_changed_from_turn_1_to_turn_3() -> None:
    result = diff_of("demo", "demo", BBOX, "--turns", "1..3", "--exit-code")
    assert result.code == 1
    assert result.out == (
        f"{BBOX}  changed · 94 B → 94 B\n"
        "  ~ $[0]  12.4 → 9.9\n"
        "  ~ $[1]  55.5 → 56.1\n"
        "  ~ $[2]  12.7 → 10.3\n"
        "  ~ $[3]  55.8 → 56.2\n"
        "  beside the value, in the entry: seq 1 → 2\n"
    )
    (change,) = diff_of("demo", "demo", BBOX, "--turns", "1..3", "--json").document["changes"]
    assert change["patch"] == FOUR_NUMBERS
    assert change["entry_patch"] == [{"op": "replace", "path": "/seq", "value": 2}]


def test_a_turn_that_was_pruned_is_said_to_be_and_nothing_passes_for_added() -> None:
    result = diff_of("demo-pruned", "demo", "--turns", "1..3")
    assert (result.code, result.out) == (5, "")
    assert result.err.startswith("turn_no_longer_retained: turn 1 was pruned; turns that can be read: 2, 3")
    document = diff_of("demo-pruned", "demo", "--turns", "1..3", "--json").document
    assert (document["schema"], document["outcome"]) == ("turnstate.diff/1", "turn_no_longer_retained")
    assert (document["turn"], document["retained_turns"]) == (1, [2, 3])
    assert "changes" not in document


def test_an_end_that_was_read_elsewhere_says_where() -> None:
    result = diff_of("demo-pruned", "demo", BBOX, "--turns", "2..3")
    assert result.code == 0
    assert result.out.count("~ $[") == 4
    assert "turn 2 was read in turn 3's input row, its own rows are gone" in result.err


def test_the_document_has_both_ends_and_every_change() -> None:
    document = diff_of("demo", "demo", "--turns", "1..3", "--json").document
    changes = document.pop("changes")
    assert document == {
        "schema": "turnstate.diff/1",
        "thread": "demo",
        "namespace": "",
        "from": {"turn": 1, "checkpoint": end(1)},
        "to": {"turn": 3, "checkpoint": end(3)},
        "total_turns": 3,
        "total_is": "exact",
        "turns_by": "questions",
    }
    assert [(c["key"], c["channel"], c["change"]) for c in changes] == [
        ("messages", "messages", "changed"),
        ("plan", "plan", "changed"),
        (BBOX, "tool_state", "changed"),
    ]
    assert (changes[1]["from"], changes[1]["to"]) == ("look up the area", "look up the area, then compare")
    for change in changes:
        patched = jsonpatch.apply_patch(change["from"], change["patch"])
        assert json.dumps(patched, sort_keys=True) == json.dumps(change["to"], sort_keys=True)


def test_what_was_not_there_before_is_added_and_the_other_way_round_removed() -> None:
    (added,) = diff_of("demo", "demo", "plan", "--turns", "0..1", "--json").document["changes"]
    assert (added["change"], added["to"], "from" in added) == ("added", "look up the area", False)
    assert added["patch"] == [{"op": "add", "path": "", "value": "look up the area"}]
    (removed,) = diff_of("demo", "demo", "plan", "--turns", "1..0", "--json").document["changes"]
    assert (removed["change"], removed["from"], "to" in removed) == ("removed", "look up the area", False)
    assert "patch" not in removed  # no patch takes a whole document away


# Which ends.


@pytest.mark.parametrize(
    ("argv", "ends"),
    [
        ((), (2, 3)),
        (("--turns", "1..3"), (1, 3)),
        (("--turns", "1.."), (1, 3)),
        (("--turns", "..2"), (0, 2)),
        (("--turns", "2"), (1, 2)),
        (("--turns", "-1"), (2, 3)),
        (("--turns", "-3..-2"), (1, 2)),
        (("--turns", "3..1"), (3, 1)),
        (("--checkpoints", f"{end(1)}..{end(3)}"), (1, 3)),
        (("--checkpoints", f"{end(1)[:13]}..{end(3)[:13]}"), (1, 3)),
    ],
)
def test_two_ends_may_be_named_in_several_ways(argv: tuple[str, ...], ends: tuple[int, int]) -> None:
    document = diff_of("demo", "demo", *argv, "--json").document
    assert (document["from"]["turn"], document["to"]["turn"]) == ends


def test_questions_that_came_together_are_compared_with_what_was_before_both() -> None:
    document = diff_of("several", "several", "--turns", "3", "--json").document
    thread = recording("several").threads["several"]
    together = thread.turn(3).asked_with
    assert len(together) > 1
    assert document["from"]["turn"] == min(together) - 1


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--turns", "one"), "write N, A..B, A.. or ..B"),
        (("--turns", "1..x"), "is no range of turns"),
        (("--turns", "1...2"), "give --branch"),
        (("--turns", "1..2", "--checkpoints", "a..b"), "only one of"),
        (("--checkpoints", "1f1"), "write ID..ID"),
        (("--stat", "--name-only"), "not both"),
        (("--context", "-1"), "not negative"),
        (("--context", "few"), "is not a whole number"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(argv: tuple[str, ...], says: str) -> None:
    result = diff_of("demo", "demo", *argv)
    assert result.code == 2
    assert says in " ".join(result.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("argv", "code", "outcome"),
    [
        (("--turns", "1..4"), 4, "no_such_turn"),
        (("--turns", "0"), 4, "no_such_turn"),
        (("plam",), 4, "no_such_key"),
        (("--checkpoints", "ffff..1f1ecbdf-630e"), 4, "no_such_turn"),
    ],
)
def test_what_never_was_is_an_outcome(argv: tuple[str, ...], code: int, outcome: str) -> None:
    result = diff_of("demo", "demo", *argv, "--json")
    assert (result.code, result.document["outcome"]) == (code, outcome)


def test_a_thread_that_is_not_there_is_an_outcome() -> None:
    result = diff_of("demo", "demon")
    assert (result.code, result.err.partition(":")[0]) == (4, "no_such_thread")


def test_a_known_key_that_is_at_neither_end_is_no_difference() -> None:
    result = diff_of("demo", "demo", "plan", "--turns", "0..0", "--exit-code")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("plan is there at neither end\n")


# Branches.


def branch_of(thread: str) -> tuple[str, str]:
    """The tip of a line that was left, and the row where it was."""
    (branch,) = recording("forks").threads[thread].branches
    return branch["tip"], branch["forked_at"]


def test_three_dots_start_where_the_branch_forked_off() -> None:
    tip, forked_at = branch_of("regenerated")
    document = diff_of("forks", "regenerated", "--turns", "...", "--branch", tip, "--json").document
    assert document["from"]["checkpoint"] == forked_at
    assert document["from"]["at_fork"] is True
    assert document["to"]["checkpoint"] == tip
    text = diff_of("forks", "regenerated", "--turns", "...", "--branch", tip)
    assert f"the fork · checkpoint {forked_at} → turn 2 · checkpoint {tip}" in text.err


def test_three_dots_of_a_branch_of_a_branch_start_where_it_left_the_heads_line(tmp_path: Path) -> None:
    path = tmp_path / "nested.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(MessagesState)
        graph.add_node("answer", lambda state: {"messages": [("ai", f"to {state['messages'][-1].content}")]})
        graph.add_edge(START, "answer").add_edge("answer", END)
        app = graph.compile(checkpointer=saver)
        config: dict[str, Any] = {"configurable": {"thread_id": "t"}}

        def asked(text: str, at: Any) -> Any:
            app.invoke({"messages": [("user", text)]}, at, durability="sync")
            return app.get_state(config).config

        first = asked("q1", config)
        on_branch = asked("q2 left", first)
        leaf = asked("q3 leaf", on_branch)
        tips = [asked("q3 branch", on_branch), leaf]
        head = asked("q2 head", first)
    ids = [at["configurable"]["checkpoint_id"] for at in (first, on_branch, *tips, head)]
    shared, inner, branch, nested, last = ids
    argv = ("diff", "t", "messages", "--json", "--store", str(path))
    for tip in (branch, nested):
        document = run(*argv, "--turns", "...", "--branch", tip).document
        assert document["from"] == {"turn": 1, "checkpoint": shared, "at_fork": True}
        assert document["to"] == {"turn": 3, "checkpoint": tip}
        added = [op["value"]["$value"]["content"] for op in document["changes"][0]["patch"]]
        assert added == [
            "q2 left",
            "to q2 left",
            *{branch: ["q3 branch", "to q3 branch"]}.get(tip, ["q3 leaf", "to q3 leaf"]),
        ]
        both = run(*argv, "--turns", "2...3", "--branch", tip).document
        assert (both["from"]["checkpoint"], both["to"]["checkpoint"]) == (last, tip)
        on_its_own = run(*argv, "--turns", "2..3", "--branch", tip).document
        assert (on_its_own["from"]["checkpoint"], on_its_own["to"]["checkpoint"]) == (inner, tip)


def test_three_dots_compare_a_turn_of_the_head_with_one_of_the_branch() -> None:
    tip, _ = branch_of("regenerated")
    document = diff_of("forks", "regenerated", "--turns", "2...2", "--branch", tip, "--json").document
    assert document["from"]["checkpoint"] == end(2, "forks", "regenerated")
    assert document["to"]["checkpoint"] == tip
    (question, *_) = next(c for c in document["changes"] if c["key"] == "messages")["patch"]
    assert question == {"op": "replace", "path": "/2/$value/content", "value": "Describe it"}


def test_two_dots_stay_on_the_branch() -> None:
    tip, _ = branch_of("regenerated")
    document = diff_of("forks", "regenerated", "--turns", "1..2", "--branch", tip, "--json").document
    assert document["to"]["checkpoint"] == tip


def test_the_heads_own_line_has_no_fork() -> None:
    result = diff_of("forks", "regenerated", "--turns", "...", "--branch", end(2, "forks", "regenerated"))
    assert result.code == 2
    assert "on the head's own line" in result.err


# Keys.


def test_a_pattern_compares_every_key_that_matches() -> None:
    document = diff_of("demo", "demo", "g*", "--turns", "1..3", "--json").document
    assert ([c["key"] for c in document["changes"]], document["asked"]) == ([BBOX], "g*")


def test_a_channel_may_be_compared_as_a_whole() -> None:
    (change,) = diff_of("demo", "demo", "tool_state", "--turns", "1..3", "--json").document["changes"]
    assert [each["path"] for each in change["patch"]] == [
        "/gazet~1get_aoi~1bbox/seq",
        *(f"/gazet~1get_aoi~1bbox/value/{n}" for n in range(4)),
    ]


def test_langgraphs_own_channels_are_compared_on_request() -> None:
    waiting, done = (f"{recording('demo').threads['demo'].head}", end(1))
    argv = ("--checkpoints", f"{done}..{waiting}", "--json")
    plain = {c["channel"] for c in diff_of("demo", "demo", *argv).document["changes"]}
    everything = {c["channel"] for c in diff_of("demo", "demo", *argv, "--all").document["changes"]}
    assert plain <= everything
    first = recording("demo").threads["demo"].turn(1).last_checkpoint
    rows = run("turns", "demo", "--json", "--store", store("demo")).document["turns"]
    argv = ("--checkpoints", f"{rows[0]['first_checkpoint']}..{first}", "--json")
    shown = {c["channel"] for c in diff_of("demo", "demo", *argv).document["changes"]}
    with_all = {c["channel"] for c in diff_of("demo", "demo", *argv, "--all").document["changes"]}
    assert with_all - shown == {"__start__"}


# What cannot be read.


def test_a_key_that_cannot_be_read_at_an_end_exits_6_when_asked_for_alone() -> None:
    result = diff_of("encrypted", "encrypted", "plan", "--turns", "1..2", "--json")
    assert result.code == 6
    assert "encrypted" in result.out
    assert "removed" not in result.out


def test_what_is_rebuilt_at_neither_end_is_listed_apart() -> None:
    result = diff_of("deltas", "no-snapshot", "--json")
    assert result.code == 0
    (apart,) = result.document["incomparable"]
    assert (apart["key"], apart["from"]["$absent"]) == ("tool_state", "delta_unresolved")
    assert "tool_state" not in {c["key"] for c in result.document["changes"]}
    alone = diff_of("deltas", "no-snapshot", "tool_state")
    assert alone.code == 6
    assert alone.out.startswith("tool_state  can be read at neither end, so it may have changed:")


def test_secrets_stay_masked() -> None:
    (change,) = diff_of("values", "values", "secret", "--turns", "0..1", "--json").document["changes"]
    assert change["to"] == {"$type": "pydantic.types.SecretStr", "$value": "**********", "$masked": True}
    revealed = diff_of("values", "values", "secret", "--turns", "0..1", "--json", "--reveal")
    assert "$masked" not in revealed.document["changes"][0]["to"]


# Other forms.


def test_names_alone_stand_one_per_line() -> None:
    result = diff_of("demo", "demo", "--turns", "1..3", "--name-only")
    assert (result.out, result.err) == (f"messages\nplan\n{BBOX}\n", "")
    changes = diff_of("demo", "demo", "--turns", "1..3", "--name-only", "--json").document["changes"]
    assert changes[1] == {"key": "plan", "channel": "plan", "change": "changed"}


def test_counts_and_sizes_stand_in_a_table() -> None:
    result = diff_of("demo", "demo", "--turns", "1..3", "--stat")
    assert [line.split() for line in result.out.splitlines()] == [
        ["KEY", "CHANGE", "ADDED", "REMOVED", "REPLACED", "SIZE_BEFORE", "SIZE_AFTER"],
        ["messages", "changed", "+4", "−0", "~0", "390", "1179"],
        ["plan", "changed", "+0", "−0", "~1", "17", "31"],
        [BBOX, "changed", "+0", "−0", "~4", "94", "94"],
    ]
    changes = diff_of("demo", "demo", "--turns", "1..3", "--stat", "--json").document["changes"]
    assert changes[0] == {
        "key": "messages",
        "channel": "messages",
        "change": "changed",
        "bytes": {"from": 390, "to": 1179},
        "added": 4,
        "removed": 0,
        "replaced": 0,
    }


def test_lines_of_json_have_one_key_each() -> None:
    documents = diff_of("demo", "demo", "--turns", "1..3", "--jsonl").documents
    assert [d["key"] for d in documents] == ["messages", "plan", BBOX]
    assert {d["schema"] for d in documents} == {"turnstate.diff/1"}
    assert diff_of("demo", "demo", BBOX, "--turns", "1..2", "--jsonl").out == ""


@pytest.mark.parametrize("detail", [[], ["--stat"], ["--name-only"]])
def test_a_line_of_json_keeps_the_places_apart_from_the_values(detail: list[str]) -> None:
    for document in diff_of("demo", "demo", "--turns", "1..3", "--jsonl", *detail).documents:
        ends = {name: document[name] for name in document if name.startswith(("from_", "to_"))}
        assert ends == {"from_turn": 1, "from_checkpoint": end(1), "to_turn": 3, "to_checkpoint": end(3)}
    plan = diff_of("demo", "demo", "plan", "--turns", "1..3", "--jsonl", *detail).document
    values = ("look up the area", "look up the area, then compare")
    assert (plan.get("from"), plan.get("to")) == (values if not detail else (None, None))


def test_the_ends_of_two_lines_say_which_line_each_is_on() -> None:
    branch = recording("forks").threads["asked-again"].branches[0]["tip"]
    between = diff_of("forks", "asked-again", "plan", "--branch", branch, "--turns", "3...2").err
    assert re.fullmatch(
        r"turn 3 of the head's line · checkpoint \S+ → turn 2 of the branch · checkpoint \S+\n", between
    )
    along = diff_of("forks", "asked-again", "plan", "--branch", branch, "--turns", "1..2").err
    assert re.fullmatch(r"turn 1 · checkpoint \S+ → turn 2 · checkpoint \S+\n", along)


def test_what_a_turn_changed_names_the_end_that_it_needs() -> None:
    missing = [
        ("demo-pruned", "demo", 2, "the end of turn 1", "2, 3"),
        ("retention", "thinned", 1, "the state before the first question", "1, 2, 3, 4"),
    ]
    for name, thread, turn, needed, kept in missing:
        result = diff_of(name, thread, "--turns", str(turn))
        words = f"what turn {turn} changed needs {needed}, which was pruned; turns that can be read: {kept}"
        assert result.err.strip().startswith(f"turn_no_longer_retained: {words}")
        assert result.code == 5


def test_a_line_of_json_of_what_is_not_at_one_end_has_no_value_there() -> None:
    added = diff_of("demo", "demo", "plan", "--turns", "0..1", "--jsonl").document
    assert ("from" in added, added["to"], added["from_turn"], added["to_turn"]) == (
        False,
        "look up the area",
        0,
        1,
    )
    removed = diff_of("demo", "demo", "plan", "--turns", "1..0", "--jsonl").document
    assert (removed["from"], "to" in removed, removed["to_turn"]) == ("look up the area", False, 0)


def test_messages_are_shown_beside_their_neighbours() -> None:
    result = diff_of("demo", "demo", "messages", "--turns", "1..2")
    assert result.out.splitlines()[1:] == [
        '    $[1]  AIMessage "Copenhagen lies within …"',
        '  + $[2]  HumanMessage {"content": "Describe it", "type": "human", "id": "h2"}',
        '  + $[3]  AIMessage {"content": "A capital on two islands, with a harbour between them.", '
        '"type": "ai", "id": "a2"}',
    ]
    without = diff_of("demo", "demo", "messages", "--turns", "1..2", "--context", "0")
    assert len(without.out.splitlines()) == 3
    wider = diff_of("demo", "demo", "messages", "--turns", "1..2", "--context", "2")
    assert len(wider.out.splitlines()) == 5


@pytest.mark.parametrize("columns", [80, 160])
def test_a_terminal_shows_both_values_side_by_side(columns: int) -> None:
    argv = ("diff", "demo", "--turns", "1..3", "--side-by-side", "--color", "never", "--store", store("demo"))
    shown = run_in_terminal(*argv, columns=columns)
    lines = [line.split() for line in shown.splitlines()]
    assert ["~", "$[0]", "12.4", "9.9"] in lines
    assert ["turn", "1", "turn", "3"] in lines
    assert max(map(len, shown.splitlines())) <= columns


def test_a_narrow_terminal_and_a_pipe_show_one_value_under_the_other() -> None:
    argv = ("diff", "demo", BBOX, "--turns", "1..3", "--color", "never", "--store", store("demo"))
    assert "  ~ $[0]  12.4 → 9.9\n" in run_in_terminal(*argv, "--side-by-side", columns=79)
    assert run(*argv, "--side-by-side") == run(*argv)


def test_the_store_is_not_written(tmp_path: Path) -> None:
    path = copy_db(recording("demo").path, tmp_path)
    before = path.read_bytes()
    assert run("diff", "demo", "--turns", "1..3", "--store", str(path)).code == 0
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


# Rows of values that no recorded store has.


def lines(old: Any, new: Any, *, context: int | None = None) -> list[str]:
    a, b = jsonable(old), jsonable(new)
    return list(unified_lines(rows_of(a, b, diff(a, b), context=context), color=False, indent=""))


def test_a_change_of_type_names_both_types() -> None:
    assert lines({"a": 1}, {"a": "1"}) == ['~ $.a  1 → "1"  (int → str)']
    assert lines({"a": 1}, {"a": 1.0}) == ["~ $.a  1 → 1.0  (int → float)"]
    assert lines({"a": {}}, {"a": [1]}) == ["~ $.a  {} → [1]  (dict → list)"]


def test_numbers_are_shown_as_they_are() -> None:
    assert lines([0.3], [0.1 + 0.2]) == ["~ $[0]  0.3 → 0.30000000000000004"]
    assert lines([0.0], [-0.0]) == ["~ $[0]  0.0 → -0.0"]
    assert lines([float("nan")], [1e16]) == ["~ $[0]  NaN → 1e+16"]


def test_places_are_written_so_that_any_name_can_be_read() -> None:
    assert lines({"a b": {"c": [0]}}, {"a b": {"c": [1]}}) == ['~ $["a b"].c[0]  0 → 1']
    assert lines({1: {"x": 0}}, {1: {"x": 5}}) == ["~ $[1].x  0 → 5"]
    assert lines(Tagged("a.P", {"x": [0]}), Tagged("a.P", {"x": [2]})) == ["~ $.x[0]  0 → 2"]
    assert lines({1: "a"}, {}) == ['~ $  {1: "a"} → {}']


def test_a_class_that_is_named_like_a_form_of_ours_is_shown_as_an_instance() -> None:
    assert lines(Tagged("dict", ["a"]), Tagged("dict", ["b", 1])) == ['~ $[0]  "a" → "b"', "+ $[1]  1"]
    assert lines(Tagged("dict", [[1, 2]]), Tagged("dict", [[1, 2], 3])) == ["  $[0]  list[2]", "+ $[1]  3"]
    assert lines(Tagged("float", "x"), Tagged("float", "y")) == ['~ $  float "x" → float "y"']
    assert lines(Tagged("bytes", 1), Tagged("builtins.set", 2)) == [
        "~ $  bytes 1 → set 2  (bytes → builtins.set)"
    ]


def test_bytes_are_shown_by_length_and_digits_long_ones_by_hash() -> None:
    assert lines(b"\x00\xff", b"\x01") == ["~ $  bytes[2] 00ff → bytes[1] 01"]
    (line,) = lines(b"", bytes(100))
    assert line == (
        "~ $  bytes[0] → bytes[100] sha256 cd00e292c5970d3c5e2f0ffa5171e555bc46bfc4faddfb4a418b6840b86e79a3"
    )


def test_an_absence_is_shown_by_its_kind() -> None:
    assert lines(1, Absent("encrypted", {"bytes": 3, "reason": "encrypted with aes"})) == [
        "~ $  1 → <encrypted: encrypted with aes>, bytes 3  (int → encrypted)"
    ]


def test_a_text_is_compared_by_words() -> None:
    assert lines("find the area of Aarhus", "find the area of Odense now") == [
        '~ $  "find the area of [-Aarhus-]{+Odense now+}"'
    ]
    assert lines("yes", "something else") == ['~ $  "yes" → "something else"']
    long = " ".join(f"word{n}" for n in range(100))
    (line,) = lines(f"{long} old {long}", f"{long} new {long}")
    assert "[-old-]{+new+}" in line
    assert len(line) < 200


def test_colour_comes_on_top_of_the_marks_and_never_instead() -> None:
    texts = [("plan 2", "plan 3"), ("a\nplan 2\nb", "a\nplan 3\nb"), ("yes", "something else"), ([1], [1, 2])]
    for old, new in texts:
        a, b = jsonable(old), jsonable(new)
        colored = unified_lines(rows_of(a, b, diff(a, b)), color=True, indent="")
        assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in colored] == lines(old, new)


def test_a_text_of_several_lines_is_compared_by_lines() -> None:
    old = "\n".join(f"line {n}" for n in range(20))
    new = old.replace("line 10", "line ten, by hand").replace("line 3\n", "")
    assert lines({"t": old}, {"t": new}, context=1) == [
        "~ $.t",
        "  @@ -3,3 +3,2 @@",
        "  line 2",
        "- line 3",
        "  line 4",
        "  @@ -10,3 +9,3 @@",
        "  line 9",
        "- line 10",
        "+ line ten, by hand",
        "  line 11",
    ]


def test_hostile_text_is_escaped_wherever_it_stands() -> None:
    hostile = "\x1b]0;x\x07[red]\u202e\ud800"
    shown = "\n".join(
        [
            *lines({hostile: hostile}, {hostile: hostile + "!"}),
            *lines([], [{hostile: Tagged(hostile, hostile)}]),
            *lines(f"{hostile}\na\nb", f"{hostile}\na\nc"),
            *lines({}, {"t": f"{hostile}\n" * 20}),
            *lines(Tagged(f"a.{hostile}", 1), Tagged(f"b{hostile}.{hostile}", 1)),
            *lines(Absent("encrypted", {"reason": hostile}), 1),
        ]
    )
    assert not set(shown) & set("\x1b\x07\u202e\ud800")
    shown.encode()


def test_texts_with_little_in_common_have_no_common_words() -> None:
    assert word_spans("alpha beta", "gamma delta") is None
    assert word_spans("one two three", "one two four") == [
        (" ", "one two "),
        ("-", "three"),
        ("+", "four"),
    ]


def test_a_channel_whose_rule_the_user_gives_is_compared_by_its_entries() -> None:
    document = diff_of("deltas", "no-snapshot", "--reducer", "tool_state=merge", "--json").document
    assert "incomparable" not in document
    added = [c for c in document["changes"] if c["channel"] == "tool_state"]
    assert [(c["key"], c["change"], c["to"]) for c in added] == [("lookup/4", "added", 40)]


@given(VALUES, VALUES, st.sampled_from([None, 0, 2]))
@settings(max_examples=300, deadline=None)
def test_any_difference_can_be_shown(old: Any, new: Any, context: int | None) -> None:
    shown = lines(old, new, context=context)
    moves = [char for char in "".join(shown) if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
    assert moves in ([], ["\t"] * len(moves))
    assert [line for line in shown if line[0] not in "+-~ "] == []
    differ = [each for each in diff(jsonable(old), jsonable(new)) if not each.order_only]
    assert bool(shown) == bool(differ)
