"""The channel tools publish into: its reducer, its entries, the breadcrumb, and what is told of the state."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from pydantic import BaseModel

from turnstate.agent.tool_state import (
    breadcrumb,
    counted_turn,
    merge_tool_state,
    state_metadata,
    tool_state_entry,
)

BBOX = "gazet/get_aoi/bbox"
SEVERN, THAMES = [-3.2, 51.2, -2.0, 52.5], [-1.9, 51.3, 0.7, 51.9]


def entry(value: Any, **fields: Any) -> dict[str, Any]:
    return {"value": value, "tool": "t", **fields}


def conversation(turns: int, **channels: Any) -> dict[str, Any]:
    """A state in its ``turns``-th turn, the question not answered yet."""
    messages: list[Any] = []
    for turn in range(1, turns + 1):
        messages += [HumanMessage(f"Question {turn}"), AIMessage(f"Answer {turn}")]
    return {"messages": messages[:-1], **channels}


# The reducer.


def test_the_last_write_of_a_key_wins_and_other_keys_stay() -> None:
    left = {"a": entry(1, seq=1, turn=1, turns_written=1), "b": entry(2, seq=2, turn=1, turns_written=1)}
    assert merge_tool_state(left, {"a": entry(3, seq=3, turn=2)}) == {
        "a": {"value": 3, "tool": "t", "seq": 3, "turn": 2, "turns_written": 2},
        "b": {"value": 2, "tool": "t", "seq": 2, "turn": 1, "turns_written": 1},
    }


def test_neither_side_is_changed() -> None:
    left = {"a": entry([1], seq=1, turn=1, turns_written=1)}
    right = {"a": entry([2]), "b": 5}
    before = copy.deepcopy((left, right))
    merge_tool_state(left, right)
    assert (left, right) == before


@pytest.mark.parametrize(
    ("writes", "count"),
    [
        pytest.param([(1, "x")], 1, id="one write"),
        pytest.param([(1, "x"), (1, "y")], 1, id="two in one turn"),
        pytest.param([(1, "x"), (2, "x")], 2, id="the same value again in another turn"),
        pytest.param([(1, "x"), (2, "y"), (2, "z"), (5, "x")], 3, id="turns that did not write it between"),
        pytest.param([(0, "x"), (1, "x")], 2, id="before the first question"),
        pytest.param([(None, "x"), (None, "y")], 1, id="no turn is ever told"),
        pytest.param([(1, "x"), (None, "y")], 1, id="a write without turn adds none"),
        pytest.param([(1, "x"), (None, "y"), (1, "z")], 1, id="a write without turn within a turn"),
        pytest.param([(1, "x"), (None, "y"), (2, "z")], 2, id="a write without turn between two turns"),
        pytest.param([(1, "x"), (True, "y"), ("2", "z")], 1, id="what cannot be a turn is none"),
    ],
)
def test_turns_written_counts_turns_and_not_writes(writes: list[tuple[Any, str]], count: int) -> None:
    state: dict[str, Any] = {}
    for turn, value in writes:
        state = merge_tool_state(state, {"k": entry(value) if turn is None else entry(value, turn=turn)})
    assert (state["k"]["turns_written"], state["k"]["value"]) == (count, writes[-1][1])


def test_a_write_without_turn_does_not_keep_the_turn_of_the_value_before() -> None:
    state = merge_tool_state({"k": entry("x", seq=4, turn=3, turns_written=2)}, {"k": entry("y")})
    assert state["k"] == {"value": "y", "tool": "t", "seq": 5, "after_turn": 3, "turns_written": 2}


def test_a_write_without_seq_is_given_the_next_of_the_channel() -> None:
    state = merge_tool_state({"a": entry(1, seq=7)}, {"b": entry(2), "c": entry(3)})
    assert {key: item["seq"] for key, item in state.items()} == {"a": 7, "b": 8, "c": 9}


def test_a_bare_value_becomes_an_entry() -> None:
    assert merge_tool_state(None, {"k": [1, 2]}) == {"k": {"value": [1, 2], "seq": 1, "turns_written": 1}}


def test_nothing_written_leaves_everything_as_it_is() -> None:
    left = {"k": entry(1, seq=1, turn=1, turns_written=1)}
    assert merge_tool_state(left, {}) == merge_tool_state(left, None) == left


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match="tool_state takes a mapping of keys to entries, not list"):
        merge_tool_state({}, [1])  # type: ignore[arg-type]


def test_numbered_writes_give_the_same_in_every_order() -> None:
    base = {"k": entry("a", seq=1, turn=1, turns_written=1)}
    writes = [
        {"k": entry("c", seq=3, turn=2)},
        {"k": entry("b", seq=2, turn=2)},
        {"k": entry("a", seq=1, turn=1, turns_written=1)},
    ]
    found = []
    for order in permutations(writes):
        state: dict[str, Any] = base
        for write in order:
            state = merge_tool_state(state, write)
        found.append(state)
    expected = {"k": {"value": "c", "tool": "t", "seq": 3, "turn": 2, "turns_written": 2}}
    assert found == [expected] * 6


def test_a_copy_of_an_older_entry_takes_nothing_back() -> None:
    """A subgraph that shares the channel hands all of it back, also what it did not write."""
    given = {"k": entry("old", seq=1, turn=1, turns_written=1)}
    state = merge_tool_state(given, {"k": entry("new", seq=2, turn=2)})
    assert merge_tool_state(state, given) == state


class Published(TypedDict):
    tool_state: Annotated[dict[str, Any], merge_tool_state]


def test_parallel_branches_of_a_graph_all_come_in_and_the_last_of_one_key_is_always_the_same() -> None:
    def work(number: int) -> dict[str, Any]:
        return {
            "tool_state": {f"own/{number}": entry(number, turn=1), "shared": entry(number, seq=1, turn=1)}
        }

    graph: Any = StateGraph(Published)
    graph.add_node("fan", lambda state: {})
    graph.add_node("work", work)
    graph.add_edge(START, "fan")
    graph.add_conditional_edges("fan", lambda state: [Send("work", n) for n in (1, 2, 3)], ["work"])
    graph.add_edge("work", END)
    results = [graph.compile().invoke({"tool_state": {}})["tool_state"] for _ in range(3)]
    assert results == [results[0]] * 3
    assert {key: item["value"] for key, item in results[0].items()} == {
        "own/1": 1,
        "own/2": 2,
        "own/3": 3,
        "shared": 3,
    }
    assert {item["turns_written"] for item in results[0].values()} == {1}


# Entries, and the turn that is going on.


@pytest.mark.parametrize(
    ("messages", "turn"),
    [
        pytest.param([], None, id="no message"),
        pytest.param([AIMessage("Welcome")], None, id="no question"),
        pytest.param([HumanMessage("a"), AIMessage("b"), HumanMessage("c")], 2, id="two questions"),
        pytest.param(
            [
                HumanMessage("Summary so far", additional_kwargs={"lc_source": "summarization"}),
                HumanMessage("c"),
            ],
            None,
            id="a summary stands for messages that were taken out",
        ),
        pytest.param([AIMessage("b"), HumanMessage("c")], None, id="a list that begins with an answer"),
        pytest.param([HumanMessage("a"), HumanMessage("c", name="critic")], None, id="one has a name"),
        pytest.param([HumanMessage("a", name="ann"), HumanMessage("b", name="ben")], 2, id="all have"),
        pytest.param([SystemMessage("s"), HumanMessage("a")], 1, id="a system message before"),
        pytest.param([{"role": "user", "content": "a"}, ("user", "b")], 2, id="dictionaries and pairs"),
        pytest.param([{"role": "assistant", "content": "a"}, "a bare text"], None, id="what is no question"),
    ],
)
def test_the_present_turn_is_the_number_of_human_messages_unless_that_shows_to_be_wrong(
    messages: list[Any], turn: int | None
) -> None:
    assert counted_turn({"messages": messages}) == turn


def test_the_present_turn_is_not_guessed_where_messages_were_taken_out() -> None:
    trimmed = {**conversation(1), "tool_state": {"k": entry(1, seq=1, turn=4)}}
    assert counted_turn(trimmed) is None
    assert "turn" not in tool_state_entry("k", 2, tool="t", state=trimmed)


def test_a_state_may_be_a_pydantic_model() -> None:
    class State(BaseModel):
        messages: list[Any]

    assert counted_turn(State(messages=[HumanMessage("a")])) == 1


def test_an_entry_says_what_is_needed_to_tell_it_from_the_one_before() -> None:
    first = tool_state_entry(BBOX, SEVERN, tool="gazet/get_aoi", state=conversation(1))
    assert first == {
        "value": [-3.2, 51.2, -2.0, 52.5],
        "tool": "gazet/get_aoi",
        "seq": 1,
        "turn": 1,
        "turns_written": 1,
    }
    state = conversation(2, tool_state={BBOX: first})
    assert tool_state_entry(BBOX, THAMES, tool="gazet/get_aoi", state=state) == {
        "value": [-1.9, 51.3, 0.7, 51.9],
        "tool": "gazet/get_aoi",
        "seq": 2,
        "turn": 2,
        "turns_written": 2,
    }


def test_a_caller_that_numbers_turns_itself_is_believed() -> None:
    assert tool_state_entry("k", 1, tool="t", state=conversation(1), turn=12)["turn"] == 12


# The breadcrumb.


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(None, entry(1, turn=1), None, id="nothing was there"),
        pytest.param(
            entry(1, turn=1),
            entry(2, turn=2),
            "gazet/get_aoi/bbox was rewritten: turn 1's value is no longer in the present state; "
            'read it with inspect_state(key="gazet/get_aoi/bbox", turn=1)',
            id="another turn's value",
        ),
        pytest.param(
            entry([1, {"a": 2}], turn=1),
            entry([1, {"a": 2}], turn=2),
            "gazet/get_aoi/bbox was written again and did not change: it equals turn 1's value",
            id="an equal value",
        ),
        pytest.param(
            entry(1, turn=2),
            entry(2, turn=2),
            "gazet/get_aoi/bbox was rewritten within turn 2: the value that turn 2 had written before is no longer "
            "in the present state, and no turn ends with it",
            id="the same turn's value",
        ),
        pytest.param(
            entry(1),
            entry(2, turn=2),
            "gazet/get_aoi/bbox was rewritten: the value that was there is no longer in the present state; "
            "which turn had written it is not recorded",
            id="nobody's value",
        ),
        pytest.param(
            entry(1, turn=1),
            entry(True, turn=2),
            "gazet/get_aoi/bbox was rewritten: turn 1's value is no longer in the present state; "
            'read it with inspect_state(key="gazet/get_aoi/bbox", turn=1)',
            id="1 and true are two values",
        ),
    ],
)
def test_the_breadcrumb_names_the_turn_whose_value_was_displaced(
    old: Any, new: dict[str, Any], words: str | None
) -> None:
    state = conversation(2, tool_state={} if old is None else {BBOX: old})
    assert breadcrumb(state, BBOX, new) == words


def test_a_key_cannot_break_out_of_the_breadcrumb() -> None:
    told = breadcrumb({"tool_state": {'a"\n\x1b': entry(1, turn=1)}}, 'a"\n\x1b', entry(2, turn=2))
    assert told == (
        "a\"⏎\\x1b was rewritten: turn 1's value is no longer in the present state; "
        'read it with inspect_state(key="a\\"\\n\\u001b", turn=1)'
    )


# What is told of the state.


def test_metadata_has_type_and_size_and_the_turn_and_more_turns_only_where_there_were_more() -> None:
    state = conversation(
        2,
        tool_state={
            BBOX: entry(THAMES, seq=2, turn=2, turns_written=2),
            "note": entry("für dich", seq=1, turn=1, turns_written=1),
        },
        plan="look",
    )
    told = state_metadata(state)
    assert told.pop("messages")["type"] == "list"
    assert told == {
        "gazet/get_aoi/bbox": {"type": "list", "bytes": 20, "turn": 2, "turnsWritten": 2},
        "note": {"type": "str", "bytes": 11, "turn": 1},
        "plan": {"type": "str", "bytes": 6},
    }


def test_metadata_names_the_channel_where_two_have_an_entry_of_that_name() -> None:
    state = {"tool_state": {"x": entry(1, turn=1)}, "cache": {"x": 2}}
    assert state_metadata(state) == {
        "tool_state:x": {"type": "int", "bytes": 1, "turn": 1},
        "cache:x": {"type": "int", "bytes": 1},
    }
