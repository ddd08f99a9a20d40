"""The functions of ``turnstate``: what each gives of recorded stores and of savers that a program holds."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

import turnstate
from cli_run import store as fixture
from turnstate import aio

BBOX = "gazet/get_aoi/bbox"
FIRST = "1f1ecbdf-630e-6de2-8002-d05c3c175d23"  # as turn 1 of the demo ended
LAST = "1f1ecbdf-63c7-68fd-800a-cc8c31a88d5c"
FUNCTIONS = ("diff", "gaps", "keys", "log", "read", "threads", "turns")
RECORDS = sorted(name for name in turnstate.__all__ if dataclasses.is_dataclass(getattr(turnstate, name)))


@pytest.fixture
def demo() -> Iterator[turnstate.Store]:
    with turnstate.open_store(fixture("demo")) as opened:
        yield opened


@pytest.fixture
def pruned() -> Iterator[turnstate.Store]:
    with turnstate.open_store(fixture("demo-pruned")) as opened:
        yield opened


# What is there.


def test_threads_are_listed_with_when_they_were_active(demo: turnstate.Store) -> None:
    assert turnstate.threads(demo) == (
        turnstate.Thread(
            thread="demo",
            checkpoints=12,
            namespaces=("",),
            first=datetime(2026, 11, 30, 13, 0, 4, 827082, UTC),
            last=datetime(2026, 11, 30, 13, 0, 4, 932838, UTC),
            head=LAST,
        ),
    )
    assert turnstate.threads(demo, "other*") == ()


def test_turns_have_their_question_status_and_keys(demo: turnstate.Store) -> None:
    found = turnstate.turns(demo, "demo")
    assert (found.outcome, found.total, found.total_is, found.turns_by) == ("value", 3, "exact", "questions")
    assert found.retained == (1, 2, 3)
    assert [(turn.turn, turn.question, turn.status, turn.keys_written) for turn in found.turns] == [
        (1, "Find the area of Copenhagen", "complete", ("messages", BBOX, "plan")),
        (2, "Describe it", "complete", ("messages",)),
        (3, "Now find Aarhus and compare", "complete", ("messages", BBOX, "plan")),
    ]


def test_keys_say_how_large_they_are_and_which_turns_wrote_them(demo: turnstate.Store) -> None:
    found = turnstate.keys(demo, "demo", 1)
    assert (found.outcome, found.turn, found.checkpoint) == ("value", 1, FIRST)
    assert [(key.key, key.channel, key.type, key.bytes, key.turns_written) for key in found.keys] == [
        ("messages", "messages", "list", 390, (1, 2, 3)),
        ("plan", "plan", "str", 17, (1, 3)),
        (BBOX, "tool_state", "list", 94, (1, 3)),
    ]


def test_a_reading_has_the_value_the_whole_entry_and_who_wrote_it_when(demo: turnstate.Store) -> None:
    found = turnstate.read(demo, "demo", BBOX, 2)
    assert (found.outcome, found.message) == ("value", "")
    assert found.value == [12.4, 55.5, 12.7, 55.8]
    assert found.entry == {
        "value": [12.4, 55.5, 12.7, 55.8],
        "tool": "gazet/get_aoi",
        "seq": 1,
        "note": "bounding box, WGS 84",
    }
    assert (found.channel, found.turn, found.turns_written) == ("tool_state", 2, (1, 3))
    assert (found.total_turns, found.retained_turns) == (3, (1, 2, 3))
    assert found.written is not None
    assert (found.written.turn, found.written.node) == (1, "tool")
    assert found.written.time == datetime(2026, 11, 30, 13, 0, 4, 849821, UTC)


def test_a_reading_can_be_of_a_start_a_checkpoint_or_a_time(demo: turnstate.Store) -> None:
    def value(**place: Any) -> Any:
        return turnstate.read(demo, "demo", "plan", **place).value

    assert value() == "look up the area, then compare"
    assert value(turn=3, at_start=True) == "look up the area"
    assert value(checkpoint=FIRST[:14]) == "look up the area"
    assert value(at=datetime(2026, 11, 30, 13, 0, 4, 900000, UTC)) == "look up the area"


def test_a_log_has_each_version_and_the_gaps_between_them(
    demo: turnstate.Store, pruned: turnstate.Store
) -> None:
    whole = turnstate.log(demo, "demo", "plan")
    assert (whole.key, whole.channel, whole.turns_written, whole.gaps) == ("plan", "plan", (1, 3), ())
    assert [(each.turn, each.nodes, each.change, each.value) for each in whole.versions] == [
        (1, ("tool",), "added", "look up the area"),
        (3, ("tool",), "changed", "look up the area, then compare"),
    ]
    assert [each.turn for each in turnstate.log(demo, "demo", "plan", turns=(2, None)).versions] == [3]
    every = turnstate.log(demo, "demo", limit=2, reverse=True)
    assert [(each.key, each.turn, each.value) for each in every.versions] == [
        ("messages", 3, None),
        (BBOX, 3, None),
    ]

    left = turnstate.log(pruned, "demo", "plan")
    assert [(gap.kind, gap.turns, gap.steps_missing) for gap in left.gaps] == [
        ("pruned", (1,), 4),
        ("thinned", (2,), 4),
    ]
    assert left.earlier_unknown
    assert [(each.turn, each.lost, each.change) for each in left.versions] == [
        (None, True, None),
        (3, False, "changed"),
    ]


def test_a_diff_goes_from_the_end_of_one_turn_to_the_end_of_another(demo: turnstate.Store) -> None:
    found = turnstate.diff(demo, "demo", BBOX, turns=(1, 3))
    assert (found.start, found.end) == (turnstate.End(1, FIRST, False), turnstate.End(3, LAST, False))
    (change,) = found.changes
    assert (change.key, change.change) == (BBOX, "changed")
    assert (change.old, change.new) == ([12.4, 55.5, 12.7, 55.8], [9.9, 56.1, 10.3, 56.2])
    assert change.patch[0] == {"op": "replace", "path": "/0", "value": 9.9}
    assert change.entry_patch == ({"op": "replace", "path": "/seq", "value": 2},)
    assert [each.key for each in turnstate.diff(demo, "demo", turns=2).changes] == ["messages"]
    assert {each.change for each in turnstate.diff(demo, "demo", turns=1).changes} == {"added"}


def test_gaps_say_what_is_gone_and_what_shows_it(pruned: turnstate.Store) -> None:
    found = turnstate.gaps(pruned, "demo")
    assert (found.total, found.total_is, found.retained, found.orphaned_writes) == (3, "exact", (2, 3), 11)
    assert [(gap.kind, gap.turns, gap.steps_missing, gap.writes) for gap in found.gaps] == [
        ("pruned", (1,), 4, 4),
        ("thinned", (2,), 4, 3),
    ]
    assert found.gaps[0].evidence[1] == "the first row kept is step 7"


# What is not there.


def test_a_value_a_turn_that_never_was_and_a_pruned_one_are_three_outcomes(pruned: turnstate.Store) -> None:
    readings = [turnstate.read(pruned, "demo", "plan", turn) for turn in (2, 7, 1)]
    assert [each.outcome for each in readings] == ["value", "no_such_turn", "turn_no_longer_retained"]
    assert readings[0].borrowed  # turn 2's own rows are gone: it is read in the row that took the next input
    assert [each.total_turns for each in readings] == [3, 3, 3]
    assert [each.retained_turns for each in readings] == [(2, 3), (2, 3), (2, 3)]
    assert readings[2].message.startswith("turn 1 was pruned; turns that can be read: 2, 3")
    assert turnstate.keys(pruned, "demo", 1).outcome == "turn_no_longer_retained"
    assert turnstate.diff(pruned, "demo", turns=(1, 3)).outcome == "turn_no_longer_retained"
    assert turnstate.log(pruned, "demo", "plan", turns=(1, 1)).outcome == "turn_no_longer_retained"
    assert turnstate.log(pruned, "demo", "plan", turns=(7, 7)).outcome == "no_such_turn"


@pytest.mark.parametrize("name", ["turns", "keys", "log", "diff", "gaps"])
def test_a_thread_that_is_not_there_is_an_outcome_of_every_function(name: str, demo: turnstate.Store) -> None:
    found = getattr(turnstate, name)(demo, "dmo")
    assert (found.outcome, found.message) == (
        "no_such_thread",
        "the store has no thread 'dmo'; nearest: demo",
    )


def test_a_key_that_no_thread_has_names_the_nearest(demo: turnstate.Store) -> None:
    found = turnstate.read(demo, "demo", "plam")
    assert (found.outcome, found.nearest, found.turn) == ("no_such_key", ("plan",), 3)
    assert turnstate.read(demo, "demo", "plan", 0).outcome == "not_yet_written"
    assert turnstate.log(demo, "demo", "plam").outcome == "no_such_key"
    assert turnstate.diff(demo, "demo", "plam").outcome == "no_such_key"


def test_a_stored_null_is_a_value_and_what_cannot_be_read_is_none() -> None:
    with turnstate.open_store(fixture("encrypted")) as store:
        sealed = turnstate.read(store, "encrypted", "plan", 2)
        assert (sealed.outcome, sealed.value) == ("encrypted", None)
        assert turnstate.keys(store, "encrypted", 2).outcome == "encrypted"


def test_what_a_caller_can_mend_is_told_in_three_lines(demo: turnstate.Store, tmp_path: Path) -> None:
    with pytest.raises(turnstate.StoreError) as caught:
        turnstate.open_store(str(tmp_path / "nowhere.db"))
    assert (caught.value.why, caught.value.hint) == ("there is no such file", "Check the path.")
    with pytest.raises(turnstate.StoreError) as caught:
        turnstate.read(demo, "demo", "plan", checkpoint="1f1ecbdf")
    assert caught.value.what == "'1f1ecbdf' is the beginning of 12 checkpoints"
    with pytest.raises(turnstate.StoreError, match="has no channel 'chat'"):
        turnstate.turns(demo, "demo", messages="chat")
    with pytest.raises(turnstate.StoreError) as caught:
        turnstate.log(demo, "demo", turns=(3, 1))
    assert caught.value.why == "the first turn comes after the last"
    for place in ({"turn": 1, "checkpoint": FIRST}, {"checkpoint": FIRST, "at_start": True}):
        with pytest.raises(ValueError):
            turnstate.read(demo, "demo", "plan", **place)  # type: ignore[arg-type]


def test_a_store_that_was_left_is_closed_and_a_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    path.write_bytes(Path(fixture("demo")).read_bytes())
    with turnstate.open_store(str(path)) as store:
        turnstate.turns(store, "demo")
    store.close()
    with pytest.raises(turnstate.StoreError, match="is closed"):
        turnstate.turns(store, "demo")
    assert [each.name for each in tmp_path.iterdir()] == ["copy.db"]
    assert path.read_bytes() == Path(fixture("demo")).read_bytes()


# Savers that a program holds.


def conversation(saver: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [AIMessage(f"so {len(state['messages'])}")]})
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


def asked() -> Any:
    """A question of its own: a graph gives a message an id, and one with a known id is no new question."""
    return {"messages": [HumanMessage("why?")]}


CONFIG: Any = {"configurable": {"thread_id": "t"}}


def test_a_saver_is_read_as_it_is_and_stays_open() -> None:
    saver = InMemorySaver()
    graph = conversation(saver)
    graph.invoke(asked(), CONFIG)
    with turnstate.open_store(saver) as store:
        assert store.name == "InMemorySaver"
        assert [each.thread for each in turnstate.threads(store)] == ["t"]
        assert turnstate.turns(store, "t").total == 1
    graph.invoke(asked(), CONFIG)
    with turnstate.open_store(saver) as store:
        found = turnstate.read(store, "t", "messages", 2)
    assert [each["$value"]["content"] for each in found.value] == ["why?", "so 1", "why?", "so 3"]


class Talking(InMemorySaver):
    """Prints what it does."""

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        print("listing")
        yield from super().list(config, **asked)


def test_a_programs_streams_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    saver = Talking()
    conversation(saver).invoke(asked(), CONFIG)
    with turnstate.open_store(saver) as store:
        turnstate.turns(store, "t")
    assert "listing" in capsys.readouterr().out


def test_a_programs_streams_are_left_alone_while_a_saver_is_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = "from langgraph.checkpoint.memory import InMemorySaver\nsaver = InMemorySaver()\n"
    (tmp_path / "a_talking_module.py").write_text(f"print('imported')\n{made}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "false")
    with turnstate.open_store("saver:a_talking_module:saver") as store:
        assert turnstate.threads(store) == ()
    assert "imported" in capsys.readouterr().out


class Growing(InMemorySaver):
    """Another thread writes a row while the first listings are under way."""

    broken = 2

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        for row in super().list(config, **asked):
            yield row
            if self.broken:
                self.broken -= 1
                raise RuntimeError("dictionary changed size during iteration")


def test_a_listing_that_another_threads_writing_breaks_off_is_begun_anew() -> None:
    saver = Growing()
    conversation(saver).invoke(asked(), CONFIG)
    with turnstate.open_store(saver) as store:
        assert turnstate.turns(store, "t").total == 1
    assert saver.broken == 0


def test_plain_functions_read_an_async_saver_while_its_loop_runs_in_another_thread(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
            await conversation(saver).ainvoke(asked(), CONFIG)

            def work() -> int:
                with turnstate.open_store(saver) as store:
                    return turnstate.turns(store, "t").total

            assert await asyncio.to_thread(work) == 1
            with turnstate.open_store(saver) as store, pytest.raises(turnstate.StoreError) as caught:
                turnstate.turns(store, "t")  # would wait for the loop that waits for it
            assert caught.value.hint == "Await the function of the same name in turnstate.aio."

    asyncio.run(story())


def test_an_async_savers_own_loop_is_used_where_it_stands_still_and_is_not_closed(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    manager = AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.db"))
    try:
        saver = loop.run_until_complete(manager.__aenter__())
        graph = conversation(saver)
        loop.run_until_complete(graph.ainvoke(asked(), CONFIG))
        with turnstate.open_store(saver) as store:
            assert turnstate.turns(store, "t").total == 1
        loop.run_until_complete(graph.ainvoke(asked(), CONFIG))
        with turnstate.open_store(saver) as store:
            assert turnstate.turns(store, "t").total == 2
    finally:
        loop.run_until_complete(manager.__aexit__(None, None, None))
        loop.close()


def test_what_is_no_saver_is_refused() -> None:
    with pytest.raises(turnstate.StoreError, match="dict is no checkpoint saver"):
        turnstate.open_store({})  # type: ignore[arg-type]


def test_a_store_may_be_a_path_object() -> None:
    with turnstate.open_store(Path(fixture("demo"))) as store:
        assert turnstate.turns(store, "demo").total == 3
    history = turnstate.CheckpointHistory(Path(fixture("demo")))
    assert asyncio.run(history.snapshot("demo", 1)).outcome == "value"


@pytest.mark.parametrize("other", [object(), None, {}])
def test_what_no_store_can_be_made_of_is_refused_at_once(other: Any) -> None:
    with pytest.raises(TypeError, match="store is a checkpoint saver or a store's URL, not "):
        turnstate.CheckpointHistory(other)


def test_a_function_that_is_given_a_path_says_that_it_must_be_opened() -> None:
    path: Any = fixture("demo")
    for call in (lambda: turnstate.threads(path), lambda: turnstate.read(path, "demo", "plan")):
        with pytest.raises(TypeError, match="store is what open_store gives, not str"):
            call()


# On an event loop.


@pytest.mark.parametrize("by_url", [True, False], ids=["URL", "saver"])
def test_each_function_can_be_awaited_and_gives_the_same(by_url: bool, tmp_path: Path) -> None:
    async def story() -> None:
        path = str(tmp_path / "a.db")
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            await conversation(saver).ainvoke(asked(), CONFIG)
            with turnstate.open_store(path) as plain:
                async with aio.open_store(path if by_url else saver) as store:
                    assert await aio.threads(store) == turnstate.threads(plain)
                    assert await aio.turns(store, "t") == turnstate.turns(plain, "t")
                    assert await aio.keys(store, "t", 1) == turnstate.keys(plain, "t", 1)
                    assert await aio.read(store, "t", "messages") == turnstate.read(plain, "t", "messages")
                    assert await aio.log(store, "t", "messages") == turnstate.log(plain, "t", "messages")
                    assert await aio.diff(store, "t") == turnstate.diff(plain, "t")
                    assert await aio.gaps(store, "t") == turnstate.gaps(plain, "t")
                    totals = await asyncio.gather(*(aio.turns(store, "t") for _ in range(5)))
                    assert [each.total for each in totals] == [1] * 5
                with pytest.raises(turnstate.StoreError, match="is closed"):
                    await aio.turns(store, "t")

    asyncio.run(story())


class Slow(InMemorySaver):
    """Waits within its listing until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    async def alist(self, config: Any, **asked: Any) -> Any:
        raise NotImplementedError
        yield

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        self.started.set()
        assert self.go_on.wait(30)
        yield from super().list(config, **asked)


