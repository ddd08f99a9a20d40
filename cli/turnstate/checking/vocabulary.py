"""The words of an expectation: every name that an ``[[expect]]`` table may hold, and what it may hold there.

This is the one place that knows them. What reads a file, the JSON Schema for editors and the documentation follow
from :data:`KINDS`. Nothing here knows a store or a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from turnstate.history.query import QueryError, compiled
from turnstate.history.reading import Outcome
from turnstate.history.turns import Status, TurnsBy

KindName = Literal["value", "change", "turn", "thread"]


class Form(Struct, frozen=True):
    """What may stand behind a name.

    Attributes:
        words: In words.
        schema: As JSON Schema.
        flaw: What is wrong with a value, or None; a value that is no such thing at all is ``""``.
        choices: All that may stand there, where that is a few words.
    """

    words: str
    schema: Mapping[str, Any]
    flaw: Callable[[Any], str | None]
    choices: tuple[str, ...] = ()


class Term(Struct, frozen=True):
    """One name.

    Attributes:
        name: As it stands in the file.
        form: What may stand behind it.
        about: What it means, as the end of a sentence.
        condition: Whether it expects something; the others say where to look.
        one_answer: Whether a store has exactly one value that would hold, so that it can be accepted.
        beside: Names of which one must stand in the same table.
    """

    name: str
    form: Form
    about: str
    condition: bool = False
    one_answer: bool = False
    beside: tuple[str, ...] = ()


class Kind(Struct, frozen=True):
    """One kind of expectation.

    Attributes:
        name: For a program.
        words: For a person: what it is about.
        subject: The name that makes a table one of this kind; None where none of the others' does.
        terms: Its names, beside those of :data:`EVERYWHERE`.
    """

    name: KindName
    words: str
    subject: str | None
    terms: tuple[Term, ...]

    @property
    def all_terms(self) -> Mapping[str, Term]:
        """Every name that a table of this kind may hold."""
        return {term.name: term for term in (*EVERYWHERE, *self.terms)}

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(term.name for term in self.terms if term.condition)


# What may stand behind a name.


def _no(value: Any) -> str | None:
    return None


def _of(*types: type) -> Callable[[Any], str | None]:
    """Exactly of these types: true is no number."""
    return lambda value: None if type(value) in types else ""


def _least(least: int) -> Callable[[Any], str | None]:
    def flaw(value: Any) -> str | None:
        if type(value) is not int:
            return ""
        return None if value >= least else f"it is at least {least}"

    return flaw


def _each(item: Callable[[Any], str | None], length: int | None = None) -> Callable[[Any], str | None]:
    def flaw(value: Any) -> str | None:
        if type(value) is not list or (length is not None and len(value) != length):
            return ""
        return next((found for each in value if (found := item(each)) is not None), None)

    return flaw


def _one_of(choices: tuple[str, ...]) -> Form:
    def flaw(value: Any) -> str | None:
        if type(value) is not str:
            return ""
        return None if value in choices else f"there is no {value!r}"

    return Form("one of " + ", ".join(choices), {"enum": list(choices)}, flaw, choices)


def _pattern_flaw(value: Any) -> str | None:
    if type(value) is not str:
        return ""
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        return f"no regular expression: {error}"
    return None


def _query_flaw(value: Any) -> str | None:
    if type(value) is not str:
        return ""
    try:
        compiled(value)
    except QueryError as error:
        return f"no JMESPath expression: {error}"
    return None


def _tolerance_flaw(value: Any) -> str | None:
    if type(value) not in (int, float):
        return ""
    return None if value >= 0 else "it is 0 or more"


TEXT: Final = Form("a text", {"type": "string"}, _of(str))
FLAG: Final = Form("true or false", {"type": "boolean"}, _of(bool))
COUNT: Final = Form("a whole number from 0", {"type": "integer", "minimum": 0}, _least(0))
TURN: Final = Form("a whole number, negative ones count from the last turn", {"type": "integer"}, _of(int))
ASKED_TURN: Final = Form(
    "a whole number but 0, negative ones count from the last turn",
    {"type": "integer", "not": {"const": 0}},
    lambda value: (
        "turn 0 precedes the first question" if value == 0 and type(value) is int else _of(int)(value)
    ),
)
TURNS: Final = Form(
    "an array of turn numbers",
    {"type": "array", "items": {"type": "integer", "minimum": 0}},
    _each(_least(0)),
)
TWO_TURNS: Final = Form(
    "two turns, [1, 3]",
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
    _each(_of(int), 2),
)
KEYS: Final = Form(
    "an array of keys or patterns", {"type": "array", "items": {"type": "string"}}, _each(_of(str))
)
ANYTHING: Final = Form("any value", {}, _no)
ORDERED: Final = Form("a number or a text", {"type": ["number", "string"]}, _of(int, float, str))
TOLERANCE: Final = Form("a number from 0", {"type": "number", "minimum": 0}, _tolerance_flaw)
PATTERN: Final = Form("a regular expression", {"type": "string", "format": "regex"}, _pattern_flaw)
QUERY: Final = Form("a JMESPath expression", {"type": "string"}, _query_flaw)
OUTCOME: Final = _one_of(get_args(Outcome))
STATUS: Final = _one_of(get_args(Status))
COUNTED: Final = _one_of(get_args(TurnsBy))


# The names.


def _condition(name: str, form: Form, about: str, *, one_answer: bool = True) -> Term:
    return Term(name, form, about, condition=True, one_answer=one_answer)


EVERYWHERE: Final = (
    Term("name", TEXT, "what reports call the expectation"),
    Term("thread", TEXT, "the thread's id; required"),
    Term("ns", TEXT, "the checkpoint namespace; the root graph's when left out"),
    Term("branch", TEXT, "a checkpoint, or the beginning of its id, whose line is meant and not the head's"),
    Term("messages", TEXT, "the channel that holds the conversation, where it is not messages"),
    Term("turns_by", COUNTED, "what is counted as turns"),
)
"""Names that every table may hold."""

_COMPARED = ("equals", "not_equals")

KINDS: Final = (
    Kind(
        "value",
        "a key",
        "key",
        (
            Term("key", TEXT, "a channel, an entry of a mapping channel, or channel:entry"),
            Term("turn", TURN, "as this turn ended; the last one when left out"),
            Term("at_start", FLAG, "as the turn began"),
            Term("query", QUERY, "look into the value first; an instance is its fields"),
            _condition("equals", ANYTHING, "the value is this"),
            _condition("not_equals", ANYTHING, "the value is not this", one_answer=False),
            Term("tolerance", TOLERANCE, "how far numbers may lie apart and be equal", beside=_COMPARED),
            _condition(
                "contains",
                ANYTHING,
                "the text has this part, the list this item, the mapping this name or these entries; "
                "of an array, each",
                one_answer=False,
            ),
            _condition(
                "matches",
                PATTERN,
                "the text has a part that matches; ^ and $ for the whole",
                one_answer=False,
            ),
            _condition("less_than", ORDERED, "the value is less", one_answer=False),
            _condition("at_most", ORDERED, "the value is not more", one_answer=False),
            _condition("at_least", ORDERED, "the value is not less", one_answer=False),
            _condition("more_than", ORDERED, "the value is more", one_answer=False),
            _condition("type", TEXT, "the value's type as keys shows it; of a class, its last name will do"),
            _condition("absent", FLAG, "whether the thread has no such key as of the turn", one_answer=False),
            _condition("outcome", OUTCOME, "how the read ends"),
            _condition("written_in", TURNS, "all turns that wrote the key"),
            _condition("written_by", TEXT, "the node that wrote the value"),
        ),
    ),
    Kind(
        "change",
        "what changed",
        "between",
        (
            Term("between", TWO_TURNS, "the turns whose ends are compared"),
            _condition("changed", KEYS, "each of these changed", one_answer=False),
            _condition("only_changed", KEYS, "nothing but these changed"),
            _condition("unchanged", KEYS, "none of these changed", one_answer=False),
        ),
    ),
    Kind(
        "turn",
        "a turn",
        "turn",
        (
            Term("turn", ASKED_TURN, "the turn"),
            _condition("question", TEXT, "what was asked, in full"),
            _condition(
                "question_matches", PATTERN, "what was asked has a part that matches", one_answer=False
            ),
            _condition("status", STATUS, "how the turn ended"),
        ),
    ),
    Kind(
        "thread",
        "a thread",
        None,
        (
            _condition("turns", COUNT, "how many turns it has had"),
            _condition("retained", TURNS, "the turns that can be read as they ended"),
            _condition("gaps", COUNT, "how many gaps it has where something stored is gone"),
            _condition("forks", COUNT, "how many branches leave the line that LangGraph would resume"),
            _condition("exists", FLAG, "whether the store has it", one_answer=False),
        ),
    ),
)
"""Every kind of expectation; which one a table is, its subject tells."""


@cache
def kind_named(name: KindName) -> Kind:
    """The kind of a name."""
    return next(kind for kind in KINDS if kind.name == name)


def kind_of(table: Mapping[str, Any]) -> Kind:
    """The kind that a table is, by the first subject it has."""
    return next(kind for kind in KINDS if kind.subject is None or kind.subject in table)
