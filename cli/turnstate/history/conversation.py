"""The message channel of a thread, read from a store as far as the rule for questions asks.

Implements :class:`turnstate.history.questions.MessageReader`: small write rows first, whole payloads only where
their heads do not tell, message lists one at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from turnstate.history.ids import version_number
from turnstate.history.lines import Forest
from turnstate.history.messages import Message, MessageList, NotMessages, of_plain, read_grown, read_messages
from turnstate.history.steps import INTERRUPT
from turnstate_backends import heads
from turnstate_backends.interface import Store, Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored, Tagged


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
        self._last: tuple[Stored | Absent, MessageList] | None = None
        self._lists: dict[str, tuple[Message, ...] | None] = {}
        self._whole: dict[tuple[str, str, int], Stored] | None = None

    def state(self, checkpoint: str) -> tuple[Message, ...] | None:
        """The list as the checkpoint holds it; None when it holds none that can be read."""
        if checkpoint not in self._lists:
            while len(self._lists) > 1:  # the rule looks at a row and the one before it
                del self._lists[next(iter(self._lists))]
            found = self._read_list(self.value(checkpoint, self.channel))
            self._lists[checkpoint] = None if found is None else found.messages
        return self._lists[checkpoint]

    def _read_list(self, stored: Stored | Absent) -> MessageList | None:
        """The list of one payload; what it shares with the one that was read before is not read again."""
        if self._last is not None:
            grown = read_grown(stored, *self._last)
            if grown is not None:
                self._last = stored, grown
                return grown
        found = _read(stored)
        self._last = None if found is None else (stored, found)
        return found

    def written(self, checkpoint: str) -> list[tuple[Write, MessageList | None]]:
        """Writes to the channel on top of a checkpoint; None for one that cannot be read."""
        found: list[tuple[Write, MessageList | None]] = []
        for write in self.on(checkpoint):
            if write.channel == self.channel:
                try:
                    found.append((write, _read(write.value)))
                except heads.Cut:
                    found.append((write, _read(self._whole_payload(write))))
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
        """The whole of a write. The first call reads all whose heads are too short, in one go."""
        if self._whole is None:
            cut = {w.checkpoint for rows in self.records.writes.values() for w in rows if self._is_cut(w)}
            whole = self.store.writes(
                self.thread, self.ns, channels=[self.channel], checkpoints=cut, head=None
            )
            self._whole = {(w.checkpoint, w.task, w.idx): w.value for w in whole}
        return self._whole[write.checkpoint, write.task, write.idx]

    def _is_cut(self, write: Write) -> bool:
        if write.channel != self.channel or write.value.complete:
            return False
        try:
            _read(write.value)
        except heads.Cut:
            return True
        return False


def _read(stored: Stored | Absent) -> MessageList | None:
    try:
        return read_messages(stored)
    except NotMessages:
        return None
