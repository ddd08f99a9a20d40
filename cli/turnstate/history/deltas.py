"""Channels that are kept as deltas: their value at any row, from the nearest snapshot and the writes since.

Between snapshots a ``DeltaChannel`` has a version in each row and no value; what tasks wrote to it hangs on the rows
before (``langgraph.channels.delta``, ``langgraph.pregel._checkpoint``). A value is rebuilt as an ordinary payload, or
is :class:`Absent` with the reason, the snapshot and the number of writes; nothing is guessed. This module knows where
writes lie and to which row they belong; how they add up is known to ``accumulate``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history import accumulate
from turnstate.history.accumulate import Rule, Unfit
from turnstate.history.lines import Forest, Line, is_beginning
from turnstate.history.steps import is_outside, is_update_task
from turnstate_backends import heads, pieces
from turnstate_backends.encryption import is_sealed
from turnstate_backends.interface import Checkpoint, Store, Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored

_MOST_TESTS = 4  # stretches between snapshots that are tried to find out a rule; each costs its snapshots
_MOST_HELD = 2  # stretches kept per channel
_MOST_STATES = 4  # states kept per rule: whoever compares looks at a row and the one before it

_Key = tuple[str, str, int]


class Unresolved(Exception):
    """Why a value cannot be rebuilt, in words."""


class RuleUnknown(Unresolved):
    """Its start and its writes are known, and how they add up is not."""


class Records(Protocol):
    """What a thread knows of itself, read when it is first needed."""

    store: Store
    thread: str
    ns: str
    messages: str

    @property
    def forest(self) -> Forest:
        """All checkpoints of the namespace."""

    @property
    def line(self) -> Line:
        """The line whose other snapshots may prove how a channel adds up."""

    @property
    def writes(self) -> Mapping[str, Sequence[Write]]:
        """Write rows by checkpoint, in LangGraph's order, with payload heads."""


