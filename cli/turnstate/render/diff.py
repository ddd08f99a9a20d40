"""Differences for a person: rows of what was added, removed or replaced, under one another or side by side.

A row begins with ``+``, ``-`` or ``~``, then where: ``$`` is the value, ``.name`` an entry or field, ``[2]`` an item,
counted in the new value, or for what was removed in the old one. A row without a mark did not change and is
there for orientation, in short. Of an instance that came or went, the class has its short name and empty fields
are left out; the JSON document has everything.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from turnstate.history.align import aligned
from turnstate.history.changes import DiffReport, End, Incomparable, KeyChange
from turnstate.history.diff import SETS, Operation, Path, form_type, patch
from turnstate.history.jsonform import is_mapping_of_pairs, plain
from turnstate.history.summary import atom
from turnstate.render.documents import Document, present
from turnstate.render.listings import BY_REDUCER, total_notes
from turnstate.render.screen import Screen, styled
from turnstate.render.tables import Cell, Column, Style, write_table
from turnstate.render.text import multi_line, one_line, size
from turnstate.render.values import json_text, value_text
from turnstate_backends.values import Absent, Tagged

LINES = 3
"""Lines of a text around a change, unless told otherwise."""

ITEMS = 1
"""Items of a list around a change, unless told otherwise."""

NARROWEST = 80
"""Columns that a terminal must have for two values side by side."""

SCHEMA = "turnstate.diff/1"

Detail = Literal["full", "stat", "names"]
"""How much is told of each key."""

Mark = Literal["+", "-", "~", " ", "@"]
_STYLES: dict[Mark, Style] = {"+": "green", "-": "red", "~": "yellow", " ": "dim", "@": "dim"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]+")
_LONGEST_BY_WORDS = 200_000  # characters of both texts
_ALIKE = 0.4  # share of the longer text that two must have in common to be shown by words
_KEPT = 32  # characters of an unchanged stretch on either side of a change
_BLOCK = 60  # a shorter text stays on one line, its line feeds escaped
_HEX = 32  # bytes that are shown as such

Span = tuple[Literal["+", "-", " "], str]


class Row(Struct, frozen=True):
    """One row of a difference.

    Attributes:
        mark: ``+``, ``-``, ``~``, a space for what did not change, ``@`` for the lines of a text that follow.
        path: Where, safe to print; empty within a text.
        old: Lines of the old part; None where there is none. Safe to print.
        new: The same of the new part.
        spans: Both parts as one text by words, where they are alike.
        types: What the types are, where they differ.
    """

    mark: Mark
    path: str
    old: Sequence[str] | None = None
    new: Sequence[str] | None = None
    spans: Sequence[Span] | None = None
    types: tuple[str, str] | None = None


# Rows.


def rows_of(
    old: Any, new: Any, operations: Iterable[Operation], *, context: int | None = None
) -> Iterator[Row]:
    """The operations that make one JSON form into another, as rows.

    Args:
        old: The old value's JSON form.
        new: The new one's.
        operations: As :func:`turnstate.history.diff.diff` gives them.
        context: Lines and items around a change; :data:`LINES` and :data:`ITEMS` when None.
    """
    shown = [each for each in operations if not each.order_only]
    around = _Around(new, shown, ITEMS if context is None else context)
    for operation in shown:
        yield from around.before(operation)
        yield from _operation_rows(old, new, operation, LINES if context is None else context)
    yield from around.rest()


def _operation_rows(old: Any, new: Any, each: Operation, lines: int) -> Iterator[Row]:
    here = _where(old, each.was) if each.op == "remove" else _where(new, each.path)
    if each.op == "remove":
        yield Row("-", here, old=_lines(_part(old, each.was, each.old)))
    elif each.op == "add":
        yield Row("+", here, new=_lines(_part(new, each.path, each.new)))
    elif isinstance(each.old, str) and isinstance(each.new, str):
        yield from _text_rows(here, each, lines)
    else:
        a, b = form_type(each.old), form_type(each.new)
        old_lines, new_lines = _lines(each.old), _lines(each.new)
        if old_lines == new_lines:
            new_lines = [*new_lines[:-1], f"{new_lines[-1]}, {_unseen(each.old, each.new)}"]
        yield Row("~", here, old_lines, new_lines, types=None if a == b else (a, b))


def _unseen(old: Any, new: Any) -> str:
    return "another secret" if form_type(old) == form_type(new) else "another one"


def _text_rows(here: str, each: Operation, lines: int) -> Iterator[Row]:
    if each.path[-1:] == ("$type",):
        yield Row("~", f"{here} class", [one_line(each.old)], [one_line(each.new)])
    elif "\n" in each.old or "\n" in each.new:
        yield Row("@", here)
        yield from _line_rows(each.old.split("\n"), each.new.split("\n"), lines)
    else:
        spans = word_spans(each.old, each.new)
        yield Row("~", here, [json_text(each.old)], [json_text(each.new)], spans)


def _line_rows(old: Sequence[str], new: Sequence[str], around: int) -> Iterator[Row]:
    """The changed lines of a text in groups, each headed by its first line's numbers and how many there are."""
    steps = list(_line_steps(old, new))
    near = [False] * len(steps)
    for n, (mark, *_) in enumerate(steps):
        if mark != " ":
            near[max(n - around, 0) : n + around + 1] = [True] * (
                min(n + around + 1, len(steps)) - max(n - around, 0)
            )
    n = 0
    while n < len(steps):
        if not near[n]:
            n += 1
            continue
        stop = next((k for k in range(n, len(steps)) if not near[k]), len(steps))
        group = steps[n:stop]
        olds, news = (sum(1 for step in group if step[0] != skip) for skip in "+-")
        yield Row("@", f"@@ -{group[0][1] + 1},{olds} +{group[0][2] + 1},{news} @@")
        for mark, i, j in group:
            yield _line_row(mark, old[i] if mark != "+" else "", new[j] if mark != "-" else "")
        n = stop


