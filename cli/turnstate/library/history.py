"""A thread's past out of a checkpoint store, for whoever does not know what a checkpointer is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar, cast

from turnstate.library.protocol import Snapshots
from turnstate.library.records import Snapshot
from turnstate.library.store import Source, Store
from turnstate.library.worker import in_thread

if TYPE_CHECKING:
    from turnstate.history.keys import Key
    from turnstate.history.thread import History
    from turnstate.history.turns import TurnsBy
    from turnstate_backends.values import Absent, Stored

_T = TypeVar("_T")
_WAITS = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Seconds between looks for a checkpoint that is on its way: with ``durability="async"`` the step does not wait."""


class CheckpointHistory:
    """The :class:`turnstate.ThreadHistory` that a checkpointer has kept.

    It needs no graph, so it can be made before the graph that it is given to, and of a saver whose tables are not
    there yet. Every call reads anew what the saver has stored by then, and calls may run side by side. A saver may be
    sync or async; an async one is awaited on the loop that it was made for, and else on the caller's. A cancelled
    call waits for nothing.

    An entry of a snapshot stands under the key that :func:`turnstate.keys` names it by: a channel whose value is no
    mapping, or an empty one, under its name (``plan``); of a channel that is a mapping each entry, whole and not only
    its ``value`` field, under its own name where no other channel of that turn has one of that name
    (``gazet/get_aoi/bbox``), and else under ``channel:entry``. LangGraph's own channels are left out, and channels
    that hold nothing. Entries are plain data as :class:`turnstate.Reading` has them; one that cannot be read is
    ``{"$absent": kind, …}``, of a row that cannot be read at all every channel. They are not to be changed: turns
    share what stayed the same.

    Args:
        store: A saver; or a store's path or URL, which is read without one and faster. One of a store that no
            checkpointer has set up by the time of a call is an error, as it may be mistyped.
        namespace: ``checkpoint_ns``; the root graph's is empty.
        messages: The channel that holds the conversation; ``messages`` when None.
        turns_by: What to count; by default questions, and inputs where no question arrives as a message.

    Raises:
        TypeError: ``store`` is neither.
    """

    def __init__(
        self,
        store: Source,
        *,
        namespace: str = "",
        messages: str | None = None,
        turns_by: TurnsBy | None = None,
    ) -> None:
        if not isinstance(store, str | os.PathLike) and not hasattr(store, "get_tuple"):
            raise TypeError(f"store is a checkpoint saver or a store's URL, not {type(store).__qualname__}")
        self._source = store
        self._namespace = namespace
        self._messages = messages
        self._turns_by = turns_by
        self._at: str | None = None
        self._from: str | None = None
        self._at_exit = False

    @property
    def counts_messages_in(self) -> str | None:
        """The channel whose human messages the turns are counted by; None where inputs are counted."""
        from turnstate.history.asked import MESSAGES

        return None if self._turns_by == "inputs" else self._messages or MESSAGES

    def of_run(self, config: Mapping[str, Any]) -> CheckpointHistory:
        """The history that a run has behind it, asked for in one of its nodes or tools.

        Its line is the run's own, up to the checkpoint on which the step that is under way stands, also where another
        run of the thread has a later one; a call waits up to a second while that is being stored. Where it is not,
        with ``durability="exit"`` until the run ends, it is the line of the checkpoint that the run was told to start
        from, else that which LangGraph would resume.

        Args:
            config: The ``RunnableConfig`` that LangGraph hands to the node. The step's checkpoint stands in its
                ``configurable.checkpoint_map`` (``langgraph.pregel._algo.prepare_single_task``), and what the caller
                gave as ``configurable.checkpoint_id`` in its ``metadata``.
        """
        run = copy(self)
        at = config.get("configurable") or {}
        run._at = (at.get("checkpoint_map") or {}).get(self._namespace)
        # The name is langgraph._internal._constants.CONFIG_KEY_DURABILITY; where it is missing, a call waits in vain.
        run._at_exit = at.get("__pregel_durability") == "exit"
        run._from = (config.get("metadata") or {}).get("checkpoint_id")
        return run

    async def present_turn(self, config: Mapping[str, Any]) -> int | None:
        """The number of the turn that a run is in, counted as the history counts; no state is read.

        None where the store does not tell: with ``durability="exit"``, whose run is stored when it has ended, or
        without a thread.

        Args:
            config: As :meth:`of_run` takes it.

        Raises:
            StoreError: The store cannot be read.
        """
        thread = (config.get("configurable") or {}).get("thread_id")
        run = self.of_run(config)
        return None if thread is None else await run._told(str(thread), run._present, None)

    def _present(self, walk: History) -> int | None:
        """The turn of the run, where its checkpoint is stored."""
        return walk.turns.total if self._at == walk.line.rows[-1].id else None

    async def snapshots(self, thread_id: str, *, channels: Collection[str] | None = None) -> Snapshots:
        """The state as each retained turn ended. All of it is held; :meth:`snapshot` holds one turn's.

        Args:
            thread_id: The thread.
            channels: Only these, each entry of one that is a mapping under ``channel:entry``.

        Raises:
            StoreError: The store cannot be read.
        """
        return await self._told(thread_id, lambda walk: self._snapshots(walk, channels), Snapshots({}, 0))

    async def snapshot(
        self, thread_id: str, turn: int, *, channels: Collection[str] | None = None
    ) -> Snapshot:
        """The state as one turn ended, or why it cannot be told. No state of another turn is held meanwhile.

        Args:
            thread_id: The thread.
            turn: From 1; -1 is the last one, 0 the state before the first question.
            channels: As :meth:`snapshots` takes them.

        Raises:
            StoreError: The store cannot be read.
        """
        never = f"the store has no thread {thread_id!r}"
        return await self._told(
            thread_id,
            lambda walk: self._snapshot(walk, turn, channels),
            Snapshot("no_such_thread", never, turn, {}, None, 0, ()),
        )

    async def _told(self, thread: str, work: Callable[[History], _T], never: _T) -> _T:
        """What a store that is open for one look alone tells of a thread; ``never`` of one that is not there."""
        loop = asyncio.get_running_loop()

        def told(waits: bool) -> _T | None:
            """None where it waits for the run's checkpoint."""
            from turnstate.history.asked import MESSAGES, thread_found

            with Store(self._source, loop=loop) as store, store.reading() as backend:
                walk = thread_found(
                    backend,
                    thread,
                    ns=self._namespace,
                    messages=self._messages or MESSAGES,
                    turns_by=self._turns_by,
                )
                rows: Collection[str] = () if walk is None else walk.forest.rows
                if waits and self._at not in rows:
                    return None
                tips = (tip for tip in (self._at, self._from) if tip in rows)
                tip = next(tips, None)
                return never if walk is None else work(walk if tip is None else walk.along(tip))

        for seconds in _WAITS if self._at is not None and not self._at_exit else ():
            found = await in_thread(lambda: told(waits=True))
            if found is not None:
                return found
            await asyncio.sleep(seconds)
        return cast(_T, await in_thread(lambda: told(waits=False)))

    def _snapshots(self, walk: History, channels: Collection[str] | None) -> Snapshots:
        ends = {turn.number: turn.end for turn in walk.turns.turns[1:] if turn.end is not None}
        ids = {row: walk.line.rows[row].id for row in sorted(set(ends.values()))}
        states = _States(walk, channels)
        found = {id: states.entries(held) for id, held in walk.values_along(list(ids.values()), channels)}
        turns = {number: found[ids[row]] for number, row in ends.items() if ids[row] in found}
        return Snapshots(turns, walk.turns.total, self._present(walk))

    def _snapshot(self, walk: History, number: int, channels: Collection[str] | None) -> Snapshot:
        from turnstate.history.places import Miss, turn_place
        from turnstate_backends.interface import damage_of

        total, retained, present = walk.turns.total, walk.turns.retained, self._present(walk)
        place = turn_place(walk, number)
        if isinstance(place, Miss):
            return Snapshot(place.outcome, place.message, place.turn, {}, None, total, retained, present)
        checkpoint = walk.line.rows[place.row].id
        state = walk.values(checkpoint, channels)
        if damage := damage_of(state):
            outcome = "undecodable" if damage.kind == "empty" else damage.kind
            words = str(damage.stored.get("reason") or "its payload cannot be read")
            return Snapshot(outcome, words, place.turn, {}, checkpoint, total, retained, present)
        entries = _States(walk, channels).entries(state)
        return Snapshot("value", "", place.turn, entries, checkpoint, total, retained, present)


