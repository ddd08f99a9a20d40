"""A thread as one file: the server's page, with what it would ask for within it.

What is within is bounded: :data:`CELLS` cells, :data:`VALUE` characters of a value and :data:`VALUES` of all, and
:data:`DIFFS` differences. What does not fit is left out, and the page says so where it would stand.
"""

from __future__ import annotations

import base64
import glob
import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history.asked import changes_asked
from turnstate.history.changes import Standpoint
from turnstate.history.chart import Chart, ChartRow, chart_of
from turnstate.history.listing import turn_report
from turnstate.history.log import Log, Span
from turnstate.history.phrases import counted
from turnstate.history.places import Miss, Place, turn_place
from turnstate.history.reading import Reading, absent_at, at_place, read
from turnstate.history.sealing import is_encrypted
from turnstate.history.sharing import shared_with
from turnstate.history.thread import History
from turnstate.render.documents import Document, present, turns_document
from turnstate.render.values import json_text
from turnstate.serving.answers import chart_fields, diff_text, reading_text
from turnstate.serving.page_files import page_file

CELLS = 60_000
VALUE = 100_000
VALUES = 20_000_000
DIFFS = 1500

_DIFF = 20_000  # characters of one difference
_NO_OTHER = ("unchanged", "absent", "pruned")  # cells without a value that is not in the cell before
_CSP = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
# Of a script element, of an attribute, and of a line of JavaScript; JSON reads the same from the escapes.
_BREAKS_OUT = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&'\u2028\u2029"})
_STYLE = '<link rel="stylesheet" href="page.css">'
_SCRIPT = '<script src="page.js"></script>'


class Report(Struct, frozen=True):
    """A report.

    Attributes:
        page: HTML.
        notes: What of the thread is not in it.
    """

    page: str
    notes: Sequence[str]


class _Version(Struct):
    """What a key held at the ends of turns one after the other: its text, the whole one's size in characters, and a
    place where it was read."""

    text: str
    size: int
    place: Place
    left_out: str | None = None


