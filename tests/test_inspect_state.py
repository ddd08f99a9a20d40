"""``inspect_state``: what an agent is answered about its own state, now and as earlier turns ended."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel, SecretStr

from turnstate import Snapshot, Snapshots, make_inspect_state
from turnstate.agent import bounded
from turnstate.agent.inspecting import MOST_CHARACTERS

BBOX = "gazet/get_aoi/bbox"
SEVERN, THAMES = [-3.2, 51.2, -2.0, 52.5], [-1.9, 51.3, 0.7, 51.9]
FIRST = {"value": SEVERN, "tool": "gazet/get_aoi", "seq": 1, "turn": 1, "turns_written": 1}
SECOND = {"value": THAMES, "tool": "gazet/get_aoi", "seq": 2, "turn": 2, "turns_written": 2}


class Kept:
    """A history of one thread, ``t``."""

    def __init__(self, turns: Mapping[int, Mapping[str, Any]], total: int) -> None:
        self.kept = Snapshots(turns, total)
        self.asked: list[Any] = []

    async def snapshots(self, thread_id: str) -> Snapshots:
        self.asked.append(thread_id)
        return self.kept if thread_id == "t" else Snapshots({}, 0)


class KeptSingly(Kept):
    """One that can also give a single turn."""

    async def snapshot(self, thread_id: str, turn: int) -> Snapshot:
        self.asked.append((thread_id, turn))
        kept, retained = self.kept.turns, tuple(self.kept.turns)
        if turn in kept:
            return Snapshot("value", "", turn, kept[turn], None, self.kept.total, retained)
        outcome = "no_such_turn" if turn > self.kept.total else "turn_no_longer_retained"
        return Snapshot(outcome, "", turn, {}, None, self.kept.total, retained)  # type: ignore[arg-type]


class Broken:
    async def snapshots(self, thread_id: str) -> Snapshots:
        raise OSError("cannot reach postgresql://someone:hunter2@db")


def conversation(turns: int, **channels: Any) -> dict[str, Any]:
    messages: list[Any] = []
    for turn in range(1, turns + 1):
        messages += [HumanMessage(f"Question {turn}"), AIMessage(f"Answer {turn}")]
    return {"messages": messages[:-1], **channels}


NOW = conversation(3, tool_state={BBOX: SECOND}, plan="compare")
PAST = Kept({1: {BBOX: FIRST, "plan": "look up"}, 2: {BBOX: SECOND, "plan": "look up"}, 3: {BBOX: SECOND}}, 3)
PRUNED = Kept({2: {BBOX: SECOND, "plan": "look up"}}, 3)


def asked(
    key: str,
    *,
    state: Any = NOW,
    history: Any = PAST,
    allowed: Any = ("gazet/*", "plan"),
    thread: str | None = "t",
    **more: Any,
) -> dict[str, Any]:
    """The tool's answer; it must be JSON of the size that is promised."""
    tool = make_inspect_state(allowed, history)
    config: Any = {"configurable": {} if thread is None else {"thread_id": thread}}
    text = asyncio.run(tool.ainvoke({"key": key, "state": state, **more}, config))
    assert len(text) <= MOST_CHARACTERS
    answer: dict[str, Any] = json.loads(text)
    assert next(iter(answer)) == "outcome"
    return answer


