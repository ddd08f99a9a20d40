"""Payloads are split, and classes and keys found, without decoding, from whole payloads and from heads."""

from __future__ import annotations

import datetime
import json
import math
import uuid
from typing import Any

import msgpack
import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

import mutations
from turnstate.history.keys import entries_of, named_entries
from turnstate_backends import heads, packed
from turnstate_backends.heads import Cut, Unreadable, class_name, elements, entries, keys
from turnstate_backends.payload import decode
from turnstate_backends.values import Stored, Tagged

LOOKS = [elements, entries, keys, class_name]
HUMAN = "langchain_core.messages.human.HumanMessage"


def stored(kind: str | None, data: bytes) -> Stored:
    return Stored(kind, data, len(data))


def written(value: Any) -> Stored:
    """A payload as LangGraph writes it."""
    return stored(*JsonPlusSerializer().dumps_typed(value))


def head(whole: Stored, size: int) -> Stored:
    return Stored(whole.type, whole.data[:size], whole.size)


def test_the_elements_of_an_array_decode_to_its_members() -> None:
    whole = written([HumanMessage("hi", id="1"), 5, "text", [1, [2]], {"a": None}, None])
    found = elements(whole)
    assert found is not None
    assert [decode(item) for item in found[1:]] == [5, "text", [1, [2]], {"a": None}, None]
    assert decode(found[0]).value["content"] == "hi"
    assert all(item.type == "msgpack" and item.complete for item in found)


def test_the_entries_of_a_map_decode_to_its_values() -> None:
    value = {"plan": [1, 2], 3: "x", None: {"y": True}, (1, "b"): 0, b"z": 1.5, "caf\u00e9": []}
    whole = written(value)
    found = entries(whole)
    assert found is not None
    assert {key: decode(item) for key, item in found.items()} == value
    assert keys(whole) == list(value)


def test_the_slices_of_json_decode_to_its_parts() -> None:
    text = '{"a": [1, NaN, "\\ud800", {"b": 1}], "n": %s, "a b": "caf\u00e9", "e": {}}' % ("7" * 5000)
    found = entries(stored("json", text.encode()))
    assert found is not None
    assert keys(stored("json", text.encode())) == ["a", "n", "a b", "e"]
    assert decode(found["n"]) == Tagged("builtins.int", "7" * 5000)
    assert decode(found["a b"]) == "caf\u00e9"
    assert decode(found["e"]) == {}
    parts = elements(found["a"])
    assert parts is not None
    one, nan, half, mapping = [decode(part) for part in parts]
    assert (one, half, mapping) == (1, "\ud800", {"b": 1})
    assert math.isnan(nan)


def test_of_json_keys_that_repeat_the_last_one_wins() -> None:
    whole = stored("json", b'{"a": 1, "b": 2, "a": 3}')
    found = entries(whole)
    assert found is not None
    assert {key: item.data for key, item in found.items()} == {"a": b"3", "b": b"2"}
    assert keys(whole) == ["a", "b"]


@pytest.mark.parametrize(
    "plain",
    [
        written(None),
        written(b"\x91\x01"),
        written("[]"),
        written(7),
        stored("empty", b""),
        stored("bytearray", b"\x80"),
        stored("json", b"7"),
        stored("json", b'"[]"'),
        stored(None, b"null"),
    ],
)
def test_a_value_without_parts_is_none_to_every_look(plain: Stored) -> None:
    assert [look(plain) for look in LOOKS] == [None, None, None, None]


@pytest.mark.parametrize(
    "empty",
    [stored("msgpack", b"\x90"), stored("json", b" [ ] "), stored(None, b"[]"), stored(None, b"\x90")],
)
def test_an_empty_array_has_no_elements(empty: Stored) -> None:
    assert elements(empty) == []
    assert entries(empty) is None
    assert keys(empty) is None


