"""Branches: where the lines of a thread part, what set each off, and what it holds of its own.

Data only; how it looks is not known here. Every checkpoint belongs to one branch: the head's line first, then from
each other tip back to where it meets one that is told already, the latest tip first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from turnstate.history.ids import id_time
from turnstate.history.lines import Forest, Line
from turnstate.history.thread import History
from turnstate_backends.interface import Checkpoint

ForkKind = Literal["edit", "replay", "update_state", "two_writers", "edit_or_two_writers", "skewed"]

_AT_ONCE = 2.0  # seconds: hardly a person, who reads an answer and then goes back
_ONE_STEP = 60.0  # seconds that a step may take that was under way while another writer wrote


class Limb(Struct, frozen=True):
    """A run of rows that are on no limb before it.

    Attributes:
        rows: Its own rows, oldest first.
        under: Index of the limb that it leaves; None for the first and for an island.
        forked_at: The row of that limb that it leaves from.
    """

    rows: tuple[Checkpoint, ...]
    under: int | None
    forked_at: Checkpoint | None

    @property
    def tip(self) -> str:
        return self.rows[-1].id


class Fork(Struct, frozen=True):
    """What set two lines apart.

    Attributes:
        kind: ``edit``: a question from an older checkpoint. ``replay``: the graph was run again from there.
            ``two_writers``: two runs wrote on one checkpoint at once. ``edit_or_two_writers``: either, the rows
            follow each other too closely. ``skewed``: a clock stepped back, so that LangGraph resumed the row that
            the branch goes on from and not the branch, whose ids are smaller.
        checkpoint: The row with which the lines parted: the later one, on whichever of them it lies.
        words: The same in words.
        apart: Seconds between the rows that tell.
    """

    kind: ForkKind
    checkpoint: str
    words: str
    apart: float | None = None


class OwnTurn(Struct, frozen=True):
    """A turn with rows on a branch.

    Attributes:
        number: By the branch's own counting.
        question: What was asked; None where no text is known.
        continued: It had begun before the branch left.
    """

    number: int
    question: str | None
    continued: bool


class BranchRow(Struct, frozen=True):
    """One branch.

    Attributes:
        tip: Its last checkpoint; ``--branch`` takes it.
        depth: How many branches lie between it and the root of the tree.
        current: LangGraph would resume it.
        under: Tip of the branch that it leaves; None for the current one and for an island.
        forked_at: The last checkpoint that it shares with that one.
        forked_turns: The turns of that one in which it leaves.
        first: Its first own checkpoint.
        checkpoints: How many rows of its own it has.
        turns: The turns that have rows on it; of the current one all.
        last_activity: When its tip was made.
        fork: What set it apart; None for the current one, for an island, and where the rows do not tell.
        lost_parent: The parent that an island names and the store does not hold.
    """

    tip: str
    depth: int
    current: bool
    under: str | None
    forked_at: str | None
    forked_turns: tuple[int, ...]
    first: str
    checkpoints: int
    turns: tuple[OwnTurn, ...]
    last_activity: datetime | None
    fork: Fork | None
    lost_parent: str | None

    @property
    def island(self) -> bool:
        """No kept parent joins it to any other branch, and the head's line does not pass it."""
        return not self.current and self.forked_at is None


class BranchReport(Struct, frozen=True):
    """The branches of a namespace.

    Attributes:
        thread: ``thread_id``.
        ns: ``checkpoint_ns``.
        head: The checkpoint that LangGraph would resume.
        rows: The current branch first, each followed by those that leave it, earliest first; islands last.
        skewed: Checkpoints whose id sorts before their parent's.
        beyond_head: Children of the head, which LangGraph does not resume.
    """

    thread: str
    ns: str
    head: str
    rows: tuple[BranchRow, ...]
    skewed: tuple[str, ...]
    beyond_head: tuple[str, ...]


def branch_report(history: History) -> BranchReport:
    """The branches of the history's namespace, which must have rows, as the head's line and its forks."""
    forest = history.forest
    if history.line.rows[-1].id != forest.head:
        history = history.along(forest.head)
    _ = history.turns  # reads what the other lines then share
    limbs = limbs_of(forest, history.line)
    rows = []
    for number, depth in _in_tree_order(limbs):
        limb = limbs[number]
        along = history if not number else history.along(limb.tip)
        under, forked_at = limb.under, limb.forked_at
        forked_turns: tuple[int, ...] = ()
        if under is not None and forked_at is not None:
            at = along.line.index[forked_at.id]
            forked_turns = tuple(n for n in along.turns.at_row(at) if n)
        rows.append(
            BranchRow(
                tip=limb.tip,
                depth=depth,
                current=not number,
                under=None if under is None else limbs[under].tip,
                forked_at=None if forked_at is None else forked_at.id,
                forked_turns=forked_turns,
                first=limb.rows[0].id,
                checkpoints=len(limb.rows),
                turns=tuple(_own_turns(along, limb, whole=not number)),
                last_activity=along.row_time(len(along.line.rows) - 1),
                fork=None if under is None else _fork(along, limb, limbs[under]),
                lost_parent=limb.rows[0].parent if number and forked_at is None else None,
            )
        )
    beyond = tuple(row.id for row in forest.children.get(forest.head, ()))
    return BranchReport(history.thread, history.ns, forest.head, tuple(rows), forest.skewed, beyond)


