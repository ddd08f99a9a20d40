"""Versions: who wrote a key, and when, along a line.

A write row tells where there is one. Where none does, a key was written if its channel's version changed and,
for an entry of a mapping, its value too; that is marked as inferred.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history.keys import Key, entries_of, entry_name, is_empty_mapping, named_entries
from turnstate.history.steps import Step
from turnstate.history.thread import History
from turnstate_backends import heads
from turnstate_backends.interface import Write
from turnstate_backends.values import Absent, Stored

Entries = Mapping[str, bytes]


class Version(Struct, frozen=True):
    """One version of a key.

    Attributes:
        row: Position on the line of the row that holds what was written.
        write: The write row; None where none tells, and the version or the value changed.
        lost: It was written in rows that are gone: ``row`` is only the first kept one that holds it.
    """

    row: int
    write: Write | None
    lost: bool = False


class Written(Struct, frozen=True):
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


def latest(history: History, versions: Sequence[Version], row: int) -> Written | None:
    """The last of some versions up to a row of the line.

    Of several tasks that wrote in one step, LangGraph applies the one with the greatest path last
    (``langgraph.pregel._algo.apply_writes``); where no path is stored, the node's name stands for it.
    """
    up_to = [v for v in versions if v.row <= row]
    if not up_to:
        return None
    together = [(v, history.writers.node(v.row, v.write)) for v in up_to if v.row == up_to[-1].row]
    version, node = max(together, key=lambda item: _applied_at(*item))
    return Written(
        () if version.lost else history.turns.at_row(version.row),
        history.line.rows[version.row].id,
        node,
        history.row_time(version.row),
        version.write is None,
    )


def _applied_at(version: Version, node: str | None) -> str:
    path = version.write.path if version.write else ""
    return path or f"~__pregel_pull, {node or ''}"


def versions_by_key(
    history: History, channels: Collection[str] | None = None, *, at: int | None = None
) -> Mapping[Key, Sequence[Version]]:
    """Every version of every key along the line, oldest first; worked out once per thread and set of channels.

    Args:
        history: The thread.
        channels: Only keys of these channels; of all but LangGraph's own when None.
        at: A row that will be spoken of. What the writes tell must bear out there and at the tip, or they are
            not believed and every version is inferred.
    """
    believed = _borne_out(history, channels, {len(history.line.rows) - 1} | (set() if at is None else {at}))
    which = None if channels is None else frozenset(channels), believed
    if which not in history.versions:
        history.versions[which] = _every_version(history, channels, believed=believed)
    return history.versions[which]


def _every_version(
    history: History, channels: Collection[str] | None, *, believed: bool
) -> dict[Key, list[Version]]:
    tip = _Tip(history, channels)
    index: dict[Key, list[Version]] = {}
    empty: list[tuple[int, Write]] = []
    for key, version in _writes_along(history, channels, tip, empty, believed=believed):
        index.setdefault(key, []).append(version)
    for i, write in empty:
        if not _merged_nothing(history, tip, index, i, write):
            versions = index.setdefault(Key(write.channel), [])
            versions.append(Version(i, write))
            versions.sort(key=lambda version: version.row)
    return index


def _borne_out(history: History, channels: Collection[str] | None, rows: Collection[int]) -> bool:
    """Whether channels still have, at some rows, the version of the last step whose writes name them, or no value."""
    told: list[tuple[str, int, int]] = []
    for row in rows:
        last: dict[str, int] = {}
        for i in range(row, -1, -1):
            writes = history.steps[i].writes
            if writes is None:  # versions are looked at there anyway
                break
            for write in writes:
                last.setdefault(write.channel, i)
        told += [
            (channel, i, row)
            for channel, i in last.items()
            if i != row and (not history.is_internal(channel) if channels is None else channel in channels)
        ]
    ids = {history.line.rows[i].id for _, *around in told for i in around}
    versions = history.store.versions(history.thread, history.ns, ids) if ids else {}
    moved = [
        (channel, history.line.rows[row].id)
        for channel, i, row in told
        if versions.get(history.line.rows[i].id, {}).get(channel)
        != versions.get(history.line.rows[row].id, {}).get(channel)
    ]
    # A channel that keeps its value for one step only is emptied without a write.
    now = (history.values(id, [channel]).get(channel) for channel, id in moved)
    return all(isinstance(held, Absent) and held.kind == "empty" for held in now)


def versions_of(index: Mapping[Key, Sequence[Version]], key: Key) -> Sequence[Version]:
    """The versions of a key; of an entry that none tell of by name those of its channel, with which it came."""
    found = index.get(key, ())
    return found if found or key.entry is None else index.get(Key(key.channel), ())


def turns_of(history: History, versions: Iterable[Version]) -> tuple[int, ...]:
    """The turns in which versions were written, each once, ascending; of lost ones that cannot be told."""
    rows = {version.row for version in versions if not version.lost}
    return tuple(sorted({n for row in rows for n in history.turns.at_row(row)}))


class _Tip:
    """What the line's last row holds, to tell mappings from other channels; read when it is first needed."""

    def __init__(self, history: History, channels: Collection[str] | None) -> None:
        self.history = history
        self._channels = channels
        self._entries: dict[str, frozenset[str] | None] = {}

    @cached_property
    def _state(self) -> Mapping[str, Stored | Absent]:
        return self.history.values(self.history.line.rows[-1].id, self._channels)

    def holds(self, channel: str) -> bool:
        """Whether the channel has a value there."""
        return isinstance(self._state.get(channel), Stored)

    def entries(self, channel: str) -> frozenset[str] | None:
        """Names of a mapping's entries; None for what is no mapping there."""
        if channel not in self._entries:
            self._entries[channel] = self._read(channel)
        return self._entries[channel]

    def _read(self, channel: str) -> frozenset[str] | None:
        stored = self._state.get(channel)
        try:
            if not isinstance(stored, Stored) or heads.class_name(stored) is not None:
                return None
            names = heads.keys(stored)
        except (heads.Unreadable, heads.Cut):
            return None
        return None if names is None else frozenset(map(entry_name, names))


