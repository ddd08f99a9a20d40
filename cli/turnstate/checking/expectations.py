"""A file of expectations, read: each one with its kind and its line, or everything that is wrong with the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from turnstate.checking.spots import Path, Spot, line_and_column, spots_in
from turnstate.checking.vocabulary import KINDS, Kind, KindName, Term, kind_named, kind_of
from turnstate.history.keys import nearest

TOP: Mapping[str, str] = {
    "store": "The address of the store; a relative path begins at the file's folder.",
    "expect": "The expectations, one table each.",
}
"""What may stand outside of an expectation, and what it is."""

_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


class Expectation(Struct, frozen=True):
    """One ``[[expect]]`` table.

    Attributes:
        kind: What it is about.
        table: Its names, as :mod:`turnstate.checking.vocabulary` has them.
        file: The file, as it was named.
        line: Where the table begins.
        index: Its position among those of the file.
    """

    kind: KindName
    table: Mapping[str, Any]
    file: str
    line: int
    index: int

    @property
    def thread(self) -> str:
        return str(self.table["thread"])

    @property
    def conditions(self) -> Mapping[str, Any]:
        """What is expected, by name, in the order of the file."""
        names = kind_named(self.kind).conditions
        return {name: value for name, value in self.table.items() if name in names}

    @property
    def name(self) -> str:
        """Its own name; else what it is about and the names of its conditions."""
        given = self.table.get("name")
        return str(given) if given else f"{self.about}: {', '.join(self.conditions)}"

    @property
    def about(self) -> str:
        """Which thread, key and turn."""
        parts = [self.thread]
        if self.table.get("ns"):
            parts.append(str(self.table["ns"]))
        if self.kind == "value":
            parts.append(str(self.table["key"]))
        if self.kind == "change":
            parts.append("turns {}..{}".format(*self.table["between"]))
        elif "turn" in self.table:
            parts.append(f"turn {self.table['turn']}")
        if self.table.get("at_start"):
            parts.append("at its start")
        return " ".join(parts)


class ExpectationFile(Struct, frozen=True):
    """One file.

    Attributes:
        path: As it was named.
        text: As it was read.
        store: The address that it names, as it stands there.
        expectations: In the order of the file.
        spots: Where each name and value stands.
    """

    path: str
    text: str
    store: str | None
    expectations: tuple[Expectation, ...]
    spots: Mapping[Path, Spot]


class Problem(Struct, frozen=True):
    """Something wrong with a file.

    Attributes:
        file: As it was named.
        line: From 1.
        column: From 1.
        what: In one line.
        hint: What to do, in one line.
    """

    file: str
    line: int
    column: int
    what: str
    hint: str


class FileFlawed(Exception):
    """A file cannot be taken for expectations; ``problems`` are all that were found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems[0].what)
        self.problems = problems


def parse_file(path: str, data: bytes) -> ExpectationFile:
    """The expectations of a file.

    Args:
        path: How to call it.
        data: Its content.

    Raises:
        FileFlawed: It is no TOML, or says what no expectation can say.
    """
    text, top = _parsed(path, data)
    spots = spots_in(text)
    problems = [Problem(path, spots[at].line, spots[at].column, what, hint) for at, what, hint in _flaws(top)]
    if problems:
        raise FileFlawed(sorted(problems, key=lambda problem: (problem.line, problem.column)))
    expectations = tuple(
        Expectation(kind_of(table).name, table, path, spots["expect", i].line, i)
        for i, table in enumerate(top.get("expect", []))
    )
    return ExpectationFile(path, text, top.get("store"), expectations, spots)


def _parsed(path: str, data: bytes) -> tuple[str, dict[str, Any]]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line, column = line_and_column(data[: error.start].decode(), error.start)
        hint = "Save the file as UTF-8."
        raise FileFlawed([Problem(path, line, column, "the file is no UTF-8", hint)]) from None
    if text.startswith("\ufeff"):
        what, hint = "the file begins with a byte order mark", "Save it as UTF-8 without one; TOML has none."
        raise FileFlawed([Problem(path, 1, 1, what, hint)])
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _AT.fullmatch(str(error))
        what = match[1] if match else str(error)
        line, column = line_and_column(text, len(text))
        if match and match[2]:
            line, column = int(match[2]), int(match[3])
        hint = "See https://toml.io for how TOML is written."
    except RecursionError:
        (line, column), what, hint = (1, 1), "values are nested too deeply", "Expect less of one value."
    raise FileFlawed([Problem(path, line, column, f"no TOML: {what}", hint)])


def _flaws(top: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Where something is wrong, what, and what to do."""
    for name in top.keys() - TOP.keys():
        yield (name,), f"unknown name {name!r}", _meant(name, list(TOP), "a file has")
    if "store" in top and type(top["store"]) is not str:
        yield ("store",), "store is no text", 'Write store = "agent.db".'
    tables = top.get("expect", [])
    if type(tables) is not list or any(type(table) is not dict for table in tables):
        yield ("expect",), "expect is no array of tables", "Begin each expectation with [[expect]]."
        return
    for i, table in enumerate(tables):
        for within, what, hint in _table_flaws(table):
            yield ("expect", i, *within), what, hint


def _table_flaws(table: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    kind = kind_of(table)
    for name, value in table.items():
        term = kind.all_terms.get(name)
        if term is None:
            yield (name,), *_unknown(name, kind)
        elif (flaw := term.form.flaw(value)) is not None:
            yield (name,), *_wrong_value(term, value, flaw)
        elif term.beside and not any(other in table for other in term.beside):
            yield (name,), f"{name} stands alone", f"It goes with {' or '.join(term.beside)}."
    slips = [name for name in table if _is_slip(name, kind)]
    if "thread" not in table and not any(nearest(name, kind.all_terms, 1) == ["thread"] for name in slips):
        yield (), "no thread is named", 'Write thread = "ID".'
    if not any(name in table for name in kind.conditions) and not slips:
        hint = f"Of {kind.words} it can be: {', '.join(kind.conditions)}."
        yield (), "nothing is expected", hint


def _wrong_value(term: Term, value: Any, flaw: str) -> tuple[str, str]:
    what = f"{term.name}: {flaw}" if flaw else f"{term.name} is not {term.form.words}"
    if flaw and term.form.choices:
        return what, _meant(str(value), term.form.choices, "there is")
    return what, f"Give {term.form.words}: {term.about}."


def _is_slip(name: str, kind: Kind) -> bool:
    """Whether a name is told to be wrong anyway."""
    return name not in kind.all_terms


def _unknown(name: str, kind: Kind) -> tuple[str, str]:
    elsewhere = [other for other in KINDS if name in other.all_terms]
    if not elsewhere:
        return f"unknown name {name!r}", _meant(
            name, list(kind.all_terms), f"an expectation of {kind.words} has"
        )
    homes = " or ".join(
        f"{other.words} ({other.subject} = …)" if other.subject else other.words for other in elsewhere
    )
    made_by = f", as it has {kind.subject}" if kind.subject else ""
    return (
        f"{name} is nothing to expect of {kind.words}",
        f"It belongs to {homes}; this table is about {kind.words}{made_by}.",
    )


def _meant(name: str, names: Collection[str], who: str) -> str:
    near = nearest(name, names, 1)
    return f"Did you mean {near[0]}?" if near else f"What {who}: {', '.join(names)}."