class _Stretch(Struct, dict=True):
    """A channel from one stored value (or from where it held nothing) to the next, or to the end of the line.

    Attributes:
        rows: The row of the stored value first; last the row of the next one, where ``closing`` is it.
        base: The stored value; None where the channel held nothing yet.
        base_fault: Why the start is not known.
        snapshot: The checkpoint that holds the stored value, readable or not; None where there is none.
        closing: The next stored value; None where the stretch runs to the end of the line.
        writes: What was written on each row for the next: position in ``rows`` of the row that holds the result.
        fault: Position of the first row whose writes are not known, and why.
        verdicts: Whether a rule leads from ``base`` to ``closing``; None where it cannot be told.
        states: By rule, the latest states: position → state and the payload made of it.
    """

    rows: Sequence[Checkpoint]
    base: Stored | None
    base_fault: str | None
    snapshot: str | None
    closing: Stored | None
    writes: Mapping[int, tuple[Stored, ...]] = {}
    fault: tuple[int, str] | None = None
    verdicts: dict[str, bool | None] = {}
    states: dict[str, dict[int, _State]] = {}

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Checkpoint id → position."""
        return {row.id: i for i, row in enumerate(self.rows)}

    @property
    def is_whole(self) -> bool:
        """Whether start, writes and end are all known, so that a rule can be held against them."""
        known = self.base_fault is None and self.fault is None
        return known and self.closing is not None and bool(self.writes)

    @cached_property
    def holds_messages(self) -> bool:
        """Whether one of the values at hand is, or holds, an instance of a message class."""
        return any(map(accumulate.is_message, chain.from_iterable(map(_parts, self._values))))

    @cached_property
    def holds_nothing(self) -> bool:
        """Whether all values at hand are empty lists."""
        return all(_parts(value) == [] for value in self._values)

    @property
    def _values(self) -> Iterator[Stored]:
        writes = (write for on_row in self.writes.values() for write in on_row)
        return chain([self.base] if self.base else [], writes)

    def written(self, position: int) -> bool:
        """Whether anything was written up to a row."""
        return any(i <= position for i in self.writes)


class _State(Struct):
    value: Any
    payload: Stored | None = None


class Deltas:
    """The channels of one namespace that are kept as deltas.

    Args:
        records: The thread.
        rules: How a channel adds up, where the user said so.
    """

    def __init__(self, records: Records, rules: Mapping[str, Rule]) -> None:
        self.records = records
        self.rules = rules
        self._stretches: dict[str, list[_Stretch]] = {}

    @cached_property
    def channels(self) -> frozenset[str]:
        """The channels of which some row says that they are kept as deltas."""
        rows = self.records.forest.rows.values()
        return frozenset(name for row in rows for name in row.delta_channels)

    def rebuilt(self, checkpoint: str, found: Mapping[str, Stored | Absent]) -> Mapping[str, Stored | Absent]:
        """A row's payloads with the values of its delta channels in place of snapshots and of nothing."""
        changed = {
            channel: value
            for channel, stored in found.items()
            for value in [self._value(checkpoint, channel, stored)]
            if value is not stored
        }
        return {**found, **changed} if changed else found

    def _value(self, checkpoint: str, channel: str, stored: Stored | Absent) -> Stored | Absent:
        if isinstance(stored, Stored):
            held = pieces.snapshot_value(stored)
            return stored if held is None else replace(held, encrypted=stored.encrypted)
        rows = self.records.forest.rows
        if stored.kind != "empty" or channel not in self.channels or checkpoint not in rows:
            return stored
        stretch, position = self._stretch(channel, checkpoint)
        try:
            value = self._resolved(channel, stretch, position)
            return replace(value, encrypted=True) if self._sealed and isinstance(value, Stored) else value
        except Unresolved as reason:
            facts: dict[str, Any] = {"type": "delta", "reason": str(reason)}
            if stretch.snapshot is not None:
                facts["snapshot"] = stretch.snapshot
            if isinstance(reason, RuleUnknown):
                facts["rule"] = "unknown"
            before = [w for row in stretch.rows[:position] for w in self.records.writes.get(row.id, ())]
            own = [w for w in before if w.channel == channel]
            return self._encrypted(channel, stretch, own) or Absent(
                "delta_unresolved", {**facts, "writes": len(own)}
            )

    def _encrypted(self, channel: str, stretch: _Stretch, writes: Sequence[Write]) -> Absent | None:
        """The first part of a value that is still encrypted; None where all of them can be read."""
        sealed = next((w for w in writes if is_sealed(w.value)), None)
        part = stretch.base if sealed is None else self._whole(channel, [sealed])[_key(sealed)]
        if not isinstance(part, Stored) or not is_sealed(part):
            return None
        absent: Absent = decode(part)
        return absent

    @cached_property
    def _sealed(self) -> bool:
        """Whether any write is encrypted; of a value that is put together of several it is not told from which."""
        return any(w.value.encrypted for found in self.records.writes.values() for w in found)

    # Where a value can be rebuilt from.

    def _path(self, checkpoint: str) -> tuple[Sequence[Checkpoint], int]:
        """The rows linked by their parents around a checkpoint, oldest first, and its position among them."""
        line = self.records.line
        at = line.index.get(checkpoint)
        if at is None:
            chain = self.records.forest.chain(checkpoint)
            return chain, len(chain) - 1
        start = max((seam for seam in line.seams if seam <= at), default=0)
        stop = min((seam for seam in line.seams if seam > at), default=len(line.rows))
        return line.rows[start:stop], at - start

    def _stretch(self, channel: str, checkpoint: str) -> tuple[_Stretch, int]:
        """The stretch around a row that does not hold the channel's value itself, and the row's position in it."""
        held = self._stretches.setdefault(channel, [])
        for stretch in held:
            found = stretch.index.get(checkpoint)
            if found and not _closes(stretch, found):
                return stretch, found
        path, position = self._path(checkpoint)
        stretch = self._span(channel, path, position, position + 1)
        held[:] = [*held[1 - _MOST_HELD :], stretch]
        return stretch, stretch.index[checkpoint]

    def _span(self, channel: str, path: Sequence[Checkpoint], before: int, after: int) -> _Stretch:
        """The stretch from the last stored value before one position to the first at or after another."""
        start, base, fault = self._base(channel, path, before)
        snapshot = path[start].id if base is not None or (fault and start) else None
        closing, stop = None, after
        while stop < len(path) and closing is None:
            if channel not in path[stop].delta_channels:
                later = self._stored(channel, path[stop])
                if isinstance(later, Stored):
                    closing = later
                elif later.kind != "empty":
                    break
            stop += 1
        stretch = _Stretch(path[start:stop], base, fault, snapshot, closing)
        if fault is None:
            self._attach_writes(channel, stretch)
        return stretch

    def _base(
        self, channel: str, path: Sequence[Checkpoint], before: int
    ) -> tuple[int, Stored | None, str | None]:
        """Position of the row to start from, what it holds of the channel, and why that is not known."""
        for at in range(before - 1, -1, -1):
            row = path[at]
            if channel in row.delta_channels and (at or is_beginning(row)):
                continue
            stored = self._stored(channel, row)
            if isinstance(stored, Stored):
                return at, stored, None
            if stored.kind != "empty":
                return at, None, f"its snapshot cannot be read ({stored.kind.replace('_', ' ')})"
            if stored.stored.get("never"):
                return at, None, None
        if is_beginning(path[0]):
            return 0, None, None
        return 0, None, "rows before it, with its snapshot or its writes, are gone"

    def _stored(self, channel: str, row: Checkpoint) -> Stored | Absent:
        """What a row itself holds of a channel; ``never`` where it has not even a version of it."""
        of = self.records
        found = of.store.values(of.thread, of.ns, row.id, [channel]).get(channel)
        if found is None:
            return Absent("empty", {"never": True})
        return (pieces.snapshot_value(found) or found) if isinstance(found, Stored) else found

    # Which writes made a row.

    def _attach_writes(self, channel: str, stretch: _Stretch) -> None:
        rows = stretch.rows
        found: dict[int, Sequence[Write]] = {}
        for i in range(1, len(rows)):
            try:
                mine = self._writes_into(channel, rows[i - 1], rows[i], closes=_closes(stretch, i))
            except Unresolved as reason:
                stretch.fault = (i, str(reason))
                break
            if mine:
                found[i] = mine
        whole = self._whole(channel, [w for writes in found.values() for w in writes])
        stretch.writes = {i: tuple(whole[_key(w)] for w in writes) for i, writes in found.items()}

    def _writes_into(
        self, channel: str, parent: Checkpoint, row: Checkpoint, *, closes: bool
    ) -> Sequence[Write]:
        """The writes to a channel that lead from a row to the next.

        A row reads all writes on its parent (``BaseCheckpointSaver.get_delta_channel_history``). They are its own
        where it counted an update of the channel and no other child of the parent can have made them.

        Raises:
            Unresolved: Some are gone, or may be another branch's.
        """
        on_parent = self.records.writes.get(parent.id, ())
        writes = [w for w in on_parent if w.channel == channel]
        counted = None if closes else _updates_since(channel, parent, row)
        if (counted or 0) > len({w.task for w in writes}) or any(_has_gap(on_parent, w) for w in writes):
            raise Unresolved(f"writes on checkpoint {parent.id} are gone")
        if not writes:
            return ()
        dropped = counted == 0 and not all(map(is_outside, writes))
        # A new input drops what waited on its parent, and a replay starts over: both then have a snapshot.
        dropped |= closes and row.source in ("input", "fork")
        copy = row.source == "fork"
        foreign = not copy and {is_update_task(w) for w in writes} != {row.source == "update"}
        if dropped or foreign or len(self._rivals(writes, parent, row)) > copy:
            raise Unresolved(f"writes on checkpoint {parent.id} may be another branch's")
        return writes

    def _rivals(self, writes: Sequence[Write], parent: Checkpoint, row: Checkpoint) -> list[Checkpoint]:
        """Other children of a row that may have made the writes on it; a copy shares them with its original.

        A branch that leaves a row with writes on it makes a snapshot; of two that ran the same step, an
        ``Overwrite`` makes one, and else both do or neither.
        """
        others = [
            other
            for other in self.records.forest.children.get(parent.id, ())
            if other.id != row.id
            and other.source != "fork"
            and (other.source == "update") == (row.source == "update")
            and (other.source != "input" or row.source == "input")
        ]
        if others and any(map(_may_overwrite, writes)):
            return others
        return [other for other in others if writes[0].channel in other.delta_channels]

    def _whole(self, channel: str, writes: Sequence[Write]) -> Mapping[_Key, Stored]:
        """The whole payloads of writes, those that are longer than their heads read in one go."""
        found = {_key(w): w.value for w in writes}
        cut = {w.checkpoint for w in writes if not w.value.complete}
        if cut:
            of = self.records
            rows = of.store.writes(of.thread, of.ns, channels=[channel], checkpoints=cut, head=None)
            found.update({_key(w): w.value for w in rows})
        return found

    # How the writes add up.

    def _resolved(self, channel: str, stretch: _Stretch, position: int) -> Stored | Absent:
        if stretch.base_fault is not None:
            raise Unresolved(stretch.base_fault)
        if stretch.fault is not None and stretch.fault[0] <= position:
            raise Unresolved(stretch.fault[1])
        if not stretch.written(position):
            return stretch.base or Absent("empty")
        named = self.rules.get(channel)
        speaks = stretch.holds_messages or (channel == self.records.messages and stretch.holds_nothing)
        rule = named or (accumulate.MESSAGES if speaks else None)
        if rule is not None and self._holds(channel, rule, stretch):
            return self._payload(rule, stretch, position)
        if named is not None:
            refuted = f"{named.name} does not lead from one snapshot to the next"
            raise RuleUnknown(f"{refuted}; leave that rule out or name another")
        return self._proven(channel, stretch, position)

    def _holds(self, channel: str, rule: Rule, stretch: _Stretch) -> bool:
        """Whether nothing speaks against a rule: the stretch itself, or, where that has no end, the one before."""
        witness = stretch if stretch.is_whole else next(self._neighbours(channel, stretch), None)
        return witness is None or _verdict(rule, witness) is not False

    def _proven(self, channel: str, stretch: _Stretch, position: int) -> Stored | Absent:
        """The value by the rules that lead from each snapshot to the next, where those agree on it."""
        left: dict[str, Rule] = {rule.name: rule for rule in accumulate.GUESSES}
        reason = "no later or earlier snapshot shows how its writes add up"
        for witness in self._witnesses(channel, stretch):
            verdicts = {name: _verdict(rule, witness) for name, rule in left.items()}
            if None in verdicts.values():
                continue
            left = {name: rule for name, rule in left.items() if verdicts[name]}
            values = self._values(left, stretch, position)
            if len(values) == 1:
                return values[0]
            if not values:
                raise RuleUnknown("no rule that is known leads from one snapshot to the next")
            reason = f"its snapshots fit several rules ({', '.join(left)}), which differ here"
        raise RuleUnknown(reason)

    def _values(self, rules: Mapping[str, Rule], stretch: _Stretch, position: int) -> list[Stored]:
        """The different values that rules come to."""
        found: dict[bytes, Stored] = {}
        for rule in rules.values():
            try:
                value = self._payload(rule, stretch, position)
            except Unresolved:
                continue
            found[value.data] = value
        return list(found.values())

    def _witnesses(self, channel: str, stretch: _Stretch) -> Iterator[_Stretch]:
        if stretch.is_whole:
            yield stretch
        yield from self._neighbours(channel, stretch)

    def _neighbours(self, channel: str, stretch: _Stretch) -> Iterator[_Stretch]:
        """The whole stretches before one, nearest first, then those after it."""
        path, start = self._path(stretch.rows[0].id)
        at = start
        for _ in range(_MOST_TESTS):
            if not at:
                break
            other = self._span(channel, path, at, at)
            if other.is_whole:
                yield other
            at -= len(other.rows) - 1
        at = start + len(stretch.rows) - 1
        for _ in range(_MOST_TESTS):
            if at + 1 >= len(path):
                break
            other = self._span(channel, path, at + 1, at + 1)
            if other.is_whole:
                yield other
            at += len(other.rows) - 1

    def _payload(self, rule: Rule, stretch: _Stretch, position: int) -> Stored:
        """The value that a rule comes to at a row, from the nearest state that is held."""
        held = stretch.states.setdefault(rule.name, {})
        try:
            at = max((i for i in held if i <= position), default=0)
            state = held.pop(at) if at in held else _State(_loaded(rule, stretch.base))
            steps = [i for i in range(at + 1, position + 1) if i in stretch.writes]
            if steps:
                held[at] = state
                at = steps[-1]
                state = _State(_added(rule, state.value, [stretch.writes[i] for i in steps]))
            if state.payload is None:
                state.payload = rule.payload(state.value)
        except (Unfit, heads.Unreadable) as error:
            raise Unresolved(f"by the rule {rule.name}: {error}") from None
        held[at] = state
        for old in list(held)[:-_MOST_STATES]:
            del held[old]
        return state.payload


