"""Opens a SQLite database so that nothing on disk changes, and that its WAL counts.

Decides how a file can be read (see :func:`open_database`), pins one snapshot and turns SQLite's errors
into :class:`StoreError`. Knows no table and no checkpoint.

SQLite's own read-only modes are not enough: ``mode=ro`` creates ``-wal`` and ``-shm`` beside a database
in WAL mode, or fails where it may not; ``immutable=1`` ignores the rows of the WAL; a plain connection
checkpoints the WAL and deletes it.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from turnstate_backends import sqlite_files as files
from turnstate_backends.interface import StoreError
from turnstate_backends.sqlite_mapped import Mapping

_SETTINGS = (
    "PRAGMA query_only=ON",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-8192",
)
# All is as much as SQLite was built to map; what is beyond is read in the other way.
_MAP = "PRAGMA mmap_size={}"
_ALL, _NONE = 1 << 62, 0
_TRIM_EVERY = 8  # rows, of whichever queries
# Before the first read, so that SQLite keeps the WAL index on the heap and asks for no -shm.
_HEAP_WAL_INDEX = "PRAGMA locking_mode=EXCLUSIVE"
_LOOK_EVERY = 0.25  # seconds
_PATIENCE = (
    2.0  # seconds that a writer is kept waiting, of the 5 after which Python's and Node's drivers fail
)
_RETRY = 0.02  # seconds
_OPERATIONS = 1000  # of SQLite's machine between two moments at which an interrupt is heard
_PIN_SNAPSHOT = "SELECT count(*) FROM sqlite_schema"

EndProcess = Callable[[StoreError], object]
"""Says why nothing more can be read, and ends the process where it stands."""

_numbers = count(1)


class Database:
    """One open database in one read transaction.

    Attributes:
        name: What the user calls it.
        turn: Held while it is closed; see :func:`turnstate_backends.sqlite_files.turn`.
        has_chains: Many of the rows to come may end in long chains of pages. Only these are read mapped: around the few
            pages that others look at, the system would read dozens of times as much from a cold disk.
    """

    turn: AbstractContextManager[Any] = nullcontext()
    has_chains = False

    def __init__(
        self,
        name: str,
        connection: apsw.Connection,
        release: Sequence[Callable[[], None]],
        verify: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._connection: apsw.Connection | None = connection
        self._release = release
        self._verify = verify  # raises files.Changed
        self._mapping: Mapping | None = None
        self._is_mapped = False
        self._since_trim = 0

    def rows(
        self, sql: str, parameters: Sequence[Any] = (), *, scattered: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of one query, as they are read. Raises :class:`StoreError`.

        Args:
            sql: The query.
            parameters: Its parameters.
            scattered: It takes little from each of many places. Mapped, pages around each would come with it, and where
                many are looked at for one row, all would stay in memory until then.
        """
        with _plainly(self.name):
            self._map(self.has_chains and not scattered)
            try:
                yield from self._trimmed(self.connection.execute(sql, tuple(parameters)))
            except apsw.Error:
                self._check()  # a file that changes under SQLite can look corrupt
                raise
            self._check()

    def _trimmed(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The same rows; now and then mapped pages are let go."""
        for row in rows:
            self._since_trim += 1
            if self._mapping is not None and self._since_trim >= _TRIM_EVERY:
                self._since_trim = 0
                self._mapping.trim()
            yield row

    def _check(self) -> None:
        if self._connection is not None:
            self._verify()

    def head_of_blob(self, table: str, column: str, rowid: int, amount: int) -> bytes:
        """First bytes of one value, without reading the rest of it. Raises :class:`StoreError`."""
        with _plainly(self.name), self.connection.blob_open("main", table, column, rowid, False) as blob:
            head: bytes = blob.read(amount)
        return head

    def define(self, name: str, function: Callable[[Any], int]) -> None:
        """Make a Python predicate callable in this connection's SQL."""
        self.connection.create_scalar_function(name, lambda *stored: function(stored[0]), 1)

    def map(self, mapping: Mapping) -> None:
        """Read through memory from here on, where SQLite's own access to files is used.

        Rows end in long chains of pages, and a mapped page costs no call into the system.
        """
        self._mapping = mapping

    def _map(self, wanted: bool) -> None:
        if self._mapping is not None and self._is_mapped != wanted:
            self.connection.execute(_MAP.format(_ALL if wanted else _NONE))
            self._is_mapped = wanted

    @property
    def connection(self) -> apsw.Connection:
        """The connection behind it; raises :class:`StoreError` once closed."""
        if self._connection is None:
            raise StoreError(f"cannot read {self.name}", "the store was closed", "Open it again.")
        return self._connection

    def close(self) -> None:
        """End the snapshot. Safe to call twice."""
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        with self.turn:
            connection.close(True)
            if self._mapping is not None:
                self._mapping.close()
            for release in self._release:
                release()


def open_database(path: Path, *, busy_seconds: float = 5.0, if_cut: EndProcess | None = None) -> Database:
    """Open one SQLite database for reading. Raises :class:`StoreError`.

    Where ``if_cut`` is given, the first two of these ways read through memory (see :meth:`Database.map`), and in
    rollback-journal mode, where a writer waits until its readers are done, it is called when one has waited long.

    * In WAL mode with a connection in another process, or in rollback-journal mode: through SQLite's own
      read-only mode and with a reader's locks, taken before the decision so that the WAL cannot vanish in
      between. Nothing is created: the ``-wal`` and ``-shm`` that the other process made are there.
    * In WAL mode without a WAL, when nobody has it open: as a file that does not change, which is
      checked after every query.
    * Everything else (a WAL left by a crash or a copy; a connection in this very process, whose locks
      ours would undo): through :class:`_UnlockedVFS`, which cannot write, creates and deletes nothing,
      takes no lock, and stops with an error when a file is overwritten meanwhile. It costs a call into
      Python for each block.
    """
    name = str(path)
    try:
        real = path.resolve(strict=True)
        _refuse_what_is_no_database_file(name, real)
        turn = files.turn(real)
    except OSError as error:
        raise _unreadable(name, error) from error
    with turn:
        database = _open(name, real, busy_seconds, if_cut)
    database.turn = turn
    if if_cut is not None:
        with suppress(OSError):
            database.map(Mapping(real, lambda: if_cut(_changed(name))))
    return database


def _open(name: str, real: Path, busy_seconds: float, if_cut: EndProcess | None) -> Database:
    try:
        main = files.open_for_reading(real)
    except OSError as error:
        raise _unreadable(name, error) from error
    try:
        _refuse_content(name, real, os.pread(main, files.HEADER_BYTES, 0))
        return _open_by_state(name, real, main, busy_seconds, if_cut)
    except BaseException:
        files.release(main)
        raise


def _open_by_state(
    name: str, real: Path, main: int, busy_seconds: float, if_cut: EndProcess | None
) -> Database:
    if files.open_elsewhere_in_process(main):
        return _open_unlocked(name, real, main)
    end = time.monotonic() + busy_seconds
    while True:
        try:
            locked = files.lock_shared(main, end - time.monotonic())
            if not (locked and _needs_locks(real, main)):
                break
            database = _open_locked(name, real, main, if_cut)
        except files.Locked as error:
            # A writer that waits for our lock refuses SQLite its own: nobody would move.
            files.unlock_shared(main)
            if time.monotonic() >= end:
                raise _busy(name) from error
            time.sleep(_RETRY)
            continue
        if database is not None:
            return database
        break
    if locked:
        files.unlock_shared(main)
    return _open_unlocked(name, real, main)


def _needs_locks(real: Path, main: int) -> bool:
    if beside(real, "-wal").exists():
        return files.in_use_by_another_process(beside(real, "-shm"))
    return not _in_wal_mode(main)


def _in_wal_mode(main: int) -> bool:
    header = os.pread(main, files.HEADER_BYTES, 0)
    return header[files.READ_VERSION_OFFSET] == files.READ_VERSION_WAL


def _open_locked(name: str, real: Path, main: int, if_cut: EndProcess | None) -> Database | None:
    """None where the -shm is damaged or not filled yet: only a writer may repair it, and we do without.

    Raises:
        files.Locked: SQLite does not get its lock at once. Ours must then be given back before it is tried again.
        StoreError: It cannot be read.
    """
    location = f"file://{quote(os.fsencode(real))}?mode=ro&readonly_shm=1"
    with _plainly(name):
        connection = apsw.Connection(location, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            _pin(connection)
        except apsw.BusyError as error:
            raise files.Locked from error
        except apsw.ReadOnlyError as error:
            if _code(error) in (apsw.SQLITE_READONLY_RECOVERY, apsw.SQLITE_READONLY_CANTINIT):
                return None
            raise
    # The connection goes first: closing our descriptor drops its locks.
    release = [lambda: files.release(main)]
    if if_cut is not None and not _in_wal_mode(main):
        release.insert(0, _give_way(main, lambda: if_cut(_kept_waiting(name))))
    return Database(name, connection, release)


def _give_way(main: int, end_process: Callable[[], object]) -> Callable[[], None]:
    """Watch for a writer that our lock keeps waiting, and end the process before the writer fails.

    The lock cannot be given back in mid-read: what was read before and after would be of two moments.

    Returns:
        Ends the watch.
    """
    done = threading.Event()

    def watch() -> None:
        waited = 0.0
        while not done.wait(_LOOK_EVERY):
            waited = waited + _LOOK_EVERY if files.writer_waits(main) else 0.0
            if waited >= _PATIENCE:
                end_process()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()

    def end() -> None:
        done.set()
        watcher.join()

    return end


def _open_unlocked(name: str, real: Path, main: int) -> Database:
    try:
        pair = files.unlocked_files(main, beside(real, "-wal"))
    except files.Changed as error:
        raise _changed(name) from error
    except OSError as error:
        raise _unreadable(name, error) from error
    try:
        if _begins_a_journal(beside(real, "-journal")):
            raise _hot_journal(name)
        if pair.wal is None and not files.open_elsewhere_in_process(main):
            return _open_unchanging(name, real, pair)
        return _open_through_vfs(name, pair)
    except BaseException:
        if pair.wal is not None:
            files.release(pair.wal)
        raise


def _open_through_vfs(name: str, pair: files.UnlockedFiles) -> Database:
    vfs = _UnlockedVFS(f"turnstate-{next(_numbers)}", pair)
    try:
        with _plainly(name):
            connection = apsw.Connection(_MAIN, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs.vfs_name)
            connection.execute(_HEAP_WAL_INDEX)
            _pin(connection)
    except BaseException:
        vfs.unregister()
        raise
    return Database(name, connection, [vfs.unregister, pair.release])


def _open_unchanging(name: str, real: Path, pair: files.UnlockedFiles) -> Database:
    location = f"file://{quote(os.fsencode(real))}?mode=ro&immutable=1"
    with _plainly(name):
        connection = apsw.Connection(location, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        _pin(connection)
    return Database(name, connection, [pair.release], pair.verify)


def _pin(connection: apsw.Connection) -> None:
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        for setting in _SETTINGS:
            connection.execute(setting)
        # Between rows Python hears an interrupt anyway; a long way to the next one needs this.
        connection.set_progress_handler(lambda: False, _OPERATIONS)
        connection.execute("BEGIN DEFERRED")
        connection.execute(_PIN_SNAPSHOT).fetchall()
    except BaseException:
        connection.close(True)
        raise


def beside(database: Path, suffix: str) -> Path:
    """Path of a database's companion file, ``-wal`` for example."""
    return database.with_name(database.name + suffix)


_MAIN = "store"
_WAL = _MAIN + "-wal"


class _UnlockedVFS(apsw.VFS):
    """Lets SQLite see exactly two files, under names of its own, and neither write nor lock them."""

    def __init__(self, name: str, pair: files.UnlockedFiles) -> None:
        self.vfs_name = name
        self._pair = pair
        super().__init__(name, base="")

    def xAccess(self, pathname: str, flags: int) -> bool:
        return pathname == _MAIN or (pathname == _WAL and self._pair.wal is not None)

    def xFullPathname(self, name: str) -> str:
        return name

    def xDelete(self, filename: str, syncdir: bool) -> None:
        raise apsw.ReadOnlyError(f"refused to delete {filename}")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> Any:
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        # SQLite never checkpoints a WAL that could only be opened for reading.
        flags[1] = (flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)) | (
            apsw.SQLITE_OPEN_READONLY
        )
        if filename == _MAIN:
            return _UnlockedFile(self._pair.read_main, self._pair.main_size)
        if filename == _WAL:
            return _UnlockedFile(self._pair.read_wal, self._pair.wal_size)
        raise apsw.CantOpenError(f"refused to create {filename}")


class _UnlockedFile:
    def __init__(self, read: Callable[[int, int], bytes], size: Callable[[], int]) -> None:
        self.xRead = read
        self.xFileSize = size

    def xClose(self) -> None:
        """The descriptors belong to the pair."""

    def xLock(self, level: int) -> None:
        """Nothing to lock: changes are noticed instead."""

    def xUnlock(self, level: int) -> None:
        """Nothing was locked."""

    def xCheckReservedLock(self) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSync(self, flags: int) -> None:
        """Nothing was written."""

    def xTruncate(self, newsize: int) -> None:
        raise apsw.ReadOnlyError("refused to truncate")

    def xWrite(self, data: bytes, offset: int) -> None:
        raise apsw.ReadOnlyError("refused to write")


def _refuse_what_is_no_database_file(name: str, real: Path) -> None:
    status = real.stat()
    if stat.S_ISDIR(status.st_mode):
        raise StoreError(
            f"cannot open {name}", "it is a directory", "Give the path of the SQLite file inside it."
        )
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"cannot open {name}", "it is not a regular file", "Give the path of a SQLite file.")
    if status.st_size == 0:
        wal = beside(real, "-wal")
        if wal.exists() and wal.stat().st_size:
            raise StoreError(
                f"cannot open {name}",
                "the file is empty (0 bytes) although a -wal with data stands beside it",
                "Restore the database that belongs to this -wal; SQLite would delete the -wal on opening.",
            )
        raise StoreError(
            f"cannot open {name}",
            "the file is empty (0 bytes): no checkpointer has written to it",
            "Check the path; a program that was started elsewhere may have created this file by accident.",
        )


def _refuse_content(name: str, real: Path, header: bytes) -> None:
    if header.startswith(files.MAGIC) and len(header) == files.HEADER_BYTES:
        return
    for suffix, magics in (
        ("-wal", files.WAL_MAGICS),
        ("-journal", (files.JOURNAL_MAGIC,)),
        ("-shm", (b"",)),
    ):
        if real.name.endswith(suffix) and header.startswith(magics):
            database = real.name.removesuffix(suffix)
            there = beside(real.with_name(database), "").exists() if database else False
            raise StoreError(
                f"cannot open {name}",
                f"it is the {suffix} file of a SQLite database, not the database",
                f"Give the path of {database}."
                if there
                else f"Find the database {database} that belongs to it: a {suffix} cannot be read without it.",
            )
    raise StoreError(
        f"cannot open {name}",
        "it is no SQLite database (it does not begin with 'SQLite format 3'), or is encrypted as a whole",
        "Check the path.",
    )


def _begins_a_journal(journal: Path) -> bool:
    """Whether a rollback journal is in use: SQLite ends one by deleting, emptying or zeroing its header."""
    try:
        with journal.open("rb") as stream:
            return stream.read(len(files.JOURNAL_MAGIC)) == files.JOURNAL_MAGIC
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unreadable(str(journal), error) from error


@contextmanager
def _plainly(name: str) -> Iterator[None]:
    try:
        yield
    except files.Changed as error:
        raise _changed(name) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise _busy(name) from error
    except apsw.NotADBError as error:
        raise StoreError(
            f"cannot open {name}",
            "SQLite does not recognise it as a database, or it is encrypted as a whole",
            "Check the path.",
        ) from error
    except apsw.ReadOnlyError as error:
        if _code(error) == apsw.SQLITE_READONLY_ROLLBACK:
            raise _hot_journal(name) from error
        raise _failed(name, error) from error
    except apsw.Error as error:
        raise _failed(name, error) from error


def _code(error: apsw.Error) -> int:
    return int(getattr(error, "extendedresult", 0))


def _failed(name: str, error: apsw.Error) -> StoreError:
    text = " ".join(str(error).split())
    hint = "Try again."
    if isinstance(error, apsw.CorruptError):
        hint = "Copy the file with its -wal and run sqlite3's .recover on the copy."
    return StoreError(f"cannot read {name}", f"SQLite says: {text}", hint)


def _busy(name: str) -> StoreError:
    return StoreError(
        f"cannot read {name}",
        "another program kept the database locked exclusively",
        "Try again when it has finished writing, or read a copy of the file and its -wal.",
    )


def _changed(name: str) -> StoreError:
    return StoreError(
        f"cannot read {name} in one snapshot",
        "a program wrote to it while it was being read",
        "Run the command again.",
    )


def _kept_waiting(name: str) -> StoreError:
    return StoreError(
        f"cannot read {name} in one snapshot",
        f"in rollback-journal mode reading keeps writers waiting, and one has waited {_PATIENCE:g} seconds",
        "Try again when it has finished writing, or make a copy with sqlite3's .backup and read that.",
    )


def _hot_journal(name: str) -> StoreError:
    return StoreError(
        f"cannot read {name}",
        "a -journal beside it holds an unfinished transaction, and undoing it would write to the file",
        "Copy the file and its -journal elsewhere, open the copy once with sqlite3, and read the copy.",
    )


def _unreadable(name: str, error: OSError) -> StoreError:
    if isinstance(error, FileNotFoundError) and (wal := beside(Path(name), "-wal")).is_file():
        return StoreError(
            f"cannot open {name}",
            f"there is no such file, only {wal.name}, its write-ahead log, which holds the latest changes alone",
            "Restore the database that belongs to this -wal, and keep the -wal beside it.",
        )
    if isinstance(error, FileNotFoundError):
        return StoreError(f"cannot open {name}", "there is no such file", "Check the path.")
    if isinstance(error, PermissionError):
        return StoreError(
            f"cannot open {name}",
            "reading it is not permitted",
            "Ask for read permission on the file and its -wal, and for search permission on their folders.",
        )
    return StoreError(
        f"cannot open {name}", f"the system says: {error.strerror or type(error).__name__}", "Check the path."
    )
