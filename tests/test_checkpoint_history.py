"""A thread's past as whoever does not know what a checkpointer is gets it: real graphs, every kind of saver, and
URLs."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import SecretStr

from recorded import recording
from savers import Ascending, Shuffled
from turnstate import CheckpointHistory, Snapshot, Snapshots, StoreError, ThreadHistory

Saver = BaseCheckpointSaver[Any]
Rows = Callable[[str], None]

QUESTIONS = ("Find the area of Copenhagen", "Describe it", "Now find Aarhus")
TOLD: Mapping[str, Mapping[str, Any]] = {
    QUESTIONS[0]: {"tool_state": {"bbox": {"value": [12.4, 55.5], "seq": 1}}, "plan": "look it up"},
    QUESTIONS[1]: {},
    QUESTIONS[2]: {"tool_state": {"bbox": {"value": [9.9, 56.1], "seq": 2}, "plan": "rest"}, "plan": None},
}
COPENHAGEN = {"bbox": {"value": [12.4, 55.5], "seq": 1}, "plan": "look it up"}
ENDED = {
    1: COPENHAGEN,
    2: COPENHAGEN,
    # A channel and an entry are both called plan by now; a stored null is a value.
    3: {"bbox": {"value": [9.9, 56.1], "seq": 2}, "plan": None, "tool_state:plan": "rest"},
}


def merged(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    return {**(old or {}), **(new or {})}


class State(MessagesState):
    tool_state: Annotated[dict[str, Any], merged]
    plan: str | None


async def ask(
    saver: Saver, on_loop: bool, thread: str, look: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Three questions, each one ``tool`` and one ``answer`` step: four rows a turn. ``look`` is done within
    ``tool``."""

    def told(state: State) -> Mapping[str, Any]:
        return TOLD[str(state["messages"][-1].content)]

    def tool(state: State, config: RunnableConfig) -> Mapping[str, Any]:
        if look is not None:
            asyncio.run(look())  # type: ignore[arg-type]
        return told(state)

    async def atool(state: State, config: RunnableConfig) -> Mapping[str, Any]:
        if look is not None:
            await look()
        return told(state)

    def answer(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"On {state['messages'][-1].content}")]}

    graph = StateGraph(State)
    graph.add_node("tool", atool if on_loop else tool)
    graph.add_node("answer", answer)
    graph.add_edge(START, "tool")
    graph.add_edge("tool", "answer")
    graph.add_edge("answer", END)
    compiled = graph.compile(checkpointer=saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    for question in QUESTIONS:
        asked: Any = {"messages": [HumanMessage(question)]}
        if on_loop:
            await compiled.ainvoke(asked, config, durability="sync")
        else:
            await asyncio.to_thread(compiled.invoke, asked, config, durability="sync")


@dataclass(frozen=True)
class Kind:
    """A kind of store.

    Attributes:
        saver: Opens it for the graph.
        prune: Deletes the five oldest rows: all of turn 1's, and the input row that follows them.
        on_loop: The saver is awaited.
        url: What is read in place of the saver.
    """

    saver: Callable[[], AbstractAsyncContextManager[Saver]]
    prune: Callable[[Saver], None]
    on_loop: bool
    url: str | None = None


def in_memory(cls: type[InMemorySaver], *, on_loop: bool) -> Kind:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Saver]:
        yield cls()

    def prune(saver: Saver) -> None:
        rows = saver.storage["t"][""]  # type: ignore[attr-defined]
        for id in sorted(rows)[:5]:
            del rows[id]

    return Kind(opened, prune, on_loop)


_OLDEST = (
    "delete from checkpoints where thread_id = 't' and checkpoint_id in (select checkpoint_id from checkpoints "
    "where thread_id = 't' order by checkpoint_id limit 5)"
)


def in_sqlite(path: Path, *, on_loop: bool, by_url: bool = False) -> Kind:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Saver]:
        if on_loop:
            async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
                await saver.setup()  # a URL is of a store that is there
                yield saver
        else:
            with SqliteSaver.from_conn_string(str(path)) as saver:
                yield saver

    def prune(_: Saver) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(_OLDEST)

    return Kind(opened, prune, on_loop, str(path) if by_url else None)


