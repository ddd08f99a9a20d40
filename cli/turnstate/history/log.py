"""The log of a key: every version of it along a line, with what each did to the value.

Who wrote comes from :mod:`turnstate.history.versions`; what was there before and after is read from the state, one
channel along the rows that may have changed it, so that a reducer's doing shows too. Memory holds the state of one
row at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice

from msgspec import Struct

from turnstate.history import keys as key_names
from turnstate.history.endings import ending_backwards, ending_forwards
from turnstate.history.keys import Key
from turnstate.history.parts import Change, Part, change_of, equal_if_stored, is_news
from turnstate.history.steps import RESUME
from turnstate.history.thread import History
from turnstate.history.versions import Version, is_lost, versions_by_key
from turnstate_backends import heads
from turnstate_backends.interface import WHOLE
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored


class Logged(Struct, frozen=True):
    """One version of a key.

    Attributes:
        key: Channel and entry.
        row: Position on the line of the row that holds what was written.
        turns: The turns that the row belongs to; empty where it was written in rows that are gone.
        checkpoint: The row's id.
        step: The row's step, as it is stored; None where it was written in rows that are gone.
        time: When the row was made; None likewise.
        nodes: Who wrote, each once, in the order in which LangGraph applied the writes; empty when nothing tells.
        run: ``run_id`` of the row, where the deployment recorded one.
        change: Against the version before; ``same`` is a rewrite with an equal value, of an entry with an equal whole;
            None where that cannot be told, since one of the two cannot be read or what came before the first kept
            row is not known, and where the key was there neither before nor after.
        inferred: No write row tells of it.
        lost: It was written in rows that are gone; ``row`` is the first kept one that holds it.
        before: What the key held before.
        now: What it holds since.
        ends_turn: The turn ended with it.
        reread: Nothing wrote it: a run began there, and LangGraph read the value back in another form than it was
            written, as it does with what it cannot import.
    """

    key: Key
    row: int
    turns: tuple[int, ...]
    checkpoint: str
    step: int | None
    time: datetime | None
    nodes: tuple[str, ...]
    run: str | None
    change: Change | None
    inferred: bool
    lost: bool
    before: Part
    now: Part
    ends_turn: bool = False
    reread: bool = False


class Span(Struct, frozen=True):
    """Rows of a line to look at, both ends included, and the turns that are meant; all where None."""

    first: int
    last: int
    turns: range | None = None


class _Held(Struct, frozen=True):
    """A channel in one row: its payload, and the entries where it is a mapping."""

    whole: Stored | Absent
    entries: Mapping[str, Stored] | None = None


class Log:
    """The versions of some or all keys of a thread, read as they are asked for.

    Args:
        history: The thread.
        internal: LangGraph's own channels too.
    """

    def __init__(self, history: History, *, internal: bool = False) -> None:
        self.history = history
        self.internal = internal
        self._rereads: dict[int, set[str]] = {}

    @cached_property
    def index(self) -> Mapping[Key, Sequence[Version]]:
        """Key → the versions that writes tell of, or where none do, that changed values do."""
        return versions_by_key(self.history, self._channels_of_tip() if self.internal else None)

    @cached_property
    def known(self) -> Collection[Key]:
        """Every key that a write names or the newest row holds, in order of their first version."""
        history = self.history
        tip = history.values(history.line.rows[-1].id)
        tip = {name: held for name, held in tip.items() if name != WHOLE and self._shown(name)}
        keys = [*self.index, *key_names.all_keys(tip), *(Key(channel) for channel in tip)]
        return dict.fromkeys(keys)

    @cached_property
    def names(self) -> Mapping[Key, str]:
        """The shortest unambiguous address of each known key."""
        return key_names.display_names(self.known)

    def leaves(self) -> list[Key]:
        """The known keys, a mapping by its entries."""
        by_entry = {key.channel for key in self.known if key.entry is not None}
        return [key for key in self.known if key.entry is not None or key.channel not in by_entry]

    def name(self, key: Key) -> str:
        """How a key is addressed."""
        return self.names.get(key) or key.full_name

    def versions(
        self,
        keys: Collection[Key] | None = None,
        *,
        span: Span | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Iterator[Logged]:
        """Versions in order of time, one row after the other.

        Args:
            keys: Only of these; of all when None, a mapping by its entries.
            span: Only in these rows.
            limit: The most recent ones, so many.
            reverse: Newest first.
        """
        span = span or Span(0, len(self.history.line.rows) - 1)
        if reverse:
            return islice(self._backwards(keys, span), limit)
        if limit is None:
            return self._forwards(keys, span)
        latest = {(v.row, v.key) for v in islice(self._backwards(keys, span), limit)}
        if not latest:
            return iter(())
        span = Span(min(row for row, _ in latest), span.last)
        return (v for v in self._forwards(keys, span) if (v.row, v.key) in latest)

    def _shown(self, channel: str) -> bool:
        return self.internal or not self.history.is_internal(channel)

    def _channels_of_tip(self) -> Collection[str]:
        history = self.history
        tip = history.line.rows[-1].id
        named = {w.channel for rows in history.writes.values() for w in rows}
        return named | set(history.store.versions(history.thread, history.ns, [tip]).get(tip, ()))

    def parts(self, rows: Sequence[int], keys: Collection[Key]) -> Iterator[tuple[int, Mapping[Key, Part]]]:
        """What each of some rows holds of some keys."""
        channels = {key.channel for key in keys}
        for row, state in self._states(rows, channels):
            held = {channel: self._held(state, channel) for channel in channels}
            yield row, {key: _part(held[key.channel], key) for key in keys}

    # Rows.

    def _touched(self, keys: Collection[Key] | None) -> dict[int, set[str]]:
        """Row → the channels that may hold something else than in the row before."""
        channels = {key.channel for key in (self.index if keys is None else keys)}
        touched: dict[int, set[str]] = {}
        for key, versions in self.index.items():
            if key.channel in channels:
                for version in versions:
                    touched.setdefault(version.row, set()).add(key.channel)
        for i, step in enumerate(
            self.history.steps
        ):  # a write of nothing can still make a reducer drop something
            for write in step.writes or ():
                if write.channel in channels:
                    touched.setdefault(i, set()).add(write.channel)
        self._rereads = self._reread(touched)
        for found in (self._emptied(touched), self._rereads):
            for row, names in found.items():
                touched.setdefault(row, set()).update(names)
        return touched

    def _emptied(self, touched: Mapping[int, Collection[str]]) -> dict[int, set[str]]:
        """Rows right after writes, of those channels that keep a value for one step only.

        What kind a channel is stands nowhere: the rows after its first and its last write are looked at.
        """
        after: dict[str, list[int]] = {}
        for row in sorted(touched):
            for channel in touched[row]:
                if row + 1 < len(self.history.line.rows) and channel not in touched.get(row + 1, ()):
                    after.setdefault(channel, []).append(row + 1)
        probes: dict[int, set[str]] = {}
        for channel, rows in after.items():
            for row in (rows[0], rows[-1]):
                probes.setdefault(row, set()).add(channel)
        short_lived = {
            channel
            for row, state in self._states(sorted(probes), after)
            for channel in probes[row]
            if self._held(state, channel) is None
        }
        found: dict[int, set[str]] = {}
        for channel in short_lived:
            for row in after[channel]:
                found.setdefault(row, set()).add(channel)
        return found

    def _reread(self, touched: Mapping[int, Collection[str]]) -> dict[int, set[str]]:
        """Rows after writes with which a run began, of those channels that it read back in another form.

        LangGraph makes plain data of what it cannot import, and a row that holds its values itself then stores that.
        Which channels hold such is not known before: the first and the last run after a write are looked at.
        """
        begins = {i for i in range(1, len(self.history.line.rows)) if self._begins_run(i)}
        pairs: dict[str, list[tuple[int, int]]] = {}
        latest: dict[str, int] = {}
        for row in sorted({*touched, *begins}):
            if row in begins:
                for channel, written in latest.items():
                    if channel not in touched.get(row, ()):
                        pairs.setdefault(channel, []).append((written, row))
                latest.clear()
            latest |= dict.fromkeys(touched.get(row, ()), row)
        pairs.pop(self.history.messages, None)
        probes: dict[int, set[str]] = {}
        for channel, found in pairs.items():
            for row in {*found[0], *found[-1]}:
                probes.setdefault(row, set()).add(channel)
        held: dict[str, Part] = {}
        changing = set()
        for row, state in self._states(sorted(probes), sorted(pairs)):
            for channel in probes[row]:
                old, new = held.get(channel), state.get(channel)
                if any(row == after for _, after in pairs[channel]) and not equal_if_stored(old, new):
                    changing.add(channel)
                held[channel] = new
        rereads: dict[int, set[str]] = {}
        for channel in changing:
            for _, row in pairs[channel]:
                rereads.setdefault(row, set()).add(channel)
        return rereads

    def _begins_run(self, i: int) -> bool:
        """Whether a run began with a row of the line, so that its values had been read from the store."""
        if self.history.steps[i].arrival != "step":
            return True
        before = self.history.line.rows[i - 1].id
        return any(write.channel == RESUME for write in self.history.writes.get(before, ()))

    def _states(
        self, rows: Sequence[int], channels: Collection[str]
    ) -> Iterator[tuple[int, Mapping[str, Stored | Absent]]]:
        """What each row holds of some channels; nothing where it has none of them."""
        ids = [self.history.line.rows[row].id for row in rows]
        found = self.history.values_along(ids, sorted(channels))
        at = next(found, None)
        for row, id in zip(rows, ids, strict=True):
            if at is not None and at[0] == id:
                yield row, at[1]
                at = next(found, None)
            else:
                yield row, {}

    def _held(self, state: Mapping[str, Stored | Absent], channel: str) -> _Held | None:
        stored = state.get(channel)
        if stored is None or (isinstance(stored, Absent) and stored.kind == "empty"):
            return None
        if isinstance(stored, Absent):
            return _Held(stored)
        try:
            if channel == self.history.messages or heads.class_name(stored) is not None:
                return _Held(stored)
            entries = heads.entries(stored)
        except (heads.Unreadable, heads.Cut):
            unreadable = decode(stored)
            return _Held(unreadable if isinstance(unreadable, Absent) else stored)
        if entries is None:
            return _Held(stored)
        return _Held(stored, {key_names.entry_name(name): part for name, part in entries.items()})

    # What happened between two rows.

    def _forwards(self, keys: Collection[Key] | None, span: Span) -> Iterator[Logged]:
        touched = {row: names for row, names in self._touched(keys).items() if row <= span.last}
        latest: dict[str, int] = {}
        for row in sorted(row for row in touched if row < span.first):
            latest |= dict.fromkeys(touched[row], row)
        wanted = {row: names for row, names in touched.items() if row >= span.first}
        for channel, row in latest.items():  # what was there before
            wanted.setdefault(row, set()).add(channel)
        found = ending_forwards(self.history, self._forward_versions(keys, span, wanted), span.last)
        return (version for version in found if self._meant(version, span))

    def _forward_versions(
        self, keys: Collection[Key] | None, span: Span, touched: Mapping[int, set[str]]
    ) -> Iterator[Logged]:
        named = self._named(keys)
        held: dict[str, _Held | None] = {}
        for row, state in self._states(sorted(touched), set().union(*touched.values())):
            for channel in sorted(touched[row]):
                now = self._held(state, channel)
                if row >= span.first:
                    yield from self._between(
                        keys, row, channel, held.get(channel), now, named.get((row, channel), {})
                    )
                held[channel] = now

    def _backwards(self, keys: Collection[Key] | None, span: Span) -> Iterator[Logged]:
        found = ending_backwards(self.history, self._backward_versions(keys, span))
        return (version for version in found if self._meant(version, span))

    def _meant(self, version: Logged, span: Span) -> bool:
        """Whether a version was written in the turns of a span; a lost one, whether it may have been."""
        if span.turns is None:
            return True
        if not version.lost:
            return any(number in span.turns for number in version.turns)
        here = self.history.turns.at_row(version.row)[0]
        begins = self.history.turns.turns[here].first == version.row
        return span.turns.start < here or (here in span.turns and not begins)

    def _backward_versions(self, keys: Collection[Key] | None, span: Span) -> Iterator[Logged]:
        """Each row is compared with the one before it, which is read for that."""
        touched = {row: v for row, v in self._touched(keys).items() if span.first <= row <= span.last}
        named = self._named(keys)
        rows = sorted({i for row in touched for i in (row, row - 1) if i >= 0}, reverse=True)
        later: dict[str, _Held | None] = {}

        def between(row: int, before: Mapping[str, _Held | None]) -> Iterator[Logged]:
            for channel in sorted(touched.get(row, ()), reverse=True):
                found = self._between(
                    keys, row, channel, before.get(channel), later[channel], named.get((row, channel), {})
                )
                yield from reversed(list(found))

        for row, state in self._states(rows, set().union(*touched.values())):
            wanted = touched.get(row, set()) | touched.get(row + 1, set())
            here = {channel: self._held(state, channel) for channel in wanted}
            yield from between(row + 1, here)
            later = here
        yield from between(0, {})

    def _named(self, keys: Collection[Key] | None) -> dict[tuple[int, str], dict[Key, list[Version]]]:
        """Row and channel → key → the versions that are known without reading a value."""
        found: dict[tuple[int, str], dict[Key, list[Version]]] = {}
        for key, versions in self.index.items():
            if keys is None or key in keys:
                for version in versions:
                    found.setdefault((version.row, key.channel), {}).setdefault(key, []).append(version)
        unpaired = {
            row
            for (row, _), by_key in found.items()
            if self.history.steps[row].arrival == "step"
            and any(v.write is None for versions in by_key.values() for v in versions)
        }
        self.history.writers.read_ahead(unpaired)
        return found

    def _between(
        self,
        keys: Collection[Key] | None,
        row: int,
        channel: str,
        before: _Held | None,
        now: _Held | None,
        named: Mapping[Key, Sequence[Version]],
    ) -> Iterator[Logged]:
        here = (
            _keys_in(channel, before, now, named)
            if keys is None
            else [key for key in keys if key.channel == channel]
        )
        for key in here:
            old, new = _part(before, key), _part(now, key)
            if key in named or is_news(old, new):
                yield self._logged(key, row, old, new, named.get(key, ()))

    def _logged(self, key: Key, row: int, old: Part, new: Part, versions: Sequence[Version]) -> Logged:
        history = self.history
        checkpoint, step = history.line.rows[row], history.steps[row]
        behind = [version.write for version in versions] or (
            [None] if step.writes is None else [w for w in step.writes if w.channel == key.channel]
        )
        nodes = dict.fromkeys(history.writers.node(row, write) for write in behind)
        lost = any(v.lost for v in versions) or (not versions and is_lost(history, row))
        return Logged(
            key,
            row,
            turns=() if lost else history.turns.at_row(row),
            checkpoint=checkpoint.id,
            step=None if lost else checkpoint.step,
            time=None if lost else history.row_time(row),
            nodes=tuple(node for node in nodes if node is not None),
            run=checkpoint.run_id,
            change=None if lost and row == 0 else change_of(old, new),
            inferred=all(version.write is None for version in versions),
            lost=lost,
            before=old,
            now=new,
            reread=not versions and key.channel in self._rereads.get(row, ()),
        )


def span_of(history: History, first: int, last: int) -> Span | None:
    """The rows of the turns ``first`` to ``last``, with those that hold the state as they ended.

    Returns:
        None when no row of any of them is kept.
    """
    rows: list[int] = []
    for turn in history.turns.turns[first : last + 1]:
        rows += [row for row in (turn.first, turn.last, turn.end) if row is not None]
    return Span(min(rows), max(rows), range(first, last + 1)) if rows else None


def _keys_in(
    channel: str, before: _Held | None, now: _Held | None, named: Mapping[Key, Sequence[Version]]
) -> list[Key]:
    """The keys of a channel of which a log of all keys tells: entries where it is a mapping, else the channel."""
    old, new = ((held.entries or {}) if held else {} for held in (before, now))
    latest = before if now is None else now
    whole = latest is not None and latest.entries is None
    by_write = [key.entry for key in named if key.entry is not None]
    names = dict.fromkeys([*([] if whole else [*old, *new]), *by_write])
    keys = [Key(channel, name) for name in names]
    return [*keys, Key(channel)] if whole or not keys else keys


def _part(held: _Held | None, key: Key) -> Part:
    if held is None:
        return None
    if key.entry is None or isinstance(held.whole, Absent):
        return held.whole
    return (held.entries or {}).get(key.entry)