def limbs_of(forest: Forest, line: Line) -> list[Limb]:
    """Every row of a forest on one limb: the line's first, then tips from the latest on.

    Rows that no tip leads to, since their parents form a loop, make limbs of their own.
    """
    limbs = [Limb(line.rows, None, None)]
    owner = {row.id: 0 for row in line.rows}
    for tip in (*sorted(forest.tips, reverse=True), *sorted(forest.rows, reverse=True)):
        if tip in owner:
            continue
        own: list[Checkpoint] = []
        at: str | None = tip
        while at is not None and at in forest.rows and at not in owner:
            owner[at] = len(limbs)
            own.append(forest.rows[at])
            at = forest.rows[at].parent
        joins = at if at is not None and at in forest.rows and owner[at] != len(limbs) else None
        limbs.append(
            Limb(
                tuple(reversed(own)),
                None if joins is None else owner[joins],
                None if joins is None else forest.rows[joins],
            )
        )
    return limbs


def _in_tree_order(limbs: Sequence[Limb]) -> Iterator[tuple[int, int]]:
    """(index, depth) of each limb, those that leave one after it, by where they leave."""
    below: dict[int | None, list[int]] = {}
    for number, limb in enumerate(limbs):
        below.setdefault(limb.under, []).append(number)
    for numbers in below.values():
        numbers.sort(key=lambda n: (n != 0, limbs[n].rows[0].id))
    todo = [(number, 0) for number in reversed(below.get(None, []))]
    while todo:
        number, depth = todo.pop()
        yield number, depth
        todo += [(under, depth + 1) for under in reversed(below.get(number, []))]


def _own_turns(along: History, limb: Limb, *, whole: bool) -> Iterable[OwnTurn]:
    start = along.line.index[limb.rows[0].id]
    for turn in along.turns.turns[1:]:
        if whole:
            yield OwnTurn(turn.number, turn.question, False)
        elif turn.first is not None and turn.last is not None and turn.last >= start:
            yield OwnTurn(turn.number, turn.question, turn.first < start)


def _fork(along: History, limb: Limb, under: Limb) -> Fork | None:
    """What parted two limbs, by the later of the two rows that follow the last one they share."""
    shared = limb.forked_at
    if shared is None:
        return None
    at = next(i for i, row in enumerate(under.rows) if row.id == shared.id) + 1
    ours, theirs = limb.rows, under.rows[at:]
    if not theirs:
        return Fork(
            "skewed", ours[0].id, "it goes on after the head with smaller ids: LangGraph resumes the head"
        )
    if ours[0].id < shared.id:
        words = "some clock stepped back, so its ids are smaller than that of the row it left: LangGraph resumed that"
        return Fork("skewed", ours[0].id, words)
    earlier, later = sorted((ours, theirs), key=lambda rows: rows[0].id)
    first = later[0]
    if first.source == "fork":
        return Fork("replay", first.id, "run again from an older checkpoint")
    if first.source == "update":
        return Fork("update_state", first.id, "update_state on an older checkpoint")
    before = max((row for row in earlier if row.id < first.id), key=lambda row: row.id)
    after = min((row for row in earlier if row.id > first.id), key=lambda row: row.id, default=None)
    if after is not None and after.source == "loop" and _close(before, after, _ONE_STEP):
        return _two_writers(first, before, "one went on while the other began")
    if first.source != "input":
        if _close(shared, first, _ONE_STEP):
            return _two_writers(first, before, "one began while the other's step was under way")
        return Fork("replay", first.id, "run again from an older checkpoint")
    if _asked_again(along, first, (earlier[0].id, *_asked_in_turn_of(along, shared))):
        return Fork("edit", first.id, "a question sent again with other content, from an older checkpoint")
    if _close(before, first, _AT_ONCE):
        apart = _seconds(before, first)
        words = "a new question from an older checkpoint, or two writers at once: too close to tell"
        return Fork("edit_or_two_writers", first.id, words, apart)
    return Fork("edit", first.id, "a new question from an older checkpoint", _seconds(before, first))


def _two_writers(first: Checkpoint, before: Checkpoint, how: str) -> Fork:
    words = f"two writers at once, {how}; both committed, and the head holds only one"
    return Fork("two_writers", first.id, words, _seconds(before, first))


def _asked_in_turn_of(along: History, shared: Checkpoint) -> Iterator[str]:
    """The row that took the question of the turn in which lines parted."""
    for number in along.turns.at_row(along.line.index[shared.id])[:1]:
        if (first := along.turns.turns[number].first) is not None:
            yield along.line.rows[first].id


def _asked_again(along: History, row: Checkpoint, others: Iterable[str]) -> bool:
    """Whether an input brought a message that one before it had brought, by its id, with other content."""
    old = {id: content for other in others for id, content in _brought(along, other)}
    return any(old.get(id, content) != content for id, content in _brought(along, row.id))


def _brought(along: History, checkpoint: str) -> Iterator[tuple[str, str]]:
    """Ids and contents of the human messages that an input row took."""
    parts = [part for _, part in along.conversation.written(checkpoint)]
    for part in parts or [along.conversation.pending_input(checkpoint)]:
        yield from ((m.id, m.content) for m in (part.messages if part else ()) if m.role == "human" and m.id)


def _seconds(a: Checkpoint, b: Checkpoint) -> float | None:
    first, second = id_time(a.id), id_time(b.id)
    return None if first is None or second is None else round((second - first).total_seconds(), 6)


def _close(a: Checkpoint, b: Checkpoint, limit: float) -> bool:
    seconds = _seconds(a, b)
    return seconds is not None and 0 <= seconds <= limit
