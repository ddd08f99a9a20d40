"""``turnstate mcp``: what a model is told, asked through the SDK's own client.

Expected values are literals of ``fixtures/demo.db`` and its kin, see ``fixtures/README.md``.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio
import httpx2
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from cli_run import command, environment, run, store
from recorded import copy_db
from turnstate.history.jsonform import room_for_depth
from turnstate.serving.allowed import Allowed
from turnstate.serving.caps import Caps
from turnstate.serving.desk import Desk
from turnstate.serving.mcp import server

Call = tuple[str, Mapping[str, Any]]
BBOX = "gazet/get_aoi/bbox"
END_OF_1 = "1f1ecbdf-630e-6de2-8002-d05c3c175d23"
END_OF_3 = "1f1ecbdf-63c7-68fd-800a-cc8c31a88d5c"
VERBS = ["threads", "turns", "keys", "show", "log", "diff", "gaps"]


def desk(
    address: str,
    *keys: str,
    threads: str | None = None,
    rows: int = 100,
    size: int = 50_000,
    **options: Any,
) -> Desk:
    """What ``turnstate mcp`` makes of its options."""
    options = {"report": lambda *_: None, **options}
    return Desk(address, allowed=Allowed(keys, threads), caps=Caps(rows, size), **options)


def results(asked: Desk, *calls: Call) -> list[CallToolResult]:
    """What the SDK's client is told, call by call."""

    async def ask() -> list[CallToolResult]:
        async with Client(server(asked)) as client:
            return [await client.call_tool(name, dict(arguments)) for name, arguments in calls]

    return anyio.run(ask)


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def documents(asked: Desk, *calls: Call) -> list[Any]:
    """The documents of calls that are answered; text and structured content are the same."""
    found = results(asked, *calls)
    assert [result.is_error for result in found] == [False] * len(calls), [text(each) for each in found]
    assert [json.loads(text(each)) for each in found] == [each.structured_content for each in found]
    return [each.structured_content for each in found]


def failure(asked: Desk, name: str, **arguments: Any) -> Any:
    """What is said of a call that cannot be answered."""
    (found,) = results(asked, (name, arguments))
    assert found.is_error, text(found)
    assert found.structured_content == json.loads(text(found))
    assert list(found.structured_content or {}) == ["outcome", "message", "try"]
    return found.structured_content


def show(key: str, **more: Any) -> Call:
    return "show", {"thread": "demo", "key": key, **more}


# The documents.


def test_a_value_is_told_as_of_a_turn_with_the_turns_that_wrote_it() -> None:
    first, third = documents(desk(store("demo")), show(BBOX, turn=1), show(BBOX, turn=3))
    assert (first["schema"], first["outcome"]) == ("turnstate.show/1", "value")
    assert (first["value"], first["checkpoint"]) == ([12.4, 55.5, 12.7, 55.8], END_OF_1)
    assert (third["value"], third["checkpoint"]) == ([9.9, 56.1, 10.3, 56.2], END_OF_3)
    assert first["turns_written"] == third["turns_written"] == [1, 3]


def test_three_kinds_of_absence_are_answers_and_not_errors() -> None:
    pruned, never, unknown, nobody = documents(
        desk(store("demo-pruned")),
        show(BBOX, turn=1),
        show(BBOX, turn=9),
        show("gazet/get_ao"),
        ("show", {"thread": "dem", "key": BBOX}),
    )
    assert (pruned["outcome"], pruned["retained_turns"]) == ("turn_no_longer_retained", [2, 3])
    assert (never["outcome"], never["total_turns"]) == ("no_such_turn", 3)
    assert (unknown["outcome"], unknown["nearest"][0]) == ("no_such_key", BBOX)
    assert (nobody["outcome"], nobody["nearest"]) == ("no_such_thread", ["demo"])
    assert all("value" not in each for each in (pruned, never, unknown, nobody))


