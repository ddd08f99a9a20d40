"""Any ``BaseCheckpointSaver`` as a store, read through ``list`` and ``get_tuple`` alone.

A saver hands out values that its own deserialiser has built. Each is encoded again by LangGraph's serialiser, so that
whoever decodes, measures or compares it meets a payload as in any other store. How the saver is found and called is
:mod:`turnstate_backends.saver_open`'s affair.

A saver has no snapshot. What is small in a thread's rows is taken in one listing and stays as it was then; values are
fetched one checkpoint at a time. Nothing relies on the order of rows, nor on the saver heeding what it was asked for.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnstate_backends.address import SaverAddress
from turnstate_backends.assembly import assembled
from turnstate_backends.interface import (
    Checkpoint,
    Store,
    StoreError,
    ThreadRow,
    WholeRow,
    Write,
    damaged,
    delta_updates,
    source_of,
    step_of,
    thread_row,
)
from turnstate_backends.saver_open import SaverCalls
from turnstate_backends.values import Absent, Stored

_HEAD = 1024  # bytes kept of each write; the rest is fetched when it is asked for
_PLAIN = (str, int, float, bool, type(None))


class _Row(Struct, frozen=True):
    """What is small in a ``CheckpointTuple``.

    Attributes:
        config: What the saver is asked with for this row, in its own words.
        time: ``ts``; None when there is none.
        writes: With the first bytes of their payloads.
    """

    checkpoint: Checkpoint
    config: Mapping[str, Any]
    time: str | None
    versions: Mapping[str, str]
    seen: Mapping[str, Mapping[str, str]]
    writes: tuple[Write, ...]


class SaverStore(Store):
    """A :class:`~turnstate_backends.interface.Store` over a saver; see there for the methods.

    A channel whose value is gone cannot be told from one that holds none, writes on deleted checkpoints are not seen,
    and a write has no task path: a saver gives none of these.
    """

    shares_values = False

    def __init__(self, calls: SaverCalls) -> None:
        from langgraph.checkpoint.base import WRITES_IDX_MAP
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

        self.name = calls.name
        self._calls = calls
        self._encoder = JsonPlusSerializer()
        self._special: Mapping[str, int] = WRITES_IDX_MAP
        self._thread: tuple[str, dict[str, dict[str, _Row]]] | None = None
        self._held: tuple[tuple[str, str, str], Any] | None = None

    def threads(
        self, *, limit: int | None = None, pattern: str | None = None, thread: str | None = None
    ) -> Sequence[ThreadRow]:
        """Threads by last activity. Only those of one thread when it is named: not every saver can list all."""
        found: dict[str, dict[str, Collection[str]]] = {}
        if thread is not None:
            found[thread] = {ns: rows.keys() for ns, rows in self._spaces(thread).items()}
        else:
            found = self._all_threads()
        rows = [
            thread_row(name, [(ns, len(ids), min(ids), max(ids)) for ns, ids in spaces.items() if ids])
            for name, spaces in found.items()
            if any(spaces.values()) and (pattern is None or fnmatchcase(name, pattern))
        ]
        return sorted(sorted(rows, key=lambda row: row.id), key=lambda row: row.last, reverse=True)[:limit]

    def _all_threads(self) -> dict[str, dict[str, Collection[str]]]:
        found: dict[str, dict[str, dict[str, None]]] = {}

        def note(row: Any) -> None:
            thread, ns, checkpoint = _place(row.config)
            found.setdefault(thread, {}).setdefault(ns, {})[checkpoint] = None

        try:
            self._calls.each(None, note)
        except StoreError as error:
            raise StoreError(
                f"{self.name} cannot list its threads",
                error.why,
                "Name a thread: turns, keys, show, log and diff take one.",
            ) from None
        return {thread: dict(spaces) for thread, spaces in found.items()}

    def checkpoints(self, thread: str, ns: str) -> Iterable[Checkpoint]:
        """Every checkpoint of one namespace."""
        return [row.checkpoint for row in self._rows(thread, ns).values()]

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
        """Write rows of one namespace; those on checkpoints that are gone no saver tells of, and all are open."""
        for checkpoint, row in self._rows(thread, ns).items():
            if checkpoints is not None and checkpoint not in checkpoints:
                continue
            wanted = [w for w in row.writes if channels is None or w.channel in channels]
            if (head is None or head > _HEAD) and not all(w.value.complete for w in wanted):
                whole = {
                    (w.task, w.idx): w for w in self._writes_of(self._fetched(thread, ns, row), checkpoint)
                }
                wanted = [whole.get((w.task, w.idx), w) for w in wanted]
            yield from (_cut(write, head) for write in wanted)

    def versions(self, thread: str, ns: str, checkpoints: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """``channel_versions`` of the named checkpoints."""
        return {id: row.versions for id, row in self._named(thread, ns, checkpoints)}

    def seen(
        self, thread: str, ns: str, checkpoints: Collection[str]
    ) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """``versions_seen`` of the named checkpoints."""
        return {id: row.seen for id, row in self._named(thread, ns, checkpoints)}

    def values(
        self, thread: str, ns: str, checkpoint: str, channels: Collection[str] | None = None
    ) -> Mapping[str, Stored | Absent]:
        """Payloads of one checkpoint by channel; the saver builds all of its state for it."""
        return next((found for _, found in self.along(thread, ns, [checkpoint], channels)), {})

    def along(
        self, thread: str, ns: str, checkpoints: Sequence[str], channels: Collection[str] | None = None
    ) -> Iterator[tuple[str, Mapping[str, Stored | Absent]]]:
        """:meth:`values` of several checkpoints, one after the other."""
        for checkpoint, row in self._named(thread, ns, checkpoints):
            found = self._fetched(thread, ns, row)
            if found is None:
                gone = Absent("value_missing", {"reason": "the saver no longer gives this checkpoint"})
                asked = row.versions if channels is None else channels
                yield checkpoint, {name: gone for name in asked if name in row.versions}
                continue
            state = found.checkpoint.get("channel_values") if isinstance(found.checkpoint, Mapping) else found
            if state is not None and not isinstance(state, Mapping):
                why = Absent("undecodable", {"reason": "the checkpoint does not map channels to values"})
                yield checkpoint, damaged(channels, why)
                continue
            values = state or {}
            names = dict.fromkeys([*values, *row.versions]) if channels is None else channels
            yield (
                checkpoint,
                {
                    name: self._encoded(values[name]) if name in values else Absent("empty")
                    for name in names
                    if name in values or name in row.versions
                },
            )

    def times(self, thread: str, ns: str, checkpoints: Collection[str]) -> Mapping[str, str]:
        """``ts`` of the named checkpoints."""
        return {id: row.time for id, row in self._named(thread, ns, checkpoints) if row.time}

    def lost_values(self, thread: str, ns: str) -> Iterable[tuple[str, str, str]]:
        """None that a saver would tell of."""
        return ()

    def unreferenced_values(self, thread: str, ns: str) -> Iterable[tuple[str, str | None]]:
        """None that a saver would tell of."""
        return ()

    def spaces(self, thread: str) -> Collection[str]:
        """The namespaces that the saver lists."""
        return sorted(self._spaces(thread))

    def whole(self, thread: str, ns: str, checkpoints: Sequence[str]) -> Iterator[WholeRow]:
        """The named checkpoints, encoded again as ``SqliteSaver`` would."""
        for checkpoint, row in self._named(thread, ns, checkpoints):
            found = self._fetched(thread, ns, row)
            if found is None:
                continue
            fields = {str(name): value for name, value in _mapping(found.checkpoint).items()}
            values = {
                str(name): self._encoded(value)
                for name, value in _mapping(fields.pop("channel_values", None)).items()
            }
            state, held_apart = assembled(
                {name: self._encoder_form(value) for name, value in fields.items()},
                {name: value for name, value in values.items() if isinstance(value, Stored)},
            )
            yield WholeRow(
                checkpoint,
                row.checkpoint.parent,
                state,
                json.dumps(dict(_mapping(found.metadata)), ensure_ascii=False, default=str).encode(
                    "utf-8", "replace"
                ),
                missing={
                    name: row.versions.get(name, "")
                    for name, value in values.items()
                    if isinstance(value, Absent)
                },
                apart={
                    name: (row.versions.get(name, ""), value)
                    for name, value in values.items()
                    if name in held_apart and isinstance(value, Stored)
                },
            )

    def left_values(self, thread: str, ns: str) -> Iterable[tuple[str, str | None, Stored]]:
        """None that a saver would tell of."""
        return ()

    def close(self) -> None:
        """Let go of the saver. Safe to call twice."""
        self._calls.close()

    def interrupt(self) -> None:
        """Have the read that is under way in another thread end with a :class:`StoreError`; see :meth:`resume`."""
        self._calls.interrupt()

    def resume(self) -> None:
        """Read again after :meth:`interrupt`."""
        self._calls.interrupted = False

    # Rows.

    def _named(self, thread: str, ns: str, checkpoints: Iterable[str]) -> Iterator[tuple[str, _Row]]:
        rows = self._rows(thread, ns)
        return ((checkpoint, rows[checkpoint]) for checkpoint in checkpoints if checkpoint in rows)

    def _rows(self, thread: str, ns: str) -> Mapping[str, _Row]:
        """The rows of one namespace by id, listed on their own where the thread's listing lacks them."""
        spaces = self._spaces(thread)
        if ns not in spaces:
            spaces[ns] = self._listed(thread, ns).get(ns, {})
        return spaces[ns]

    def _spaces(self, thread: str) -> dict[str, dict[str, _Row]]:
        """The rows of one thread by namespace; those of the thread that was read last are held."""
        if self._thread is None or self._thread[0] != thread:
            self._thread = thread, self._listed(thread)
        return self._thread[1]

    def _listed(self, thread: str, ns: str | None = None) -> dict[str, dict[str, _Row]]:
        found: dict[str, dict[str, _Row]] = {}

        def note(row: Any) -> None:
            here, space, checkpoint = _place(row.config)
            if here == thread:
                found.setdefault(space, {})[checkpoint] = self._narrow(row, checkpoint)

        names: list[str | int] = [thread]
        if thread.isdecimal() and len(thread) < 19 and str(int(thread)) == thread:
            names.append(int(thread))  # a saver in memory tells 1 from "1"
        for name in names:
            place = {"thread_id": name} if ns is None else {"thread_id": name, "checkpoint_ns": ns}
            self._calls.each({"configurable": place}, note)
            if found:
                break
        return found

    def _narrow(self, row: Any, checkpoint: str) -> _Row:
        state, metadata = _mapping(row.checkpoint), _mapping(row.metadata)
        run_id, counters = metadata.get("run_id"), _mapping(metadata.get("counters_since_delta_snapshot"))
        time = state.get("ts")
        at = row.config["configurable"]
        return _Row(
            checkpoint=Checkpoint(
                id=checkpoint,
                parent=_id(row.parent_config) or None,
                source=source_of(metadata.get("source")),
                step=step_of(metadata.get("step")),
                run_id=run_id if isinstance(run_id, str) else None,
                delta_channels=tuple(map(str, counters)),
                delta_updates=delta_updates(counters),
            ),
            config={
                "configurable": {
                    "thread_id": at["thread_id"],
                    "checkpoint_ns": at.get("checkpoint_ns") or "",
                    "checkpoint_id": checkpoint,
                }
            },
            time=time if isinstance(time, str) else None,
            versions=_texts(state.get("channel_versions")),
            seen={_shared(node): _texts(seen) for node, seen in _mapping(state.get("versions_seen")).items()},
            writes=tuple(_cut(write, _HEAD) for write in self._writes_of(row, checkpoint)),
        )

    def _fetched(self, thread: str, ns: str, row: _Row) -> Any:
        """The row's ``CheckpointTuple``, or None where the saver gives none or another's; the last one is held."""
        place = thread, ns, row.checkpoint.id
        if self._held is None or self._held[0] != place:
            self._held = None
            given: list[Any] = []

            def note(found: Any) -> None:
                if _place(found.config) == place:
                    given.append(found)

            self._calls.one(row.config, note)
            self._held = place, next(iter(given), None)
        return self._held[1]

    def _writes_of(self, row: Any, checkpoint: str) -> Iterator[Write]:
        """The writes on a row with whole payloads.

        A saver gives them in the order in which LangGraph applies them, without task path and number
        (``BaseCheckpointSaver.get_tuple``). A task numbers its writes from 0; special channels have their own.
        """
        tasks: dict[str, int] = {}
        made: dict[str, int] = {}
        for task, channel, value in (row.pending_writes or ()) if row is not None else ():
            task, channel = _shared(task), _shared(channel)
            rank = tasks.setdefault(task, len(tasks))
            number = made.setdefault(task, 0)
            if channel not in self._special:
                made[task] += 1
            stored = self._encoded(value)
            if isinstance(stored, Absent):
                stored = Stored(f"object {stored.stored['type']}", b"", 0)
            yield Write(checkpoint, task, "", self._special.get(channel, number), channel, stored, rank)

    # Values.

    def _encoder_form(self, value: Any) -> Stored:
        kind, data = self._encoder.dumps_typed(value)
        return Stored(kind, bytes(data), len(data))

    def _encoded(self, value: Any) -> Stored | Absent:
        """A value as LangGraph would store it; no pickle."""
        try:
            with self._calls.apart:  # pydantic models and the like write themselves out
                kind, data = self._encoder.dumps_typed(value)
        except Exception as error:
            return _as_json(value) or Absent("undecodable", _unfit(value, error))
        return Stored(kind, bytes(data), len(data))


