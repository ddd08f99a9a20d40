"""The seam between stores and history: narrow records, and the reads every backend offers.

A backend yields rows in any order; whoever needs an order sorts. It never decodes a payload and
never decides what a turn is. All reads of one opened store see one state of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from msgspec import Struct

from turnstate_backends.values import Absent, Stored


class StoreError(Exception):
    """A store that cannot be opened or read, in three lines for the person who asked.

    Attributes:
        what: What failed, in one line, without any password.
        why: The cause, in one line.
        hint: What to do about it, in one line.
    """

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint


WHOLE: Final = "*"
"""The key under which :meth:`Store.values` says why a checkpoint as a whole cannot be read."""


def damaged(channels: Collection[str] | None, why: Absent) -> dict[str, Stored | Absent]:
    """What :meth:`Store.values` gives of a checkpoint that as a whole cannot be read."""
    return dict.fromkeys([WHOLE] if channels is None else channels, why)


def damage_of(found: Mapping[str, Stored | Absent]) -> Absent | None:
    """Why a checkpoint as a whole cannot be read, where what :meth:`Store.values` gave says so."""
    whole = found.get(WHOLE)
    return whole if isinstance(whole, Absent) else None


class ThreadRow(Struct, frozen=True):
    """One thread, read from keys alone.

    Attributes:
        id: ``thread_id``.
        checkpoints: Rows of the thread in all namespaces.
        namespaces: Each ``checkpoint_ns`` of the thread, sorted; ``""`` is the root graph.
        first: Least checkpoint id of the thread, all namespaces.
        last: Greatest checkpoint id of the thread, all namespaces.
        head: Greatest checkpoint id of the root namespace; None when the thread has none there.
    """

    id: str
    checkpoints: int
    namespaces: tuple[str, ...]
    first: str
    last: str
    head: str | None


class Checkpoint(Struct, frozen=True):
    """One checkpoint row without its state.

    Attributes:
        id: ``checkpoint_id``; a UUIDv6 when LangGraph wrote it.
        parent: ``parent_checkpoint_id``; None at a root, or where a pruning saver cleared it.
        source: ``metadata.source``: ``input``, ``loop``, ``update``, ``fork``; None when not recorded.
        step: ``metadata.step``: -1 for the first input; None when not recorded.
        run_id: ``metadata.run_id`` where the deployment records one.
        delta_channels: Channels whose value is kept as deltas since a snapshot
            (``metadata.counters_since_delta_snapshot``). A row that has a snapshot of a channel does not name it.
        delta_updates: How many super-steps have written each of them since its snapshot; None where that is not
            recorded as a number.
        encrypted: The row holds its state, and holds it encrypted.
    """

    id: str
    parent: str | None
    source: str | None
    step: int | None
    run_id: str | None
    delta_channels: tuple[str, ...] = ()
    delta_updates: tuple[int | None, ...] = ()
    encrypted: bool = False

    def updates(self, channel: str) -> int | None:
        """Super-steps that have written a channel kept as deltas since its snapshot, where that is known."""
        counted = dict(zip(self.delta_channels, self.delta_updates, strict=False))
        return counted.get(channel)


def delta_updates(counters: object) -> tuple[int | None, ...]:
    """The first number of each pair in ``counters_since_delta_snapshot``: super-steps that wrote the channel.

    Source: ``langgraph.checkpoint.base.CheckpointMetadata``.
    """
    pairs = counters.values() if isinstance(counters, Mapping) else ()
    numbers = (pair[0] if isinstance(pair, list | tuple) and pair else None for pair in pairs)
    return tuple(n if isinstance(n, int) and not isinstance(n, bool) else None for n in numbers)


class Write(Struct, frozen=True):
    """One row of ``writes`` / ``checkpoint_writes``: what a task wrote on top of a checkpoint.

    Attributes:
        checkpoint: Id of the checkpoint that the task ran on (the parent of the row that holds the result).
        task: ``task_id``.
        path: ``task_path``, which names the node (``~__pregel_pull, answer``); ``""`` when not recorded.
        idx: Position among the task's writes; negative for special channels.
        channel: The channel written, or a special one (``__error__``, ``__interrupt__``, ``__resume__``, …).
        value: The payload, whole or its head, by what was asked; ``data`` is empty when none was asked for.
        rank: Position of the task among those of the checkpoint where a store tells their order and no path.
    """

    checkpoint: str
    task: str
    path: str
    idx: int
    channel: str
    value: Stored
    rank: int = 0


class WholeRow(Struct, frozen=True):
    """One checkpoint row as ``SqliteSaver`` would hold it.

    Attributes:
        id: ``checkpoint_id``.
        parent: ``parent_checkpoint_id``; None at a root.
        state: The ``checkpoint`` payload, whole and as the store holds it, encrypted or not. Where the store keeps
            values in rows of their own, put together from these.
        metadata: JSON as stored; None where there is none.
        missing: Version by channel of the values that the row refers to and the store has lost.
        apart: Payload and version by channel of the values that no payload of SQLite's can hold.
    """

    id: str
    parent: str | None
    state: Stored
    metadata: bytes | None
    missing: Mapping[str, str] = {}
    apart: Mapping[str, tuple[str, Stored]] = {}


def source_of(stored: object) -> str | None:
    """``metadata.source`` as one of LangGraph's four words; None for anything else that a writer put there."""
    return stored if isinstance(stored, str) and stored in _SOURCES else None