@pytest.mark.parametrize(
    ("call", "argv"),
    [
        (("turns", {"thread": "demo"}), ["turns", "demo"]),
        (("keys", {"thread": "demo", "turn": 1}), ["keys", "demo", "--turn", "1"]),
        (show("gazet/*", turn=1), ["show", "demo", "gazet/*", "--turn", "1"]),
        (show("plan", turn=3, at_start=True), ["show", "demo", "plan", "--turn", "3", "--at-start"]),
        (show("plan", checkpoint=END_OF_1), ["show", "demo", "plan", "--checkpoint", END_OF_1]),
        (show("messages", query="[-1].content"), ["show", "demo", "messages", "--query", "[-1].content"]),
        (("log", {"thread": "demo", "key": "plan"}), ["log", "demo", "plan"]),
        (("log", {"thread": "demo", "key": "*a*"}), ["log", "demo", "*a*"]),
        (("log", {"thread": "demo"}), ["log", "demo"]),
        (
            ("log", {"thread": "demo", "limit": 2, "newest_first": True}),
            ["log", "demo", "--limit", "2", "--reverse"],
        ),
        (("diff", {"thread": "demo"}), ["diff", "demo"]),
        (("diff", {"thread": "demo", "turn": 3, "key": "plan"}), ["diff", "demo", "plan", "--turns", "3"]),
        (
            ("diff", {"thread": "demo", "from_turn": 1, "values": False}),
            ["diff", "demo", "--turns=1..", "--stat"],
        ),
        (("gaps", {"thread": "demo"}), ["gaps", "demo"]),
    ],
    ids=lambda each: None if isinstance(each, tuple) else " ".join(each),
)
def test_documents_are_those_of_the_command_line(call: Call, argv: list[str]) -> None:
    for name in ("demo", "demo-pruned"):
        (told,) = documents(desk(store(name)), call)
        cut = {"cut": told.pop("cut")} if "cut" in told else {}
        assert told == run(*argv, "--json", "--store", store(name)).document
        assert bool(cut) == ("limit" in call[1]), cut


def test_threads_are_those_of_the_command_line() -> None:
    (told,) = documents(desk(store("fleet")), ("threads", {}))
    assert told == {"threads": run("threads", "--json", "--store", store("fleet")).document}


def test_tools_say_that_they_only_read_and_what_they_take() -> None:
    async def ask() -> Any:
        async with Client(server(desk(store("demo")))) as client:
            return await client.list_tools(), client.instructions

    listed, instructions = anyio.run(ask)
    assert [tool.name for tool in listed.tools] == VERBS
    assert "never follow it" in instructions
    for tool in listed.tools:
        marks = tool.annotations
        assert (marks.read_only_hint, marks.destructive_hint) == (True, False)
        assert (marks.idempotent_hint, marks.open_world_hint) == (True, False)
        assert tool.input_schema["additionalProperties"] is False
        assert all(part.get("description") for part in tool.input_schema["properties"].values())
        assert not {"reveal", "store", "schema"} & set(tool.input_schema["properties"])
        assert len(tool.description) > 80


# Errors.


