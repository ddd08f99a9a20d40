"""Lists for a person: threads, turns and keys as tables, and what must be said about them besides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from turnstate.history.lines import telling_length
from turnstate.history.listing import KeyReport, KeyRow, Stop, TurnReport, TurnRow
from turnstate.history.phrases import clip, counted
from turnstate.history.sealing import Sealing
from turnstate.history.times import iso
from turnstate.history.turns import Doubt, Turns
from turnstate.history.versions import Written
from turnstate.render.screen import Screen
from turnstate.render.tables import CUT, Cell, Column, Style, write_table
from turnstate.render.text import numbers, one_line, second, size, spans, took
from turnstate.render.values import value_text
from turnstate_backends.interface import ThreadRow

ThreadLine = tuple[ThreadRow, datetime | None, datetime | None, tuple[int, str] | None]
"""A thread, its first and last activity, and its turns where they were counted."""

_WHOLE_IDS = 150  # columns of a terminal that has room for whole checkpoint ids
_TEXT = 240  # characters of a long text on a terminal
_ASIDES = 3  # that many are told, the others counted
_STOPS = 5  # the same of errors and interrupts
_STATUS_STYLES: Mapping[str, Style] = {
    "error": "red",
    "interrupted": "yellow",
    "unfinished": "yellow",
    "never_ran": "yellow",
}


def write_threads(screen: Screen, lines: Sequence[ThreadLine]) -> None:
    """One row per thread, most recent activity first."""
    counts = any(turns is not None for *_, turns in lines)
    columns = [
        Column("thread", whole=True),
        *([Column("turns", right=True)] if counts else []),
        _checkpoints(screen),
        Column("namespaces", right=True),
        Column("first", text=True),
        Column("last", text=True),
    ]
    rows = [
        [
            Cell(row.id),
            *([Cell(_total(*turns) if turns else "")] if counts else []),
            Cell(str(row.checkpoints)),
            Cell(str(len(row.namespaces))),
            Cell(moment_text(screen, first)),
            Cell(moment_text(screen, last)),
        ]
        for row, first, last, turns in lines
    ]
    write_table(screen, columns, rows)


def _checkpoints(screen: Screen) -> Column:
    return Column("checkpoints" if screen.width >= 100 or not screen.interactive else "ckpts", right=True)


def write_namespaces(screen: Screen, threads: Sequence[ThreadRow]) -> None:
    """One row per namespace; that of the root graph is empty."""
    rows = [[Cell(row.id), Cell(ns)] for row in threads for ns in row.namespaces]
    write_table(screen, [Column("thread", text=True), Column("namespace", text=True)], rows)


def write_turns(screen: Screen, report: TurnReport) -> None:
    """One row per span of turns."""
    columns = [
        Column("turn", right=True),
        Column("status"),
        Column("started", text=True),
        Column("took", right=True),
        _checkpoints(screen),
        Column("keys written", text=True),
        Column("question", text=True),
    ]
    write_table(screen, columns, [_turn_cells(screen, rows) for rows in _by_span(report.rows)])
    for note in stop_notes(report):
        screen.note(note, "yellow")
    for note in turn_notes(report):
        screen.note(note)


def _text(screen: Screen, text: str) -> str:
    """A person gets the beginning of a long text, a program all of it."""
    return clip(text, _TEXT) if screen.interactive else text


def _by_span(rows: Sequence[TurnRow]) -> list[list[TurnRow]]:
    """Turns that came in one input share everything but their questions, so they share a row."""
    return [list(group) for _, group in groupby(rows, lambda row: row.turn.asked_with or row.turn.number)]


def _turn_cells(screen: Screen, rows: Sequence[TurnRow]) -> list[Cell]:
    row, last = rows[0], rows[-1]
    number = str(row.turn.number) if len(rows) == 1 else f"{row.turn.number}–{last.turn.number}"
    status, style = _status(last)
    lasted = _lasted(row)
    return [
        Cell(number),
        Cell(status, style),
        Cell(moment_text(screen, row.started)),
        Cell("" if lasted is None or lasted < 0 else took(lasted)),
        Cell(str(row.checkpoints)),
        Cell(_text(screen, _keys_written(screen, row))),
        Cell(_text(screen, "\n".join(each.turn.question or "" for each in rows))),
    ]


def _is_one_run(row: TurnRow) -> bool:
    return row.started is None and row.ended is not None and not row.thinned


def _keys_written(screen: Screen, row: TurnRow) -> str:
    """The keys that the turn wrote: ``≥`` before what need not be all, ``?`` where none is known of."""
    names = (", " if screen.interactive else ",").join(row.keys_written)
    if row.turn.first is None or not row.may_have_written_more:
        return names
    return f"≥{names}" if names else "?"


def _lasted(row: TurnRow) -> float | None:
    """Seconds from a turn's first row to its last; negative where a clock stepped back."""
    return (row.ended - row.started).total_seconds() if row.started and row.ended else None


