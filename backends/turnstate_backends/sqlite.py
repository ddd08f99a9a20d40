"""Checkpoint stores in SQLite: which columns a file has, and the queries that read them.

Knows LangGraph's two tables in every layout since the one before 1.0, and that values lie inside the
``checkpoint`` payload. How a file is opened without touching it is :mod:`turnstate_backends.sqlite_open`'s
affair; what a payload means is nobody's here.

All text is fetched as bytes: an id may hold NUL or bytes that are not UTF-8, and must come back unchanged
when it is asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import MsgspecError, Struct
from msgspec.json import decode as parsed
from msgspec.structs import replace

from turnstate_backends import heads, payload
from turnstate_backends.encryption import has_key, is_sealed, unsealed
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
from turnstate_backends.values import Absent, Stored

if TYPE_CHECKING:
    from turnstate_backends.sqlite_open import Database

# What each field is called, by release, and what stands in for it where a release has no such column;
# no stand-in: without the column it is not LangGraph's table.
# Sources: the CREATE TABLE statements of langgraph-checkpoint-sqlite 1.0 to 3.1, of
# @langchain/langgraph-checkpoint-sqlite, and of langgraph 0.0.x/0.1.x (thread_ts, parent_ts).
_CHECKPOINT_FIELDS: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
    ("thread_id", ("thread_id",), None),
    ("checkpoint_ns", ("checkpoint_ns",), "''"),
    ("checkpoint_id", ("checkpoint_id", "thread_ts"), None),
    ("parent_id", ("parent_checkpoint_id", "parent_ts"), None),
    ("type", ("type",), "NULL"),
    ("checkpoint", ("checkpoint",), None),
    ("metadata", ("metadata",), "NULL"),
)
_WRITE_FIELDS: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
    ("thread_id", ("thread_id",), None),
    ("checkpoint_ns", ("checkpoint_ns",), "''"),
    ("checkpoint_id", ("checkpoint_id", "thread_ts"), None),
    ("task_id", ("task_id",), None),
    ("task_path", ("task_path",), "''"),
    ("idx", ("idx",), None),
    ("channel", ("channel",), None),
    ("type", ("type",), "NULL"),
    ("value", ("value",), None),
)

_TABLES = "SELECT CAST(name AS BLOB) FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
_COLUMNS = 'SELECT CAST(name AS BLOB), "notnull" FROM pragma_table_info(?)'
_WITHOUT_ROWID = "SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'"
_ENCODING = "PRAGMA encoding"

# A recording's table of values that no payload in it holds; it is made by turnstate_backends.recording.
APART_TABLE = "turnstate_values"
SHARED_TABLE = "turnstate_shared"  # empty; it is there where the source's rows share values
MISSING, APART, LEFT = "missing", "apart", "left"

# Steps from key to key through the primary key's index; neither a row nor a state is looked at.
_RECENT_THREADS = """
WITH RECURSIVE threads(t) AS (
  SELECT min(thread_id) FROM {checkpoints}
  UNION ALL
  SELECT (SELECT min(thread_id) FROM {checkpoints} WHERE thread_id > t) FROM threads WHERE t IS NOT NULL
)
SELECT CAST(t AS BLOB) FROM threads WHERE t IS NOT NULL AND {wanted}
ORDER BY (
  WITH RECURSIVE spaces(n) AS (
    SELECT min(checkpoint_ns) FROM {checkpoints} WHERE thread_id = t
    UNION ALL
    SELECT (SELECT min(checkpoint_ns) FROM {checkpoints} WHERE thread_id = t AND checkpoint_ns > n)
      FROM spaces WHERE n IS NOT NULL
  )
  SELECT max((SELECT max(checkpoint_id) FROM {checkpoints} WHERE thread_id = t AND checkpoint_ns = n))
    FROM spaces WHERE n IS NOT NULL
) DESC, t
LIMIT ?
"""
_NAMESPACES = """
SELECT CAST(checkpoint_ns AS BLOB), count(*),
       CAST(min(checkpoint_id) AS BLOB), CAST(max(checkpoint_id) AS BLOB)
