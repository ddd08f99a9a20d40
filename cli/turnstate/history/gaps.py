"""Gaps: turns and super-steps that a thread had and its store no longer holds, with the evidence.

Data only. What is missing along a line is found in ``holes``; here it is told what kind of loss that is for which
turns, what shows it, and what is left over that no kept checkpoint leads to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history.holes import (
    BEGINNING,
    Hole,
    Part,
    Steps,
    divide,
    find_holes,
    gone_in,
    step_of,
    turns_across,
)
from turnstate.history.ids import id_step, version_number
from turnstate.history.phrases import counted
from turnstate.history.sealing import is_encrypted, why_unread
from turnstate.history.steps import is_update_task, node_of
from turnstate.history.thread import History
from turnstate.history.turns import Turns
from turnstate_backends.values import Absent

Kind = Literal["pruned", "thinned", "value_missing", "not_recorded"]
"""The turn's end is gone; it is kept, and some of the turn's steps are gone; a row is kept whose value is gone; steps
that ``durability="exit"`` never stored, which is no loss."""


class Evidence(Struct, frozen=True):
    """One thing that shows a gap.

    Attributes:
        kind: What it is.
        words: The same in words.
        details: The same as data.
    """

    kind: Literal[
        "dangling_parent",
        "cleared_parent",
        "first_step",
        "step_jump",
        "question_count",
        "orphaned_writes",
        "orphaned_values",
        "reference_without_row",
        "kept_parent",
        "one_input",
    ]
    words: str
    details: Mapping[str, Any]


class Recoverable(Struct, frozen=True):
    """What was left behind by deleted rows of a gap.

    A write row holds what its task wrote: that is the whole of a channel without reducer and of an entry of a
    mapping, and not what another reducer had gathered before.

    Attributes:
        writes: Write rows of the application's channels.
        blobs: Value rows that no kept checkpoint refers to.
        channels: The channels that these are of, sorted.
    """

    writes: int = 0
    blobs: int = 0
    channels: tuple[str, ...] = ()


class Gap(Struct, frozen=True):
    """One gap of a line.

    Attributes:
        kind: See :data:`Kind`.
        turns: The turns that it is a gap of; empty where it lies before the first question that is known.
        row: Position of the first row kept after it; of the first that misses the value.
        after: The last checkpoint kept before it; None at the front.
        before: The first checkpoint kept after it; the first that misses the value.
        parts: Its steps, by turns as far as they can be told apart. A part can have turns that are none of this
            gap's, and is then a part of theirs too.
        evidence: What shows it.
        recoverable: What deleted rows left behind.
        uncounted: Its steps may also be those of turns that nothing kept tells of.
        channel: The channel whose value is missing.
        version: The version that is missing.
        checkpoints: How many checkpoints of the line refer to it.
        ended: The turns that ended with it.
    """

    kind: Kind
    turns: tuple[int, ...]
    row: int
    after: str | None
    before: str
    parts: tuple[Part, ...]
    evidence: tuple[Evidence, ...]
    recoverable: Recoverable = Recoverable()
    uncounted: bool = False
    channel: str | None = None
    version: str | None = None
    checkpoints: int | None = None
    ended: tuple[int, ...] = ()

    @property
    def steps(self) -> Steps | None:
        """The steps missing, where they are this gap's alone; None where there are none."""
        if not self.parts or any(n not in self.turns for part in self.parts for n in part.turns):
            return None
        return Steps(self.parts[0].steps.first, self.parts[-1].steps.last, self.parts[0].steps.sure)

    @property
    def is_loss(self) -> bool:
        """Whether something had been stored that is not there any more."""
        return self.kind != "not_recorded"


class Orphans(Struct, frozen=True):
    """Rows that no kept checkpoint leads to.

    Attributes:
        writes: Write rows whose checkpoint is not kept.
        checkpoints: How many checkpoints those hung on.
        newer: How many of those are newer than the head: deleted, or never stored.
        blobs: Value rows that no kept checkpoint refers to.
    """

    writes: int
    checkpoints: int
    newer: int
    blobs: int


class Sealed(Struct, frozen=True):
    """What is kept and cannot be decrypted.

    Attributes:
        turns: Turns that ended in an encrypted row, or in which something was written encrypted.
        why: Why it cannot be read.
    """

    turns: tuple[int, ...]
    why: str


