"""What is asked over HTTP, answered from the store: each question opens it, reads one state of it, and closes it.

Bodies are the documents of :mod:`turnstate.render`. Knows statuses; knows no web framework.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http import HTTPStatus
from itertools import islice
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, cast

from msgspec import Struct

from turnstate.history.asked import When, place_asked, reading_asked, thread_asked
from turnstate.history.refusals import Missed, Refused
from turnstate.render.documents import Document, miss_document, present
from turnstate.render.screen import Screen
from turnstate.render.values import json_text
from turnstate_backends.address import SaverAddress, hide_in_urls, parse, redact
from turnstate_backends.interface import StoreError

if TYPE_CHECKING:
    from turnstate.history.changes import DiffReport
    from turnstate.history.chart import Chart
    from turnstate.history.reading import Reading
    from turnstate.history.thread import History
    from turnstate.history.turns import Turns, TurnsBy
    from turnstate_backends.interface import Store

STATUSES = {
    "value": 200,
    "no_such_thread": 404,
    "no_such_turn": 404,
    "no_such_key": 404,
    "not_yet_written": 404,
    "removed": 404,
    "turn_no_longer_retained": 410,
    "value_missing": 422,
    "encrypted": 422,
    "undecodable": 422,
    "delta_unresolved": 422,
}
"""The status of each outcome of a read."""

REFUSED = 400  # it cannot be answered as it was asked
UNREADABLE_STORE = 503

_IN_MEMORY = 1 << 20  # bytes of a body, and beyond in a file without a name
_WIDTH = 100  # columns; nothing is folded where no terminal looks


class Answer(Struct, frozen=True):
    """A status and a body: JSON text, or a file that holds it.

    Attributes:
        status: The HTTP status.
        body: What was found; problem details (RFC 9457) unless the status is 200.
        more: There was more than the limit.
    """

    status: int
    body: bytes | IO[bytes]
    more: bool = False


class Line(Struct, frozen=True):
    """Which line of a thread is meant, in the words of :func:`turnstate.history.asked.thread_asked`."""

    thread: str
    ns: str = ""
    branch: str | None = None
    turns_by: str | None = None


class Source:
    """The store that questions are put to.

    Args:
        address: As ``--store`` has it.
        schema: The PostgreSQL schema.
        messages: The channel that holds the conversation.
        secrets: What no answer shows: the address's passwords.
    """

    def __init__(
        self, address: str, *, schema: str | None = None, messages: str, secrets: frozenset[str] = frozenset()
    ) -> None:
        self._address, self._schema, self._messages, self._secrets = address, schema, messages, secrets
        # What a saver, the application's own object, allows at a time is not ours to try.
        self._turn = Lock() if isinstance(parse(address), SaverAddress) else nullcontext()

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The store, in the state it has now.

        Raises:
            StoreError: It cannot be opened.
        """
        from turnstate_backends.stores import open_store

        with self._turn, open_store(self._address, schema=self._schema) as store:
            yield store

    def history(self, store: Store, line: Line) -> History:
        """A thread of the store.

        Raises:
            Missed: It is not there.
            Refused: Several are meant.
        """
        return thread_asked(
            store,
            line.thread,
            ns=line.ns,
            branch=line.branch,
            messages=self._messages,
            turns_by=cast("TurnsBy | None", line.turns_by),
        )

    def shown(self, text: str) -> str:
        """``text`` without passwords."""
        return redact(hide_in_urls(text), self._secrets)

    # The questions.

    def threads(self, pattern: str | None, limit: int) -> Answer:
        """``turnstate.threads/1``, most recent activity first."""
        from turnstate.history.activity import span_of
        from turnstate.render.documents import thread_document

        def work() -> Answer:
            with self.opened() as store:
                rows = store.threads(limit=limit + 1, pattern=pattern)
                found = [thread_document(row, *span_of(store, row), None) for row in islice(rows, limit)]
            return Answer(HTTPStatus.OK, _encoded(found), len(rows) > limit)

        return self._answered(work, "turnstate.threads/1")

    def turns(self, line: Line) -> Answer:
        """``turnstate.turns/1``."""
        from turnstate.history.listing import turn_report
        from turnstate.render.documents import turns_document

        return self._of_thread(
            line, "turnstate.turns/1", lambda history: turns_document(turn_report(history))
        )

    def keys(self, line: Line, when: When) -> Answer:
        """``turnstate.keys/1``."""
        from turnstate.history.asked import keys_asked
        from turnstate.render.documents import keys_document

        return self._of_thread(
            line, "turnstate.keys/1", lambda history: keys_document(keys_asked(history, when))
        )

    def chart(self, line: Line) -> Answer:
        """``turnstate.chart/1`` with ``legend`` and ``notes``, as the command prints them."""
        return self._of_thread(line, "turnstate.chart/1", charted)

    def state(self, line: Line, key: str, when: When, *, text: bool) -> Answer:
        """``turnstate.show/1``; with ``text`` as ``show`` prints it."""

        def work() -> Answer:
            with self.opened() as store:
                history, place = place_asked(self.history(store, line), when)
                reading = reading_asked(history, key, place)
                document = shown_document(history, reading, text=text)
            if reading.outcome == "value":
                return Answer(HTTPStatus.OK, _encoded(document))
            return self._problem(STATUSES[reading.outcome], document)

        return self._answered(work, "turnstate.show/1", line, key=key)

    def log(
        self,
        line: Line,
        key: str | None,
        span: tuple[int | None, int | None] | None,
        *,
        limit: int,
        reverse: bool,
        values: bool | None,
    ) -> Answer:
        """``turnstate.log/1``: the most recent versions of a key or of all, so many.

        With values where one key is meant, unless ``values`` says otherwise.
        """
        from turnstate.history.asked import logged_key, turns_span
        from turnstate.history.key_log import KeyLog
        from turnstate.history.log import Log
        from turnstate.render import log as render

        def work() -> Answer:
            body = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115, whoever sends it closes it
            try:
                with self.opened() as store:
                    history = self.history(store, line)
                    found = Log(history)
                    rows = None if span is None else turns_span(history, *span)
                    which = None if key is None else logged_key(found, key)
                    log = KeyLog(found, which, span=rows, limit=limit, reverse=reverse)
                    shown = render.Shown(
                        key is not None if values is None else values,
                        False,
                        False,
                        None if which is not None else found.name,
                    )
                    for text in render.log_lines(_paper(io.StringIO(), io.StringIO()), log, shown):
                        body.write(text.encode() + b"\n")
            except BaseException:
                body.close()
                raise
            body.seek(0)
            return Answer(HTTPStatus.OK, cast("IO[bytes]", body))

        return self._answered(work, "turnstate.log/1", line, **present(key=key))

    def diff(
        self,
        line: Line,
        key: str | None,
        turn: int | None,
        ends: tuple[int | None, int | None] | None,
        *,
        text: bool,
    ) -> Answer:
        """``turnstate.diff/1`` of what a turn changed, by default the last, or of the ends of two; with ``text`` as
        ``diff`` prints it."""
        from turnstate.history.asked import changes_asked, ends_of_turn, ends_of_turns
        from turnstate.render.diff import diff_document

        def document(history: History) -> Document:
            both = (
                ends_of_turns(history, *ends) if ends else ends_of_turn(history, -1 if turn is None else turn)
            )
            report = changes_asked(*both, key)
            return diff_document(report, detail="full") | (diff_text(report) if text else {})

        return self._of_thread(line, "turnstate.diff/1", document, **present(key=key))

    def gaps(self, line: Line) -> Answer:
        """``turnstate.gaps/1``."""
        from turnstate.history.gaps import gap_report
        from turnstate.render.gaps import gaps_document

        return self._of_thread(line, "turnstate.gaps/1", lambda history: gaps_document(gap_report(history)))

    # What they share.

    def _of_thread(
        self, line: Line, schema: str, document: Callable[[History], Document], **fields: object
    ) -> Answer:
        def work() -> Answer:
            with self.opened() as store:
                found = document(self.history(store, line))
            return Answer(HTTPStatus.OK, _encoded(found))

        return self._answered(work, schema, line, **fields)

    def _answered(
        self, work: Callable[[], Answer], schema: str, line: Line | None = None, **fields: object
    ) -> Answer:
        """What is found, or why nothing is."""
        try:
            return work()
        except Missed as missed:
            thread, ns = ("", "") if line is None else (line.thread, line.ns)
            more = {**fields, **missed.fields}
            document = miss_document(schema, thread, ns, missed.outcome, missed.message, **more)
            return self._problem(STATUSES[missed.outcome], document)
        except (Refused, StoreError) as error:
            status = REFUSED if isinstance(error, Refused) else UNREADABLE_STORE
            return self._problem(status, {"message": f"{error.what}: {error.why}", "hint": error.hint})

    def _problem(self, status: int, document: Document) -> Answer:
        """Problem details with the fields of a document: ``detail`` and ``message`` are the outcome in words."""
        message = self.shown(str(document.get("message", "")))
        hint = {"hint": self.shown(document["hint"])} if "hint" in document else {}
        told = {**document, **hint, **({"message": message} if message else {})}
        return Answer(status, _encoded(problem(status, **told)))


