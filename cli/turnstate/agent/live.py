"""Values of a running graph as the plain data that a store of it would give.

What a decoder makes of a stored value is made here of the value itself: LangGraph's own serialiser writes each
instance out, and the decoder of stores reads that. So a secret is masked, and a class keeps its name and fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from turnstate_backends.payload import decode
from turnstate_backends.values import Absent, Stored, Tagged

LEVELS = 60
"""How deep a value is looked into: no step of an answer needs more of Python's stack than any caller leaves."""

_SCALARS = frozenset({type(None), bool, int, float, str, bytes})


def fields_of(state: Any) -> Mapping[str, Any]:
    """A graph's state by its channels, whether the schema is a TypedDict, a dataclass or a pydantic model.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(state, Mapping):
        return state
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        return {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    names = getattr(type(state), "model_fields", None)
    if isinstance(names, Mapping):
        return {name: getattr(state, name) for name in names}
    raise TypeError(f"a graph's state is a mapping, a dataclass or a pydantic model, not {_class_of(state)}")


def plain(value: Any, level: int = 0) -> Any:
    """A value as plain data (see :mod:`turnstate_backends.values`); plain data stays as it is.

    What cannot be written out is an ``Absent`` of kind ``undecodable`` in its place.
    """
    kind = type(value)
    if kind in _SCALARS or kind is Absent:
        return value
    if level >= LEVELS:
        return Absent("undecodable", {"reason": "nested too deeply"})
    if kind is list or kind is tuple:
        return [plain(item, level + 1) for item in value]
    if kind is dict and _SCALARS.issuperset(map(type, value)):
        return {name: plain(item, level + 1) for name, item in value.items()}
    if kind is Tagged:
        return Tagged(value.type, plain(value.value, level + 1), value.masked)
    return plain(_written_out(value), level)


def _written_out(value: Any) -> Any:
    try:
        kind, data = _serializer().dumps_typed(value)
    except ImportError:
        reason = "LangGraph, which writes it out, is not installed"
    except Exception as error:  # classes write themselves out; an error may repeat what they hold
        reason = f"LangGraph's serialiser cannot encode it ({type(error).__name__})"
    else:
        return decode(Stored(kind, bytes(data), len(data)))
    return Absent("undecodable", {"type": _class_of(value), "reason": reason})


@lru_cache(maxsize=1)
def _serializer() -> Any:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer()


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
