"""Whoever asks gets the same: the outcome, the value and the checkpoint of every fixture's turns and keys.

Each way to ask is one function in ``CALLERS``, which opens a recorded store for a while and gives what answers for a
thread, a key and a turn. Another way is held against these by one more line there.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any
from urllib.parse import quote

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client

import turnstate
from http_client import client
from recorded import Recording, scenarios
from turnstate.commands import app, session
from turnstate.history.thread import History
from turnstate.serving.allowed import Allowed
from turnstate.serving.answers import STATUSES, Line, Source
from turnstate.serving.caps import Caps
from turnstate.serving.desk import Desk
from turnstate.serving.mcp import server
from turnstate_backends.stores import open_store

Answer = Mapping[str, Any]
"""``outcome``, ``checkpoint``, and ``value`` where there is one, as JSON has them; ``refused`` where a name means more
than one thing."""
Ask = Callable[[str, str, int], Answer]


@contextmanager
def library(path: str) -> Iterator[Ask]:
    """The functions of ``turnstate``."""
    with turnstate.open_store(path) as store:

        def ask(thread: str, key: str, turn: int) -> Answer:
            try:
                found = turnstate.read(store, thread, key, turn)
            except turnstate.StoreError as error:
                return {"refused": error.what}
            value = {"value": found.value} if found.outcome == "value" else {}
            return {"outcome": found.outcome, "checkpoint": found.checkpoint, **value}

        yield ask


@contextmanager
def command_line(path: str) -> Iterator[Ask]:
    """``turnstate show --json``, in this process; the verb is built once, and each thread opened once."""
    with open_store(path) as store, pytest.MonkeyPatch.context() as patch:

        @cache
        def history(thread: str) -> History:
            return session.history_of(store, thread, ns="", branch=None, messages="messages", turns_by=None)

        @contextmanager
        def opened_before(ctx: Any, out: Any, kind: str, **fields: object) -> Iterator[History]:
            with session.answering(out, kind, ctx.params["thread"], "", **fields):
                yield history(ctx.params["thread"])

        verbs = app._Commands()
        patch.setattr(app, "_Commands", lambda: verbs)
        patch.setattr(session, "opened_thread", opened_before)

        def ask(thread: str, key: str, turn: int) -> Answer:
            out, err = io.StringIO(), io.StringIO()
            with pytest.MonkeyPatch.context() as streams:
                streams.setattr(sys, "stdout", out)
                streams.setattr(sys, "stderr", err)
                app.main(["show", f"--turn={turn}", "--json", "--store", path, "--", thread, key])
            if not out.getvalue():
                return {"refused": err.getvalue().splitlines()[0].removeprefix("turnstate: ")}
            document = json.loads(out.getvalue())
            value = {"value": document["value"]} if "value" in document else {}
            return {"outcome": document["outcome"], "checkpoint": document.get("checkpoint"), **value}

        yield ask


@contextmanager
def served_once(path: str) -> Iterator[None]:
    """What a server reads is opened once, and each thread too."""
    with open_store(path) as store, pytest.MonkeyPatch.context() as patch:

        @cache
        def history(_source: Source, _store: object, line: Line) -> History:
            return session.history_of(
                store, line.thread, ns="", branch=None, messages="messages", turns_by=None
            )

        patch.setattr(Source, "opened", lambda _source: nullcontext(store))
        patch.setattr(Source, "history", history)
        yield


@contextmanager
def http(path: str) -> Iterator[Ask]:
    """``turnstate serve``, in this process; the store is opened once."""
    with served_once(path), client(path) as server:

        def ask(thread: str, key: str, turn: int) -> Answer:
            answer = server.get(f"/threads/{quote(thread, safe='')}/state/{quote(key, safe='')}?turn={turn}")
            found = answer.json()
            if "outcome" not in found:
                return {"refused": found["message"].partition(":")[0]}
            assert answer.status_code == STATUSES[found["outcome"]]
            value = {"value": found["value"]} if "value" in found else {}
            return {"outcome": found["outcome"], "checkpoint": found.get("checkpoint"), **value}

        yield ask


@contextmanager
def model(path: str) -> Iterator[Ask]:
    """The tool ``show`` of ``turnstate mcp``, through the SDK's client; the store is opened once."""
    desk = Desk(path, allowed=Allowed(), caps=Caps(100, 1 << 30), report=lambda *_: None)
    with (
        served_once(path),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server(desk))) as caller,
    ):

        def ask(thread: str, key: str, turn: int) -> Answer:
            result = portal.call(caller.call_tool, "show", {"thread": thread, "key": key, "turn": turn})
            document = json.loads(result.content[0].text)
            if result.is_error:
                return {"refused": document["message"].partition(": ")[0]}
            value = {"value": document["value"]} if "value" in document else {}
            return {"outcome": document["outcome"], "checkpoint": document.get("checkpoint"), **value}

        yield ask


CALLERS: Mapping[str, Callable[[str], AbstractContextManager[Ask]]] = {
    "library": library,
    "command line": command_line,
    "model": model,
    "http": http,
}


def places(path: str) -> Iterator[tuple[str, str, int]]:
    """Every thread, key and turn of a store: from the state before the first question to a turn that never was; and
    a key that no thread has."""
    with turnstate.open_store(path) as store:
        for thread in turnstate.threads(store):
            total = turnstate.turns(store, thread.thread).total
            numbers = range(total + 2)
            keys = {key.key for n in numbers for key in turnstate.keys(store, thread.thread, n).keys}
            yield from ((thread.thread, key, n) for key in [*sorted(keys), "no-such-key"] for n in numbers)


@pytest.mark.parametrize("recorded", scenarios(), ids=lambda recorded: recorded.name)
def test_every_way_to_ask_gives_the_same_value_outcome_and_checkpoint(recorded: Recording) -> None:
    path = str(recorded.path)
    asked = [*places(path), ("no-such-thread", "plan", 1)]
    answers: dict[str, list[Answer]] = {}
    for name, caller in CALLERS.items():
        with caller(path) as ask:
            answers[name] = [ask(*place) for place in asked]
    first = answers["library"]
    assert {answer.get("outcome") for answer in first} >= {"no_such_thread", "no_such_key"}
    for name, given in answers.items():
        differing = [
            (place, ours, theirs)
            for place, ours, theirs in zip(asked, first, given, strict=True)
            if json.dumps(ours, sort_keys=True) != json.dumps(theirs, sort_keys=True)
        ]
        assert differing == [], name
