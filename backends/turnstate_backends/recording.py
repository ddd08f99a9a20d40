"""A new SQLite file that ``SqliteSaver`` opens, and rows of any store copied into it.

The only place that writes, and only to the file that it makes: at a name of its own beside the target, which it takes
over when all is there. Tables: those of ``langgraph.checkpoint.sqlite.SqliteSaver.setup``, and ``turnstate_values``,
where a store has values that no row of SQLite's can hold, or tells of some that it has lost.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turnstate_backends import payload
from turnstate_backends.interface import Store, WholeRow, Write
from turnstate_backends.new_file import NewFile
from turnstate_backends.redact import Redactor
from turnstate_backends.sqlite import APART, APART_TABLE, LEFT, MISSING, SHARED_TABLE
from turnstate_backends.values import Stored

_SCHEMA = """
CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    type TEXT,
    checkpoint BLOB,
    metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE writes (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_path TEXT NOT NULL DEFAULT '',
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    type TEXT,
    value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
"""
_APART_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS {APART_TABLE} (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL,
    channel TEXT NOT NULL,
    version TEXT,
    kind TEXT NOT NULL,
    type TEXT,
    value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
)
"""
_SHARED_SCHEMA = f"CREATE TABLE IF NOT EXISTS {SHARED_TABLE} (note TEXT)"
# Text is bound as bytes: an id may hold NUL, or bytes that are not UTF-8.
_T = "CAST(? AS TEXT)"
_ADD_CHECKPOINT = f"INSERT INTO checkpoints VALUES ({_T}, {_T}, {_T}, {_T}, {_T}, ?, ?)"  # noqa: S608
_ADD_WRITE = f"INSERT INTO writes VALUES ({_T}, {_T}, {_T}, {_T}, {_T}, ?, {_T}, {_T}, ?)"  # noqa: S608
_ADD_APART = f"INSERT OR IGNORE INTO {APART_TABLE} VALUES ({_T}, {_T}, {_T}, {_T}, {_T}, {_T}, ?)"  # noqa: S608


class Cut(Struct, frozen=True):
    """A part of one line of a thread's root graph.

    Attributes:
        checkpoints: The rows, oldest first.
        left_out: (task, index) of the writes on the last of them that belong to what came after.
        until: The row that came after; None where the line ends with the part.
    """

    checkpoints: tuple[str, ...]
    left_out: Collection[tuple[str, int]] = ()
    until: str | None = None


class Copied(Struct):
    """What of one thread went into a recording.

    Attributes:
        checkpoints: Checkpoint rows.
        writes: Write rows.
        apart: Values that ``SqliteSaver`` will not see, since no payload of its can hold them.
    """

    checkpoints: int = 0
    writes: int = 0
    apart: int = 0


class Recording:
    """The file in the making."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.executescript(_SCHEMA)
        connection.execute("BEGIN")

    def note_shared(self) -> None:
        """Note that rows of the source which name the same version of a channel have one value between them."""
        self._connection.execute(_SHARED_SCHEMA)

    def add_checkpoint(self, thread: str, ns: str, row: WholeRow) -> None:
        texts = map(_encoded, (thread, ns, row.id, row.parent, row.state.type))
        self._connection.execute(_ADD_CHECKPOINT, (*texts, row.state.data, row.metadata))
        for channel, version in row.missing.items():
            self.add_apart(thread, ns, channel, version, MISSING, Stored(None, b"", 0))
        for channel, (version, value) in row.apart.items():
            self.add_apart(thread, ns, channel, version, APART, value)

    def add_write(self, thread: str, ns: str, write: Write) -> None:
        at = map(_encoded, (thread, ns, write.checkpoint, write.task, write.path))
        value = write.value
        self._connection.execute(
            _ADD_WRITE, (*at, write.idx, _encoded(write.channel), _encoded(value.type), value.data)
        )

    def add_apart(
        self, thread: str, ns: str, channel: str, version: str | None, kind: str, value: Stored
    ) -> None:
        self._connection.execute(_APART_SCHEMA)
        texts = map(_encoded, (thread, ns, channel, version, kind, value.type))
        self._connection.execute(_ADD_APART, (*texts, value.data))


@contextmanager
def new_recording(target: Path, *, force: bool) -> Iterator[Recording]:
    """A new file that stands at ``target`` when the work is done, and of which nothing is left if it fails.

    Args:
        target: Where.
        force: Whether what stands there may go.

    Raises:
        StoreError: Something stands there, the folder is not there, or cannot be written to.
    """
    new = NewFile(target, force, "a recording", "--to")
    with new.part() as (part, _):
        try:
            with closing(sqlite3.connect(part, isolation_level=None)) as connection:
                # Nobody else has the file, and a failure removes it: it needs no journal.
                connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
                yield Recording(connection)
                connection.execute("COMMIT")
                connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise new.unwritable(error) from None


def copy_thread(
    store: Store,
    thread: str,
    recording: Recording,
    redactor: Redactor,
    cut: Cut | None,
) -> Copied:
    """Copy a thread, all of it or what belongs to a part of its line.

    Args:
        store: Where it is.
        thread: Its id.
        recording: Where it goes.
        redactor: What has to go from its payloads.
        cut: The part; everything when None.

    Raises:
        StoreError: A row cannot be read.
    """
    copied = Copied()
    redactor.name(thread)
    if store.shares_values:
        recording.note_shared()
    for ns in store.spaces(thread):
        rows = {row.id for row in store.checkpoints(thread, ns)}
        if cut is not None and ns == "":
            rows &= set(cut.checkpoints)
        kept: set[str] = set()
        for row in store.whole(thread, ns, sorted(rows)):
            if cut is None or ns == "" or _is_called_from(row, cut):
                kept.add(row.id)
                recording.add_checkpoint(thread, ns, _without(redactor, row))
                copied.apart += len(row.apart)
        copied.checkpoints += len(kept)
        for write in store.writes(thread, ns, head=None, opened=False):
            if cut is None or _belongs(write, ns, kept, cut):
                recording.add_write(thread, ns, _write_without(redactor, write))
                copied.writes += 1
        if cut is None:
            for channel, version, value in store.left_values(thread, ns):
                recording.add_apart(thread, ns, channel, version, LEFT, redactor.value(value, channel))
    return copied


def _is_called_from(row: WholeRow, cut: Cut) -> bool:
    """Whether a subgraph's row came about in a part of the root graph: by the parent that it names, else by its id."""
    try:
        metadata = json.loads(row.metadata or b"{}")
    except ValueError:
        metadata = None
    parents = metadata.get("parents") if isinstance(metadata, dict) else None
    if isinstance(parents, dict) and isinstance(parents.get(""), str):
        return parents[""] in cut.checkpoints
    return cut.checkpoints[0] <= row.id and (cut.until is None or row.id < cut.until)


def _belongs(write: Write, ns: str, kept: set[str], cut: Cut) -> bool:
    """Whether a write hangs on a row of the part, or on one that was deleted between two of them."""
    if write.checkpoint not in kept:
        return ns == "" and cut.checkpoints[0] < write.checkpoint < cut.checkpoints[-1]
    return not (
        ns == "" and write.checkpoint == cut.checkpoints[-1] and (write.task, write.idx) in cut.left_out
    )


def _without(redactor: Redactor, row: WholeRow) -> WholeRow:
    return replace(
        row,
        state=redactor.state(row.state),
        metadata=redactor.metadata(row.metadata),
        apart={
            channel: (version, redactor.value(value, channel))
            for channel, (version, value) in row.apart.items()
        },
    )


def _write_without(redactor: Redactor, write: Write) -> Write:
    redactor.name(write.channel)
    value = write.value
    if value.type is None:
        value = replace(value, type=payload.encoding(value))
    return replace(write, value=redactor.value(value, write.channel))


def _encoded(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
