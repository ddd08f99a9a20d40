"""JSON documents: reports as the fields that programs rely on.

Field names are fixed by their ``schema``; more may be added. What is not known is left out and never null: a null
is a stored null. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from turnstate.history.jsonform import jsonable
from turnstate.history.times import iso
from turnstate.render.screen import Screen
from turnstate.render.values import json_text, value_text

if TYPE_CHECKING:  # reports are handed in; a command that prints another kind need not load them
    from turnstate.history.listing import KeyReport, KeyRow, Stop, TurnReport, TurnRow
    from turnstate.history.reading import Reading
    from turnstate.history.sealing import Sealing
    from turnstate.history.versions import Written
    from turnstate_backends.interface import ThreadRow

Document = dict[str, Any]


def write_json(screen: Screen, document: Any) -> None:
    """One document: over several lines for a person, on one line for a program."""
    if screen.interactive and not screen.ascii_only:
        screen.data(value_text(document))  # of JSON's own types this is JSON
    else:
        screen.data(json_text(document, ascii_only=screen.ascii_only))


def write_jsonl(screen: Screen, documents: Iterable[Document]) -> None:
    """One line per document."""
    for document in documents:
        screen.data(json_text(document, ascii_only=screen.ascii_only))


def present(**fields: Any) -> Document:
    """The fields that are known."""
    return {name: value for name, value in fields.items() if value is not None}


def thread_document(
    row: ThreadRow, first: datetime | None, last: datetime | None, turns: tuple[int, str] | None
) -> Document:
    """``turnstate.threads/1``; ``turns`` is the total and how sure it is, where they were counted."""
    return present(
        schema="turnstate.threads/1",
        thread=row.id,
        checkpoints=row.checkpoints,
        namespaces=list(row.namespaces),
        first=_time(first),
        last=_time(last),
        head=row.head,
        first_checkpoint=row.first,
        last_checkpoint=row.last,
        turns=turns[0] if turns else None,
        total_is=turns[1] if turns else None,
    )


def turns_document(report: TurnReport) -> Document:
    """``turnstate.turns/1``."""
    return {
        **_turns_head(report),
        "tip": report.tip,
        "turns": [turn_fields(row) for row in report.rows],
        "asides": [
            present(
                turns=list(row.turns),
                checkpoint=row.checkpoint,
                why=row.aside.why,
                node=row.aside.by,
                text=row.aside.text,
            )
            for row in report.asides
        ],
        "branches": [branch.tip for branch in report.branches],
        "skewed": list(report.skewed),
        **present(encryption=_encryption(report.sealing), shared_channels=list(report.shared) or None),
    }


def _encryption(sealing: Sealing | None) -> Document | None:
    """What of a thread is encrypted, and what stands in clear beside it; ``reason``: why it cannot be read."""
    if sealing is None:
        return None
    return present(
        checkpoints=sealing.checkpoints,
        writes=sealing.writes,
        plain_checkpoints=list(sealing.plain_checkpoints),
        plain_writes=sealing.plain_writes,
        plain_turns=list(sealing.plain_turns),
        reason=sealing.why,
    )


def turns_lines(report: TurnReport) -> list[Document]:
    """``turnstate.turns/1``, one document per turn."""
    return [{**_turns_head(report), **turn_fields(row)} for row in report.rows]


def _turns_head(report: TurnReport) -> Document:
    return {
        "schema": "turnstate.turns/1",
        "thread": report.thread,
        "namespace": report.ns,
        "head": report.head,
        "turns_by": report.turns.by,
        "total": report.turns.total,
        "total_is": report.turns.total_is,
    }


def turn_fields(row: TurnRow) -> Document:
    """One turn of ``turnstate.turns/1``.

    ``read_from_next_input``: its own rows are gone, its end can be read. ``thinned``: its end is kept, and steps of it
    are gone; then, and of a turn whose end is gone, ``keys_written`` are ``at_least`` those.
    """
    turn = row.turn
    known = bool(row.keys_written) or not row.may_have_written_more
    return present(
        turn=turn.number,
        question=turn.question,
        retained=turn.retained,
        status=turn.status,
        first_checkpoint=row.first_checkpoint,
        last_checkpoint=row.last_checkpoint,
        started=_time(row.started),
        ended=_time(row.ended),
        checkpoints=row.checkpoints,
        keys_written=None if row.turn.first is None or not known else list(row.keys_written),
        keys_written_is="at_least" if row.may_have_written_more and row.keys_written else None,
        asked_with=list(turn.asked_with) or None,
        edited=turn.edited or None,
        read_from_next_input=turn.borrowed or None,
        errors=[_stop_fields(stop) for stop in row.stops if stop.kind == "error"] or None,
        interrupts=[_stop_fields(stop) for stop in row.stops if stop.kind == "interrupt"] or None,
        thinned=row.thinned or None,
    )


def _stop_fields(stop: Stop) -> Document:
    return {**present(node=stop.node, id=stop.id), "value": jsonable(stop.value)}


def keys_document(report: KeyReport) -> Document:
    """``turnstate.keys/1``."""
    return {**_keys_head(report), "keys": [key_fields(row) for row in report.rows]}


def keys_lines(report: KeyReport) -> list[Document]:
    """``turnstate.keys/1``, one document per key."""
    return [{**_keys_head(report), **key_fields(row)} for row in report.rows]


def _keys_head(report: KeyReport) -> Document:
    return present(
        schema="turnstate.keys/1",
        thread=report.thread,
        namespace=report.ns,
        turn=report.turn,
        checkpoint=report.checkpoint,
        turns_by=report.turns.by,
        total_turns=report.turns.total,
        total_is=report.turns.total_is,
    )


def key_fields(row: KeyRow) -> Document:
    """One key of ``turnstate.keys/1``."""
    return present(
        key=row.name,
        channel=row.key.channel,
        entry_name=row.key.entry,
        type=row.type,
        bytes=row.size,
        summary=row.summary,
        absence=row.absence,
        turns_written=list(row.turns_written),
        earlier_unknown=row.earlier_unknown or None,
        last_written=_written(row.written),
        plain=row.plain or None,
    )


def show_document(
    thread: str, ns: str, reading: Reading, *, by: str | None, total_is: str | None
) -> Document:
    """``turnstate.show/1`` of one key."""
    document = present(
        schema="turnstate.show/1",
        thread=thread,
        namespace=ns,
        key=reading.key,
        channel=reading.channel,
        turn=reading.turn,
        at_start=reading.at_start or None,
        outcome=reading.outcome,
    )
    if reading.outcome == "value":
        document["value"] = jsonable(reading.value)
    if reading.has_entry:
        document["entry"] = jsonable(reading.entry)
    return document | present(
        checkpoint=reading.checkpoint,
        borrowed=reading.borrowed or None,
        written=_written(reading.written),
        turns_written=list(reading.turns_written) if reading.channel is not None else None,
        earlier_unknown=reading.earlier_unknown or None,
        total_turns=reading.total,
        total_is=total_is,
        turns_by=by,
        retained_turns=list(reading.retained) if reading.total is not None else None,
        stored=jsonable(dict(reading.stored)) if reading.stored else None,
        message=reading.message or None,
        plain=reading.plain or None,
        shared_with=list(reading.shared_with) or None,
        nearest=list(reading.nearest) or None,
    )


def readings_document(thread: str, ns: str, pattern: str, documents: Sequence[Document]) -> Document:
    """``turnstate.show/1`` of a pattern: what the readings have in common, and ``readings``, one per key."""
    common = ("outcome", "turn", "checkpoint", "total_turns", "total_is", "turns_by", "retained_turns")
    first: Mapping[str, Any] = documents[0]
    return {
        "schema": "turnstate.show/1",
        "thread": thread,
        "namespace": ns,
        "key": pattern,
        **{n: first[n] for n in common if n in first and all(d.get(n) == first[n] for d in documents)},
        "readings": list(documents),
    }


def miss_document(schema: str, thread: str, ns: str, outcome: str, message: str, **more: Any) -> Document:
    """Any report's document where there is nothing to report on."""
    return present(schema=schema, thread=thread, namespace=ns, outcome=outcome, message=message, **more)


def _written(written: Written | None) -> Document | None:
    if written is None:
        return None
    if not written.turns:  # neither the row nor its time are those of the write
        return {"lost": True, "held_since": written.checkpoint}
    return present(
        turn=written.turns[-1] if written.turns else None,
        turns=list(written.turns) if len(written.turns) > 1 else None,
        checkpoint=written.checkpoint,
        node=written.node,
        time=_time(written.time),
        inferred=written.inferred or None,
    )


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)