class GapReport(Struct, frozen=True):
    """The gaps of one line.

    Attributes:
        thread: ``thread_id``.
        ns: ``checkpoint_ns``.
        head: The checkpoint that LangGraph would resume.
        tip: The line's last checkpoint.
        turns: All turns, and how they were counted. Each from 1 on is retained or in exactly one ``pruned`` gap.
        gaps: In the order of the line.
        orphans: What is left over of whatever line.
        sealed: What is kept and cannot be decrypted, as far as the latest of it shows; None where nothing is.
        unresolved: Channels kept as deltas that cannot be rebuilt in the tip.
    """

    thread: str
    ns: str
    head: str
    tip: str
    turns: Turns
    gaps: tuple[Gap, ...]
    orphans: Orphans
    sealed: Sealed | None = None
    unresolved: tuple[str, ...] = ()

    @property
    def losses(self) -> tuple[Gap, ...]:
        """The gaps where something is gone that had been stored."""
        return tuple(gap for gap in self.gaps if gap.is_loss)


def gap_report(history: History) -> GapReport:
    """The gaps of the history's line; the namespace must have rows.

    Reads no value but, at the tip, of channels kept as deltas, and the latest of what is encrypted.
    """
    found = _Gaps(history)
    gaps = [gap for hole in found.holes for gap in found.of_hole(hole)]
    gaps += found.untold(gaps)
    gaps += found.without_values()
    gaps.sort(key=lambda gap: gap.row)
    orphans = Orphans(
        sum(map(len, found.gone.values())),
        len(found.gone),
        sum(id > history.forest.head for id in found.gone),
        len(found.unreferenced),
    )
    return GapReport(
        history.thread,
        history.ns,
        history.forest.head,
        history.line.rows[-1].id,
        history.turns,
        tuple(gaps),
        orphans,
        _sealed(history),
        _unresolved(history),
    )


def _sealed(history: History) -> Sealed | None:
    if not is_encrypted(history) or (why := why_unread(history)) is None:
        return None
    rows, turns = history.line.rows, history.turns
    wrote = {
        n
        for i, step in enumerate(history.steps)
        if any(write.value.encrypted for write in step.writes or ())
        for n in turns.at_row(i)
    }
    kept = [turn for turn in turns.turns[1:] if turn.end is not None]
    return Sealed(tuple(t.number for t in kept if t.number in wrote or rows[t.end or 0].encrypted), why)


def _unresolved(history: History) -> tuple[str, ...]:
    if not history.deltas.channels:
        return ()
    held = history.values(history.line.rows[-1].id, history.deltas.channels)
    return tuple(
        sorted(
            name
            for name, value in held.items()
            if isinstance(value, Absent) and value.kind == "delta_unresolved"
        )
    )


def thinned_turns(history: History) -> frozenset[int]:
    """The turns of ``thinned`` gaps, by narrow rows and versions alone: their end is kept, and not all their steps."""
    found = _Gaps(history)
    kinds = [
        each
        for hole in found.holes
        if hole.recorded
        for each in found.kinds(turns_across(found.line, found.turns, hole))
    ]
    return frozenset(n for kind, turns in kinds if kind == "thinned" for n in _real(turns))