FROM {checkpoints} WHERE thread_id = CAST(? AS TEXT) GROUP BY checkpoint_ns
"""
_ROWS = "FROM {checkpoints} WHERE thread_id = CAST(? AS TEXT) AND checkpoint_ns = CAST(? AS TEXT)"
_MANY = 200  # rows
_UP_TO_MANY = f"SELECT count(*) FROM (SELECT 1 {_ROWS} LIMIT {_MANY})"  # noqa: S608 - literals of this module
# json_extract leaves the rest of the metadata, which can be as big as the state in old releases, where it is.
_METADATA = f"""
SELECT CAST(checkpoint_id AS BLOB), CAST(parent_id AS BLOB), coalesce(type, '') GLOB '*+*',
       CASE WHEN json_valid(metadata, 2) THEN CAST(json_extract(metadata,
         '$.source', '$.step', '$.run_id', '$.counters_since_delta_snapshot') AS BLOB) END
{_ROWS}
"""
# Hexadecimal, since JSON cannot carry every byte that an id may hold.
_AMONG = "IN (SELECT CAST(unhex(value) AS TEXT) FROM json_each(?))"
_PAYLOADS = f"""
SELECT CAST(checkpoint_id AS BLOB), CAST(type AS BLOB), CAST(checkpoint AS BLOB)
{_ROWS} AND checkpoint_id {_AMONG}
"""
_PAYLOAD = f"""
SELECT CAST(type AS BLOB), CAST(checkpoint AS BLOB)
{_ROWS} AND checkpoint_id = CAST(? AS TEXT)
"""
_WHOLE_ROW = f"""
SELECT CAST(parent_id AS BLOB), CAST(type AS BLOB), CAST(checkpoint AS BLOB), CAST(metadata AS BLOB)
{_ROWS} AND checkpoint_id = CAST(? AS TEXT)
"""
_SPACES = "SELECT DISTINCT CAST(checkpoint_ns AS BLOB) FROM {rows} WHERE thread_id = CAST(? AS TEXT)"
_APART = """
SELECT CAST(channel AS BLOB), CAST(version AS BLOB), CAST(kind AS BLOB), CAST(type AS BLOB), CAST(value AS BLOB)
FROM main.turnstate_values WHERE thread_id = CAST(? AS TEXT) AND checkpoint_ns = CAST(? AS TEXT)
"""
_TIMES = f"""
SELECT CAST(checkpoint_id AS BLOB),
       CASE WHEN json_valid(checkpoint, 2) THEN CAST(json_extract(checkpoint, '$.ts') AS BLOB) END,
       CAST(type AS BLOB), CASE WHEN type GLOB '*+aes' THEN CAST(checkpoint AS BLOB)
                                ELSE substr(CAST(checkpoint AS BLOB), 1, 512) END
{_ROWS} AND checkpoint_id {_AMONG}
"""
_WRITES = """
SELECT CAST(checkpoint_id AS BLOB), CAST(task_id AS BLOB), CAST(task_path AS BLOB), coalesce(CAST(idx AS INTEGER), 0),
       CAST(channel AS BLOB), CAST(type AS BLOB), coalesce(octet_length(value), 0), {payload}