class _Values:
    """The values of all keys, each with an equal share of the room that those before it left: else the long ones of the
    first key would leave none to the others.

    Args:
        count: At most so many are expected.
    """

    def __init__(self, count: int) -> None:
        self.room = VALUES
        self.to_come = count
        self.cut = 0

    def version(self, text: str, place: Place) -> _Version:
        kept = text[: min(VALUE, self.room // max(self.to_come, 1))]
        self.room -= len(kept)
        self.to_come -= 1
        if len(kept) == len(text):
            return _Version(text, len(text), place)
        self.cut += 1
        words = f"only {len(kept)} of its {len(text)} characters are in this report"
        return _Version(kept, len(text), place, words)


def report_of(history: History, span: Span | None, *, about: str) -> Report:
    """A thread, or some turns of it, as a page of its own.

    Args:
        history: The thread.
        span: Only the turns of these rows.
        about: What the page says of itself: which store, and when.
    """
    log = Log(history)
    whole = chart_of(log, span=span)
    chart = _latest(whole, max(CELLS // max(len(whole.rows), 1), 1))
    values = _Values(sum(kind not in _NO_OTHER for row in chart.rows for kind in row.cells))
    cells, versions = [], []
    for row in chart.rows:
        told, found = _cells(history, log, chart, row, values)
        cells.append(told)
        versions.append(found)
    diffs, left = _diffs(history, chart, versions)
    earlier = len(whole.numbers) - len(chart.numbers)
    notes = list(_left_out(chart, earlier, values.cut, left))
    charted = chart_fields(history, chart)
    charted["notes"] += notes
    data = {
        "about": about,
        "threads": [{"thread": history.thread, "checkpoints": len(history.forest.rows)}],
        "turns": turns_document(turn_report(history)),
        "chart": charted,
        "cells": cells,
        "versions": [
            [present(text=each.text, left_out=each.left_out) for each in those] for those in versions
        ],
        "diffs": diffs,
    }
    return Report(_page(data), notes)


def _left_out(chart: Chart, earlier: int, cut: int, diffs: int) -> Iterator[str]:
    if earlier:
        yield f"this report leaves out {counted(earlier, 'earlier turn')}: it begins with turn {chart.numbers[0]}"
    if cut:
        yield f"this report cuts {counted(cut, 'long value')}; show prints what is cut"
    if diffs:
        yield f"this report leaves out {counted(diffs, 'difference')}; diff prints what is left out"


def _latest(chart: Chart, most: int) -> Chart:
    """The chart of the last turns, so many."""
    rows = tuple(replace(row, cells=row.cells[-most:]) for row in chart.rows)
    return replace(chart, numbers=chart.numbers[-most:], rows=rows)


def _cells(
    history: History, log: Log, chart: Chart, row: ChartRow, values: _Values
) -> tuple[list[Document], list[_Version]]:
    """What each turn reads as, as ``show`` has it, and the values.

    Only what a turn did something to is read: what it left as it was, or an entry that is not there, is known by the
    chart.
    """
    told: list[Document] = []
    versions: list[_Version] = []
    last: Reading | None = None
    sealed = is_encrypted(history)
    # A channel that is not there as a whole may be charted by its entries.
    named = () if row.key.entry is None else log.index.get(row.key, ())
    for number, kind in zip(chart.numbers, row.cells, strict=True):
        place = turn_place(history, number)
        if isinstance(place, Miss):
            reading = read(history, row.name, place)
        elif kind == "absent" and named:
            reading = absent_at(history, row.name, row.key, place, named)
        elif kind == "unchanged" and last is not None and not sealed:
            reading = at_place(history, last, place)
            reading = replace(
                reading, shared_with=shared_with(history, row.key.channel, reading.checkpoint or "")
            )
        else:
            reading = read(history, row.name, place)
            if reading.outcome == "value":
                text = reading_text(reading, history.turns)["text"]
                if not (versions and kind in ("same", "equal") and versions[-1].text == text):
                    versions.append(values.version(text, place))
        has_value = reading.outcome == "value"
        # The value itself stands among the versions: it need not be put into words again.
        last = replace(reading, value=None) if has_value else None
        notes = reading_text(last or reading, history.turns)["notes"]
        version = len(versions) - 1 if has_value else None
        told.append(present(outcome=reading.outcome, version=version, notes=notes))
    return told, versions


def _diffs(
    history: History, chart: Chart, versions: Sequence[Sequence[_Version]]
) -> tuple[list[dict[str, str]], int]:
    """The differences between versions of a key, those between neighbours first; and how many are left out."""
    found: list[dict[str, str]] = [{} for _ in chart.rows]
    for index, old, new in islice(_pairs(versions), DIFFS):
        one, two = versions[index][old], versions[index][new]
        old_end, new_end = Standpoint(history, one.place), Standpoint(history, two.place)
        name = glob.escape(chart.rows[index].name)  # a name is meant, and not a pattern
        text = diff_text(changes_asked(old_end, new_end, name))["text"]
        if len(text) <= _DIFF:
            found[index][f"{old} {new}"] = text
    every = sum(len(those) * (len(those) - 1) // 2 for those in versions)
    return found, every - sum(map(len, found))


def _pairs(versions: Sequence[Sequence[_Version]]) -> Iterator[tuple[int, int, int]]:
    """Two versions of a key, neither of them too long, those nearest to one another first: key, old, new.

    One at a time, as there are as many as the square of a key's versions.
    """
    for apart in range(1, max(map(len, versions), default=0)):
        for index, those in enumerate(versions):
            for old in range(len(those) - apart):
                if max(those[old].size, those[old + apart].size) <= VALUE:
                    yield index, old, old + apart


def _page(data: dict[str, Any]) -> str:
    script, style = page_file("page.js"), page_file("page.css")
    policy = _CSP.format(script=_hash(script), style=_hash(style))
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    held = json_text(data).translate(_BREAKS_OUT)
    foot = f'<script type="application/json" id="report">{held}</script>\n<script>{script}</script>'
    before, after = page_file("index.html").split(_STYLE)
    within, end = after.split(_SCRIPT)
    return f"{before}{head}{within}{foot}{end}"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
