"""Differences between two values: which parts were added, removed or replaced, and where.

Pure functions over the JSON form of plain data (:func:`turnstate.history.jsonform.jsonable`), which keeps every
distinction, so that one list of operations serves both a reader and an RFC 6902 patch. Nothing here knows a
store, a turn or a screen.

What belongs together: entries of a mapping by name; items of a list by an identity of theirs (the ``id`` of
messages, see :data:`IDENTITIES`) where all have one, else by a longest common subsequence, and what is left
between two common items by position; members of a set in any order; fields of an instance where its class is
still the same. Numbers are compared by type and representation: 1, 1.0, true and "1" differ, and so do 0.0 and
-0.0, while NaN equals NaN. A secret, bytes and an absence are wholes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnstate.history.align import Pairs, aligned
from turnstate.history.jsonform import is_mapping_of_pairs, room_for_depth
from turnstate_backends.instances import MASK, is_secret

Path = tuple[str | int, ...]

IDENTITIES: Final = ("id", "key", "uuid", "uid", "_id", "name")
"""Fields that tell the items of a list apart, where every item has it and none has another's."""

SETS: Final = ("builtins.set", "builtins.frozenset")

_WHOLES = ("bytes", "float", "int")  # ``$type`` of what JSON has no form for
_MOST_REPLACED = 256  # a longer list of numbers or texts of which nothing was kept is replaced as a whole
_encode = json.JSONEncoder(sort_keys=True, check_circular=False, separators=(",", ":")).encode


class Operation(Struct, frozen=True):
    """One difference.

    Attributes:
        op: ``add``, ``remove`` or ``replace``, as in RFC 6902.
        path: Where it applies once the operations before it were applied, as steps into the JSON form: in a
            list this is the position in the new value, or for what is removed the one where it would stand.
        was: Where it stood in the old value; for an addition, where it would stand.
        old: The old part; None for an addition.
        new: The new part; None for a removal.
        order_only: Only the order changed, of what has none: members of a set, entries of a mapping. A patch
            needs it, a reader does not.
    """

    op: Literal["add", "remove", "replace"]
    path: Path
    was: Path
    old: Any
    new: Any
    order_only: bool = False


def diff(old: Any, new: Any) -> tuple[Operation, ...]:
    """What changed from one JSON form to another; empty when nothing did.

    Applied one after the other (see :func:`patch`) the operations make ``old`` into ``new`` exactly. Their order
    is that of the paths: names sorted, positions ascending. The time is linear in the size of the values,
    but for the alignment of lists, which is bounded (:func:`turnstate.history.align.aligned`).

    Args:
        old: A value of :func:`~turnstate.history.jsonform.jsonable`.
        new: Another one.
    """
    found: list[Operation] = []
    with room_for_depth():
        _walk(old, new, (), (), found)
    return tuple(found)


def patch(operations: Iterable[Operation]) -> list[dict[str, Any]]:
    """The operations as an RFC 6902 patch."""
    return [
        {"op": each.op, "path": pointer(each.path)}
        if each.op == "remove"
        else {"op": each.op, "path": pointer(each.path), "value": each.new}
        for each in operations
    ]


def pointer(path: Path) -> str:
    """A path as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def masked(form: Any) -> Any:
    """A JSON form without the content of secrets, as it reads where they are not revealed."""
    with room_for_depth():
        return _masked(form)


def masked_operations(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Operations whose parts are :func:`masked`; a secret that changed still has its operation."""
    return tuple(replace(each, old=masked(each.old), new=masked(each.new)) for each in operations)


def form_type(form: Any) -> str:
    """What a JSON form stands for: ``null``, ``bool``, ``int``, ``float``, ``str``, ``list``, ``dict``, ``bytes``, a
    dotted class name, or the kind of an absence."""
    if type(form) is dict:
        return str(form.get("$absent") or form.get("$type") or "dict")
    return "null" if form is None else type(form).__name__


# Walking.


