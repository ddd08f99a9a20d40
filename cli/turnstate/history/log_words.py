"""What a version did to its value, in one line, without decoding more of it than the line shows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from turnstate.history import keys as key_names
from turnstate.history.keys import Key
from turnstate.history.log import Logged
from turnstate.history.parts import are_arrays, fields, first_difference
from turnstate.history.summary import summary_of, type_of
from turnstate.history.wording import difference_in_words, equal_values, items_in_words, summary
from turnstate_backends import heads
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored

REREAD = "no write: read back in another form"
_LARGE = 4096  # bytes of a list that is not decoded for a line about it


def change_in_words(version: Logged, *, reveal: bool = False) -> str:
    """What a version did to the value, in one line that is not escaped yet."""
    if not version.reread:
        return _change_in_words(version, reveal)
    parts = (part for part in (version.before, version.now) if isinstance(part, Stored))
    types = dict.fromkeys(type_of(value_of(version.key, part)[0]) for part in parts)
    words = " → ".join(types) if len(types) > 1 else _change_in_words(version, reveal)
    return f"{words} ({REREAD})"


def _change_in_words(version: Logged, reveal: bool) -> str:
    if version.now is None:
        return "not there after the step" if version.before is None else "no longer there"
    if isinstance(version.now, Absent):
        return f"{version.now.kind}: {summary_of(version.now)}"
    if version.change == "changed" and isinstance(version.before, Stored):
        told = _appended(version, reveal) or _first_of_many(version, reveal)
        return told or _changed_in_words(version.key, version.before, version.now, reveal)
    new = value_of(version.key, version.now, reveal=reveal)[0]
    return f"{new.kind}: {summary_of(new)}" if isinstance(new, Absent) else summary(new)


def _changed_in_words(key: Key, before: Stored, now: Stored, reveal: bool) -> str:
    """The difference of two values; of two entries whose shown value is equal, of what stands beside it."""
    old, old_whole, old_is_field = value_of(key, before, reveal=True)
    new, new_whole, new_is_field = value_of(key, now, reveal=True)
    if not equal_values(old, new):
        return difference_in_words(old, new, reveal=reveal)
    beside = difference_in_words(old_whole, new_whole, reveal=reveal)
    return f"value equal, beside it {beside}" if old_is_field and new_is_field else beside


def _appended(version: Logged, reveal: bool) -> str | None:
    """What came at the end of a list that kept all it had: nothing else of it is decoded."""
    if version.key.entry is not None:
        return None
    if not isinstance(version.before, Stored) or not isinstance(version.now, Stored):
        return None
    try:
        came = heads.appended(version.before, version.now)
    except (heads.Unreadable, heads.Cut):
        return None
    return items_in_words("+", [decode(item, reveal=True) for item in came], reveal=reveal) if came else None


def _first_of_many(version: Logged, reveal: bool) -> str | None:
    """The first item that differs in a long list that has as many as before: the others are not decoded."""
    old, new = version.before, version.now
    if not isinstance(old, Stored) or not isinstance(new, Stored) or new.size < _LARGE:
        return None
    if version.key.entry is not None:
        old, new = _shown_part(old), _shown_part(new)
    try:
        if not are_arrays(old, new) or (found := first_difference(old, new)) is None:
            return None
    except (heads.Unreadable, heads.Cut):
        return None
    at, a, b = found
    words = difference_in_words(decode(a, reveal=True), decode(b, reveal=True), reveal=reveal)
    return f"{heads.length(new)} items: [{at}] {words}, …"


def _shown_part(entry: Stored) -> Stored:
    """The ``value`` field of an entry that is a mapping with one; what ``show`` shows of it."""
    try:
        if heads.class_name(entry) is None:
            return (fields(entry) or {}).get("value", entry)
    except (heads.Unreadable, heads.Cut):
        pass
    return entry


def value_of(key: Key, part: Stored, *, reveal: bool = False) -> tuple[Any, Any, bool]:
    """The value that is shown of a part, the whole part, and whether the one is only a field of the other."""
    whole = _decoded(part, reveal)
    if key.entry is None:
        return whole, whole, False
    value, is_field = key_names.shown_value(whole)
    return value, whole, is_field


@lru_cache(maxsize=3)
def _decoded(part: Stored, reveal: bool) -> Any:
    """A version's value is looked at again as the old one of the next."""
    return decode(part, reveal=reveal)