def _writes_along(
    history: History,
    channels: Collection[str] | None,
    tip: _Tip,
    empty: list[tuple[int, Write]],
    *,
    believed: bool,
) -> Iterator[tuple[Key, Version]]:
    """What the writes tell, and what must be inferred; empty mappings are put into ``empty`` to be judged later."""
    named = _NamedEntries(history, channels, tip)
    steps = [s if believed or s.arrival == "input" else replace(s, writes=None) for s in history.steps]
    unknown = _UnknownSteps(history, steps, channels)
    for i, step in enumerate(steps):
        if step.writes is None:
            lost = is_lost(history, i)
            yield from ((key, Version(i, None, lost)) for key in unknown.keys_written(i))
            continue
        for write in step.writes:
            if history.is_internal(write.channel) if channels is None else write.channel not in channels:
                continue
            if is_empty_mapping(write.value):
                empty.append((i, write))
                continue
            version = Version(i, write)
            yield from ((Key(write.channel, entry), version) for entry in named.by(i, write))
            yield Key(write.channel), version


def is_lost(history: History, i: int) -> bool:
    """Whether what a first kept row holds anew may be older: turns or rows before it are gone."""
    line = history.line
    if i == 0:
        return line.front_dangling or (line.front_missing and 1 not in history.turns.at_row(0))
    if i not in line.seams:
        return False
    return line.rows[i].source == "input" or any(
        turn.inherited and turn.first == i for turn in history.turns.turns
    )


