"""A store that ``PostgresSaver`` (or its LangGraph.js or shallow relative) wrote, read from PostgreSQL.

Knows the statements and what their rows mean. Decodes no payload. Everything runs in one ``REPEATABLE READ,
READ ONLY`` transaction; how it is begun, which layout was found and what errors mean stands in the modules
beside this one (``postgres_connection``, ``postgres_layout``, ``postgres_errors``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import count, groupby
from operator import itemgetter
from typing import Any, Final

import psycopg
from psycopg import sql

from turnstate_backends import heads, payload
from turnstate_backends.address import PostgresAddress, spellings_of
from turnstate_backends.assembly import assembled
from turnstate_backends.encryption import has_key, is_sealed, sealed, unsealed
from turnstate_backends.interface import (
    Checkpoint,
    Store,
    StoreError,
    ThreadRow,
    WholeRow,
    Write,
    damage_of,
    damaged,
    delta_updates,
    source_of,
    step_of,
    thread_row,
)
from turnstate_backends.postgres_connection import SETTINGS, begin, connect, unchecked_text
from turnstate_backends.postgres_errors import store_errors
from turnstate_backends.postgres_layout import LAYOUT, TABLES, layout
from turnstate_backends.values import Absent, Stored

# {checkpoints}, {blobs}, {writes}: qualified table names. {id}, {parent}, {version}, {same_version}, {path}: what
# the layouts differ in; see postgres_layout.

# One descent of the primary key per namespace, however many rows lie between.
NAMESPACES: Final = """
with recursive namespaces (thread_id, checkpoint_ns) as (
    (select thread_id, checkpoint_ns from {checkpoints} order by thread_id, checkpoint_ns limit 1)
    union all
    select following.thread_id, following.checkpoint_ns
    from namespaces n cross join lateral (
        select c.thread_id, c.checkpoint_ns from {checkpoints} c
        where (c.thread_id, c.checkpoint_ns) > (n.thread_id, n.checkpoint_ns)
        order by c.thread_id, c.checkpoint_ns limit 1
    ) following
)
select n.thread_id, (
    select {id} from {checkpoints} c
    where c.thread_id = n.thread_id and c.checkpoint_ns = n.checkpoint_ns
    order by {id} desc limit 1
)
from namespaces n
"""

COUNTS: Final = """
select listed.thread_id, counted.*
from unnest(%s::text[]) listed (thread_id) cross join lateral (
    select c.checkpoint_ns, count(*), min({id}), max({id})
    from {checkpoints} c where c.thread_id = listed.thread_id group by c.checkpoint_ns
) counted
"""

CHECKPOINTS: Final = """
select {id}, {parent}, c.metadata ->> 'source', c.metadata ->> 'step', c.metadata ->> 'run_id',
       case when jsonb_typeof(c.metadata -> 'counters_since_delta_snapshot') = 'object'
            then (c.metadata -> 'counters_since_delta_snapshot')::text end
from {checkpoints} c where c.thread_id = %s and c.checkpoint_ns = %s
"""

WRITES: Final = """
select w.checkpoint_id, w.task_id::text, {path}, w.idx, w.channel, w.type, {payload},
       coalesce(octet_length(w.blob), 0)
from {writes} w
where w.thread_id = %(thread)s and w.checkpoint_ns = %(ns)s
  and (%(channels)s::text[] is null or w.channel = any(%(channels)s::text[]))
  and (%(checkpoints)s::text[] is null or w.checkpoint_id = any(%(checkpoints)s::text[]))
