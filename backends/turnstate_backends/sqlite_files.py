"""The files of a SQLite database as the operating system sees them: descriptors, locks, change.

Knows POSIX, the byte offsets of SQLite's locks and of its file headers; knows no SQLite library, no
SQL and no checkpoint. Opens for reading only and creates nothing.

POSIX drops every lock that a process holds on a file when *any* descriptor of that file is closed. If
this process already has the database open elsewhere (a running graph and its saver), closing a
descriptor here would take that connection's locks away, and another process could then delete the WAL
under it. So a descriptor is closed only when nobody else in this process has the file open, and kept
for the next reader otherwise.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
import time
from pathlib import Path

from msgspec import Struct

# Offsets of https://www.sqlite.org/fileformat2.html (§1.3, §4.1) and of SQLite's os_unix.c.
HEADER_BYTES = 100
MAGIC = b"SQLite format 3\x00"
READ_VERSION_OFFSET = 19
READ_VERSION_WAL = 2
WAL_HEADER_BYTES = 32
WAL_MAGICS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_PENDING_BYTE = 0x40000000
_SHARED_FIRST = _PENDING_BYTE + 2
_SHARED_BYTES = 510
_SHM_DEAD_MAN_SWITCH = 128

# Kernels stamp files with a clock that ticks every 1–10 ms; a younger time stamp may hide a second change.
_CLOCK_TICK_NS = 20_000_000
_NO_LOCKS_HERE = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}

_ours: set[int] = set()
_kept: dict[tuple[int, int], list[int]] = {}
_turns: dict[tuple[int, int], threading.Lock] = {}


class Changed(Exception):
    """A file was overwritten after reading began, so what was read before belongs to another state."""


class Locked(Exception):
    """A writer held the database exclusively for the whole time that was allowed for waiting."""


def turn(path: Path) -> threading.Lock:
    """What a thread holds while it opens or closes a database; one per file. Raises OSError.

    A descriptor that is closed drops all locks that the process has on the file, also those that another thread has
    just taken, and whether one may be closed is looked at before.
    """
    status = path.stat()
    return _turns.setdefault((status.st_dev, status.st_ino), threading.Lock())


def open_for_reading(path: Path) -> int:
    """A read-only descriptor; raises OSError. Give it back with :func:`release`."""
    status = path.stat()
    kept = _kept.get((status.st_dev, status.st_ino))
    if kept:
        return kept.pop()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    _ours.add(descriptor)
    return descriptor


def release(descriptor: int) -> None:
    """Close a descriptor, or keep it while closing would drop somebody's locks (see the module)."""
    if open_elsewhere_in_process(descriptor):
        status = os.fstat(descriptor)
        _kept.setdefault((status.st_dev, status.st_ino), []).append(descriptor)
        return
    _ours.discard(descriptor)
    os.close(descriptor)


def open_elsewhere_in_process(descriptor: int) -> bool:
    """Whether this process has the same file open through a descriptor that is not from this module."""
    mine = os.fstat(descriptor)
    for name in _own_descriptors():
        if name in _ours:
            continue
        try:
            other = os.fstat(name)
        except OSError:
            continue
        if (other.st_dev, other.st_ino) == (mine.st_dev, mine.st_ino):
            return True
    return False


def _own_descriptors() -> list[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return [int(entry.name) for entry in Path(folder).iterdir()]
        except OSError:
            continue
    return []


def lock_shared(descriptor: int, seconds: float) -> bool:
    """Take the lock that any SQLite reader takes, so that no writer can end the WAL or start a rollback.

    PENDING is asked for first, as SQLite does, so that a waiting writer is let through. Returns False
    where the file system has no locks. Raises :class:`Locked` after ``seconds`` of waiting.
    """
    import fcntl

    end = time.monotonic() + seconds
    shared = fcntl.LOCK_SH | fcntl.LOCK_NB
    while True:
        try:
            fcntl.lockf(descriptor, shared, 1, _PENDING_BYTE)
            try:
                fcntl.lockf(descriptor, shared, _SHARED_BYTES, _SHARED_FIRST)
            finally:
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _PENDING_BYTE)
        except OSError as error:
            if error.errno in _NO_LOCKS_HERE:
                return False
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            if time.monotonic() >= end:
                raise Locked from error
            time.sleep(0.02)
        else:
            return True


def unlock_shared(descriptor: int) -> None:
    """Give back what :func:`lock_shared` took."""
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_UN, _SHARED_BYTES, _SHARED_FIRST)


