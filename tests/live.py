"""A graph that runs in a loop in a process of its own, and reads beside it whose every answer must be of one moment.

The graph writes values that agree with each other in every row: the number of the turn, three times over. A read
that saw two states would show two numbers. As a program, ``python tests/live.py KIND STORE``, this is the writer:
for each line on stdin it says how it fared since the line before, and it ends with stdin. The writer knows nothing
of turnstate.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "fixtures")]

from scenarios.kit import AgentState, Graph, Saver, at, chain  # noqa: E402

TURNS = 10
"""Turns of a thread; then the next thread begins, so that a store may grow for long and a row stays small."""
_ROWS = 4  # of a turn: its input, and one after each node and at the start
_MANY = 1500  # copies of the number in one value, so that a row takes several pages
_BEFORE_READS = 3  # turns, so that there is something to read
_PAUSE = 0.02  # seconds between two turns: a loop without one would measure only how much two cores can do


class Counted(AgentState):
    """The number of the turn, three times over."""

    count: int


def graph(saver: Saver) -> Graph:
    """Nodes ``tool``, which writes the number of the turn, and ``answer``."""

    def tool(state: Counted) -> dict[str, Any]:
        turn = len(state["messages"]) // 2 + 1
        return {"count": turn, "plan": f"Plan {turn}", "tool_state": {"counter": [turn] * _MANY}}

    def answer(state: Counted) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Answer {state['count']}")]}

    return chain(saver, Counted, tool=tool, answer=answer)


# The writer.


@dataclass(slots=True)
class Fared:
    """What a writer went through.

    Attributes:
        turns: Turns that it ran.
        longest: Seconds of the call that kept it longest, of those that store something.
    """

    turns: int = 0
    longest: float = 0.0


def _timed(call: Callable[..., Any], fared: Fared) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        try:
            return call(*args, **kwargs)
        finally:
            fared.longest = max(fared.longest, time.monotonic() - began)

    return timed


@contextmanager
def _saver(kind: str, store: str) -> Iterator[Saver]:
    if kind == "postgres":
        with PostgresSaver.from_conn_string(store) as saver:
            saver.setup()
            yield saver
        return
    with SqliteSaver.from_conn_string(store) as sqlite_saver:
        sqlite_saver.setup()
        if kind == "rollback":
            assert sqlite_saver.conn.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        yield sqlite_saver


def _write(kind: str, store: str) -> None:
    """Run turns until stdin ends. ``reopening`` is ``wal`` with a connection for each turn."""
    turn, fared = 0, Fared()
    while True:
        with _saver(kind, store) as saver:
            for name in ("put", "put_writes"):
                setattr(saver, name, _timed(getattr(saver, name), fared))
            running = graph(saver)
            while True:
                thread, question = f"live-{turn // TURNS:05}", turn % TURNS + 1
                running.invoke({"messages": [HumanMessage(f"Question {question}")]}, at(thread))
                turn += 1
                fared.turns += 1
                if turn == _BEFORE_READS:
                    print("begun", flush=True)
                if select.select([sys.stdin], [], [], _PAUSE)[0]:
                    if not sys.stdin.readline():
                        return
                    print(json.dumps([fared.turns, fared.longest]), flush=True)
                    fared.turns, fared.longest = 0, 0.0
                if kind == "reopening":
                    break


class Writer:
    """The writing process as its readers know it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def fared(self) -> Fared:
        """How it fared since this was asked last."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        assert told, "the writer has failed"
        return Fared(*json.loads(told))

    def end(self) -> None:
        """Let it finish its turn and close its store."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(timeout=60) == 0


@contextmanager
def writing(kind: str, store: str) -> Iterator[Writer]:
    """A process that writes to a store meanwhile; ``kind`` is ``wal``, ``reopening``, ``rollback`` or ``postgres``."""
    process = subprocess.Popen(
        [sys.executable, __file__, kind, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        yield Writer(process)
    finally:
        process.kill()
        with suppress(BrokenPipeError), process:
            pass


# The reads.

Ask = Callable[..., Any]
"""Runs the program with some arguments and ``--json``, and gives its document; anything but an answer is an error."""


def newest(ask: Ask) -> str:
    """The newest thread that has had two turns."""
    return str(
        next(row["thread"] for row in ask("threads", "--limit", "2") if row["checkpoints"] > 2 * _ROWS)
    )


def _threads(ask: Ask, thread: str) -> None:
    newest, *others = ask("threads")
    assert newest["checkpoints"] <= TURNS * _ROWS
    assert {row["checkpoints"] for row in others} <= {TURNS * _ROWS}
    assert thread in {row["thread"] for row in (newest, *others)}


def _turns(ask: Ask, thread: str) -> None:
    document = ask("turns", thread)
    rows = document["turns"]
    assert [row["question"] for row in rows] == [f"Question {n + 1}" for n in range(document["total"])]
    assert [(row["status"], row["checkpoints"]) for row in rows[:-1]] == [("complete", _ROWS)] * len(
        rows[:-1]
    )
    assert document["branches"] == document["asides"] == document["skewed"] == []
    assert document["total_is"] == "exact"


def _show(ask: Ask, thread: str) -> None:
    document = ask("show", thread, "*")
    values = {reading["key"]: reading["value"] for reading in document["readings"]}
    turn = values["count"]
    assert values["plan"] == f"Plan {turn}"
    assert values["counter"] == [turn] * _MANY
    questions = [message for message in values["messages"] if "HumanMessage" in json.dumps(message)]
    assert document["turn"] == document["total_turns"]
    # Its input, then the question among the messages, then the node's own values.
    asked, counted = len(questions) - document["turn"], turn - document["turn"]
    assert (asked, counted) in ((-1, -1), (0, -1), (0, 0))


def _keys(ask: Ask, thread: str) -> None:
    rows = {row["key"]: row for row in ask("keys", thread)["keys"]}
    turns = rows["count"]["turns_written"]
    assert turns == list(range(1, len(turns) + 1))
    assert rows["plan"]["turns_written"] == rows["counter"]["turns_written"] == turns
    assert rows["messages"]["turns_written"] in (turns, [*turns, len(turns) + 1])


def _log(ask: Ask, thread: str) -> None:
    document = ask("log", thread, "count")
    turns = document["turns_written"]
    assert turns == list(range(1, len(turns) + 1))
    assert [(row["turn"], row["value"]) for row in document["versions"]] == list(
        zip(turns, turns, strict=True)
    )
    assert document["gaps"] == []


def _diff(ask: Ask, thread: str) -> None:
    changes = {row["key"]: row for row in ask("diff", thread, "--turns", "1..")["changes"]}
    turn = changes["count"]["to"]
    assert (changes["count"]["from"], changes["plan"]["from"]) == (1, "Plan 1")
    assert changes["plan"]["to"] == f"Plan {turn}"
    assert changes["counter"]["to"] == [turn] * _MANY


def _gaps(ask: Ask, thread: str) -> None:
    document = ask("gaps", thread)
    assert document["gaps"] == []
    assert document["retained"] == list(range(1, document["total"] + 1))


READS = (_threads, _turns, _show, _keys, _log, _diff, _gaps)
"""One kind of read after the other, each with what must be so in its answer."""


if __name__ == "__main__":
    _write(*sys.argv[1:])
