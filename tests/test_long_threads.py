"""Conversations of the kinds that become long: trimmed, sent whole, kept without a reducer.

What is told of them is right, and the lists that are read for it do not grow with the square of the turns: reads are
counted, as times would say more of the machine.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Overwrite, interrupt

from turnstate.history import conversation
from turnstate.history.met import _common, _overlap
from turnstate.history.thread import History
from turnstate_backends.stores import open_store

CONFIG: Any = {"configurable": {"thread_id": "t"}}
TURNS = 40
KEPT = 10


class Replaced(TypedDict):
    messages: list[Any]


class Added(TypedDict):
    messages: Annotated[list[Any], operator.add]


def graph(saver: SqliteSaver, schema: Any, answer: Callable[[Any], list[Any]]) -> Any:
    builder: Any = StateGraph(schema)
    builder.add_node("answer", lambda state: {"messages": answer(state["messages"])})
    return builder.add_edge(START, "answer").compile(checkpointer=saver)


def trimmed(messages: list[BaseMessage]) -> list[BaseMessage]:
    """An answer, and the oldest taken out: what LangGraph's documentation calls deleting messages."""
    return [AIMessage("A"), *(RemoveMessage(str(m.id)) for m in messages[: max(0, len(messages) + 1 - KEPT)])]


def whole(messages: list[Any]) -> list[Any]:
    return [*messages, {"role": "assistant", "content": "A"}]


def last_of_it(messages: list[Any]) -> list[Any]:
    return whole(messages)[-KEPT:]


def said(text: str, id: str | None = None) -> dict[str, str]:
    """A message as clients send it. Of an object without an id, the store may hold the one that the reducer gave it."""
    return {"role": "user", "content": text} | ({"id": id} if id else {})


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(tmp_path / "store.db")) as saver:
        yield saver


def questions(tmp_path: Path) -> list[str | None]:
    with open_store(str(tmp_path / "store.db")) as store:
        return [turn.question for turn in History(store, "t").turns.turns[1:]]


def told(tmp_path: Path) -> tuple[list[str | None], int]:
    """The questions of the thread, none of which is a node's, and how many lists were read to tell."""
    with open_store(str(tmp_path / "store.db")) as store:
        history = History(store, "t")
        reads = 0
        values = history.values

        def counting(*asked: Any) -> Any:
            nonlocal reads
            reads += 1
            return values(*asked)

        history.values = counting  # type: ignore[method-assign]
        questions = [turn.question for turn in history.turns.turns[1:]]
        assert history.turns.total_is == "exact"
        assert history.findings.asides == []
        return questions, reads


@pytest.mark.parametrize("with_id", [lambda n: False, lambda n: True, lambda n: n % 3 == 0])
def test_a_trimmed_conversation_is_counted_without_the_lists_that_it_had(
    tmp_path: Path, saver: SqliteSaver, with_id: Callable[[int], bool]
) -> None:
    agent = graph(saver, MessagesState, trimmed)
    asked = [f"q{number}" for number in range(TURNS)]
    for number, text in enumerate(asked):
        agent.invoke({"messages": [said(text, f"id{number}" if with_id(number) else None)]}, CONFIG)
    assert told(tmp_path) == (asked, 2)  # of the first row and of the last


def test_a_text_that_is_asked_again_under_a_new_id_of_a_trimmed_conversation_counts_each_time(
    tmp_path: Path, saver: SqliteSaver
) -> None:
    agent = graph(saver, MessagesState, trimmed)
    for number in range(TURNS):
        agent.invoke({"messages": [said("yes", f"id{number}" if number % 2 else None)]}, CONFIG)
    questions, reads = told(tmp_path)
    assert questions == ["yes"] * TURNS
    assert reads <= 2 * TURNS


def test_a_message_of_a_trimmed_conversation_sent_again_under_the_id_that_it_was_given_is_no_question(
    tmp_path: Path, saver: SqliteSaver
) -> None:
    agent = graph(saver, MessagesState, trimmed)
    asked = [f"q{number}" for number in range(TURNS)]
    held = {}
    for text in asked:
        agent.invoke({"messages": [said(text)]}, CONFIG)
        held[text] = next(m for m in agent.get_state(CONFIG).values["messages"] if m.content == text)
    agent.invoke({"messages": [said("q3", held["q3"].id)]}, CONFIG)  # long since taken out
    agent.invoke({"messages": [said("q39", held["q39"].id)]}, CONFIG)  # still there
    agent.invoke({"messages": [said("q39!", held["q39"].id)]}, CONFIG)  # changed, so asked
    agent.invoke({"messages": [held["q38"], AIMessage("A"), said("last")]}, CONFIG)
    assert told(tmp_path)[0] == [*asked, "q39!", "last"]