"""

VERSIONS: Final = """
select {id}, (c.checkpoint -> 'channel_versions')::text
from {checkpoints} c where c.thread_id = %s and c.checkpoint_ns = %s and {id} = any(%s)
"""

SEEN: Final = """
select {id}, (c.checkpoint -> 'versions_seen')::text
from {checkpoints} c where c.thread_id = %s and c.checkpoint_ns = %s and {id} = any(%s)
"""

TIMES: Final = """
select {id}, c.checkpoint ->> 'ts'
from {checkpoints} c where c.thread_id = %s and c.checkpoint_ns = %s and {id} = any(%s)
"""

# A row without channel says that the checkpoint payload itself cannot be read. A value that neighbours refer
# to comes with the first of them.
VALUES: Final = """
with parts as materialized (
    select asked.nth, {id} as id,
           case when jsonb_typeof(c.checkpoint) = 'object'
                then coalesce(nullif(c.checkpoint -> 'channel_versions', 'null'), '{{}}') end as versions,
           coalesce(nullif(c.checkpoint -> 'channel_values', 'null'), '{{}}') as inlined,
           c.metadata -> 'counters_since_delta_snapshot' as deltas
    from unnest(%(ids)s::text[]) with ordinality asked (id, nth)
    join {checkpoints} c on c.thread_id = %(thread)s and c.checkpoint_ns = %(ns)s and {id} = asked.id
), readable as (
    select * from parts where jsonb_typeof(versions) = 'object' and jsonb_typeof(inlined) = 'object'
), channels as (
    select r.nth, r.id, keys.channel, r.versions ->> keys.channel as version,
           (r.inlined -> keys.channel)::text as inlined, coalesce(r.deltas ? keys.channel, false) as is_delta
    from readable r cross join lateral (
        select jsonb_object_keys(r.versions) union select jsonb_object_keys(r.inlined)
    ) keys (channel)
    where %(channels)s::text[] is null or keys.channel = any(%(channels)s::text[])
), ordered as (
    select *, coalesce(version = lag(version) over (partition by channel order by nth), false) as told
    from (
        select * from channels
        union all
        select nth, id, null, null, null, false
        from parts where jsonb_typeof(versions) is distinct from 'object' or jsonb_typeof(inlined) <> 'object'
    ) found
    order by nth
)
select v.id, v.channel, v.version, v.inlined, v.is_delta, v.told, b.channel is not null, b.type, b.blob
from ordered v left join lateral (
    select * from {blobs} b
    where not v.told and b.thread_id = %(thread)s and b.checkpoint_ns = %(ns)s
      and b.channel = v.channel and {same_version}
) b on true
order by v.nth
"""

# Versions that came about by emptying their channel, so that no row of them was ever written. The checkpoint
# that made a version has it as its greatest, and since format 4 lists in updated_channels the channels that
# held something afterwards (pregel/_algo.py, apply_writes). Such versions are zero-padded: text compares.
EMPTIED: Final = """
select made.channel, made.version
from (
    select distinct on (wanted.channel, c.checkpoint -> 'channel_versions' ->> wanted.channel)
           wanted.channel, c.checkpoint -> 'channel_versions' ->> wanted.channel as version, c.checkpoint
    from {checkpoints} c cross join unnest(%(channels)s::text[]) wanted (channel)
    where c.thread_id = %(thread)s and c.checkpoint_ns = %(ns)s
      and jsonb_typeof(c.checkpoint -> 'channel_versions') = 'object'
      and jsonb_typeof(c.checkpoint -> 'updated_channels') = 'array'
    order by wanted.channel, c.checkpoint -> 'channel_versions' ->> wanted.channel, {id}
) made
where not (made.checkpoint -> 'updated_channels') ? made.channel
  and not exists (
      select from jsonb_each_text(made.checkpoint -> 'channel_versions') other
      where other.value collate "C" > made.version collate "C"
  )
"""

# Channels kept as deltas: a snapshot leaves an inline true beside its blob, which is no value by itself.
DELTAS: Final = """
select distinct jsonb_object_keys(c.metadata -> 'counters_since_delta_snapshot')
from {checkpoints} c where c.thread_id = %s and c.checkpoint_ns = %s
  and jsonb_typeof(c.metadata -> 'counters_since_delta_snapshot') = 'object'
"""

# References without a value row. What of them is no loss is decided as for VALUES, from whether something stands
# inline, and whether that is only true.
UNBACKED: Final = """
select v.id, v.channel, v.version, v.inlined, v.is_delta
from (
    select {id} as id, refs.key as channel, refs.value as version,
           case c.checkpoint -> 'channel_values' -> refs.key when 'true' then 'true'
                else case when c.checkpoint -> 'channel_values' -> refs.key is not null then '' end end as inlined,
           coalesce(c.metadata -> 'counters_since_delta_snapshot' ? refs.key, false) as is_delta
    from {checkpoints} c cross join lateral jsonb_each_text(
        case when jsonb_typeof(c.checkpoint -> 'channel_versions') = 'object'
                  and coalesce(jsonb_typeof(c.checkpoint -> 'channel_values'), 'null') in ('object', 'null')
             then c.checkpoint -> 'channel_versions' else '{{}}' end
    ) refs
    where c.thread_id = %(thread)s and c.checkpoint_ns = %(ns)s
) v
where v.version is not null and v.inlined is distinct from ''
  and not exists (
      select from {blobs} b
      where b.thread_id = %(thread)s and b.checkpoint_ns = %(ns)s and b.channel = v.channel and {same_version}
  )
