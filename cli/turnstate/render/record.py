"""What a recording holds and what was redacted in it, as notes for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from turnstate.history.cut import Part
from turnstate.history.phrases import counted
from turnstate.render.documents import Document, present
from turnstate.render.screen import Screen
from turnstate.render.text import numbers, size
from turnstate_backends.recording import Copied
from turnstate_backends.redact import Found

SCHEMA = "turnstate.record/1"
_FEW = 12  # names that a note lists


class Recorded(Struct, frozen=True):
    """One thread of a recording.

    Attributes:
        thread: ``thread_id``.
        part: The turns that were cut out; None where all of the thread was copied.
        copied: How many rows.
    """

    thread: str
    part: Part | None
    copied: Copied


def record_document(file: str, size: int, threads: Sequence[Recorded], found: Found) -> Document:
    """``turnstate.record/1``."""
    return {
        "schema": SCHEMA,
        "file": file,
        "bytes": size,
        "threads": [
            present(
                thread=each.thread,
                checkpoints=each.copied.checkpoints,
                writes=each.copied.writes,
                turns=each.part and [each.part.first, each.part.last],
                checkpoints_before=each.part and each.part.before,
                apart=each.copied.apart or None,
            )
            for each in threads
        ],
        "redacted": [
            {"detector": detector, "key": key, "places": places}
            for (detector, key), places in sorted(found.places.items())
        ],
        "redacted_distinct": len(found.distinct),
        "names_kept": sorted(found.names),
        "matched_nothing": sorted(found.unmet),
        "encrypted": {"kept": found.sealed, "opened": found.opened},
    }


def write_record(screen: Screen, file: str, size_: int, threads: Sequence[Recorded], found: Found) -> None:
    """Everything on ``err``: the data is the file."""
    for text in _notes(file, size_, threads, found):
        screen.note(text, "")


def _notes(file: str, size_: int, threads: Sequence[Recorded], found: Found) -> Iterator[str]:
    checkpoints = sum(each.copied.checkpoints for each in threads)
    writes = sum(each.copied.writes for each in threads)
    yield (
        f"recorded {_threads(threads)} to {file} · {counted(checkpoints, 'checkpoint')} · "
        f"{counted(writes, 'write')} · {size(size_)}"
    )
    for each in threads:
        if each.part is not None:
            yield _cut(each.thread, each.part)
    yield from _redacted(found)
    if found.unmet:
        yield f"matched nothing, see whether it is spelt right: {_listed(sorted(found.unmet))}"
    if found.names:
        yield f"names that hold what was to be redacted stay: {_listed(sorted(found.names))}"
    if found.opened:
        yield f"{counted(found.opened, 'encrypted payload')} opened, redacted and stored in clear"
    if found.sealed:
        yield f"{counted(found.sealed, 'encrypted payload')} copied as they are, not looked into"
    if apart := sum(each.copied.apart for each in threads):
        yield f"{counted(apart, 'value')} that SQLite's layout cannot hold stand apart: LangGraph will not see them"


def _threads(threads: Sequence[Recorded]) -> str:
    return f"thread {threads[0].thread}" if len(threads) == 1 else counted(len(threads), "thread")


def _cut(thread: str, part: Part) -> str:
    turns = numbers(list(range(part.first, part.last + 1)))
    before = f", and {counted(part.before, 'checkpoint')} before them" if part.before else ""
    return f"{thread}: turns {turns}{before}; what else the thread had is called pruned there"


def _redacted(found: Found) -> Iterator[str]:
    if not found.places:
        yield "nothing was redacted"
        return
    by_detector: dict[str, list[str]] = {}
    for (detector, key), places in sorted(found.places.items()):
        by_detector.setdefault(detector, []).append(f"{key} ({places})")
    for what, keys in by_detector.items():
        yield f"redacted, {what}: {_listed(keys)}"
    yield f"{counted(found.places.total(), 'place')} redacted, {counted(len(found.distinct), 'different thing')}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_FEW])
    return shown if len(names) <= _FEW else f"{shown} and {len(names) - _FEW} more"
