"""Versions: who wrote a key, and when, along a line.

A write row tells where there is one. Where none does, a key was written if its channel's version changed and,
for an entry of a mapping, its value too; that is marked as inferred.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from turnstate.history.keys import Key, entries_of, entry_name
from turnstate.history.steps import is_internal
from turnstate.history.thread import ThreadHistory
from turnstate_backends import heads
from turnstate_backends.interface import Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored

Entries = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a key.

    Attributes:
        row: Position on the line of the row that holds what was written.
        write: The write row; None where none tells, and the version or the value changed.
        lost: It was written in rows that are gone: ``row`` is only the first kept one that holds it.
    """

    row: int
    write: Write | None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """A version, as a reader is told of it.

    Attributes:
        turns: The turns that its row belongs to; empty when it was written in rows that are gone.
        checkpoint: The row's id.
        node: Who wrote; ``__start__`` for an input, ``update_state`` for an edit; None when nothing tells.
        time: When the row was made.
        inferred: No write row tells of it.
    """

    turns: tuple[int, ...]
    checkpoint: str
    node: str | None
    time: datetime | None
    inferred: bool


def latest(history: ThreadHistory, versions: Sequence[Version], row: int) -> Written | None:
    """The last of some versions up to a row of the line."""
    version = next((v for v in reversed(versions) if v.row <= row), None)
    if version is None:
        return None
    return Written(
        () if version.lost else history.turns.at_row(version.row),
        history.line.rows[version.row].id,
        history.writers.node(version.row, version.write),
        history.row_time(version.row),
        version.write is None,
    )


def versions_by_key(
    history: ThreadHistory, channels: Collection[str] | None = None
) -> dict[Key, list[Version]]:
    """Every version of every key along the line, oldest first.

    Args:
        history: The thread.
        channels: Only keys of these channels; of all but LangGraph's own when None.
    """
    index: dict[Key, list[Version]] = {}
    for key, version in _writes_along(history, channels):
        index.setdefault(key, []).append(version)
    return index


def turns_of(history: ThreadHistory, versions: Iterable[Version]) -> tuple[int, ...]:
    """The turns in which versions were written, each once, ascending; of lost ones that cannot be told."""
    rows = {version.row for version in versions if not version.lost}
    return tuple(sorted({n for row in rows for n in history.turns.at_row(row)}))


def _writes_along(history: ThreadHistory, channels: Collection[str] | None) -> Iterator[tuple[Key, Version]]:
    cut = _CutEntries(history)
    unknown = _UnknownSteps(history, channels)
    for i, step in enumerate(history.steps):
        if step.writes is None:
            lost = is_lost(history, i)
            yield from ((key, Version(i, None, lost)) for key in unknown.keys_written(i))
            continue
        for write in step.writes:
            if is_internal(write.channel) if channels is None else write.channel not in channels:
                continue
            version = Version(i, write)
            entries = cut.entries_of(write)
            yield from ((Key(write.channel, entry), version) for entry in entries)
            if entries or not _merged_nothing(history, i, write):
                yield Key(write.channel), version


def is_lost(history: ThreadHistory, i: int) -> bool:
    """Whether what a first kept row holds anew may be older: turns or rows before it are gone."""
    line = history.line
    if i == 0:
        return line.front_dangling or (line.front_missing and 1 not in history.turns.at_row(0))
    if i not in line.seams:
        return False
    return line.rows[i].source == "input" or any(
        turn.inherited and turn.first == i for turn in history.turns.turns
    )


def _merged_nothing(history: ThreadHistory, i: int, write: Write) -> bool:
    """An empty mapping that was merged into others wrote nothing; one that replaced them did."""
    if write.value.size > 2 or decode(write.value) != {}:
        return False
    return bool(entries_of(history.conversation.value(history.line.rows[i].id, write.channel)))


class _CutEntries:
    """Entry names of writes; those whose heads are too short for them are read in one go and kept without values."""

    def __init__(self, history: ThreadHistory) -> None:
        self.history = history
        self._whole: dict[tuple[str, str, int], tuple[str, ...]] | None = None

    def entries_of(self, write: Write) -> tuple[str, ...]:
        if write.channel == self.history.messages:
            return ()
        try:
            return entries_of(write.value)
        except heads.Cut:
            if self._whole is None:
                self._whole = self._read()
            return self._whole[write.checkpoint, write.task, write.idx]

    def _read(self) -> dict[tuple[str, str, int], tuple[str, ...]]:
        cut = [w for rows in self.history.writes.values() for w in rows if not w.value.complete]
        whole = self.history.store.writes(
            self.history.thread,
            self.history.ns,
            channels={w.channel for w in cut} - {self.history.messages},
            checkpoints={w.checkpoint for w in cut},
            head=None,
        )
        return {(w.checkpoint, w.task, w.idx): entries_of(w.value) for w in whole}


class _UnknownSteps:
    """What must have been written in steps whose write rows are gone or could be another branch's."""

    def __init__(self, history: ThreadHistory, channels: Collection[str] | None) -> None:
        self.history = history
        self.channels = channels
        around = {
            row.id
            for i, step in enumerate(history.steps)
            if step.writes is None
            for row in history.line.rows[max(i - 1, 0) : i + 1]
        }
        self.versions = history.store.versions(history.thread, history.ns, around) if around else {}
        self._last: tuple[str, dict[str, Entries]] = ("", {})

    def keys_written(self, i: int) -> Iterator[Key]:
        history = self.history
        row = history.line.rows[i]
        before = history.line.rows[i - 1].id if i else ""
        old_versions = self.versions.get(before, {})
        changed = [
            channel
            for channel, version in self.versions.get(row.id, {}).items()
            if (not is_internal(channel) if self.channels is None else channel in self.channels)
            and old_versions.get(channel) != version
        ]
        old = self._last[1] if self._last[0] == before else {}
        missing = [channel for channel in changed if channel not in old]
        old = {**old, **self._mappings(before, missing)} if before else {}
        new = self._mappings(row.id, changed)
        self._last = (row.id, new)
        for channel in changed:
            was, now = old.get(channel, {}), new.get(channel, {})
            yield from (Key(channel, name) for name in now if was.get(name) != now[name])
            yield Key(channel)

    def _mappings(self, checkpoint: str, channels: Collection[str]) -> dict[str, Entries]:
        """Entry → payload of the mapping channels among ``channels``, to compare by."""
        wanted = [channel for channel in channels if channel != self.history.messages]
        if not wanted:
            return {}
        history = self.history
        found = history.values(checkpoint, wanted)
        return {channel: _entries(stored) for channel, stored in found.items()}


def _entries(stored: Stored | Absent) -> Entries:
    if isinstance(stored, Absent):
        return {}
    try:
        if heads.class_name(stored) is not None:
            return {}
        return {entry_name(name): part.data for name, part in (heads.entries(stored) or {}).items()}
    except (heads.Unreadable, heads.Cut):
        return {}