class _States:
    """States as entries by key; what stays the same from one to the next is decoded once, and shared."""

    def __init__(self, walk: History, channels: Collection[str] | None) -> None:
        self._walk = walk
        self._channels = channels
        self._before: dict[str, tuple[Stored | Absent, tuple[tuple[Key, Any], ...]]] = {}

    def entries(self, state: Mapping[str, Stored | Absent]) -> Mapping[str, Any]:
        """The entries of the application's channels."""
        from turnstate.history.keys import display_names
        from turnstate_backends.interface import damage_of

        if damage := damage_of(state):
            channels = self._walk.channels() if self._channels is None else self._channels
            state = dict.fromkeys(sorted(channels), damage)
        held: dict[str, tuple[Stored | Absent, tuple[tuple[Key, Any], ...]]] = {}
        for channel, stored in state.items():
            if self._walk.is_internal(channel):
                continue
            before = self._before.get(channel)
            same = before is not None and before[0] == stored
            held[channel] = before if same and before else (stored, tuple(_parts(channel, stored)))
        self._before = held
        items = [item for _, parts in held.values() for item in parts]
        if self._channels is not None:
            return {key.full_name: entry for key, entry in items}
        names = display_names(key for key, _ in items)
        return {names[key]: entry for key, entry in items}


def _parts(channel: str, stored: Stored | Absent) -> Iterator[tuple[Key, Any]]:
    """A channel's entries where it is a mapping that has some; else the channel, unless it holds nothing."""
    from turnstate.history.jsonform import jsonable
    from turnstate.history.keys import Key, entries_of, entry_name
    from turnstate_backends.payload import decode
    from turnstate_backends.values import Absent

    if isinstance(stored, Absent) and stored.kind == "empty":
        return
    value = stored if isinstance(stored, Absent) else decode(stored)
    if isinstance(value, Mapping) and entries_of(stored):
        for name, entry in value.items():
            yield Key(channel, entry_name(name)), jsonable(entry)
    else:
        yield Key(channel), jsonable(value)
