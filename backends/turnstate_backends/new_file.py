"""A new file that stands at its name when all is in it, and never in place of a store or of a part of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from turnstate_backends.interface import StoreError

_BESIDE = ("-wal", "-shm", "-journal")
_ANEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NewFile(Struct, frozen=True):
    """A file that is to be made.

    Attributes:
        target: Where.
        force: Whether what stands there may go.
        what: What it is, in messages.
        option: The option that names it.
    """

    target: Path
    force: bool
    what: str
    option: str

    @contextmanager
    def part(self) -> Iterator[tuple[Path, int]]:
        """The unfinished file beside its name, by path and by descriptor; nothing of it is left if the work fails.

        Raises:
            StoreError: Something stands there, the folder is not there, or cannot be written to.
        """
        self._refuse()
        target = self.target
        # Named before it is made, with 64 random bits: an interrupt can come when it is there, and nobody was told yet.
        part = target.with_name(f".{target.name[:64]}.{os.urandom(8).hex()}.part")
        descriptor = -1
        try:
            try:
                descriptor = os.open(part, _ANEW, 0o600)
                yield part, descriptor
                os.fsync(descriptor)
                self._refuse()
                self._put(part)
            except OSError as error:
                raise self.unwritable(error) from None
        finally:
            for suffix in ("", *_BESIDE):
                with suppress(OSError):
                    part.with_name(part.name + suffix).unlink()
            if descriptor >= 0:
                os.close(descriptor)

    def unwritable(self, error: Exception) -> StoreError:
        """That it cannot be written, and why."""
        why = error.strerror if isinstance(error, OSError) else str(error)
        return StoreError(
            f"{self.target} cannot be written", str(why), "See whether its folder is there and has room."
        )

    def _refuse(self) -> None:
        target, option = self.target, self.option
        if target.is_dir():
            raise StoreError(f"{target} is a folder", f"{self.what} is a file", "Give its name too.")
        if target.exists() and not target.is_file():  # it would be lost, and nobody would get the file
            raise StoreError(
                f"{target} is a device, a pipe or a socket",
                f"{self.what} is a new file",
                f"Give another name with {option}.",
            )
        if _is_open_here(target):
            raise StoreError(
                f"{target} is the store itself",
                f"{self.what} is a new file",
                f"Give another name with {option}.",
            )
        for suffix in _BESIDE:
            owner = target.with_name(target.name.removesuffix(suffix) or target.name)
            if owner != target and os.path.lexists(owner):
                raise StoreError(
                    f"{target} would be a part of {owner}",
                    f"SQLite keeps its own files under names that end in {suffix}",
                    f"Give another name with {option}.",
                )
            beside = target.with_name(target.name + suffix)
            if os.path.lexists(beside):
                raise StoreError(
                    f"{beside} stands beside the new file",
                    f"SQLite would take it for a part of {self.what.replace('a ', 'the ', 1)}",
                    f"Give another name with {option}, or move it away.",
                )
        if os.path.lexists(target) and not self.force:
            raise StoreError(
                f"{target} is there already", f"{self.what} is a new file", "Give another name, or --force."
            )

    def _put(self, part: Path) -> None:
        """Give the finished file its name, in one step, and never to the loss of a file that came in between."""
        target = self.target
        if self.force:
            part.replace(target)
        else:
            try:
                os.link(part, target)
            except FileExistsError:
                self._refuse()
                raise
            except OSError:  # no hard links on this file system
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                part.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _is_open_here(target: Path) -> bool:
    """Whether this process has the file open, by whichever name: then it is what is read."""
    try:
        meant = target.stat()
    except OSError:
        return False
    for name in os.listdir("/dev/fd"):  # noqa: PTH208
        with suppress(OSError, ValueError):
            if os.path.samestat(os.fstat(int(name)), meant):
                return True
    return False
