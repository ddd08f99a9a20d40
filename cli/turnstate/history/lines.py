"""Lines: chains of checkpoints by parent id, independent of the order in which rows arrive.

Pure functions over narrow rows. Nothing here knows messages, turns or payloads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from turnstate.history.ids import id_step
from turnstate_backends.interface import Checkpoint


class Line(Struct, frozen=True, dict=True):
    """The chain from a tip back to the root, oldest first.

    Attributes:
        rows: The checkpoints on the line, root first.
        seams: Indices of rows whose link to the row before is missing: the line was stitched there
            to the latest older island. Never holds 0, nor a row that tells neither a parent nor a step.
        front_missing: The first row had a predecessor that is not kept (its parent id leads nowhere, or is
            empty although the row is not a first step). Also true of a first run saved by one row only;
            ``front_dangling`` tells the sure case.
        front_dangling: The first row names a parent that the store does not hold.
    """

    rows: tuple[Checkpoint, ...]
    seams: frozenset[int]
    front_missing: bool
    front_dangling: bool

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Checkpoint id → position on the line."""
        return {row.id: i for i, row in enumerate(self.rows)}

    def parent(self, i: int) -> Checkpoint | None:
        """The row that row ``i`` was made from; None for the first row and at a seam."""
        return self.rows[i - 1] if i and i not in self.seams else None


class Branch(Struct, frozen=True):
    """A tip that is not on the default line.

    Attributes:
        tip: The last checkpoint of the branch.
        forked_at: The last checkpoint that it shares with the default line; None when it shares none.
        length: Rows after ``forked_at``.
    """

    tip: str
    forked_at: str | None
    length: int


class Forest(Struct, frozen=True, dict=True):
    """All checkpoints of one namespace, linked by parent ids."""

    rows: Mapping[str, Checkpoint]

    @cached_property
    def children(self) -> Mapping[str, tuple[Checkpoint, ...]]:
        """Parent id → its children, by id. Parents that are not kept have children too."""
        found: dict[str, list[Checkpoint]] = {}
        for row in self.rows.values():
            if row.parent:
                found.setdefault(row.parent, []).append(row)
        for rows in found.values():
            if len(rows) > 1:
                rows.sort(key=lambda r: r.id)
        return {parent: tuple(rows) for parent, rows in found.items()}

    @cached_property
    def head(self) -> str:
        """The checkpoint that LangGraph would resume: the greatest id, whatever the parents say."""
        return max(self.rows)

    @cached_property
    def tips(self) -> tuple[str, ...]:
        """Checkpoints without a child, by id."""
        return tuple(sorted(id for id in self.rows if id not in self.children))

    @cached_property
    def skewed(self) -> tuple[str, ...]:
        """Checkpoints whose id sorts before their parent's: some clock stepped back."""
        return tuple(sorted(row.id for row in self.rows.values() if row.parent and row.id < row.parent))

    @cached_property
    def _in_id_order(self) -> tuple[str, ...]:
        return tuple(sorted(self.rows))

    def chain(self, tip: str) -> list[Checkpoint]:
        """From ``tip`` back along the parents that are kept, oldest first. A loop ends where it closes."""
        chain: list[Checkpoint] = []
        passed: set[str] = set()
        at: str | None = tip
        while at is not None and at in self.rows and at not in passed:
            passed.add(at)
            chain.append(self.rows[at])
            at = self.rows[at].parent
        chain.reverse()
        return chain

    def line(self, tip: str) -> Line:
        """The whole line of ``tip``; islands that pruning has cut apart are stitched in order of their ids.

        A first row without a parent that is a beginning has nothing put before it. One that records neither a parent
        nor a step, as applications insert them, follows the row before: nothing shows that one is missing between.
        """
        rows = self.chain(tip)
        seams: list[int] = []  # positions counted from the tip's end
        passed = {row.id for row in rows}
        while not is_beginning(rows[0]):
            limit = rows[0].parent or rows[0].id
            older = self._latest_before(min(limit, rows[0].id), passed)
            if older is None:
                break
            island = self.chain(older)
            passed.update(row.id for row in island)
            if _had_predecessor(rows[0]):
                seams.append(len(rows))
            rows = island + rows
        first = rows[0]
        return Line(
            rows=tuple(rows),
            seams=frozenset(len(rows) - back for back in seams),
            front_missing=not is_beginning(first),
            front_dangling=bool(first.parent),
        )

    def _latest_before(self, limit: str, passed: Collection[str]) -> str | None:
        """The greatest id below ``limit`` on an island that the line does not touch yet."""
        ids = self._in_id_order
        for i in range(bisect_left(ids, limit) - 1, -1, -1):
            if ids[i] not in passed and self.chain(ids[i])[0].id not in passed:
                return ids[i]
        return None

    def branches(self, line: Line) -> tuple[Branch, ...]:
        """Every tip that ``line`` does not pass, by id."""
        found = []
        for tip in self.tips:
            if tip in line.index:
                continue
            chain = self.chain(tip)
            shared = [row.id for row in chain if row.id in line.index]
            found.append(Branch(tip, shared[-1] if shared else None, len(chain) - len(shared)))
        return tuple(found)

    def tip_beyond(self, checkpoint: str) -> str:
        """The greatest tip among the descendants of ``checkpoint``; itself when it has none."""
        reached, todo, best = {checkpoint}, [checkpoint], None
        while todo:
            children = self.children.get(todo.pop(), ())
            for child in children:
                if child.id not in reached:
                    reached.add(child.id)
                    todo.append(child.id)
                    if child.id not in self.children and (best is None or child.id > best):
                        best = child.id
        return checkpoint if best is None else best


def is_beginning(row: Checkpoint) -> bool:
    """Whether nothing came before the row: a first input is step -1, ``update_state`` on an empty thread step 0."""
    first = row.step == -1 or (row.source == "update" and row.step == 0)
    return not row.parent and (first or is_anchor(row))


def _had_predecessor(row: Checkpoint) -> bool:
    """Whether a row that is no beginning tells of one before it: by a parent's id, or by its step."""
    return bool(row.parent) or row.step is not None or id_step(row.id) is not None


def is_anchor(row: Checkpoint) -> bool:
    """Whether the row only holds writes: a thread's first run that is saved as a whole hangs on it what it wrote to
    channels kept as deltas (``langgraph.pregel._loop.PregelLoop._put_exit_delta_writes``). Its state is empty.
    """
    return row.step == -2 and row.source is None and not row.parent


def forest(rows: Iterable[Checkpoint]) -> Forest:
    """Link rows given in any order."""
    return Forest({row.id: row for row in rows})


def telling_length(ids: Collection[str]) -> int:
    """How many characters of each id tell them all apart: whole groups of a UUID, at least two."""
    longest = max(map(len, ids), default=0)
    return next((n for n in (13, 18, 23) if len({id[:n] for id in ids}) == len(ids)), longest)


def matching(ids: Sequence[str], prefix: str) -> list[str]:
    """The checkpoint ids that begin with ``prefix``; exactly that one when it is a whole id."""
    return [prefix] if prefix in ids else sorted(id for id in ids if id.startswith(prefix))