def in_postgres(dsn: str, *, on_loop: bool, by_url: bool = False) -> Kind:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Saver]:
        if on_loop:
            async with AsyncPostgresSaver.from_conn_string(dsn) as saver:
                await saver.setup()
                yield saver
        else:
            with PostgresSaver.from_conn_string(dsn) as saver:
                saver.setup()
                yield saver

    def prune(_: Saver) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(_OLDEST)

    return Kind(opened, prune, on_loop, dsn if by_url else None)


KINDS: Mapping[str, Callable[[Path, pytest.FixtureRequest], Kind]] = {
    "InMemorySaver": lambda *_: in_memory(InMemorySaver, on_loop=False),
    "InMemorySaver awaited": lambda *_: in_memory(InMemorySaver, on_loop=True),
    "ascending rows": lambda *_: in_memory(Ascending, on_loop=False),
    "shuffled rows": lambda *_: in_memory(Shuffled, on_loop=False),
    "SqliteSaver": lambda folder, _: in_sqlite(folder / "a.db", on_loop=False),
    "AsyncSqliteSaver": lambda folder, _: in_sqlite(folder / "a.db", on_loop=True),
    "SQLite by URL": lambda folder, _: in_sqlite(folder / "a.db", on_loop=True, by_url=True),
    "PostgresSaver": lambda _, request: in_postgres(request.getfixturevalue("pg_dsn"), on_loop=False),
    "AsyncPostgresSaver": lambda _, request: in_postgres(request.getfixturevalue("pg_dsn"), on_loop=True),
    "PostgreSQL by URL": lambda _, request: in_postgres(
        request.getfixturevalue("pg_dsn"), on_loop=True, by_url=True
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return KINDS[request.param](tmp_path, request)


def without_messages(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry for key, entry in entries.items() if key != "messages"}


def test_a_thread_tells_what_each_turn_ended_with_while_its_graph_runs_and_when_rows_are_gone(
    kind: Kind,
) -> None:
    async def story() -> None:
        async with kind.saver() as saver:
            history = CheckpointHistory(kind.url or saver)  # before there is a graph, or a row
            assert await history.snapshots("t") == Snapshots({}, 0)
            assert (await history.snapshot("t", 1)).outcome == "no_such_thread"
            totals = []

            async def look() -> None:
                found = await history.snapshots("t")
                totals.append((found.total, sorted(found.turns)))

            await ask(saver, kind.on_loop, "t", look)
            assert totals == [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])]

            whole = await history.snapshots("t")
            assert whole.total == 3
            assert {turn: without_messages(entries) for turn, entries in whole.turns.items()} == ENDED
            assert [len(entries["messages"]) for entries in whole.turns.values()] == [2, 4, 6]
            question = whole.turns[3]["messages"][4]
            assert question["$type"] == "langchain_core.messages.human.HumanMessage"
            assert question["$value"]["content"] == "Now find Aarhus"
            for turn, entries in ENDED.items():
                found = await history.snapshot("t", turn)
                assert (found.outcome, found.turn, found.total, found.retained) == (
                    "value",
                    turn,
                    3,
                    (1, 2, 3),
                )
                assert without_messages(found.entries) == entries
                assert found.entries == whole.turns[turn]

            kind.prune(saver)
            left = await history.snapshots("t")
            assert left.total == 3
            assert {turn: without_messages(entries) for turn, entries in left.turns.items()} == {
                2: ENDED[2],
                3: ENDED[3],
            }
            outcomes = [(await history.snapshot("t", turn)).outcome for turn in (0, 1, 2, 3, 4, -1, -5)]
            gone = "turn_no_longer_retained"
            assert outcomes == [gone, gone, "value", "value", "no_such_turn", "value", "no_such_turn"]
            pruned = await history.snapshot("t", 1)
            assert (pruned.entries, pruned.checkpoint, pruned.total, pruned.retained) == ({}, None, 3, (2, 3))

    asyncio.run(story())


def test_it_is_a_thread_history() -> None:
    assert isinstance(CheckpointHistory(InMemorySaver()), ThreadHistory)


@pytest.mark.parametrize("kind_of", ["AsyncSqliteSaver", "AsyncPostgresSaver", "SQLite by URL"])
def test_many_calls_run_side_by_side_also_where_the_loop_has_one_thread_to_spare(
    kind_of: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async def story() -> list[int]:
        kind = KINDS[kind_of](tmp_path, request)
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(1)
        )  # AsyncPostgresSaver needs it too
        async with kind.saver() as saver:
            await ask(saver, kind.on_loop, "t")
            history = CheckpointHistory(kind.url or saver)
            found = await asyncio.gather(*(history.snapshots("t") for _ in range(20)))
            return [each.total for each in found]

    assert asyncio.run(story()) == [3] * 20


