"""Ids that a run makes up for its messages and tool calls: they differ between any two runs that are otherwise alike.

What they look like: LangGraph's ``add_messages`` gives a bare UUID; LangChain puts ``run-``, ``run--`` or ``lc_``
before one, and sometimes ``-0`` behind it; models give their own (``call_…``, ``toolu_…``, ``chatcmpl-…``,
``msg_…``, ``resp_…``). An id of another form was chosen by somebody, and counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from turnstate.history.jsonform import room_for_depth
from turnstate.history.messages import CLASSES, ROLES
from turnstate_backends.instances import is_secret

_GENERATED = re.compile(
    r"(lc_)?(run--?)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-\d+)?"
    r"|call_[\w-]+|(toolu_|chatcmpl-|msg_|resp_)[\w-]{16,}",
    re.ASCII | re.IGNORECASE,
)
_IDS = ("id", "tool_call_id", "tool_use_id", "call_id")
_WITH_IDS = ("content", "tool_calls", "invalid_tool_calls", "tool_call_chunks")  # lists whose items have some
_AROUND = ("additional_kwargs", "response_metadata")  # where models leave theirs, and calls once more


def without_generated_ids(form: Any) -> Any:
    """A JSON form whose messages have no generated ids.

    Without them messages belong together by position and class. Lists keep their length, so that a path into the
    result is one into ``form``. Ids elsewhere stay, also in the arguments of a tool call.
    """
    with room_for_depth():
        return _without(form)


def _without(form: Any) -> Any:
    if type(form) is list:
        return [_without(item) for item in form]
    if type(form) is not dict or "$absent" in form:
        return form
    if "$type" not in form:
        return _message(form) if _is_message(form) else {name: _without(item) for name, item in form.items()}
    kind, value = str(form["$type"]), form.get("$value")
    if value is None or is_secret(kind):
        return form
    is_message = kind.rpartition(".")[2] in CLASSES and type(value) is dict
    return {**form, "$value": _message(value) if is_message else _without(value)}


def _is_message(form: Mapping[str, Any]) -> bool:
    return "content" in form and any(str(form.get(name)) in ROLES for name in ("type", "role"))


def _message(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _field(name, item) for name, item in _unnamed(fields).items()}


def _field(name: str, item: Any) -> Any:
    if name in _WITH_IDS and type(item) is list:
        return [_unnamed(part) if type(part) is dict else part for part in item]
    if name in _AROUND and type(item) is dict:
        return _message(item)
    return _without(item)


def _unnamed(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in fields.items() if not (name in _IDS and _is_generated(item))}


def _is_generated(id: Any) -> bool:
    return type(id) is str and _GENERATED.fullmatch(id) is not None