def thread_row(thread: str, spaces: Collection[tuple[str, int, str, str]]) -> ThreadRow:
    """A thread, of its namespaces: each ``checkpoint_ns``, how many rows it has, its least and its greatest id."""
    return ThreadRow(
        id=thread,
        checkpoints=sum(rows for _, rows, _, _ in spaces),
        namespaces=tuple(sorted(ns for ns, _, _, _ in spaces)),
        first=min(first for _, _, first, _ in spaces),
        last=max(last for _, _, _, last in spaces),
        head=next((last for ns, _, _, last in spaces if ns == ""), None),
    )


def step_of(stored: object) -> int | None:
    """``metadata.step`` as a whole number, also where a writer stored it as text or as a float; else None."""
    if type(stored) is int:
        return stored if abs(stored) < _FARTHEST_STEP else None
    if isinstance(stored, bool) or not isinstance(stored, int | float | str):
        return None
    try:
        number = float(stored)
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < _FARTHEST_STEP else None


_SOURCES = frozenset({"input", "loop", "update", "fork"})
_FARTHEST_STEP = 2**53  # beyond it a float is no longer a whole number for sure


class Store(Protocol):
    """Read-only access to one checkpointer's store, in one snapshot, which ends with the ``with`` block.

    Every method may raise :class:`StoreError`. Unknown threads, namespaces and checkpoints give
    empty results, never errors.
    """

    name: str
    """What the user calls the store: its path or URL, passwords removed."""

    shares_values: bool
    """Whether rows that name the same version of a channel have one stored value between them."""

    def threads(
        self, *, limit: int | None = None, pattern: str | None = None, thread: str | None = None
    ) -> Sequence[ThreadRow]:
        """Threads by last activity (greatest checkpoint id), most recent first; of equals the lesser thread id first.

        Args:
            limit: At most so many.
            pattern: Shell-style glob (``*``, ``?``, ``[…]``), case-sensitive, matched against the whole thread id.
            thread: Exactly this thread.
        """

    def checkpoints(self, thread: str, ns: str) -> Iterable[Checkpoint]:
        """Every checkpoint of one namespace, in no particular order, without reading any state."""

    def writes(
        self,
        thread: str,
        ns: str,
        *,
        channels: Collection[str] | None = None,
        checkpoints: Collection[str] | None = None,
        head: int | None = 0,
        opened: bool = True,
    ) -> Iterable[Write]:
        """Write rows of one namespace, in no particular order, those without a checkpoint included.

        Args:
            channels: Only these channels; all when None.
            checkpoints: Only on these checkpoints; all when None.
            head: Bytes of each payload to read; 0 reads none of it, None the whole.
            opened: Whether to open encrypted payloads where that is possible.
        """

    def versions(self, thread: str, ns: str, checkpoints: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """``channel_versions`` of the named checkpoints: checkpoint id → channel → version as text."""

    def seen(
        self, thread: str, ns: str, checkpoints: Collection[str]
    ) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """``versions_seen`` of the named checkpoints: checkpoint id → node → channel → version as text.

        A node that ran in a step has seen newer versions in the row that the step made than in the row before.
        """

    def values(
        self, thread: str, ns: str, checkpoint: str, channels: Collection[str] | None = None
    ) -> Mapping[str, Stored | Absent]:
        """Payloads of one checkpoint by channel; all channels when ``channels`` is None.

        A channel that the checkpoint has a version of but no value is ``Absent("empty")``; one whose
        row is gone is ``Absent("value_missing")``. A damaged checkpoint payload gives ``Absent("undecodable")``
        for each channel that was asked for by name, and nothing otherwise but the key :data:`WHOLE`.
        """

    def along(
        self, thread: str, ns: str, checkpoints: Sequence[str], channels: Collection[str] | None = None
    ) -> Iterator[tuple[str, Mapping[str, Stored | Absent]]]:
        """:meth:`values` of several checkpoints, one after the other, in the order asked for.

        One payload of each channel is held at a time, and a value that neighbours share is read once where the
        store keeps it once. Checkpoints that are not there are left out.
        """

    def times(self, thread: str, ns: str, checkpoints: Collection[str]) -> Mapping[str, str]:
        """``ts`` of the named checkpoints as stored (ISO 8601), for ids that carry no time; missing ones left out."""

    def lost_values(self, thread: str, ns: str) -> Iterable[tuple[str, str, str]]:
        """(checkpoint id, channel, version) wherever :meth:`values` gives ``value_missing``; reads no value.

        Empty where a checkpoint holds its values itself.
        """

    def unreferenced_values(self, thread: str, ns: str) -> Iterable[tuple[str, str | None]]:
        """(channel, version) of each value row that no kept checkpoint refers to; reads no value.

        Empty where a checkpoint holds its values itself.
        """

    def spaces(self, thread: str) -> Collection[str]:
        """Each namespace in which the thread has a row of any kind, those with writes alone included."""

    def whole(self, thread: str, ns: str, checkpoints: Sequence[str]) -> Iterator[WholeRow]:
        """The named checkpoints as a SQLite file would hold them, one state at a time. Missing ones are left out.

        Raises:
            StoreError: Also where encrypted values would have to be opened to be put together, and cannot be.
        """

    def left_values(self, thread: str, ns: str) -> Iterable[tuple[str, str | None, Stored]]:
        """(channel, version, payload as stored) of :meth:`unreferenced_values`."""

    def close(self) -> None:
        """End the snapshot. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
