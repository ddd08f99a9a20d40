"""Small parts of messages: a count with its noun, a text cut to a length."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``1 turn``, ``3 turns``."""
    ending = "es" if noun.endswith(("ch", "s")) else "s"
    return f"{number} {noun}{'' if number == 1 else ending}"


def clip(text: str, length: int) -> str:
    """At most ``length`` characters, with ``…`` where some were left out."""
    return text if len(text) <= length else text[: length - 1] + "…"
