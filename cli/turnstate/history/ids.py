"""What a checkpoint id says by itself: the time and the step, also of a row that is gone; and a channel's version.

LangGraph makes ids as UUIDv6 (RFC 9562 §5.6) whose clock sequence is the step
(``langgraph.checkpoint.base.id.uuid6(clock_seq=step)``); -1 is all ones. Python keeps 14 bits of it under
the RFC's variant bits, LangGraph.js prints ``ffff`` for -1. Ids of other kinds are accepted and say nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UUID6 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-([89abf][0-9a-f]{3})-[0-9a-f]{12}")
_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)
_CLOCK_BITS = 0x3FFF


def id_time(checkpoint: str) -> datetime | None:
    """When the id was made, in UTC to the microsecond; None when it is no UUIDv6."""
    match = _UUID6.fullmatch(checkpoint)
    if match is None:
        return None
    high, mid, low, _ = match.groups()
    ticks = int(high + mid + low, 16)  # 100 ns each
    return _GREGORIAN + timedelta(microseconds=ticks // 10)


def id_step(checkpoint: str) -> int | None:
    """The step in the id, modulo 16384 and -1 for all ones; None when it is no UUIDv6."""
    match = _UUID6.fullmatch(checkpoint)
    if match is None:
        return None
    clock = int(match[4], 16) & _CLOCK_BITS
    return -1 if clock == _CLOCK_BITS else clock


def version_number(version: str | None) -> int | None:
    """The counter in a channel's version: 12 in ``00…012.0.73…``; LangGraph.js has bare numbers, or ``2.0``."""
    digits = (version or "").partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else None
