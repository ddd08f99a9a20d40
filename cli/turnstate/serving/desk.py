"""Where a model's questions are answered: each by one document, within what may be shown and its size.

An outcome such as ``turn_no_longer_retained`` is an answer. What cannot be answered as it was asked is an
:class:`Answer` that failed, with what a model can do about it; it shows no password and no path.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from turnstate.history.refusals import Missed, Refused
from turnstate.render.documents import Document, miss_document, present
from turnstate.render.values import json_text
from turnstate.serving import tools
from turnstate.serving.allowed import Allowed
from turnstate.serving.answers import Source
from turnstate.serving.caps import LEAST, Caps, TooLarge, Which, encodable, fitted, lightened
from turnstate_backends.address import SqliteAddress, parse
from turnstate_backends.interface import StoreError

if TYPE_CHECKING:
    from turnstate.history.keys import Key
    from turnstate.history.log import Log, Span
    from turnstate.history.places import Miss, Place
    from turnstate.history.reading import Reading
    from turnstate.history.thread import History


class Answer(Struct, frozen=True):
    """What a tool gives.

    Attributes:
        document: As the contract has it; ``outcome``, ``message`` and ``try`` where it failed.
        failed: It could not be answered as it was asked.
    """

    document: Document
    failed: bool = False

    @property
    def text(self) -> str:
        """The document as JSON."""
        return json_text(self.document)

    @property
    def structured(self) -> Document:
        """The document as a protocol can carry it."""
        found: Document = encodable(self.document)
        return found


class Desk:
    """Where tools are called: each call reads one state of the store, opened for it alone. Threads may call at once.

    Args:
        address: As ``--store`` has it.
        schema: The PostgreSQL schema.
        messages: The channel that holds the conversation.
        secrets: What no answer shows: the address's passwords.
        allowed: What may be shown.
        caps: How much an answer may hold.
        report: Told what, why and a hint when the store cannot be read, which a model is told in part.

    Raises:
        StoreError: The address cannot be read.
    """

    def __init__(
        self,
        address: str,
        *,
        schema: str | None = None,
        messages: str = "messages",
        secrets: frozenset[str] = frozenset(),
        allowed: Allowed,
        caps: Caps,
        report: Callable[[str, str, str], object],
    ) -> None:
        self._source = Source(address, schema=schema, messages=messages, secrets=secrets)
        self._address = address
        self._allowed = allowed
        self._caps = caps
        self._report = report

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Answer; whatever goes wrong is an answer too."""
        tool = tools.TOOLS.get(name)
        if tool is None:
            return _failed(
                "bad_arguments", "there is no such tool", f"Call one of: {', '.join(tools.TOOLS)}."
            )
        try:
            asked = msgspec.convert(dict(arguments), tool.asked)
        except (msgspec.ValidationError, TypeError) as error:
            takes = ", ".join(field.name for field in msgspec.structs.fields(tool.asked))
            return _failed("bad_arguments", self._told(str(error)), f"{name} takes: {takes}.")
        try:
            document = self._answer(tool, asked)
        except TooLarge as error:
            return _failed("too_large", f"{error.what}: {error.why}", error.hint)
        except Refused as error:
            return _failed("refused", self._why(error), self._told(error.hint))
        except StoreError as error:
            self._report(error.what, error.why, error.hint)
            words = self._without_path(f"{error.what}: {error.why}")
            return _failed("store_unavailable", words, "Ask again later, or tell whoever runs this server.")
        except Exception as error:  # a defect; its text is not shown, as a driver's may hold anything
            kind = type(error).__name__
            self._report("this should not have happened", f"a defect in turnstate: {kind}", f"Tool {name}.")
            if os.environ.get("TURNSTATE_DEBUG"):
                import traceback

                sys.stderr.write(self._source.shown("".join(traceback.format_exception(error))))
            return _failed("internal", f"this should not have happened: {kind}", "Ask for something else.")
        return Answer(document)

    def _why(self, error: Refused) -> str:
        """Why it cannot be answered as it was asked; without the names that it may list where some are not shown."""
        ours = error.what.endswith("is not shown here")
        listed = f": {error.why}" if ours or not self._allowed.keys else ""
        return self._told(f"{error.what}{listed}")

    def _told(self, text: str) -> str:
        return self._source.shown(text)

    def _without_path(self, text: str) -> str:
        """Why the store cannot be read, without where it is: of anything but a file, that it cannot."""
        address = parse(self._address)
        if not isinstance(address, SqliteAddress):
            return "the store cannot be read"
        spelled = {self._address, address.display, *map(str, (address.path, address.path.absolute()))}
        for name in sorted({*spelled, str(address.path.resolve())}, key=len, reverse=True):
            text = text.replace(name, "the store")
        return self._told(text)

    def _answer(self, tool: tools.Tool, asked: Any) -> Document:
        if isinstance(asked, tools.Threads):
            return self._threads(asked)
        answer: Callable[[Any, History], Document] = getattr(self, f"_{tool.name}")
        try:
            self._allowed.must_have_thread(asked.thread)
            with self._source.opened() as store:
                return answer(asked, self._source.history(store, asked.line))
        except Missed as missed:
            missed = self._allowed.without_names(missed)
            fields = {**present(key=getattr(asked, "key", None)), **missed.fields}
            message = self._told(missed.message)
            document = miss_document(
                tool.schema, asked.thread, asked.namespace, missed.outcome, message, **fields
            )
            return fitted(document, self._caps, ask="Ask with shorter names.")

    def _rows(self, limit: int | None) -> int:
        return self._caps.rows if limit is None else min(limit, self._caps.rows)

    def _threads(self, asked: tools.Threads) -> Document:
        from turnstate.history.activity import span_of
        from turnstate.render.documents import thread_document

        patterns = [each for each in (self._allowed.threads, asked.pattern) if each is not None]
        rows = self._rows(asked.limit)
        most = rows + 1 if len(patterns) < 2 else None
        with self._source.opened() as store:
            found = store.threads(limit=most, pattern=patterns[0] if patterns else None)
            wanted = [row for row in found if all(fnmatchcase(row.id, each) for each in patterns[1:])]
            documents = [thread_document(row, *span_of(store, row), None) for row in wanted[:rows]]
        document = {"threads": documents, **_cut(len(wanted), rows, "first")}
        return fitted(document, self._caps, ask="Give a pattern, such as user-42*.", rows="threads")

    def _turns(self, asked: tools.Turns, history: History) -> Document:
        from turnstate.history.listing import turn_report
        from turnstate.render.documents import turns_document

        report = self._allowed.turns(history, turn_report(history))
        total = report.turns.total
        first, last = (
            end if end is None or end >= 0 else max(total + 1 + end, 0)
            for end in (asked.first_turn, asked.last_turn)
        )
        document = turns_document(report)
        document["turns"] = [
            turn
            for turn in document["turns"]
            if (first is None or turn["turn"] >= first) and (last is None or turn["turn"] <= last)
        ]
        return fitted(
            document,
            self._caps,
            ask="Give first_turn and last_turn of fewer turns.",
            rows="turns",
            keep="last",
        )

    def _keys(self, asked: tools.Keys, history: History) -> Document:
        from turnstate.history.asked import keys_asked
        from turnstate.render.documents import keys_document

        report = keys_asked(history, asked.when)
        document = keys_document(self._allowed.listed(report, asked.key))
        return fitted(document, self._caps, ask="Give key, a pattern such as gazet/*.", rows="keys")

    def _show(self, asked: tools.Show, history: History) -> Document:
        from turnstate.history.asked import looked_into, place_asked, query_asked
        from turnstate.history.keys import is_glob
        from turnstate.render.documents import readings_document, show_document

        if asked.query is not None:
            query_asked(asked.query)  # one that cannot be read is refused whatever there is to look into
        history, place = place_asked(history, asked.when)
        readings = self._readings(history, asked.key, place)
        if asked.query is not None:
            look = partial(_selected, asked.query)
            readings = [looked_into(reading, look) for reading in readings]
        turns = history.turns
        found = [
            show_document(asked.thread, asked.namespace, each, by=turns.by, total_is=turns.total_is)
            | present(query=asked.query)
            for each in readings
        ]
        if not is_glob(asked.key) or [each.key for each in readings] == [asked.key]:
            ask = "Give a query that selects less, such as [-1], [:5], length(@) or keys(@)."
            return fitted(found[0], self._caps, ask=ask)
        document = readings_document(asked.thread, asked.namespace, asked.key, found)
        return fitted(document, self._caps, ask="Ask for one key, or a narrower pattern.", rows="readings")

    def _readings(self, history: History, key: str, place: Place | Miss) -> list[Reading]:
        """What a key, or each key that a pattern matches, reads as, of those that may be shown."""
        from turnstate.history.asked import readings_asked
        from turnstate.history.keys import is_glob

        if not self._allowed.keys:
            return readings_asked(history, key, place)
        try:
            names = self._named(history, key)
        except Missed:  # why, the reading says
            names = [key]
        name = key if is_glob(key) else names[0]
        read = [self._allowed.reading(each) for each in readings_asked(history, name, place)]
        known = {key, *names}  # of a row that cannot be read, a reading does not know its channel
        shown = [
            each
            for each in read
            if (each.key in known if each.channel is None else self._allowed.named(each.channel, each.key))
        ]
        if not shown:
            raise Missed("no_such_key", "")
        return shown

    def _named(self, history: History, key: str) -> list[str]:
        """The names by which to read what a name means, where not everything may be shown."""
        if not self._allowed.keys:
            return [key]
        from turnstate.history.log import Log as Versions

        found = Versions(history)
        return [found.name(each) for each in self._allowed.asked(found, key)]

    def _log(self, asked: tools.Log, history: History) -> Document:
        from turnstate.history.asked import turns_span
        from turnstate.history.log import Log as Versions

        found = Versions(history)
        open_ended = asked.first_turn is None and asked.last_turn is None
        span = None if open_ended else turns_span(history, asked.first_turn, asked.last_turn)
        if asked.key is None:
            return self._versions(asked, found, None, span, self._caps)
        keys = self._allowed.asked(found, asked.key)
        if len(keys) == 1:
            return self._versions(asked, found, keys[0], span, self._caps)
        each = Caps(self._caps.rows, max(self._caps.bytes // len(keys), LEAST))
        document = {
            "schema": tools.TOOLS["log"].schema,
            "thread": asked.thread,
            "namespace": asked.namespace,
            "key": asked.key,
            "logs": [self._versions(asked, found, key, span, each) for key in keys[: self._caps.rows]],
            **_cut(len(keys), self._caps.rows, "first"),
        }
        return fitted(document, self._caps, ask="Ask for one key, or a narrower pattern.", rows="logs")

    def _versions(
        self, asked: tools.Log, found: Log, key: Key | None, span: Span | None, caps: Caps
    ) -> Document:
        """The versions of a key, or of all that may be shown; of too many the most recent."""
        from turnstate.history.key_log import KeyLog
        from turnstate.history.log import Logged
        from turnstate.render import log as render

        rows = self._rows(asked.limit)
        some = key is None and bool(self._allowed.keys)
        log = KeyLog(found, key, span=span, limit=None if some else rows + 1, reverse=asked.newest_first)
        values = key is not None if asked.values is None else asked.values
        shown = render.Shown(values, False, False, found.name if key is None else None)
        gaps: list[Document] = []
        versions: deque[Document] = deque(maxlen=None if asked.newest_first else rows + 1)
        for entry in log:
            if not isinstance(entry, Logged):
                gaps.append(render.gap_document(entry))
            elif asked.newest_first and len(versions) > rows:
                continue  # gaps may follow
            elif not some or self._allowed.key(entry.key):
                versions.append(lightened(render.version_document(entry, shown), caps))
        which: Which = "first" if asked.newest_first else "last"
        kept = list(versions)
        document = {
            **render.head(log),
            "versions": kept[:rows] if asked.newest_first else kept[-rows:],
            **render.tail(log, gaps),
            **_cut(len(kept), rows, which),
        }
        ask = "Give a key, first_turn and last_turn, a limit, or values false; show tells one value, with a query."
        return fitted(document, caps, ask=ask, rows="versions", keep=which)

    def _diff(self, asked: tools.Diff, history: History) -> Document:
        from turnstate.history.asked import changes_asked, ends_of_turn, ends_of_turns
        from turnstate.history.keys import is_glob
        from turnstate.render.diff import diff_document

        ends_given = asked.from_turn is not None or asked.to_turn is not None
        if ends_given and asked.turn is not None:
            raise Refused(
                "the turns cannot be looked at", "turn and from_turn or to_turn are given", "Give one kind."
            )
        if ends_given:
            old, new = ends_of_turns(history, asked.from_turn, asked.to_turn)
        else:
            old, new = ends_of_turn(history, -1 if asked.turn is None else asked.turn)
        key = asked.key
        if key is not None:
            names = self._named(history, key)
            key = key if is_glob(key) else names[0]
        report = self._allowed.changes(changes_asked(old, new, key))
        document = diff_document(report, detail="full" if asked.values else "stat")
        ask = "Give a key, a turn, or values false; show tells one value, with a query."
        return fitted(document, self._caps, ask=ask, rows="changes")

    def _gaps(self, asked: tools.Gaps, history: History) -> Document:
        from turnstate.history.gaps import gap_report
        from turnstate.render.gaps import gaps_document

        document = gaps_document(self._allowed.gaps(gap_report(history)))
        return fitted(document, self._caps, ask="Ask show or turns about the turns that matter.", rows="gaps")


def _failed(outcome: str, message: str, hint: str) -> Answer:
    return Answer({"outcome": outcome, "message": message, "try": hint}, failed=True)


def _selected(query: str, value: Any) -> Any:
    """What a model's query selects; it has an end to what it may cost.

    Raises:
        QueryError: It asks for what the value does not have.
        Refused: It was given up.
    """
    from turnstate.agent.bounded import BadExpression, TooCostly, at_path
    from turnstate.history.query import QueryError

    try:
        return at_path(query, value)
    except BadExpression as error:
        raise QueryError(str(error)) from None
    except TooCostly:
        raise Refused(
            "the query was given up", "it took too long, or too much memory", "Give a simpler one."
        ) from None


def _cut(found: int, rows: int, which: Which) -> Document:
    """That there was more than so many rows, where one more was looked for."""
    return {"cut": {"rows": {"shown": rows, "which": which}}} if found > rows else {}