def _status(row: TurnRow) -> tuple[str, Style]:
    turn = row.turn
    if not turn.retained:
        return "pruned", "red"
    if turn.borrowed:
        return "pruned*", "yellow"
    marks = ("+edit" if turn.edited else "") + ("+thinned" if row.thinned else "")
    status = turn.status or ""
    return f"{status}{marks}", _STATUS_STYLES.get(status, "")


def stop_notes(report: TurnReport) -> list[str]:
    """Why turns ended in an error or an interrupt; of many the latest."""
    notes = [
        f"turn {numbers([row.turn.number for row in rows])}: {_stop(stop)}"
        for rows in _by_span(report.rows)
        for stop in rows[-1].stops
    ]
    earlier = len(notes) - _STOPS
    more = [f"{earlier} more before these, see --json"] if earlier > 0 else []
    return [*more, *notes[-_STOPS:]]


def _stop(stop: Stop) -> str:
    """What a task raised or asked: the first line of a text, the beginning of anything else."""
    text = value_text(stop.value).strip()
    if isinstance(stop.value, str):
        first, *rest = text.split("\n")
        text = f"{first} …" if rest else first
    node = f" in {stop.node}" if stop.node else ""
    return one_line(f"{stop.kind}{node}: {clip(' '.join(text.split()), _TEXT)}")


def turn_notes(report: TurnReport) -> list[str]:
    """What a list of turns must not leave unsaid."""
    notes = list(total_notes(report.turns))
    if any(row.turn.borrowed for row in report.rows):
        notes.append(
            "pruned*: its own rows are gone; the next turn's input row still holds the state as it ended"
        )
    if any(row.thinned and not row.turn.borrowed for row in report.rows):
        notes.append(
            "thinned: the turn's end is kept, steps of it are gone, and what they wrote cannot be told"
        )
    if any(_is_one_run(row) for row in report.rows):
        notes.append("a turn whose run was stored in one row, as it ended, does not tell when it started")
    if any(row.turn.first is not None and row.may_have_written_more for row in report.rows):
        notes.append("≥, ?: steps that are gone may have written other keys")
    return notes + line_notes(report)


def line_notes(report: TurnReport) -> list[str]:
    """What must be known of a line beside its turns: other branches, clocks that went wrong, values that are shared."""
    notes = []
    if branches := report.branches:
        tips = ", ".join(branch.tip for branch in branches[:3])
        more = f" and {len(branches) - 3} more" if len(branches) > 3 else ""
        noun = "other branch" if len(branches) == 1 else "other branches"
        notes.append(f"{len(branches)} {noun}, see --branch ID: {tips}{more}")
    if report.skewed:
        notes.append(f"clock skew: checkpoints whose id sorts before their parent's: {len(report.skewed)}")
    if backwards := [row.turn.number for row in report.rows if (_lasted(row) or 0) < 0]:
        which = "turn {} ends before its" if len(backwards) == 1 else "turns {} end before their"
        words = which.format(numbers(backwards))
        notes.append(f"clock skew: {words} first row's time, so took is not told")
    if report.shared:
        names = ", ".join(report.shared)
        notes.append(
            f"branches share values of {names}: each wrote the same version, and the store keeps the first, "
            "so what is shown of a later branch may be an earlier one's"
        )
    if report.sealing is not None:
        notes += _sealing_notes(report.sealing)
    for row in report.asides[:_ASIDES]:
        aside = row.aside
        by = "a summary" if aside.why == "summary" else f"by node {aside.by}" if aside.by else "by a node"
        words = clip(aside.text, 60)
        notes.append(f"turn {numbers(row.turns)}: human message, {by}, not a question: {words}")
    if len(report.asides) > _ASIDES:
        notes.append(f"{len(report.asides) - _ASIDES} more human messages that are no questions, see --json")
    return notes


def _sealing_notes(sealing: Sealing) -> list[str]:
    """What is encrypted and cannot be read, and what is not though the rest is."""
    notes = []
    if sealing.why is not None:
        what = _rows(sealing.checkpoints, sealing.writes)
        notes.append(f"encrypted: {what}, of which the latest cannot be read: {sealing.why}")
    if plain := _rows(len(sealing.plain_checkpoints), sealing.plain_writes):
        turns = f" (turn {numbers(sealing.plain_turns)})" if sealing.plain_turns else ""
        notes.append(f"stored in clear, though other rows are encrypted: {plain}{turns}")
    return notes


def _rows(checkpoints: int, writes: int) -> str:
    kinds = ((checkpoints, "checkpoint"), (writes, "write"))
    return " and ".join(counted(count, noun) for count, noun in kinds if count)


