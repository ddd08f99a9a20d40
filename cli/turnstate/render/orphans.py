"""Writes without a checkpoint as a table for a person and as JSON, written as they come."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from turnstate.history.jsonform import jsonable
from turnstate.history.orphans import OrphanedWrite
from turnstate.history.phrases import counted
from turnstate.history.summary import summary_of, type_of
from turnstate.history.times import iso
from turnstate.render.documents import Document, present
from turnstate.render.listings import id_length, moment_text
from turnstate.render.log import document_lines
from turnstate.render.screen import Screen
from turnstate.render.tables import Cell, Column, write_table
from turnstate.render.text import size
from turnstate.render.values import json_text
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent

SCHEMA = "turnstate.writes/1"


def write_orphans(screen: Screen, writes: Iterator[OrphanedWrite], ids: Collection[str]) -> None:
    """One row per write; ``ids`` are all checkpoints of the thread, kept or not."""
    length = id_length(screen, ids)
    columns = [
        Column("checkpoint", whole=True),
        Column("time", text=True),
        Column("step", right=True),
        Column("node"),
        Column("channel"),
        Column("size", right=True),
        Column("value", text=True),
    ]
    rows = [_cells(screen, write, length) for write in writes]
    if rows:
        write_table(screen, columns, rows)
        screen.note(
            f"{counted(len(rows), 'write')}; step is that of the checkpoint that was written on; "
            "--json has the values, --all what was written to LangGraph's own channels"
        )
    else:
        screen.note("no writes of the application's channels were left behind")


def _cells(screen: Screen, write: OrphanedWrite, length: int | None) -> list[Cell]:
    value = decode(write.stored)
    summary = summary_of(value)
    return [
        Cell(write.checkpoint[:length]),
        Cell(moment_text(screen, write.time)),
        Cell("" if write.step is None else str(write.step)),
        Cell(write.node or ""),
        Cell(write.channel),
        Cell(size(write.stored.size) if screen.interactive else str(write.stored.size)),
        Cell(
            f'"{summary}"' if isinstance(value, str) else summary, "red" if isinstance(value, Absent) else ""
        ),
    ]


def orphan_lines(screen: Screen, thread: str, ns: str, writes: Iterator[OrphanedWrite]) -> Iterator[str]:
    """``turnstate.writes/1``, one line per write."""
    items = ([json_text(write_fields(write), ascii_only=screen.ascii_only)] for write in writes)
    return document_lines(screen, _head(thread, ns), "writes", items, dict)


def orphan_documents(thread: str, ns: str, writes: Iterator[OrphanedWrite]) -> Iterator[Document]:
    """``turnstate.writes/1``, one document per write."""
    return ({**_head(thread, ns), **write_fields(write)} for write in writes)


def _head(thread: str, ns: str) -> Document:
    return {"schema": SCHEMA, "thread": thread, "namespace": ns}


def write_fields(write: OrphanedWrite) -> Document:
    """One write; ``step`` and ``time`` are those in the id of the ``checkpoint`` that it was written on."""
    value = decode(write.stored)
    return {
        **present(
            checkpoint=write.checkpoint,
            time=None if write.time is None else iso(write.time),
            step=write.step,
            task=write.task,
            node=write.node,
            channel=write.channel,
            type=type_of(value),
            bytes=write.stored.size,
        ),
        "value": jsonable(value),
    }