def _line_row(mark: Mark, old: str, new: str) -> Row:
    before, after = [multi_line(old)], [multi_line(new)]
    if mark == "~":
        return Row("~", "", before, after, word_spans(old, new))
    return Row(mark, "", None if mark == "+" else before, None if mark == "-" else after)


def _line_steps(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Mark, int, int]]:
    """Each line with its position on both sides; lines that are alike in place of each other are one step."""
    i = j = 0
    for i_next, j_next in [*aligned(old, new), (len(old), len(new))]:
        alike = i_next - i == j_next - j and all(
            word_spans(a, b) for a, b in zip(old[i:i_next], new[j:j_next], strict=True)
        )
        if alike:
            yield from (("~", x, y) for x, y in zip(range(i, i_next), range(j, j_next), strict=True))
        else:
            yield from (("-", x, j) for x in range(i, i_next))
            yield from (("+", i_next, y) for y in range(j, j_next))
        if i_next < len(old):
            yield " ", i_next, j_next
        i, j = i_next + 1, j_next + 1


def word_spans(old: str, new: str) -> list[Span] | None:
    """Two texts as one, by words: what both have, what only the old one has, what only the new one has.

    Long stretches that both have are shortened to ``…``. None where the texts have little in common. The text is
    not escaped.
    """
    if len(old) + len(new) > _LONGEST_BY_WORDS:
        return None
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    pairs = aligned(a, b)
    if sum(len(a[i]) for i, _ in pairs) < _ALIKE * max(len(old), len(new)):
        return None
    spans: list[Span] = []
    i = j = 0
    for i_next, j_next in [*pairs, (len(a), len(b))]:
        spans += [("-", "".join(a[i:i_next])), ("+", "".join(b[j:j_next]))]
        spans += [(" ", a[i_next])] if i_next < len(a) else []
        i, j = i_next + 1, j_next + 1
    return _shortened(_merged(spans))


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for mark, text in spans:
        if text and merged and merged[-1][0] == mark:
            merged[-1] = (mark, merged[-1][1] + text)
        elif text:
            merged.append((mark, text))
    return merged


