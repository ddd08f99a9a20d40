"""A chart for a person: keys down, turns across, one sign a cell; and its JSON document.

On a terminal the turns are folded into bands that fit its width, and long keys are shortened in the middle; elsewhere
nothing is folded or cut. Without colour, or where not every character can be encoded, the signs are plain ASCII.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from turnstate.history.chart import Cell, Chart, ChartRow
from turnstate.render.documents import Document, present
from turnstate.render.listings import total_notes
from turnstate.render.screen import Screen, styled
from turnstate.render.text import one_line

SCHEMA = "turnstate.chart/1"

_GAP = "  "
_LEAST = 10  # columns of turns beside the keys, however narrow the terminal
_WIDE = 100  # columns up to which cells are wide enough for their turn's number, where nothing is folded
_TICKS = 10  # a number for every tenth turn, where cells are narrow


class _Sign(Struct, frozen=True):
    """How a kind of cell is drawn: its sign, the same in ASCII, its style, and what the legend calls it."""

    sign: str
    ascii: str
    style: str
    words: str


_SIGNS: Mapping[Cell, _Sign] = {
    "written": _Sign("●", "#", "green", "written"),
    "same": _Sign("○", "=", "green", "rewritten, equal value"),
    "unchanged": _Sign("·", ".", "dim", "unchanged"),
    "removed": _Sign("×", "x", "red", "removed"),
    "added": _Sign("+", "+", "yellow", "added, by no step that is kept"),
    "changed": _Sign("◐", "%", "yellow", "changed, by no step that is kept"),
    "equal": _Sign("≈", "-", "dim", "equal, steps are gone"),
    "unknown": _Sign("◌", ":", "yellow", "not known, steps are gone"),
    "unreadable": _Sign("?", "?", "red", "cannot be read"),
    "pruned": _Sign("░", "~", "yellow", "no longer kept"),
    "absent": _Sign(" ", " ", "", "not there"),
}


def write_chart(screen: Screen, chart: Chart) -> None:
    """The chart with a ruler over each band, and a legend of the signs in it."""
    plain = screen.ascii_only or not screen.color
    for line in chart_lines(chart, width=screen.width if screen.interactive else None, plain=plain):
        screen.data(line)
    if chart.rows:
        screen.data("")
        for line in _legend(chart, screen.width if screen.interactive else None, plain=plain):
            screen.data(line)
    for note in total_notes(chart.turns):
        screen.note(note)


def chart_lines(chart: Chart, *, width: int | None, plain: bool) -> Iterator[str]:
    """Ruler and rows, band after band.

    Args:
        chart: What to draw.
        width: Columns to fit into; None to fold nothing and cut nothing.
        plain: ASCII without colour.
    """
    from rich.cells import cell_len

    labels = [_label(row, width, plain) for row in chart.rows]
    margin = max(map(cell_len, labels), default=0)
    room = _WIDE if width is None else max(width - margin - len(_GAP), _LEAST)
    digits = len(str(max(chart.numbers, default=0)))
    cell = digits + 1 if len(chart.numbers) * (digits + 1) <= room else 1
    per_band = len(chart.numbers) if width is None else room // cell
    if width is not None and cell == 1 and per_band > _TICKS:
        per_band -= per_band % _TICKS
    for start in range(0, len(chart.numbers), max(per_band, 1)):
        here = slice(start, start + per_band)
        if start:
            yield ""
        for line in _ruler(chart.numbers[here], cell, plain):
            yield (" " * margin + _GAP + line).rstrip()
        for label, row in zip(labels, chart.rows, strict=True):
            padded = label + " " * (margin - cell_len(label))
            yield (padded + _GAP + "".join(_drawn(kind, cell, plain) for kind in row.cells[here])).rstrip()


def _label(row: ChartRow, width: int | None, plain: bool) -> str:
    name = one_line(row.name)
    return name if width is None else shortened(name, max(width // 3, 12), "..." if plain else "…")


def shortened(text: str, most: int, mark: str) -> str:
    """A text without its middle, where it is longer than ``most`` characters."""
    if len(text) <= most:
        return text
    kept = most - len(mark)
    return text[: kept - kept // 2] + mark + text[len(text) - kept // 2 :]


def _ruler(numbers: Sequence[int], cell: int, plain: bool) -> Iterator[str]:
    """Numbers over their cells. Where cells are narrow, a number begins over its turn's, and a tick stands between."""
    if cell > 1:
        yield "".join(str(number).rjust(cell - 1) + " " for number in numbers)
        return
    line, ticks = "", ""
    for at, number in enumerate(numbers):
        if (at == 0 or number % _TICKS == 0) and (at == 0 or len(line) < at):
            line = line.ljust(at) + str(number)
            ticks = ticks.ljust(at) + ("|" if plain else "╷")
    yield line
    yield ticks


def _drawn(kind: Cell, cell: int, plain: bool) -> str:
    sign = _SIGNS[kind]
    if plain:
        return _in_cell(sign.ascii, cell)
    drawn = styled(sign.sign, sign.style) if sign.style else sign.sign
    return _in_cell(sign.sign, cell).replace(sign.sign, drawn, 1) if kind != "absent" else " " * cell


def _in_cell(sign: str, cell: int) -> str:
    return sign if cell == 1 else sign.rjust(cell - 1) + " "


def legend_fields(chart: Chart) -> list[Document]:
    """The signs that occur in a chart, and what they mean, by the names of cells."""
    met = {kind for row in chart.rows for kind in row.cells}
    return [
        {"cell": kind, "sign": sign.sign, "words": sign.words} for kind, sign in _SIGNS.items() if kind in met
    ]


def _legend(chart: Chart, width: int | None, *, plain: bool) -> list[str]:
    met = {kind for row in chart.rows for kind in row.cells}
    parts = []
    for kind, sign in _SIGNS.items():
        if kind in met:
            mark = (sign.ascii if plain else sign.sign).strip() or "blank"
            parts.append(f"{mark} {sign.words}".replace(" ", "\N{NO-BREAK SPACE}"))
    text = "   ".join(parts)
    lines = [text] if width is None else textwrap.wrap(text, width, break_long_words=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def chart_document(chart: Chart) -> Document:
    """``turnstate.chart/1``: one cell per turn of ``turns`` in each key's ``cells``."""
    return {**_head(chart), "keys": [_key_fields(row) for row in chart.rows]}


def chart_documents(chart: Chart) -> list[Document]:
    """``turnstate.chart/1``, one document per key."""
    return [{**_head(chart), **_key_fields(row)} for row in chart.rows]


def _head(chart: Chart) -> Document:
    return {
        "schema": SCHEMA,
        "thread": chart.thread,
        "namespace": chart.ns,
        "turns": list(chart.numbers),
        "retained_turns": list(chart.turns.retained),
        "turns_by": chart.turns.by,
        "total_turns": chart.turns.total,
        "total_is": chart.turns.total_is,
    }


def _key_fields(row: ChartRow) -> Document:
    return present(
        key=row.name,
        channel=row.key.channel,
        entry_name=row.key.entry,
        turns_written=list(row.turns_written),
        earlier_unknown=row.earlier_unknown or None,
        cells=list(row.cells),
    )