FROM {writes} WHERE thread_id = CAST(? AS TEXT) AND checkpoint_ns = CAST(? AS TEXT)
"""
_NO_METADATA = (None, None, None, None)
_WHOLE = "CAST(value AS BLOB)"
_NOTHING = "NULL"
# A longer payload is opened by its rowid, so that its overflow pages are not walked for a few bytes.
_SHORT_BYTES = 2048
_SHORT_OR_ROWID = f"CASE WHEN octet_length(value) > {_SHORT_BYTES} THEN rowid ELSE CAST(value AS BLOB) END"


class Layout(Struct, frozen=True):
    """How this file names LangGraph's columns.

    Attributes:
        checkpoints: A table expression with the columns of ``_CHECKPOINT_FIELDS``.
        writes: The same for ``_WRITE_FIELDS``; None where the file has no such table.
        codec: Name of the Python codec for text as stored.
        writes_have_rowid: False for a table that somebody made ``WITHOUT ROWID``.
        has_apart: The file is a recording that keeps some values apart from their checkpoints; see
            :mod:`turnstate_backends.recording`.
        shared: The file is a recording of a store in which rows share values.
    """

    checkpoints: str
    writes: str | None
    codec: str
    writes_have_rowid: bool = True
    has_apart: bool = False
    shared: bool = False

    def encode(self, text: str) -> bytes:
        """Text as the bytes that the store holds."""
        try:
            return text.encode(self.codec, "surrogateescape")
        except UnicodeEncodeError:
            return text.encode(self.codec, "surrogatepass")

    def decode(self, stored: bytes | None) -> str:
        """Stored bytes as text; what is not UTF-8 becomes lone surrogates that :meth:`encode` reverses."""
        errors = "surrogateescape" if self.codec == "utf-8" else "replace"
        return "" if stored is None else stored.decode(self.codec, errors)

    def fields(self, stored: bytes | None) -> Any:
        """What ``_METADATA`` takes out of a row's metadata: source, step, run id and counters."""
        if stored is None:
            return _NO_METADATA
        if self.codec == "utf-8":
            try:  # of every row: to suppress an error would take longer than to parse
                return parsed(stored)
            except (MsgspecError, UnicodeDecodeError):  # SQLite takes more for JSON than is
                pass
        return json.loads(self.decode(stored))

    def listed(self, texts: Collection[str]) -> str:
        """Texts as the one parameter that ``_AMONG`` expects."""
        return json.dumps([self.encode(text).hex() for text in texts])