def _shortened(spans: Sequence[Span]) -> list[Span]:
    last = len(spans) - 1
    shortened: list[Span] = []
    for n, (mark, text) in enumerate(spans):
        if mark == " " and len(text) > 3 * _KEPT:
            head = text[:_KEPT] if n > 0 else ""
            tail = text[-_KEPT:] if n < last else ""
            text = f"{head}…{tail}"
        shortened.append((mark, text))
    return shortened


class _Around:
    """Items beside those that were added, removed or replaced as wholes, list by list."""

    def __init__(self, new: Any, operations: Sequence[Operation], reach: int) -> None:
        self._new = new
        self._waiting: dict[Path, list[int]] = {}
        self._open: list[Path] = []
        if not reach:
            return
        touched: dict[Path, set[int]] = {}
        near: dict[Path, set[int]] = {}
        for each in operations:
            for length, step in enumerate(each.path):
                if isinstance(step, int) and (each.op != "remove" or length + 1 < len(each.path)):
                    touched.setdefault(each.path[:length], set()).add(step)
            if each.path and isinstance(at := each.path[-1], int) and _has_order(new, each.path[:-1]):
                after = (
                    at if each.op == "remove" else at + 1
                )  # what was removed stood before the item now there
                items = range(max(at - reach, 0), min(after + reach, len(_at(new, each.path[:-1]))))
                near.setdefault(each.path[:-1], set()).update(items)
        for parent, beside in near.items():
            self._waiting[parent] = sorted(beside - touched.get(parent, set()), reverse=True)

    def before(self, operation: Operation) -> Iterator[Row]:
        """The items that stand before an operation in its lists, and the last ones of lists that are done."""
        path = operation.path
        yield from self._close(path)
        if path[:-1] in self._waiting and path[:-1] not in self._open:
            self._open.append(path[:-1])
        for parent in self._open:
            step = path[len(parent)]
            yield from self._until(parent, step if isinstance(step, int) else 0)

    def rest(self) -> Iterator[Row]:
        """The items after the last operation."""
        yield from self._close(None)

    def _close(self, path: Path | None) -> Iterator[Row]:
        while self._open and (path is None or path[: len(self._open[-1])] != self._open[-1]):
            yield from self._until(self._open.pop(), None)

    def _until(self, parent: Path, stop: int | None) -> Iterator[Row]:
        waiting = self._waiting[parent]
        items = _at(self._new, parent)
        while waiting and (stop is None or waiting[-1] < stop):
            at = waiting.pop()
            item = [one_line(atom(plain(items[at])))]
            yield Row(" ", _where(self._new, (*parent, at)), item, item)


def _has_order(form: Any, parent: Path) -> bool:
    if parent[-1:] != ("$value",):
        return True
    holder = _at(form, parent[:-1])
    return holder["$type"] not in SETS and not is_mapping_of_pairs(holder)


def _at(form: Any, path: Path) -> Any:
    for step in path:
        form = form[step]
    return form


def _part(form: Any, path: Path, part: Any) -> Any:
    """The part that a row shows: of an entry with an odd name, what it holds."""
    return part[1] if _is_pair(form, path) else part


def _is_pair(form: Any, path: Path) -> bool:
    return len(path) > 1 and path[-2] == "$value" and is_mapping_of_pairs(_at(form, path[:-2]))