def picked(answer: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(answer.get(name) for name in names)


# Now, and at a turn.


def test_without_a_turn_the_present_value_is_read_and_a_note_at_the_end_says_how_to_read_the_earlier_one() -> (
    None
):
    answer = asked(BBOX)
    assert answer == {
        "outcome": "value",
        "key": "gazet/get_aoi/bbox",
        "channel": "tool_state",
        "turn": 3,
        "type": "list",
        "value": [-1.9, 51.3, 0.7, 51.9],
        "written_in_turn": 2,
        "turns_written": 2,
        "note": "gazet/get_aoi/bbox was written in 2 turns. This is turn 2's value. The value before it is turn 1's, "
        'read it with inspect_state(key="gazet/get_aoi/bbox", turn=1).',
    }
    assert list(answer)[-1] == "note"


@pytest.mark.parametrize(
    ("turn", "value", "written"),
    [(1, [-3.2, 51.2, -2.0, 52.5], 1), (2, [-1.9, 51.3, 0.7, 51.9], 2), (3, [-1.9, 51.3, 0.7, 51.9], 2)],
)
@pytest.mark.parametrize("history", [PAST, KeptSingly(PAST.kept.turns, 3)])
def test_with_a_turn_the_value_is_read_as_that_turn_ended_and_labelled_with_the_turn_that_wrote_it(
    history: Kept, turn: int, value: list[float], written: int
) -> None:
    answer = asked(BBOX, turn=turn, history=history)
    names = ("outcome", "turn", "value", "written_in_turn", "turns_written")
    assert picked(answer, *names) == ("value", turn, value, written, 2)


def test_an_earlier_value_says_that_it_is_not_the_present_one() -> None:
    assert asked(BBOX, turn=1)["note"] == (
        "gazet/get_aoi/bbox was written in 2 turns. This is turn 1's value. "
        'Turn 2 wrote the present one, read it with inspect_state(key="gazet/get_aoi/bbox").'
    )


@pytest.mark.parametrize("history", [PAST, KeptSingly(PAST.kept.turns, 3), Kept({}, 2)])
def test_a_turn_that_never_was_says_how_many_there_were(history: Kept) -> None:
    assert asked(BBOX, turn=7, history=history) == {
        "outcome": "no_such_turn",
        "turns_so_far": 3,
        "message": "This thread has had 3 turns so far, the present one included.",
        "key": "gazet/get_aoi/bbox",
        "channel": "tool_state",
        "turn": 7,
    }


@pytest.mark.parametrize("turn", [0, -1])
def test_turns_are_counted_from_1(turn: int) -> None:
    assert picked(asked(BBOX, turn=turn), "outcome", "turns_so_far") == ("no_such_turn", 3)


@pytest.mark.parametrize("history", [PRUNED, KeptSingly(PRUNED.kept.turns, 3)])
def test_a_turn_that_is_gone_says_which_are_left(history: Kept) -> None:
    answer = asked(BBOX, turn=1, history=history)
    assert picked(answer, "outcome", "retained_turns", "turns_so_far") == ("turn_no_longer_retained", [2], 3)
    assert "value" not in answer


def test_the_first_turns_value_is_not_said_to_have_lost_one_before_it() -> None:
    third = {**SECOND, "turn": 3, "turns_written": 3}
    history = Kept({1: {BBOX: FIRST}, 2: {BBOX: SECOND}, 3: {BBOX: third}}, 3)
    answer = asked(BBOX, turn=1, state=conversation(3, tool_state={BBOX: third}), history=history)
    assert answer["note"] == (
        "gazet/get_aoi/bbox was written in 3 turns. This is turn 1's value. "
        'Turn 3 wrote the present one, read it with inspect_state(key="gazet/get_aoi/bbox").'
    )


def test_an_earlier_value_that_is_gone_is_not_promised() -> None:
    note = asked(BBOX, history=PRUNED)["note"]
    assert note.endswith("This is turn 2's value. No earlier value of it is retained.")


def test_a_value_whose_own_turn_is_gone_is_read_at_a_turn_that_is_kept() -> None:
    third = {**SECOND, "turn": 3}
    history = Kept({2: {BBOX: FIRST}}, 3)
    note = asked(BBOX, state=conversation(3, tool_state={BBOX: third}), history=history)["note"]
    assert (
        'The value before it is turn 1\'s, read it with inspect_state(key="gazet/get_aoi/bbox", turn=2).'
        in note
    )


def test_a_turn_without_a_history_is_said_to_be_unreadable_and_whose_the_present_value_is() -> None:
    assert asked(BBOX, turn=1, history=None) == {
        "outcome": "no_turn_history",
        "key": "gazet/get_aoi/bbox",
        "channel": "tool_state",
        "turn": 1,
        "message": "No turn can be read: no history of turns was given to this tool. "
        "Without turn you get the present value, which is turn 2's.",
    }


def test_without_a_history_the_present_value_still_says_that_another_turn_wrote_it() -> None:
    assert asked(BBOX, history=None)["note"] == (
        "gazet/get_aoi/bbox was written in 2 turns. This is turn 2's value. "
        "The earlier value cannot be read: no history of turns was given to this tool."
    )


def test_a_run_without_a_thread_has_no_history() -> None:
    answer = asked(BBOX, turn=1, thread=None)
    assert answer["outcome"] == "no_turn_history"
    assert "the run has no thread_id" in answer["message"]


def test_the_thread_is_that_of_the_run_and_not_the_model_s_to_choose() -> None:
    history = Kept(PAST.kept.turns, 3)
    tool = make_inspect_state([BBOX], history)
    asked(BBOX, turn=1, history=history, thread="another", thread_id="t")
    assert history.asked == ["another"]
    assert set(tool.tool_call_schema.model_json_schema()["properties"]) == {"key", "pattern", "path", "turn"}  # type: ignore[union-attr]


def test_a_single_turn_is_asked_for_where_the_history_can_give_one() -> None:
    history = KeptSingly(PAST.kept.turns, 3)
    asked(BBOX, turn=1, history=history)
    assert history.asked == [("t", 1)]


def test_a_history_that_fails_is_told_by_its_class_and_leaves_the_present_value() -> None:
    answer = asked(BBOX, turn=1, history=Broken())
    assert answer["outcome"] == "history_failed"
    assert "OSError" in answer["message"]
    present = asked(BBOX, history=Broken())
    assert picked(present, "value", "written_in_turn", "turns_written") == ([-1.9, 51.3, 0.7, 51.9], 2, 2)
    assert present["note"] == (
        "gazet/get_aoi/bbox was written in 2 turns. The earlier turns could not be read (OSError)."
    )
    assert "hunter2" not in json.dumps([answer, present])


def test_why_a_history_failed_is_logged_without_a_password(caplog: pytest.LogCaptureFixture) -> None:
    class Other:
        async def snapshots(self, thread_id: str) -> Any:
            return {"turns": {}}

    assert asked(BBOX, turn=1, history=Broken())["outcome"] == "history_failed"
    assert asked(BBOX, turn=1, history=Other())["outcome"] == "history_failed"
    assert [record.getMessage() for record in caplog.records] == [
        "a history could not be read: OSError('cannot reach postgresql://someone:***@db')",
        "a history gave dict and not Snapshots",
    ]


def test_a_turn_that_the_messages_no_longer_show_is_known_from_the_history() -> None:
    trimmed = conversation(1, tool_state={BBOX: SECOND})
    assert picked(asked(BBOX, state=trimmed, turn=7), "outcome", "turns_so_far") == ("no_such_turn", 3)
    assert asked(BBOX, state=trimmed, turn=1)["value"] == [-3.2, 51.2, -2.0, 52.5]


@pytest.mark.parametrize("single", [False, True])
def test_where_nodes_add_human_messages_the_turns_of_the_history_stand(single: bool) -> None:
    """The list then holds more human messages than questions, and the second turn's entry says 4."""
    miscounted = {**SECOND, "turn": 4}
    turns = {1: {BBOX: FIRST}, 2: {BBOX: miscounted}}
    history = KeptSingly(turns, 2) if single else Kept(turns, 2)
    state = conversation(5, tool_state={BBOX: miscounted})
    for turn in (3, 4, 5, 7):
        answer = asked(BBOX, state=state, history=history, turn=turn)
        assert picked(answer, "outcome", "turns_so_far") == ("no_such_turn", 2)
    second = asked(BBOX, state=state, history=history, turn=2)
    assert picked(second, "value", "written_in_turn") == ([-1.9, 51.3, 0.7, 51.9], None)
    assert second["note"] == (
        "gazet/get_aoi/bbox was written in 2 turns. "
        "Its entry says that turn 4 wrote it, and the history tells otherwise."
    )
    note = asked(BBOX, state=state, history=history)["note"]
    assert note.endswith(
        'The value before it is turn 1\'s, read it with inspect_state(key="gazet/get_aoi/bbox", turn=1).'
    )


@pytest.mark.parametrize("turn", [None, 3])
def test_an_entry_whose_turn_had_ended_with_another_value_is_not_said_to_be_of_that_turn(
    turn: int | None,
) -> None:
    """As where messages were taken out before the third turn, or an edit changed the value and kept the turn."""
    miscounted = {**SECOND, "value": [0, 0, 1, 1], "turns_written": 3}
    history = KeptSingly({1: {BBOX: FIRST}, 2: {BBOX: SECOND}, 3: {BBOX: miscounted}}, 4)
    state = conversation(4, tool_state={BBOX: miscounted})
    answer = asked(BBOX, state=state, history=history, **({} if turn is None else {"turn": turn}))
    assert picked(answer, "value", "written_in_turn") == ([0, 0, 1, 1], None)
    assert answer["note"] == (
        "gazet/get_aoi/bbox was written in 3 turns. "
        "Its entry says that turn 2 wrote it, and the history tells otherwise."
    )


def test_the_present_turn_is_read_from_the_state_also_before_the_history_has_it() -> None:
    answer = asked(
        BBOX, turn=2, state=conversation(2, tool_state={BBOX: SECOND}), history=Kept({1: {BBOX: FIRST}}, 1)
    )
    assert picked(answer, "outcome", "value", "written_in_turn") == ("value", [-1.9, 51.3, 0.7, 51.9], 2)


# Plain channels.


def test_a_plain_channel_is_read_too_and_its_turns_are_told_from_the_ends_of_turns() -> None:
    assert asked("plan") == {
        "outcome": "value",
        "key": "plan",
        "turn": 3,
        "type": "str",
        "value": "compare",
        "written_in_turns": [1, 3],
        "written_in_turn": 3,
        "turns_written": 2,
        "note": "plan was written in 2 turns. This is turn 3's value. The value before it is turn 1's, "
        'read it with inspect_state(key="plan", turn=1).',
    }
    assert picked(asked("plan", turn=2), "value", "written_in_turn") == ("look up", 1)


def test_of_a_plain_channel_no_count_is_made_up_where_nothing_tells_it() -> None:
    answer = asked("plan", history=None)
    assert answer == {"outcome": "value", "key": "plan", "type": "str", "value": "compare"}


def test_an_entry_of_another_reducer_is_counted_from_the_history() -> None:
    def bare(entry: dict[str, Any]) -> dict[str, Any]:
        return {"value": entry["value"], "tool": "t"}

    state = conversation(2, tool_state={BBOX: bare(SECOND)})
    answer = asked(BBOX, state=state, history=Kept({1: {BBOX: bare(FIRST)}}, 2))
    assert picked(answer, "written_in_turns", "written_in_turn", "turns_written") == ([1, 2], 2, 2)


def test_two_channels_with_one_entry_are_told_apart_as_the_command_line_does() -> None:
    state = conversation(1, tool_state={"x": {**FIRST, "value": 1}}, cache={"x": 2})
    answer = asked("x", state=state, allowed=["x"])
    assert picked(answer, "outcome", "keys") == ("ambiguous_key", ["cache:x", "tool_state:x"])
    assert asked("cache:x", state=state, allowed=["x"])["value"] == 2
    assert asked("tool_state:x", state=state, allowed=["x"])["value"] == 1


def test_a_history_that_gives_channels_instead_of_keys_is_understood() -> None:
    history = Kept({1: {"tool_state": {BBOX: FIRST}}}, 2)
    assert asked(BBOX, turn=1, history=history)["value"] == [-3.2, 51.2, -2.0, 52.5]


@pytest.mark.parametrize("kind", ["dataclass", "pydantic"])
def test_the_state_may_be_an_object(kind: str) -> None:
    @dataclasses.dataclass
    class Fields:
        plan: str

    class Model(BaseModel):
        plan: str

    state = Fields("go") if kind == "dataclass" else Model(plan="go")
    assert asked("plan", state=state, history=None)["value"] == "go"


# Keys.


def test_a_star_lists_the_keys_with_type_and_summary_and_in_how_many_turns_they_were_written() -> None:
    assert asked("*") == {
        "outcome": "keys",
        "pattern": "*",
        "turn": 3,
        "count": 2,
        "keys": [
            {
                "key": "gazet/get_aoi/bbox",
                "type": "list",
                "summary": "4 items: -1.9, 51.3, 0.7, 51.9",
                "written_in_turn": 2,
                "written": "written in 2 turns",
            },
            {"key": "plan", "type": "str", "summary": "compare", "written": "written in 2 turns"},
        ],
    }


def test_a_glob_lists_what_it_matches_also_as_a_turn_ended() -> None:
    answer = asked("gazet/*", turn=1)
    assert picked(answer, "outcome", "turn", "count") == ("keys", 1, 1)
    assert answer["keys"][0]["summary"] == "4 items: -3.2, 51.2, -2.0, 52.5"
    assert picked(asked("gazet/*", turn=9), "outcome", "turns_so_far") == ("no_such_turn", 3)
    assert asked("gazet/*", turn=1, history=None)["outcome"] == "no_turn_history"


@pytest.mark.parametrize("turn", [None, 2])
def test_a_channel_that_is_a_mapping_lists_its_entries_by_its_name(turn: int | None) -> None:
    answer = asked("tool_state", turn=turn, allowed=["tool_state", "plan"])
    assert picked(answer, "outcome", "count") == ("keys", 1)
    assert answer["keys"][0]["key"] == "gazet/get_aoi/bbox"
    assert asked("tool_state", turn=turn, path="a", allowed=["*"])["outcome"] == "usage"


def test_a_key_that_is_written_like_a_glob_is_read_as_itself() -> None:
    state = conversation(1, tool_state={"area[0]": {**FIRST, "value": 5}})
    assert asked("area[0]", state=state, allowed=["area[0]"], history=None)["value"] == 5


def test_many_keys_are_listed_within_the_size_of_an_answer() -> None:
    state = conversation(1, tool_state={f"k/{i:04}/{'x' * 80}": {**FIRST, "value": i} for i in range(500)})
    answer = asked("k/*", state=state, allowed=["*"], history=None)
    assert answer["count"] == 500
    assert 0 < len(answer["keys"]) < 60
    assert answer["note"] == "440 more keys match: give a narrower pattern."


def test_a_glob_whose_translation_would_take_long_is_refused() -> None:
    assert asked("[" * 20_000)["outcome"] == "usage"
    assert asked("[" * 500)["outcome"] == "keys"


def test_names_of_any_length_leave_an_answer_its_size() -> None:
    name = "\x00" * 9000
    state = conversation(1, tool_state={name: {**FIRST, "value": "v" * 3990, "turns_written": 2}})
    assert len(asked(name, state=state, allowed=["*"], history=None)["value"]) == 3990
    assert asked("*", state=state, allowed=["*"], history=None)["count"] == 2


def test_an_unknown_key_is_told_the_nearest() -> None:
    assert picked(asked("gazet/get_aoi/box"), "outcome", "nearest") == ("no_such_key", ["gazet/get_aoi/bbox"])


@pytest.mark.parametrize("turn", [None, 1])
@pytest.mark.parametrize(
    "key", ["api_key", "tool_state", "messages", "gaze", "tool_state:gazet/x", "x" * 9000]
)
def test_a_key_outside_the_allowed_ones_is_refused_whether_it_exists_or_not(
    key: str, turn: int | None
) -> None:
    state = {**NOW, "api_key": "sk-1"}
    history = Kept({1: {"api_key": "sk-0", BBOX: FIRST}}, 3)
    answer = asked(key, state=state, history=history, turn=turn)
    assert picked(answer, "outcome", "allowed_keys") == ("key_not_allowed", ["gazet/*", "plan"])
    assert "sk-" not in json.dumps(answer)


def test_a_listing_has_only_allowed_keys_also_as_a_turn_ended() -> None:
    history = Kept({1: {"api_key": "sk-0", BBOX: FIRST}}, 3)
    for turn in (None, 1):
        answer = asked("*", state={**NOW, "api_key": "sk-1"}, history=history, turn=turn, allowed=["gazet/*"])
        assert [row["key"] for row in answer["keys"]] == ["gazet/get_aoi/bbox"]


def test_a_channel_that_is_allowed_allows_its_entries() -> None:
    assert asked(BBOX, allowed=["tool_state"])["outcome"] == "value"


def test_a_key_that_was_not_there_yet_or_no_longer_is_not_called_unknown() -> None:
    history = Kept({1: {"old": "x"}, 2: {BBOX: SECOND}, 3: {BBOX: SECOND}}, 3)
    late = asked(BBOX, turn=1, history=history, allowed=["*"])
    assert picked(late, "outcome", "written_in_turns") == ("not_yet_written", [2])
    gone = asked("old", turn=2, history=history, allowed=["*"])
    assert picked(gone, "outcome", "written_in_turns") == ("removed", [1])
    assert asked("old", turn=1, history=history, allowed=["*"])["value"] == "x"
    assert asked("never", turn=1, history=history, allowed=["*"])["outcome"] == "no_such_key"


# Long values, path and pattern.

AREAS = [{"name": f"area {i}", "my-key": {"size": i}, "text": "lorem " * 20} for i in range(200)]
LONG = conversation(
    1,
    tool_state={
        "areas": {**FIRST, "value": AREAS},
        "report": {**FIRST, "value": "\n".join(f"Line {i} of the report" for i in range(1, 1001))},
        "flat": {**FIRST, "value": "a" * 50_000 + "needle" + "b" * 50_000},
        "record": {**FIRST, "value": {"areas": AREAS, "my-key": AREAS[0]}},
    },
)


def long(key: str, **more: Any) -> dict[str, Any]:
    return asked(key, state=LONG, history=None, allowed=["*"], **more)


def test_a_long_list_comes_as_an_outline_whose_paths_lead_on() -> None:
    answer = long("areas")
    assert picked(answer, "outcome", "type", "holds") == ("value", "list", "200 items")
    assert answer["outline"][3] == {
        "path": "[3]",
        "type": "dict",
        "summary": "3 fields: name, my-key, text",
    }
    assert long("areas", path="[3]")["value"]["name"] == "area 3"


def test_paths_of_an_outline_quote_names_and_continue_the_path_that_was_given() -> None:
    assert [row["path"] for row in long("record")["outline"]] == ["areas", '"my-key"']
    assert long("record", path="areas")["outline"][0]["path"] == "areas[0]"
    assert long("record", path="areas[2:]")["outline"][0]["path"] == "areas[2:] | [0]"
    assert long("record", path="areas[2:] | [0]")["value"]["name"] == "area 2"
    assert long("record", path='"my-key"."my-key".size')["value"] == 0


def test_a_path_may_be_any_jmespath() -> None:
    assert long("areas", path='[?"my-key".size > `197`].name')["value"] == ["area 198", "area 199"]


def test_a_path_that_leads_nowhere_says_so() -> None:
    answer = long("record", path="area")
    assert answer["value"] is None
    assert answer["hint"].startswith("the path leads to null, or to nothing")


def test_a_long_text_comes_as_its_first_lines() -> None:
    answer = long("report")
    assert answer["holds"] == "1000 lines"
    assert answer["outline"][0] == {"line": 1, "text": "Line 1 of the report"}


def test_a_pattern_gives_the_lines_that_match_with_their_numbers() -> None:
    answer = long("report", pattern=r"Line 1?99 ")
    assert picked(answer, "lines", "matching_lines") == (1000, 2)
    assert answer["matches"] == [
        {"line": 99, "text": "Line 99 of the report"},
        {"line": 199, "text": "Line 199 of the report"},
    ]


def test_many_matching_lines_are_counted_and_the_first_are_shown() -> None:
    answer = long("report", pattern="report")
    assert (answer["matching_lines"], len(answer["matches"])) == (1000, 40)
    assert answer["hint"].startswith("only the first matching lines are shown")


def test_a_match_within_a_long_line_is_shown_with_what_is_around_it() -> None:
    answer = long("flat", pattern="needle")
    assert answer["matches"] == [{"line": 1, "text": "…" + "a" * 60 + "needle" + "b" * 133 + "…"}]


def test_a_path_and_a_pattern_go_together() -> None:
    assert long("record", path="areas[7]", pattern="name")["matches"] == [
        {"line": 2, "text": '  "name": "area 7",'}
    ]


@pytest.mark.parametrize(
    ("more", "outcome", "said"),
    [
        ({"pattern": "("}, "bad_pattern", "missing ), unterminated subpattern at position 0"),
        ({"pattern": "a" * 501}, "bad_pattern", "it has 501 characters, and 500 are allowed"),
        ({"path": "areas["}, "bad_path", "Invalid jmespath expression"),
        ({"path": "(" * 400}, "bad_path", ""),
        ({"path": "nonsense(@)"}, "bad_path", "Unknown function: nonsense()"),
        ({"path": "areas[", "pattern": "x"}, "bad_path", "Invalid jmespath expression"),
    ],
)
def test_an_expression_that_cannot_be_read_is_answered_with_what_is_wrong(
    more: dict[str, str], outcome: str, said: str
) -> None:
    answer = long("record", **more)
    assert answer["outcome"] == outcome
    assert said in answer["message"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"pattern": "(a+)+$"}, id="a pattern that backtracks for ever"),
        pytest.param({"path": "|".join(["[@,@]"] * 60)}, id="a path that doubles its result sixty times"),
    ],
)
def test_an_expression_without_end_is_given_up(more: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "CPU_SECONDS", 1)
    assert long("flat", **more)["outcome"] == "too_costly"


