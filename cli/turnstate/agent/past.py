"""A thread's past as one answer needs it: no turn is read that the answer does not depend on, and none twice."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from turnstate.agent.live import plain
from turnstate.agent.tool_state import turn_of
from turnstate.history import jsonform
from turnstate.history.keys import Key, shown_value
from turnstate.history.reading import Outcome
from turnstate.history.wording import equal_values
from turnstate.library.history import CheckpointHistory
from turnstate.library.protocol import Snapshots, ThreadHistory
from turnstate.library.records import Snapshot
from turnstate_backends.address import hide_passwords
from turnstate_backends.interface import StoreError
from turnstate_backends.values import Absent

_LOG = logging.getLogger("turnstate")

NOTHING: Any = object()
"""A key that a state does not have."""


class HistoryFailed(Exception):
    """A history raised. The text, which a model is told, is the error's class; what it says stands in the log."""


class Past:
    """What a history tells of one thread, kept for the length of one answer.

    Args:
        history: Where it comes from. A method ``snapshot(thread_id, turn)`` that gives a
            :class:`turnstate.Snapshot` is preferred where one turn is enough; a method ``of_run(config)`` gives it
            along the line of the run.
        thread_id: The thread.
        config: The run's ``RunnableConfig``.
        counted: The number of the present turn by the state's messages, where they tell.
    """

    def __init__(
        self, history: ThreadHistory, thread_id: str, config: Mapping[str, Any], counted: int | None
    ) -> None:
        of_run = getattr(history, "of_run", None)
        self._history = history if of_run is None else of_run(config)
        self._thread_id = thread_id
        self._counted = counted
        self._read: Mapping[str, Any] = {}
        self._lags = of_run is not None and bool((config.get("configurable") or {}).get("checkpoint_map"))
        self._whole: Snapshots | None = None
        self._single: dict[int, Snapshot] = {}

    def look_at(self, channels: Collection[str]) -> None:
        """Read these channels alone from now on, where the history can: others are not held, and lend no names."""
        if isinstance(self._history, CheckpointHistory):
            self._read = {"channels": channels}

    async def whole(self) -> Snapshots:
        """All retained turns.

        Raises:
            HistoryFailed: The history did.
        """
        if self._whole is None:
            found = await self._told(self._history.snapshots, self._thread_id, **self._read)
            if not isinstance(found, Snapshots):
                _LOG.warning("a history gave %s and not Snapshots", type(found).__qualname__)
                raise HistoryFailed("TypeError")
            self._whole = found
        return self._whole

    async def at(self, turn: int) -> Snapshot:
        """The state as a turn ended, from 1, or why there is none.

        Raises:
            HistoryFailed: The history did.
        """
        if turn not in self._single:
            one = getattr(self._history, "snapshot", None)
            found = None
            if one is not None and self._whole is None:
                found = await self._told(one, self._thread_id, turn, **self._read)
            self._single[turn] = found if isinstance(found, Snapshot) else _one_of(await self.whole(), turn)
        return self._single[turn]

    def present(self, told: Snapshot | Snapshots) -> int | None:
        """The number of the turn that is going on, where the history that told this knows it, or agrees on it with the
        messages. These are more than the questions where nodes put human messages into the list, and fewer where
        some were taken out.
        """
        if told.present is not None:
            return told.present
        # A history that was told the run's checkpoint and lacks it lacks the turn; another one may have it or not.
        may_be = (told.total + 1,) if self._lags else (told.total, told.total + 1)
        return self._counted if self._counted in may_be else None

    def present_so_far(self) -> int | None:
        """:meth:`present`, where an answer has already needed the history; it is not asked for this alone."""
        told = self._whole or next(iter(self._single.values()), None)
        return None if told is None else self.present(told)

    async def _told(self, ask: Callable[..., Awaitable[Any]], *arguments: Any, **more: Any) -> Any:
        try:
            return await ask(*arguments, **more)
        except Exception as error:
            why = f"{error.what}: {error.why}" if isinstance(error, StoreError) else repr(error)
            _LOG.warning("a history could not be read: %s", hide_passwords(why))
            raise HistoryFailed(type(error).__qualname__) from None

    async def before(self, names: Names, turn: int) -> tuple[int, int] | None:
        """Whose the value of a key was that ``turn`` displaced, and at the end of which turn it can be read."""
        if turn <= 1:
            return None
        found = await self.at(turn - 1)
        for read in [turn - 1] if found.outcome == "value" else sorted(found.retained, reverse=True):
            item = names.of((await self.at(read)).entries) if read < turn else NOTHING
            own = None if item is NOTHING else turn_of(item)
            if item is NOTHING or own == turn:
                continue
            if own is None or own > read:  # nothing tells, or turns were counted otherwise
                return read, read
            return own, own if (await self.at(own)).outcome == "value" else read
        return None

    async def refutes(self, names: Names, item: Any, turn: int | None) -> bool:
        """Whether it shows that a value was not written in the turn that its entry names: that turn came later than
        the one that is read, or had ended with another value.

        Args:
            names: The key.
            item: Its entry.
            turn: As which turn ended; None for the present.
        """
        own = turn_of(item)
        if own is None or own == turn:
            return False
        if turn is not None and own > turn:
            return True
        found = await self.at(own)
        held = names.of(found.entries)
        if found.outcome != "value" or own >= found.total or isinstance(held, Absent):
            return False
        return not _same(held if held is NOTHING else shown_value(held)[0], shown_value(item)[0])

    async def writers(self, names: Names, present: Any) -> tuple[int, ...]:
        """The turns that are known to have written a key, as far as ends of turns tell.

        An entry tells its turn. A plain value was written in a turn where it differs from what the turn before ended
        with; one that was rewritten equal is not seen.

        Args:
            names: The key.
            present: What the present state has of it, or :data:`NOTHING`.
        """
        snapshots = await self.whole()
        states = {n: names.of(state) for n, state in snapshots.turns.items()}
        # A history that lacks the turn that goes on has not got the present value either.
        states[self.present(snapshots) or snapshots.total + self._lags] = present
        found: set[int] = set()
        for turn in sorted(states):
            item, before = states[turn], states.get(turn - 1, NOTHING)
            if item is NOTHING:
                continue
            own = turn_of(item)
            if own is not None:
                found.add(own)
            elif isinstance(item, Absent) or isinstance(before, Absent):
                continue  # nothing to compare
            elif turn == 1 or (turn - 1 in states and not _same(before, item)):
                found.add(turn)
        return tuple(sorted(found))


