"""Stores of any rows at all, made of choices: what generated tests and the fuzzer feed the whole program.

Nothing that a real writer guarantees holds here: parents may be gone, later, or form a cycle; ids may be no UUIDs;
steps, sources, payloads and writes fit each other only by chance.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Overwrite, Send

from cli_run import run
from turnstate.history.branches import branch_report
from turnstate.history.chart import chart_of
from turnstate.history.gaps import gap_report
from turnstate.history.listing import keys_at, turn_report
from turnstate.history.log import Log
from turnstate.history.log_words import change_in_words
from turnstate.history.places import Miss, Place, turn_place
from turnstate.history.reading import read_all
from turnstate.history.thread import History
from turnstate.history.versions import versions_by_key
from turnstate_backends.stores import open_store

Pick = Callable[[int], int]
"""A choice among so many: from 0 up to, and without, the argument."""

TABLES = """
CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
  parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
  task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB, task_path TEXT,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""
# Six super-steps in order of time, two more at the step of another, ids of other writers, and none.
IDS = [
    *(
        f"1f1ecbdf-6{n}00-6000-{step:04x}-000000000000"
        for n, step in enumerate([0xBFFF, *range(0x8000, 0x8006)])
    ),
    "1f1ecbdf-6900-6000-8001-00000000000a",
    "1f1ecbde-0000-6000-8004-00000000000b",
    "2",
    "10",
    "",
]
CHANNELS = [
    "messages",
    "plan",
    "tool_state",
    "__start__",
    "__error__",
    "__interrupt__",
    "__resume__",
    "__no_writes__",
    "branch:to:tool",
]
PATHS = ["", "~__pregel_pull, tool", "~__pregel_pull, __start__", "~__pregel_push, 0", "odd"]
TASKS = ["00000000-0000-0000-0000-000000000000", "task 1", "task 2"]
MESSAGES: list[Any] = [
    HumanMessage("q1", id="h1"),
    HumanMessage("q1 edited", id="h1"),
    HumanMessage("q2", id="h2"),
    HumanMessage("q1"),
    HumanMessage("by a node", id="h3", name="critic"),
    HumanMessage("so far", id="h4", additional_kwargs={"lc_source": "summarization"}),
    AIMessage("a1", id="a1"),
    ToolMessage("t", tool_call_id="c", id="t1"),
    RemoveMessage(id="__remove_all__"),
    {"role": "user", "content": "q3"},
    {"type": "human", "content": None},
    ("user", "q4"),
    "text",
    None,
    7,
]
VALUES: list[Any] = [
    None,
    1,
    "x",
    [1],
    {"a": {"value": 1}},
    {"a": 2, "b": [1]},
    {1: 2},
    Send("n", {}),
    Interrupt("?", id="i"),
]
SERDE = JsonPlusSerializer()


