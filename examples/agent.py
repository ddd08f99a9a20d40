"""An agent that can read what its state held in earlier turns. A scripted model stands where yours does."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.types import Command

from turnstate import CheckpointHistory, breadcrumb, make_inspect_state, merge_tool_state, tool_state_entry

BBOX = "gazet/get_aoi/bbox"
AREAS = {"Severn": [-3.2, 51.2, -2.0, 52.5], "Thames": [-1.9, 51.3, 0.7, 51.9]}


class State(MessagesState):
    tool_state: Annotated[dict[str, Any], merge_tool_state]


@tool
async def get_aoi(
    place: str,
    state: Annotated[dict[str, Any], InjectedState],
    call: Annotated[str, InjectedToolCallId],
) -> Command[Any]:
    """Find the area of a place and publish it in the state."""
    entry = tool_state_entry(BBOX, AREAS[place], tool="gazet/get_aoi", state=state)
    said = [f"{BBOX} holds the area of the {place}.", breadcrumb(state, BBOX, entry)]
    message = ToolMessage("\n".join(filter(None, said)), tool_call_id=call)
    return Command(update={"tool_state": {BBOX: entry}, "messages": [message]})


def agent(saver: Any, model: Any) -> Any:
    tools = [get_aoi, make_inspect_state(["gazet/*"], history=CheckpointHistory(saver))]

    async def ask(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}  # yours: model.bind_tools(tools)

    graph: Any = StateGraph(State)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


SCRIPT = {
    "Sketch a boundary around the Severn": [("get_aoi", {"place": "Severn"})],
    "Sketch a boundary around the Thames": [("get_aoi", {"place": "Thames"})],
    "Compare the two areas": [
        ("inspect_state", {"key": BBOX, "turn": 1}),
        ("inspect_state", {"key": BBOX, "turn": 2}),
    ],
    "What did that key hold at turn 7?": [("inspect_state", {"key": BBOX, "turn": 7})],
}


def scripted() -> Iterator[AIMessage]:
    for turn, calls in enumerate(SCRIPT.values()):
        yield AIMessage(
            "", tool_calls=[ToolCall(name=n, args=a, id=f"{turn}-{i}") for i, (n, a) in enumerate(calls)]
        )
        yield AIMessage("Done.")


async def main() -> None:
    graph = agent(InMemorySaver(), GenericFakeChatModel(messages=scripted()))
    for question, calls in SCRIPT.items():
        state = await graph.ainvoke(
            {"messages": [HumanMessage(question)]}, {"configurable": {"thread_id": "sketch"}}
        )
        print(f"> {question}")
        for message in state["messages"][-1 - len(calls) : -1]:
            print(message.content)


if __name__ == "__main__":
    asyncio.run(main())
