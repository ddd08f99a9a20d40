"""Random operations on channels kept as deltas, run by real graphs; every row is compared with LangGraph's reading."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.errors import EmptyInputError
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from delta_graphs import Runner, append, extend, merge, sqlite_saver, state_type, union
from recorded import as_noted
from test_deltas import assert_rows
from turnstate.history.accumulate import APPEND, EXTEND, MERGE, UNION
from turnstate.history.jsonform import jsonable
from turnstate.history.thread import History
from turnstate_backends.payload import decode
from turnstate_backends.stores import open_store
from turnstate_backends.values import Stored

IDS = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(max_size=3)
MESSAGES = st.one_of(
    st.builds(lambda text: HumanMessage(text), TEXTS),
    st.builds(lambda text, id: AIMessage(text, id=id), TEXTS, IDS),
    st.builds(lambda text, id: HumanMessage(text, id=id), TEXTS, IDS),
    st.builds(lambda id: RemoveMessage(id=id), IDS),
    st.just(RemoveMessage(id=REMOVE_ALL_MESSAGES)),
    st.builds(lambda text: ("user", text), TEXTS),
    st.builds(lambda text, id: {"role": "assistant", "content": text, "id": id}, TEXTS, IDS),
    TEXTS,
)
WRITES = st.one_of(
    st.lists(MESSAGES, max_size=3),
    st.builds(lambda text: AIMessage(text), TEXTS),
    st.builds(
        lambda texts: Overwrite([AIMessage(t, id=f"o{i}") for i, t in enumerate(texts)]),
        st.lists(TEXTS, max_size=3),
    ),
)
UPDATES = st.fixed_dictionaries(
    {},
    optional={
        "messages": WRITES,
        "trail": st.lists(st.integers(0, 3), max_size=2),
        "notes": st.integers(0, 3) | TEXTS,
        "facts": st.dictionaries(st.sampled_from(["x", "y"]), st.none() | st.integers(0, 3), max_size=2),
        "seen": st.sets(st.integers(0, 5), max_size=2),
    },
)
RUNS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["run", "run", "run", "update", "fork", "replay", "fork update"]),
        "brought": st.lists(st.builds(lambda t: HumanMessage(t), TEXTS), min_size=1, max_size=2),
        "steps": st.lists(UPDATES, min_size=1, max_size=3),
        "durability": st.sampled_from(["sync", "async", "exit"]),
        "back": st.integers(0, 20),
    }
)
RULES = {"trail": EXTEND, "notes": APPEND, "facts": MERGE, "seen": UNION}


def carry_out(run: Runner, runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for each in runs:
        rows = sorted(run.states("t"))
        earlier = rows[-1 - each["back"] % len(rows)] if rows else None
        brought = {"messages": each["brought"]}
        match each["kind"]:
            case "update":
                run.update("t", each["steps"][0])
            case "fork update" if earlier:
                run.update("t", each["steps"][0], checkpoint=earlier)
            case "replay" if earlier:
                with suppress(EmptyInputError):  # nothing was set off there
                    run.replay("t", earlier)
            case kind:
                at = earlier if kind == "fork" else None
                run.run("t", brought, *each["steps"], checkpoint=at, durability=each["durability"])
    return run.states("t")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(RUNS, min_size=1, max_size=5), st.sampled_from([1, 2, 3, 5, 100]))
def test_whatever_is_written_each_row_reads_as_langgraph_reads_it(
    runs: list[dict[str, Any]], frequency: int
) -> None:
    fields = {"trail": (list, extend), "notes": (list, append), "facts": (dict, merge), "seen": (set, union)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with sqlite_saver(path) as saver:
            truth = carry_out(Runner(saver, state_type(frequency, **fields)), runs)
        with open_store(str(path)) as store:
            named = History(store, "t", reducers=RULES)
            forked = any(each["kind"] in ("fork", "fork update", "replay") for each in runs)
            messages = {id: {"messages": state["messages"]} for id, state in truth.items()}
            assert_rows(store, messages, may_refuse=forked)
            unaided = History(store, "t")
            for id, state in truth.items():
                for history in (named, unaided):
                    for channel, found in history.values(id, list(RULES)).items():
                        if isinstance(found, Stored):
                            assert as_noted(jsonable(decode(found))) == state[channel], (id, channel)
                        else:
                            assert history is unaided or forked, found
                            assert found.kind in ("delta_unresolved", "empty")