def test_a_message_sent_again_behind_a_new_one_is_no_question(tmp_path: Path, saver: SqliteSaver) -> None:
    agent = graph(saver, MessagesState, trimmed)
    asked = [f"q{number}" for number in range(TURNS)]
    for text in asked:
        held = agent.invoke({"messages": [said(text)]}, CONFIG)["messages"]
    agent.invoke({"messages": [said("new"), held[-2]]}, CONFIG)
    assert held[-2].content == "q39"
    assert told(tmp_path)[0] == [*asked, "new"]


def test_a_question_that_a_node_writes_anew_under_the_id_that_it_was_given_is_not_the_nodes(
    tmp_path: Path, saver: SqliteSaver
) -> None:
    def clarified(messages: list[BaseMessage]) -> list[BaseMessage]:
        said = f"{messages[-1].content}, please"
        return [HumanMessage(said, id=messages[-1].id), *trimmed(messages)]

    agent = graph(saver, MessagesState, clarified)
    asked = [f"q{number}" for number in range(TURNS)]
    for text in asked:
        agent.invoke({"messages": [said(text)]}, CONFIG)
    assert told(tmp_path)[0] == asked


@pytest.mark.parametrize("answer", [whole, last_of_it])
@pytest.mark.parametrize("texts", [[f"q{number}" for number in range(TURNS)], ["yes"] * TURNS])
@pytest.mark.parametrize("at_once", [1, 4 << 20])
def test_a_list_without_reducer_that_client_and_node_write_whole_holds_no_message_of_the_nodes(
    tmp_path: Path,
    saver: SqliteSaver,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[list[Any]], list[Any]],
    texts: list[str],
    at_once: int,
) -> None:
    monkeypatch.setattr(conversation, "_AT_ONCE", at_once)
    agent = graph(saver, Replaced, answer)
    held: list[Any] = []
    for text in texts:
        held = agent.invoke({"messages": [*held, {"role": "user", "content": text}]}, CONFIG)["messages"]
    questions, reads = told(tmp_path)
    assert questions == texts
    assert reads <= 2 * TURNS


def without_ids(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy(update={"id": None}) for message in messages]


@pytest.mark.parametrize("schema", [Added, MessagesState])
@pytest.mark.parametrize(
    "texts", [["a", "b", "c", "d", "e", "f"], ["yes"] * 6, ["no", "no", "yes", "no", "no"]]
)
@pytest.mark.parametrize("sent", [1, 3, 1000])
@pytest.mark.parametrize("answer", ["A", "A" * 1000])
def test_a_list_that_is_sent_back_whole_and_added_to_itself_asks_one_question_a_turn(
    tmp_path: Path, saver: SqliteSaver, schema: Any, texts: list[str], sent: int, answer: str
) -> None:
    agent = graph(saver, schema, lambda _: [AIMessage(answer)])
    held: list[Any] = []
    for text in texts:
        asked = [*without_ids(held[-sent:]), HumanMessage(text)]
        held = agent.invoke({"messages": asked}, CONFIG)["messages"]
    assert questions(tmp_path) == texts


@pytest.mark.parametrize("answer", ["A", "A" * 3000])
def test_questions_asked_together_count_each_also_where_their_texts_were_asked_before(
    tmp_path: Path, saver: SqliteSaver, answer: str
) -> None:
    agent = graph(saver, Replaced, lambda messages: [*messages, {"role": "assistant", "content": answer}])
    held: list[Any] = []
    together = [["no"], ["yes", "no"], ["no", "no", "yes"], ["yes", "yes"], ["no"]]
    for texts in together:
        asked = [{"role": "user", "content": text} for text in texts]
        held = agent.invoke({"messages": [*held[-3:], *asked]}, CONFIG)["messages"]
    assert questions(tmp_path) == [text for texts in together for text in texts]


@pytest.mark.parametrize("lost", ["q1", None])
def test_what_a_node_adds_to_the_words_of_a_caller_is_no_question_also_where_write_rows_are_lost(
    tmp_path: Path, saver: SqliteSaver, lost: str | None
) -> None:
    agent = graph(saver, MessagesState, lambda _: [HumanMessage("a note"), AIMessage("A")])
    agent.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
    agent.invoke(Command(update={"messages": [HumanMessage("q2")]}, goto="answer"), CONFIG)
    agent.invoke({"messages": [HumanMessage("q3")]}, CONFIG)
    if lost:
        saver.conn.execute("DELETE FROM writes WHERE rowid = (SELECT min(rowid) FROM writes)")
        saver.conn.commit()
    assert questions(tmp_path) == ["q1", "q2", "q3"]


def test_of_a_list_that_a_node_summarises_only_the_summary_is_the_nodes(
    tmp_path: Path, saver: SqliteSaver
) -> None:
    def summarised(messages: list[Any]) -> list[Any]:
        if len(messages) < 6:
            return whole(messages)
        return whole([{"role": "user", "content": f"so far: {messages[-5]['content']}"}, *messages[-3:]])

    agent = graph(saver, Replaced, summarised)
    held: list[Any] = []
    for text in ("q1", "q2", "q3", "q4", "q5"):
        held = agent.invoke({"messages": [*held, {"role": "user", "content": text}]}, CONFIG)["messages"]
    with open_store(str(tmp_path / "store.db")) as store:
        findings = History(store, "t").findings
    assert [question.text for question in findings.questions] == ["q1", "q2", "q3", "q4", "q5"]
    assert [aside.text for aside in findings.asides] == ["so far: q2", "so far: q3"]


