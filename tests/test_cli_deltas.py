"""``--reducer`` on the command line, and what is said where a value cannot be rebuilt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from cli_run import run, run_process, store

SHOW = ("show", "no-snapshot", "tool_state", "--turn", "1", "--store", store("deltas"))
VALUE = {"lookup/1": {"value": 10, "seq": 1}}


class Planned(MessagesState):
    plan: str


def test_a_value_that_cannot_be_rebuilt_says_why_and_what_would_help() -> None:
    done = run(*SHOW)
    assert (done.code, done.out) == (6, "")
    assert done.err.splitlines()[:2] == [
        "delta_unresolved: no later or earlier snapshot shows how its writes add up, 1 write and no snapshot",
        "--reducer CHANNEL=RULE says how its writes add up, see show --help",
    ]


def test_its_document_has_the_facts() -> None:
    document = run(*SHOW, "--json").document
    assert document["outcome"] == "delta_unresolved"
    assert document["stored"] == {
        "type": "delta",
        "reason": "no later or earlier snapshot shows how its writes add up",
        "rule": "unknown",
        "writes": 1,
    }


def test_a_rule_that_is_named_rebuilds_it() -> None:
    done = run(*SHOW, "--json", "--reducer", "tool_state=merge")
    assert (done.code, done.document["value"]) == (0, VALUE)


@pytest.mark.parametrize("verb", ["keys", "log", "diff"])
def test_every_verb_that_reads_values_takes_it(verb: str) -> None:
    done = run(verb, "no-snapshot", "--json", "--reducer", "tool_state=merge", "--store", store("deltas"))
    assert done.code == 0
    assert "lookup/4" in done.out
    assert "delta_unresolved" not in done.out


def test_a_function_of_the_present_folder_is_run_and_its_prints_are_no_data(tmp_path: Path) -> None:
    code = (
        "print('imported')\ndef merge(old, writes):\n    print('called')\n    return {**old, **writes[-1]}\n"
    )
    (tmp_path / "mine.py").write_text(code)
    done = run_process(*SHOW, "--json", "--reducer", "tool_state=mine:merge", cwd=tmp_path)
    assert done.code == 0
    assert done.document["value"] == VALUE
    assert set(done.err.splitlines()) == {"imported", "called"}


def test_a_function_that_raises_is_quoted_without_the_store_s_password(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def merge(old, writes):\n    raise ValueError('no s3cret\\nmore')\n")
    more = ("--reducer", "tool_state=mine:merge")
    done = run_process(*SHOW, *more, cwd=tmp_path, env={"PGPASSWORD": "s3cret"})
    assert done.code == 6
    assert "mine:merge raised ValueError: no *** more" in done.err.splitlines()[0]
    assert "s3cret" not in done.err


def test_several_reducers_are_taken_and_none_is_dropped() -> None:
    both = ("--reducer", "tool_state=merge", "--reducer", "plan=replace")
    assert run(*SHOW, "--json", *both).document["value"] == VALUE
    assert run(*SHOW, "--json", *both[2:], *both[:2]).document["value"] == VALUE
    twice = run(*SHOW, "--reducer", "tool_state=merge", "--reducer", "tool_state=union")
    assert (twice.code, "'tool_state' is given twice" in twice.err) == (2, True)


@pytest.mark.parametrize("argv", [("keys", "no-snapshot"), ("diff", "no-snapshot")])
def test_keys_and_diff_say_what_helps_where_deltas_cannot_be_rebuilt(argv: tuple[str, ...]) -> None:
    hint = "delta_unresolved: --reducer CHANNEL=RULE says how its writes add up, see show --help"
    assert hint in run(*argv, "--store", store("deltas")).err.splitlines()
    assert hint not in run(*argv, "--reducer", "tool_state=merge", "--store", store("deltas")).err


def test_a_chart_of_turns_takes_a_reducer() -> None:
    chart = ("turns", "no-snapshot", "--chart", "--store", store("deltas"))
    without, given = (run(*chart, *more) for more in ((), ("--reducer", "tool_state=merge")))
    assert "lookup/1  ? ? ? ?" in without.out
    assert "lookup/1  # . . ." in given.out


def test_nothing_is_imported_where_no_function_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit(77)")
    done = run_process(*SHOW, "--reducer", "tool_state=merge", cwd=tmp_path)
    assert done.code == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tool_state", "'tool_state' is not CHANNEL=RULE."),
        ("tool_state=", "'tool_state=' is not CHANNEL=RULE."),
        ("tool_state=merge,tool_state=union", "'tool_state' is given twice."),
        (
            "tool_state=sum",
            "'sum' is neither messages, extend, append, add-new, merge, union, replace nor module:function.",
        ),
        ("tool_state=nowhere:merge", "the reducer nowhere:merge cannot be imported"),
        ("tool_state=json:nothing", "the reducer json:nothing cannot be imported"),
        ("tool_state=json:__name__", "json:__name__ is no function"),
    ],
)
def test_what_is_no_rule_is_a_usage_error(given: str, said: str) -> None:
    done = run(*SHOW, "--reducer", given)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.split())


@pytest.mark.parametrize("rule", ["merge", "json:loads"])
@pytest.mark.parametrize("verb", ["show", "log", "diff"])
def test_a_rule_for_a_channel_that_the_thread_has_not_is_refused_with_what_there_is(
    verb: str, rule: str
) -> None:
    result = run(verb, "no-snapshot", "plan", "--reducer", f"tool_stat={rule}", "--store", store("deltas"))
    assert (result.code, result.out) == (2, "")
    what, has, hint = result.err.splitlines()
    assert "has no channel 'tool_stat'" in what
    assert has.startswith("  it has: tool_state")
    assert hint == "  Name one that it has, or leave it out."


def test_a_rule_for_a_channel_that_only_a_branch_has_is_taken_there(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        config: dict[str, Any] = {"configurable": {"thread_id": "t"}}
        graph = StateGraph(MessagesState)
        graph.add_node("answer", lambda _: {"messages": [("ai", "Aarhus")]})
        graph.add_edge(START, "answer").add_edge("answer", END)
        app = graph.compile(checkpointer=saver)
        app.invoke({"messages": [("user", "Where?")]}, config, durability="sync")
        first = app.get_state(config).config
        other = StateGraph(Planned)
        other.add_node("answer", lambda _: {"plan": "go"})
        other.add_edge(START, "answer").add_edge("answer", END)
        left = other.compile(checkpointer=saver)
        left.invoke({"messages": [("user", "And there?")]}, first, durability="sync")
        tip = left.get_state(config).config["configurable"]["checkpoint_id"]
        app.invoke({"messages": [("user", "Why?")]}, first, durability="sync")
    more = ("--reducer", "plan=replace", "--store", str(path))
    assert run("show", "t", "plan", "--branch", tip, *more).out == "go\n"
    assert run("keys", "t", "--branch", tip, "--store", str(path)).code == 0
    assert "has no channel 'plan'" in run("show", "t", "messages", *more).err


def test_a_rule_that_does_not_fit_the_writes_is_said() -> None:
    done = run(*SHOW, "--reducer", "tool_state=union")
    assert done.code == 6
    assert "by the rule union: it is no set" in done.err