def test_an_async_saver_is_awaited_on_its_own_loop_from_another_one(tmp_path: Path) -> None:
    """A server may keep a saver on one loop and answer on another."""

    async def story() -> int:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
            await ask(saver, True, "t")
            history = CheckpointHistory(saver)
            found = await asyncio.to_thread(lambda: asyncio.run(history.snapshots("t")))
            return found.total

    assert asyncio.run(story()) == 3


def test_a_saver_whose_loop_has_ended_is_awaited_on_the_callers(tmp_path: Path) -> None:
    saver = InMemorySaver()
    saver.loop = asyncio.new_event_loop()  # type: ignore[attr-defined]
    saver.loop.close()  # type: ignore[attr-defined]
    asyncio.run(ask(saver, True, "t"))
    assert asyncio.run(CheckpointHistory(saver).snapshots("t")).total == 3


# Cancelling.


class Hanging(InMemorySaver):
    """Starts to list, and goes on only when it is allowed to."""

    started: asyncio.Event
    ended: asyncio.Event

    async def alist(self, config: Any, **asked: Any) -> AsyncIterator[CheckpointTuple]:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        yield  # type: ignore[misc]


def test_cancelling_ends_at_once_and_takes_the_savers_coroutine_with_it() -> None:
    async def story() -> None:
        saver = Hanging()
        saver.started, saver.ended = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(CheckpointHistory(saver).snapshots("t"))
        await saver.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(saver.ended.wait(), 30)

    asyncio.run(story())