def _where(form: Any, path: Path) -> str:
    """A path as a person reads it: without the steps that only JSON needs."""
    words = "$"
    n = 0
    while n < len(path):
        step = path[n]
        if step == "$value" and isinstance(form, dict) and "$type" in form and n + 1 < len(path):
            kind, paired, form = form["$type"], is_mapping_of_pairs(form), form["$value"]
            n += 1
            step = path[n]
            if paired and isinstance(step, int):
                words += f"[{_one_line_of(form[step][0])}]"
                form = form[step][1] if path[n + 1 : n + 2] == (1,) else form[step]
                n += 2 if path[n + 1 : n + 2] == (1,) else 1
                continue
            if kind in SETS:
                return words
        if step not in ("$type", "$value"):
            words += _step(step)
        form = form[step]
        n += 1
    return words


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{json_text(step)}]"


def _lines(form: Any) -> list[str]:
    """A part's lines, safe to print."""
    if isinstance(form, str):
        if len(form) > _BLOCK and "\n" in form:
            return ["", *multi_line(form).split("\n")]
        return [json_text(form)]
    value = _compact(plain(form))
    if isinstance(value, bytes):
        digits = value.hex() if len(value) <= _HEX else f"sha256 {hashlib.sha256(value).hexdigest()}"
        return [f"bytes[{len(value)}] {digits}".rstrip()]
    if isinstance(value, Absent):
        facts = [
            f"{k} {value.stored[k]}"
            for k in ("bytes", "version", "sha256")
            if value.stored.get(k) is not None
        ]
        return [one_line(", ".join([value_text(value), *facts]))]
    if isinstance(value, Tagged) and isinstance(value.value, str) and not value.masked:
        return [f"{one_line(value.type)} {json_text(value.value)}"]
    return value_text(value).split("\n")


def _compact(value: Any) -> Any:
    """A value whose instances have short class names and no empty fields."""
    if isinstance(value, list):
        return [_compact(item) for item in value]
    if isinstance(value, dict):
        return {name: _compact(item) for name, item in value.items()}
    if not isinstance(value, Tagged):
        return value
    fields = value.value
    if isinstance(fields, dict):
        fields = {name: item for name, item in fields.items() if item not in (None, "", [], {})}
    return Tagged(value.type.rpartition(".")[2], _compact(fields), value.masked)


def _one_line_of(form: Any) -> str:
    return " ".join(line.strip() for line in _lines(form))


# One under the other.


def unified_lines(rows: Iterable[Row], *, color: bool, indent: str = "  ") -> Iterator[str]:
    """Rows as lines of text."""
    for row in rows:
        yield from (indent + line for line in _unified(row, color=color))


def _unified(row: Row, *, color: bool) -> Iterator[str]:
    lead = f"{row.mark} {row.path}" if row.path else row.mark
    if row.mark == "@":
        yield (
            _painted(f"  {row.path}", "@", color)
            if row.path.startswith("@@")
            else _painted(f"~ {row.path}", "~", color)
        )
        return
    within = not row.path  # a line of a text stands as it is
    gap = " " if within else "  "
    if row.spans is not None:
        text = "".join(_span(span, color, quoted=not within) for span in row.spans)
        quote = "" if within else '"'
        yield f"{_painted(lead, '~', color)}{gap}{quote}{text}{quote}"
        return
    old, new = row.old, row.new
    if row.mark == "~" and old is not None and new is not None and not within:
        if len(old) == len(new) == 1:
            types = f"  ({row.types[0]} → {row.types[1]})" if row.types else ""
            yield (
                f"{_painted(lead, '~', color)}{gap}{_painted(old[0], '-', color)} → {_painted(new[0], '+', color)}"
                + _painted(one_line(types), " ", color)
            )
            return
        yield from _block("-", row.path, old, color)
        yield from _block("+", row.path, new, color)
    elif row.mark == " ":
        yield _painted(f"{lead}{gap}{(new or [''])[0]}", " ", color)
    else:
        sides: tuple[tuple[Mark, Sequence[str] | None], ...] = (("-", old), ("+", new))
        for mark, lines in sides:
            if lines is not None and within:
                yield from (_painted(f"{mark} {line}", mark, color) for line in lines)
            elif lines is not None:
                yield from _block(mark, row.path, lines, color)


