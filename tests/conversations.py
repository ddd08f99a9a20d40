"""Generated conversations, run by a real graph on a real saver, and the plain counting rule as their oracle."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph import END, START, MessagesState, StateGraph


@dataclass(frozen=True)
class Exchange:
    """One question and what the graph does about it.

    Attributes:
        question: Its text; texts repeat.
        form: How a client sends it.
        updates: One ``tool_state`` update a pass of the tool node; empty ones write nothing.
        plan: What the tool node's last pass writes to ``plan``; nothing when None.
    """

    question: str
    form: str
    updates: tuple[Mapping[str, Any], ...]
    plan: str | None


def _merged(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    return {**(old or {}), **(new or {})}


class State(MessagesState):
    tool_state: Annotated[dict[str, Any], _merged]
    plan: str
    trail: Annotated[list[str], operator.add]


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.lists(st.integers(0, 3), max_size=3),
)

EXCHANGES = st.builds(
    Exchange,
    question=st.sampled_from(["yes", "no", "Where is Aarhus?", ""]),
    form=st.sampled_from(["message", "message with id", "role", "pair", "text"]),
    updates=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c/d"]), _VALUES, max_size=2), min_size=1, max_size=3
    ).map(tuple),
    plan=st.none() | st.sampled_from(["", "first", "then"]),
)
CONVERSATIONS = st.lists(EXCHANGES, min_size=1, max_size=5)


def run(saver: BaseCheckpointSaver[Any], thread: str, exchanges: Sequence[Exchange], durability: str) -> None:
    """Run a conversation: one question an input, nothing removed."""
    script: list[Exchange] = []

    def tool(state: State) -> dict[str, Any]:
        passes = len([step for step in state.get("trail", []) if step == f"tool {len(script)}"])
        update: dict[str, Any] = {
            "tool_state": dict(script[-1].updates[passes]),
            "trail": [f"tool {len(script)}"],
        }
        if passes + 1 == len(script[-1].updates) and script[-1].plan is not None:
            update["plan"] = script[-1].plan
        return update

    def again(state: State) -> str:
        passes = len([step for step in state["trail"] if step == f"tool {len(script)}"])
        return "tool" if passes < len(script[-1].updates) else "answer"

    def answer(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer {len(script)}")]}

    graph = (
        StateGraph(State)
        .add_node("tool", tool)
        .add_node("answer", answer)
        .add_edge(START, "tool")
        .add_conditional_edges("tool", again, ["tool", "answer"])
        .add_edge("answer", END)
        .compile(checkpointer=saver)
    )
    for exchange in exchanges:
        script.append(exchange)
        message: Any = {
            "message": HumanMessage(exchange.question),
            "message with id": HumanMessage(exchange.question, id=f"h{len(script)}"),
            "role": {"role": "user", "content": exchange.question},
            "pair": ("user", exchange.question),
            "text": exchange.question,
        }[exchange.form]
        graph.invoke({"messages": [message]}, {"configurable": {"thread_id": thread}}, durability=durability)


def plain_rule(rows: Sequence[CheckpointTuple]) -> dict[int, CheckpointTuple]:
    """Turn → row: group rows by their human messages; in each the one with most messages, then greatest id."""
    turns: dict[int, CheckpointTuple] = {}
    for row in rows:
        messages = _messages(row)
        humans = sum(1 for message in messages if message.type == "human")
        best = turns.get(humans)
        if best is None or (len(messages), row.checkpoint["id"]) > (
            len(_messages(best)),
            best.checkpoint["id"],
        ):
            turns[humans] = row
    return turns


def _messages(row: CheckpointTuple) -> list[Any]:
    return row.checkpoint["channel_values"].get("messages", [])