def _loaded(rule: Rule, stored: Stored | None) -> Any:
    """A channel starts empty where nothing, or a null, is stored (``DeltaChannel.from_checkpoint``)."""
    return rule.start() if stored is None or pieces.is_nothing(stored) else rule.load(stored)


def _added(rule: Rule, state: Any, steps: Sequence[Sequence[Stored]]) -> Any:
    """The state after some super-steps; an ``Overwrite`` becomes the value.

    A reducer gives the same for writes together as for one super-step's after the other's
    (``langgraph.channels.delta.DeltaChannel``), and LangGraph replays all that it reads at once.

    Raises:
        Unfit: Other writes follow an ``Overwrite`` in its super-step. A running graph drops them, one that reads
            its store again applies them.
    """
    rest: list[Stored] = []
    for writes in steps:
        overwrites = [accumulate.overwritten(write) for write in writes]
        inner = overwrites[-1]
        if any(found is not None for found in overwrites[:-1]):
            raise Unfit("an Overwrite and other writes in one super-step")
        if inner is not None:
            state, rest = _loaded(rule, inner), []
        else:
            rest.extend(writes)
    return rule.add(state, rest) if rest else state


def _verdict(rule: Rule, stretch: _Stretch) -> bool | None:
    """Whether a rule leads from a whole stretch's start to its end; None where that cannot be told."""
    if rule.name not in stretch.verdicts:
        try:
            stretch.verdicts[rule.name] = _leads(rule, stretch)
        except Unfit:
            stretch.verdicts[rule.name] = False
    return stretch.verdicts[rule.name]


