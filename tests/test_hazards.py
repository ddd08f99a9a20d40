"""Stores on which evidence is partial or of another form: each a kind that once gave a wrong answer as fact."""

from __future__ import annotations

import itertools
import operator
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import id as made_ids
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite, interrupt

from cli_run import run
from recorded import delete_blobs, record_to_postgres
from turnstate.history.places import checkpoint_place, turn_place
from turnstate.history.reading import Reading, read, read_all
from turnstate.history.thread import History
from turnstate_backends.stores import open_store


def merged(old: dict[str, Any] | None, new: Any) -> dict[str, Any]:
    """Takes a mapping of entries, a pair, or an operation."""
    held = dict(old or {})
    if isinstance(new, tuple | list):
        held[new[0]] = new[1]
    elif isinstance(new, dict) and "op" in new:
        held[new["key"]] = new["value"]
    else:
        held.update(new or {})
    return held


class State(MessagesState):
    tool_state: Annotated[dict[str, Any], merged]
    x: str
    by: Annotated[list[str], operator.add]


Node = Callable[[State], dict[str, Any]]
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def asked(state: State) -> int:
    return sum(1 for message in state["messages"] if message.type == "human")


def answer(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage("A")], "x": f"x{asked(state)}"}


def converse(path: Path, node: Node = answer, questions: int = 3, **how: Any) -> None:
    """One question after the other to a graph of one node."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", node).add_edge(START, "a").compile(checkpointer=saver)
        for number in range(1, questions + 1):
            graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG, **{"durability": "sync", **how})


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def questions(path: Path) -> list[str | None]:
    with open_store(str(path)) as store:
        return [turn.question for turn in History(store, "t").turns.turns[1:]]


def shown(path: Path, name: str, turn: int, **how: Any) -> Reading:
    with open_store(str(path)) as store:
        history = History(store, "t")
        return read(history, name, turn_place(history, turn, **how))


@pytest.mark.parametrize(
    "lost",
    [
        # of the first question, its message; of a whole channel; all but one row; every second row
        "DELETE FROM writes WHERE channel = 'messages' AND rowid = (SELECT min(rowid) FROM writes)",
        "DELETE FROM writes WHERE channel = 'messages'",
        "DELETE FROM writes WHERE rowid <> (SELECT max(rowid) FROM writes)",
        "DELETE FROM writes WHERE rowid % 2",
        "DELETE FROM writes WHERE checkpoint_id = (SELECT min(checkpoint_id) FROM writes)",
    ],
)
def test_write_rows_that_are_lost_in_part_change_no_turn_and_no_value(tmp_path: Path, lost: str) -> None:
    path = tmp_path / "store.db"
    converse(path)
    change(path, lost)
    assert questions(path) == ["q1", "q2", "q3"]
    for turn in (1, 2, 3):
        reading = shown(path, "x", turn)
        assert (reading.value, reading.turns_written) == (f"x{turn}", (1, 2, 3))
        assert reading.written is not None
        assert reading.written.turns == (turn,)


def test_a_value_is_given_to_the_turn_in_which_its_version_changed_though_its_write_is_lost(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    converse(path)
    change(path, "DELETE FROM writes WHERE channel = 'x' AND value LIKE '%x2'")
    reading = shown(path, "x", 2)
    assert (reading.value, reading.turns_written) == ("x2", (1, 2, 3))


def test_a_turn_whose_last_row_is_gone_has_no_end_though_only_a_join_shows_that_it_went_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = StateGraph(State)
        builder.add_node("b", lambda state: {"by": ["b"]}).add_node("p", lambda state: {"by": ["p"]})
        builder.add_node("c", answer).add_edge(START, "b").add_edge(START, "p").add_edge(["b", "p"], "c")
        graph = builder.compile(checkpointer=saver)
        for number in (1, 2, 3):
            graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)
        rows = sorted((t.checkpoint["id"], t.metadata["source"]) for t in saver.list(CONFIG))
    last_of_2, input_of_3 = rows[7], rows[8]
    assert (last_of_2[1], input_of_3[1]) == ("loop", "input")
    change(path, f"DELETE FROM checkpoints WHERE checkpoint_id IN ('{last_of_2[0]}', '{input_of_3[0]}')")
    assert shown(path, "x", 2).outcome == "turn_no_longer_retained"
    assert [shown(path, "x", turn).value for turn in (1, 3)] == ["x1", "x3"]


def test_entries_inside_an_overwrite_are_written_by_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def node(state: State) -> dict[str, Any]:
        wrote: Any = {"k": 1, "old": 1} if asked(state) == 1 else Overwrite({"k": "over", "n": 2})
        return {"messages": [AIMessage("A")], "tool_state": wrote}

    converse(path, node, questions=2)
    assert shown(path, "k", 2).turns_written == (1, 2)
    assert shown(path, "n", 2).turns_written == (2,)
    assert shown(path, "old", 2).outcome == "removed"


def test_entries_are_those_of_the_state_where_a_reducer_takes_another_form(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    updates: list[Any] = [("kt", "v1"), {"op": "set", "key": "ko", "value": 9}, {"kt": "v3"}]
    converse(path, lambda state: {"messages": [AIMessage("A")], "tool_state": updates[asked(state) - 1]})
    assert shown(path, "kt", 1).turns_written == (1, 3)
    assert shown(path, "ko", 3).turns_written == (2,)
    assert shown(path, "op", 3).outcome == "no_such_key"


def test_what_a_command_brings_is_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def node(state: State) -> dict[str, Any]:
        if asked(state) == 1:
            interrupt("go on?")
        return answer(state)

    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", node).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        graph.invoke(Command(resume="yes", update={"messages": [HumanMessage("q2")]}), CONFIG)
        graph.invoke(Command(update={"messages": [HumanMessage("q3")]}, goto="a"), CONFIG)
    assert questions(path) == ["q1", "q2", "q3"]


@pytest.mark.parametrize("kept", [[0, *range(2, 9)], [0, 5, 6, 7, 8], [0, 7, 8], [0, 6, 7, 8]])
@pytest.mark.parametrize("cleared", [True, False])
def test_a_question_that_waits_before_a_gap_is_not_asked_again_behind_it(
    tmp_path: Path, kept: list[int], cleared: bool
) -> None:
    path = tmp_path / "store.db"
    converse(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        ids = [id for (id,) in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")]
        gone = [(id,) for n, id in enumerate(ids) if n not in kept]
        connection.executemany("DELETE FROM checkpoints WHERE checkpoint_id = ?", gone)
        if cleared:
            connection.executemany(
                "UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE parent_checkpoint_id = ?", gone
            )
    assert questions(path) == ["q1", "q2", "q3"]
    assert shown(path, "x", 3).value == "x3"


def test_the_node_that_wrote_last_is_named_where_parallel_nodes_wrote_one_key(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = StateGraph(State)
        for name in ("a", "b", "c"):
            builder.add_node(name, lambda state, name=name: {"tool_state": {"k": name}}).add_edge(START, name)
        graph = builder.compile(checkpointer=saver)
        for number in range(8):
            graph.invoke(
                {"messages": [HumanMessage("q")]},
                {"configurable": {"thread_id": f"t{number}"}},
                durability="sync",
            )
    change(path, "ALTER TABLE writes DROP COLUMN task_path")
    with open_store(str(path)) as store:
        for number in range(8):
            history = History(store, f"t{number}")
            reading = read(history, "k", turn_place(history, 1))
            assert reading.written is not None
            assert reading.written.node == reading.value == "c"


def test_questions_of_a_first_run_saved_in_one_row_share_it_and_are_not_pruned(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1"), HumanMessage("q2")]}, CONFIG, durability="exit")
    with open_store(str(path)) as store:
        turns = History(store, "t").turns
        assert turns.retained == (1, 2)
        assert [turn.asked_with for turn in turns.turns[1:]] == [(1, 2), (1, 2)]
    assert shown(path, "x", 1).value == "x2"


def test_an_update_before_the_first_input_is_no_turn(tmp_path: Path) -> None:
    class Fields(State, total=False):
        query: str

    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = (
            StateGraph(Fields).add_node("a", lambda state: {"x": state["query"]}).add_edge(START, "a")
        ).compile(checkpointer=saver)
        graph.update_state(CONFIG, {"by": ["setup"]})
        for query in ("one", "two"):
            graph.invoke({"query": query}, CONFIG)
    assert questions(path) == ["one", "two"]
    assert [shown(path, "x", turn).value for turn in (1, 2)] == ["one", "two"]
    assert shown(path, "by", 0).value == ["setup"]


def test_a_node_with_many_triggers_costs_no_search_of_their_combinations(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = StateGraph(State).add_node("src", lambda state: {"x": "s"}).add_edge(START, "src")
        names = [f"w{n:02}" for n in range(30)]
        for name in names:
            builder.add_node(name, lambda state, name=name: {"tool_state": {name: 1}}).add_edge("src", name)
        for name in ("agg", "zz"):
            builder.add_node(name, lambda state, name=name: {"tool_state": {name: 1}})
        for first, second in itertools.pairwise(names):
            builder.add_edge([first, second], "agg")
        builder.add_edge("w00", "zz")
        builder.compile(checkpointer=saver).invoke(
            {"messages": [HumanMessage("q")]}, CONFIG, durability="sync"
        )
    change(path, "ALTER TABLE writes DROP COLUMN task_path")
    written = {name: shown(path, name, 1).written for name in ("agg", "zz")}
    assert {name: at and at.node for name, at in written.items()} == {"agg": "agg", "zz": "zz"}


def test_a_pair_of_texts_counts_as_the_reducer_took_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke({"messages": ["user", "two strings"]}, CONFIG)
        graph.invoke({"messages": ("user", "one pair")}, CONFIG)
    assert questions(path) == ["user", "two strings", "one pair"]


def test_a_node_that_returns_the_list_again_makes_no_message_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, lambda state: {"messages": [*state["messages"], AIMessage("A")]})
    with open_store(str(path)) as store:
        history = History(store, "t")
        assert history.turns.total == 3
        assert history.findings.asides == []


def test_what_the_first_input_brings_is_no_key_of_turn_0(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path)
    assert shown(path, "messages", 0).outcome == "not_yet_written"
    assert shown(path, "messages", 1, at_start=True).outcome == "not_yet_written"
    with open_store(str(path)) as store:
        history = History(store, "t")
        found = read_all(history, "*", turn_place(history, 0))
        assert {reading.outcome for reading in found} == {"not_yet_written"}
        first = history.line.rows[0].id
        inside = read(history, "__start__", checkpoint_place(history, first), internal=True)
        assert inside.outcome == "value"


def test_entries_named_1_and_text_1_are_two_keys(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(
        path,
        lambda state: {"messages": [AIMessage("A")], "tool_state": {1: "number", "1": "text", None: 0}},
        questions=1,
    )
    assert shown(path, "1", 1).value == "text"
    assert shown(path, "int(1)", 1).value == "number"
    assert shown(path, "None", 1).value == 0


def test_a_corrected_question_is_the_one_that_was_corrected_among_equal_texts(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        for number in (1, 2, 3):
            graph.invoke({"messages": [HumanMessage("yes", id=f"h{number}")]}, CONFIG)
        graph.update_state(CONFIG, {"messages": [HumanMessage("no", id="h2")]}, as_node="a")
    assert questions(path) == ["yes", "no", "yes"]


def test_a_question_edited_at_its_own_input_row_was_asked_on_the_other_branch(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        graph.invoke({"messages": [HumanMessage("q2")]}, CONFIG)
        rows = list(graph.get_state_history(CONFIG))
        asked_at = next(r for r in rows if r.metadata["source"] == "input" and r.metadata["step"] == 2)
        graph.invoke({"messages": [HumanMessage("q2 edited")]}, asked_at.config)
    assert questions(path) == ["q1", "q2 edited"]
    with open_store(str(path)) as store:
        assert [t.status for t in History(store, "t").turns.turns[1:]] == ["complete", "complete"]


@pytest.mark.parametrize("cleared", [True, False])
@pytest.mark.parametrize("gone", [3, 5, 7])
def test_questions_that_came_as_answers_still_count_when_the_front_is_gone(
    tmp_path: Path, gone: int, cleared: bool
) -> None:
    path = tmp_path / "store.db"

    def node(state: State) -> dict[str, Any]:
        return {"messages": [HumanMessage(interrupt("next?")), AIMessage("A")], "x": f"x{asked(state)}"}

    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = StateGraph(State).add_node("a", node).add_edge(START, "a").add_edge("a", "a")
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        for number in range(2, 8):
            graph.invoke(Command(resume=f"q{number}"), CONFIG)
    with closing(sqlite3.connect(path)) as connection, connection:
        ids = [id for (id,) in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")][:gone]
        for id in ids:
            connection.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (id,))
            connection.execute("DELETE FROM writes WHERE checkpoint_id = ?", (id,))
            if cleared:
                connection.execute(
                    "UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE parent_checkpoint_id = ?", (id,)
                )
    assert questions(path) == [f"q{number}" for number in range(1, 8)]


def test_the_state_before_a_first_run_saved_in_one_row_is_not_called_pruned(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, durability="exit", questions=1)
    for reading in (shown(path, "x", 0), shown(path, "x", 1, at_start=True)):
        assert (reading.outcome, "pruned" in reading.message) == ("no_such_turn", False)
    assert shown(path, "x", 1).value == "x1"


def test_an_entry_whose_value_is_gone_at_both_ends_is_not_called_absent(pg_dsn: str) -> None:
    recorded = record_to_postgres("demo", pg_dsn).threads["demo"]
    for turn in (1, 2):
        assert delete_blobs(pg_dsn, "demo", "tool_state", checkpoint=recorded.turn(turn).last_checkpoint) == 1
    result = run("diff", "demo", "gazet/get_aoi/bbox", "--turns", "1..2", "--exit-code", "--store", pg_dsn)
    assert (result.code, "value_missing" in result.err) == (6, True)


@pytest.mark.parametrize("cleared", [True, False])
def test_a_turn_whose_last_edit_is_gone_has_no_end_though_its_graph_had_come_to_rest(
    tmp_path: Path, cleared: bool
) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        graph.update_state(CONFIG, {"x": "by hand"})
        graph.invoke({"messages": [HumanMessage("q2")]}, CONFIG)
        rows = sorted(
            (t.checkpoint["id"], t.metadata["source"], t.metadata["step"]) for t in saver.list(CONFIG)
        )
    edit, taken = rows[3][0], rows[4][0]
    assert [row[1:] for row in rows[3:5]] == [("update", 2), ("input", 3)]
    change(
        path, "DELETE FROM writes", f"DELETE FROM checkpoints WHERE checkpoint_id IN ('{edit}', '{taken}')"
    )
    if cleared:
        change(
            path, f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE parent_checkpoint_id = '{taken}'"
        )
    assert shown(path, "x", 1).outcome == "turn_no_longer_retained"
    assert shown(path, "x", 2).value == "x2"


def test_a_turn_whose_end_is_kept_can_be_read_though_the_rows_around_it_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        ids = [id for (id,) in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")]
        kept = ids[2::3]
        marks = ", ".join("?" * len(kept))
        connection.execute(f"DELETE FROM checkpoints WHERE checkpoint_id NOT IN ({marks})", kept)
    assert [shown(path, "x", turn).value for turn in (1, 2, 3)] == ["x1", "x2", "x3"]


def test_a_question_whose_input_row_was_edited_is_still_asked_on_the_edited_line(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        first = min(graph.get_state_history(CONFIG), key=lambda row: row.metadata["step"])
        graph.update_state(first.config, {"x": "by hand"}, as_node="a")
    with open_store(str(path)) as store:
        turns = History(store, "t").turns
        assert (turns.by, [turn.question for turn in turns.turns[1:]]) == ("questions", ["q1"])


def test_two_updates_of_one_checkpoint_do_not_lend_each_other_their_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        end = graph.get_state(CONFIG).config
        graph.update_state(end, {"messages": [HumanMessage("asked on the other line")]}, as_node="__start__")
        graph.update_state(end, {"x": "by hand"}, as_node="a")
        graph.invoke({"messages": [HumanMessage("q2")]}, CONFIG)
    assert questions(path) == ["q1", "q2"]
    assert shown(path, "x", 1).value == "by hand"


@pytest.mark.parametrize(
    "summary", [HumanMessage("so far", additional_kwargs={"lc_source": "summarization"}), None]
)
@pytest.mark.parametrize("removed_from", [1, 3])
def test_a_run_saved_in_one_row_may_have_taken_out_its_own_question(
    tmp_path: Path, removed_from: int, summary: HumanMessage | None
) -> None:
    path = tmp_path / "store.db"
    numbers = itertools.count(1)

    def node(state: State) -> dict[str, Any]:
        removes = [RemoveMessage(REMOVE_ALL_MESSAGES), *([summary] if summary else [])]
        return {"messages": [*(removes if next(numbers) == removed_from else []), AIMessage("A")]}

    converse(path, node, durability="exit")
    with open_store(str(path)) as store:
        turns = History(store, "t").turns
    assert (turns.by, turns.total, turns.total_is) == ("questions", 2, "at_least")


@pytest.mark.parametrize("asked", [[HumanMessage("q2")], []])
def test_human_messages_of_a_run_saved_in_one_row_may_be_a_nodes(
    tmp_path: Path, asked: list[HumanMessage]
) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = StateGraph(State).add_node("a", answer).add_edge("critic", "a").add_edge(START, "critic")
        builder.add_node("critic", lambda state: {"messages": [HumanMessage("be brief", name="critic")]})
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        graph.invoke({"messages": asked}, CONFIG, durability="exit")
    with open_store(str(path)) as store:
        turns = History(store, "t").turns
    assert (turns.total_is, turns.doubt) == ("estimate", "nodes")


@pytest.mark.parametrize("more", [0, 3])
def test_what_follows_a_gap_may_have_left_an_earlier_turn_than_the_last_kept_before_it(
    tmp_path: Path, more: int
) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        first = graph.get_state(CONFIG).config
        for text in ("q2", "q3"):
            graph.invoke({"messages": [HumanMessage(text)]}, CONFIG)
        graph.invoke({"messages": [HumanMessage("q2 edited")]}, first)
        for _ in range(more):
            graph.invoke({"messages": [HumanMessage("go on")]}, CONFIG)
        ids = sorted(row.config["configurable"]["checkpoint_id"] for row in saver.list(CONFIG))
    gone = ids[9:-1]
    listed = ", ".join(f"'{id}'" for id in gone)
    change(
        path,
        f"DELETE FROM checkpoints WHERE checkpoint_id IN ({listed})",
        f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE parent_checkpoint_id IN ({listed})",
    )
    with open_store(str(path)) as store:
        turns = History(store, "t").turns
    assert (turns.total_is, turns.doubt) == ("estimate", "branches")


@pytest.mark.parametrize("answer", ["Aarhus", {"feedback": "Aarhus"}, True])
@pytest.mark.parametrize("writes_kept", [True, False])
def test_of_the_human_messages_of_a_task_that_was_resumed_the_users_words_are_questions(
    tmp_path: Path, answer: Any, writes_kept: bool
) -> None:
    path = tmp_path / "store.db"
    asks = StateGraph(State).add_node("critic", lambda state: {"messages": [HumanMessage("brief", name="c")]})
    asks.add_node("ask", lambda state: {"messages": [HumanMessage(interrupt("where?") and "In Aarhus")]})
    asks.add_edge(START, "critic").add_edge("critic", "ask")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = (
            StateGraph(State).add_node("a", asks.compile()).add_edge(START, "a").compile(checkpointer=saver)
        )
        graph.invoke({"messages": [HumanMessage("q1")]}, CONFIG)
        graph.invoke(Command(resume=answer), CONFIG)
        graph.invoke({"messages": [HumanMessage("q2")]}, CONFIG)
    if not writes_kept:
        change(path, "DELETE FROM writes WHERE channel = 'messages'")
    assert questions(path) == ["q1", "In Aarhus", "q2"]
    with open_store(str(path)) as store:
        turns = History(store, "t").turns
    # An answer without words proves no message to be the user's.
    assert (turns.total_is, turns.doubt) == (("estimate", "nodes") if answer is True else ("exact", None))


@pytest.mark.parametrize("name", ["researcher", None])
def test_what_a_sub_agent_says_after_an_approval_is_no_question_by_its_name_and_else_makes_the_total_unsure(
    tmp_path: Path, name: str | None
) -> None:
    path = tmp_path / "store.db"
    agent = StateGraph(State).add_node("approve", lambda state: {"x": interrupt("go on?")})
    agent.add_node("say", lambda state: {"messages": [HumanMessage("Aarhus has a harbour", name=name)]})
    agent.add_edge(START, "approve").add_edge("approve", "say")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = StateGraph(State).add_node("agent", agent.compile()).add_edge(START, "agent")
        graph = builder.compile(checkpointer=saver)
        for number in (1, 2):
            graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)
            graph.invoke(Command(resume="yes"), CONFIG)
    with open_store(str(path)) as store:
        turns = History(store, "t").turns
    said = (turns.total, turns.total_is, turns.doubt)
    assert said == ((2, "exact", None) if name else (4, "estimate", "nodes"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Sets the clock that ids are made with, as another process or machine would have it: no id need be later."""

    def set_to(nanoseconds: Callable[[], int]) -> None:
        def time_ns() -> int:
            monkeypatch.setattr(made_ids, "_last_v6_timestamp", None)
            return nanoseconds()

        monkeypatch.setattr(made_ids, "time", SimpleNamespace(time_ns=time_ns))

    return set_to


