"""Branches as a tree for a person, as indented lines, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from turnstate.history.branches import BranchReport, BranchRow, OwnTurn
from turnstate.history.phrases import clip, counted
from turnstate.history.times import iso
from turnstate.render.documents import Document, present
from turnstate.render.screen import Screen
from turnstate.render.tables import captured
from turnstate.render.text import numbers, one_line, second

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

SCHEMA = "turnstate.branches/1"
_TEXT = 240  # characters of a question on a terminal


def branches_document(report: BranchReport) -> Document:
    """``turnstate.branches/1``."""
    return {
        **_head(report),
        "branches": [branch_fields(row) for row in report.rows],
        "skewed": list(report.skewed),
        "beyond_head": list(report.beyond_head),
    }


def branches_lines(report: BranchReport) -> list[Document]:
    """``turnstate.branches/1``, one document per branch."""
    return [{**_head(report), **branch_fields(row)} for row in report.rows]


def _head(report: BranchReport) -> Document:
    return {"schema": SCHEMA, "thread": report.thread, "namespace": report.ns, "head": report.head}


def branch_fields(row: BranchRow) -> Document:
    """One branch. ``turns`` are numbered by its own counting; ``continued`` ones began before it left."""
    fork = row.fork
    return present(
        tip=row.tip,
        current=row.current,
        under=row.under,
        forked_at=row.forked_at,
        forked_at_turns=None if row.forked_at is None else list(row.forked_turns),
        first_checkpoint=row.first,
        checkpoints=row.checkpoints,
        turns=[turn.number for turn in row.turns],
        questions=[
            present(turn=turn.number, question=turn.question, continued=turn.continued or None)
            for turn in row.turns
        ],
        last_activity=None if row.last_activity is None else iso(row.last_activity),
        forked_by=fork
        and present(kind=fork.kind, checkpoint=fork.checkpoint, seconds_apart=fork.apart, text=fork.words),
        island=row.island or None,
        missing_parent=row.lost_parent,
    )


def write_branches(screen: Screen, report: BranchReport) -> None:
    """A tree on a terminal, else a line per branch, indented by how deep it hangs."""
    if screen.interactive:
        for tree in _trees(report):
            screen.data(captured(screen, tree, screen.width))
    else:
        for row in report.rows:
            screen.data("  " * row.depth + "  ".join(_plain(row)))
    for note in branch_notes(report):
        screen.note(note)


def _plain(row: BranchRow) -> Iterator[str]:
    yield row.tip
    yield _place(row)
    yield counted(row.checkpoints, "checkpoint")
    if row.last_activity is not None:
        yield iso(row.last_activity)
    for turn in row.turns:
        yield one_line(_question(turn))


def _place(row: BranchRow) -> str:
    """Where a branch leaves the one that it hangs under, and why."""
    if row.current:
        return "current"
    if row.island:
        return f"island, its parent {row.lost_parent} is gone" if row.lost_parent else "island"
    turn = f" in turn {numbers(row.forked_turns)}" if row.forked_turns else ""
    kind = f", {row.fork.kind}" if row.fork else ""
    return f"leaves {row.forked_at}{turn}{kind}"


def _question(turn: OwnTurn) -> str:
    continued = " (continued)" if turn.continued else ""
    return (
        f"turn {turn.number}{continued}: {turn.question}"
        if turn.question
        else f"turn {turn.number}{continued}"
    )


def _trees(report: BranchReport) -> Iterator[Tree]:
    from rich.tree import Tree

    nodes: dict[str, Tree] = {}
    for row in report.rows:
        above = nodes.get(row.under) if row.under is not None else None
        label = _label(row)
        nodes[row.tip] = Tree(label, guide_style="dim") if above is None else above.add(label)
    roots = [nodes[row.tip] for row in report.rows if row.under is None]
    yield from roots


def _label(row: BranchRow) -> Text:
    from rich.text import Text

    label = Text()
    label.append(row.tip, "bold" if row.current else "")
    label.append(f"\n{_place(row)}", "green" if row.current else "yellow")
    when = "" if row.last_activity is None else f", {second(row.last_activity)}"
    label.append(f"\n{counted(row.checkpoints, 'checkpoint')}{when}", "dim")
    for turn in row.turns:
        label.append(f"\n{one_line(clip(_question(turn), _TEXT))}")
    return label


def branch_notes(report: BranchReport) -> Iterator[str]:
    """What a tree of branches must not leave unsaid."""
    if len(report.rows) == 1:
        yield "one line, no branches"
    told: dict[str, list[str]] = {}
    for row in report.rows:
        if row.fork is not None:
            told.setdefault(f"{row.fork.kind}: {row.fork.words}", []).append(row.tip)
    yield from told
    if report.beyond_head:
        yield (
            f"the head {report.head} has a child with a smaller id ({', '.join(report.beyond_head)}): some clock "
            "stepped back, and LangGraph resumes the head, not what follows it"
        )
    elif report.skewed:
        yield f"clock skew: checkpoints whose id sorts before their parent's: {len(report.skewed)}"
    if len(report.rows) > 1:
        yield "turns, keys, show, log, diff and gaps follow a branch with --branch ID"