def in_use_by_another_process(shm: Path) -> bool:
    """Whether another process has this WAL index in use: it then holds a lock on byte 128 of the file.

    An index whose owner crashed or that came along with a copy has no such lock. Asks only; takes no
    lock. Locks of this process are not reported (:func:`open_elsewhere_in_process` answers for those).
    """
    import fcntl

    try:
        descriptor = os.open(shm, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _locked_elsewhere(descriptor, fcntl.F_WRLCK, _SHM_DEAD_MAN_SWITCH)
    finally:
        os.close(descriptor)


def writer_waits(descriptor: int) -> bool:
    """Whether another process waits for the readers of a database to go: it then holds PENDING for itself."""
    import fcntl

    return _locked_elsewhere(descriptor, fcntl.F_RDLCK, _PENDING_BYTE)


def _locked_elsewhere(descriptor: int, kind: int, byte: int) -> bool:
    """Whether a lock of another process would refuse one of this kind on a byte."""
    import fcntl

    # struct flock: Linux orders type, whence, start, len, pid; the BSDs start, len, pid, type, whence.
    if sys.platform == "linux":
        asked = struct.pack("@hhqqi4x", kind, os.SEEK_SET, byte, 1, 0)
        position = 0
    else:
        asked = struct.pack("@qqihh", byte, 1, 0, kind, os.SEEK_SET)
        position = 20
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
    except OSError:
        return False
    return bool(struct.unpack_from("@h", found, position)[0] != fcntl.F_UNLCK)


class UnlockedFiles(Struct):
    """A database file and its WAL, read without locks: each block is checked to belong to one state.

    The database file must keep size and time stamp. The WAL may grow, since a reader ignores frames
    after the last commit it knows; its header changes when SQLite starts to overwrite it.

    Attributes:
        main: Descriptor of the database.
        wal: Descriptor of the WAL; None when it is absent or empty.
    """

    main: int
    wal: int | None
    _main_mark: tuple[int, int] = (0, 0)
    _wal_header: bytes = b""

    def __post_init__(self) -> None:
        self._main_mark = self._mark()
        if self.wal is not None:
            self._wal_header = os.pread(self.wal, WAL_HEADER_BYTES, 0)

    def _mark(self) -> tuple[int, int]:
        status = os.fstat(self.main)
        return status.st_size, status.st_mtime_ns

    def verify(self) -> None:
        """Whether the database is still the one that reading began with; raises :class:`Changed`."""
        if self._mark() != self._main_mark:
            raise Changed

    def read_main(self, amount: int, offset: int) -> bytes:
        """Bytes of the database; raises :class:`Changed`."""
        data = os.pread(self.main, amount, offset)
        self.verify()
        return data

    def read_wal(self, amount: int, offset: int) -> bytes:
        """Bytes of the WAL; raises :class:`Changed`."""
        if self.wal is None:
            return b""
        data = os.pread(self.wal, amount, offset)
        if os.pread(self.wal, WAL_HEADER_BYTES, 0) != self._wal_header:
            raise Changed
        return data

    def main_size(self) -> int:
        """Bytes of the database when reading began."""
        return self._main_mark[0]

    def wal_size(self) -> int:
        """Bytes of the WAL now; 0 when there is none."""
        return 0 if self.wal is None else os.fstat(self.wal).st_size

    def release(self) -> None:
        """Give both descriptors back."""
        release(self.main)
        if self.wal is not None:
            release(self.wal)


def unlocked_files(main: int, wal: Path) -> UnlockedFiles:
    """Pair an open database with the WAL beside it, both of one moment. Raises :class:`Changed`, OSError."""
    for _ in range(20):
        age = time.time_ns() - os.fstat(main).st_mtime_ns
        if 0 <= age < _CLOCK_TICK_NS:
            time.sleep((_CLOCK_TICK_NS - age) / 1e9)
        descriptor = _open_if_filled(wal)
        files = UnlockedFiles(main, descriptor)
        if _still_beside(wal, descriptor):
            return files
        if descriptor is not None:
            release(descriptor)
    raise Changed


def _open_if_filled(wal: Path) -> int | None:
    try:
        descriptor = open_for_reading(wal)
    except FileNotFoundError:
        return None
    if os.fstat(descriptor).st_size == 0:
        release(descriptor)
        return None
    return descriptor


def _still_beside(wal: Path, descriptor: int | None) -> bool:
    try:
        status = wal.stat()
    except FileNotFoundError:
        return descriptor is None
    if descriptor is None:
        return status.st_size == 0
    mine = os.fstat(descriptor)
    return (status.st_dev, status.st_ino) == (mine.st_dev, mine.st_ino)