def _block(mark: Mark, path: str, lines: Sequence[str], color: bool) -> Iterator[str]:
    """A part under its path; every line carries the mark."""
    yield _painted(f"{mark} {path}  {lines[0]}".rstrip(), mark, color)
    yield from (_painted(f"{mark}   {line}", mark, color) for line in lines[1:])


def _span(span: Span, color: bool, *, quoted: bool) -> str:
    mark, text = span
    text = json_text(text)[1:-1] if quoted else multi_line(text)
    if mark == " ":
        return text
    return _painted(f"[-{text}-]" if mark == "-" else f"{{+{text}+}}", mark, color)


def _painted(text: str, mark: Mark, color: bool) -> str:
    return styled(text, _STYLES[mark]) if color and text else text


# Reports.


def write_diff(
    screen: Screen, report: DiffReport, *, context: int | None, side_by_side: bool, totals: bool = True
) -> None:
    """Every change in full; side by side only on a terminal of :data:`NARROWEST` columns or more.

    ``totals`` as in :func:`write_notes`.
    """
    if side_by_side and screen.interactive and screen.width >= NARROWEST:
        _write_side_by_side(screen, report, context)
    else:
        for change in report.changes:
            screen.line(_title(screen, change))
            rows = rows_of(change.old, change.new, change.operations, context=context)
            for line in unified_lines(rows, color=screen.color):
                screen.line(line)
            if rest := beside(change.entry):
                screen.line(screen.on_out(f"  {rest}", "dim"))
        for key in report.incomparable:
            screen.line(f"{screen.on_out(one_line(key.name), 'bold')}  {_incomparable(key)}")
    write_notes(screen, report, totals=totals)


def _title(screen: Screen, change: KeyChange) -> str:
    facts = [change.change, _sizes(screen, change)]
    return f"{screen.on_out(one_line(change.name), 'bold')}  {screen.on_out(' · '.join(filter(None, facts)), 'dim')}"


def _sizes(screen: Screen, change: KeyChange) -> str:
    sizes = [each for each in (change.old_size, change.new_size) if each is not None]
    words = [size(each) if screen.interactive else f"{each} B" for each in sizes]
    return " → ".join(words)


def beside(operations: Iterable[Operation]) -> str:
    """What changed beside the value that an entry is shown by."""
    parts = []
    for each in operations:
        old, new = _one_line_of(each.old), _one_line_of(each.new)
        unseen = f", {_unseen(each.old, each.new)}" if old == new else ""
        words = {"add": f"added {new}", "remove": f"removed {old}"}.get(each.op, f"{old} → {new}{unseen}")
        path = ".".join(str(step) for step in each.path if step not in ("$value", "$type"))
        parts.append(f"{one_line(path)} {words}")
    return f"beside the value, in the entry: {'; '.join(parts)}" if parts else ""


def _incomparable(key: Incomparable) -> str:
    ends = dict.fromkeys([_one_line_of(key.old), _one_line_of(key.new)])
    return f"can be read at neither end, so it may have changed: {'; '.join(ends)}"


def write_notes(screen: Screen, report: DiffReport, *, totals: bool = True) -> None:
    """What was compared, and what must be said about it; with ``totals`` how sure the numbers of turns are."""
    if report.nowhere:
        screen.note(f"{report.asked} is there at neither end", "yellow")
    elif not report.changes and not report.incomparable:
        screen.note("no differences")
    apart = report.old.on_branch != report.new.on_branch
    old, new = (end_in_words(end, apart=apart) for end in (report.old, report.new))
    screen.note(f"{old} → {new}")
    absences = [kind for each in report.changes for kind in each.absences]
    absences += [form["$absent"] for each in report.incomparable for form in (each.old, each.new)]
    if "delta_unresolved" in absences:
        screen.note(f"delta_unresolved: {BY_REDUCER}")
    for end in (report.old, report.new):
        if end.borrowed and end.turn is not None:
            screen.note(
                f"turn {end.turn} was read in turn {end.turn + 1}'s input row, its own rows are gone",
                "yellow",
            )
    for note in total_notes(report.turns) if totals else ():
        screen.note(note)


