"""Where output goes, and what may be done there: streams, width, colour. Knows nothing of what is printed."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from turnstate.render.text import one_line

if TYPE_CHECKING:
    from turnstate.render.held import Held

_DELAY = 0.5  # seconds that work may take before a line says so
_PIECES = re.compile(r"\x1b\[[0-9;]*m| +|[^ \x1b]+|\x1b")
_HANGING = 4  # columns by which what was folded is indented
_SGR = {"dim": "2", "bold": "1", "red": "31", "yellow": "33", "green": "32", "cyan": "36"}


class OutputClosed(Exception):
    """Whoever read the output has gone; nothing more is to be said."""


class OutputFailed(Exception):
    """The output cannot be written; the text says why."""


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise OutputClosed from None
    except OSError as error:
        raise OutputFailed(error.strerror) from None


class Screen(Struct, frozen=True):
    """Both streams and what they can show.

    Attributes:
        out: For data.
        err: For everything else.
        interactive: A person looks at ``out``.
        color: ``out`` takes colour.
        err_color: ``err`` takes colour.
        width: Columns of the terminal.
    """

    out: TextIO
    err: TextIO
    interactive: bool
    color: bool
    err_color: bool
    width: int
    _before_writing: list[Callable[[], None]] = []
    _held: list[Held] = []

    @contextmanager
    def held(self, *, whole: bool) -> Iterator[Callable[[], None]]:
        """Let no reader keep the work waiting: what is not taken meanwhile is kept.

        Args:
            whole: Keep everything.

        Yields:
            Hands over what was kept, and raises as :meth:`data` does. What is still kept at the end is dropped.
        """
        from turnstate.render.held import Held

        held = Held(self.out, self.err, whole=whole)
        self._held.append(held)

        def hand_over() -> None:
            held.whole = False
            self._clear()
            with _written():
                held.finish()

        try:
            yield hand_over
        finally:
            self._held.remove(held)
            held.close()

    def _clear(self) -> None:
        """Take back what says that work goes on: from here on the answer does, unless all of it is kept."""
        if any(held.whole for held in self._held):
            return
        while self._before_writing:
            self._before_writing.pop()()

    def data(self, text: str) -> None:
        """Write lines of data.

        Raises:
            OutputClosed: The reader has gone.
            OutputFailed: The text cannot be written.
        """
        self._clear()
        with _written():
            if self._held:
                self._held[-1].data(text + "\n")
            else:
                self.out.write(text + "\n")

    def line(self, text: str) -> None:
        """Write a line of data, folded on a terminal.

        Raises:
            OutputClosed: The reader has gone.
            OutputFailed: The text cannot be written.
        """
        self.data("\n".join(folded(text, self.width)) if self.interactive else text)

    def note(self, text: str, style: str = "dim", *, lead: str = "") -> None:
        """Write what is not data, after what was written as data; folded between words on a terminal.

        Args:
            text: One line; what of it a terminal would act on is escaped.
            style: How it looks where there is colour; ``""`` for plain.
            lead: A beginning that alone takes the style.

        Raises:
            OutputClosed: The reader of the data has gone.
            OutputFailed: The text cannot be written.
        """
        self._clear()
        text, lead = one_line(text), one_line(lead)
        if self.err.isatty():
            text = textwrap.fill(
                lead + text,
                self.width,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )[len(lead) :]
        if self.err_color and style:
            text = f"{styled(lead, style)}{text}" if lead else styled(text, style)
        else:
            text = lead + text
        with _written():
            if self._held:
                self._held[-1].note(text + "\n")
            else:
                self.out.flush()
                self.err.write(text + "\n")

    def on_out(self, text: str, style: str) -> str:
        """``text`` in a style where ``out`` shows it."""
        return styled(text, style) if self.color else text

    @property
    def ascii_only(self) -> bool:
        """Whether ``out`` cannot encode every character."""
        return (getattr(self.out, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"


def styled(text: str, style: str) -> str:
    """``text`` between the codes of a style."""
    return f"\x1b[{_SGR[style]}m{text}\x1b[0m"


def folded(text: str, width: int) -> list[str]:
    """A line with its styles as lines that fit: broken between words, a word that no line can hold within itself.

    Args:
        text: One line, safe to print.
        width: Columns.
    """
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return [text]
    lines, used = [""], 0
    for piece in _PIECES.findall(text):
        wide = 0 if piece.startswith("\x1b") else cell_len(piece)
        if used + wide > width and wide <= width - _HANGING:
            lines.append(" " * _HANGING)
            used = _HANGING
            if piece.isspace():
                continue
        elif used + wide > width:
            for char in piece:
                if used + cell_len(char) > width:
                    lines.append(" " * _HANGING)
                    used = _HANGING
                lines[-1] += char
                used += cell_len(char)
            continue
        lines[-1] += piece
        used += wide
    return lines


def screen(color: str = "auto", env: Mapping[str, str] = os.environ) -> Screen:
    """The process's own streams.

    Args:
        color: ``auto``, ``always`` or ``never``.
        env: ``NO_COLOR`` (https://no-color.org), ``FORCE_COLOR`` (``0`` is off) and ``TERM`` decide for ``auto``.
    """
    out, err = sys.stdout, sys.stderr
    return Screen(
        out,
        err,
        interactive=out.isatty(),
        color=_colored(color, out, env),
        err_color=_colored(color, err, env),
        width=max(shutil.get_terminal_size().columns, 20),
    )


def _colored(color: str, stream: TextIO, env: Mapping[str, str]) -> bool:
    if color != "auto":
        return color == "always"
    if env.get("NO_COLOR"):
        return False
    if forced := env.get("FORCE_COLOR"):
        return forced.lower() not in ("0", "false")
    return stream.isatty() and env.get("TERM") != "dumb"


@contextmanager
def progress(screen: Screen, what: str, env: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Say on ``err`` what is going on, once it has taken half a second, and take the line back at the end, or
    as soon as something is written."""
    if not screen.err.isatty() or env.get("TERM") == "dumb":
        yield
        return
    shown = threading.Event()

    def show() -> None:
        shown.set()
        screen.err.write(f"\r{what} …"[: screen.width])
        screen.err.flush()

    def stop() -> None:
        timer.cancel()
        timer.join()
        if shown.is_set():
            shown.clear()
            screen.err.write("\r\x1b[2K")
            screen.err.flush()

    timer = threading.Timer(_DELAY, show)
    timer.daemon = True
    timer.start()
    screen._before_writing.append(stop)
    try:
        yield
    finally:
        stop()
