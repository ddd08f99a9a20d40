"""A channel in which tools publish what they found: its reducer, its entries, and what a displaced value is told by.

An entry is ``{"value", "tool", "seq", "turn", "turns_written"}``: what was found, by which tool, the how-manieth write
of the channel that was, in which turn (counted from 1), and how many turns have written the key so far. Pure functions;
nothing is imported of LangGraph.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from turnstate.agent.live import fields_of, plain
from turnstate.history.jsonform import jsonable
from turnstate.history.keys import Key, display_names, entry_name, shown_value
from turnstate.history.messages import of_plain
from turnstate.history.phrases import counted
from turnstate.history.summary import type_of
from turnstate.history.wording import equal_values
from turnstate.render.text import json_safe, one_line
from turnstate.render.values import json_text
from turnstate_backends.values import Tagged

CHANNEL = "tool_state"
MESSAGES = "messages"


def merge_tool_state(
    left: Mapping[str, Any] | None, right: Mapping[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """The reducer: ``tool_state: Annotated[dict, merge_tool_state]``. Each key keeps its last write.

    Of two writes of a key the one of the later turn is the last, within a turn the one with the greater ``seq``, and
    of equal ones the one that arrives later; so a branch that hands back a copy of what it was given takes nothing
    back. A write without ``seq`` is given the next one. ``turns_written`` is counted here, by turns and not by writes.
    A write without ``turn`` adds none to the count, which is then the least that it can be, and its entry has no
    ``turn``, but ``after_turn``: the turn of the last numbered write before it.

    Args:
        left: The channel so far. It is not changed.
        right: Key → entry; what is no mapping with a ``value`` is taken for a value. It is not changed.

    Raises:
        TypeError: One of the two is no mapping.
    """
    for side in (left, right):
        if side is not None and not isinstance(side, Mapping):
            raise TypeError(f"tool_state takes a mapping of keys to entries, not {type(side).__qualname__}")
    merged = {key: _entry(item) for key, item in (left or {}).items()}
    last = _last_seq(merged.values())
    for key, item in (right or {}).items():
        entry = _entry(item)
        seq = _number(entry.get("seq"))
        entry["seq"] = last + 1 if seq is None else seq
        last = max(last, entry["seq"])
        merged[key] = _merged(merged.get(key), entry)
    return merged


def _merged(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    count = _turns_written(old, new)
    if old is None:
        return {**new, "turns_written": count}
    before, turn = _known_turn(old), _number(new.get("turn"))
    if turn is None:
        after = {} if before is None else {"after_turn": before}
        return {**_without_turn(new), **after, "turns_written": count}
    numbered = _number(old.get("turn")) is not None
    within = numbered and turn == before and new["seq"] < (_number(old.get("seq")) or 0)
    is_older = within or (before is not None and turn < before)
    return {**(old if is_older else new), "turns_written": count}


def _turns_written(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> int:
    """How many turns have written a key, at least: a copy of an earlier write was counted when that was written."""
    if old is None:
        return _count(new)
    before, turn = _known_turn(old), _number(new.get("turn"))
    if before is None or turn is None:
        return max(_count(old), _count(new))
    return max(_count(old) + (turn > before), _count(new) + (turn < before))


def tool_state_entry(
    key: str,
    value: Any,
    *,
    tool: str,
    state: Any,
    turn: int | None = None,
    channel: str = CHANNEL,
    messages: str = MESSAGES,
) -> dict[str, Any]:
    """The entry that a tool writes: ``{"tool_state": {key: tool_state_entry(key, value, tool=…, state=state)}}``.

    Args:
        key: The key; an entry of it that is there already counts for ``turns_written``.
        value: What the tool found.
        tool: Who found it, such as ``gazet/get_aoi``.
        state: The graph's state as the tool was given it (``InjectedState``).
        turn: The turn, where the caller knows it (``await history.present_turn(config)``); else the human messages
            are counted, which is wrong where nodes add some, or some were taken out. An entry has no turn where that
            shows.
        channel: The channel of ``state`` that has the entries.
        messages: The channel of ``state`` that has the messages.
    """
    entries = _entries(state, channel)
    number = counted_turn(state, channel=channel, messages=messages) if turn is None else turn
    entry = {"value": value, "tool": tool, "seq": _last_seq(entries.values()) + 1}
    if number is not None:
        entry["turn"] = number
    return {**entry, "turns_written": _turns_written(entries.get(key), entry)}


def breadcrumb(state: Any, key: str, entry: Mapping[str, Any], *, channel: str = CHANNEL) -> str | None:
    """What a tool's result should say of the value that its entry displaces; None where it displaces none.

    Args:
        state: The graph's state before the entry is written.
        key: The key.
        entry: The new entry, as :func:`tool_state_entry` makes it.
        channel: The channel of ``state`` that has the entries.
    """
    old = _entries(state, channel).get(key)
    if old is None:
        return None
    name = one_line(key)
    before, turn = _number(old.get("turn")), _number(entry.get("turn"))
    if equal_values(plain(old["value"]), plain(entry["value"])):
        whose = "the value that was there" if before is None else f"turn {before}'s value"
        return f"{name} was written again and did not change: it equals {whose}"
    if before is None:
        return (
            f"{name} was rewritten: the value that was there is no longer in the present state; "
            "which turn had written it is not recorded"
        )
    if before == turn:
        return (
            f"{name} was rewritten within turn {turn}: the value that turn {turn} had written before is no longer "
            "in the present state, and no turn ends with it"
        )
    return (
        f"{name} was rewritten: turn {before}'s value is no longer in the present state; "
        f"read it with {call(key, before)}"
    )


def call(key: str, turn: int | None = None) -> str:
    """The call that reads a key, as a model is told it."""
    shown = json_safe(json.dumps(key, ensure_ascii=False))
    return f"inspect_state(key={shown})" if turn is None else f"inspect_state(key={shown}, turn={turn})"


def state_metadata(state: Any) -> dict[str, dict[str, Any]]:
    """What is there to read, without the values: key → ``type``, ``bytes``, ``turn``, ``turnsWritten``.

    ``bytes`` are those of the value as JSON, what reading it whole costs. ``turn`` is left out where the entry does not
    tell which turn wrote it, ``turnsWritten`` where no more than one did.
    """
    found = held_by(state)
    names = display_names(found)
    return {names[key]: _metadata(item) for key, item in found.items()}


def _metadata(item: Any) -> dict[str, Any]:
    value = plain(shown_value(item)[0])
    told: dict[str, Any] = {"type": type_of(value), "bytes": len(json_text(jsonable(value)).encode())}
    if (turn := turn_of(item)) is not None:
        told["turn"] = turn
    if (turns := turns_written_of(item) or 1) > 1:
        told["turnsWritten"] = turns
    return told


def held_by(state: Any) -> dict[Key, Any]:
    """What a state holds by its keys, in its order: a channel, or each entry of one that is a mapping."""
    found: dict[Key, Any] = {}
    for channel, value in fields_of(state).items():
        if isinstance(value, Mapping) and value:
            found |= {Key(channel, entry_name(name)): item for name, item in value.items()}
        else:
            found[Key(channel)] = value
    return found


def turn_of(item: Any) -> int | None:
    """The turn that an entry says it was written in."""
    return _number(item.get("turn")) if shown_value(item)[1] else None


def turns_written_of(item: Any) -> int | None:
    """How many turns an entry says have written its key; None where it says nothing."""
    return _number(item.get("turns_written")) if shown_value(item)[1] else None


def counted_turn(state: Any, *, channel: str = CHANNEL, messages: str = MESSAGES) -> int | None:
    """The number of the turn that is going on, as far as the state's messages tell: how many of them are human.

    None where that shows to be no number of turns, as in the first retained row of a store
    (:mod:`turnstate.history.questions`): a summary, or a first message that is not human, stands for messages that
    were taken out, and so do entries that name later turns; a name on some of the human messages alone is a node's.
    Where it does not show, the number is wrong: a checkpoint knows (:meth:`turnstate.CheckpointHistory.present_turn`).
    """
    told = [of_plain(_shallow(message)) for message in fields_of(state).get(messages) or ()]
    spoken = [m for m in told if m.role != "system"]
    asked = [m for m in spoken if m.role == "human" and not m.bare]
    trimmed = any(m.summary for m in asked) or (bool(spoken) and spoken[0].role != "human")
    mixed = len({m.name is None for m in asked}) > 1
    count = len(asked)
    return count if count and not trimmed and not mixed and count >= latest_turn(state, channel) else None


def latest_turn(state: Any, channel: str = CHANNEL) -> int:
    """The greatest turn that an entry names; 0 where none does."""
    return max((_known_turn(entry) or 0 for entry in _entries(state, channel).values()), default=0)


def writes_in_words(turns: int) -> str:
    """``written in 2 turns``."""
    return f"written in {counted(turns, 'turn')}"


def _shallow(message: Any) -> Any:
    """A message as far as counting needs it: an object's few fields, whatever else it holds."""
    if isinstance(message, str | Mapping | list):
        return message
    if isinstance(message, tuple):
        return list(message)
    kind = type(message)
    names = ("type", "content", "id", "name", "additional_kwargs")
    return Tagged(f"{kind.__module__}.{kind.__qualname__}", {n: getattr(message, n, None) for n in names})


def _entries(state: Any, channel: str) -> dict[Any, dict[str, Any]]:
    found = fields_of(state).get(channel)
    return {key: _entry(item) for key, item in found.items()} if isinstance(found, Mapping) else {}


def _entry(item: Any) -> dict[str, Any]:
    """A copy of an entry; of a bare value, an entry with that."""
    return dict(item) if shown_value(item)[1] else {"value": item}


def _without_turn(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in entry.items() if name not in ("turn", "after_turn")}


def _known_turn(entry: Mapping[str, Any]) -> int | None:
    turn = _number(entry.get("turn"))
    return _number(entry.get("after_turn")) if turn is None else turn


def _last_seq(entries: Iterable[Mapping[str, Any]]) -> int:
    return max((_number(entry.get("seq")) or 0 for entry in entries), default=0)


def _count(entry: Mapping[str, Any]) -> int:
    return max(1, _number(entry.get("turns_written")) or 1)


def _number(value: Any) -> int | None:
    """A turn, a seq or a count; None for what cannot be one."""
    return value if type(value) is int and value >= 0 else None
