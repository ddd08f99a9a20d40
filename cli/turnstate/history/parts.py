"""What a key held at one moment, and what became of it at the next.

Payloads are compared as they are stored and decoded only where their bytes do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from turnstate.history.wording import equal_values
from turnstate_backends import heads
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored

_SMALL = 256  # bytes of what is cut again sooner than remembered

Change = Literal["added", "changed", "same", "removed"]
Part = Stored | Absent | None
"""What a key held: a payload, why it cannot be read, or None where it was not there."""


def change_of(old: Part, new: Part) -> Change | None:
    """What happened to a value; None where that cannot be told, and where it was there neither before nor after."""
    if new is None:
        return None if old is None else "removed"
    if old is None:
        return "added"
    equal = _equal_unread(old, new)
    if equal is None and isinstance(old, Stored) and isinstance(new, Stored):
        equal = equal_parts(old, new)
    if equal is None or not (equal or (readable(old) and readable(new))):
        return None
    return "same" if equal else "changed"


def is_news(old: Part, new: Part) -> bool:
    """Whether a value that no write names is another one than before, as far as can be told."""
    if isinstance(new, Absent):
        return isinstance(old, Stored)
    if isinstance(old, Absent):
        return new is None
    return not equal_parts(old, new)


def equal_if_stored(old: Part, new: Part) -> bool:
    """Whether two values are equal, and also where one of them is none."""
    return not (isinstance(old, Stored) and isinstance(new, Stored)) or equal_parts(old, new)


def readable(part: Part) -> bool:
    """Whether a value can be decoded, as far as its first bytes tell."""
    if not isinstance(part, Stored):
        return False
    try:
        heads.class_name(part)
    except (heads.Unreadable, heads.Cut):
        return False
    return True


def equal_parts(old: Part, new: Part) -> bool:
    """Whether two parts hold equal values: the same bytes, or the same once decoded.

    Sets and mappings may be stored in another order, and a store may hold one value in two encodings. One encoder
    gives equal values equal lengths.
    """
    if old is new:
        return True
    if not isinstance(old, Stored) or not isinstance(new, Stored):
        return False
    if (old.type, old.data) == (new.type, new.data):
        return True
    if old.type == new.type == "msgpack":
        told = _equal_by_parts(old, new)
        if told is not None:
            return told
    values = decode(old, reveal=True), decode(new, reveal=True)
    return not any(isinstance(value, Absent) for value in values) and equal_values(*values)


def _equal_by_parts(old: Stored, new: Stored) -> bool | None:
    """Whether two payloads of different bytes hold equal values, by their first parts that differ; None where only
    their values tell. One encoder gives equal values equal lengths."""
    if old.size != new.size:
        return False
    try:
        if are_arrays(old, new):
            return first_difference(old, new) is None
        cut = fields if old.size > _SMALL else heads.entries
        before, now = cut(old), cut(new)
        if before is None or now is None:
            return None
        if before.keys() != now.keys():
            return False
        shortest_first = sorted(before.items(), key=lambda item: item[1].size)
        return all(equal_parts(part, now[name]) for name, part in shortest_first)
    except (heads.Unreadable, heads.Cut, ValueError):
        return None


def are_arrays(old: Stored, new: Stored) -> bool:
    """Whether both are whole msgpack arrays of as many elements. Raises as :func:`heads.length`."""
    count = heads.length(old)
    return count is not None and count == heads.length(new) and old.complete and new.complete


@lru_cache(maxsize=1)
def first_difference(old: Stored, new: Stored) -> tuple[int, Stored, Stored] | None:
    """Where two :func:`are_arrays` first differ, and the elements there; asked for again to say it in words.

    Raises:
        heads.Unreadable: One is damaged.
    """
    pairs = zip(heads.each_element(old) or (), heads.each_element(new) or (), strict=True)
    return next(((at, a, b) for at, (a, b) in enumerate(pairs) if not equal_parts(a, b)), None)


@lru_cache(maxsize=2)
def fields(stored: Stored) -> Mapping[Any, Stored] | None:
    """:func:`heads.entries`; a version's are looked at again as the old ones of the next."""
    return heads.entries(stored)


def _equal_unread(old: Stored | Absent, new: Stored | Absent) -> bool | None:
    """Whether two payloads are the same bytes; None where that cannot be told."""
    if isinstance(old, Stored) and isinstance(new, Stored):
        return True if (old.type, old.data) == (new.type, new.data) else None
    if isinstance(old, Absent) and isinstance(new, Absent):
        digests = old.stored.get("sha256"), new.stored.get("sha256")
        return True if digests[0] is not None and digests[0] == digests[1] else None
    return None