@pytest.mark.parametrize("empty", [stored("msgpack", b"\x80"), stored("json", b"{}"), stored(None, b"\x80")])
def test_an_empty_map_has_no_entries(empty: Stored) -> None:
    assert entries(empty) == {}
    assert keys(empty) == []
    assert elements(empty) is None


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (HumanMessage("hi"), HUMAN),
        (uuid.UUID(int=1), "uuid.UUID"),
        (datetime.datetime(2024, 1, 31), "datetime.datetime"),
        (datetime.date(2024, 1, 31), "datetime.date"),
        (datetime.time(1), "datetime.time"),
        ({1, 2}, "builtins.set"),
        (_DeltaSnapshot([1]), "langgraph.checkpoint.serde.types._DeltaSnapshot"),
        ([HumanMessage("hi")], None),
        ({"lc": 1, "type": "constructor", "id": ["a"]}, None),
        ("text", None),
    ],
)
def test_the_class_of_an_instance_is_known_without_decoding(value: Any, name: str | None) -> None:
    whole = written(value)
    assert class_name(whole) == name
    decoded = decode(whole)
    assert (decoded.type if isinstance(decoded, Tagged) else None) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (dumps(HumanMessage("hi")), "langchain.schema.messages.HumanMessage"),
        ('{"lc": 2, "type": "constructor", "id": ["Set"], "args": [[1]], "kwargs": {}}', "Set"),
        ('{"lc": 2, "type": "undefined"}', "undefined"),
        ('{"lc": 1, "type": "secret", "id": ["KEY"]}', "secret"),
        ('{"kwargs": {}, "id": ["a", "B"], "type": "constructor", "lc": 1}', "a.B"),
        ('{"lc": 3, "type": "constructor", "id": ["a", "B"]}', None),
        ('{"a": {"lc": 1, "type": "constructor", "id": ["a", "B"]}}', None),
        ("[1]", None),
    ],
)
def test_the_class_of_a_json_constructor_is_known_without_decoding(text: str, name: str | None) -> None:
    whole = stored("json", text.encode())
    assert class_name(whole) == name
    decoded = decode(whole)
    assert (decoded.type if isinstance(decoded, Tagged) else None) == name


@pytest.mark.parametrize(
    ("name", "rest", "value"),
    [
        ("builtins.bytes", '"id": ["builtins", "bytes"], "method": "fromhex", "args": ["6100"]', b"a\0"),
        ("builtins.bytearray", '"id": ["builtins", "bytearray"], "method": "fromhex", "args": ["61"]', b"a"),
        ("Uint8Array", '"id": ["Uint8Array"], "method": "from", "args": [[0, 255]], "kwargs": {}', b"\0\xff"),
    ],
)
def test_bytes_that_are_stored_as_an_instance_have_a_class_and_are_no_map(
    name: str, rest: str, value: bytes
) -> None:
    whole = stored("json", f'{{"lc": 2, "type": "constructor", {rest}}}'.encode())
    assert class_name(whole) == name
    assert decode(whole) == value
    assert entries_of(whole) == named_entries(whole) == ()


def test_arrays_and_timestamps_have_a_class() -> None:
    assert class_name(stored("msgpack", mutations.ext(6, b"\x90"))) == "numpy.ndarray"
    assert class_name(stored("msgpack", mutations.ext(-1, bytes(4)))) == "msgpack.Timestamp"


def test_a_class_is_known_from_a_head_that_holds_its_name() -> None:
    whole = written(HumanMessage("x" * 5000))
    assert class_name(head(whole, 64)) == HUMAN
    with pytest.raises(Cut):
        class_name(head(whole, 40))
    lc = stored("json", dumps(HumanMessage("x" * 5000)).encode())
    assert class_name(head(lc, 120)) == "langchain.schema.messages.HumanMessage"
    with pytest.raises(Cut):
        class_name(head(lc, 60))


def test_the_keys_are_known_from_a_head_that_ends_in_the_last_value() -> None:
    whole = written({"a": 1, "messages": ["x" * 20_000]})
    assert keys(head(whole, 64)) == ["a", "messages"]
    with pytest.raises(Cut):
        entries(head(whole, 64))
    with pytest.raises(Cut):
        keys(head(whole, 8))
    with pytest.raises(Cut):
        keys(head(written({"messages": "x" * 2000, "z": 1}), 64))
    with pytest.raises(Cut):
        keys(head(stored("json", b'{"a": 1, "b": 2}'), 12))


def test_the_last_part_may_be_a_head_where_its_size_is_known() -> None:
    whole = written([HumanMessage("a"), HumanMessage("x" * 5000)])
    found = elements(head(whole, 400))
    assert found is not None
    first, last = found
    assert decode(first).value["content"] == "a"
    assert not last.complete
    assert last.size == whole.size - 1 - first.size
    assert class_name(last) == HUMAN
    value = entries(head(written({"a": 1, "b": "x" * 5000}), 64))
    assert value is not None
    assert (value["b"].size, value["b"].complete) == (5003, False)