def test_a_long_history_of_few_texts_is_found_in_itself_without_its_first_messages() -> None:
    old = random.Random(0).choices(["yes", "no"], k=5_000)
    assert _common([*old[400:], "new"], old) == [*range(4_600)]


def test_words_of_a_caller_that_repeat_the_last_question_count_where_the_list_is_replaced(
    tmp_path: Path, saver: SqliteSaver
) -> None:
    agent = graph(saver, Replaced, whole)
    yes = {"role": "user", "content": "yes"}
    held = agent.invoke({"messages": [yes]}, CONFIG)["messages"]
    held = agent.invoke(Command(update={"messages": [*held, yes]}, goto="answer"), CONFIG)["messages"]
    agent.invoke(Command(update={"messages": [yes]}, goto="answer"), CONFIG)
    assert questions(tmp_path) == ["yes"] * 3


def test_a_list_that_a_caller_writes_whole_with_a_question_asks_this_alone(
    tmp_path: Path, saver: SqliteSaver
) -> None:
    def noted(messages: list[Any]) -> list[Any]:
        return [{"role": "user", "content": "a note"}, *whole(messages)[-4:]]

    agent = graph(saver, Replaced, noted)
    held: list[Any] = []
    for text in ("q1", "q2", "q3", "q4"):
        asked = {"messages": [*held, {"role": "user", "content": text}]}
        held = agent.invoke(Command(update=asked, goto="answer") if held else asked, CONFIG)["messages"]
    assert questions(tmp_path) == ["q1", "q2", "q3", "q4"]


@pytest.mark.parametrize(("schema", "kept"), [(Replaced, 1000), (Replaced, 4), (Added, 1000), (Added, 4)])
@pytest.mark.parametrize("spoken", [True, False])
def test_an_answer_that_repeats_the_last_question_counts_where_a_node_writes_it_and_only_there(
    tmp_path: Path, saver: SqliteSaver, schema: Any, kept: int, spoken: bool
) -> None:
    count = 0

    def asking(messages: list[Any]) -> Any:
        nonlocal count
        said = {"role": "user", "content": interrupt("Sure?")}
        count += 1
        new = [*([said] if spoken else []), {"role": "assistant", "content": f"A{count}"}]
        if schema is Added:
            return new if kept > len(messages) else Overwrite([*messages, *new][-kept:])
        return [*messages, *new][-kept:]

    agent = graph(saver, schema, asking)
    held: list[Any] = []
    for _ in range(5):
        yes = {"role": "user", "content": "yes"}
        agent.invoke({"messages": [*held, yes] if schema is Replaced else [yes]}, CONFIG)
        held = agent.invoke(Command(resume="yes"), CONFIG)["messages"]
    assert questions(tmp_path) == ["yes"] * (10 if spoken else 5)


def test_a_prompt_that_a_node_adds_again_and_again_is_shown_as_the_nodes_each_time(
    tmp_path: Path, saver: SqliteSaver
) -> None:
    go_on = {"role": "user", "content": "go on"}
    builder: Any = StateGraph(Added)
    for name in ("first", "second"):
        builder.add_node(name, lambda _: {"messages": [{"role": "assistant", "content": "A"}, go_on]})
    agent = builder.add_edge(START, "first").add_edge("first", "second").compile(checkpointer=saver)
    for text in ("q1", "go on", "q2"):
        agent.invoke({"messages": [{"role": "user", "content": text}]}, CONFIG)
    with open_store(str(tmp_path / "store.db")) as store:
        findings = History(store, "t").findings
    assert [question.text for question in findings.questions] == ["q1", "go on", "q2"]
    assert [(aside.text, aside.by) for aside in findings.asides] == [
        ("go on", "first"),
        ("go on", "second"),
    ] * 3


texts = st.lists(st.sampled_from("abc"), max_size=6)


@given(texts, texts)
def test_the_earliest_of_the_longest_common_subsequences_is_found(new: list[str], old: list[str]) -> None:
    def is_within(part: list[str]) -> bool:
        rest = iter(old)
        return all(each in rest for each in part)

    sizes = range(min(len(new), len(old)), -1, -1)
    every = (places for size in sizes for places in combinations(range(len(new)), size))
    assert tuple(_common(new, old)) == next(places for places in every if is_within([new[i] for i in places]))


@given(texts, texts, st.integers(0, 6))
def test_the_longest_end_that_another_list_begins_with_is_found(
    old: list[str], new: list[str], most: int
) -> None:
    sizes = [n for n in range(min(most, len(old), len(new)) + 1) if old[len(old) - n :] == new[:n]]
    assert _overlap(old, new, most) == max(sizes)