def problem(status: int, **fields: Any) -> Document:
    """Problem details as RFC 9457 has them.

    ``type`` names the outcome where there is one; ``turns_so_far`` is the thread's number of turns.
    """
    outcome = fields.get("outcome")
    return (
        present(
            type=f"urn:turnstate:outcome:{outcome}" if outcome else "about:blank",
            title=(outcome or HTTPStatus(status).phrase).replace("_", " "),
            status=status,
            detail=fields.get("message"),
            turns_so_far=fields.get("total_turns"),
        )
        | fields
    )


def _encoded(document: Any) -> bytes:
    return json_text(document).encode()


def _paper(out: io.StringIO, err: io.StringIO) -> Screen:
    """A screen that nobody looks at: nothing is folded, cut or coloured."""
    return Screen(out, err, interactive=False, color=False, err_color=False, width=_WIDTH)


def printed(write: Callable[[Screen], object]) -> Document:
    """What a command prints: ``text`` is its data, ``notes`` what it says of them, line by line."""
    out, err = io.StringIO(), io.StringIO()
    write(_paper(out, err))
    return {"text": out.getvalue().removesuffix("\n"), "notes": err.getvalue().splitlines()}


def reading_text(reading: Reading, turns: Turns) -> Document:
    """A reading as ``show`` prints it."""
    from turnstate.render.reading import write_reading

    return printed(lambda screen: write_reading(screen, reading, turns, titled=False))