def test_a_head_that_ends_before_the_last_part_is_cut() -> None:
    whole = written([HumanMessage("x" * 500), HumanMessage("b")])
    for size in (0, 1, 2, 100, 600):
        with pytest.raises(Cut):
            elements(head(whole, size))
    for size in (0, 1, 30):
        with pytest.raises(Cut):
            elements(head(stored("json", b'["' + b"x" * 50 + b'", 1]'), size))
    with pytest.raises(Cut):
        elements(head(written([1, [2, 3, 4]]), 4))
    for size in (0, 1):
        with pytest.raises(Cut):
            elements(head(stored(None, b" [1]"), size))


def test_every_head_of_a_payload_gives_the_whole_answer_or_says_that_it_is_cut() -> None:
    values = [[HumanMessage("a"), AIMessage("b")], {"a": [1, 2], "b": {"c": "x"}}, uuid.UUID(int=1), "text"]
    for whole in [*map(written, values), stored("json", dumps(values[0]).encode())]:
        for look in LOOKS:
            answer = look(whole)
            for size in range(whole.size):
                try:
                    early = look(head(whole, size))
                except Cut:
                    continue
                if look in (elements, entries) and early is not None:
                    assert list(early)[:-1] == list(answer)[:-1]
                    assert len(early) == len(answer)
                else:
                    assert early == answer


@pytest.mark.parametrize(
    "damaged",
    [
        stored("msgpack+aes", b"\x91\x01"),
        stored("pickle", b"\x80\x04."),
        stored("yaml", b"[]"),
        stored(None, b""),
        stored(None, b"\x80\x04K\x01."),
    ],
)
def test_what_cannot_be_looked_into_is_unreadable(damaged: Stored) -> None:
    for look in LOOKS:
        with pytest.raises(Unreadable):
            look(damaged)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x92\x01",
        b"\x91\x01\x02",
        b"\xdd\xff\xff\xff\xff",
        b"\xdd\x00",
        b"\x91\xc1",
        b"\x91\xc6\xff\xff\xff\xff",
        b"\x91" * 5000 + b"\x01",
    ],
)
def test_a_damaged_array_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        elements(stored("msgpack", data))


@pytest.mark.parametrize(
    "data", [b"\x81\xa1a", b"\x82\xa1a\x01", b"\xdf\xff\xff\xff\xff\xa1a\x01", b"\x81\xc1\x01"]
)
def test_a_damaged_map_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        entries(stored("msgpack", data))


@pytest.mark.parametrize("text", ["[1, 2", "[1 2]", "[1] x", "[" * 100_000, "[nul]", "[1,]"])
def test_damaged_json_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        elements(stored("json", text.encode()))
    with pytest.raises(Unreadable):
        keys(stored("json", text.replace("[", '{"a":').replace("]", "}").encode()))


@pytest.mark.parametrize(
    "data",
    [
        mutations.ext(42, b"x"),
        mutations.ext(0, b""),
        mutations.ext(0, b"\x93\x01\x02\x03"),
        mutations.ext(0, b"\x92\xa1m\xa1C"),
        mutations.ext(0, b"\xc1"),
        mutations.ext(5, b"\x93\xa1m\xa1C\x01") + b"\x01",
        mutations.ext(5, b"\x93\xa1m\xa1C\x01")[:-1],
    ],
)
def test_a_damaged_instance_has_no_class(data: bytes) -> None:
    with pytest.raises(Unreadable):
        class_name(stored("msgpack", data))


def test_keys_that_a_dictionary_cannot_hold_are_those_of_the_decoded_map() -> None:
    whole = stored("msgpack", b"\x84\x80\x01\x81\x01\x02\x02\xd4\x05\x00\x03\x91\x80\x04")
    assert keys(whole) == list(decode(whole))
    found = entries(whole)
    assert found is not None
    assert [decode(item) for item in found.values()] == [1, 2, 3, 4]


def test_a_key_that_is_not_utf8_is_the_key_of_the_decoded_map() -> None:
    whole = stored("msgpack", b"\x81\xa2\xff\xfe\x01")
    assert keys(whole) == list(decode(whole)) == ["\udcff\udcfe"]


def test_an_array_in_json_is_split_without_changing_its_parts() -> None:
    parts = ['{"b":1,"a":1.0e5}', '"\\u00e9"', "-0.0", "1E400"]
    found = elements(stored("json", f"[{' , '.join(parts)}]".encode()))
    assert found is not None
    assert [item.data.decode() for item in found] == parts
    assert json.loads(parts[0]) == {"b": 1, "a": 100000.0}


