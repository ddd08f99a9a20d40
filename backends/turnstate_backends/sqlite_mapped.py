"""A database that SQLite maps into memory: no call into the system for each page, and two dangers to keep off.

A file that another program cuts short leaves its mapping without ground: touching it is a ``SIGBUS``. And pages once
touched count as this process's memory until they are let go. Knows Linux; elsewhere nothing is mapped.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_MOST = 20 << 20  # bytes of mapped files that may stay in memory
_OWN, _MAPS = Path("/proc/self/statm"), Path("/proc/self/maps")
_LINKS = Path("/proc/self/map_files")
_DONTNEED = (
    4  # MADV_DONTNEED of asm-generic/mman-common.h: pages go, and come back from the file when touched
)


class Mapping:
    """What is mapped of one file.

    Args:
        file: The file, by its real path.
        end_process: Called, in a signal handler, when it was cut short; must not return.

    Raises:
        OSError: Files cannot safely be mapped here.
    """

    def __init__(self, file: Path, end_process: Callable[[], object]) -> None:
        try:
            import ctypes

            library: Any = ctypes.CDLL(None)
            self._signal, self._advise = library.signal, library.madvise
            self._signal.argtypes, self._signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
            self._advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        except (ImportError, AttributeError, TypeError) as error:
            raise OSError("no access to the system's own calls") from error
        self._file = file
        self._mapped: tuple[tuple[int, int], ...] = ()
        self._statm = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        self._limit = self._shared() + _MOST // os.sysconf("SC_PAGE_SIZE")
        # A handler of Python's own would wait for the instruction to succeed, which it never does.
        self._handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: end_process())
        self._before = self._signal(signal.SIGBUS, ctypes.cast(self._handler, ctypes.c_void_p))

    def trim(self) -> None:
        """Let go of the pages when they have become many; safe at any time."""
        if self._shared() <= self._limit:
            return
        if not self._mapped or not all(map(self._is_there_still, self._mapped)):
            self._mapped = tuple(self._ranges())
        for start, end in self._mapped:
            self._advise(start, end - start, _DONTNEED)

    def close(self) -> None:
        """End the watch; who watched before, another open store perhaps, does so again."""
        os.close(self._statm)
        self._signal(signal.SIGBUS, self._before)

    def _shared(self) -> int:
        """Pages of files that count as this process's memory (``proc(5)``, statm)."""
        return int(os.pread(self._statm, 128, 0).split()[2])

    def _is_there_still(self, addresses: tuple[int, int]) -> bool:
        """Whether just these addresses are the file still: to ask costs a twentieth of looking for them."""
        try:
            return (_LINKS / "{:x}-{:x}".format(*addresses)).readlink() == self._file
        except OSError:
            return False

    def _ranges(self) -> Iterator[tuple[int, int]]:
        path = os.fsencode(self._file).replace(b"\n", rb"\012")
        for line in _MAPS.read_bytes().splitlines():
            if line.endswith(path):
                addresses, *_, named = line.split(None, 5)
                if named == path:
                    start, end = addresses.split(b"-")
                    yield int(start, 16), int(end, 16)
