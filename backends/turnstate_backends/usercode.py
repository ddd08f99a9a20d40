"""Code that the user names: imported by its name, and run with what it prints kept apart from the data.

Only the user's own words lead here, never anything that a store holds.
"""

from __future__ import annotations

import importlib
import io
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

from turnstate_backends.address import hide_passwords
from turnstate_backends.interface import StoreError

_LONGEST_WHY = 300


class Unimported(Exception):
    """A name that cannot be imported; its text says why, in one line."""


@contextmanager
def present_folder() -> Iterator[None]:
    """Modules are looked for in the present folder first, as by ``python -m``."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


@contextmanager
def aside() -> Iterator[None]:
    """What is printed meanwhile goes to stderr, in characters on which no terminal acts."""
    shown = _Shown(sys.stderr)
    with redirect_stdout(shown), redirect_stderr(shown):
        yield


@contextmanager
def guarded(failed: Callable[[str], Exception], *, apart: bool = True) -> Iterator[None]:
    """Run code of the user's: what it prints goes :func:`aside`, and whatever it raises becomes ``failed(why)``.

    That is more than an ``Exception``: a task that was cancelled, a group of errors, an exit. An interrupt is the
    user's own and goes on, as does what was told already.

    Args:
        failed: Makes the error of the reason.
        apart: Whether what is printed goes aside. That is done to the process as a whole, so it is for a process
            that is turnstate's own.
    """
    try:
        with aside() if apart else nullcontext():
            yield
    except (KeyboardInterrupt, StoreError):
        raise
    except BaseException as error:
        raise failed(one_line(error)) from None


def imported(module: str, attribute: str, *, apart: bool = True) -> Any:
    """What a module calls ``attribute``, which may be dotted.

    Args:
        module: Its dotted name.
        attribute: The name within it.
        apart: See :func:`guarded`.

    Raises:
        Unimported: There is no such module or attribute, or the module fails while it is imported.
    """
    with guarded(Unimported, apart=apart), present_folder():
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    return found


def one_line(error: BaseException) -> str:
    """The kind of a failure and what it has to say, without passwords."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # the user's code, too
        return kind
    # Cut between words: who redacts the passwords that it knows must meet them whole.
    said = textwrap.shorten(hide_passwords(" ".join(text.split())), _LONGEST_WHY, placeholder=" …")
    return f"{kind}: {said}" if said else kind


class _Shown(io.TextIOBase):
    def __init__(self, to: TextIO) -> None:
        self._to = to

    def write(self, text: str) -> int:
        self._to.write("".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text))
        return len(text)

    def flush(self) -> None:
        self._to.flush()

    def fileno(self) -> int:
        return self._to.fileno()

    def writable(self) -> bool:
        return True


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
