"""The log of one key or of all as it is shown: its versions, and between them the gaps, where rows are gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from turnstate.history.keys import Key
from turnstate.history.log import Log, Logged, Span
from turnstate.history.parts import readable
from turnstate.history.thread import History
from turnstate.history.versions import turns_of, versions_of

if TYPE_CHECKING:
    from turnstate.history.gaps import Gap


class KeyLog:
    """One log to be read once: the versions of a key, or of all keys, and the gaps between them.

    What is said of it as a whole is known at the end.

    Args:
        log: Where it is read.
        key: The key; all when None, a mapping by its entries.
        span: Only in these rows.
        limit: The most recent versions, so many.
        reverse: Newest first.
    """

    def __init__(
        self,
        log: Log,
        key: Key | None,
        *,
        span: Span | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> None:
        self.log = log
        self.history = log.history
        self.key = key
        self.span = span
        self.limit = limit
        self.reverse = reverse
        self.readable = 0
        self.unreadable = 0
        self._inferred: set[int] = set()

    def __iter__(self) -> Iterator[Logged | Gap]:
        versions = self.log.versions(
            None if self.key is None else [self.key], span=self.span, limit=self.limit, reverse=self.reverse
        )
        cut = self.limit is not None and not self.reverse
        for entry in with_gaps(versions, gaps_of(self.history, self.span), reverse=self.reverse, cut=cut):
            if isinstance(entry, Logged):
                self._count(entry)
            yield entry

    def _count(self, version: Logged) -> None:
        if version.now is not None:
            if readable(version.now):
                self.readable += 1
            else:
                self.unreadable += 1
        if version.inferred and not version.reread and version.change != "removed":
            self._inferred.update(version.turns)

    @property
    def name(self) -> str:
        """How the key is addressed; empty for all keys."""
        return "" if self.key is None else self.log.name(self.key)

    @property
    def turns_written(self) -> tuple[int, ...]:
        """All turns in which the key was written: by its writes, and by what was inferred besides in what was read."""
        versions = versions_of(self.log.index, self.key) if self.key else ()
        return tuple(sorted({*turns_of(self.history, versions), *self._inferred}))

    @property
    def earlier_unknown(self) -> bool:
        """Rows that are no longer kept wrote the key too; in which turns cannot be told."""
        return self.key is not None and any(v.lost for v in versions_of(self.log.index, self.key))


def with_gaps(
    versions: Iterable[Logged], gaps: Iterable[Gap], *, reverse: bool = False, cut: bool = False
) -> Iterator[Logged | Gap]:
    """Each gap where it lies between versions.

    Args:
        versions: In order.
        gaps: In any order.
        reverse: Newest first.
        cut: Only the gaps from the first version on.
    """
    ahead = deque(sorted(gaps, key=lambda gap: gap.row))
    if reverse:
        ahead.reverse()
    for version in versions:
        while cut and ahead and ahead[0].row < version.row:
            ahead.popleft()
        cut = False
        while ahead and (ahead[0].row > version.row if reverse else ahead[0].row <= version.row):
            yield ahead.popleft()
        yield version
    yield from ahead


def gaps_of(history: History, span: Span | None = None) -> tuple[Gap, ...]:
    """The gaps of the line in which rows are gone that had been stored; read only where some are."""
    if not (history.line.front_missing or history.line.seams):
        return ()
    from turnstate.history.gaps import gap_report

    return tuple(
        gap
        for gap in gap_report(history).gaps
        if gap.kind in ("pruned", "thinned") and (span is None or span.first <= gap.row <= span.last)
    )
