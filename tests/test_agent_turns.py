"""Which turn an agent is in and whose past it reads while LangGraph runs it: by the store, not by counting messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from turnstate import CheckpointHistory, Snapshots, make_inspect_state, merge_tool_state, tool_state_entry

THREAD: Any = {"configurable": {"thread_id": "t"}}
Durability = Literal["async", "sync", "exit"]
Meanwhile = Callable[[Any], Coroutine[Any, Any, None]]


class State(MessagesState):
    tool_state: Annotated[dict[str, Any], merge_tool_state]
    told: list[dict[str, Any]]
    turns: list[int | None]


class Agent:
    """``set X`` writes X to the key ``k``; ``get now 1 …`` reads it at these turns; ``wait`` interrupts before."""

    def __init__(self, saver: BaseCheckpointSaver[Any], file: str | None = None, **options: Any) -> None:
        self.history = CheckpointHistory(file or saver, **options)
        self.tool = make_inspect_state(["k"], self.history)
        self.after: Callable[[State], list[Any]] = lambda state: []
        self.meanwhile: Meanwhile | None = None
        self.builder: Any = StateGraph(State)
        self.builder.add_node("act", self.act)
        self.builder.add_node("tidy", lambda state: {"messages": self.after(state)})
        self.builder.add_edge(START, "act")
        self.builder.add_edge("act", "tidy")
        self.graph = self.builder.compile(checkpointer=saver)

    async def act(self, state: State, config: RunnableConfig) -> dict[str, Any]:
        verb, *words = str(state["messages"][-1].content).split()
        if verb == "wait":
            verb, *words = interrupt("go on?").split()
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await asyncio.create_task(meanwhile(self.graph))
        turn = await self.history.present_turn(config)
        told = []
        if verb == "set":
            entry = tool_state_entry("k", words[0], tool="act", state=state, turn=turn)
            return {"messages": AIMessage("."), "tool_state": {"k": entry}, "turns": [turn]}
        for word in words:
            asked = {} if word == "now" else {"turn": int(word)}
            told.append(json.loads(await self.tool.ainvoke({"key": "k", "state": state, **asked}, config)))
        return {"messages": AIMessage("."), "told": told, "turns": [turn]}

    async def ask(self, text: str, config: Any = THREAD, durability: Durability = "sync") -> dict[str, Any]:
        found: dict[str, Any] = await self.graph.ainvoke(
            {"messages": [HumanMessage(text)]}, config, durability=durability
        )
        return found


def picked(answer: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(answer.get(name) for name in names)


def critic(state: State) -> list[Any]:
    return [HumanMessage("Is that so?"), AIMessage("It is.")]


def trim(state: State) -> list[Any]:
    return [RemoveMessage(str(message.id)) for message in state["messages"][:-2]]


@pytest.mark.parametrize("by", ["saver", "file"])
@pytest.mark.parametrize("after", [critic, trim])
def test_messages_that_nodes_add_or_take_out_make_no_turns(by: str, after: Any, tmp_path: Any) -> None:
    async def asked() -> dict[str, Any]:
        path = str(tmp_path / "agent.db")
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            agent = Agent(saver, path if by == "file" else None)
            agent.after = after
            for text in ("set one", "set two"):
                written = await agent.ask(text)
            assert written["tool_state"]["k"]["turn"] == 2
            return await agent.ask("get now 1 2 3 4")

    answer = asyncio.run(asked())
    assert answer["turns"] == [3]
    now, first, second, third, fourth = answer["told"]
    assert picked(now, "value", "turn", "written_in_turn") == ("two", 3, 2)
    assert picked(first, "value", "turn", "written_in_turn") == ("one", 1, 1)
    assert picked(second, "value", "turn", "written_in_turn") == ("two", 2, 2)
    assert picked(third, "value", "turn", "written_in_turn") == ("two", 3, 2)
    assert picked(fourth, "outcome", "turns_so_far") == ("no_such_turn", 3)


@pytest.mark.parametrize("after", [critic, trim])
def test_where_a_run_is_stored_when_it_has_ended_no_number_is_made_up_for_it(after: Any) -> None:
    async def asked() -> dict[str, Any]:
        agent = Agent(InMemorySaver())
        agent.after = after
        for text in ("set one", "set two"):
            await agent.ask(text, durability="exit")
        return await agent.ask("get now 2 3", durability="exit")

    answer = asyncio.run(asked())
    assert answer["turns"] == [None]
    now, second, third = answer["told"]
    assert picked(now, "value", "turn") == ("two", None)
    assert picked(second, "value", "turn") == ("two", 2)
    assert picked(third, "outcome", "turns_so_far") == ("no_such_turn", 2)
    assert third["message"] == "This thread has had 2 turns so far, as far as it is stored."


def test_a_run_that_is_stored_when_it_has_ended_is_in_the_turn_that_its_messages_and_the_store_agree_on() -> (
    None
):
    async def asked() -> dict[str, Any]:
        agent = Agent(InMemorySaver())
        await agent.ask("set one", durability="exit")
        return await agent.ask("get 1 2", durability="exit")

    first, second = asyncio.run(asked())["told"]
    assert picked(first, "outcome", "turn") == ("value", 1)
    assert picked(second, "outcome", "turn") == ("value", 2)


def test_a_checkpoint_that_is_still_on_its_way_to_the_store_is_waited_for() -> None:
    """With ``durability="async"`` a step starts while the checkpoint that it stands on is being stored."""

    class Slow(InMemorySaver):
        async def aput(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
            await asyncio.sleep(0.03)
            return await super().aput(config, checkpoint, metadata, versions)

    async def answers() -> dict[str, Any]:
        agent = Agent(Slow())
        agent.after = critic
        await agent.ask("set one")
        return await agent.ask("get 2 3", durability="async")

    answer = asyncio.run(answers())
    assert answer["turns"] == [2]
    second, third = answer["told"]
    assert picked(second, "value", "turn") == ("one", 2)
    assert picked(third, "outcome", "turns_so_far") == ("no_such_turn", 2)


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
def test_a_run_that_was_started_from_an_earlier_checkpoint_reads_its_own_line(durability: Durability) -> None:
    async def asked() -> dict[str, Any]:
        agent = Agent(InMemorySaver())
        await agent.ask("set one")
        after_first = (await agent.graph.aget_state(THREAD)).config
        for text in ("set two", "set three"):
            await agent.ask(text)
        return await agent.ask("get now 2 3", after_first, durability)

    now, second, third = asyncio.run(asked())["told"]
    assert picked(now, "value", "written_in_turn", "turns_written") == ("one", 1, 1)
    assert picked(second, "value", "turn", "turns_written") == ("one", 2, 1)
    assert picked(third, "outcome", "turns_so_far") == ("no_such_turn", 2)


def test_what_another_run_of_the_thread_does_meanwhile_is_not_in_a_runs_past() -> None:
    async def asked() -> dict[str, Any]:
        agent = Agent(InMemorySaver())
        await agent.ask("set one")
        after_first = (await agent.graph.aget_state(THREAD)).config

        async def other(graph: Any) -> None:
            for text, start in (("set other", after_first), ("set more", THREAD)):
                await graph.ainvoke({"messages": [HumanMessage(text)]}, start)

        agent.meanwhile = other
        return await agent.ask("get 1 2 3")

    answer = asyncio.run(asked())
    assert answer["turns"] == [2]
    assert [picked(told, "outcome", "value") for told in answer["told"]] == [
        ("value", "one"),
        ("value", "one"),
        ("no_such_turn", None),
    ]


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_run_that_is_resumed_is_in_the_turn_that_was_interrupted(durability: Durability) -> None:
    async def asked() -> dict[str, Any]:
        agent = Agent(InMemorySaver())
        await agent.ask("set one", durability=durability)
        await agent.ask("wait", durability=durability)
        found: dict[str, Any] = await agent.graph.ainvoke(
            Command(resume="get now 2 3"), THREAD, durability=durability
        )
        return found

    answer = asyncio.run(asked())
    assert answer["turns"] == [2]
    now, second, third = answer["told"]
    assert picked(now, "value", "written_in_turn") == ("one", 1)
    assert picked(second, "value", "turn") == ("one", 2)
    assert picked(third, "outcome", "turns_so_far") == ("no_such_turn", 2)


def test_an_edit_belongs_to_the_turn_that_it_follows() -> None:
    async def asked() -> dict[str, Any]:
        agent = Agent(InMemorySaver())
        await agent.ask("set one")
        await agent.graph.aupdate_state(THREAD, {"tool_state": {"k": {"value": "edited", "tool": "person"}}})
        return await agent.ask("get 1 2")

    first, second = asyncio.run(asked())["told"]
    assert picked(first, "value", "turn") == ("edited", 1)
    assert picked(second, "value", "turn") == ("edited", 2)


@pytest.mark.parametrize("own", [True, False])
def test_a_tool_of_a_subgraph_reads_the_past_of_the_namespace_that_its_history_names(own: bool) -> None:
    async def asked() -> dict[str, Any]:
        saver = InMemorySaver()
        agent = Agent(saver, namespace="inner" if own else "")
        agent.after = critic
        outer: Any = StateGraph(State)
        outer.add_node("inner", agent.builder.compile(checkpointer=own or None))
        outer.add_edge(START, "inner")
        agent.graph = outer.compile(checkpointer=saver)
        for text in ("set one", "set two"):
            await agent.ask(text)
        return await agent.ask("get 1 3 4")

    answer = asyncio.run(asked())
    assert answer["turns"] == [3]
    first, third, fourth = answer["told"]
    assert picked(first, "value", "turn") == ("one", 1)
    assert picked(third, "value", "turn") == ("two", 3)
    assert picked(fourth, "outcome", "turns_so_far") == ("no_such_turn", 3)


def test_a_configuration_without_a_thread_or_from_outside_a_run_names_no_turn() -> None:
    agent = Agent(InMemorySaver())

    async def asked() -> list[int | None]:
        await agent.ask("set one")
        return [
            await agent.history.present_turn({}),
            await agent.history.present_turn(THREAD),
            await agent.history.present_turn({"configurable": {"thread_id": "never"}}),
        ]

    assert asyncio.run(asked()) == [None, None, None]


def test_another_channel_of_messages_is_counted_where_the_history_names_it() -> None:
    class Chat(State):
        chat: list[Any]

    saver = InMemorySaver()
    tool = make_inspect_state(["k"], CheckpointHistory(saver, messages="chat"))
    told: list[Any] = []

    async def act(state: Any, config: RunnableConfig) -> dict[str, Any]:
        answer = await tool.ainvoke({"key": "k", "turn": 2, "state": state}, config)
        told.append(json.loads(answer))
        return {"tool_state": {"k": {"value": len(state["chat"])}}}

    async def asked() -> None:
        builder: Any = StateGraph(Chat)
        builder.add_node("act", act)
        builder.add_edge(START, "act")
        graph = builder.compile(checkpointer=saver)
        chat = [HumanMessage("a", id="1"), HumanMessage("b", id="2")]
        for count in (1, 2):
            await graph.ainvoke({"chat": chat[:count]}, THREAD, durability="exit")

    asyncio.run(asked())
    assert picked(told[1], "outcome", "value", "turn") == ("value", 1, 2)


def test_another_channels_entry_of_the_same_name_is_not_read_for_a_key_that_was_not_there_yet() -> None:
    class Notes(State):
        notes: dict[str, str]

    saver = InMemorySaver()
    tool = make_inspect_state(["tool_state"], CheckpointHistory(saver))
    writes = [{"notes": {"k": "private"}}, {"notes": {}, "tool_state": {"k": {"value": "found"}}}, {}]
    told: list[str] = []

    async def act(state: Any, config: RunnableConfig) -> dict[str, Any]:
        told.append(await tool.ainvoke({"key": "k", "turn": 1, "state": state}, config))
        return writes[len(state["messages"]) - 1]

    async def asked() -> None:
        builder: Any = StateGraph(Notes)
        builder.add_node("act", act)
        builder.add_edge(START, "act")
        graph = builder.compile(checkpointer=saver)
        for text in ("a", "b", "c"):
            await graph.ainvoke({"messages": [HumanMessage(text)]}, THREAD)

    asyncio.run(asked())
    assert json.loads(told[2])["outcome"] == "not_yet_written"
    assert "private" not in told[2]


def test_for_one_key_no_other_channel_of_the_past_is_read() -> None:
    read: list[Any] = []

    class Watched(CheckpointHistory):
        async def snapshots(self, thread_id: str, *, channels: Any = None) -> Snapshots:
            read.append(channels)
            found = await super().snapshots(thread_id, channels=channels)
            read.append({turn: set(state) for turn, state in found.turns.items()})
            return found

    class Planned(State):
        plan: str

    saver = InMemorySaver()
    tool = make_inspect_state(["plan"], Watched(saver))

    async def act(state: Any, config: RunnableConfig) -> dict[str, Any]:
        if len(state["messages"]) == 2:
            await tool.ainvoke({"key": "plan", "state": state}, config)
        return {"plan": "p", "tool_state": {"k": {"value": 1}}}

    async def asked() -> None:
        builder: Any = StateGraph(Planned)
        builder.add_node("act", act)
        builder.add_edge(START, "act")
        graph = builder.compile(checkpointer=saver)
        for text in ("a", "b"):
            await graph.ainvoke({"messages": [HumanMessage(text)]}, THREAD)

    asyncio.run(asked())
    assert read == [{"plan"}, {1: {"plan"}, 2: {"plan"}}]