def test_questions_that_a_clock_which_stepped_back_cut_off_are_branches_of_what_langgraph_resumed(
    tmp_path: Path, clock: Callable[[Callable[[], int]], None]
) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        for number, offset in enumerate((0, 0, -3600, -3000, 60), 1):
            clock(lambda offset=offset: time.time_ns() + offset * 10**9)  # type: ignore[misc]
            graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)
        held = graph.get_state(CONFIG).values
    assert [m.content for m in held["messages"] if m.type == "human"] == ["q1", "q2", "q5"]
    assert questions(path) == ["q1", "q2", "q5"]
    assert [shown(path, "x", turn).value for turn in (1, 2, 3)] == ["x1", "x2", "x3"]
    listed = run("branches", "--store", str(path), "t", "--json")
    branches = listed.document["branches"][1:]
    assert [branch["forked_by"]["kind"] for branch in branches] == ["skewed", "skewed"]
    noted = run("turns", "--store", str(path), "t").err
    assert "clock skew: checkpoints whose id sorts before their parent's: 2" in noted
    for branch, asked_there in zip(branches, ("q3", "q4"), strict=True):
        turns = run("turns", "--store", str(path), "t", "--branch", branch["tip"], "--json").document
        assert [turn["question"] for turn in turns["turns"]] == ["q1", "q2", asked_there]


