"""A LangGraph agent that asks its own past: two sketches, their comparison, and a turn that never was.

The model is scripted, everything else is LangGraph's: graph, ``ToolNode``, savers, and a real PostgreSQL server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.types import Command

from turnstate import CheckpointHistory, breadcrumb, make_inspect_state, merge_tool_state, tool_state_entry

BBOX = "gazet/get_aoi/bbox"
AREAS = {"Severn": [-3.2, 51.2, -2.0, 52.5], "Thames": [-1.9, 51.3, 0.7, 51.9]}
PROMPTS = (
    "Sketch a boundary around the Severn",
    "Sketch a boundary around the Thames",
    "Compare the two areas from state",
    "What did that key hold at turn 7?",
)


class AgentState(MessagesState):
    tool_state: Annotated[dict[str, Any], merge_tool_state]


@tool
async def get_aoi(
    place: str,
    state: Annotated[dict[str, Any], InjectedState],
    tool_call_id: Annotated[str, InjectedToolCallId],
) -> Command[Any]:
    """Find the area of a place, and publish it."""
    entry = tool_state_entry(BBOX, AREAS[place], tool="gazet/get_aoi", state=state)
    said = [f"{BBOX} holds the area of the {place}", breadcrumb(state, BBOX, entry)]
    message = ToolMessage(". ".join(filter(None, said)), tool_call_id=tool_call_id)
    return Command(update={"tool_state": {BBOX: entry}, "messages": [message]})


CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    PROMPTS[0]: [("get_aoi", {"place": "Severn"})],
    PROMPTS[1]: [("get_aoi", {"place": "Thames"})],
    PROMPTS[2]: [("inspect_state", {"key": BBOX, "turn": 1}), ("inspect_state", {"key": BBOX, "turn": 2})],
    PROMPTS[3]: [("inspect_state", {"key": BBOX, "turn": 7})],
}


class Scripted(BaseChatModel):
    """Calls the tools that a prompt is scripted for, and then repeats what they answered."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        asked = max(i for i, message in enumerate(messages) if isinstance(message, HumanMessage))
        results = messages[asked + 1 :]
        if results:
            answer = AIMessage("\n".join(str(m.content) for m in results if isinstance(m, ToolMessage)))
        else:
            calls = CALLS[str(messages[asked].content)]
            answer = AIMessage(
                "",
                tool_calls=[
                    ToolCall(name=n, args=args, id=f"{asked}-{i}") for i, (n, args) in enumerate(calls)
                ],
            )
        return ChatResult(generations=[ChatGeneration(message=answer)])


