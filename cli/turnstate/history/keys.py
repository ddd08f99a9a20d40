"""Keys: what a user names. A channel, or one entry of a channel that is a mapping.

Pure functions over payload heads and decoded state. An entry that is itself a mapping with a ``value`` field
is shown by that field.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from turnstate_backends import heads
from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored, Tagged


class Key(Struct, frozen=True):
    """A channel (``entry`` None) or an entry of a mapping channel.

    Attributes:
        channel: The channel's name as stored.
        entry: The entry's name as :func:`entry_name` gives it.
    """

    channel: str
    entry: str | None = None

    @property
    def name(self) -> str:
        """How the key is addressed where nothing else has the same name."""
        return self.channel if self.entry is None else self.entry

    @property
    def full_name(self) -> str:
        """``channel:entry``; the channel alone for a channel."""
        return self.channel if self.entry is None else f"{self.channel}:{self.entry}"


class AmbiguousKey(Exception):
    """Several mapping channels have an entry of that name; ``names`` are the addresses that tell them apart."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = tuple(names)


def entry_name(name: Any) -> str:
    """How an entry is addressed: a text by itself, another name with its type, ``int(1)``, as ``"1"`` may exist too."""
    return name if isinstance(name, str) else f"{type(name).__name__}({name!r})"


def entries_of(stored: Stored | Absent) -> tuple[str, ...]:
    """Names of the entries of a mapping payload; empty for everything else.

    Raises:
        heads.Cut: Only a head of the payload was read, and the names go on behind it.
    """
    if isinstance(stored, Absent):
        return ()
    try:
        if heads.class_name(stored) is not None:
            return ()
        found = heads.keys(stored)
    except heads.Unreadable:
        return ()
    return tuple(entry_name(name) for name in found or ())


def is_empty_mapping(part: Stored | Absent | None) -> bool:
    """Whether a payload is a mapping without entries."""
    return isinstance(part, Stored) and part.size <= 2 and decode(part) == {}


def named_entries(write: Stored) -> tuple[str, ...]:
    """Names of the entries that a write names; those inside an ``Overwrite`` where it is one.

    Raises:
        heads.Cut: Only a head of the payload was read, and the names go on behind it.
    """
    try:
        name = heads.class_name(write)
        found = heads.keys(write) if name is None else None
    except heads.Unreadable:
        return ()
    if found != ["__overwrite__"] and name != "langgraph.types.Overwrite":
        return tuple(map(entry_name, found or ()))
    if not write.complete:
        raise heads.Cut
    value = decode(write)
    fields = value.value if isinstance(value, Tagged) else value
    inner = fields.get("value", fields.get("__overwrite__")) if isinstance(fields, Mapping) else None
    return tuple(entry_name(name) for name in inner) if isinstance(inner, Mapping) else ()


def all_keys(
    channels: Mapping[str, Stored | Absent], hidden: Callable[[str], bool] | None = None
) -> list[Key]:
    """The keys of one state: each channel but the hidden ones, a mapping by its entries, in stored order."""
    found: list[Key] = []
    for channel, stored in channels.items():
        if hidden is not None and hidden(channel):
            continue
        names = entries_of(stored)
        found += [Key(channel, name) for name in names] or [Key(channel)]
    return found


def parts(channel: str, stored: Stored | Absent) -> Iterator[tuple[Key, Stored | Absent]]:
    """A mapping by its entries, each with a payload of its own; anything else whole."""
    if isinstance(stored, Absent) or not entries_of(stored):
        yield Key(channel), stored
        return
    try:
        for name, part in (heads.entries(stored) or {}).items():
            yield Key(channel, entry_name(name)), part
    except (heads.Cut, heads.Unreadable):
        yield Key(channel), stored


def display_names(keys: Iterable[Key]) -> dict[Key, str]:
    """The shortest unambiguous address of each key."""
    keys = list(keys)
    counts: dict[str, int] = {}
    for key in keys:
        counts[key.name] = counts.get(key.name, 0) + 1
    channels = {key.channel for key in keys}
    return {
        key: key.full_name
        if key.entry is not None and (counts[key.name] > 1 or key.name in channels)
        else key.name
        for key in keys
    }


def find(name: str, keys: Iterable[Key]) -> Key | None:
    """The key that a user means: a channel, else an entry, else ``channel:entry``.

    Args:
        name: As typed.
        keys: Every key that the thread is known to have had.

    Raises:
        AmbiguousKey: Two channels have an entry of that name.
    """
    known = set(keys)
    channels = {key.channel for key in known}
    if name in channels:
        return Key(name)
    entries = sorted((key for key in known if key.entry == name), key=lambda key: key.channel)
    if not entries:  # ``1`` for ``int(1)``
        short = [key for key in known if key.entry is not None and key.entry.endswith(f"({name})")]
        entries = sorted(short, key=lambda key: key.full_name)
    if len(entries) > 1:
        raise AmbiguousKey([key.full_name for key in entries])
    if entries:
        return entries[0]
    # ``a:b:c`` can be read in two ways where a name has a colon itself: the shorter channel wins.
    spelled = [key for key in known if key.entry is not None and key.full_name == name]
    return min(spelled, key=lambda key: key.channel, default=None)


def is_glob(name: str) -> bool:
    """Whether the name asks for several keys."""
    return any(c in name for c in "*?[")


def matching(pattern: str, keys: Iterable[Key]) -> list[Key]:
    """The keys whose name or full name matches a shell-style pattern, case-sensitive."""
    return [
        key
        for key in keys
        if fnmatch.fnmatchcase(key.name, pattern) or fnmatch.fnmatchcase(key.full_name, pattern)
    ]


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names most like ``name``, by similarity, for a hint after a miss."""
    import difflib

    plain = str.maketrans("/.", "::")  # an address is guessed with any separator
    wanted = name.lower().translate(plain)
    pool = {n.lower().translate(plain): n for n in sorted(set(names))}
    if not pool:
        return []
    close = difflib.get_close_matches(wanted, list(pool), n=count, cutoff=0.5)
    inside = [found for found in pool if wanted and wanted in found]
    return list(dict.fromkeys(pool[found] for found in [*close, *inside]))[:count]


def entry_of(value: Any, entry: str) -> tuple[bool, Any]:
    """Whether a decoded mapping has the entry, and its value."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if entry_name(name) == entry:
                return True, item
    return False, None


def shown_value(item: Any) -> tuple[Any, bool]:
    """What is shown of an entry: its ``value`` field where it is a mapping that has one; and whether it was."""
    if isinstance(item, Mapping) and "value" in item:
        return item["value"], True
    return item, False
