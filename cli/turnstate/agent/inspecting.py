"""What ``inspect_state`` answers: a key's value now or as a turn ended, as a document of bounded size.

Knows no LangChain: the state, the history and the thread are handed in.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from turnstate.agent.bounded import CPU_SECONDS, BadExpression, TooCostly
from turnstate.agent.contents import content_of
from turnstate.agent.live import plain
from turnstate.agent.past import NOTHING, HistoryFailed, Names, Past, from_past
from turnstate.agent.tool_state import (
    call,
    held_by,
    turn_of,
    turns_written_of,
    writes_in_words,
)
from turnstate.history import keys as key_names
from turnstate.history.keys import AmbiguousKey, Key
from turnstate.history.phrases import clip, counted
from turnstate.history.summary import summary_of, type_of
from turnstate.render.values import json_text
from turnstate_backends.values import Absent

MOST_CHARACTERS = 8_000
"""Of an answer."""
_MOST_KEYS = 60
_MOST_OF_A_GLOB = 500  # translating one takes time that grows with the square of its length
_MOST_NAMES = 12
_MOST_OF_A_NAME = 300
_MOST_OF_A_TEXT = 600

Document = dict[str, Any]


class Inspection:
    """One call of the tool.

    Args:
        state: The graph's state now.
        allowed: Names and globs of the keys that may be read.
        past: The thread's past; None where nothing tells it.
        no_past: Why there is none.
    """

    def __init__(self, state: Any, allowed: Sequence[str], past: Past | None, no_past: str = "") -> None:
        self.allowed = allowed
        self.past = past
        self.no_past = no_past
        self.items = {key: item for key, item in held_by(state).items() if not key.channel.startswith("__")}
        self.names = key_names.display_names(self.items)

    async def answer(self, name: str, pattern: str | None, path: str | None, turn: int | None) -> Document:
        """The answer for a key, or for the keys that a glob matches."""
        try:
            return await self._answer(name, pattern, path, turn)
        except HistoryFailed as error:
            words = f"The earlier turns could not be read ({error}). Without turn you get the present value."
            return {"outcome": "history_failed", "key": name, "message": words}

    async def _answer(self, name: str, pattern: str | None, path: str | None, turn: int | None) -> Document:
        try:
            key = key_names.find(name, self.items)
        except AmbiguousKey as error:
            full_names = [full for full in error.names if self._may(self._key_named(full), full)]
            if not full_names:
                return self._refused(name)
            words = f"several channels have an entry {clip(name, 60)}: ask for one of them"
            return {"outcome": "ambiguous_key", "key": name, "keys": full_names, "message": words}
        is_mapping = key is not None and key not in self.items  # which is read by its entries
        several = is_mapping or (key is None and key_names.is_glob(name))
        if (key is not None or not several) and not self._may(key, name):
            return self._refused(name)
        if several:
            if len(name) > _MOST_OF_A_GLOB:
                words = f"a glob may have {_MOST_OF_A_GLOB} characters: give a shorter one"
                return {"outcome": "usage", "key": name, "message": words}
            if pattern is not None or path is not None:
                words = (
                    "pattern and path look into one key's value, and this names several: give the name of one"
                )
                return {"outcome": "usage", "key": name, "message": words}
            return await self._listing(name, turn)
        names = Names(name if key is None else self.names[key], key)
        if key is not None and self.past is not None:
            self.past.look_at({key.channel})
        if turn is not None and turn != await self._going_on(turn):
            return await self._at_turn(names, turn, pattern, path)
        return await self._now(names, pattern, path) | self._present_turn()

    # The present.

    async def _now(self, names: Names, pattern: str | None, path: str | None) -> Document:
        told = self._head(names)
        item = NOTHING if names.key is None else self.items[names.key]
        if item is NOTHING:
            return {"outcome": "no_such_key", **told, **self._nearest(names.name)}
        told |= await self._value(item, pattern, path)
        if told["outcome"] == "value":
            told |= await self._writes(names, item, None)
        return told

    def _present_turn(self) -> Document:
        """The number of the present turn: messages alone do not tell it, and a long history is not read for it."""
        turn = None if self.past is None else self.past.present_so_far()
        return {} if turn is None else {"turn": turn}

    # The past.

    async def _going_on(self, turn: int) -> int | None:
        """The number of the turn that is going on, where the history tells, which is asked for ``turn``."""
        return None if self.past is None else self.past.present(await self.past.at(max(turn, 1)))

    async def _at_turn(self, names: Names, turn: int, pattern: str | None, path: str | None) -> Document:
        told = {**self._head(names), "turn": turn}
        if self.past is None:
            return {"outcome": "no_turn_history", **told, "message": self._without_history(names)}
        state, missed = await self._state_at(turn)
        if state is None:
            return {**told, **missed}
        item = names.of(state)
        if item is NOTHING:
            return await self._not_at(names, turn, told)
        told |= await self._value(item, pattern, path)
        if told["outcome"] == "value":
            told |= await self._writes(names, item, turn)
        return told

    async def _state_at(self, turn: int) -> tuple[Mapping[str, Any] | None, Document]:
        assert self.past is not None
        snapshot = await self.past.at(max(turn, 1))
        present = self.past.present(snapshot)
        total = present or snapshot.total
        if turn < 1 or snapshot.outcome in ("no_such_thread", "no_such_turn"):
            counted_from = " Turns are counted from 1." if turn < 1 else ""
            which = "the present one included" if present else "as far as it is stored"
            words = f"This thread has had {counted(total, 'turn')} so far, {which}.{counted_from}"
            return None, {"outcome": "no_such_turn", "turns_so_far": total, "message": words}
        if snapshot.outcome == "value":
            return snapshot.entries, {}
        if snapshot.outcome != "turn_no_longer_retained":
            return None, {"outcome": snapshot.outcome, "message": snapshot.message}
        words = f"Turn {turn} took place, and its state is no longer stored. Do not guess what it held."
        return None, {
            "outcome": "turn_no_longer_retained",
            "retained_turns": list(snapshot.retained),
            "turns_so_far": total,
            "message": words,
        }

    async def _not_at(self, names: Names, turn: int, told: Document) -> Document:
        assert self.past is not None
        present = NOTHING if names.key is None else self.items[names.key]
        writers = await self.past.writers(names, present)
        if not writers:
            return {"outcome": "no_such_key", **told, **self._nearest(names.name)}
        if any(n <= turn for n in writers):
            words = f"It was written before, and was no longer there as turn {turn} ended."
            return {"outcome": "removed", **told, "written_in_turns": list(writers), "message": words}
        words = f"Nothing had written it as turn {turn} ended; the first turn known to have is {writers[0]}."
        return {"outcome": "not_yet_written", **told, "written_in_turns": list(writers), "message": words}

    def _without_history(self, names: Names) -> str:
        item = NOTHING if names.key is None else self.items[names.key]
        words = f"No turn can be read: {self.no_past}. Without turn you get the present value"
        written = None if item is NOTHING else turn_of(item)
        return f"{words}." if written is None else f"{words}, which is turn {written}'s."

    # Parts of an answer.

    def _head(self, names: Names) -> Document:
        told: Document = {"key": names.name}
        if names.key is not None and names.key.entry is not None:
            told["channel"] = names.key.channel
        return told

    async def _value(self, item: Any, pattern: str | None, path: str | None) -> Document:
        value = plain(key_names.shown_value(item)[0])
        if isinstance(value, Absent):
            outcome = "undecodable" if value.kind == "empty" else value.kind
            reason = str(value.stored.get("reason") or "the value cannot be read")
            return {"outcome": outcome, "message": clip(reason, _MOST_OF_A_NAME)}
        try:
            # Another thread: a long value takes its time, and so does an expression that is given up.
            return {"outcome": "value", **await asyncio.to_thread(content_of, value, path, pattern)}
        except BadExpression as error:
            words = f"{error.which}: {clip(str(error), _MOST_OF_A_NAME)}"
            return {"outcome": f"bad_{error.which}", "message": words}
        except TooCostly:
            words = f"pattern or path was given up after {CPU_SECONDS} s or for want of memory: give a simpler one"
            return {"outcome": "too_costly", "message": words}

    async def _writes(self, names: Names, item: Any, turn: int | None) -> Document:
        """Which turn's value an answer shows, and the note without which it may be compared with itself."""
        present = NOTHING if names.key is None else self.items[names.key]
        own, counts = turn_of(item), [turns_written_of(item), turns_written_of(present)]
        writers: tuple[int, ...] = ()
        told: Document = {}
        try:
            if self.past is not None and (own is None or counts == [None, None]):
                writers = await self.past.writers(names, present)
                own = (
                    max((n for n in writers if turn is None or n <= turn), default=None)
                    if own is None
                    else own
                )
                counts.append(len(writers) or None)
                told |= {"written_in_turns": list(writers)} if writers else {}
            count = max((n for n in counts if n is not None), default=0)
            if own is not None:
                told["written_in_turn"] = own
            if count:
                told["turns_written"] = count
            if count > 1:
                told["note"] = f"{names.name} was {writes_in_words(count)}."
            looks = count > 1 or turn is not None
            if looks and self.past is not None and await self.past.refutes(names, item, turn):
                # Whoever wrote the entry counted messages, or kept its turn in an edit; the store knows better.
                del told["written_in_turn"]
                words = f"Its entry says that turn {own} wrote it, and the history tells otherwise."
                told["note"] = f"{told.get('note', '')} {words}".lstrip()
            elif count > 1:
                told["note"] += await self._note(names, own, writers, present, count)
        except HistoryFailed as error:
            told["note"] = f"{told.get('note', '')} The earlier turns could not be read ({error}).".lstrip()
        return told

    async def _note(
        self, names: Names, own: int | None, writers: tuple[int, ...], present: Any, count: int
    ) -> str:
        words = "" if own is None else f" This is turn {own}'s value."
        latest = turn_of(present) or max(writers, default=None)
        is_earlier = own is not None and latest is not None and own < latest
        if is_earlier:
            words += f" Turn {latest} wrote the present one, read it with {call(names.name)}."
        if self.past is None:
            return f"{words} The earlier value cannot be read: {self.no_past}."
        if own in (None, 1) or (is_earlier and count == 2):
            return words
        earlier = [(n, n) for n in writers if n < own]
        before = earlier[-1] if earlier else await self.past.before(names, own)
        if before is None:
            return f"{words} No earlier value of it is retained."
        return (
            f"{words} The value before it is turn {before[0]}'s, read it with {call(names.name, before[1])}."
        )

    async def _listing(self, pattern: str, turn: int | None) -> Document:
        told: Document = {"outcome": "keys", "pattern": pattern}
        if turn is None or turn == await self._going_on(turn):
            listed = [key for key in self.items if self._lists(pattern, key)]
            found = {self.names[key]: self.items[key] for key in listed}
            if self.past is not None:
                self.past.look_at({key.channel for key in listed})
        elif self.past is None:
            return {
                "outcome": "no_turn_history",
                "turn": turn,
                "message": f"No turn can be read: {self.no_past}.",
            }
        else:
            state, missed = await self._state_at(turn)
            if state is None:
                return {"turn": turn, **missed}
            found = {
                name: from_past(item)
                for name, item in state.items()
                if self._lists(pattern, self._key_named(name), name)
            }
            told["turn"] = turn
        rows = [await self._row(name, item) for name, item in list(found.items())[:_MOST_KEYS]]
        told = {**self._present_turn(), **told, "count": len(found), "keys": rows}
        if len(rows) < len(found):
            told["note"] = f"{len(found) - len(rows)} more keys match: give a narrower pattern."
        if not found:
            told |= self._nearest(pattern)
        return told

    def _lists(self, pattern: str, key: Key | None, name: str = "") -> bool:
        """Whether a listing has a key: its name matches a glob, or it is an entry of the channel that was named."""
        if not self._may(key, name):
            return False
        if key is not None:
            return key.channel == pattern or bool(key_names.matching(pattern, [key]))
        return name.startswith(f"{pattern}:") or fnmatch.fnmatchcase(name, pattern)

    async def _row(self, name: str, item: Any) -> Document:
        value = plain(key_names.shown_value(item)[0])
        row: Document = {"key": name, "type": type_of(value), "summary": summary_of(value)}
        if (turn := turn_of(item)) is not None:
            row["written_in_turn"] = turn
        count = turns_written_of(item)
        if count is None and self.past is not None:
            key = self._key_named(name)
            present = NOTHING if key is None else self.items[key]
            with suppress(HistoryFailed):
                count = len(await self.past.writers(Names(name, key), present)) or None
        if count is not None:
            row["written"] = writes_in_words(count)
        return row

    # What may be read.

    def _may(self, key: Key | None, name: str) -> bool:
        names = (name,) if key is None else (key.name, key.full_name, key.channel)
        return any(n == allowed or fnmatch.fnmatchcase(n, allowed) for n in names for allowed in self.allowed)

    def _key_named(self, name: str) -> Key | None:
        return next((key for key, shown in self.names.items() if name in (shown, key.full_name)), None)

    def _refused(self, name: str) -> Document:
        words = "This key is not among those that this tool may read."
        allowed = [clip(a, 80) for a in self.allowed[:_MOST_NAMES]]
        return {"outcome": "key_not_allowed", "key": name, "allowed_keys": allowed, "message": words}

    def _nearest(self, name: str) -> Document:
        readable = sorted(shown for key, shown in self.names.items() if self._may(key, key.name))
        nearest = key_names.nearest(name, readable)
        told: Document = {"nearest": nearest} if nearest else {"keys": readable[:_MOST_NAMES]}
        return {**told, "message": 'inspect_state(key="*") lists the keys that can be read.'}


def text_of(document: Document) -> str:
    """An answer as JSON of at most :data:`MOST_CHARACTERS`, ``outcome`` first and ``note`` last.

    The longest list is cut until it fits.
    """
    told: Document = {"outcome": document["outcome"]}
    for name in sorted(document, key=lambda name: name == "note"):
        item = document[name]
        told[name] = _clipped(item) if type(item) is str and name != "value" else item
    while len(text := json_text(told)) > MOST_CHARACTERS:
        lists = [name for name, item in told.items() if type(item) is list and name != "value"]
        longest = max(lists, key=lambda name: len(json_text(told[name])))
        told[longest] = told[longest][: len(told[longest]) // 2]
        told["cut"] = f"{longest} is cut, as the answer would be too long"
        told |= {"note": told.pop("note")} if "note" in told else {}
    return text


def _clipped(text: str) -> str:
    """A text that takes little room in JSON, also where each of its characters takes six."""
    return text if len(json_text(text)) <= _MOST_OF_A_TEXT else clip(text, _MOST_OF_A_TEXT // 6)