class Blocking(InMemorySaver):
    """A sync saver that blocks, and notes how far it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.go_on, self.ended = (threading.Event() for _ in range(3))
        self.blocks = False
        self.given = 0

    async def alist(self, config: Any, **asked: Any) -> AsyncIterator[CheckpointTuple]:
        raise NotImplementedError
        yield

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        if self.blocks:
            self.started.set()
            self.go_on.wait(30)
        try:
            for row in super().list(config, **asked):
                self.given += 1
                yield row
        finally:
            self.ended.set()


def test_cancelling_does_not_wait_for_a_blocking_saver_which_is_read_no_further() -> None:
    saver = Blocking()
    asyncio.run(ask(saver, False, "t"))
    saver.blocks = True

    async def story() -> None:
        task = asyncio.create_task(CheckpointHistory(saver).snapshots("t"))
        await asyncio.to_thread(saver.started.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())  # ends although the saver still blocks
    saver.given = 0
    saver.ended.clear()
    saver.go_on.set()
    assert saver.ended.wait(30)
    assert saver.given <= 1


# What a snapshot holds.


def answered(saver: Saver, work: Callable[[CheckpointHistory], Awaitable[Any]], **options: Any) -> Any:
    async def story() -> Any:
        return await work(CheckpointHistory(saver, **options))

    return asyncio.run(story())


@pytest.mark.parametrize("by_url", [True, False], ids=["by URL", "SqliteSaver"])
def test_asking_for_one_turn_holds_no_other_turns_state(by_url: bool, tmp_path: Path) -> None:
    """Twelve turns of a megabyte each: one is a few of them while it is read."""
    megabyte, turns = 1_000_000, 12

    class Large(MessagesState):
        blob: str

    def write(state: Large) -> dict[str, Any]:
        number = len(state["messages"]) // 2
        return {"blob": random.Random(number).randbytes(megabyte // 2).hex(), "messages": [AIMessage("so")]}

    path = str(tmp_path / "a.db")
    with SqliteSaver.from_conn_string(path) as saver:
        graph = StateGraph(Large)
        graph.add_node("write", write)
        graph.add_edge(START, "write")
        graph.add_edge("write", END)
        compiled = graph.compile(checkpointer=saver)
        for number in range(turns):
            compiled.invoke(
                {"messages": [HumanMessage(f"question {number}")]},  # type: ignore[arg-type]
                {"configurable": {"thread_id": "t"}},
                durability="exit",
            )
        history = CheckpointHistory(path if by_url else saver)
        tracemalloc.start()
        try:
            one: Snapshot = asyncio.run(history.snapshot("t", 3))
            _, peak_of_one = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            every: Snapshots = asyncio.run(history.snapshots("t"))
            _, peak_of_all = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert one.entries["blob"] == random.Random(2).randbytes(megabyte // 2).hex()
    assert len({entries["blob"] for entries in every.turns.values()}) == turns
    assert peak_of_one < 8 * megabyte
    assert peak_of_all > turns * megabyte  # the measure sees what is held


def test_an_entry_of_two_channels_stands_under_both_their_names_and_internal_channels_under_none() -> None:
    class Two(MessagesState):
        left: dict[str, Any]
        right: dict[Any, Any]
        empty: dict[str, Any]
        unwritten: str

    saver = InMemorySaver()
    graph = StateGraph(Two)
    graph.add_node("go", lambda _: {"left": {"a": 1, "b": 2}, "right": {"a": 3, 7: 4}, "empty": {}})
    graph.add_edge(START, "go")
    graph.add_edge("go", END)
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})  # type: ignore[arg-type]
    found = answered(saver, lambda history: history.snapshot("t", 1))
    assert without_messages(found.entries) == {
        "left:a": 1,
        "b": 2,
        "right:a": 3,
        "int(7)": 4,
        "empty": {},
    }


def test_a_secret_is_masked_and_an_instance_keeps_its_class() -> None:
    class Kept(MessagesState):
        token: Any
        when: Any

    saver = InMemorySaver()
    graph = StateGraph(Kept)
    graph.add_node("go", lambda _: {"token": SecretStr("hush"), "when": {"at": {1}}})
    graph.add_edge(START, "go")
    graph.add_edge("go", END)
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})  # type: ignore[arg-type]
    found = answered(saver, lambda history: history.snapshot("t", 1))
    assert "hush" not in repr(found)
    assert found.entries["token"]["$masked"] is True
    assert found.entries["at"] == {"$type": "builtins.set", "$value": [1]}


def test_what_is_encrypted_is_said_to_be_and_passes_for_nothing_else() -> None:
    async def story() -> tuple[Snapshots, list[Snapshot]]:
        history = CheckpointHistory(str(recording("encrypted").path))
        turns = [await history.snapshot("encrypted", turn) for turn in (1, 2, 3)]
        return await history.snapshots("encrypted"), turns

    every, turns = asyncio.run(story())
    assert [each.outcome for each in turns] == ["value", "encrypted", "no_such_turn"]
    assert turns[1].entries == {}
    assert every.total == 2
    assert every.turns[1]["plan"] == "plan 1"
    assert {entry["$absent"] for entry in every.turns[2].values()} == {"encrypted"}
    assert {"messages", "plan", "tool_state"} <= set(every.turns[2])


def test_a_subgraphs_namespace_and_another_channel_of_messages_can_be_named() -> None:
    recorded = recording("other-channel")
    thread = next(iter(recorded.threads.values()))
    channel = thread.more["messages"]

    async def story() -> int:
        return (await CheckpointHistory(str(recorded.path), messages=channel).snapshots(thread.id)).total

    assert asyncio.run(story()) == thread.total

    saver = InMemorySaver()
    inner = StateGraph(State)
    inner.add_node("say", lambda _: {"plan": "inside"})
    inner.add_edge(START, "say")
    inner.add_edge("say", END)
    outer = StateGraph(State)
    outer.add_node("inner", inner.compile(checkpointer=True))
    outer.add_edge(START, "inner")
    outer.add_edge("inner", END)
    compiled = outer.compile(checkpointer=saver)
    compiled.invoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})  # type: ignore[arg-type]
    found = answered(saver, lambda history: history.snapshots("t"), namespace="inner")
    assert (found.total, found.turns[1]["plan"]) == (1, "inside")


def test_what_keeps_a_store_from_being_read_is_told_in_three_lines_without_a_password() -> None:
    address = "postgresql://reader:hush%40@127.0.0.1:1/agent"
    with pytest.raises(StoreError) as caught:
        asyncio.run(CheckpointHistory(address).snapshots("t"))
    told = f"{caught.value.what}\n{caught.value.why}\n{caught.value.hint}"
    assert "cannot connect to postgresql://reader@127.0.0.1:1/agent" in told
    assert "hush" not in told