class _Gaps:
    """What is read once for the gaps of one line."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.line = history.line
        self.turns = history.turns
        self._read: dict[str, Mapping[str, str]] = {}
        kept = history.forest.rows
        self.gone = {id: rows for id, rows in history.writes.items() if id not in kept}

    @cached_property
    def unreferenced(self) -> list[tuple[str, int | None]]:
        """Channel and counter of each value row that no kept checkpoint refers to."""
        found = self.history.store.unreferenced_values(self.history.thread, self.history.ns)
        return [(channel, version_number(version)) for channel, version in found]

    @cached_property
    def holes(self) -> list[Hole]:
        history, first = self.history, self.line.rows[0]
        cleared = self.line.front_missing and not first.parent and first.source in ("loop", None)
        return find_holes(
            self.line,
            self.gone,
            first_run=cleared and history.conversation.in_first_run(first.id),
            begins=self._beginning() if self.line.front_missing else None,
            forked=any(tip not in self.line.index for tip in history.forest.tips),
        )

    def _beginning(self) -> Steps | None:
        """The steps before the first row. A thread begins at -1, or at 0 with an ``update_state``.

        Versions count the steps that wrote, so that a version two above the step leaves no doubt which
        (``langgraph.pregel._algo.apply_writes``).
        """
        row = self.line.rows[0]
        step, recorded = step_of(row)
        if step is None or step <= BEGINNING:
            return None
        versions = self._versions(row.id)
        if versions and "__start__" not in versions:
            return Steps(0, step - 1, "exact" if recorded else "at_least")
        sure = _greatest(versions) >= step + 2
        return Steps(BEGINNING, step - 1, "at_least" if not recorded else "exact" if sure else "at_most")

    def _versions(self, checkpoint: str) -> Mapping[str, str]:
        if checkpoint not in self._read:
            found = self.history.store.versions(self.history.thread, self.history.ns, [checkpoint])
            self._read[checkpoint] = found.get(checkpoint, {})
        return self._read[checkpoint]

    def of_hole(self, hole: Hole) -> list[Gap]:
        """One gap for each kind of loss that the hole is."""
        rows = self.line.rows
        at = hole.at
        blank = Gap(
            "not_recorded",
            _real(self.turns.at_row(at)),
            at,
            rows[at - 1].id if at else None,
            rows[at].id,
            (Part(_real(self.turns.at_row(at)), hole.steps),),
            (),
        )
        if not hole.recorded:
            return [replace(blank, evidence=tuple(self._why_not_recorded(hole)))]
        gone = gone_in(self.line, at, hole.steps, self.gone)
        across = turns_across(self.line, self.turns, hole)
        parts = divide(hole, across, self._starts(hole, across, gone))
        evidence = tuple(self._why_deleted(hole, gone))
        gaps = []
        for kind, turns in self.kinds(across):
            own = tuple(p for p in parts if not p.turns or any(n in turns for n in p.turns))
            left = self._recoverable(hole, own, parts, gone)
            gaps.append(
                replace(
                    blank,
                    kind=kind,
                    turns=_real(turns),
                    parts=own,
                    evidence=evidence,
                    recoverable=left,
                    uncounted=kind == "pruned" and self.turns.total_is == "at_least",
                )
            )
        return gaps

    def kinds(self, across: Sequence[tuple[int, ...]]) -> list[tuple[Kind, tuple[int, ...]]]:
        """The turns across a hole by what has become of them: first those whose end is gone."""
        ended_here = {*across[0], *across[1]}
        turns = [n for group in across for n in group]
        pruned = tuple(n for n in turns if n in ended_here and not self.turns.turns[n].retained)
        thinned = tuple(n for n in turns if n not in pruned)
        if not turns:
            return [("thinned", ())]
        kinds: list[tuple[Kind, tuple[int, ...]]] = [("pruned", pruned), ("thinned", thinned)]
        return [(kind, found) for kind, found in kinds if found]

    def _starts(
        self, hole: Hole, across: Sequence[tuple[int, ...]], gone: Sequence[str]
    ) -> Mapping[int, int]:
        """Turn → the step of the row that took its question, where rows of a hole left writes that tell."""
        _, whole, after = across
        inside = [*whole, *after]
        starts = self._spread_just_before(hole.at, after) if whole or across[0] else {}
        steps = [id_step(id) for id in gone]
        if any(a is None or b is None or a >= b for a, b in pairwise(steps)):
            return starts  # not one line's
        asked = [(step, text) for step, id in zip(steps, gone, strict=True) for text in self._asked_on(id)]
        texts = (
            [self.turns.turns[n].question for n in inside]
            if self.turns.by == "questions"
            else [None] * len(inside)
        )
        if [text for _, text in asked] != texts:
            return starts
        return {n: step for n, (step, _) in zip(inside, asked, strict=True) if step is not None}

    def _spread_just_before(self, at: int, after: tuple[int, ...]) -> dict[int, int]:
        """The row before took an input where a row has the latest version of ``__start__`` and of the messages."""
        row = self.line.rows[at]
        if not after or row.source != "loop" or row.step is None:
            return {}
        versions = self._versions(row.id)
        written = [versions.get("__start__")]
        if self.turns.by == "questions":
            written.append(versions.get(self.history.messages))
        latest = _greatest(versions)
        return {after[0]: row.step - 1} if all(v and version_number(v) == latest for v in written) else {}

    def _asked_on(self, checkpoint: str) -> list[str | None]:
        """The questions that the writes on a lost row brought; one without text where inputs are counted."""
        if self.turns.by == "inputs":
            return [None] if any(node_of(w) == "__start__" for w in self.gone[checkpoint]) else []
        return [
            message.text
            for write, part in self.history.conversation.written(checkpoint)
            if part and (not write.path or node_of(write) == "__start__" or is_update_task(write))
            for message in part.messages
            if message.role == "human" and not message.summary
        ]

    def _recoverable(
        self, hole: Hole, own: Sequence[Part], parts: Sequence[Part], gone: Sequence[str]
    ) -> Recoverable:
        writes = [
            w.channel
            for id in gone
            if any(id_step(id) in part.steps for part in own)
            for w in self.gone[id]
            if not self.history.is_internal(w.channel)
        ]
        blobs = self._values_left(hole, None if len(own) == len(parts) else own)
        return Recoverable(len(writes), len(blobs), tuple(sorted({*writes, *blobs})))

    def _values_left(self, hole: Hole, own: Sequence[Part] | None) -> list[str]:
        """Channels of the values left over whose versions lie in a hole, or in parts of it."""
        if not self.unreferenced:
            return []
        row = self.line.rows[hole.at]
        top = self._latest(row.id)
        low = self._latest(self.line.rows[hole.at - 1].id) if hole.at else 0
        found = [
            (c, v)
            for c, v in self.unreferenced
            if v is not None and low < v <= top and not self.history.is_internal(c)
        ]
        if own is not None and row.step is not None and top == row.step + 2:  # then versions tell steps
            found = [(c, v) for c, v in found if any(v - 2 in part.steps for part in own)]
        return [channel for channel, _ in found]

    def _latest(self, checkpoint: str) -> int:
        return _greatest(self._versions(checkpoint))

    def _why_not_recorded(self, hole: Hole) -> Iterable[Evidence]:
        row = self.line.rows[hole.at]
        if not hole.at and not row.parent:
            version = self._versions(row.id).get("__start__")
            yield Evidence(
                "one_input",
                f"the first row is step {step_of(row)[0]}, names no parent, and one input had come: its run was saved "
                "by one row (a saver that prunes within a first run leaves the same)",
                _known(checkpoint=row.id, step=step_of(row)[0], start_version=version),
            )
            return
        if row.parent in self.line.index:
            words = "its parent is kept"
        else:
            words = f"the id of its parent says step {id_step(row.parent or '')}"
        yield Evidence(
            "kept_parent",
            f"step {row.step} follows in one row, {words}: the run was saved by one row",
            {"checkpoint": row.id, "parent": row.parent, "step": row.step},
        )

    def _why_deleted(self, hole: Hole, gone: Sequence[str]) -> Iterable[Evidence]:
        row = self.line.rows[hole.at]
        step, _ = step_of(row)
        if row.parent and row.parent not in self.line.index:
            parent_step = id_step(row.parent)
            by_id = "" if parent_step is None else f" (step {parent_step} by its id)"
            yield Evidence(
                "dangling_parent",
                f"the parent {row.parent}{by_id} is gone",
                _known(checkpoint=row.id, parent=row.parent, step=parent_step),
            )
        elif not row.parent:
            yield Evidence("cleared_parent", f"step {step} names no parent", {"checkpoint": row.id})
        if step is not None:
            if hole.at:
                last, _ = step_of(self.line.rows[hole.at - 1])
                yield Evidence(
                    "step_jump", f"steps go from {last} to {step}", _known(**{"from": last, "to": step})
                )
            else:
                yield Evidence("first_step", f"the first row kept is step {step}", {"step": step})
        if met := self._met_at(hole.at):
            yield self._why_met(hole.at, met)
        if gone:
            count = sum(len(self.gone[id]) for id in gone)
            yield Evidence(
                "orphaned_writes",
                f"{count} write rows hang on {len(gone)} checkpoints that are gone",
                {"writes": count, "checkpoints": list(gone)},
            )
        if left := self._values_left(hole, None):
            yield Evidence(
                "orphaned_values",
                f"{len(left)} value rows have versions from between and nothing kept refers to them",
                {"blobs": len(left)},
            )

    def _why_met(self, at: int, met: int) -> Evidence:
        there = "1 question was" if met == 1 else f"{met} questions were"
        after = " after the gap" if at else ""
        return Evidence(
            "question_count",
            f"{there} already there in the first row kept{after}",
            {"checkpoint": self.line.rows[at].id, "questions": met},
        )

    def _met_at(self, row: int) -> int:
        """How many questions a first kept row already holds; one that it takes in itself is not among them."""
        takes = self.line.rows[row].source == "input"
        met = [turn for turn in self.turns.turns[1:] if self._met_row(turn.number) == row]
        return sum(turn.first is None or (turn.first == row and not takes) for turn in met)

    def _met_row(self, number: int) -> int | None:
        """The row in which a question was met: the first of its turn, or of the next that has rows."""
        return next((t.first for t in self.turns.turns[number:] if t.first is not None), None)

    def untold(self, gaps: Sequence[Gap]) -> list[Gap]:
        """Turns that cannot be read and lie in no hole: what is kept does not show where their rows were."""
        told = {n for gap in gaps if gap.kind == "pruned" for n in gap.turns}
        lost = [t.number for t in self.turns.turns[1:] if not t.retained and t.number not in told]
        found = []
        for at, group in groupby(lost, key=self._met_row):
            row = 0 if at is None else at
            met = self._met_at(row)
            found.append(
                Gap(
                    "pruned",
                    tuple(group),
                    row,
                    self.line.rows[row - 1].id if row else None,
                    self.line.rows[row].id,
                    (),
                    (self._why_met(row, met),),
                )
            )
        return found

    def without_values(self) -> list[Gap]:
        """One gap for each version of a channel that rows of the line refer to and whose value row is gone."""
        history = self.history
        lost: dict[tuple[str, str], list[int]] = {}
        for checkpoint, channel, version in history.store.lost_values(history.thread, history.ns):
            if checkpoint in self.line.index and not history.is_internal(channel):
                lost.setdefault((channel, version), []).append(self.line.index[checkpoint])
        ends: dict[int, list[int]] = {}
        for turn in self.turns.turns[1:]:
            if turn.end is not None:
                ends.setdefault(turn.end, []).append(turn.number)
        gaps = []
        for (channel, version), unsorted in sorted(lost.items()):
            rows = sorted(unsorted)
            ended = {n for i in rows for n in ends.get(i, ())}
            turns = ended | {n for i in rows for n in self.turns.at_row(i) if n}
            writes = [w for w in history.steps[rows[0]].writes or () if w.channel == channel]
            where = f"{counted(len(rows), 'checkpoint')}, from {self.line.rows[rows[0]].id} on"
            words = f"{channel} has version {version} in {where}, and the row of that value is gone"
            gaps.append(
                Gap(
                    "value_missing",
                    tuple(sorted(turns)),
                    rows[0],
                    self.line.rows[rows[0] - 1].id if rows[0] else None,
                    self.line.rows[rows[0]].id,
                    (),
                    (
                        Evidence(
                            "reference_without_row",
                            words,
                            {
                                "channel": channel,
                                "version": version,
                                "checkpoints": len(rows),
                                "first_checkpoint": self.line.rows[rows[0]].id,
                                "last_checkpoint": self.line.rows[rows[-1]].id,
                            },
                        ),
                    ),
                    Recoverable(len(writes), 0, (channel,) if writes else ()),
                    channel=channel,
                    version=version,
                    checkpoints=len(rows),
                    ended=tuple(sorted(ended)),
                )
            )
        return gaps


def _known(**details: Any) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None}


def _real(turns: Iterable[int]) -> tuple[int, ...]:
    """Turn 0, the state before the first question, is not told of."""
    return tuple(n for n in turns if n)


def _greatest(versions: Mapping[str, str]) -> int:
    """The greatest counter among channels' versions."""
    return max((version_number(version) or 0 for version in versions.values()), default=0)
