"""The message channel of a thread, read from a store as far as the rule for questions asks.

Implements :class:`turnstate.history.questions.MessageReader`: small write rows first, whole payloads only where
their heads do not tell, of the message lists two at a time and the latest of each kind to compare the next with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from turnstate.history.ids import version_number
from turnstate.history.lines import Forest
from turnstate.history.messages import Message, MessageList, NotMessages, of_plain, read_after, read_messages
from turnstate.history.steps import INTERRUPT
from turnstate_backends import heads
from turnstate_backends.interface import Store, Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored, Tagged

_AT_ONCE = 4 << 20  # bytes of writes that are read whole, and held, together
_SHARES = 4096  # bytes of a list from which on it is worth looking what it has of another


class Records(Protocol):
    """What a conversation asks of its thread."""

    store: Store
    thread: str
    ns: str

    @property
    def forest(self) -> Forest:
        """All checkpoints of the namespace."""

    @property
    def writes(self) -> Mapping[str, Sequence[Write]]:
        """Write rows by the checkpoint they hang on, with payload heads."""

    def values(
        self, checkpoint: str, channels: Collection[str] | None = None
    ) -> Mapping[str, Stored | Absent]:
        """Payloads of one checkpoint by channel."""


class Conversation:
    """One message channel of one namespace.

    Args:
        records: The thread.
        channel: The channel that holds the conversation.
    """

    def __init__(self, records: Records, channel: str) -> None:
        self.records = records
        self.store = records.store
        self.thread = records.thread
        self.ns = records.ns
        self.channel = channel
        self._read_state, self._read_write = _Reader(), _Reader()
        self._lists: dict[str, tuple[Message, ...] | None] = {}
        self._whole: Mapping[tuple[str, str, int], Stored] = {}

    def state(self, checkpoint: str) -> tuple[Message, ...] | None:
        """The list as the checkpoint holds it; None when it holds none that can be read."""
        if checkpoint not in self._lists:
            while len(self._lists) > 1:  # the rule looks at a row and the one before it
                del self._lists[next(iter(self._lists))]
            found = self._read_state(self.value(checkpoint, self.channel))
            self._lists[checkpoint] = None if found is None else found.messages
        return self._lists[checkpoint]

    def written(self, checkpoint: str) -> list[tuple[Write, MessageList | None]]:
        """Writes to the channel on top of a checkpoint; None for one that cannot be read."""
        found: list[tuple[Write, MessageList | None]] = []
        for write in self.on(checkpoint):
            if write.channel == self.channel:
                try:
                    found.append((write, self._read_write(write.value)))
                except heads.Cut:
                    found.append((write, self._read_write(self._whole_payload(write))))
        return found

    def pending_input(self, checkpoint: str) -> MessageList | None:
        """The messages that an input row took in, from its ``__start__`` channel."""
        value = self.input(checkpoint)
        brought = value.get(self.channel) if isinstance(value, Mapping) else None
        if brought is None:
            return None
        items = brought if isinstance(brought, list) else [brought]
        if len(items) == 2 and all(isinstance(item, str) for item in items):
            items = [items]  # a ("user", text) pair
        return MessageList(tuple(of_plain(item) for item in items))

    def input(self, checkpoint: str) -> Any:
        """What an input row took in, as plain data; the fields of an object; None where nothing waits."""
        stored = self.value(checkpoint, "__start__")
        value = None if isinstance(stored, Absent) else decode(stored)
        return value.value if isinstance(value, Tagged) else value

    def changed(self, before: str, after: str) -> bool:
        """Whether the channel has another version in ``after``."""
        versions = self.store.versions(self.thread, self.ns, [before, after])
        return versions.get(before, {}).get(self.channel) != versions.get(after, {}).get(self.channel)

    def on(self, checkpoint: str) -> Sequence[Write]:
        """All write rows on top of a checkpoint."""
        return self.records.writes.get(checkpoint, ())

    def in_first_run(self, checkpoint: str) -> bool:
        """Whether the thread had been asked once at most when the checkpoint was made.

        ``__start__`` has version 1 where the first input waits and 2 once it is spread; a later input gets
        a version above all others (``langgraph.pregel._algo.apply_writes``).
        """
        versions = self.store.versions(self.thread, self.ns, [checkpoint]).get(checkpoint, {})
        number = version_number(versions.get("__start__", ""))
        if number is None or number > 2:
            return False
        # An answer to an interrupt asks without an input, and leaves its mark in what was seen; writes on
        # older rows tell that there were some.
        seen = self.store.seen(self.thread, self.ns, [checkpoint]).get(checkpoint, {})
        return not seen.get(INTERRUPT) and not any(id < checkpoint for id in self.writes_of_gone_rows)

    @property
    def writes_of_gone_rows(self) -> Collection[str]:
        """Checkpoints that only their writes tell of."""
        return self.records.writes.keys() - self.records.forest.rows.keys()

    def value(self, checkpoint: str, channel: str) -> Stored | Absent:
        """One channel's payload in one checkpoint."""
        return self.records.values(checkpoint, [channel]).get(channel, Absent("empty"))

    def _whole_payload(self, write: Write) -> Stored:
        """The whole of a write whose head is too short; those on the next checkpoints are read with it."""
        key = write.checkpoint, write.task, write.idx
        if key not in self._whole:
            self._whole = {}  # before others are held
            wanted: list[str] = []
            size = 0
            for checkpoint in self._cut[bisect_left(self._cut, write.checkpoint) :]:
                size += sum(w.value.size for w in self.on(checkpoint) if w.channel == self.channel)
                if wanted and size > _AT_ONCE:
                    break
                wanted.append(checkpoint)
            whole = self.store.writes(
                self.thread, self.ns, channels=[self.channel], checkpoints=wanted, head=None
            )
            self._whole = {(w.checkpoint, w.task, w.idx): w.value for w in whole}
        return self._whole[key]

    @cached_property
    def _cut(self) -> Sequence[str]:
        """Checkpoints with a write whose head is too short, in order."""
        return sorted(id for id, rows in self.records.writes.items() if any(map(self._is_cut, rows)))

    def _is_cut(self, write: Write) -> bool:
        if write.channel != self.channel or write.value.complete:
            return False
        try:
            read_messages(write.value)
        except NotMessages:
            return False
        except heads.Cut:
            return True
        return False


class _Reader:
    """Reads lists one after the other; what a long one shares with the one before is not read again."""

    def __init__(self) -> None:
        self._last: tuple[Stored, MessageList] | None = None

    def __call__(self, stored: Stored | Absent) -> MessageList | None:
        """None where there is no list of messages. Raises :class:`turnstate_backends.heads.Cut`."""
        try:
            if isinstance(stored, Absent) or stored.size < _SHARES:
                return read_messages(stored)
            found = read_after(stored, *self._last) if self._last else read_messages(stored)
        except NotMessages:
            return None
        self._last = stored, found
        return found
