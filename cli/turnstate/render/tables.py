"""A table of text in two forms: laid out for a terminal, or plain lines for other programs.

Plain: a header, then one line per row, columns aligned and two spaces apart, nothing cut and nothing wrapped,
an empty cell is ``-``. Cells come as stored text and are escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from turnstate.render.screen import Screen, folded, styled
from turnstate.render.text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

_PADDED = 40  # a longer cell pushes its own row only, and is folded on a terminal even if it is an id
_GAP = 2
_WORD = 24  # what a text column has at least, on a terminal, for its longest word
CUT = "what ends in … was cut to the terminal's width: a pipe (| cat) or --json has all of it"
"""What a person is told where cells were cut."""

_SHORT_WORD = 11  # such as a date, __start__ or interrupted: not broken while another column can give way
_FOLDED = 8  # what longer words are broken into, at least

_LONG = 80  # a text that would fill many lines of a narrow column
_CUT = 16  # what a text that is cut has at least


Style = Literal["", "bold", "dim", "red", "yellow", "green"]


class Column(Struct, frozen=True):
    """One column.

    Attributes:
        name: Its header.
        right: Numbers stand right.
        text: Free text, which may take the space that is left and is folded on a terminal.
        one_line: Cut rather than folded on a terminal.
        whole: Of use in one piece only, as an id is: the last to be narrowed.
    """

    name: str
    right: bool = False
    text: bool = False
    one_line: bool = False
    whole: bool = False


class Cell(Struct, frozen=True):
    """One cell: its text, and a style for where there is colour."""

    text: str
    style: Style = ""


def write_table(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> bool:
    """Print a table in the form that fits the screen.

    Returns:
        Whether a cell was cut, which :data:`CUT` says.
    """
    if not screen.interactive:
        screen.data("\n".join(plain_lines(columns, rows, color=screen.color)))
        return False
    if not _fits(screen.width, columns, rows):
        screen.data("\n\n".join(_stacked(screen, columns, row) for row in rows))
        return False
    screen.data(_laid_out(screen, columns, rows))
    return _is_cut(screen, columns, rows)


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


def _widths(width: int, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Each column's width on a terminal: text columns share what the others leave, each at least a word wide.

    Where that is too much, the widest columns are narrowed, of text or not, and their cells folded.
    """
    from rich.cells import cell_len

    cells = [[column.name, *(row[i] for row in rows)] for i, column in enumerate(columns)]
    natural = [max(map(cell_len, texts)) for texts in cells]
    flexible = [i for i, column in enumerate(columns) if column.text]
    widths = list(natural)
    for i in flexible:
        word = max(cell_len(word) for text in cells[i] for word in text.split() or [""])
        widths[i] = min(
            natural[i], _CUT if columns[i].one_line else min(max(word, len(columns[i].name)), _WORD)
        )
    left = width - sum(widths) - _GAP * (len(columns) - 1)
    floors = [_floor(column, texts) for column, texts in zip(columns, cells, strict=True)]
    while left < 0 and max(widths) > 1:
        widest = max(
            range(len(widths)),
            key=lambda i: (widths[i] > floors[i], widths[i] > 1, not columns[i].whole, widths[i]),
        )
        widths[widest] -= 1
        left += 1
    for number, i in enumerate(sorted(flexible, key=lambda i: natural[i] - widths[i])):
        share = max(left // (len(flexible) - number), 0)
        more = min(natural[i] - widths[i], share)
        widths[i] += more
        left -= more
    return widths


def _fits(width: int, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether the columns can stand beside each other without dates and the like in pieces."""
    cells = [[column.name, *(one_line(row[i].text) for row in rows)] for i, column in enumerate(columns)]
    floors = [
        max(_floor(column, texts), _CUT if max(map(len, texts)) > _LONG else 0)
        for column, texts in zip(columns, cells, strict=True)
    ]
    return not rows or sum(floors) + _GAP * (len(columns) - 1) <= width


def _stacked(screen: Screen, columns: Sequence[Column], row: Sequence[Cell]) -> str:
    """A row with a line for each cell that is not empty, headed by its column's name."""
    wide = max(len(column.name) for column in columns) + _GAP
    lines = []
    for column, cell in zip(columns, row, strict=True):
        for i, part in enumerate(folded(one_line(cell.text), max(screen.width - wide, _FOLDED))):
            shown = screen.on_out(part.strip(), cell.style) if cell.style else part.strip()
            lines += [f"{'' if i else column.name:{wide}}{shown}"] * bool(shown)
    return "\n".join(lines)


def _floor(column: Column, texts: Sequence[str]) -> int:
    """What a column is not narrowed below while another can be: a date or a status is to stay in one piece."""
    from rich.cells import cell_len

    word = max(cell_len(word) for text in texts for word in text.split() or [""])
    return min(word, _PADDED) if column.whole or word <= _SHORT_WORD else _FOLDED


def _is_cut(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> bool:
    from rich.cells import cell_len

    shown = [[one_line(cell.text) for cell in row] for row in rows]
    widths = enumerate(_widths(screen.width, columns, shown))
    return any(columns[i].one_line and cell_len(row[i]) > width for i, width in widths for row in shown)


def _laid_out(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    from rich.table import Table
    from rich.text import Text

    shown = [[one_line(cell.text) for cell in row] for row in rows]
    widths = _widths(screen.width, columns, shown)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.name),
            justify="right" if column.right else "left",
            width=width,
            overflow="ellipsis" if column.one_line else "fold",
            no_wrap=column.one_line,
        )
    for texts, cells in zip(shown, rows, strict=True):
        table.add_row(*(Text(text, style=cell.style) for text, cell in zip(texts, cells, strict=True)))
    return captured(screen, table, max(screen.width, sum(widths) + _GAP * len(widths)))


def captured(screen: Screen, shown: RenderableType, width: int) -> str:
    """What Rich makes of something, as lines."""
    from rich.console import Console

    console = Console(
        file=screen.out,
        width=width,
        force_terminal=True,
        color_system="standard" if screen.color else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as lines:
        console.print(shown)
    return "\n".join(line.rstrip() for line in lines.get().splitlines())