def open_saver(address: SaverAddress, *, apart: bool = True) -> SaverStore:
    """Import what an address names and make a store of it. The saver's ``setup`` is not called.

    Sets ``LANGGRAPH_STRICT_MSGPACK=true`` for this process unless the environment has it.

    Args:
        address: Where the saver is.
        apart: See :func:`turnstate_backends.usercode.guarded`.

    Raises:
        StoreError: It cannot be imported or opened, or is no saver; or LangGraph is not installed, or not strict
            though it should be.
    """
    return SaverStore(SaverCalls(address, apart=apart))


def wrap_saver(saver: Any, loop: asyncio.AbstractEventLoop | None = None) -> SaverStore:
    """Make a store of a saver that a program has opened, and that it goes on using. It is neither set up nor closed.

    Its own deserialiser builds the values, as it does for the program; what it may import is the program's choice.

    Args:
        saver: A ``BaseCheckpointSaver``, sync or async.
        loop: The running event loop of the caller, on which an async saver is awaited that was made for no other. The
            store must then be read in another thread than the loop's.

    Raises:
        StoreError: It is no saver, or has no way of being read.
    """
    return SaverStore(SaverCalls(saver, apart=False, loop=loop))


def _place(config: Mapping[str, Any]) -> tuple[str, str, str]:
    at = config["configurable"]
    return str(at["thread_id"]), str(at.get("checkpoint_ns") or ""), _id(config)