"""

# A checkpoint without its values, and what else its row holds.
ROWS: Final = """
select {id}, {parent}, c.metadata::text,
       case when jsonb_typeof(c.checkpoint) = 'object' then (c.checkpoint - 'channel_values')::text
            else c.checkpoint::text end
from {checkpoints} c where c.thread_id = %s and c.checkpoint_ns = %s and {id} = any(%s)
"""

SPACES: Final = """
select checkpoint_ns from {checkpoints} where thread_id = %(thread)s
union select checkpoint_ns from {writes} where thread_id = %(thread)s
union select checkpoint_ns from {blobs} where thread_id = %(thread)s
"""

UNREFERENCED: Final = """
with v as materialized (
    select distinct refs.key as channel, refs.value as version
    from {checkpoints} c cross join lateral jsonb_each_text(
        case when jsonb_typeof(c.checkpoint -> 'channel_versions') = 'object'
             then c.checkpoint -> 'channel_versions' else '{{}}' end
    ) refs
    where c.thread_id = %(thread)s and c.checkpoint_ns = %(ns)s
)
select b.channel, {version}, {payload} from {blobs} b
where b.thread_id = %(thread)s and b.checkpoint_ns = %(ns)s and b.type is distinct from 'empty'
  and not exists (select from v where v.channel = b.channel and {same_version})
