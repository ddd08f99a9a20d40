"""A table of text in two forms: laid out for a terminal, or plain lines for other programs.

Plain: a header, then one line per row, columns aligned and two spaces apart, nothing cut and nothing wrapped,
an empty cell is ``-``. Cells come as stored text and are escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from turnstate.render.screen import Screen, styled
from turnstate.render.text import clip, one_line

if TYPE_CHECKING:
    from rich.text import Text

_PADDED = 40  # a longer cell pushes its own row only
_TEXT = 240  # characters of a free text on a terminal


Style = Literal["", "bold", "dim", "red", "yellow", "green"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: Its header.
        right: Numbers stand right.
        text: Free text, which may take the space that is left and is folded on a terminal.
        whole: Never folded or cut, also on a terminal.
        one_line: Cut rather than folded on a terminal.
    """

    name: str
    right: bool = False
    text: bool = False
    whole: bool = False
    one_line: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, and a style for where there is colour."""

    text: str
    style: Style = ""


def write_table(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table in the form that fits the screen."""
    if screen.interactive:
        screen.data(_laid_out(screen, columns, rows))
    else:
        screen.data("\n".join(plain_lines(columns, rows, color=screen.color)))


def plain_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, color: bool = False
) -> list[str]:
    """Header and rows as lines."""
    head = [Cell(column.name.replace(" ", "_").upper(), "bold") for column in columns]
    shown = [[(one_line(cell.text) or "-", cell.style) for cell in row] for row in [head, *rows]]
    widths = [
        max((len(text) for text, _ in cells if len(text) <= _PADDED), default=0)
        for cells in zip(*shown, strict=True)
    ]
    lines = []
    for row in shown:
        parts = []
        for i, ((text, style), width) in enumerate(zip(row, widths, strict=True)):
            last = i + 1 == len(row)
            padded = text.rjust(width) if columns[i].right else text if last else text.ljust(width)
            parts.append(styled(padded, style) if color and style else padded)
        lines.append("  ".join(parts))
    return lines


def _word(rows: Sequence[Sequence[Cell]], i: int) -> int:
    """Room for the longest word of a column, within reason, so that folding does not split it."""
    longest = max((len(word) for row in rows for word in one_line(row[i].text).split()), default=0)
    return min(longest, 24)


def _room(width: int, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> int:
    """What the other columns leave to one that is cut."""
    taken = 0
    for i, column in enumerate(columns):
        if not column.one_line:
            taken += 2 + max(len(text) for text in [column.name, *(one_line(row[i].text) for row in rows)])
    return max(width - taken, 16)


def _text(cell: Cell, column: Column, room: int) -> Text:
    from rich.text import Text

    text = Text(one_line(clip(cell.text, _TEXT) if column.text else cell.text), style=cell.style)
    if column.one_line:
        text.truncate(room, overflow="ellipsis")
    return text


def _laid_out(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
    for i, column in enumerate(columns):
        table.add_column(
            Text(column.name),
            justify="right" if column.right else "left",
            ratio=1 if column.text else None,
            overflow="ellipsis" if column.one_line else "fold",
            no_wrap=column.whole or column.one_line,
            min_width=None if column.whole or column.one_line else _word(rows, i),
        )
    room = _room(screen.width, columns, rows)
    for row in rows:
        table.add_row(*(_text(cell, column, room) for cell, column in zip(row, columns, strict=True)))
    console = Console(
        file=screen.out,
        width=screen.width,
        force_terminal=True,
        color_system="standard" if screen.color else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