class _Texts(dict[bytes | None, str]):
    """Stored bytes as :meth:`Layout.decode` gives them, each once: ids and names stand in many rows."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self._decode = layout.decode

    def __missing__(self, stored: bytes | None) -> str:
        text = self[stored] = self._decode(stored)
        return text


class SqliteStore(Store):
    """A :class:`~turnstate_backends.interface.Store` over one SQLite file; see there for the methods."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self.name = database.name
        self.shares_values = layout.shared
        self._database = database
        self._layout = layout
        self._tables = {"checkpoints": layout.checkpoints, "writes": layout.writes or ""}

    def threads(
        self, *, limit: int | None = None, pattern: str | None = None, thread: str | None = None
    ) -> Sequence[ThreadRow]:
        """Threads by last activity, most recent first; ties by thread id."""
        decode = self._layout.decode
        if thread is not None:
            if pattern is not None and not fnmatchcase(thread, pattern):
                return []
            row = self._thread(self._layout.encode(thread))
            return [row] if row and limit != 0 else []
        wanted = "TRUE"
        if pattern is not None:
            wanted = "matches_pattern(CAST(t AS BLOB))"
            self._database.define("matches_pattern", lambda stored: fnmatchcase(decode(stored), pattern))
        recent = self._scattered(_RECENT_THREADS, -1 if limit is None else limit, wanted=wanted)
        rows = (self._thread(thread_id) for (thread_id,) in list(recent))
        return [row for row in rows if row]

    def _thread(self, thread: bytes) -> ThreadRow | None:
        decode = self._layout.decode
        spaces = sorted(
            (decode(ns), int(rows), decode(first), decode(last))
            for ns, rows, first, last in self._scattered(_NAMESPACES, thread)
        )
        if not spaces:
            return None
        return thread_row(decode(thread), spaces)

    def checkpoints(self, thread: str, ns: str) -> Iterable[Checkpoint]:
        """Every checkpoint of one namespace. The state is walked over on disk, never loaded."""
        text, fields = _Texts(self._layout), self._layout.fields
        place = self._of(thread, ns)
        ((count,),) = self._scattered(_UP_TO_MANY, *place)
        self._database.has_chains = count == _MANY
        for checkpoint, parent, encrypted, metadata in self._rows(_METADATA, *place):
            source, step, run_id, counters = fields(metadata)
            yield Checkpoint(
                id=text[checkpoint],
                parent=text[parent] or None,
                source=source_of(source),
                step=step_of(step),
                run_id=run_id if isinstance(run_id, str) else None,
                delta_channels=tuple(counters) if isinstance(counters, dict) else (),
                delta_updates=delta_updates(counters) if counters else (),  # hardly a row has some
                encrypted=bool(encrypted),
            )

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
        """Write rows of one namespace, also those whose checkpoint is gone."""
        if self._layout.writes is None:
            return
        sql = _WRITES
        parameters: list[Any] = list(self._of(thread, ns))
        for column, texts in (("checkpoint_id", checkpoints), ("channel", channels)):
            if texts is not None:
                sql += f" AND {column} {_AMONG}"
                parameters.append(self._layout.listed(texts))
        part = _NOTHING if head == 0 else _WHOLE
        if head and self._layout.writes_have_rowid:
            part = _SHORT_OR_ROWID
        text, opens = _Texts(self._layout), opened and has_key()
        read = self._rows if head is None else self._scattered
        for checkpoint, task, path, idx, channel, type_, size, data in read(sql, *parameters, payload=part):
            type_text = None if type_ is None else text[type_]
            if head and isinstance(data, int):
                amount = size if opens and "+" in (type_text or "") else head
                data = self._database.head_of_blob("writes", "value", data, amount)
            value = Stored(type_text, data or b"", size)
            yield Write(
                checkpoint=text[checkpoint],
                task=text[task],
                path=text[path],
                idx=idx,
                channel=text[channel],
                value=unsealed(value, head) if opened else value,
            )

    def versions(self, thread: str, ns: str, checkpoints: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """``channel_versions`` of the named checkpoints; those that cannot be decoded are left out."""
        found: dict[str, Mapping[str, str]] = {}
        for checkpoint, stored in self._payloads(thread, ns, checkpoints):
            state = _state(stored)
            if not isinstance(state, Absent):
                found[checkpoint] = state.versions
        return found

    def seen(
        self, thread: str, ns: str, checkpoints: Collection[str]
    ) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """``versions_seen`` of the named checkpoints; those that cannot be decoded are left out."""
        found: dict[str, Mapping[str, Mapping[str, str]]] = {}
        for checkpoint, stored in self._payloads(thread, ns, checkpoints):
            state = _state(stored)
            if not isinstance(state, Absent):
                found[checkpoint] = state.seen
        return found

    def values(
        self, thread: str, ns: str, checkpoint: str, channels: Collection[str] | None = None
    ) -> Mapping[str, Stored | Absent]:
        """Payloads of one checkpoint by channel, cut out of the checkpoint's payload undecoded."""
        return next((found for _, found in self.along(thread, ns, [checkpoint], channels)), {})

    def along(
        self, thread: str, ns: str, checkpoints: Sequence[str], channels: Collection[str] | None = None
    ) -> Iterator[tuple[str, Mapping[str, Stored | Absent]]]:
        """:meth:`values` of several checkpoints; every row here holds its whole state."""
        place = self._of(thread, ns)
        apart = self._apart(thread, ns)
        for checkpoint in checkpoints:
            for type_, data in self._rows(_PAYLOAD, *place, self._layout.encode(checkpoint)):
                stored = self._stored(type_, data)
                found = _channels(stored, channels)
                yield checkpoint, _with_apart(found, stored, apart) if apart else found

    def times(self, thread: str, ns: str, checkpoints: Collection[str]) -> Mapping[str, str]:
        """``ts`` of the named checkpoints, which stands before the values in each payload."""
        rows = self._rows(_TIMES, *self._of(thread, ns), self._layout.listed(checkpoints))
        found: dict[str, str] = {}
        for checkpoint, from_json, type_, head in rows:
            time = _ts(self._stored(type_, head)) if from_json is None else self._layout.decode(from_json)
            if time:
                found[self._layout.decode(checkpoint)] = time
        return found

    def lost_values(self, thread: str, ns: str) -> Iterable[tuple[str, str, str]]:
        """None, as every row here holds its whole state; but a recording tells of those that its source had lost."""
        lost = {at for at, value in self._apart(thread, ns).items() if isinstance(value, Absent)}
        if not lost:
            return ()
        versions = self.versions(thread, ns, [row.id for row in self.checkpoints(thread, ns)])
        return [(id, *at) for id, found in versions.items() for at in found.items() if at in lost]

    def unreferenced_values(self, thread: str, ns: str) -> Iterable[tuple[str, str | None]]:
        """None, as values go with their rows; but a recording has those that its source had."""
        return ((channel, version) for channel, version, _ in self.left_values(thread, ns))

    def spaces(self, thread: str) -> Collection[str]:
        """Each namespace in which the thread has checkpoints or writes."""
        tables = [table for table in (self._layout.checkpoints, self._layout.writes) if table]
        encoded = self._layout.encode(thread)
        found = {ns for table in tables for (ns,) in self._rows(_SPACES, encoded, rows=table)}
        return sorted(map(self._layout.decode, found))

    def whole(self, thread: str, ns: str, checkpoints: Sequence[str]) -> Iterator[WholeRow]:
        """The named checkpoints as they are; where no type is stored, with the one that their bytes show."""
        decode, place = self._layout.decode, self._of(thread, ns)
        apart = self._apart(thread, ns)
        for checkpoint in checkpoints:
            for parent, type_, data, metadata in self._rows(
                _WHOLE_ROW, *place, self._layout.encode(checkpoint)
            ):
                state = Stored(None if type_ is None else decode(type_), data or b"", len(data or b""))
                if type_ is None:
                    state = replace(state, type=payload.encoding(state))
                row = WholeRow(checkpoint, decode(parent) or None, state, metadata)
                yield _row_with_apart(row, apart) if apart else row

    def left_values(self, thread: str, ns: str) -> Iterable[tuple[str, str | None, Stored]]:
        """None, but in a recording of a store that had some."""
        return [
            (channel, version, value)
            for channel, version, kind, value in self._kept_apart(thread, ns)
            if kind == LEFT
        ]

    def _apart(self, thread: str, ns: str) -> Mapping[tuple[str, str], Stored | Absent]:
        """By channel and version, what a recording has of the values that its checkpoints refer to and do not hold."""
        return {
            (channel, version or ""): Absent("value_missing", {"version": version})
            if kind == MISSING
            else unsealed(value)
            for channel, version, kind, value in self._kept_apart(thread, ns)
            if kind != LEFT
        }

    def _kept_apart(self, thread: str, ns: str) -> Iterator[tuple[str, str | None, str, Stored]]:
        if not self._layout.has_apart:
            return
        decode = self._layout.decode
        for channel, version, kind, type_, data in self._rows(_APART, *self._of(thread, ns)):
            stored = Stored(None if type_ is None else decode(type_), data or b"", len(data or b""))
            yield decode(channel), None if version is None else decode(version), decode(kind), stored

    def _payloads(self, thread: str, ns: str, checkpoints: Collection[str]) -> Iterator[tuple[str, Stored]]:
        decode = self._layout.decode
        rows = self._rows(_PAYLOADS, *self._of(thread, ns), self._layout.listed(checkpoints))
        for checkpoint, type_, data in rows:
            yield decode(checkpoint), self._stored(type_, data)

    def _stored(self, type_: bytes | None, data: bytes | None) -> Stored:
        data = data or b""
        return unsealed(Stored(None if type_ is None else self._layout.decode(type_), data, len(data)))

    def _of(self, thread: str, ns: str) -> tuple[bytes, bytes]:
        return self._layout.encode(thread), self._layout.encode(ns)

    def _scattered(self, sql: str, *parameters: Any, **parts: str) -> Iterator[tuple[Any, ...]]:
        return self._database.rows(sql.format(**self._tables, **parts), parameters, scattered=True)

    def _rows(self, sql: str, *parameters: Any, **parts: str) -> Iterator[tuple[Any, ...]]:
        return self._database.rows(sql.format(**self._tables, **parts), parameters)

    def close(self) -> None:
        """End the snapshot. Safe to call twice."""
        self._database.close()


def open_sqlite(
    path: Path, *, busy_seconds: float = 5.0, if_cut: Callable[[StoreError], object] | None = None
) -> SqliteStore:
    """Open a checkpoint store in a SQLite file, writing nothing, now or later.

    Args:
        path: The database file; its ``-wal`` is found beside it.
        busy_seconds: How long to wait for a program that has locked the file exclusively.
        if_cut: Ends this process, when another program cuts the file short in mid-read. Only where it is given, the
            file is mapped into memory, which is several times as fast.

    Raises:
        StoreError: The path is missing, no SQLite database, not a checkpoint store, locked, or in a
            state that cannot be read without writing.

    This process may have the file open already. It should not open it by other means while the store is
    open, since closing the store can then drop the locks of that connection (POSIX).
    """
    from turnstate_backends.sqlite_open import open_database

    database = open_database(path, busy_seconds=busy_seconds, if_cut=if_cut)
    try:
        return SqliteStore(database, _layout(database))
    except BaseException:
        database.close()
        raise


def _layout(database: Database) -> Layout:
    ((encoding,),) = database.rows(_ENCODING)
    codec = {"UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}.get(encoding, "utf-8")
    tables = {_printable(name, codec).lower(): name for (name,) in database.rows(_TABLES)}
    if "checkpoints" not in tables:
        found = _some(sorted(tables)) if tables else "none at all"
        raise _foreign(database.name, f"it has no table 'checkpoints'; its tables: {found}")
    checkpoints = _table(database, "checkpoints", _CHECKPOINT_FIELDS, codec)
    writes = _table(database, "writes", _WRITE_FIELDS, codec) if "writes" in tables else None
    return Layout(
        checkpoints,
        writes,
        codec,
        _has_rowid(database, "writes"),
        has_apart=APART_TABLE in tables,
        shared=SHARED_TABLE in tables,
    )


def _table(
    database: Database, table: str, fields: tuple[tuple[str, tuple[str, ...], str | None], ...], codec: str
) -> str:
    found = [(_printable(name, codec), filled) for name, filled in database.rows(_COLUMNS, (table,))]
    columns = [column for column, _ in found]
    is_filled = {column.lower(): bool(filled) for column, filled in found}
    selected = ["rowid"] if _has_rowid(database, table) else []
    for field, names, stand_in in fields:
        source = _source([name for name in names if name in is_filled], is_filled, field) or stand_in
        if source is None:
            raise _foreign(
                database.name,
                f"its table '{table}' has no column {' or '.join(names)}; its columns: {_some(columns)}",
            )
        selected.append(f"{source} AS {field}")
    # Every part is a literal of this module.
    return f"(SELECT {', '.join(selected)} FROM main.{table})"  # noqa: S608


def _source(names: Sequence[str], is_filled: Mapping[str, bool], field: str) -> str | None:
    """What gives a field: its column, or the first that a row fills of the columns of two releases in one table.

    LangGraph's own tables fill the columns of a key; elsewhere a null in one would be found by no comparison. A column
    stands alone where it can, since only then is its index used.
    """
    if len(names) > 1:
        filled = ", ".join(f"nullif({name}, '')" for name in names)
        return f"coalesce({filled}, '')"
    if names and field in ("checkpoint_ns", "checkpoint_id") and not is_filled[names[0]]:
        return f"coalesce({names[0]}, '')"
    return names[0] if names else None


def _has_rowid(database: Database, table: str) -> bool:
    return not any(without for (without,) in database.rows(_WITHOUT_ROWID, (table,)))


def _foreign(name: str, found: str) -> StoreError:
    return StoreError(
        f"{name} is not a LangGraph checkpoint store",
        found,
        "Check the path: LangGraph's SqliteSaver keeps tables 'checkpoints' and 'writes' in one file.",
    )


def _printable(name: bytes, codec: str) -> str:
    text = name.decode(codec, "replace")
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown}, … ({len(names)} in all)"


class _State(Struct, frozen=True):
    """One checkpoint payload, cut into channels."""

    values: Mapping[str, Stored]
    stored_versions: Mapping[str, Stored]
    stored_seen: Stored | None

    @property
    def versions(self) -> Mapping[str, str]:
        decoded = ((name, payload.decode(version)) for name, version in self.stored_versions.items())
        return {name: str(version) for name, version in decoded if version is not None}

    @property
    def seen(self) -> Mapping[str, Mapping[str, str]]:
        seen = {} if self.stored_seen is None else payload.decode(self.stored_seen)
        if not isinstance(seen, dict):
            return {}
        return {
            str(node): {str(channel): str(version) for channel, version in channels.items()}
            for node, channels in seen.items()
            if isinstance(channels, dict)
        }


def _state(stored: Stored, channels: Collection[str] | None = None) -> _State | Absent:
    """Cut a ``checkpoint`` payload ``{v, ts, id, channel_values, channel_versions, …}`` into channels.

    Where all of some ``channels`` have values, versions are not looked at.
    """
    if is_sealed(stored):
        sealed: Absent = payload.decode(stored)
        return sealed
    try:
        parts = heads.entries(stored)
        if parts is None:
            return payload.absent("undecodable", stored, "the checkpoint is not a mapping")
        values = _entries(parts.get("channel_values"))
        told = channels is not None and all(name in values for name in channels)
        versions = {} if told else _entries(parts.get("channel_versions"))
    except heads.Cut:
        return payload.absent("undecodable", stored, "the checkpoint ends too early")
    except heads.Unreadable as error:
        return payload.absent("undecodable", stored, str(error))
    return _State(values, versions, parts.get("versions_seen"))


def _channels(stored: Stored, channels: Collection[str] | None) -> dict[str, Stored | Absent]:
    found = None if channels is None else heads.picked(stored, "channel_values", channels)
    if found is not None:
        return {name: _as_kept(stored, found[name]) for name in channels or ()}
    state = _state(stored, channels)
    if isinstance(state, Absent):
        return damaged(channels, state)
    names = dict.fromkeys([*state.values, *state.stored_versions]) if channels is None else channels
    return {
        name: _as_kept(stored, state.values[name]) if name in state.values else Absent("empty")
        for name in names
        if name in state.values or name in state.stored_versions
    }


def _with_apart(
    found: Mapping[str, Stored | Absent], stored: Stored, apart: Mapping[tuple[str, str], Stored | Absent]
) -> Mapping[str, Stored | Absent]:
    """The values of a checkpoint, those that it refers to and does not hold put in."""
    state = _state(stored)
    if isinstance(state, Absent):
        return found
    versions = state.versions
    return {
        name: apart.get((name, versions.get(name, "")), value) if isinstance(value, Absent) else value
        for name, value in found.items()
    }


def _row_with_apart(row: WholeRow, apart: Mapping[tuple[str, str], Stored | Absent]) -> WholeRow:
    state = _state(unsealed(row.state))
    if isinstance(state, Absent):
        return row
    found = {
        name: (version, apart[name, version])
        for name, version in state.versions.items()
        if (name, version) in apart
    }
    return replace(
        row,
        missing={name: version for name, (version, value) in found.items() if isinstance(value, Absent)},
        apart={
            name: (version, value) for name, (version, value) in found.items() if isinstance(value, Stored)
        },
    )


def _as_kept(whole: Stored, part: Stored) -> Stored:
    return replace(part, encrypted=True) if whole.encrypted else part


def _entries(stored: Stored | None) -> Mapping[str, Stored]:
    found = None if stored is None else heads.entries(stored)
    return {str(name): value for name, value in (found or {}).items()}


def _ts(stored: Stored) -> str | None:
    """``ts`` of a checkpoint that is no plain JSON, whole or its first bytes; None when it is not among them."""
    if stored.type != "json":
        return _msgpack_ts(stored.data)
    try:
        found = payload.decode(_entries(stored)["ts"])
    except (heads.Unreadable, heads.Cut, KeyError):
        return None
    return found if isinstance(found, str) else None


def _msgpack_ts(head: bytes) -> str | None:
    import msgpack

    unpacker = msgpack.Unpacker(strict_map_key=False, unicode_errors="surrogateescape")
    unpacker.feed(head)
    try:
        for _ in range(unpacker.read_map_header()):
            if unpacker.unpack() == "ts":
                found = unpacker.unpack()
                return found if isinstance(found, str) else None
            unpacker.skip()
    except (ValueError, msgpack.exceptions.UnpackException):
        return None
    return None