def _id(config: Any) -> str:
    at = _mapping(_mapping(config).get("configurable"))
    found = at.get("checkpoint_id", at.get("thread_ts"))  # the latter before LangGraph 0.2
    return "" if found is None else str(found)


def _cut(write: Write, head: int | None) -> Write:
    value = write.value
    return replace(write, value=Stored(value.type, value.data[:head], value.size))


def _mapping(found: Any) -> Mapping[Any, Any]:
    return found if isinstance(found, Mapping) else {}


def _texts(versions: Any) -> Mapping[str, str]:
    found = ((name, version) for name, version in _mapping(versions).items() if version is not None)
    return {_shared(name): _shared(version) for name, version in found}


def _shared(text: Any) -> str:
    """Text as one object for all rows: they name the same nodes, channels and versions over and over."""
    return sys.intern(str(text))


def _as_json(value: Any) -> Stored | None:
    """Plain data that msgpack cannot hold, such as a number beyond 64 bits, which a saver may keep in JSON."""
    try:
        data = json.dumps(value).encode() if _is_plain(value) else b""
    except (ValueError, RecursionError):
        return None
    return Stored("json", data, len(data)) if data else None


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and key != "lc" and _is_plain(item) for key, item in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _unfit(value: Any, error: Exception) -> Mapping[str, Any]:
    """What is known of a value that cannot be encoded. Of its content, which the error may repeat, only the class."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    said = (
        f": {error}" if type(error) is TypeError else ""
    )  # which is the codec's own, and names a class at most
    return {"type": name, "reason": f"LangGraph's serialiser cannot encode it{said}"}
