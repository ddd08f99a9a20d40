"""Differences between two JSON forms, held against an independent implementation of RFC 6902."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import jsonpatch
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turnstate.history.diff import Operation, diff, form_type, masked, masked_operations, patch, pointer
from turnstate.history.jsonform import jsonable, plain
from turnstate_backends.values import Absent, Tagged

_NAMES = st.one_of(st.text(max_size=3), st.sampled_from(["~", "/", "~1", "a/b", "", "-", "0", "id", "name"]))
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, 2, 2**70, -(2**200)]),
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.1 + 0.2, 1e16, math.nan, math.inf, -math.inf]),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["", "1", "one", "\ud800"]),
    st.binary(max_size=3),
)
_TYPES = st.sampled_from(["a.Point", "b.Point", "a.Colour", "pydantic.types.SecretStr", "dict", "bytes"])
_KEYS = st.one_of(_NAMES, st.integers(0, 3), st.none(), st.booleans(), st.tuples(st.integers(0, 1)))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    records = st.fixed_dictionaries({"id": st.sampled_from(["h1", "h2", "h3", 4]), "content": inner})
    return st.one_of(
        st.lists(inner, max_size=5),
        st.lists(records, max_size=5),
        st.lists(records.map(lambda fields: Tagged("a.Message", fields)), max_size=5),
        st.dictionaries(_NAMES, inner, max_size=4),
        st.dictionaries(_KEYS, inner, max_size=4),
        st.builds(Tagged, _TYPES, inner),
        st.builds(Tagged, st.just("builtins.set"), st.lists(inner, max_size=4)),
        st.builds(Absent, st.sampled_from(["encrypted", "undecodable"]), st.just({"bytes": 3})),
    )


VALUES = st.recursive(_SCALARS, _containers, max_leaves=25)


def strict(form: Any) -> str:
    """A text that two JSON values share only when they are equal, types and signs of zero included."""
    return json.dumps(form, sort_keys=True)


def applied(old: Any, operations: tuple[Operation, ...]) -> Any:
    """What the independent library makes of a value by a patch that went through JSON text."""
    change = jsonpatch.JsonPatch(json.loads(json.dumps(patch(operations))))
    return change.apply(json.loads(json.dumps(old)))


@given(VALUES, VALUES)
@settings(max_examples=400, deadline=None)
def test_the_patch_makes_any_value_into_any_other(old: Any, new: Any) -> None:
    a, b = jsonable(old), jsonable(new)
    assert strict(applied(a, diff(a, b))) == strict(b)


@given(VALUES, st.data())
@settings(max_examples=300, deadline=None)
def test_the_patch_makes_a_value_into_a_slightly_changed_one(value: Any, data: st.DataObject) -> None:
    a = jsonable(value)
    b = jsonable(_mutated(value, data.draw))
    assert strict(applied(a, diff(a, b))) == strict(b)


def _mutated(value: Any, draw: Any) -> Any:
    if isinstance(value, Tagged):
        return Tagged(value.type, _mutated(value.value, draw))
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        how = draw(st.sampled_from(["inside", "remove", "insert", "reverse"]))
        if how == "inside":
            return [*value[:at], _mutated(value[at], draw), *value[at + 1 :]]
        if how == "reverse":
            return value[::-1]
        return value[:at] + ([draw(VALUES), value[at]] if how == "insert" else []) + value[at + 1 :]
    if isinstance(value, dict) and value:
        name = draw(st.sampled_from(list(value)))
        return {**value, name: _mutated(value[name], draw)}
    return draw(VALUES)


@given(VALUES)
@settings(deadline=None)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert diff(jsonable(value), json.loads(json.dumps(jsonable(value)))) == ()


def changed(old: Any, new: Any) -> list[tuple[str, str]]:
    return [(each.op, pointer(each.path)) for each in diff(jsonable(old), jsonable(new))]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1, 1.0),
        (1, True),
        (1, "1"),
        (0, False),
        (None, "null"),
        (0.0, -0.0),
        (0.3, 0.1 + 0.2),
        (2**70, float(2**70)),
        (math.nan, "NaN"),
        (math.inf, -math.inf),
        ([], {}),
        ([1], {"0": 1}),
        (b"\x00", "AA=="),
        (Tagged("a.B", 1), 1),
        (Absent("encrypted"), None),
        (Absent("encrypted"), Absent("undecodable")),
        (Tagged("builtins.set", [1]), [1]),
    ],
)
def test_values_of_other_types_or_representations_differ_as_wholes(old: Any, new: Any) -> None:
    assert changed(old, new) == changed(new, old) == [("replace", "")]
    assert changed({"a": [old]}, {"a": [new]}) == [("replace", "/a/0")]


@pytest.mark.parametrize("value", [math.nan, -0.0, 0.1 + 0.2, math.inf, 2**80, b"\xff", Tagged("a.B", [1])])
def test_equal_representations_are_no_difference(value: Any) -> None:
    assert changed([value], [value]) == []


def test_entries_are_told_by_name_and_in_order_of_names() -> None:
    assert changed({"b": 1, "a": 1, "c": 3}, {"b": 2, "d": 4, "c": 3}) == [
        ("remove", "/a"),
        ("replace", "/b"),
        ("add", "/d"),
    ]


def test_slashes_and_tildes_in_names_are_escaped() -> None:
    assert changed({"a/b~c": 1}, {"a/b~c": 2}) == [("replace", "/a~1b~0c")]


def test_one_insertion_into_a_list_is_one_insertion() -> None:
    assert changed([1, 2, 3], [1, 9, 2, 3]) == [("add", "/1")]
    assert changed([1, 2, 3], [2, 3]) == [("remove", "/0")]


def test_numbers_that_took_each_others_place_are_replaced_one_by_one() -> None:
    assert changed([12.4, 55.5, 12.7, 55.8], [9.9, 55.5, 10.3, 56.2]) == [
        ("replace", "/0"),
        ("replace", "/2"),
        ("replace", "/3"),
    ]


def message(id: str | None, content: str) -> Tagged:
    return Tagged("langchain_core.messages.human.HumanMessage", {"content": content, "id": id})


def test_messages_are_told_by_their_id() -> None:
    old = [message("h1", "one"), message("h2", "two"), message("h3", "three")]
    new = [message("h0", "new"), message("h1", "one"), message("h3", "drei")]
    assert changed(old, new) == [
        ("add", "/0"),
        ("remove", "/2"),
        ("replace", "/2/$value/content"),
    ]


def test_messages_without_ids_are_aligned_by_what_they_say() -> None:
    old = [message(None, "one"), message(None, "two")]
    new = [message(None, "one"), message(None, "new"), message(None, "two")]
    assert changed(old, new) == [("add", "/1")]


@pytest.mark.parametrize("name", ["id", "key", "uuid", "name"])
def test_records_are_told_by_a_field_that_all_have_and_none_shares(name: str) -> None:
    old = [{name: "a", "n": 1}, {name: "b", "n": 2}]
    new = [{name: "b", "n": 3}]
    assert changed(old, new) == [("remove", "/0"), ("replace", "/0/n")]


def test_a_field_that_two_records_share_tells_none_apart() -> None:
    old = [{"id": "a", "n": 1}, {"id": "a", "n": 2}]
    assert changed(old, [{"id": "a", "n": 1}, {"id": "b", "n": 2}]) == [("replace", "/1/id")]


def test_a_set_has_members_and_no_order() -> None:
    letters = Tagged("builtins.set", ["a", "b", "c"])
    assert changed(letters, Tagged("builtins.set", ["a", "c", "d"])) == [
        ("remove", "/$value/1"),
        ("add", "/$value/2"),
    ]
    shuffled = diff(jsonable(letters), jsonable(Tagged("builtins.set", ["c", "a", "b"])))
    assert [each.order_only for each in shuffled] == [True]


def test_a_mapping_with_odd_names_is_compared_by_them() -> None:
    assert changed({1: "a", "1": "b"}, {1: "a", "1": "c", None: 0}) == [
        ("replace", "/$value/1/1"),
        ("add", "/$value/2"),
    ]
    shuffled = diff(jsonable({1: "a", 2: "b"}), jsonable({2: "b", 1: "a"}))
    assert [each.order_only for each in shuffled] == [True]


def test_an_instance_is_compared_by_class_and_field() -> None:
    point = {"x": 1, "y": 2}
    assert changed(Tagged("a.Point", point), Tagged("a.Point", {"x": 1, "y": 3})) == [
        ("replace", "/$value/y")
    ]
    assert changed(Tagged("a.Point", point), Tagged("b.Point", point)) == [("replace", "/$type")]
    assert changed(Tagged("a.Point", point), Tagged("a.Size", point)) == [("replace", "")]


def test_two_secrets_differ_and_neither_is_shown() -> None:
    old, new = (
        jsonable({"key": Tagged("pydantic.types.SecretStr", text)}) for text in ("hunter2", "hunter3")
    )
    shown = masked_operations(diff(old, new))
    assert [(each.op, pointer(each.path)) for each in shown] == [("replace", "/key")]
    assert "hunter" not in json.dumps(patch(shown)) + json.dumps([masked(old), masked(new)])
    assert masked(old) == {
        "key": {"$type": "pydantic.types.SecretStr", "$value": "**********", "$masked": True}
    }


def test_the_type_of_a_form_is_that_of_its_value() -> None:
    values = [None, True, 1, 1.5, math.nan, "", b"", [], {}, {1: 2}, Tagged("a.B", 1), Absent("encrypted")]
    assert [form_type(jsonable(value)) for value in values] == [
        *("null", "bool", "int", "float", "float", "str", "bytes", "list", "dict", "dict", "a.B", "encrypted")
    ]


def test_values_nested_as_deep_as_a_payload_may_be_are_compared() -> None:
    old: Any = 1
    new: Any = 2
    for _ in range(100):
        old, new = Tagged("a.B", {1: [old]}), Tagged("a.B", {1: [new]})
    a, b = jsonable(old), jsonable(new)
    assert len(diff(a, b)) == 1


def _calls(old: Any, new: Any) -> int:
    """Functions that a comparison calls, Python's own included: the same on every machine."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        diff(old, new)
    finally:
        sys.setprofile(None)
    return calls