def end_in_words(end: End, *, apart: bool = False) -> str:
    """Turn and checkpoint of one end of a comparison; its line where both lie ``apart``."""
    turn = "the fork" if end.at_fork else f"turn {end.turn}" if end.turn is not None else ""
    if apart and turn and not end.at_fork:
        turn += " of the branch" if end.on_branch else " of the head's line"
    return one_line(f"{turn} · checkpoint {end.checkpoint}" if turn else f"checkpoint {end.checkpoint}")


def write_names(screen: Screen, report: DiffReport) -> None:
    """The names of the keys that changed, one per line."""
    for name in changed_names(report):
        screen.data(one_line(name))
    for key in report.incomparable:
        screen.note(f"{one_line(key.name)} {_incomparable(key)}", "yellow")


def changed_names(report: DiffReport) -> list[str]:
    return [change.name for change in report.changes]


class Counts(Struct, frozen=True):
    """How many parts were added, removed and replaced."""

    added: int
    removed: int
    replaced: int


def counts(change: KeyChange) -> Counts:
    """Of one key's value; of the entry around it where that alone changed."""
    ops = [each.op for each in change.operations or change.entry if not each.order_only]
    return Counts(ops.count("add"), ops.count("remove"), ops.count("replace"))


def write_stat(screen: Screen, report: DiffReport, *, totals: bool = True) -> None:
    """One row per key: how many parts were added, removed and replaced, and its size at both ends.

    ``totals`` as in :func:`write_notes`.
    """
    columns = [
        Column("key", text=True),
        Column("change"),
        *(Column(name, right=True) for name in ("added", "removed", "replaced", "size before", "size after")),
    ]
    if report.changes:
        write_table(screen, columns, [_stat_cells(screen, change) for change in report.changes])
    for key in report.incomparable:
        screen.note(f"{one_line(key.name)} {_incomparable(key)}", "yellow")
    write_notes(screen, report, totals=totals)


def _stat_cells(screen: Screen, change: KeyChange) -> list[Cell]:
    found = counts(change)
    amounts: tuple[tuple[Mark, int], ...] = (("+", found.added), ("-", found.removed), ("~", found.replaced))
    sizes = (change.old_size, change.new_size)
    return [
        Cell(change.name, "bold"),
        Cell(change.change),
        *(Cell(f"{mark.replace('-', '−')}{n}", _STYLES[mark] if n else "") for mark, n in amounts),
        *(Cell("" if n is None else size(n) if screen.interactive else str(n)) for n in sizes),
    ]


# Side by side.


def _write_side_by_side(screen: Screen, report: DiffReport, context: int | None) -> None:
    columns = [Column(""), *(Column(name, text=True) for name in _end_names(report))]
    for change in report.changes:
        screen.line(_title(screen, change))
        rows = rows_of(change.old, change.new, change.operations, context=context)
        cells = [cell for row in rows for cell in _side_cells(row)]
        if cells:
            write_table(screen, columns, cells)
        if rest := beside(change.entry):
            screen.line(screen.on_out(f"  {rest}", "dim"))
    for key in report.incomparable:
        screen.line(f"{screen.on_out(one_line(key.name), 'bold')}  {_incomparable(key)}")


def _end_names(report: DiffReport) -> list[str]:
    names = [_end_name(end) for end in (report.old, report.new)]
    if names[0] != names[1] or report.old.on_branch != report.new.on_branch:
        return names
    return [f"{names[0]} here", f"{names[1]} in the other"]  # one turn of two recordings


def _end_name(end: End) -> str:
    return "the fork" if end.at_fork else f"turn {end.turn}" if end.turn is not None else end.checkpoint


