"""Where in a TOML text each name and value stands, which the standard library's parser does not tell.

Follows TOML 1.0 (https://toml.io/en/v1.0.0) for a text that a parser has accepted, so nothing here looks for mistakes.
"""

from __future__ import annotations

import re
import tomllib

from msgspec import Struct

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:\\[\s\S]|[^\\])*?"""(?:"{1,2})?'
    r"|'''[\s\S]*?'''(?:'{1,2})?"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
)
_BARE_NAME = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+")


class Spot(Struct, frozen=True):
    """Where something stands.

    Attributes:
        line: Of its name, from 1; of an item of an array, that of the item itself.
        column: The same, in characters from 1.
        start: Offset of the value's text.
        stop: Offset behind it; the same where the value stands in several places, under a header or dotted names.
    """

    line: int
    column: int
    start: int
    stop: int


def spots_in(text: str) -> dict[Path, Spot]:
    """The spot of every name, table and item, by the path under which ``tomllib`` gives its value.

    Args:
        text: What ``tomllib.loads`` accepts.
    """
    return _Scan(text).spots


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._arrays: dict[Path, int] = {}
        self.spots: dict[Path, Spot] = {}
        table: Path = ()
        while self._skip(_BLANK) < len(text):
            if text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._at

    def _header(self) -> Path:
        start = self._at
        is_array = self._text.startswith("[[", start)
        self._at += 2 if is_array else 1
        names = self._names()
        self._at += 2 if is_array else 1
        here: Path = ()
        for name in names[:-1]:
            here = self._inside((*here, name))
            self._note(here, start)  # a table that only this implies
        here = (*here, names[-1])
        if is_array:
            self._arrays[here] = self._arrays.get(here, -1) + 1
            self._note(here, start)
        here = self._inside(here)
        self._note(here, start)
        return here

    def _inside(self, path: Path) -> Path:
        """A path, or its latest item where it is an array of tables."""
        return (*path, self._arrays[path]) if path in self._arrays else path

    def _names(self) -> list[str]:
        """A key, ``a."b c".d``; stops in front of what follows it."""
        names = []
        while True:
            self._skip(_SPACE)
            start = self._at
            if self._text[start] in "\"'":
                self._skip(_STRING)
                names.append(str(tomllib.loads(f"k = {self._text[start : self._at]}")["k"]))
            else:
                self._skip(_BARE_NAME)
                names.append(self._text[start : self._at])
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _pair(self, table: Path) -> None:
        named_at = self._at
        names = self._names()
        self._at += 1
        self._skip(_SPACE)
        path = table
        for name in names[:-1]:
            path = (*path, name)
            self._note(path, named_at)
        self._value((*path, names[-1]), named_at)

    def _value(self, path: Path, named_at: int) -> None:
        start = self._at
        opening = self._text[start]
        if opening in "[{":
            self._at += 1
            number = 0
            while self._text[self._skip(_BLANK)] not in "]}":
                if opening == "[":
                    self._value((*path, number), self._at)
                    number += 1
                else:
                    self._pair(path)
                if self._text[self._skip(_BLANK)] == ",":
                    self._at += 1
            self._at += 1
        else:
            self._skip(_STRING if opening in "\"'" else _BARE_VALUE)
        self._note(path, named_at, start)

    def _note(self, path: Path, named_at: int, start: int | None = None) -> None:
        start = self._at if start is None else start
        self.spots.setdefault(path, Spot(*line_and_column(self._text, named_at), start, self._at))