FLOATS = [n * 1.1 for n in range(2000)]
MESSAGES = [
    {"$type": "a.Human", "$value": {"content": f"word {n} " * 20, "id": f"h{n}", "meta": {}}}
    for n in range(1000)
]
NO_IDS = [{"$type": "a.Human", "$value": {"content": f"word {n} " * 20, "meta": {}}} for n in range(1000)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(FLOATS, [n + 0.5 for n in FLOATS], id="floats all changed"),
        pytest.param(FLOATS, FLOATS[::-1], id="floats reversed"),
        pytest.param(FLOATS, [*FLOATS[:700], -1.0, *FLOATS[700:]], id="floats and one insertion"),
        pytest.param([n % 2 for n in range(4000)], [n % 3 for n in range(4000)], id="few different items"),
        pytest.param(MESSAGES, MESSAGES[10:] + MESSAGES[:10], id="messages moved"),
        pytest.param(MESSAGES, MESSAGES[:500] + MESSAGES[600:], id="messages removed"),
        pytest.param(NO_IDS, NO_IDS[::-1], id="messages without ids reversed"),
        pytest.param(NO_IDS, NO_IDS[:500] + NO_IDS[600:], id="messages without ids removed"),
    ],
)
def test_large_lists_take_no_quadratic_time(old: list[Any], new: list[Any]) -> None:
    assert _calls(old, new) < 200 * (len(old) + len(new))  # all pairs would be a thousand calls for each


def test_a_long_list_of_other_numbers_is_one_replacement() -> None:
    assert changed(FLOATS, [n + 0.5 for n in FLOATS]) == [("replace", "")]


@given(VALUES)
@settings(deadline=None)
def test_a_json_form_is_read_back_as_what_it_stands_for(value: Any) -> None:
    assume("type='dict'" not in repr(value))  # a class of that name with pairs has the form of a mapping
    form = jsonable(value)
    assert strict(jsonable(plain(form))) == strict(form)


@pytest.mark.parametrize("name", ["float", "int", "bytes", "dict"])
def test_a_class_named_like_a_form_of_ours_stays_a_class(name: str) -> None:
    assert plain(jsonable(Tagged(name, "x"))) == Tagged(name, "x")
