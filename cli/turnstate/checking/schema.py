"""The JSON Schema of a file of expectations, for editors; it follows from the vocabulary."""

from __future__ import annotations

from typing import Any, Final

from turnstate.checking.expectations import TOP
from turnstate.checking.vocabulary import KINDS, Kind, Term

DIALECT: Final = "http://json-schema.org/draft-07/schema#"  # what editors' TOML plugins read


def schema() -> dict[str, Any]:
    """The schema as a document."""
    return {
        "$schema": DIALECT,
        "title": "turnstate.toml",
        "description": "Expectations about LangGraph checkpoint stores, for turnstate check.",
        "type": "object",
        "properties": {
            "store": {"type": "string", "description": TOP["store"]},
            "expect": {"type": "array", "description": TOP["expect"], "items": _choice()},
        },
        "additionalProperties": False,
    }


def _choice() -> dict[str, Any]:
    """The kinds one after the other, each unless the subject of one before it is there."""
    *others, last = KINDS
    found = _table(last)
    for kind in reversed(others):
        found = {"if": {"required": [kind.subject]}, "then": _table(kind), "else": found}
    return {"type": "object", **found}


def _table(kind: Kind) -> dict[str, Any]:
    terms = kind.all_terms
    return {
        "title": f"of {kind.words}",
        "properties": {name: _property(term) for name, term in terms.items()},
        "required": ["thread", *([kind.subject] if kind.subject else [])],
        "allOf": [
            {"anyOf": [{"required": [name]} for name in kind.conditions]},
            *(
                {"if": {"required": [term.name]}, "then": {"anyOf": [{"required": [n]} for n in term.beside]}}
                for term in terms.values()
                if term.beside
            ),
        ],
        "additionalProperties": False,
    }


def _property(term: Term) -> dict[str, Any]:
    return {**term.form.schema, "description": term.about}
