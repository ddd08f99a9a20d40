"""Stored text made safe to print. Knows characters, not terminals.

What a terminal would act on instead of showing is written as an escape: control characters, marks that change
the direction of text or hide it, line separators other than the line feed, and lone surrogates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime

_CLASS = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"  # direction, invisible
    "\u2028\u2029"
    "\ud800-\udfff"
    "\U000e0000-\U000e007f"  # tags: text that no terminal shows
)
_HOSTILE = re.compile(f"[{_CLASS}]")
_HOSTILE_BUT_LAYOUT = re.compile(f"(?![\n\t])[{_CLASS}]")
_HOSTILE_IN_JSON = re.compile(f"(?![\n])[{_CLASS}]")  # the line feeds are the writer's own
_SHORT = {"\n": "⏎", "\t": "\\t", "\r": "\\r"}


def one_line(text: str) -> str:
    """For a cell or a message: nothing left that moves the cursor; a line feed is shown as ``⏎``."""
    return text if text.isascii() and text.isprintable() else _HOSTILE.sub(_escaped, text)


def multi_line(text: str) -> str:
    """For a value on its own: line feeds and tabs stay."""
    return _HOSTILE_BUT_LAYOUT.sub(lambda m: _code(m[0]), text)


def json_safe(text: str) -> str:
    """JSON text with the same meaning that is safe to print and to encode."""
    return text if text.isascii() and "\x7f" not in text else _HOSTILE_IN_JSON.sub(_json_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or _code(match[0])


def _code(char: str) -> str:
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _json_escaped(match: re.Match[str]) -> str:
    char = match[0]
    if char == "\x7f":
        return "\\u007f"
    return json.dumps(char)[1:-1]


def second(moment: datetime) -> str:
    """A moment for a terminal, in UTC to the second: ``2026-03-01 12:00:00Z``, as a server's log has it."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def took(seconds: float) -> str:
    """A duration: ``80ms``, ``1.2s``, ``3m20s``, ``2h05m``, ``3d4h``."""
    if seconds < 0.9995:
        return f"{round(seconds * 1000)}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def size(count: int) -> str:
    """Bytes for a person: ``512 B``, ``4.2 kB``, ``17.0 MB``; powers of 1000."""
    if count < 1000:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def spans(groups: Iterable[tuple[int, ...]]) -> str:
    """The turns of some spans, those that came in one input as one: ``1, 2–3, 4``."""
    groups = list(dict.fromkeys(groups))
    if all(len(group) == 1 for group in groups):
        return numbers([group[0] for group in groups])
    return ", ".join(f"{group[0]}–{group[-1]}" if len(group) > 1 else str(group[0]) for group in groups)


def numbers(values: tuple[int, ...] | list[int]) -> str:
    """Turn numbers, runs of three and more shortened: ``1–4, 7``."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = [f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs]
    return ", ".join(parts)