def build(path: Path, pick: Pick) -> None:
    """Write a store of one thread ``t``, made by ``pick``."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(f"PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; {TABLES}")
        for _ in range(1 + pick(9)):
            row = ("t", _namespace(pick), IDS[pick(len(IDS))], _parent(pick), *_state(pick), _metadata(pick))
            connection.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        for _ in range(pick(12)):
            channel = CHANNELS[pick(len(CHANNELS))]
            row = (
                *("t", _namespace(pick), IDS[pick(len(IDS))], TASKS[pick(len(TASKS))]),
                *(pick(4) - 1, channel, *_payload(pick, _written(pick, channel)), PATHS[pick(len(PATHS))]),
            )
            connection.execute("INSERT OR REPLACE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _namespace(pick: Pick) -> str:
    return "sub:1" if pick(12) == 11 else ""


def _parent(pick: Pick) -> str | None:
    return [None, *IDS][pick(len(IDS) + 1)]


def _metadata(pick: Pick) -> bytes | None:
    source = ["input", "loop", "update", "fork", None, "other"][pick(6)]
    step = [-1, 0, 1, 2, 3, 4, 5, None, "x", -7][pick(10)]
    deltas = [None, {"messages": [1, 1]}, {"plan": "?"}][pick(12) % 10 % 3 if pick(4) == 3 else 0]
    fields = {"source": source, "step": step, "counters_since_delta_snapshot": deltas}
    return [json.dumps({k: v for k, v in fields.items() if v is not None}).encode(), None, b"{"][
        max(0, pick(12) - 9)
    ]


def _state(pick: Pick) -> tuple[str | None, bytes | None]:
    values: dict[str, Any] = {}
    if pick(6):
        values["messages"] = _messages(pick)
    for channel in ("plan", "tool_state"):
        if pick(2):
            values[channel] = VALUES[pick(len(VALUES))]
    if pick(6) == 5:
        values["__start__"] = {"messages": _messages(pick)}
    versions = {
        channel: f"{1 + pick(8):032}.0.1" for channel in CHANNELS if channel in values or pick(4) == 3
    }
    seen = {node: {"messages": f"{1 + pick(8):032}.0.1"} for node in ("tool", "__input__") if pick(2)}
    return _payload(
        pick,
        {
            "v": 4,
            "ts": "2026-01-01T00:00:00+00:00",
            "id": "1",
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": seen,
        },
    )


def _messages(pick: Pick) -> list[Any]:
    return [MESSAGES[pick(len(MESSAGES))] for _ in range(pick(5))]


def _written(pick: Pick, channel: str) -> Any:
    if channel in ("messages", "__start__"):
        found: Any = _messages(pick)
        found = {"messages": found} if channel == "__start__" else found
    else:
        found = VALUES[pick(len(VALUES))]
    return Overwrite(found) if pick(12) == 11 else found


def _payload(pick: Pick, value: Any) -> tuple[str | None, bytes | None]:
    kind, data = SERDE.dumps_typed(value)
    damage = max(0, pick(32) - 24)
    return [
        (kind, data),
        (kind, data[: len(data) // 2]),
        (kind, b""),
        (None, data),
        ("msgpack+aes", data),
        ("json", b'{"channel_values": {"messages": [{"type": "human", "content": "json"}]}}'),
        ("msgpack", ormsgpack.packb([1, 2])),
        (kind, None),
    ][damage]


def check(path: Path) -> None:
    """Every report over every line of the store; each turn and each row is accounted for once."""
    with open_store(str(path)) as store:
        for thread in store.threads():
            for ns in thread.namespaces:
                for history in _lines(History(store, thread.id, ns)):
                    _check_line(history)


def _lines(history: History) -> Iterator[History]:
    yield history
    for branch in history.forest.branches(history.line):
        yield history.along(branch.tip)


def _check_line(history: History) -> None:
    rows, turns = history.line.rows, history.turns
    everyone = list(range(1, turns.total + 1))
    assert [row.turn.number for row in turn_report(history).rows] == everyone
    spans = {(turn.first, turn.last) for turn in turns.turns if turn.first is not None}
    held = sorted(row for first, last in spans for row in range(first or 0, (last or 0) + 1))
    begun = min((first for first, _ in spans if first is not None), default=len(rows))
    assert held == list(range(begun, len(rows)))  # those before are of turn 0
    pruned = [number for gap in gap_report(history).gaps if gap.kind == "pruned" for number in gap.turns]
    assert sorted([*turns.retained, *pruned]) == everyone
    versions = [each for key in versions_by_key(history).values() for each in key]
    assert all(0 <= version.row < len(rows) for version in versions)
    for version in Log(history, internal=True).versions():
        change_in_words(version)
    for row in range(len(rows)):
        keys_at(history, Place(row, None), internal=True)
    for number in range(turns.total + 1):
        place = turn_place(history, number)
        assert isinstance(place, Miss) == (not turns.turns[number].retained)
        read_all(history, "*", place, internal=True)
    branch_report(history)
    chart_of(Log(history))


COMMANDS = [
    ["threads", "--turns"],
    ["turns", "t"],
    ["turns", "t", "--chart"],
    ["keys", "t", "--all"],
    ["show", "t", "*", "--all"],
    ["show", "t", "messages", "--turn", "1"],
    ["show", "t", "tool_state", "--turn", "0"],
    ["log", "t", "--values", "--all"],
    ["log", "t", "*", "--patch"],
    ["diff", "t", "--turns", "0.."],
    ["diff", "t", "*"],
    ["gaps"],
    ["gaps", "t"],
    ["branches", "t"],
]


def command(path: Path, pick: Pick) -> None:
    """One command in one form: it ends by its rules, with JSON where that was asked for."""
    argv = COMMANDS[pick(len(COMMANDS))]
    form = [[], ["--json"], ["--jsonl"]][pick(3)]
    result = run(argv[0], "--store", str(path), *argv[1:], *form)
    assert result.code in (0, 1, 2, 4, 5, 6), (argv, result.err)
    assert "Traceback" not in result.err, result.err
    assert "internal error" not in result.err, result.err
    if form and result.code != 2:
        assert result.document if form == ["--json"] else all(result.documents)