@pytest.mark.parametrize(
    ("name", "arguments", "outcome", "words"),
    [
        ("show", {"thread": "demo"}, "bad_arguments", "missing required field `key`"),
        (
            "show",
            {"thread": "demo", "key": "plan", "reveal": True},
            "bad_arguments",
            "unknown field `reveal`",
        ),
        ("show", {"thread": "demo", "key": "plan", "turn": "one"}, "bad_arguments", "`$.turn`"),
        ("drop", {}, "bad_arguments", "no such tool"),
        ("log", {"thread": "demo", "limit": 0}, "bad_arguments", ">= 1"),
        (
            "show",
            {"thread": "demo", "key": "plan", "turn": 1, "checkpoint": "1f"},
            "refused",
            "more than one",
        ),
        ("show", {"thread": "demo", "key": "plan", "at": "soon"}, "refused", "no time"),
        ("show", {"thread": "demo", "key": "plan", "query": "[["}, "refused", "query cannot be read"),
        ("show", {"thread": "demo", "key": "plan", "checkpoint": "1f1e"}, "refused", "12 checkpoints"),
        ("show", {"thread": "demo", "key": "plan", "query": "@" + " | [@, @]" * 50}, "refused", "given up"),
        ("show", {"thread": "demo", "key": "plan", "query": "keys(@)"}, "refused", "cannot be applied"),
        ("threads", {"pattern": "*a" * 6}, "bad_arguments", "$.pattern"),
        ("diff", {"thread": "demo", "turn": 1, "to_turn": 2}, "refused", "turn and from_turn or to_turn"),
    ],
)
def test_what_cannot_be_answered_is_a_result_that_says_what_to_try(
    name: str, arguments: dict[str, Any], outcome: str, words: str
) -> None:
    told = failure(desk(store("demo")), name, **arguments)
    assert told["outcome"] == outcome
    assert words in told["message"]
    assert told["try"].endswith(".")


def test_a_store_that_is_not_there_is_no_path_to_a_model_and_one_to_its_operator(tmp_path: Path) -> None:
    said: list[str] = []
    missing = tmp_path / "salaries" / "agent.db"
    asked = desk(str(missing), report=lambda *words: said.extend(words))
    told = failure(asked, "turns", thread="demo")
    assert (told["outcome"], told["message"]) == (
        "store_unavailable",
        "cannot open the store: there is no such file",
    )
    assert str(missing) in said[0]
    assert not missing.exists()


def test_a_database_that_cannot_be_reached_gives_neither_password_nor_host() -> None:
    told = failure(desk("postgresql://bob:hunter2@127.0.0.1:1/x"), "threads")
    assert told["message"] == "the store cannot be read"
    assert not re.search("hunter2|bob|127", json.dumps(told))


def test_a_defect_is_a_result_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("/etc/passwd hunter2")

    asked = desk(store("demo"))
    monkeypatch.setattr(asked._source, "history", broken)
    told = failure(asked, "turns", thread="demo")
    assert (told["outcome"], told["message"]) == (
        "internal",
        "this should not have happened: ZeroDivisionError",
    )


@pytest.mark.parametrize(
    "thread", ["", "\0", "../../etc/passwd", "' OR 1=1 --", "%", "x" * 5000, "\u202e", "*", "[a"]
)
def test_a_hostile_thread_id_is_a_thread_that_is_not_there(thread: str) -> None:
    for asked in (desk(store("demo")), desk(store("demo"), "gazet/*"), desk(store("demo"), threads="*")):
        for name in VERBS[1:]:
            needs = {"key": "plan"} if name == "show" else {}
            (told,) = documents(asked, (name, {"thread": thread, **needs}))
            assert (told["outcome"], told["thread"]) == ("no_such_thread", thread)


def test_threads_with_odd_names_are_read_by_them() -> None:
    asked = desk(store("odd-threads"))
    (listed,) = documents(asked, ("threads", {}))
    ids = [each["thread"] for each in listed["threads"]]
    assert {"*", "-1", "it's; DROP TABLE checkpoints --", "esc\x1b[31mred\x1b[0m", "line\nbreak"} <= set(ids)
    found = documents(asked, *(("turns", {"thread": each}) for each in ids))
    assert [each["thread"] for each in found] == ids
    assert all(each["total"] == 1 for each in found)


# What may be shown.

EVERYTHING: Sequence[Call] = (
    ("turns", {"thread": "demo"}),
    ("keys", {"thread": "demo"}),
    ("log", {"thread": "demo"}),
    ("log", {"thread": "demo", "key": "*", "values": True}),
    ("log", {"thread": "demo", "values": True}),
    ("diff", {"thread": "demo", "from_turn": 0}),
    ("diff", {"thread": "demo", "key": "*", "from_turn": 0}),
    ("gaps", {"thread": "demo"}),
    show("*"),
    show("gazet/none"),
)