def agent(saver: BaseCheckpointSaver[Any]) -> Any:
    tools = [get_aoi, make_inspect_state(["gazet/*"], CheckpointHistory(saver))]
    model = Scripted().bind_tools(tools)

    async def ask(state: AgentState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder: Any = StateGraph(AgentState)
    builder.add_node("model", ask)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


Opener = Callable[[], Any]


@pytest.fixture(params=["sqlite", "postgres"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens an asynchronous saver on a fresh store."""
    dsn = request.getfixturevalue("pg_dsn") if request.param == "postgres" else ""

    @asynccontextmanager
    async def opened() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        if dsn:
            async with AsyncPostgresSaver.from_conn_string(dsn) as postgres:
                await postgres.setup()
                yield postgres
        else:
            async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "agent.db")) as sqlite:
                yield sqlite

    return opened


async def _told(saver: Opener) -> list[list[str]]:
    """What the tools answered to each prompt."""
    told = []
    async with saver() as opened:
        graph = agent(opened)
        for prompt in PROMPTS:
            state = await graph.ainvoke(
                {"messages": [HumanMessage(prompt)]}, {"configurable": {"thread_id": "t"}}
            )
            asked = max(i for i, m in enumerate(state["messages"]) if m.type == "human")
            told.append([str(m.content) for m in state["messages"][asked:] if m.type == "tool"])
    return told


def test_an_agent_compares_what_two_turns_found_and_is_not_told_of_a_turn_that_never_was(
    saver: Opener,
) -> None:
    first, second, compared, seventh = asyncio.run(_told(saver))
    assert first == ["gazet/get_aoi/bbox holds the area of the Severn"]
    assert second == [
        "gazet/get_aoi/bbox holds the area of the Thames. gazet/get_aoi/bbox was rewritten: turn 1's value is no "
        'longer in the present state; read it with inspect_state(key="gazet/get_aoi/bbox", turn=1)'
    ]
    severn, thames = map(json.loads, compared)
    labels = ("outcome", "turn", "value", "written_in_turn", "turns_written")
    assert [severn[name] for name in labels] == ["value", 1, [-3.2, 51.2, -2.0, 52.5], 1, 2]
    assert [thames[name] for name in labels] == ["value", 2, [-1.9, 51.3, 0.7, 51.9], 2, 2]
    [never] = map(json.loads, seventh)
    assert (never["outcome"], never["turn"], never["turns_so_far"]) == ("no_such_turn", 7, 4)
    assert "value" not in never


def test_a_synchronous_run_of_the_agent_is_told_to_be_asynchronous() -> None:
    node = ToolNode([make_inspect_state(["gazet/*"])], handle_tool_errors=False)
    graph: Any = StateGraph(AgentState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    call = ToolCall(name="inspect_state", args={"key": BBOX}, id="1")
    with pytest.raises(NotImplementedError, match="run the graph with ainvoke or astream"):
        graph.compile().invoke({"messages": [HumanMessage("x"), AIMessage("", tool_calls=[call])]})


def test_an_agent_whose_first_turn_was_deleted_is_told_so_and_given_no_value_for_it(tmp_path: Path) -> None:
    async def told() -> list[dict[str, Any]]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "agent.db")) as saver:
            graph, config = agent(saver), {"configurable": {"thread_id": "t"}}
            for prompt in PROMPTS[:2]:
                await graph.ainvoke({"messages": [HumanMessage(prompt)]}, config)
            for state in [state async for state in graph.aget_state_history(config)]:
                if state.values.get("tool_state", {}).get(BBOX, {}).get("turn") != 2:
                    gone = state.config["configurable"]["checkpoint_id"]
                    await saver.conn.execute("delete from checkpoints where checkpoint_id = ?", (gone,))
            await saver.conn.commit()
            state = await graph.ainvoke({"messages": [HumanMessage(PROMPTS[2])]}, config)
            return [json.loads(m.content) for m in state["messages"][-3:-1]]

    severn, thames = asyncio.run(told())
    assert (severn["outcome"], severn["retained_turns"], severn["turns_so_far"]) == (
        "turn_no_longer_retained",
        [2, 3],
        3,
    )
    assert "value" not in severn
    assert (thames["outcome"], thames["value"]) == ("value", [-1.9, 51.3, 0.7, 51.9])
    assert thames["note"].endswith("No earlier value of it is retained.")


@dataclass
class Plan:
    """A value of an application's own."""

    steps: tuple[str, ...]
    tags: set[str]


class PlanState(MessagesState):
    plan: Plan


def test_a_value_that_only_went_through_the_store_does_not_pass_for_another_one(tmp_path: Path) -> None:
    def work(state: PlanState) -> dict[str, Any]:
        asked = sum(m.type == "human" for m in state["messages"])
        return {"plan": Plan(("look", "compare"), {"a", "b", "c"})} if asked == 1 else {}

    async def told() -> dict[str, Any]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "agent.db")) as saver:
            builder: Any = StateGraph(PlanState)
            builder.add_node("work", work)
            builder.add_edge(START, "work")
            graph, config = (
                builder.compile(checkpointer=saver),
                RunnableConfig(configurable={"thread_id": "t"}),
            )
            for question in ("first", "second"):
                await graph.ainvoke({"messages": [HumanMessage(question)]}, config)
            held = {
                **(await graph.aget_state(config)).values,
                "plan": Plan(("look", "compare"), {"c", "b", "a"}),
            }
            inspect_state = make_inspect_state(["plan"], CheckpointHistory(saver))
            answer = await inspect_state.ainvoke({"key": "plan", "state": held}, config)
            return dict(json.loads(answer))

    answer = asyncio.run(told())
    assert answer["written_in_turns"] == [1]
    assert answer["value"]["$value"]["steps"] == ["look", "compare"]
    assert "note" not in answer