def _walk(old: Any, new: Any, path: Path, was: Path, found: list[Operation]) -> None:
    if type(old) is dict and type(new) is dict:
        _objects(old, new, path, was, found)
    elif type(old) is list and type(new) is list:
        _lists(old, new, path, was, found)
    elif type(old) is not type(new) or (repr(old) != repr(new) if type(old) is float else old != new):
        found.append(Operation("replace", path, was, old, new))


def _objects(old: dict[str, Any], new: dict[str, Any], path: Path, was: Path, found: list[Operation]) -> None:
    if not (_is_special(old) or _is_special(new)):
        _entries(old, new, path, was, found)
    elif _have_parts(old, new):
        _instances(old, new, path, was, found)
    elif _token(old) != _token(new):
        found.append(Operation("replace", path, was, old, new))


def _is_special(form: Mapping[str, Any]) -> bool:
    return "$type" in form or "$absent" in form


def _have_parts(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether both are instances that may be looked into, of one class, or of one that has only moved."""
    if not old.keys() == new.keys() == {"$type", "$value"}:
        return False
    a, b = str(old["$type"]), str(new["$type"])
    if is_secret(a) or is_secret(b) or a in _WHOLES or b in _WHOLES:
        return False
    return a == b or ("." in a and "." in b and a.rpartition(".")[2] == b.rpartition(".")[2])


def _entries(
    old: Mapping[str, Any], new: Mapping[str, Any], path: Path, was: Path, found: list[Operation]
) -> None:
    for name in sorted(old.keys() | new.keys()):
        here, there = (*path, name), (*was, name)
        if name not in new:
            found.append(Operation("remove", here, there, old[name], None))
        elif name not in old:
            found.append(Operation("add", here, there, None, new[name]))
        else:
            _walk(old[name], new[name], here, there, found)


def _instances(
    old: Mapping[str, Any], new: Mapping[str, Any], path: Path, was: Path, found: list[Operation]
) -> None:
    kind, a, b = old["$type"], old["$value"], new["$value"]
    here, there = (*path, "$value"), (*was, "$value")
    if kind != new["$type"]:
        found.append(Operation("replace", (*path, "$type"), (*was, "$type"), kind, new["$type"]))
    elif is_mapping_of_pairs(old) and is_mapping_of_pairs(new):
        _pairs(a, b, here, there, found)
        return
    elif kind in SETS and type(a) is list and type(b) is list:
        _members(a, b, here, there, found)
        return
    _walk(a, b, here, there, found)


# Lists.


def _lists(old: list[Any], new: list[Any], path: Path, was: Path, found: list[Operation]) -> None:
    by_identity = _identities(old, new)
    if by_identity is not None:
        together = aligned(*by_identity)
    else:
        a, b = [_token(item) for item in old], [_token(item) for item in new]
        if a == b:
            return
        common = aligned(a, b)
        if not common and min(len(old), len(new)) > _MOST_REPLACED and type(old[0]) is not dict:
            found.append(Operation("replace", path, was, old, new))
            return
        together = list(_filled(common, old, new))
    for i, j, here, there in _edited(together, old, new, path, was, found):
        _walk(old[i], new[j], here, there, found)


def _edited(
    together: Pairs, old: Sequence[Any], new: Sequence[Any], path: Path, was: Path, found: list[Operation]
) -> Iterator[tuple[int, int, Path, Path]]:
    """Remove and add what belongs to nothing; yield the others in between, at their turn."""
    i = j = 0
    for i_next, j_next in [*together, (len(old), len(new))]:
        for n in range(i, i_next):
            found.append(Operation("remove", (*path, j), (*was, n), old[n], None))
        for n in range(j, j_next):
            found.append(Operation("add", (*path, n), (*was, i_next), None, new[n]))
        if i_next < len(old):
            yield i_next, j_next, (*path, j_next), (*was, i_next)
        i, j = i_next + 1, j_next + 1


def _filled(common: Pairs, old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The common items, and between them pairs of others: by position where as many came as went, else alike ones."""
    i = j = 0
    for i_next, j_next in [*common, (len(old), len(new))]:
        if i_next - i == j_next - j:
            yield from zip(range(i, i_next), range(j, j_next), strict=True)
        elif i < i_next and j < j_next:
            shapes = [_shape(item) for item in old[i:i_next]], [_shape(item) for item in new[j:j_next]]
            yield from ((i + x, j + y) for x, y in aligned(*shapes))
        if i_next < len(old):
            yield i_next, j_next
        i, j = i_next + 1, j_next + 1


def _shape(form: Any) -> Any:
    if type(form) is dict:
        return form_type(form)
    return list if type(form) is list else None


def _identities(old: Sequence[Any], new: Sequence[Any]) -> tuple[list[Any], list[Any]] | None:
    """The identity of each item; None where some have none, or share one."""
    fields = [_fields(item) for item in old], [_fields(item) for item in new]
    if not all(fields) or None in fields[0] or None in fields[1]:
        return None
    for name in IDENTITIES:
        a, b = ([each.get(name) for each in side if each is not None] for side in fields)
        if _tells_apart(a) and _tells_apart(b):
            return a, b
    return None


def _tells_apart(values: Sequence[Any]) -> bool:
    return all(type(v) in (str, int) and v != "" for v in values) and len(set(values)) == len(values)


def _fields(form: Any) -> Mapping[str, Any] | None:
    if type(form) is not dict or "$absent" in form:
        return None
    if "$type" not in form:
        return form
    fields = form.get("$value")
    return None if type(fields) is not dict or is_secret(str(form["$type"])) else fields


# What has no order.


def _pairs(old: list[Any], new: list[Any], path: Path, was: Path, found: list[Operation]) -> None:
    """A mapping that JSON cannot hold as an object, by its names."""
    names = [_token(name) for name, _ in old], [_token(name) for name, _ in new]
    together = aligned(*names)
    if len(together) < len(set(names[0]) & set(names[1])):  # the order of those that stayed has changed too
        same = _ordered({"$type": "dict", "$value": old}) == _ordered({"$type": "dict", "$value": new})
        found.append(Operation("replace", path, was, old, new, same))
        return
    for i, j, here, there in _edited(together, old, new, path, was, found):
        _walk(old[i][1], new[j][1], (*here, 1), (*there, 1), found)


def _members(old: list[Any], new: list[Any], path: Path, was: Path, found: list[Operation]) -> None:
    names = [_token(_ordered(each)) for each in old], [_token(_ordered(each)) for each in new]
    together = aligned(*names)
    here, there = Counter(names[0]), Counter(names[1])
    if len(together) < (here & there).total():
        found.append(Operation("replace", path, was, old, new, here == there))
        return
    for i, j, at, stood in _edited(together, old, new, path, was, found):
        _walk(old[i], new[j], at, stood, found)


def _ordered(form: Any) -> Any:
    """A JSON form with everything that has no order in one order."""
    if type(form) is list:
        return [_ordered(item) for item in form]
    if type(form) is not dict:
        return form
    parts = {name: _ordered(item) for name, item in form.items()}
    if (form.get("$type") in SETS or form.get("$type") == "dict") and type(parts.get("$value")) is list:
        parts["$value"] = sorted(parts["$value"], key=_token)
    return parts


def _token(form: Any) -> str:
    """A text that is the same for equal JSON forms only; the order of names does not matter."""
    if type(form) in (float, int):  # as JSON has them, in a tenth of the time: a list can hold thousands
        return repr(form)
    return _encode(form)


def _masked(form: Any) -> Any:
    if type(form) is list:
        return [_masked(item) for item in form]
    if type(form) is not dict:
        return form
    if "$type" in form and is_secret(str(form["$type"])):
        return {"$type": form["$type"], "$value": MASK, "$masked": True}
    return {name: _masked(item) for name, item in form.items()}