def _merged_nothing(
    history: History, tip: _Tip, index: Mapping[Key, list[Version]], i: int, write: Write
) -> bool:
    """An empty mapping that was merged into others wrote nothing; one that replaced them did.

    An entry that was written before it and never after, and is still there at the tip, proves a merge.
    """
    written = (index.get(Key(write.channel, entry), []) for entry in tip.entries(write.channel) or ())
    if any(versions and versions[-1].row < i for versions in written):
        return True
    found = history.values(history.line.rows[i].id, [write.channel])
    return bool(entries_of(found.get(write.channel, Absent("empty"))))


class _NamedEntries:
    """The entries of a mapping channel that a write names.

    A head that is too short for the names is read whole, all such in one go, and kept without values. Where a
    reducer takes something else than a mapping of entries, the mapping before and after tells.
    """

    def __init__(self, history: History, channels: Collection[str] | None, tip: _Tip) -> None:
        self.history = history
        self._channels = channels
        self._tip = tip
        self._whole: dict[tuple[str, str, int], tuple[str, ...]] | None = None

    def by(self, i: int, write: Write) -> Collection[str]:
        """Entries that a write into row ``i`` wrote."""
        if write.channel == self.history.messages:
            return ()
        names = self._names(write)
        at_tip = self._tip.entries(write.channel)
        if at_tip is None:  # what is no mapping has no entries, whatever was written to it
            return () if self._tip.holds(write.channel) else names
        if names and at_tip.issuperset(names):
            return names
        after = self._entries(i, write.channel)
        if names and all(name in after for name in names):
            return names
        before = self._entries(i - 1, write.channel)
        return [name for name, part in after.items() if before.get(name) != part]

    def _names(self, write: Write) -> tuple[str, ...]:
        try:
            return named_entries(write.value)
        except heads.Cut:
            if self._whole is None:
                self._whole = self._read()
            return self._whole[write.checkpoint, write.task, write.idx]

    def _read(self) -> dict[tuple[str, str, int], tuple[str, ...]]:
        history = self.history
        cut = [w for rows in history.writes.values() for w in rows if self._is_cut(w)]
        whole = history.store.writes(
            history.thread,
            history.ns,
            channels={w.channel for w in cut},
            checkpoints={w.checkpoint for w in cut},
            head=None,
        )
        return {(w.checkpoint, w.task, w.idx): named_entries(w.value) for w in whole}

    def _is_cut(self, write: Write) -> bool:
        if self._channels is not None and write.channel not in self._channels:
            return False
        if write.value.complete or write.channel == self.history.messages:
            return False
        try:
            named_entries(write.value)
        except heads.Cut:
            return True
        return False

    def _entries(self, i: int, channel: str) -> Entries:
        if i < 0:
            return {}
        found = self.history.values(self.history.line.rows[i].id, [channel])
        return _entries(found.get(channel, Absent("empty")))


class _UnknownSteps:
    """What must have been written in steps whose write rows are gone or could be another branch's."""

    def __init__(self, history: History, steps: Sequence[Step], channels: Collection[str] | None) -> None:
        self.history = history
        self.channels = channels
        around = {
            row.id
            for i, step in enumerate(steps)
            if step.writes is None
            for row in history.line.rows[max(i - 1, 0) : i + 1]
        }
        self.versions = history.store.versions(history.thread, history.ns, around) if around else {}
        self._last: tuple[str | None, dict[str, Entries]] = (None, {})

    def keys_written(self, i: int) -> Iterator[Key]:
        history = self.history
        row = history.line.rows[i]
        before = history.line.rows[i - 1].id if i else None
        old_versions = {} if before is None else self.versions.get(before, {})
        changed = [
            channel
            for channel, version in self.versions.get(row.id, {}).items()
            if (not history.is_internal(channel) if self.channels is None else channel in self.channels)
            and old_versions.get(channel) != version
        ]
        old = self._last[1] if self._last[0] == before else {}
        missing = [channel for channel in changed if channel not in old]
        old = {} if before is None else {**old, **self._mappings(before, missing)}
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
