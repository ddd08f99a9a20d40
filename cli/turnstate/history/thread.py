"""One thread, opened: the narrow rows of a namespace, its line and its turns.

This is where the pure functions of this package meet a store. Each thing is read once, when it is first needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from turnstate.history.accumulate import Rule
from turnstate.history.conversation import Conversation
from turnstate.history.deltas import Deltas
from turnstate.history.ids import id_time, version_number
from turnstate.history.inputs import inputs_of
from turnstate.history.lines import Forest, Line, forest
from turnstate.history.questions import Findings, settle
from turnstate.history.steps import Step, by_checkpoint, is_internal
from turnstate.history.times import parse_time
from turnstate.history.turns import Turns, TurnsBy, turns_by_inputs, turns_by_questions
from turnstate.history.writers import Writers
from turnstate_backends.interface import Store, Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored, Tagged

if TYPE_CHECKING:
    from turnstate.history.keys import Key
    from turnstate.history.versions import Version

_HEAD = 1024  # bytes of each write: the class of a message, or the names in a small mapping
_QUOTES = 5  # bytes at most around a text: two in JSON, a header of up to five in msgpack


class History:
    """A namespace of a thread along one line.

    Args:
        store: An opened store; its snapshot must outlive this object.
        thread: ``thread_id``.
        ns: ``checkpoint_ns``.
        messages: Name of the channel that holds the conversation.
        turns_by: What to count; None counts questions where there are any, else inputs.
        tip: The line's last checkpoint; the head when None.
        reducers: How channels add up that are kept as deltas, where the user said so.
    """

    def __init__(
        self,
        store: Store,
        thread: str,
        ns: str = "",
        *,
        messages: str = "messages",
        turns_by: TurnsBy | None = None,
        tip: str | None = None,
        reducers: Mapping[str, Rule] | None = None,
    ) -> None:
        self.store = store
        self.thread = thread
        self.ns = ns
        self.messages = messages
        self._turns_by = turns_by
        self._tip = tip
        self._reducers = reducers or {}
        self.versions: dict[tuple[frozenset[str] | None, bool], Mapping[Key, Sequence[Version]]] = {}
        """What :func:`turnstate.history.versions.versions_by_key` has worked out."""

    def along(self, tip: str) -> History:
        """The same namespace, counted the same way, along the line that ends in ``tip``; rows are not read again."""
        other = History(
            self.store,
            self.thread,
            self.ns,
            messages=self.messages,
            turns_by=self._turns_by,
            tip=tip,
            reducers=self._reducers,
        )
        other.forest = self.forest
        if "writes" in self.__dict__:
            other.writes = self.writes
        return other

    @cached_property
    def forest(self) -> Forest:
        """All checkpoints of the namespace; without rows when the thread has none there."""
        return forest(self.store.checkpoints(self.thread, self.ns))

    @cached_property
    def line(self) -> Line:
        """The chain that ends in the tip; the namespace must have rows."""
        return self.forest.line(self.forest.head if self._tip is None else self._tip)

    @property
    def is_branch(self) -> bool:
        """Whether the line is another one than that which LangGraph would resume."""
        return self.line.rows[-1].id != self.forest.head

    @cached_property
    def writes(self) -> Mapping[str, tuple[Write, ...]]:
        """Write rows by the checkpoint they hang on, with payload heads; those of deleted checkpoints too."""
        return by_checkpoint(self.store.writes(self.thread, self.ns, head=_HEAD))

    @cached_property
    def _settled(self) -> tuple[tuple[Step, ...], Findings]:
        return settle(self.line, self.forest.children, self.writes, self.conversation)

    @property
    def steps(self) -> tuple[Step, ...]:
        """How each row of the line came to be."""
        return self._settled[0]

    @cached_property
    def conversation(self) -> Conversation:
        return Conversation(self, self.messages)

    @cached_property
    def deltas(self) -> Deltas:
        """The values that no row holds, because their channels are kept as deltas."""
        return Deltas(self, self._reducers)

    def values(
        self, checkpoint: str, channels: Collection[str] | None = None
    ) -> Mapping[str, Stored | Absent]:
        """Payloads of one checkpoint by channel, as :meth:`turnstate_backends.interface.Store.values` gives them,
        and those of channels kept as deltas rebuilt, or ``Absent("delta_unresolved")``."""
        return self.deltas.rebuilt(checkpoint, self.store.values(self.thread, self.ns, checkpoint, channels))

    def values_along(
        self, checkpoints: Sequence[str], channels: Collection[str] | None = None
    ) -> Iterator[tuple[str, Mapping[str, Stored | Absent]]]:
        """:meth:`values` of several checkpoints, one after the other; see
        :meth:`turnstate_backends.interface.Store.along`."""
        for checkpoint, found in self.store.along(self.thread, self.ns, checkpoints, channels):
            yield checkpoint, self.deltas.rebuilt(checkpoint, found)

    @cached_property
    def writers(self) -> Writers:
        """Who is behind a write row."""
        return Writers(self.store, self.thread, self.ns, self.line, self.steps)

    @property
    def findings(self) -> Findings:
        """Questions, and human messages that are none."""
        return self._settled[1]

    @cached_property
    def turns(self) -> Turns:
        """The turns of the line, by questions, or by inputs where no question ever arrives as a message."""
        by = self._turns_by or ("questions" if self.findings.questions else "inputs")
        if by == "questions":
            return turns_by_questions(self.line, self.steps, self.findings, self)
        return turns_by_inputs(self.line, self.steps, inputs_of(self), self)

    @cached_property
    def edges(self) -> Mapping[str, bool]:
        """Channels that are edges of an older release, and whether a node that ran listens to them.

        There a node writes its own name into a channel of that name when it is done, for the nodes that follow it
        (``langgraph.graph.state.CompiledStateGraph.attach_node`` in 0.2). No state key is one of them: a graph
        refuses a node with a key's name, and only nodes have seen versions.
        """
        named = {w.channel for rows in self.writes.values() for w in rows if _is_own_name(w)}
        if not named:
            return {}
        tip = self.line.rows[-1].id
        seen = self.store.seen(self.thread, self.ns, [tip]).get(tip, {})
        heard = {channel for versions in seen.values() for channel in versions}
        return {channel: channel in heard for channel in named & set(seen)}

    def is_internal(self, channel: str) -> bool:
        """Whether the channel is LangGraph's own bookkeeping and not part of an application's state."""
        return is_internal(channel) or channel in self.edges

    def channels(self) -> frozenset[str]:
        """Names of the channels that the line is known to have had: those written, and those of its last row."""
        tip = self.line.rows[-1].id
        written = {write.channel for row in self.line.rows for write in self.writes.get(row.id, ())}
        return frozenset({*written, *self.store.versions(self.thread, self.ns, [tip]).get(tip, {})})

    def row_time(self, i: int) -> datetime | None:
        """When a row of the line was made: by its id, else by the ``ts`` stored in it."""
        checkpoint = self.line.rows[i].id
        return id_time(checkpoint) or self._stored_times([checkpoint]).get(checkpoint)

    def row_times(self) -> list[datetime | None]:
        """:meth:`row_time` of every row."""
        times = {row.id: id_time(row.id) for row in self.line.rows}
        untimed = [id for id, time in times.items() if time is None]
        return list((times | (self._stored_times(untimed) if untimed else {})).values())

    def _stored_times(self, checkpoints: list[str]) -> dict[str, datetime | None]:
        stored = self.store.times(self.thread, self.ns, checkpoints)
        return {id: parse_time(text) for id, text in stored.items()}

    def took_input_on_top_of(self, before: str, after: str) -> bool:
        """Whether the latest input that ``after`` knows of was taken on top of ``before``, with nothing in between.

        Every step gives what it changes one version above all others (``langgraph.pregel._algo.apply_writes``): an
        input the first above its parent's greatest, and ``__start__`` the second once it is spread.
        """
        found = self.store.versions(self.thread, self.ns, [before, after])
        numbers = [version_number(version) for version in found.get(before, {}).values()]
        spread = version_number(found.get(after, {}).get("__start__", ""))
        tops = [number for number in numbers if number is not None]
        return spread is not None and bool(tops) and spread == max(tops) + 2

    def at_rest(self, checkpoint: str) -> bool | None:
        """Whether no node was set off in a checkpoint; None where its layout does not tell.

        An edge writes ``branch:to:NODE``, and the channel is empty again once the node ran. Older releases, whose
        edges write other channels, do not tell.
        """
        names = self.store.versions(self.thread, self.ns, [checkpoint]).get(checkpoint, {})
        if not any(name.startswith("branch:to:") for name in names):
            return None
        triggers = [
            name for name in names if name.startswith(("branch:to:", "join:", "__start__", "__pregel_tasks"))
        ]
        values = self.values(checkpoint, triggers)
        return not any(_sets_off(name, value) for name, value in values.items())


def _is_own_name(write: Write) -> bool:
    """Whether nothing but the channel's own name was written."""
    if not 0 < write.value.size - len(write.channel) <= _QUOTES + 3 * len(write.channel):
        return False  # told without encoding the name: a character takes four bytes at most
    rest = write.value.size - len(write.channel.encode(errors="surrogatepass"))
    return 0 < rest <= _QUOTES and write.value.complete and decode(write.value) == write.channel


def _sets_off(channel: str, value: Stored | Absent) -> bool:
    """Whether a trigger channel sets off a node in the next step.

    ``join:A+B:NODE`` holds the names that have arrived, and waits for all of them
    (``langgraph.channels.named_barrier_value``); ``__pregel_tasks`` the packets that were sent.
    """
    if isinstance(value, Absent):
        return False
    held = decode(value) if channel.startswith(("join:", "__pregel_tasks")) else True
    held = held.value if isinstance(held, Tagged) else held
    if channel.startswith("join:"):
        awaited = channel.removeprefix("join:").rpartition(":")[0].split("+")
        return not isinstance(held, list) or set(awaited) <= {name for name in held if isinstance(name, str)}
    return bool(held)