def test_pattern_and_path_need_one_key() -> None:
    assert asked("gazet/*", pattern="x")["outcome"] == "usage"


class Login(BaseModel):
    user: str
    password: SecretStr


def test_instances_are_shown_by_class_and_fields_and_secrets_masked() -> None:
    state = {"login": Login(user="ann", password=SecretStr("hunter2")), "tags": {"b", "a"}}
    answer = asked("login", state=state, history=None, allowed=["login"])
    assert answer["value"]["$type"].endswith(".Login")
    assert answer["value"]["$value"]["user"] == "ann"
    assert "hunter2" not in json.dumps(answer)
    assert asked("login", state=state, history=None, allowed=["login"], path="user")["value"] == "ann"


def test_a_value_that_cannot_be_written_out_has_an_outcome_of_its_own() -> None:
    answer = asked("job", state={"job": lambda: None}, history=None, allowed=["job"])
    assert answer["outcome"] == "undecodable"


def test_a_value_that_the_store_cannot_give_keeps_its_kind_of_absence() -> None:
    history = Kept({1: {"plan": {"$absent": "encrypted", "reason": "no key is given"}}}, 3)
    answer = asked("plan", turn=1, history=history)
    assert picked(answer, "outcome", "message", "value") == ("encrypted", "no key is given", None)
    [row] = asked("*", turn=1, history=history)["keys"]
    assert picked(row, "key", "type") == ("plan", "encrypted")