def test_picked_entries_are_those_of_the_inner_map_and_a_damaged_payload_gives_none() -> None:
    inner = {"a": [1, 2], "b": {"c": "text"}, "n": None}
    data = ormsgpack.packb({"v": 4, "values": inner, "after": "end"})
    whole = Stored("msgpack", data, len(data))
    assert heads.picked(whole, "values", ["b", "a"]) == {
        "a": Stored("msgpack", b"\x92\x01\x02", 3),
        "b": Stored("msgpack", b"\x81\xa1c\xa4text", 8),
    }
    assert heads.picked(whole, "values", []) == {}
    assert heads.picked(whole, "values", ["a", "z"]) is None
    assert heads.picked(whole, "after", ["a"]) is None
    for cut in range(len(data)):
        assert heads.picked(Stored("msgpack", data[:cut], cut), "values", ["a"]) is None
    longer = data + b"\x00"
    assert heads.picked(Stored("msgpack", longer, len(longer)), "values", ["a"]) is None


@given(
    st.text(max_size=300),
    st.text(max_size=40),
    st.integers(0, 5),
    st.integers(0, 4),
    st.integers(0, 70),
    st.binary(),
)
def test_a_class_is_the_same_by_the_common_way_and_by_the_plain_one(
    module: str, name: str, code: int, more: int, cut: int, junk: bytes
) -> None:
    inner = ormsgpack.packb([module, name, *[None] * more])
    data = msgpack.packb(msgpack.ExtType(code, inner))
    for whole in (data, data[:cut], data[:cut] + junk):
        for size in (len(whole), len(data)):
            found = heads._common_class(whole, size)
            if found is not None:
                assert found == heads._packed_class(whole, packed.body(whole))
                assert found == f"{module}.{name}" or whole != data


def test_the_common_way_to_a_class_is_the_one_that_messages_take() -> None:
    for message in (HumanMessage("hello"), AIMessage("x" * 70_000)):
        payload = written(message)
        assert heads._common_class(payload.data, payload.size) == class_name(payload)


@pytest.mark.parametrize("name", ["", "a", "a" * 31, "a" * 32, "ž", "a" * 300, 7, None, True, b"a"], ids=repr)
def test_the_one_key_of_a_map_is_that_of_the_decoded_map_also_from_a_head_that_ends_behind_it(
    name: Any,
) -> None:
    data = ormsgpack.packb({name: "x" * 3000}, option=ormsgpack.OPT_NON_STR_KEYS)
    whole = stored("msgpack", data)
    assert keys(whole) == [name] == list(decode(whole))
    assert keys(head(whole, len(data) - 3000)) == [name]
    with pytest.raises(Cut):
        keys(head(whole, 1))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"lc": 1, "type": "constructor", "id": ["m", "A"], "kwargs": {}, "id": ["m", "B"]}', "m.B"),
        ('{"lc": 1, "type": "constructor", "id": ["m", "A"], "kwargs": {}, "type": "other"}', None),
        ('{"lc": 1, "type": "constructor", "id": ["m", "A"], "kwargs": {}, "lc": 3}', None),
        ('{"\\u006cc": 1, "type": "constructor", "id": ["m", "A"], "kwargs": {}}', "m.A"),
        ('{"l\\u0063": 1, "type": "constructor", "id": ["m", "A"], "kwargs": {}}', "m.A"),
        ('{"\\u006C\\u0063": 1, "type": "constructor", "id": ["m", "A"], "kwargs": {}}', "m.A"),
    ],
)
def test_the_class_of_json_that_no_writer_makes_is_still_that_of_the_decoded_value(
    text: str, name: str | None
) -> None:
    whole = stored("json", text.encode())
    value = decode(whole)
    assert class_name(whole) == name == (value.type if isinstance(value, Tagged) else None)


@pytest.mark.parametrize("name", [b"\xa1a", b"\xd9\x01a"], ids=["short", "longer form"])
@pytest.mark.parametrize(
    "rest", [b"", b"\xc1", b"\x01\x02"], ids=["no value", "no such head", "bytes behind"]
)
def test_a_whole_map_of_one_entry_that_is_damaged_has_no_keys(name: bytes, rest: bytes) -> None:
    with pytest.raises(Unreadable):
        keys(stored("msgpack", b"\x81" + name + rest))