def test_a_store_can_be_read_and_left_after_a_call_to_it_was_cancelled() -> None:
    saver = Slow()
    conversation(saver).invoke(asked(), CONFIG)

    async def story() -> None:
        async with aio.open_store(saver) as store:
            saver.go_on.clear()
            saver.started.clear()
            task = asyncio.create_task(aio.turns(store, "t"))
            await asyncio.to_thread(saver.started.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            saver.go_on.set()
            assert (await aio.turns(store, "t")).total == 1
            saver.go_on.clear()
            saver.started.clear()
            task = asyncio.create_task(aio.turns(store, "other"))
            await asyncio.to_thread(saver.started.wait, 30)
            task.cancel()
        saver.go_on.set()  # the block was left before

    asyncio.run(story())


# How it is offered.


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_there_to_be_awaited_by_the_same_name(name: str) -> None:
    plain, awaited = (getattr(module, name) for module in (turnstate, aio))
    assert (inspect.iscoroutinefunction(plain), inspect.iscoroutinefunction(awaited)) == (False, True)


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_frozen_and_says_what_each_field_is(name: str) -> None:
    record = getattr(turnstate, name)
    assert record.__dataclass_params__.frozen
    assert "__dict__" not in dir(record)
    assert record.__doc__
    told = inspect.cleandoc(record.__doc__)
    assert [field.name for field in dataclasses.fields(record) if f"\n    {field.name}: " not in told] == []


def test_every_name_is_there_and_loading_the_package_loads_none_of_them() -> None:
    assert [name for name in turnstate.__all__ if not hasattr(turnstate, name)] == []
    assert set(turnstate.__all__) <= set(dir(turnstate))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = turnstate.nothing  # type: ignore[attr-defined]
    code = "import sys, turnstate; print(sorted({'asyncio', 'dataclasses', 'typing', 'msgspec'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