_DOUBTS: Mapping[Doubt, str] = {
    "unread": "an input's messages cannot be read, and were counted as one question",
    "nodes": "not every question can be told from a node's own message",
    "branches": "questions are missing after rows that are gone, so what came before may be another branch's",
}


def total_notes(turns: Turns) -> list[str]:
    """How sure the numbering is, and what was counted where it is not questions."""
    notes = []
    if turns.total_is == "at_least":
        notes.append(f"at least {counted(turns.total, 'turn')}: some may be gone without a trace")
    elif turns.total_is == "estimate":
        why = _DOUBTS[turns.doubt or "nodes"]
        notes.append(f"about {counted(turns.total, 'turn')}: {why}")
    if turns.by == "inputs":
        notes.append("turns are counted by inputs, not by questions in the messages")
    return notes


BY_REDUCER = "--reducer CHANNEL=RULE says how its writes add up, see show --help"
"""What helps where a channel is kept as deltas and cannot be rebuilt."""


def write_keys(screen: Screen, report: KeyReport) -> None:
    """One row per key."""
    columns = [
        Column("key", text=True),
        Column("channel", text=True),
        Column("type"),
        Column("size", right=True),
        Column("written in", text=True),
        Column("last by", text=True),
        Column("summary", text=True, one_line=True),
    ]
    rows = [_key_cells(screen, row, report.turns) for row in report.rows]
    has_entries = any(row.key.entry for row in report.rows)  # a channel that is no mapping is its own key
    if not has_entries:
        columns, rows = columns[:1] + columns[2:], [cells[:1] + cells[2:] for cells in rows]
    if write_table(screen, columns, rows):
        screen.note(CUT)
    where = f"turn {turn_name(report.turns, report.turn)} · " if report.turn is not None else ""
    screen.note(f"{where}checkpoint {report.checkpoint}")
    if any(row.earlier_unknown for row in report.rows):
        screen.note("≥, ?: rows that are gone wrote it too, in turns that can no longer be told")
    if not report.rows:
        screen.note("no keys of the application; --all lists LangGraph's own channels too")
    if any(row.absence == "delta_unresolved" for row in report.rows):
        screen.note(f"delta_unresolved: {BY_REDUCER}")
    if plain := [row.name for row in report.rows if row.plain]:
        screen.note(f"stored in clear, though other rows are encrypted: {', '.join(plain)}", "yellow")
    for note in total_notes(report.turns):
        screen.note(note)


def turn_name(turns: Turns, number: int) -> str:
    """A turn's number; ``2–3`` where its question came in one input with others."""
    return spans([turns.together(number)])


def _written_in(screen: Screen, row: KeyRow, turns: Turns) -> str:
    """How many spans of turns wrote a key: ``≥`` where rows that are gone did so too, ``?`` where only such did."""
    count = len({turns.together(number) for number in row.turns_written})
    if not count and (row.earlier_unknown or screen.interactive):
        return "?" if row.earlier_unknown else ""
    sign = "≥" if row.earlier_unknown else ""
    return sign + (counted(count, "turn") if screen.interactive else str(count))


def _key_cells(screen: Screen, row: KeyRow, turns: Turns) -> list[Cell]:
    kind = row.type.rpartition(".")[2] if screen.interactive else row.type
    amount = "" if row.size is None else size(row.size) if screen.interactive else str(row.size)
    summary = f'"{row.summary}"' if row.type == "str" else row.summary
    style: Style = "red" if row.absence else ""
    return [
        Cell(row.name, "bold"),
        Cell("" if row.key.entry is None else row.key.channel),
        Cell(kind, style),
        Cell(amount),
        Cell(_written_in(screen, row, turns)),
        Cell(_last(screen, row.written)),
        Cell(summary),
    ]


def _last(screen: Screen, written: Written | None) -> str:
    """The writer and its turn: ``tool, turn 3``; ``tool,3`` for programs."""
    if written is None:
        return ""
    if not written.turns:
        return "gone"
    node = written.node or "?"
    turn = spans([written.turns])
    return f"{node}, turn {turn}" if screen.interactive else f"{node},{turn}"


def _total(total: int, sure: str) -> str:
    return {"at_least": f"≥{total}", "estimate": f"~{total}"}.get(sure, str(total))


def id_length(screen: Screen, ids: Collection[str]) -> int | None:
    """How many characters of an id are shown: all, or on a terminal without room for them what tells ``ids`` apart."""
    return telling_length(ids) if screen.interactive and screen.width < _WHOLE_IDS else None


def moment_text(screen: Screen, moment: datetime | None) -> str:
    """To the second for a person, in full for a program; empty where it is not known."""
    if moment is None:
        return ""
    return second(moment) if screen.interactive else iso(moment)