"""

# Channels that a step consumes: emptied without a row being written since checkpoint-postgres 2.0.23.
_CONSUMED: Final = ("__start__", "branch:", "start:", "__pregel_")

_BYTEA: Final = 17  # its oid, in PostgreSQL's pg_type.dat
_BATCH_BYTES: Final = 8 << 20


class PostgresStore(Store):
    """A PostgreSQL store, open in one snapshot. See :class:`turnstate_backends.interface.Store`."""

    shares_values = True

    def __init__(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        name: str,
        secrets: frozenset[str],
        parts: Mapping[str, sql.Composable],
    ) -> None:
        self.name = name
        self._connection = connection
        self._secrets = secrets
        self._parts = parts
        self._cursors = count(1)
        self._emptied: dict[tuple[str, str], dict[str, set[str]]] = {}
        self._delta_channels: dict[tuple[str, str], frozenset[str]] = {}
        self._text_errors = "surrogateescape" if unchecked_text(connection) else "strict"

    def threads(
        self, *, limit: int | None = None, pattern: str | None = None, thread: str | None = None
    ) -> Sequence[ThreadRow]:
        """Threads, most recent first; "greatest" ids are PostgreSQL's, as for LangGraph when it resumes."""
        if thread is not None:
            chosen = [thread] if pattern is None or fnmatchcase(thread, pattern) else []
        else:
            latest: dict[str, str] = {}
            for found, last in self._all(NAMESPACES):
                if pattern is None or fnmatchcase(found, pattern):
                    latest[found] = max(latest.get(found, ""), last or "")
            chosen = sorted(sorted(latest), key=latest.__getitem__, reverse=True)
        chosen = self._storable(chosen[:limit])
        if not chosen:
            return []
        rows: dict[str, list[tuple[str, int, str, str]]] = {}
        for found, ns, checkpoints, first, last in self._all(COUNTS, [chosen]):
            rows.setdefault(found, []).append((ns, checkpoints, first or "", last or ""))
        listed = [thread_row(found, namespaces) for found, namespaces in rows.items()]
        return sorted(sorted(listed, key=lambda row: row.id), key=lambda row: row.last, reverse=True)

    def checkpoints(self, thread: str, ns: str) -> Iterable[Checkpoint]:
        if self._storable([thread, ns]) != [thread, ns]:
            return
        for id_, parent, source, step, run_id, deltas in self._stream(CHECKPOINTS, [thread, ns]):
            if id_ is not None:
                counters = dict(sorted(json.loads(deltas).items())) if deltas else {}
                updates = delta_updates(counters) if counters else ()
                yield Checkpoint(
                    id_, parent or None, source_of(source), step_of(step), run_id, tuple(counters), updates
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
        if self._storable([thread, ns]) != [thread, ns]:
            return
        params = {
            "thread": thread,
            "ns": ns,
            "channels": None if channels is None else self._storable(channels),
            "checkpoints": None if checkpoints is None else self._storable(checkpoints),
        }
        if head is None:
            payload: sql.Composable = sql.SQL("w.blob")
        elif head > 0:
            payload = sql.SQL("substring(w.blob from 1 for {})").format(sql.Literal(min(head, 2**31 - 1)))
            if opened and has_key():  # an encrypted payload opens only whole
                payload = sql.SQL("case when w.type like '%%+aes' then w.blob else {} end").format(payload)
        else:
            payload = sql.SQL("null::bytea")
        for checkpoint, task, path, idx, channel, type_, data, size in self._stream(
            WRITES, params, payload=payload
        ):
            stored = Stored(type_, bytes(data or b""), size)
            value = unsealed(stored, head) if opened else stored
            yield Write(checkpoint, task, path or "", idx, channel, value)

    def versions(self, thread: str, ns: str, checkpoints: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return {
            id_: _version_texts(versions) for id_, versions in self._named(VERSIONS, thread, ns, checkpoints)
        }

    def seen(
        self, thread: str, ns: str, checkpoints: Collection[str]
    ) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        return {id_: _seen_texts(seen) for id_, seen in self._named(SEEN, thread, ns, checkpoints)}

    def values(
        self, thread: str, ns: str, checkpoint: str, channels: Collection[str] | None = None
    ) -> Mapping[str, Stored | Absent]:
        return next((found for _, found in self.along(thread, ns, [checkpoint], channels)), {})

    def along(
        self, thread: str, ns: str, checkpoints: Sequence[str], channels: Collection[str] | None = None
    ) -> Iterator[tuple[str, Mapping[str, Stored | Absent]]]:
        ids = self._storable(checkpoints)
        if not ids or self._storable([thread, ns]) != [thread, ns]:
            return
        wanted = None if channels is None else self._storable(channels)
        params = {"thread": thread, "ns": ns, "ids": ids, "channels": wanted}
        held: dict[str, Stored | Absent] = {}
        in_blob: set[str] = set()  # channels whose held value wins over what stands inline
        rows = self._stream(VALUES, params) if len(ids) > 1 else self._all(VALUES, params)
        for id_, group in groupby(rows, key=itemgetter(0)):
            found: dict[str, Stored | Absent] = {}
            missing: dict[str, str] = {}
            for _, channel, version, inlined, is_delta, told, *row in group:
                if channel is None:
                    reason = {"reason": "the checkpoint's JSON does not map channels to versions"}
                    found = damaged(channels, Absent("undecodable", reason))
                elif told and (inlined is None or channel in in_blob):
                    found[channel] = held[channel]
                else:
                    (in_blob.add if row[0] else in_blob.discard)(channel)
                    value = self._value(thread, ns, channel, version, inlined, is_delta, *row)
                    found[channel] = value
                    if isinstance(value, Absent) and value.kind == "value_missing":
                        missing[channel] = version
            for channel, version in self._emptied_versions(thread, ns, missing):
                if missing.get(channel) == version:
                    found[channel] = Absent("empty", {"version": version})
            held |= found
            yield id_, found

    def _value(
        self,
        thread: str,
        ns: str,
        channel: str,
        version: str | None,
        inlined: str | None,
        is_delta: bool,
        has_row: bool,
        type_: str | None,
        blob: bytes | None,
    ) -> Stored | Absent:
        """A blob wins over the inline reading; a version without either is lost, unless it was emptied."""
        at = {} if version is None else {"version": version}
        if has_row and type_ != "empty":
            data = bytes(blob or b"")
            return unsealed(Stored(type_, data, len(data)))
        if has_row:
            return Absent("empty", at)
        if inlined is not None and not (inlined == "true" and channel in self._deltas(thread, ns)):
            data = inlined.encode("utf-8", self._text_errors)
            return Stored("json", data, len(data))
        if inlined is None and (is_delta or _emptied_by_name(channel, version or "")):
            return Absent("empty", at)
        return Absent("value_missing", at)

    def times(self, thread: str, ns: str, checkpoints: Collection[str]) -> Mapping[str, str]:
        return {id_: ts for id_, ts in self._named(TIMES, thread, ns, checkpoints) if ts is not None}

    def lost_values(self, thread: str, ns: str) -> Iterable[tuple[str, str, str]]:
        if self._storable([thread, ns]) != [thread, ns]:
            return ()
        unbacked = [
            (id_, channel, version)
            for id_, channel, version, inlined, is_delta in self._all(UNBACKED, {"thread": thread, "ns": ns})
            for value in [self._value(thread, ns, channel, version, inlined, is_delta, False, None, None)]
            if isinstance(value, Absent) and value.kind == "value_missing"
        ]
        emptied = self._emptied_versions(thread, ns, dict.fromkeys(channel for _, channel, _ in unbacked))
        return [found for found in unbacked if found[1:] not in emptied]

    def unreferenced_values(self, thread: str, ns: str) -> Iterable[tuple[str, str | None]]:
        if self._storable([thread, ns]) != [thread, ns]:
            return ()
        rows = self._stream(
            UNREFERENCED, {"thread": thread, "ns": ns}, payload=sql.SQL("null::text, null::bytea")
        )
        return [(channel, version) for channel, version, *_ in rows]

    def spaces(self, thread: str) -> Collection[str]:
        if self._storable([thread]) != [thread]:
            return ()
        return sorted(ns for (ns,) in self._all(SPACES, {"thread": thread}))

    def whole(self, thread: str, ns: str, checkpoints: Sequence[str]) -> Iterator[WholeRow]:
        rows = {id_: row for id_, *row in self._named(ROWS, thread, ns, checkpoints)}
        for id_, found in self.along(thread, ns, [id_ for id_ in checkpoints if id_ in rows]):
            parent, metadata, fields = rows[id_]
            yield self._whole(id_, parent or None, self._encoded(metadata), self._encoded(fields), found)

    def _whole(
        self,
        id_: str,
        parent: str | None,
        metadata: bytes,
        fields: bytes,
        found: Mapping[str, Stored | Absent],
    ) -> WholeRow:
        stored = Stored("json", fields, len(fields))
        parts = heads.entries(stored)
        if parts is None or damage_of(found) is not None:
            return WholeRow(id_, parent, stored, metadata)
        values = {name: value for name, value in found.items() if isinstance(value, Stored)}
        if any(map(is_sealed, values.values())):
            raise self._cannot_open(next(filter(is_sealed, values.values())))
        state, held_apart = assembled(parts, values)
        versions = _version_texts(parts["channel_versions"].data.decode("utf-8", "surrogateescape"))
        if any(value.encrypted for value in values.values()):
            state = sealed(state)
        return WholeRow(
            id_,
            parent,
            state,
            metadata,
            missing={
                name: str(value.stored.get("version", ""))
                for name, value in found.items()
                if isinstance(value, Absent) and value.kind == "value_missing"
            },
            apart={name: (versions.get(name, ""), values[name]) for name in held_apart},
        )

    def _encoded(self, text: str) -> bytes:
        return text.encode("utf-8", self._text_errors)

    def _cannot_open(self, stored: Stored) -> StoreError:
        return StoreError(
            f"an encrypted value in {self.name} cannot be opened",
            f"{payload.decode(stored).stored['reason']}; PostgreSQL has values one by one, SQLite all of a "
            "checkpoint in one payload",
            "Give the key, as to LangGraph.",
        )

    def left_values(self, thread: str, ns: str) -> Iterable[tuple[str, str | None, Stored]]:
        if self._storable([thread, ns]) != [thread, ns]:
            return
        params = {"thread": thread, "ns": ns}
        for channel, version, type_, data in self._stream(
            UNREFERENCED, params, payload=sql.SQL("b.type, b.blob")
        ):
            yield channel, version, Stored(type_, bytes(data or b""), len(data or b""))

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.rollback()  # a pooler drops a server connection that is left in a transaction
        self._connection.close()

    def _emptied_versions(self, thread: str, ns: str, channels: Collection[str]) -> set[tuple[str, str]]:
        """(channel, version) pairs without a value; each channel is looked through once per opened store."""
        known = self._emptied.setdefault((thread, ns), {})
        if unknown := [channel for channel in channels if channel not in known]:
            known.update({channel: set() for channel in unknown})
            for channel, version in self._all(EMPTIED, {"thread": thread, "ns": ns, "channels": unknown}):
                known[channel].add(version)
        return {(channel, version) for channel in channels for version in known[channel]}

    def _deltas(self, thread: str, ns: str) -> frozenset[str]:
        if (thread, ns) not in self._delta_channels:
            found = frozenset(channel for (channel,) in self._all(DELTAS, [thread, ns]))
            self._delta_channels[thread, ns] = found
        return self._delta_channels[thread, ns]

    def _named(
        self, statement: str, thread: str, ns: str, checkpoints: Collection[str]
    ) -> list[tuple[Any, ...]]:
        """Rows of a statement about the named checkpoints of one namespace."""
        ids = self._storable(checkpoints)
        if not ids or self._storable([thread, ns]) != [thread, ns]:
            return []
        return self._all(statement, [thread, ns, ids])

    def _storable(self, texts: Iterable[str]) -> list[str]:
        """Those that PostgreSQL can hold at all; the rest (NUL, lone surrogates) are in no store."""
        return [text for text in texts if "\0" not in text and _encodes(text, self._text_errors)]

    def _all(self, statement: str, params: Any = ()) -> list[tuple[Any, ...]]:
        query = sql.SQL(statement).format(**self._parts)
        with store_errors(self.name, self._secrets), self._connection.cursor(binary=True) as cursor:
            return cursor.execute(query, params).fetchall()

    def _stream(self, statement: str, params: Any, **parts: sql.Composable) -> Iterator[tuple[Any, ...]]:
        """Rows through a cursor on the server, in batches that hold about _BATCH_BYTES."""
        query = sql.SQL(statement).format(**self._parts, **parts)
        with (
            store_errors(self.name, self._secrets),
            self._connection.cursor(f"turnstate_{next(self._cursors)}", binary=True) as cursor,
        ):
            cursor.execute(query, params)
            size = 16
            long = [at for at, column in enumerate(cursor.description or ()) if column.type_code == _BYTEA]
            while batch := cursor.fetchmany(size):
                yield from batch
                largest = sum(max(len(row[at] or b"") for row in batch) for at in long)
                size = max(1, min(2000, size * 4, _BATCH_BYTES // (largest + 256)))


def open_postgres(address: PostgresAddress, schema: str | None = None) -> PostgresStore:
    """Connect, begin the snapshot and find the store's tables.

    Args:
        address: Where; what it leaves out comes from PG* variables, service and password files.
        schema: Schema of the tables. When None, the first on the connection's search path that has a
            table ``checkpoints``, as LangGraph itself would find it.

    Raises:
        StoreError: No connection, no store there, a layout that is not known, or no right to read it.
    """
    secrets = address.secrets | spellings_of(os.environ.get("PGPASSWORD", ""))
    connection = connect(address, secrets)
    try:
        with store_errors(address.display, secrets):
            begin(connection)
            rows = connection.execute(LAYOUT, [list(TABLES)]).fetchall()
            connection.execute(SETTINGS)
        return PostgresStore(connection, address.display, secrets, layout(rows, address.display, schema))
    except BaseException:
        connection.close()
        raise


def _emptied_by_name(channel: str, version: str) -> bool:
    """Whether a version without a row is no loss: consumed by its step, or, in checkpoint-postgres 1.0,
    a version that ends in the hash of the value and has none (``get_next_version``)."""
    return channel.startswith(_CONSUMED) or version.endswith(".")


def _version_texts(versions: str | None) -> dict[str, str]:
    """``channel_versions`` with each version as its text; LangGraph.js stores numbers."""
    return _texts(json.loads(versions or "null", parse_int=str, parse_float=str))


def _seen_texts(seen: str | None) -> dict[str, dict[str, str]]:
    """``versions_seen`` likewise, by node."""
    parsed = json.loads(seen or "null", parse_int=str, parse_float=str)
    return {node: _texts(versions) for node, versions in parsed.items()} if isinstance(parsed, dict) else {}


def _texts(parsed: Any) -> dict[str, str]:
    if not isinstance(parsed, dict):
        return {}
    return {channel: version for channel, version in parsed.items() if isinstance(version, str)}


def _encodes(text: str, errors: str) -> bool:
    try:
        text.encode("utf-8", errors)
    except UnicodeEncodeError:
        return False
    return True
