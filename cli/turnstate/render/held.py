"""Text on its way to readers who may be slow: as much as they take, the rest kept until nothing waits for it.

A store that is open holds a snapshot, and in some a lock that writers wait for. A pager that nobody scrolls must not
keep it. Knows streams; knows no form of output and no store.
"""

from __future__ import annotations

import io
import select
from collections import deque
from typing import IO, TextIO

_ONCE = min(select.PIPE_BUF, 4096)  # a pipe that is ready takes so many bytes without keeping us waiting
_WAITING = 1 << 20  # bytes handed over at a time where the reader may keep us waiting
_IN_MEMORY = 8 << 20  # bytes kept in memory, and beyond in a file without a name


class Held:
    """What was written and its readers have not taken, in order.

    Args:
        out: For data; has a ``buffer``.
        err: For notes, each after the data before it.
        whole: Hand nothing over before :meth:`finish`.
    """

    def __init__(self, out: TextIO, err: TextIO, *, whole: bool) -> None:
        self._out, self._err, self.whole = out, err, whole
        self._at_least = 1 if out.isatty() else _ONCE
        self._bytes: IO[bytes] = io.BytesIO()
        self._size = self._done = 0
        self._notes: deque[tuple[int, str]] = deque()

    def data(self, text: str) -> None:
        """Take text for ``out``. Raises OSError."""
        encoded = text.encode(self._out.encoding, self._out.errors or "strict")
        if self._size + len(encoded) > _IN_MEMORY and isinstance(self._bytes, io.BytesIO):
            self._move_to_a_file()
        self._bytes.seek(self._size)
        self._bytes.write(encoded)
        self._size += len(encoded)
        if not self.whole and self._size - self._done >= self._at_least:
            self._hand_over(waiting=False)

    def note(self, text: str) -> None:
        """Take text for ``err``. Raises OSError."""
        self._notes.append((self._size, text))
        if not self.whole:
            self._hand_over(waiting=False)

    def finish(self) -> None:
        """Hand over the rest, however long it takes. Raises OSError."""
        self._hand_over(waiting=True)

    def close(self) -> None:
        """Forget the rest."""
        self._bytes.close()

    def _hand_over(self, *, waiting: bool) -> None:
        self._out.flush()
        while self._notes or self._done < self._size:
            upto = self._notes[0][0] if self._notes else self._size
            if not waiting and not _takes(self._err if upto == self._done else self._out):
                return
            if upto == self._done:
                self._err.write(self._notes.popleft()[1])
                self._err.flush()
                continue
            self._bytes.seek(self._done)
            piece = self._bytes.read(min(_WAITING if waiting else _ONCE, upto - self._done))
            self._done += len(piece)
            self._out.buffer.write(piece)
            self._out.buffer.flush()
        self._bytes.seek(0)
        self._bytes.truncate()
        self._size = self._done = 0

    def _move_to_a_file(self) -> None:
        from tempfile import TemporaryFile

        file = TemporaryFile()  # noqa: SIM115 - it has no name, and goes with its last reference
        self._bytes.seek(0)
        file.write(self._bytes.read())
        self._bytes = file


def _takes(stream: TextIO) -> bool:
    """Whether its reader would take something now, or is gone."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # memory
        return True
    asked = select.poll()
    asked.register(descriptor, select.POLLOUT)
    return bool(asked.poll(0))