def _side_cells(row: Row) -> Iterator[list[Cell]]:
    if row.mark == "@":
        yield [Cell(row.path, "dim"), Cell(""), Cell("")]
        return
    old, new = (list(lines or ()) for lines in (row.old, row.new))
    for n in range(max(len(old), len(new))):
        left, right = (lines[n] if n < len(lines) else "" for lines in (old, new))
        yield [
            Cell(f"{row.mark} {row.path}" if n == 0 else "", _STYLES[row.mark]),
            Cell(left, "dim" if row.mark == " " else "red"),
            Cell(right, "dim" if row.mark == " " else "green"),
        ]


# JSON.


def diff_document(report: DiffReport, *, detail: Detail) -> Document:
    """``turnstate.diff/1``. An absence at an end is ``{"$absent": …}`` there; a patch is to be applied to ``from``."""
    return {
        **_head(report, {"from": end_fields(report.old), "to": end_fields(report.new)}),
        "changes": [change_fields(change, detail=detail) for change in report.changes],
        **present(incomparable=[incomparable_fields(key) for key in report.incomparable] or None),
    }


def diff_lines(report: DiffReport, *, detail: Detail) -> list[Document]:
    """``turnstate.diff/1``, one document per key: ``from`` and ``to`` are its values, so the ends go by other names."""
    ends = flat_ends(report)
    head = _head(report, ends)
    return [{**head, **row} for row in difference_rows(report, detail=detail)]


def difference_rows(report: DiffReport, *, detail: Detail, patched: bool = True) -> Iterator[Document]:
    """One document per key; ``patched`` as :func:`change_fields` has it."""
    for change in report.changes:
        yield change_fields(change, detail=detail, patched=patched)
    for key in report.incomparable:
        yield {**incomparable_fields(key), "incomparable": True}


def _head(report: DiffReport, ends: Document) -> Document:
    return present(
        schema=SCHEMA,
        thread=report.thread,
        namespace=report.ns,
        **ends,
        asked=report.asked,
        nowhere=report.nowhere or None,
        total_turns=report.turns.total,
        total_is=report.turns.total_is,
        turns_by=report.turns.by,
    )


def flat_ends(report: DiffReport) -> Document:
    """Both ends by names that leave ``from`` and ``to`` to the values."""
    return {
        f"{end}_{name}": field
        for end, place in (("from", report.old), ("to", report.new))
        for name, field in end_fields(place).items()
    }


def end_fields(end: End) -> Document:
    """Where one end was read."""
    return present(
        turn=end.turn,
        checkpoint=end.checkpoint,
        borrowed=end.borrowed or None,
        at_fork=end.at_fork or None,
    )


def change_fields(change: KeyChange, *, detail: Detail, patched: bool = True) -> Document:
    """One change: ``from`` and ``to`` in JSON form, ``patch`` that makes one into the other.

    ``entry_patch`` is for the rest of an entry whose ``value`` field is what ``from`` and ``to`` show. Both patches are
    left out unless ``patched``: operations for other forms than these make no patch of them.
    """
    fields = present(
        key=change.name, channel=change.key.channel, entry_name=change.key.entry, change=change.change
    )
    if detail == "names":
        return fields
    fields |= {"bytes": present(**{"from": change.old_size, "to": change.new_size})}
    if detail == "stat":
        found = counts(change)
        return fields | {"added": found.added, "removed": found.removed, "replaced": found.replaced}
    if change.change != "added":
        fields["from"] = change.old
    if change.change != "removed":
        fields["to"] = change.new
    if not patched:
        return fields
    if change.change != "removed":  # no patch takes a whole document away
        fields["patch"] = patch(change.operations)
    return fields | present(entry_patch=patch(change.entry) or None)


def incomparable_fields(key: Incomparable) -> Document:
    """A key that can be read at neither end."""
    return present(key=key.name, channel=key.key.channel, entry_name=key.key.entry) | {
        "from": key.old,
        "to": key.new,
    }