@pytest.mark.parametrize("later", [0, -3600 * 10**9])
def test_where_a_first_row_is_the_greatest_by_an_equal_or_a_stepped_back_time_langgraph_resumes_it(
    tmp_path: Path, later: int, clock: Callable[[Callable[[], int]], None]
) -> None:
    path = tmp_path / "store.db"
    # All ids of one moment: the step in them decides then, and the first input's, -1, sorts last.
    # An id is made for the empty state too, which is not stored.
    start = time.time_ns()
    moments = itertools.chain(
        itertools.repeat(start, 2), itertools.count(start + later, 1000 if later else 0)
    )
    clock(lambda: next(moments))
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = StateGraph(State).add_node("a", answer).add_edge(START, "a").compile(checkpointer=saver)
        for number in (1, 2):
            graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)
        resumed = graph.get_state(CONFIG)
    assert resumed.metadata is not None
    assert resumed.metadata["step"] == -1
    document = run("turns", "--store", str(path), "t", "--json").document
    assert document["head"] == resumed.config["configurable"]["checkpoint_id"]
    assert [(turn["question"], turn["status"]) for turn in document["turns"]] == [("q1", "unfinished")]
    followed = [
        run("turns", "--store", str(path), "t", "--branch", tip, "--json").document["turns"]
        for tip in document["branches"]
    ]
    assert [[(t["question"], t["status"]) for t in turns] for turns in followed] == [
        [("q1", "complete")],
        [("q2", "complete")],
    ]
    assert "clock skew: checkpoints whose id sorts before their parent's: 2" in (
        run("turns", "--store", str(path), "t").err
    )


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("writes_kept", [True, False])
def test_a_text_asked_again_counts_where_the_client_changes_what_stands_before_it(
    tmp_path: Path, writes_kept: bool, durability: Any
) -> None:
    class Replaced(TypedDict):
        messages: list[Any]

    def reply(state: Replaced) -> dict[str, Any]:
        return {"messages": [*state["messages"], {"role": "assistant", "content": "A"}]}

    path = tmp_path / "store.db"
    texts = ["q1", "yes", "yes", "q4"]
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder: Any = StateGraph(Replaced)
        graph = builder.add_node("a", reply).add_edge(START, "a").compile(checkpointer=saver)
        held: list[Any] = []
        for number, text in enumerate(texts):
            prompt = {"role": "system", "content": f"It is day {number}."}
            held = [prompt, *held[1:], {"role": "user", "content": text}]
            graph.invoke({"messages": held}, CONFIG, durability=durability)
            held = graph.get_state(CONFIG).values["messages"]
    if not writes_kept:
        change(path, "DELETE FROM writes")
    assert questions(path) == texts


def test_writes_of_parallel_tasks_whose_numbers_only_together_lack_none_are_not_complete(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder = (
            StateGraph(State).add_node("a", answer).add_node("b", lambda state: {"x": f"x{asked(state)}"})
        )
        builder.add_node("c", lambda state: {"by": ["c"], "tool_state": {"k": asked(state)}})
        builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
        graph = builder.compile(checkpointer=saver)
        for number in (1, 2, 3):
            graph.invoke({"messages": [HumanMessage(f"q{number}")]}, CONFIG)
    # of turn 2, what c wrote first: what is left of its step is number 0 of b and number 1 of c
    change(
        path,
        "DELETE FROM writes WHERE rowid = (SELECT rowid FROM writes WHERE channel = 'by' LIMIT 1 OFFSET 1)",
    )
    assert shown(path, "by", 3).turns_written == (1, 2, 3)
