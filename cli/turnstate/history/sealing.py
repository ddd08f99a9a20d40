"""How far a thread is encrypted, and which of its rows stand in clear though others do not."""

from __future__ import annotations

from msgspec import Struct

from turnstate.history.thread import History
from turnstate_backends.interface import Write
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored

_WITHOUT_CONTENT = ("null", "empty")


class Sealing(Struct, frozen=True):
    """What is encrypted of a thread that is so at least in part.

    Attributes:
        checkpoints: Checkpoint rows that are; 0 where a store encrypts values and not rows.
        writes: Write rows that are.
        plain_checkpoints: Ids of the others, in id order; empty where a store encrypts no rows.
        plain_writes: How many write rows are not, of those with content.
        plain_turns: The turns of the line that those rows belong to.
        why: Why what is encrypted cannot be read; None where the key opens it.
    """

    checkpoints: int
    writes: int
    plain_checkpoints: tuple[str, ...]
    plain_writes: int
    plain_turns: tuple[int, ...]
    why: str | None


def sealing_of(history: History) -> Sealing | None:
    """How far the thread is encrypted; None where nothing of it is. Branches count, turns are the line's."""
    rows = history.forest.rows.values()
    writes = [write for found in history.writes.values() for write in found]
    sealed_rows = sum(row.encrypted for row in rows)
    sealed_writes = sum(write.value.encrypted for write in writes)
    if not sealed_rows and not sealed_writes:
        return None
    plain = sorted(row.id for row in rows if not row.encrypted) if sealed_rows else []
    return Sealing(
        sealed_rows,
        sealed_writes,
        tuple(plain),
        sum(map(_is_plain, writes)),
        _turns(history, frozenset(plain)),
        why_unread(history),
    )


def is_encrypted(history: History) -> bool:
    """Whether anything of the thread is encrypted."""
    if any(row.encrypted for row in history.forest.rows.values()):
        return True
    return any(write.value.encrypted for found in history.writes.values() for write in found)


def _is_plain(write: Write) -> bool:
    return not write.value.encrypted and write.value.type not in _WITHOUT_CONTENT


def _turns(history: History, plain: frozenset[str]) -> tuple[int, ...]:
    found: set[int] = set()
    for i, row in enumerate(history.line.rows):
        if row.id in plain or any(map(_is_plain, history.steps[i].writes or ())):
            found.update(history.turns.at_row(i))
    return tuple(sorted(found))


def why_unread(history: History) -> str | None:
    """Why the latest of what is encrypted cannot be read: a row, or a write where the rows are not encrypted.

    None where it can be read. Something of the thread must be encrypted.
    """
    rows = [row.id for row in history.forest.rows.values() if row.encrypted]
    if rows:
        values = list(history.values(max(rows)).values())
    else:
        sealed = max(id for id, found in history.writes.items() if any(w.value.encrypted for w in found))
        found = history.store.writes(history.thread, history.ns, checkpoints=[sealed], head=None)
        values = [write.value for write in found if write.value.encrypted]
    decoded = [decode(value) if isinstance(value, Stored) else value for value in values]
    absences = [value for value in decoded if isinstance(value, Absent) and value.kind == "encrypted"]
    return absences[0].stored["reason"] if absences else None
