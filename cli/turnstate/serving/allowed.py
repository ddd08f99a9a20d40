"""What a caller may be shown: some keys and some threads of a store. Reports go in, and come out without the rest."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history.keys import Key, display_names, is_glob, matching
from turnstate.history.refusals import Missed, Refused

if TYPE_CHECKING:
    from turnstate.history.changes import DiffReport
    from turnstate.history.gaps import Gap, GapReport
    from turnstate.history.listing import KeyReport, TurnReport
    from turnstate.history.log import Log
    from turnstate.history.reading import Reading
    from turnstate.history.thread import History

_NO_KEY = "the thread has no such key that this server shows"


class Allowed(Struct, frozen=True):
    """Patterns (``*``, ``?``, ``[abc]``, case-sensitive) of what may be shown.

    A pattern that matches a channel allows its entries too; one that matches an entry, by its name or as
    ``channel:entry``, allows that entry, and not the channel as a whole, which holds others.

    Attributes:
        keys: Of keys; all when empty.
        threads: Of thread ids; all when None.
    """

    keys: tuple[str, ...] = ()
    threads: str | None = None

    def thread(self, thread: str) -> bool:
        """Whether a thread may be shown."""
        return self.threads is None or fnmatchcase(thread, self.threads)

    def key(self, key: Key) -> bool:
        """Whether a key may be shown."""
        return not self.keys or any(matching(pattern, (key, Key(key.channel))) for pattern in self.keys)

    def named(self, channel: str, name: str) -> bool:
        """Whether the key of a channel may be shown that is addressed so: as the channel, its entry, or with both."""
        if name == channel:
            return self.channel(channel)
        return self.key(Key(channel, name.removeprefix(f"{channel}:")))

    def channel(self, channel: str) -> bool:
        """Whether a channel may be shown as a whole."""
        return self.key(Key(channel))

    def must_have_thread(self, thread: str) -> None:
        """Go on only with a thread that may be shown.

        Raises:
            Refused: It may not.
        """
        if not self.thread(thread):
            raise Refused(
                f"thread {thread!r} is not shown here",
                f"this server shows threads that match {self.threads!r}",
                "Ask threads for the ids.",
            )

    def asked(self, log: Log, name: str) -> list[Key]:
        """The keys that are meant by a name or a pattern, of those that may be shown.

        A key that may not be shown and one that never was are told apart by nothing.

        Raises:
            Missed: There is none, and it could be shown if there were.
            Refused: It may not be shown; or two channels have an entry of that name.
        """
        from turnstate.history.asked import logged_keys

        if not self.keys:
            return logged_keys(log, name)
        try:
            found = [key for key in logged_keys(log, name) if self.key(key)]
        except (Missed, Refused):
            found = []
            if self.fits(name):
                raise
        if found:
            return found
        if is_glob(name):
            raise Missed("no_such_key", _NO_KEY)
        raise Refused(
            f"key {name!r} is not shown here",
            f"this server shows keys that match {', '.join(map(repr, self.keys))}",
            "Ask keys for their names.",
        )

    def fits(self, name: str) -> bool:
        """Whether a key of that name would be shown."""
        entry = name.partition(":")[2] or name
        return any(fnmatchcase(each, pattern) for each in (name, entry) for pattern in self.keys)

    def reading(self, reading: Reading) -> Reading:
        """A reading without the names of other keys than its own."""
        if not self.keys or reading.outcome != "no_such_key":
            return reading
        return replace(reading, message=_NO_KEY, nearest=())

    def without_names(self, missed: Missed) -> Missed:
        """Why something is not there, without the names of others that are."""
        if self.keys and missed.outcome == "no_such_key":
            return Missed("no_such_key", _NO_KEY)
        others = missed.outcome == "no_such_thread" and "namespaces" not in missed.fields
        if self.threads is not None and others:
            return Missed("no_such_thread", "the store has no such thread that this server shows")
        return missed

    # Reports.

    def turns(self, history: History, report: TurnReport) -> TurnReport:
        """Turns without the texts of keys that may not be shown: questions, errors, what an interrupt asked."""
        if not self.keys:
            return report
        from turnstate.history.log import Log

        index = Log(history).index
        shown = {name for key, name in display_names(index).items() if self.key(key)}
        told = report.turns.by == "questions" and self.channel(history.messages)
        return replace(
            report,
            rows=tuple(
                replace(
                    row,
                    keys_written=tuple(name for name in row.keys_written if name in shown),
                    stops=(),
                    turn=row.turn if told else replace(row.turn, question=None),
                )
                for row in report.rows
            ),
            asides=report.asides if told else (),
            shared=tuple(filter(self.channel, report.shared)),
        )

    def listed(self, report: KeyReport, pattern: str | None) -> KeyReport:
        """Keys that may be shown and match a pattern."""
        wanted = [row.key for row in report.rows if self.key(row.key)]
        if pattern is not None:
            wanted = matching(pattern, wanted)
        kept = frozenset(wanted)
        return replace(report, rows=tuple(row for row in report.rows if row.key in kept))

    def changes(self, report: DiffReport) -> DiffReport:
        """Changes of keys that may be shown."""
        if not self.keys:
            return report
        return replace(
            report,
            changes=tuple(each for each in report.changes if self.key(each.key)),
            incomparable=tuple(each for each in report.incomparable if self.key(each.key)),
        )

    def gaps(self, report: GapReport) -> GapReport:
        """Gaps without the names of channels that may not be shown."""
        if not self.keys:
            return report
        return replace(
            report,
            gaps=tuple(self._gaps(report.gaps)),
            unresolved=tuple(filter(self.channel, report.unresolved)),
        )

    def _gaps(self, gaps: Iterable[Gap]) -> Iterable[Gap]:
        for gap in gaps:
            if gap.channel is None or self.channel(gap.channel):
                left = gap.recoverable
                channels = tuple(filter(self.channel, left.channels))
                yield replace(gap, recoverable=replace(left, channels=channels))