def _leads(rule: Rule, stretch: _Stretch) -> bool | None:
    end, closing = len(stretch.rows) - 1, stretch.closing
    last = stretch.writes.get(end, ())
    if closing is None or any(accumulate.overwritten(write) is not None for write in last):
        return None  # what it was overwritten with tells nothing of what was before
    state = _loaded(rule, stretch.base)
    earlier = sorted(set(stretch.writes) - {end})
    state = _added(rule, state, [stretch.writes[i] for i in earlier])
    if last and rule.same(_added(rule, state, [last]), closing):
        return True
    if rule.same(state, closing):  # the last step's writes were dropped, as when a resume goes elsewhere
        return True if earlier else None
    return False if last else None


def _parts(stored: Stored) -> list[Stored]:
    """The elements of a list, also of one in an ``Overwrite``; anything else is one itself."""
    try:
        inner = accumulate.overwritten(stored) or stored
        found = heads.elements(inner)
    except (Unfit, heads.Unreadable, heads.Cut):
        return [stored]
    return [inner] if found is None else found


def _may_overwrite(write: Write) -> bool:
    """Whether a write is an ``Overwrite``, as far as its head tells."""
    try:
        return accumulate.overwritten(write.value) is not None
    except Unfit:
        return True


def _updates_since(channel: str, parent: Checkpoint, row: Checkpoint) -> int | None:
    """Super-steps that wrote the channel from a row to the next; None where that was not counted."""
    after = row.updates(channel)
    if after is None:
        return None
    return after - (parent.updates(channel) or 0)


def _closes(stretch: _Stretch, i: int) -> bool:
    return stretch.closing is not None and i == len(stretch.rows) - 1


def _has_gap(on_row: Sequence[Write], write: Write) -> bool:
    """Whether rows of a write's task are gone: it numbers its writes from 0, special channels have negative numbers."""
    numbers = [w.idx for w in on_row if w.task == write.task]
    return not is_outside(write) and max(numbers) + 1 > len(numbers)


def _key(write: Write) -> _Key:
    return write.checkpoint, write.task, write.idx