class Names:
    """A key by the names that a turn's mapping may have it under.

    Args:
        name: As the key is addressed.
        key: The key, where the present state has it.
    """

    def __init__(self, name: str, key: Key | None) -> None:
        self.name = name
        self.key = key

    def of(self, state: Mapping[str, Any]) -> Any:
        """What a turn's mapping has of the key, or :data:`NOTHING`."""
        full = self.name if self.key is None else self.key.full_name
        for name in (full, self.name):
            if name in state:
                return from_past(state[name])
        channel = None if self.key is None else from_past(state.get(self.key.channel))
        if isinstance(
            channel, Absent
        ):  # that the channel cannot be read does not say that the entry was not there
            return channel
        if self.key is not None and isinstance(channel, Mapping) and self.key.entry in channel:
            return channel[self.key.entry]  # a mapping of channels
        return NOTHING


def from_past(item: Any) -> Any:
    """An entry of a snapshot, whose values stand in their JSON form, as plain data."""
    try:
        return plain(jsonform.plain(item))
    except RecursionError:
        return Absent("undecodable", {"reason": "nested too deeply"})


def _one_of(snapshots: Snapshots, turn: int) -> Snapshot:
    total, retained = snapshots.total, tuple(sorted(snapshots.turns))
    if turn in snapshots.turns:
        return Snapshot("value", "", turn, snapshots.turns[turn], None, total, retained, snapshots.present)
    outcome: Outcome = "turn_no_longer_retained" if 1 <= turn <= total else "no_such_turn"
    return Snapshot(outcome, "", turn, {}, None, total, retained, snapshots.present)


def _same(old: Any, new: Any) -> bool:
    return old is not NOTHING and equal_values(plain(old), plain(new))