def shown_document(history: History, reading: Reading, *, text: bool) -> Document:
    """``turnstate.show/1``; with ``text`` and ``notes`` as the command prints them."""
    from turnstate.render.documents import show_document

    turns = history.turns
    document = show_document(history.thread, history.ns, reading, by=turns.by, total_is=turns.total_is)
    return document | (reading_text(reading, turns) if text else {})


def diff_text(report: DiffReport) -> Document:
    """A comparison as ``diff`` prints it."""
    from turnstate.render.diff import write_diff

    return printed(lambda screen: write_diff(screen, report, context=None, side_by_side=False))


def charted(history: History) -> Document:
    """``turnstate.chart/1`` of a thread, with what the page needs besides."""
    from turnstate.history.chart import chart_of
    from turnstate.history.log import Log

    return chart_fields(history, chart_of(Log(history)))


def chart_fields(history: History, chart: Chart) -> Document:
    """``turnstate.chart/1``; ``legend`` are its signs, ``notes`` what must not be left unsaid of the thread."""
    from turnstate.history.gaps import gap_report
    from turnstate.history.listing import turn_report
    from turnstate.render.chart import chart_document, legend_fields
    from turnstate.render.gaps import gap_notes
    from turnstate.render.listings import line_notes

    notes = [*gap_notes(gap_report(history)), *line_notes(turn_report(history))]
    return {**chart_document(chart), "legend": legend_fields(chart), "notes": notes}
