"""Raw pieces of payloads: what is put together decodes to what it was made of."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Overwrite
from pydantic import SecretStr

from turnstate_backends import heads, pieces
from turnstate_backends.heads import Unreadable
from turnstate_backends.payload import decode
from turnstate_backends.values import Stored, Tagged

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=20,
)


def stored(value: Any) -> Stored:
    kind, data = JsonPlusSerializer().dumps_typed(value)
    return Stored(kind, data, len(data))


@given(PLAIN)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert decode(pieces.packed_value(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        HumanMessage("hi", id="1"),
        {1, 2},
        uuid.UUID(int=1),
        datetime(2026, 1, 1, tzinfo=UTC),
        [AIMessage("a"), {"at": datetime(2026, 1, 1, tzinfo=UTC)}],
    ],
)
def test_what_was_an_instance_is_the_same_instance_again(value: Any) -> None:
    decoded = decode(stored(value))
    assert decode(pieces.packed_value(decoded)) == decoded


@pytest.mark.parametrize(
    "value", [Tagged("pydantic.types.SecretStr", "**********", True), object(), 2**64, "\udc80"]
)
def test_what_cannot_be_stored_again_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        pieces.packed_value([value])


def test_a_secret_is_not_written_out_again() -> None:
    with pytest.raises(TypeError):
        pieces.packed_value(decode(stored(SecretStr("s")), reveal=True))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 70_000])
def test_a_list_and_a_mapping_of_any_length_are_put_together_from_their_slices(count: int) -> None:
    values = list(range(count))
    parts = heads.elements(stored(values))
    assert parts is not None
    assert decode(pieces.array(parts)) == values
    entries = pieces.pairs(stored({str(n): n for n in values}))
    assert entries is not None
    assert decode(pieces.mapping(entries)) == {str(n): n for n in values}


def test_a_set_is_put_together_from_its_members() -> None:
    members = pieces.members(stored({"a", "b"}))
    assert members is not None
    assert decode(pieces.set_of(members)) == decode(stored({"a", "b"}))
    assert pieces.members(stored(["a"])) is None


@pytest.mark.parametrize("value", [[1, 2], {"a": [1]}, None, "text", HumanMessage("hi")])
def test_a_snapshot_and_an_overwrite_hold_their_value(value: Any) -> None:
    inner = pieces.snapshot_value(stored(_DeltaSnapshot(value)))
    assert inner is not None
    assert decode(inner) == decode(stored(value))
    for form in (Overwrite(value), {"__overwrite__": value}, {"type": "__overwrite__", "value": value}):
        inner = pieces.overwritten(stored(form))
        assert inner is not None
        assert decode(inner) == decode(stored(value))


@pytest.mark.parametrize("value", [[1], {"value": 1}, {"type": "other", "value": 1}, None, "text", {1}])
def test_any_other_value_is_neither(value: Any) -> None:
    assert pieces.snapshot_value(stored(value)) is None
    assert pieces.overwritten(stored(value)) is None


def test_only_msgpack_and_null_can_be_part_of_a_list() -> None:
    assert decode(pieces.array([Stored("null", b"", 0)])) == [None]
    with pytest.raises(Unreadable):
        pieces.array([Stored("json", b"1", 1)])
    with pytest.raises(Unreadable):
        pieces.overwritten(Stored("msgpack+aes", b"1", 1))
