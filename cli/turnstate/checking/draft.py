"""A file of expectations drafted from a recorded thread: what it holds now, as far as that is short."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from turnstate.checking.writing import Unwritable, toml_text, writable
from turnstate.history.branches import branch_report
from turnstate.history.gaps import gap_report
from turnstate.history.jsonform import jsonable, room_for_depth
from turnstate.history.places import Place, turn_place
from turnstate.history.reading import Reading, read_all
from turnstate.history.summary import type_of
from turnstate.history.thread import History

_SHORT = 200  # characters of a value in TOML; of a longer one only the type is expected


def draft(history: History, store: str | None = None) -> str:
    """Expectations about a thread, its turns, and every key in the turns that wrote it. All of them hold.

    Args:
        history: The thread along the head's line.
        store: The address to name in the file; none when None.
    """
    lines = [
        f"# Drafted from thread {toml_text(history.thread)} as it was recorded. Leave out what may change."
    ]
    if store is not None:
        lines.append(f"store = {toml_text(store)}")
    for table in (_of_thread(history), *_of_turns(history), *_of_keys(history)):
        lines += ["", "[[expect]]"]
        lines += [f"{name} = {toml_text(value)}" for name, value in table.items()]
    return "\n".join(lines) + "\n"


def _where(history: History) -> dict[str, Any]:
    where: dict[str, Any] = {"thread": history.thread}
    if history.ns:
        where["ns"] = history.ns
    if history.messages != "messages":
        where["messages"] = history.messages
    return where


def _of_thread(history: History) -> dict[str, Any]:
    branches = branch_report(history).rows
    return _where(history) | {
        "turns": history.turns.total,
        "retained": list(history.turns.retained),
        "gaps": len(gap_report(history).losses),
        "forks": len(branches) - 1,
    }


def _of_turns(history: History) -> Iterator[dict[str, Any]]:
    for turn in history.turns.turns[1:]:
        known: dict[str, Any] = {}
        if turn.question is not None and _is_short(turn.question):
            known["question"] = turn.question
        if turn.status is not None:
            known["status"] = turn.status
        if known:
            yield _where(history) | {"turn": turn.number} | known


def _of_keys(history: History) -> Iterator[dict[str, Any]]:
    for turn in history.turns.turns[1:]:
        place = turn_place(history, turn.number)
        if isinstance(place, Place) and turn.number == max(turn.asked_with, default=turn.number):
            for reading in read_all(history, "*", place):
                if turn.number in reading.turns_written and reading.outcome == "value":
                    about = {"key": reading.key, "turn": turn.number}
                    yield _where(history) | about | _of_reading(reading, turn.number)


def _of_reading(reading: Reading, turn: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    value = _short_value(reading.value)
    found |= {"type": type_of(reading.value)} if value is None else {"equals": value}
    if reading.written is not None and reading.written.node is not None and turn in reading.written.turns:
        found["written_by"] = reading.written.node
    if turn == reading.turns_written[-1]:
        found["written_in"] = list(reading.turns_written)
    return found


def _short_value(value: Any) -> Any:
    try:
        with room_for_depth():
            form = jsonable(value)
            if sum(1 for _ in islice(_leaves(form), _SHORT + 1)) > _SHORT:
                return None
            plain = writable(form)
            return plain if len(toml_text(plain)) <= _SHORT else None
    except Unwritable:
        return None


def _leaves(form: Any) -> Iterator[Any]:
    """What a form is made of, one by one: each takes a character at least."""
    if isinstance(form, str):
        yield from form
    elif isinstance(form, list):
        for item in form:
            yield from _leaves(item)
    elif isinstance(form, dict):
        for name, item in form.items():
            yield name
            yield from _leaves(item)
    else:
        yield form


def _is_short(text: str) -> bool:
    return _short_value(text) is not None
