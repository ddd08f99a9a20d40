"""Which node wrote: by the task path where the store records one, else by what each node has seen.

A node that ran in a step has seen newer channel versions in the row that the step made. Where several ran, the
task id tells them apart: LangGraph computes it from checkpoint id, namespace, step, node and triggers, so a
candidate can be verified (``langgraph.pregel._algo.prepare_single_task``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations

from turnstate.history.lines import Line
from turnstate.history.steps import INTERRUPT, Step, is_outside, is_update_task, node_of
from turnstate_backends.interface import Checkpoint, Store, Write

_MOST_TRIGGERS = 8  # of a node, tried in every combination
_MOST_PUSHES = 256  # Send packets of one checkpoint that are tried by their number
_Seen = Mapping[str, Mapping[str, str]]


class Writers:
    """Names the nodes behind the write rows of one line.

    Args:
        store: An opened store; what nodes have seen is read for the rows that are asked about, in pairs.
        thread: ``thread_id``.
        ns: ``checkpoint_ns``.
        line: The line.
        steps: How each of its rows came to be.
    """

    def __init__(self, store: Store, thread: str, ns: str, line: Line, steps: Sequence[Step]) -> None:
        self.store = store
        self.thread = thread
        self.ns = ns
        self.line = line
        self.steps = steps
        self._seen: dict[str, _Seen] = {}
        self._fitted: dict[tuple[str, tuple[str, ...]], None] = {}

    def read_ahead(self, rows: set[int]) -> None:
        """Read at once what will be asked about steps into these rows of the line."""
        around = {self.line.rows[i].id for row in rows for i in (row - 1, row) if i >= 0}
        wanted = around - set(self._seen)
        if wanted:
            found = self.store.seen(self.thread, self.ns, wanted)
            self._seen |= {id: found.get(id, {}) for id in wanted}

    def node(self, row: int, write: Write | None) -> str | None:
        """The node behind a write into a row of the line; None where nothing tells.

        Args:
            row: Position of the row that holds the result.
            write: The write row; None where it is gone, and a node is only named when no other ran.
        """
        if write is not None:
            if is_update_task(write):
                return "update_state"
            if is_outside(write):
                return "Command"
            if named := node_of(write):
                return named
        if write is None and self.line.rows[row].source == "update":
            return "update_state"
        if row == 0 or row in self.line.seams:
            return None
        if write is None and self.steps[row].arrival != "step":
            return None
        if write is not None and (verified := self._verified(row, write)):
            return verified
        parent = self.line.rows[row - 1]
        ran = self._ran(row)
        tasks = {w.task for w in self.steps[row].writes or () if not is_outside(w)}
        if write is None or (len(ran) == len(tasks) == 1 and not write.path):
            return next(iter(ran)) if len(ran) == 1 else None
        return self._by_task_id(row, parent, write, ran)

    def _verified(self, row: int, write: Write) -> str | None:
        """By its task id among the nodes that the line's last row knows, set off in the usual way.

        One row is read for all writes, and no pair of rows for each.
        """
        parent = self.line.rows[row - 1]
        if parent.step is None:
            return None
        for node, parts in chain(list(self._fitted), self._usual):
            if write.task in _task_ids(parent.id, self._hashed(parent.step, node, parts)):
                self._fitted[node, parts] = None
                return node
        return None

    @cached_property
    def _usual(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each node known to the line with its own trigger alone, and with all that it ever had."""
        tip = self.line.rows[-1].id
        if tip not in self._seen:
            self._seen[tip] = self.store.seen(self.thread, self.ns, [tip]).get(tip, {})
        found = []
        for node, versions in self._seen[tip].items():
            own = f"branch:to:{node}"
            for triggers in dict.fromkeys([(own,), tuple(sorted({*versions, own})), tuple(sorted(versions))]):
                found.append((node, ("__pregel_pull", *triggers)))
        return found

    def _hashed(self, step: int, node: str, parts: Sequence[str]) -> list[str]:
        inside = f"{self.ns}|{node}" if self.ns else node
        return [inside, str(step + 1), node, *parts]

    def _ran(self, row: int) -> Mapping[str, Mapping[str, str]]:
        """The nodes that have seen newer versions in a row than in the one before, with what they have seen."""
        self.read_ahead({row})
        before = self._seen[self.line.rows[row - 1].id]
        after = self._seen[self.line.rows[row].id]
        return {
            node: versions
            for node, versions in after.items()
            if before.get(node) != versions and node not in ("__input__", INTERRUPT)
        }

    def _by_task_id(self, row: int, parent: Checkpoint, write: Write, ran: _Seen) -> str | None:
        if parent.step is None:
            return None
        after = self._seen[self.line.rows[row].id]
        for node, parts in chain(_pulled(ran), _pushed(after)):
            if write.task in _task_ids(parent.id, self._hashed(parent.step, node, parts)):
                return node
        return None


def _pulled(ran: _Seen) -> Iterator[tuple[str, list[str]]]:
    """A node that an edge set off is hashed with all its triggers; some may never have had a version."""
    for node, versions in ran.items():
        known = sorted(set(versions) | {f"branch:to:{node}"})
        # One more combination doubles the work, and a row can name as many channels as it likes.
        counts = range(len(known), 0, -1) if len(known) <= _MOST_TRIGGERS else (len(known), len(known) - 1, 1)
        for count in counts:
            for triggers in combinations(known, count):
                yield node, ["__pregel_pull", *triggers]


def _pushed(seen: _Seen) -> Iterator[tuple[str, list[str]]]:
    """A node that a ``Send`` set off is hashed with the packet's number."""
    for node in seen:
        for number in range(_MOST_PUSHES):
            yield node, ["__pregel_push", str(number)]


def _task_ids(checkpoint: str, parts: list[str]) -> Iterator[str]:
    """The task id of both formats: XXH3 since checkpoint format 2, SHA-1 before."""
    import xxhash

    try:
        payload = bytes.fromhex(checkpoint.replace("-", "")) + "".join(parts).encode()
    except (ValueError, UnicodeEncodeError):
        return
    for digest in (
        xxhash.xxh3_128_hexdigest(payload),
        hashlib.sha1(payload, usedforsecurity=False).hexdigest(),
    ):
        yield f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