def test_a_value_nested_without_end_is_answered() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert asked("loop", state={"loop": loop}, history=None, allowed=["loop"])["outcome"] == "value"


def test_what_a_terminal_would_act_on_is_escaped() -> None:
    tool = make_inspect_state(["k"])
    text = asyncio.run(tool.ainvoke({"key": "k", "state": {"k": "\x1b[2J\u202e\ud800"}}))
    assert json.loads(text)["value"] == "\x1b[2J\u202e\ud800"
    assert text.isascii()


def test_a_turn_whose_value_cannot_be_read_is_not_said_to_have_written_it() -> None:
    hidden = {"tool_state": {"$absent": "encrypted"}}
    bare = {"value": SEVERN}
    state = conversation(3, tool_state={BBOX: bare})
    answer = asked(BBOX, state=state, history=Kept({1: hidden, 2: hidden, 3: {BBOX: bare}}, 3))
    assert picked(answer, "value", "written_in_turn", "written_in_turns") == (SEVERN, None, None)


def test_an_entry_of_a_channel_that_cannot_be_read_is_not_said_to_have_been_absent() -> None:
    past = Kept({1: {"tool_state": {"$absent": "encrypted"}}, 2: {BBOX: SECOND}}, 2)
    assert asked(BBOX, turn=1, history=past)["outcome"] == "encrypted"


# The tool.


def test_a_synchronous_call_says_what_to_do_instead() -> None:
    with pytest.raises(NotImplementedError, match="run the graph with ainvoke or astream"):
        make_inspect_state([BBOX]).invoke({"key": BBOX, "state": NOW})


@pytest.mark.parametrize(
    ("allowed", "history", "said"),
    [
        ("gazet/*", None, "allowed_keys is a list of names and globs"),
        (["plan", None], None, "allowed_keys is a list of names and globs"),
        (["*"], object(), "history has no method snapshots"),
        (["*"], Kept, "history has no method snapshots"),
    ],
)
def test_what_the_tool_is_made_of_is_checked_at_once(allowed: Any, history: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        make_inspect_state(allowed, history)


def test_without_langgraph_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.prebuilt", None)
    with pytest.raises(
        ImportError, match=r"make_inspect_state needs LangGraph: pip install 'turnstate\[langgraph\]'"
    ):
        make_inspect_state(["*"])
