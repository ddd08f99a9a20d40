"""``turnstate diff --against``: the same turns of two recordings, made by two releases of one graph."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import SecretStr

import pg
from cli_run import Result, run, run_in_terminal, store
from turnstate.history.generated import without_generated_ids

QUESTIONS = ("Where is Aarhus?", "How old is it?", "Thanks")
UUID = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
NOTE = "generated ids are not compared; --ids compares them too"


@dataclass(frozen=True)
class Release:
    """What a graph answers, plans and holds as a secret in each turn."""

    answers: tuple[str, ...] = ("In Jutland.", "Very old.", "Welcome.")
    plans: tuple[str, ...] = ("locate", "date", "date")
    secrets: tuple[str, ...] = ("violet-1", "violet-1", "violet-1")


OLD = Release()
NEW = Release(
    ("In Jutland.", "Very old. It was founded by Vikings.", "Welcome."), ("locate", "count", "date")
)


class State(MessagesState):
    plan: str
    token: SecretStr


def hold(
    saver: BaseCheckpointSaver[Any],
    release: Release = OLD,
    *,
    thread: str = "t",
    questions: tuple[str, ...] = QUESTIONS,
) -> None:
    """Hold the conversation. Nobody chooses an id: those of messages are LangGraph's and the model's."""
    model = GenericFakeChatModel(messages=iter(map(AIMessage, release.answers)))

    def look_up(state: State) -> dict[str, Any]:
        turn = sum(isinstance(each, HumanMessage) for each in state["messages"]) - 1
        call = f"call_{uuid4().hex}"
        asked = AIMessage("", tool_calls=[{"name": "look_up", "args": {"turn": turn}, "id": call}])
        messages = [asked, ToolMessage("found", tool_call_id=call)]
        return {
            "messages": messages,
            "plan": release.plans[turn],
            "token": SecretStr(release.secrets[turn]),
        }

    def answer(state: State) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(State)
    graph.add_node(look_up)
    graph.add_node(answer)
    graph.add_edge(START, "look_up")
    graph.add_edge("look_up", "answer")
    graph.add_edge("answer", END)
    app = graph.compile(checkpointer=saver)
    for question in questions:
        app.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": thread}})


def recorded(folder: Path, name: str, release: Release = OLD, **asked: Any) -> str:
    path = folder / f"{name}.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        hold(SqliteSaver(connection), release, **asked)
    return str(path)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> str:
    return recorded(tmp_path_factory.mktemp("old"), "old")


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> str:
    return recorded(tmp_path_factory.mktemp("new"), "new", NEW)


def against(first: str, second: str, *argv: str) -> Result:
    return run("diff", "t", *argv, "--store", first, "--against", second)


def changed(result: Result) -> dict[int, list[str]]:
    """Turn → the keys that changed in it."""
    return {each["turn"]: [c["key"] for c in each["changes"]] for each in result.document["turns"]}


# What differs.


def test_a_store_does_not_differ_from_itself_in_any_turn(old: str) -> None:
    result = against(old, old, "--exit-code")
    assert result.code == 0
    assert result.out == 'turn 1  "Where is Aarhus?"\nturn 2  "How old is it?"\nturn 3  "Thanks"\n'
    assert result.err.count("no differences\n") == 3


def test_two_runs_of_one_release_differ_by_their_generated_ids_alone(old: str, tmp_path: Path) -> None:
    again = recorded(tmp_path, "again")
    assert changed(against(old, again, "--json")) == {1: [], 2: [], 3: []}
    assert against(old, again, "--exit-code").err.endswith(f"{NOTE}\n")
    with_ids = against(old, again, "--exit-code", "--ids", "--json")
    assert (with_ids.code, changed(with_ids)) == (1, {1: ["messages"], 2: ["messages"], 3: ["messages"]})
    assert NOTE not in against(old, again, "--ids").err


def test_what_another_release_wrote_is_said_turn_by_turn(old: str, new: str) -> None:
    result = against(old, new, "--exit-code", "--context", "0", "--json")
    assert (result.code, changed(result)) == (1, {1: [], 2: ["messages", "plan"], 3: ["messages"]})
    text = against(old, new, "--context", "0").out.splitlines()
    assert [line for line in text if not line.startswith("messages ")] == [
        'turn 1  "Where is Aarhus?"',
        'turn 2  "How old is it?"',
        '  ~ $[7].content  "Very old." → "Very old. It was founded by Vikings."',
        "plan  changed · 5 B → 6 B",
        '  ~ $  "date" → "count"',
        'turn 3  "Thanks"',
        '  ~ $[7].content  "Very old." → "Very old. It was founded by Vikings."',
    ]


@pytest.mark.parametrize(
    ("asked", "turns"),
    [("2", [2]), ("-2", [2]), ("2..", [2, 3]), ("..2", [1, 2]), ("0..1", [0, 1]), ("2..99", [2, 3])],
)
def test_turns_names_those_that_are_compared(old: str, new: str, asked: str, turns: list[int]) -> None:
    assert list(changed(against(old, new, "--turns", asked, "--json"))) == turns


def test_a_key_alone_is_compared_in_every_turn(old: str, new: str) -> None:
    assert changed(run("diff", "t", "plan", "--store", old, "--against", new, "--json")) == {
        1: [],
        2: ["plan"],
        3: [],
    }
    missed = run("diff", "t", "plam", "--store", old, "--against", new)
    assert (missed.code, missed.out) == (4, "")
    assert missed.err.startswith("no_such_key: ")


def test_names_and_counts_stand_under_their_turns(old: str, new: str) -> None:
    names = against(old, new, "--name-only", "--turns", "2").out
    assert names == 'turn 2  "How old is it?"\nmessages\nplan\n'
    counted = against(old, new, "--stat", "--turns", "2").out.splitlines()
    assert [line.split()[:5] for line in counted[2:]] == [
        ["messages", "changed", "+0", "−0", "~1"],
        ["plan", "changed", "+0", "−0", "~1"],
    ]


def test_side_by_side_tells_the_two_recordings_apart(old: str, new: str) -> None:
    argv = ("diff", "t", "plan", "--store", old, "--against", new, "--turns", "2", "--side-by-side")
    lines = run_in_terminal(*argv, columns=100, env={"NO_COLOR": "1"}).splitlines()
    assert lines[2].strip() == "turn 2 here  turn 2 in the other"
    assert lines[3].split() == ["~", "$", '"date"', '"count"']


def test_questions_that_differ_are_said_to(old: str, tmp_path: Path) -> None:
    other = recorded(tmp_path, "other", questions=("Where is Aarhus?", "How big is it?", "Thanks"))
    lines = against(old, other, "--name-only").out.splitlines()
    assert lines == [
        'turn 1  "Where is Aarhus?"',
        'turn 2  "How old is it?"',
        '  the other asks "How big is it?"',
        "messages",
        'turn 3  "Thanks"',
        "messages",
    ]


def test_another_thread_of_the_same_store_can_be_compared_with(tmp_path: Path) -> None:
    path = tmp_path / "both.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        hold(SqliteSaver(connection), OLD)
        hold(SqliteSaver(connection), NEW, thread="u")
    document = run("diff", "t", "--against-thread", "u", "--store", str(path), "--json").document
    assert (document["thread"], document["against"]["thread"]) == ("t", "u")
    assert [len(each["changes"]) for each in document["turns"]] == [0, 2, 1]


def test_a_secret_that_differs_is_said_to_and_not_shown(old: str, tmp_path: Path) -> None:
    other = recorded(tmp_path, "other", Release(secrets=("violet-1", "indigo-2", "violet-1")))
    for form in ((), ("--json",), ("--jsonl",), ("--ids", "--json"), ("--stat",)):
        result = against(old, other, *form)
        assert "token" in result.out
        assert not any(word in result.out + result.err for word in ("violet", "indigo"))
    assert changed(against(old, other, "--json")) == {1: [], 2: ["token"], 3: []}
    assert '"violet-1"' in against(old, other, "--reveal").out


def test_what_can_be_read_in_neither_store_may_differ_also_where_its_version_is_the_same() -> None:
    def deltas(*argv: str) -> Result:
        return run("diff", "no-snapshot", "--store", store("deltas"), "--against", store("deltas"), *argv)

    keys = [each["key"] for turn in deltas("--json").document["turns"] for each in turn["incomparable"]]
    assert set(keys) == {"tool_state"}
    assert [deltas().code, deltas("--exit-code").code] == [0, 6]


def test_how_turns_are_counted_is_said_once() -> None:
    result = run("diff", "query", "--store", store("fields"), "--against-thread", "query-edited")
    assert result.err.count("turns are counted by inputs, not by questions in the messages\n") == 1


# Turns that only one of them has.


def test_a_turn_that_only_one_has_had_is_a_difference_and_nothing_passes_for_added(
    old: str, tmp_path: Path
) -> None:
    short = recorded(tmp_path, "short", questions=QUESTIONS[:2])
    lines = ['turn 3  "Thanks"', "  no_such_turn in the other: the thread has had 2 turns"]
    result = against(old, short, "--exit-code")
    assert (result.code, result.out.splitlines()[2:]) == (1, lines)
    assert against(old, short).code == 0
    lines[1] = "  no_such_turn here: the thread has had 2 turns"
    assert against(short, old).out.splitlines()[2:] == lines
    codes = [
        against(old, short, "--turns", turn, *more).code for turn in "34" for more in ((), ("--exit-code",))
    ]
    assert codes == [4, 1, 4, 4]


@pytest.mark.parametrize(("first", "second"), [("demo", "demo-pruned"), ("demo-pruned", "demo")])
def test_a_pruned_turn_is_said_to_be_on_its_side(first: str, second: str) -> None:
    def demo(*argv: str) -> Result:
        return run("diff", "demo", "--store", store(first), "--against", store(second), *argv)

    missing, *compared = demo("--json").document["turns"]
    assert (missing.pop("message").startswith("turn 1 was pruned"), missing) == (
        True,
        {
            "turn": 1,
            "outcome": "turn_no_longer_retained",
            "side": "to" if second == "demo-pruned" else "from",
        },
    )
    assert [(each["turn"], each["changes"]) for each in compared] == [(2, []), (3, [])]
    asked = ("--turns 1", "--turns 1 --exit-code", "", "--exit-code", "--turns 2.. --exit-code")
    assert [demo(*each.split()).code for each in asked] == [5, 5, 0, 5, 0]


def test_a_thread_that_the_other_does_not_have_is_named_as_that(old: str) -> None:
    result = run("diff", "t", "--store", old, "--against", store("demo"))
    assert (result.code, result.out) == (4, "")
    assert result.err == "no_such_thread: to compare with: the store has no thread 't'; the latest: demo\n"


# Forms.


def test_the_document_has_a_turn_with_both_ends_or_its_outcome(new: str, tmp_path: Path) -> None:
    short = recorded(tmp_path, "short", questions=QUESTIONS[:2])
    document = run(
        "diff", "t", "plan", "--store", short, "--against", new, "--turns", "2..", "--json"
    ).document
    (compared, missing) = document.pop("turns")
    assert document == {
        "schema": "turnstate.diff/1",
        "thread": "t",
        "namespace": "",
        "against": {"thread": "t", "total_turns": 3},
        "asked": "plan",
        "ids_compared": False,
        "total_turns": 2,
        "total_is": "exact",
        "turns_by": "questions",
    }
    tips = [
        run("turns", "t", "--store", each, "--json").document["turns"][1]["last_checkpoint"]
        for each in (short, new)
    ]
    assert compared == {
        "turn": 2,
        "from": {"turn": 2, "checkpoint": tips[0], "question": "How old is it?"},
        "to": {"turn": 2, "checkpoint": tips[1], "question": "How old is it?"},
        "changes": [
            {
                "key": "plan",
                "channel": "plan",
                "change": "changed",
                "bytes": {"from": 5, "to": 6},
                "from": "date",
                "to": "count",
            }
        ],
    }
    assert missing == {
        "turn": 3,
        "outcome": "no_such_turn",
        "side": "from",
        "message": "the thread has had 2 turns",
    }


def test_json_lines_name_the_turn_of_each_key(old: str, new: str) -> None:
    lines = against(old, new, "--jsonl").documents
    assert [(line["turn"], line["key"], line["from_turn"], line["to_turn"]) for line in lines] == [
        (2, "messages", 2, 2),
        (2, "plan", 2, 2),
        (3, "messages", 3, 3),
    ]
    assert all("patch" not in line for line in lines)


def test_only_values_that_were_compared_whole_have_a_patch(old: str, new: str) -> None:
    (line,) = run("diff", "t", "plan", "--store", old, "--against", new, "--ids", "--jsonl").documents
    assert line["patch"] == [{"op": "replace", "path": "", "value": "count"}]


@pytest.mark.parametrize(
    "argv",
    [
        ("--checkpoints", "1f..1f", "--against", "x.db"),
        ("--branch", "1f", "--against", "x.db"),
        ("--turns", "1...2", "--against", "x.db"),
        ("--branch", "1f", "--against-thread", "u"),
        ("--ids",),
    ],
)
def test_options_that_do_not_go_together_are_refused(old: str, argv: tuple[str, ...]) -> None:
    result = run("diff", "t", *argv, "--store", old)
    assert (result.code, result.out) == (2, "")


def test_a_postgresql_store_is_compared_with_a_file(old: str, new: str, pg_dsn: str) -> None:
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        hold(saver)
    assert changed(against(pg_dsn, old, "--json")) == {1: [], 2: [], 3: []}
    assert changed(against(old, pg_dsn, "--json")) == {1: [], 2: [], 3: []}
    assert changed(against(new, pg_dsn, "--json")) == {1: [], 2: ["messages", "plan"], 3: ["messages"]}
    with pg.role(pg_dsn, password="a-planted-password") as owner:
        result = against(old, owner)
    assert result.code == 2
    assert "a-planted-password" not in result.out + result.err


# Which ids are generated.


@pytest.mark.parametrize(
    "id",
    [
        UUID,
        UUID.upper(),
        f"run-{UUID}",
        f"run-{UUID}-0",
        f"run--{UUID}-0",
        f"lc_{UUID}",
        f"lc_run--{UUID}",
        "call_Xa81kQ0mPn55tYwW2bBcDdEe",
        "toolu_01A09q90qw90lq917835lq9",
        "chatcmpl-9hGZ1aVxQ1vYw0mPn55tYwW2b",
        "msg_013Zva2CMHLNnXjNJJKqJ2EF",
    ],
)
def test_generated_ids_of_messages_and_calls_are_left_out(id: str) -> None:
    call = {"name": "f", "args": {"id": id}}
    fields = {"content": [{"type": "tool_use", "name": "f"}], "type": "ai", "tool_calls": [call]}
    given = {
        "content": [{"type": "tool_use", "name": "f", "id": id}],
        "type": "ai",
        "id": id,
        "tool_calls": [{**call, "id": id}],
    }
    tagged = "langchain_core.messages.ai.AIMessage"
    assert without_generated_ids([given]) == [fields]
    assert without_generated_ids({"$type": tagged, "$value": given}) == {"$type": tagged, "$value": fields}
    tool = {"content": "found", "role": "tool"}
    assert without_generated_ids({"a": {**tool, "tool_call_id": id}}) == {"a": tool}


FORMS_THAT_STAY: list[Any] = [
    *({"content": "Hi", "type": "human", "id": id} for id in ("h1", "", "msg_1", "run-1", None, 7)),
    {"id": UUID, "title": "a document"},
    {"content": "a text", "id": UUID},
    {"$type": "app.Order", "$value": {"id": UUID, "content": ""}},
    {"$absent": "encrypted", "id": UUID},
    {"$type": "bytes", "$base64": "AA=="},
    [UUID, 1, 1.5, None],
]


@pytest.mark.parametrize("form", FORMS_THAT_STAY)
def test_ids_that_somebody_chose_and_those_of_other_things_stay(form: Any) -> None:
    assert without_generated_ids(form) == form