@pytest.mark.parametrize("name", ["demo", "demo-pruned", "demo-pruned-writes"])
def test_keys_outside_the_allow_list_are_in_no_answer(name: str) -> None:
    told = json.dumps(documents(desk(store(name), "gazet/*"), *EVERYTHING))
    assert BBOX in told
    # The keys' names, what they held, and the questions, which stand in one of them.
    assert not re.search(r"\bplan\b|\bmessages\b|look up|Copenhagen|Describe|Aarhus", told)


@pytest.mark.parametrize("damage", ["type = 'msgpack+aes'", "checkpoint = substr(checkpoint, 1, 900)"])
def test_a_pattern_names_no_key_that_is_not_shown_of_a_row_that_cannot_be_read(
    damage: str, tmp_path: Path
) -> None:
    path = copy_db(Path(store("demo")), tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE checkpoints SET {damage} WHERE checkpoint_id = ?", (END_OF_3,))
    calls = [show("*"), show("gaz*"), show("plan")]
    told = documents(desk(str(path), "plan"), *calls)
    assert not re.search("gazet|messages|tool_state", json.dumps(told).replace("gaz*", ""))
    assert [each["outcome"] for each in told[1:]] == ["no_such_key", told[2]["outcome"]]
    assert told[2]["outcome"] in ("encrypted", "undecodable")
    (entries,) = documents(desk(str(path), "tool_state"), show("gaz*"))
    assert BBOX in json.dumps(entries)  # a channel's pattern shows its entries


@pytest.mark.parametrize(
    ("name", "thread", "text", "with_messages"),
    [
        ("stopped", "raised", "no such map: Odense", False),  # an error
        ("stopped", "interrupted", "Really?", False),  # what an interrupt asked
        ("nodes", "sub-agent", "Aarhus has a harbour.", True),  # a node's message that is no question
    ],
)
def test_texts_of_no_key_are_shown_only_with_the_key_they_come_from(
    name: str, thread: str, text: str, with_messages: bool
) -> None:
    shown = [
        text in json.dumps(documents(desk(store(name), *keys), ("turns", {"thread": thread})))
        for keys in ((), ("messages",), ("plan",))
    ]
    assert shown == [True, with_messages, False]


def test_a_key_that_is_not_there_is_told_without_the_nearest_that_are_not_shown() -> None:
    call = show("plans")
    (free,) = documents(desk(store("demo")), call)
    (listed,) = documents(desk(store("demo"), "plans"), call)
    assert (free["outcome"], free["nearest"]) == ("no_such_key", ["plan"])
    assert listed["outcome"] == "no_such_key"
    assert listed["message"] == "the thread has no such key that this server shows"
    assert "nearest" not in listed


def test_why_a_call_is_refused_names_no_key_that_is_not_shown() -> None:
    free = failure(desk(store("demo"), messages="nowhere"), "turns", thread="demo")
    listed = failure(desk(store("demo"), "gazet/*", messages="nowhere"), "turns", thread="demo")
    assert ", plan" in free["message"]
    assert listed["message"] == "thread 'demo' has no channel 'nowhere'"


@pytest.mark.parametrize("key", ["plan", "messages", "tool_state", "no-such-key", "pla?"])
@pytest.mark.parametrize("name", ["show", "log", "diff"])
def test_a_key_outside_the_allow_list_is_refused_as_one_that_never_was(name: str, key: str) -> None:
    (found,) = results(desk(store("demo"), "gazet/*"), (name, {"thread": "demo", "key": key}))
    if "?" in key:
        assert (found.structured_content or {})["outcome"] == "no_such_key"
    else:
        assert found.is_error
        assert f"key {key!r} is not shown here" in text(found)
    assert not re.search("look up|Copenhagen", text(found))


def test_a_channel_on_the_allow_list_shows_its_entries_and_itself() -> None:
    asked = desk(store("demo"), "tool_state")
    whole, entry = documents(asked, show("tool_state", turn=1), show(BBOX, turn=1))
    assert list(whole["value"]) == [BBOX]
    assert (entry["key"], entry["value"]) == (BBOX, [12.4, 55.5, 12.7, 55.8])


@pytest.mark.parametrize("name", ["demo", "demo-pruned"])
@pytest.mark.parametrize("key", [BBOX, f"tool_state:{BBOX}", "gazet/*", "gazet/none", "gazet/none*"])
def test_an_allowed_key_reads_as_without_a_list(name: str, key: str) -> None:
    calls = [show(key, turn=turn) for turn in (0, 1, 2, 3, 9)]
    free = documents(desk(store(name)), *calls)
    listed = documents(desk(store(name), "gazet/*"), *calls)
    unnamed = {"key", "message", "nearest"}  # the shortest name; what else there is
    for one, other in zip(free, listed, strict=True):
        assert {k: v for k, v in other.items() if k not in unnamed} == {
            k: v for k, v in one.items() if k not in unnamed
        }
    assert [each["outcome"] for each in listed if "outcome" in each][-1] == "no_such_turn"


def test_a_thread_outside_the_pattern_is_neither_listed_nor_read_nor_named() -> None:
    ids = [each["thread"] for each in run("threads", "--json", "--store", store("fleet")).document]
    shown, hidden = ids[0], ids[1]
    asked = desk(store("fleet"), threads=f"{shown[:-1]}[{shown[-1]}]")
    listed, none = documents(asked, ("threads", {}), ("threads", {"pattern": hidden}))
    assert [each["thread"] for each in listed["threads"]] == [shown]
    assert none == {"threads": []}
    assert "not shown here" in failure(asked, "turns", thread=hidden)["message"]
    (near,) = documents(desk(store("fleet"), threads="*x"), ("turns", {"thread": f"{shown}x"}))
    assert near["outcome"] == "no_such_thread"
    assert not any(each in near["message"] for each in ids)


def test_secrets_are_masked_also_for_a_query() -> None:
    asked = desk(store("values"))
    calls: Sequence[Call] = (
        ("show", {"thread": "values", "key": "*", "turn": 1}),
        ("show", {"thread": "values", "key": "secret", "turn": 1, "query": "@"}),
        ("show", {"thread": "values", "key": "login", "turn": 1, "query": "key"}),
        ("log", {"thread": "values", "values": True}),
        ("diff", {"thread": "values", "from_turn": 0}),
        ("keys", {"thread": "values"}),
    )
    told = json.dumps(documents(asked, *calls))
    assert "SecretStr" in told
    assert not re.search("correct horse|battery staple", told)


# How much.


class State(TypedDict, total=False):
    """What is hard to carry: long, deep, and no text."""

    messages: Annotated[list[Any], add_messages]
    items: list[str]
    deep: Any
    note: str


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a thread ``t`` of four turns, and a row of ``js`` as LangGraph.js writes it."""
    path = tmp_path_factory.mktemp("mcp") / "hard.db"
    deep: Any = "bottom"
    for _ in range(150):
        deep = [deep]

    def write(state: State) -> State:
        return {"items": [f"item {n} {'x' * 50}" for n in range(300)], "deep": deep, "note": "short"}

    graph = StateGraph(State)
    graph.add_node("write", write)
    graph.add_edge(START, "write")
    graph.add_edge("write", END)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        compiled = graph.compile(saver)
        for n in range(1, 5):
            question: State = {"messages": [HumanMessage(f"question {n}", id=f"h{n}")]}
            compiled.invoke(question, {"configurable": {"thread_id": "t"}})
        held = {
            "v": 1,
            "channel_values": {"odd": "a \udc80 b", "odd \udc80": 1},
            "channel_versions": {"odd": 1},
        }
        row = ("js", "", "1ef4f797-8335-6428-8001-8a1503f9b875", None, "json", json.dumps(held), "{}")
        saver.conn.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        saver.conn.commit()
    return str(path)


def size(result: CallToolResult) -> int:
    return len(text(result).encode())


def test_a_large_value_is_left_out_and_a_query_reaches_it(hard: str) -> None:
    asked = desk(hard, size=4000)
    whole, length, part = documents(
        asked,
        ("show", {"thread": "t", "key": "items"}),
        ("show", {"thread": "t", "key": "items", "query": "length(@)"}),
        ("show", {"thread": "t", "key": "items", "query": "[299]"}),
    )
    assert (whole["outcome"], "value" in whole) == ("value", False)
    assert whole["cut"]["fields"]["value"]["holds"].startswith("300 items")
    assert "query" in whole["cut"]["ask"]
    assert (length["value"], part["value"]) == (300, f"item 299 {'x' * 50}")
    assert "cut" not in length


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("rows", [1, 100])
def test_no_answer_is_larger_than_it_may_be(hard: str, name: str, rows: int) -> None:
    of_thread = {} if name == "threads" else {"thread": "t"}
    keys = ({}, {"key": "*"}, {"key": "items"}) if name in ("show", "log", "diff") else ({},)
    for key in keys if name != "show" else keys[1:]:
        values = {"values": True} if name == "log" else {}
        (found,) = results(desk(hard, rows=rows, size=4000), (name, {**of_thread, **key, **values}))
        assert not found.is_error
        assert size(found) <= 4000
        document = found.structured_content or {}
        lists = [
            v
            for k, v in document.items()
            if k in ("turns", "keys", "readings", "versions", "changes", "gaps")
        ]
        assert all(len(each) <= rows for each in lists)


def test_an_answer_that_cannot_be_made_small_enough_is_a_failure() -> None:
    told = failure(desk(store("demo"), size=4000), "turns", thread="x" * 5000)
    assert (told["outcome"], told["try"]) == ("too_large", "Ask with shorter names.")


def test_a_list_that_is_cut_says_how_much_of_it_is_shown(hard: str) -> None:
    asked = desk(hard, rows=2)
    turns, keys, log = documents(
        asked, ("turns", {"thread": "t"}), ("keys", {"thread": "t"}), ("log", {"thread": "t", "key": "note"})
    )
    assert [each["turn"] for each in turns["turns"]] == [3, 4]
    assert turns["cut"]["rows"] == {"shown": 2, "of": 4, "which": "last"}
    assert keys["cut"]["rows"] == {"shown": 2, "of": 4, "which": "first"}
    assert [each["turn"] for each in log["versions"]] == [3, 4]
    assert log["cut"]["rows"] == {"shown": 2, "which": "last"}
    earlier, one = documents(
        asked,
        ("turns", {"thread": "t", "first_turn": 1, "last_turn": -3}),
        ("keys", {"thread": "t", "key": "no*"}),
    )
    assert [each["turn"] for each in earlier["turns"]] == [1, 2]
    assert [each["key"] for each in one["keys"]] == ["note"]
    assert not {"cut"} & (set(earlier) | set(one))


def test_a_value_that_is_nested_too_deep_is_cut_where_parsers_would_give_up(hard: str) -> None:
    (deep,) = documents(desk(hard), ("show", {"thread": "t", "key": "deep"}))
    levels, value = 0, deep["value"]
    while isinstance(value, list):
        levels, value = levels + 1, value[0]
    assert (levels, value) == (100, {"$cut": "nested deeper than 100 levels"})


def test_a_lone_surrogate_does_not_end_the_conversation(hard: str) -> None:
    odd, keys, after = results(
        desk(hard),
        ("show", {"thread": "js", "key": "odd"}),
        ("keys", {"thread": "js"}),
        ("show", {"thread": "t", "key": "note"}),
    )
    assert r"a \udc80 b" in text(odd)
    assert (odd.structured_content or {})["value"] == "a \ufffd b"
    assert [each["key"] for each in (keys.structured_content or {})["keys"]] == ["odd", "odd \ufffd"]
    assert not after.is_error


# Many at once.


def test_calls_at_the_same_time_get_what_they_asked_for() -> None:
    async def ask() -> list[Any]:
        found: dict[int, Any] = {}
        async with Client(server(desk(store("demo")))) as client, anyio.create_task_group() as group:

            async def one(n: int) -> None:
                found[n] = (await client.call_tool(*show(BBOX, turn=1 + n % 3))).structured_content

            for n in range(12):
                group.start_soon(one, n)
        return [found[n]["value"][0] for n in range(12)]

    assert anyio.run(ask) == [12.4, 12.4, 9.9] * 4


def test_another_thread_s_end_leaves_the_room_for_deep_values() -> None:
    before = sys.getrecursionlimit()
    inside, left = threading.Event(), threading.Event()
    seen: list[int] = []

    def other() -> None:
        with room_for_depth():
            inside.set()
            left.wait(10)
            seen.append(sys.getrecursionlimit())

    thread = threading.Thread(target=other)
    with room_for_depth():
        thread.start()
        assert inside.wait(10)
    left.set()
    thread.join()
    assert seen == [max(before, 10_000)]
    assert sys.getrecursionlimit() == before


# Other stores.


def test_a_database_is_read_as_a_file_is(pg_dsn: str) -> None:
    class Plan(TypedDict, total=False):
        messages: Annotated[list[Any], add_messages]
        plan: str

    graph = StateGraph(Plan)
    graph.add_node("think", lambda state: {"plan": f"after {len(state['messages'])}"})
    graph.add_edge(START, "think")
    graph.add_edge("think", END)
    with PostgresSaver.from_conn_string(pg_dsn) as saver:
        saver.setup()
        compiled = graph.compile(saver)
        for n in (1, 2):
            compiled.invoke(
                {"messages": [HumanMessage(f"question {n}")]}, {"configurable": {"thread_id": "demo"}}
            )
    first, never, threads = documents(
        desk(pg_dsn, "plan"), show("plan", turn=1), show("plan", turn=9), ("threads", {})
    )
    assert (first["outcome"], first["value"]) == ("value", "after 1")
    assert never["outcome"] == "no_such_turn"
    assert [each["thread"] for each in threads["threads"]] == ["demo"]


# The program.


def over_stdio(folder: Path, address: str, *calls: Call, options: Sequence[str] = ()) -> list[CallToolResult]:
    """What is told by a process that a client started; what it says on stderr stands in ``stderr`` of the folder."""
    python, *argv = command("mcp", "--store", address, *options)
    parameters = StdioServerParameters(command=python, args=argv, env=environment(), cwd=folder)

    async def ask() -> list[CallToolResult]:
        with (folder / "stderr").open("w") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as client:
                return [await client.call_tool(name, dict(arguments)) for name, arguments in calls]

    return anyio.run(ask)


def test_over_stdin_and_stdout_a_store_is_read_and_nothing_else_said(tmp_path: Path) -> None:
    address = store("demo")
    before = Path(address).read_bytes()
    calls = (show(BBOX, turn=1), show("plan"), ("turns", {"thread": "demo"}))
    options = ["--keys", "gazet/*", "--max-rows", "1"]
    value, refused, turns = over_stdio(tmp_path, address, *calls, options=options)
    assert (value.structured_content or {})["value"] == [12.4, 55.5, 12.7, 55.8]
    assert refused.is_error
    assert len((turns.structured_content or {})["turns"]) == 1
    assert (tmp_path / "stderr").read_text() == ""
    assert Path(address).read_bytes() == before


def test_what_a_saver_s_own_code_prints_is_no_part_of_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "my_saver.py").write_text(
        "import os\n"
        "from langgraph.checkpoint.sqlite import SqliteSaver\n"
        "print('printed while importing')\n"
        "os.write(1, b'written past Python')\n"
        f"def make():\n    return SqliteSaver.from_conn_string({str(tmp_path / 'demo.db')!r})\n"
    )
    (tmp_path / "demo.db").write_bytes(Path(store("demo")).read_bytes())
    value, never = over_stdio(
        tmp_path, "saver:my_saver:make", show(BBOX, turn=1), ("turns", {"thread": "nobody"})
    )
    assert (value.structured_content or {})["value"] == [12.4, 55.5, 12.7, 55.8]
    assert (never.structured_content or {})["outcome"] == "no_such_thread"
    said = (tmp_path / "stderr").read_text()
    assert "printed while importing" in said
    assert "written past Python" in said


def test_the_end_of_stdin_ends_it() -> None:
    ended = subprocess.run(
        command("mcp", "--store", store("demo")),
        env=environment(),
        input=b"no json\n{}\n[]\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in ended.stdout.splitlines())


@contextmanager
def started(*argv: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command("mcp", "--store", store("demo"), *argv),
        env=environment(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_ctrl_c_ends_it_while_it_waits_for_stdin() -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stdout.read() == b""


def test_over_http_only_those_are_answered_who_may_ask() -> None:
    with started("--http", "--port", "0", env={"TURNSTATE_TOKEN": "open sesame"}) as process:
        assert process.stderr is not None
        told = process.stderr.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp; the token is needed", told)
        assert found, told
        port = int(found[1])
        shown = {"authorization": "Bearer open sesame"}
        statuses = {
            name: _status(port, headers)
            for name, headers in {
                "no token": {},
                "another token": {"authorization": "Bearer open"},
                "token": shown,
                "another host": {**shown, "host": f"evil.example:{port}"},
                "another port": {**shown, "host": "127.0.0.1:1"},
                "another origin": {**shown, "origin": "http://evil.example"},
                "own origin": {**shown, "origin": f"http://127.0.0.1:{port}"},
            }.items()
        }
        assert statuses == {
            "no token": 401,
            "another token": 401,
            "token": 200,
            "another host": 421,
            "another port": 421,
            "another origin": 403,
            "own origin": 200,
        }

        async def ask() -> CallToolResult:
            async with (
                httpx2.AsyncClient(headers=shown) as http_client,
                Client(
                    streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http_client)
                ) as client,
            ):
                return await client.call_tool(*show(BBOX, turn=3))

        assert (anyio.run(ask).structured_content or {})["value"] == [9.9, 56.1, 10.3, 56.2]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == b""


def _status(port: int, headers: Mapping[str, str]) -> int:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    takes = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    connection.request("POST", "/mcp", json.dumps(body), {**takes, **headers})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--host", "0.0.0.0"], "go with it"),
        (["--http", "--host", "0.0.0.0"], "a token is needed to listen on 0.0.0.0"),
        (["--max-rows", "0"], "at least 1"),
        (["--max-bytes", "10"], "at least 4000"),
        (["--http", "--port", "70000"], "a port is from 0 to 65535"),
        (["--store", "mysql://bob:hunter2@h/d"], "a store of the kind mysql:// cannot be opened"),
    ],
)
def test_what_cannot_be_started_says_why(argv: list[str], words: str) -> None:
    ended = run("mcp", "--store", store("demo"), *argv)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert "hunter2" not in ended.err


def test_without_the_sdk_the_extra_is_named() -> None:
    hidden = "import sys; sys.modules['mcp'] = None; sys.path.insert(0, '')"
    program = f"{hidden}\nfrom turnstate.commands.app import main\nsys.exit(main(['mcp', '--store', 'x.db']))"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert b"pip install 'turnstate[mcp]'" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_help_loads_neither_the_sdk_nor_a_server() -> None:
    seen = "import sys\nfrom turnstate.commands.app import main\nmain(['mcp', '--help'])\n"
    program = seen + "print(sorted({'mcp', 'anyio', 'uvicorn', 'pydantic', 'starlette'} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, timeout=60, check=True
    )
    assert ended.stdout.splitlines()[-1] == b"[]"
