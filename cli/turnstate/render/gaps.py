"""Gaps as a table for a person and as JSON: of one thread, and of many, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from turnstate.history.gaps import Evidence, Gap, GapReport, Orphans
from turnstate.history.holes import Part, Steps
from turnstate.history.phrases import counted
from turnstate.render.documents import Document, present
from turnstate.render.listings import id_length, total_notes
from turnstate.render.screen import Screen
from turnstate.render.tables import Cell, Column, Style, write_table
from turnstate.render.text import numbers, one_line
from turnstate.render.values import json_text

SCHEMA = "turnstate.gaps/1"
_FEW = 5  # channels that a note names
_SIGNS = {"exact": "", "at_least": "≥", "at_most": "≤", "estimate": "~"}
_STYLES: dict[str, Style] = {"pruned": "red", "value_missing": "red", "thinned": "yellow"}


class Loss(Struct, frozen=True):
    """One thread among many, as a table shows it: how much of what kind is gone.

    Attributes:
        thread: ``thread_id``.
        total: Its turns, and how sure that number is.
        pruned: Turns whose end is gone.
        thinned: Turns that lost steps.
        values: Values whose row is gone.
        steps: Steps missing, and how sure that number is; None where some cannot be told.
        orphans: Rows that nothing kept leads to.
    """

    thread: str
    total: tuple[int, str]
    pruned: int
    thinned: int
    values: int
    steps: tuple[int, str] | None
    orphans: int


def loss(report: GapReport) -> Loss:
    """What the table of many threads keeps of a report."""
    turns = {
        kind: {n for g in report.gaps if g.kind == kind for n in g.turns} for kind in ("pruned", "thinned")
    }
    return Loss(
        report.thread,
        (report.turns.total, report.turns.total_is),
        len(turns["pruned"]),
        len(turns["thinned"] - turns["pruned"]),
        sum(gap.kind == "value_missing" for gap in report.gaps),
        steps_missing(report),
        report.orphans.writes + report.orphans.blobs,
    )


def steps_missing(report: GapReport) -> tuple[int, str] | None:
    """How many steps are gone in all, and how sure that is; None where some cannot be told."""
    parts = {(g.row, part): None for g in report.losses for part in g.parts}
    counts = [part.steps.count for _, part in parts]
    if any(count is None for count in counts):
        return None
    unsure = {part.steps.sure for _, part in parts} - {"exact"}
    sure = "exact" if not unsure else unsure.pop() if len(unsure) == 1 else "estimate"
    return sum(count or 0 for count in counts), sure


def gaps_document(report: GapReport) -> Document:
    """``turnstate.gaps/1``."""
    missing = steps_missing(report)
    return {
        **_head(report),
        "retained": list(report.turns.retained),
        **present(
            steps_missing=missing and missing[0],
            steps_missing_is=missing and missing[1],
            encrypted_turns=list(report.sealed.turns) if report.sealed else None,
            unresolved=list(report.unresolved) or None,
        ),
        "gaps": [gap_fields(gap) for gap in report.gaps],
        "orphans": _orphans(report.orphans),
    }


def gaps_lines(report: GapReport) -> Iterator[Document]:
    """``turnstate.gaps/1``, one document per gap."""
    for gap in report.gaps:
        yield {**_head(report), **gap_fields(gap)}


def _head(report: GapReport) -> Document:
    return {
        "schema": SCHEMA,
        "thread": report.thread,
        "namespace": report.ns,
        "head": report.head,
        "tip": report.tip,
        "turns_by": report.turns.by,
        "total": report.turns.total,
        "total_is": report.turns.total_is,
    }


def gap_fields(gap: Gap) -> Document:
    """One gap. ``parts`` says what is known of which steps are whose; a part may be shared with another gap."""
    own = _own(gap)
    return present(
        turns=list(gap.turns),
        kind=gap.kind,
        channel=gap.channel,
        version=gap.version,
        checkpoints=gap.checkpoints,
        after=gap.after,
        before=gap.before,
        steps_missing=own and own.count,
        steps_missing_is=own and own.sure,
        first_step=own and own.first,
        last_step=own and own.last,
        uncounted_turns=gap.uncounted or None,
        parts=[_part_fields(part) for part in gap.parts] or None,
        evidence=[_evidence_fields(evidence) for evidence in gap.evidence],
        recoverable=present(
            writes=gap.recoverable.writes,
            blobs=gap.recoverable.blobs,
            channels=list(gap.recoverable.channels) or None,
        ),
    )


def _own(gap: Gap) -> Steps | None:
    steps = gap.steps
    return None if steps is None or steps.count is None else steps


def _part_fields(part: Part) -> Document:
    return present(
        turns=list(part.turns),
        steps_missing=part.steps.count,
        first_step=part.steps.first,
        last_step=part.steps.last,
    )


def _evidence_fields(evidence: Evidence) -> Document:
    return {"kind": evidence.kind, **evidence.details, "text": evidence.words}


def _orphans(orphans: Orphans) -> Document:
    return {
        "writes": orphans.writes,
        "checkpoints": orphans.checkpoints,
        "newer_than_head": orphans.newer,
        "blobs": orphans.blobs,
    }


def write_array(screen: Screen, documents: Iterable[Document]) -> None:
    """A JSON array, each element written as soon as it is there."""
    screen.data("[")
    last = ""
    for document in documents:
        if last:
            screen.data(last + ",")
        last = json_text(document, ascii_only=screen.ascii_only)
    screen.data(last + "]" if last else "]")


def write_gaps(screen: Screen, report: GapReport, ids: Collection[str]) -> None:
    """One row per gap; ``ids`` are all checkpoints of the thread, among which a shortened id is told."""
    if report.gaps:
        columns = [
            Column("kind"),
            Column("turns"),
            Column("missing", right=True),
            Column("steps"),
            *([Column("between", text=True)] if screen.interactive else [Column("after"), Column("before")]),
            Column("left"),
            Column("evidence", text=True),
        ]
        pairs = zip((None, *report.gaps), report.gaps, strict=False)
        length = id_length(screen, ids)
        write_table(screen, columns, [_cells(screen, gap, before, length) for before, gap in pairs])
    for note in gap_notes(report):
        screen.note(note)


def _cells(screen: Screen, gap: Gap, before: Gap | None, length: int | None) -> list[Cell]:
    own = _own(gap)
    told = screen.interactive and before is not None and before.evidence == gap.evidence
    between = f"{gap.after[:length] if gap.after else 'the beginning'} and {gap.before[:length]}"
    return [
        Cell(gap.kind, _STYLES.get(gap.kind, "dim")),
        Cell(numbers(gap.turns)),
        Cell(_missing(gap)),
        Cell(_steps(own)),
        *([Cell(between)] if screen.interactive else [Cell(gap.after or ""), Cell(gap.before)]),
        Cell(_left(gap)),
        Cell("the same" if told else "; ".join(evidence.words for evidence in gap.evidence)),
    ]


def _steps(own: Steps | None) -> str:
    if own is None or not own.count:
        return ""
    return str(own.first) if own.count == 1 else f"{own.first}..{own.last}"


def _missing(gap: Gap) -> str:
    """How many steps: ``4``, ``≤4``; ``of 8`` where turns of another gap share them; ``?`` where it cannot be told."""
    if gap.kind == "value_missing":
        return ""
    own = gap.steps
    if own is not None:
        return "?" if own.count is None else f"{_SIGNS[own.sure]}{own.count}"
    if not gap.parts or any(part.steps.count is None for part in gap.parts):
        return "?"
    return f"of {_SIGNS[gap.parts[0].steps.sure]}{sum(part.steps.count or 0 for part in gap.parts)}"


def _left(gap: Gap) -> str:
    left = gap.recoverable
    found = [(left.writes, "write"), (left.blobs, "value")]
    return ", ".join(counted(number, noun) for number, noun in found if number)


def gap_notes(report: GapReport) -> list[str]:
    """What a list of gaps must not leave unsaid."""
    turns = report.turns
    notes = total_notes(turns)
    if not turns.total:
        notes.append("the thread has had no turns")
    elif len(turns.retained) == turns.total:
        every = "the turn" if turns.total == 1 else f"all {turns.total} turns"
        notes.append(
            f"{'no gaps: ' if not report.gaps else ''}{every} {'is' if turns.total == 1 else 'are'} kept as "
            f"{_they(turns.total)} ended{_but_for(report)}"
        )
    else:
        kept = numbers(turns.retained) or "none"
        notes.append(f"turns that are kept as they ended: {kept} of {turns.total}{_but_for(report)}")
    notes += _unread(report)
    if any(_missing(gap).startswith("of ") for gap in report.gaps):
        notes.append(
            "of N: the steps are missing from several turns together, and nothing tells how they divide"
        )
    if any(not gap.is_loss for gap in report.gaps):
        notes.append('not_recorded: durability="exit" stores one row per run; nothing was lost')
    if any(gap.recoverable.writes for gap in report.gaps):
        notes.append(
            "left: writes hold a channel without reducer and entries of a mapping whole, "
            "and of other reducers only what was added"
        )
    return [*notes, *_orphan_notes(report.orphans)]


def _unread(report: GapReport) -> Iterator[str]:
    """What is kept and is known not to be readable as it stands."""
    if report.sealed is not None:
        noun = "turn" if len(report.sealed.turns) == 1 else "turns"
        yield f"kept encrypted, and not read: {noun} {numbers(report.sealed.turns)}: {report.sealed.why}"
    if report.unresolved:
        names = ", ".join(map(one_line, report.unresolved[:_FEW]))
        more = f" and {len(report.unresolved) - _FEW} more" if len(report.unresolved) > _FEW else ""
        yield f"kept as deltas, and not to be rebuilt in the last checkpoint: {names}{more}; see show"


def _but_for(report: GapReport) -> str:
    """The channels that cannot be read as turns ended whose rows are kept."""
    turns: dict[str, set[int]] = {}
    for gap in report.gaps:
        if gap.channel is not None and gap.ended:
            turns.setdefault(gap.channel, set()).update(gap.ended)
    parts = [
        f"{one_line(channel)} in turn{'' if len(those) == 1 else 's'} {numbers(sorted(those))}"
        for channel, those in turns.items()
    ]
    more = f"; and {len(parts) - _FEW} more channels" if len(parts) > _FEW else ""
    return f", but for {'; '.join(parts[:_FEW])}{more}" if parts else ""


def _they(count: int) -> str:
    return "it" if count == 1 else "they"


def _orphan_notes(orphans: Orphans) -> Iterator[str]:
    if orphans.writes:
        verb = "hangs" if orphans.writes == 1 else "hang"
        gone = counted(orphans.checkpoints, "checkpoint")
        yield f"{counted(orphans.writes, 'write row')} {verb} on {gone} not kept, see gaps THREAD --writes"
    if orphans.newer:
        yield f"{orphans.newer} of these checkpoints would be newer than the head: deleted, or never stored"
    if orphans.blobs:
        yield f"{counted(orphans.blobs, 'value row')} without a checkpoint that refers to it"


def write_losses(screen: Screen, losses: Sequence[Loss], looked_at: int) -> None:
    """One row per thread that lost something."""
    if losses:
        columns = [
            Column("thread", text=True),
            Column("turns", right=True),
            Column("pruned", right=True),
            Column("thinned", right=True),
            Column("values", right=True),
            Column("steps", right=True),
            Column("orphans", right=True),
        ]
        write_table(screen, columns, [_loss_cells(each) for each in losses])
    what = f"{len(losses)} of {counted(looked_at, 'thread')} with gaps or rows left over"
    screen.note(what if looked_at else "no threads match")


def _loss_cells(each: Loss) -> list[Cell]:
    total, sure = each.total
    return [
        Cell(each.thread),
        Cell(f"{_SIGNS[sure]}{total}"),
        Cell(str(each.pruned), "red" if each.pruned else ""),
        Cell(str(each.thinned), "yellow" if each.thinned else ""),
        Cell(str(each.values), "red" if each.values else ""),
        Cell("?" if each.steps is None else f"{_SIGNS[each.steps[1]]}{each.steps[0]}"),
        Cell(str(each.orphans)),
    ]
