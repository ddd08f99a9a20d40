"""Maps are cut in C where that can be done, and by stepping over them where it cannot: both ways find the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstate_backends import packed

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=12,
)


def stepped(data: bytes) -> dict[Any, bytes] | None:
    """The values of a map by name, one step at a time; None where it is no whole map with names of text."""
    try:
        family, count = packed.header(data)
        if family != 0xDF:
            return None
        skipper = packed.Skipper(data, len(data), packed.body(data))
        found: dict[Any, bytes] = {}
        for _ in range(count):
            start = skipper.position
            name = packed.unpack(data[start : skipper.skip()])
            start = skipper.position
            found[name if type(name) is str else None] = data[start : skipper.skip()]
    except packed.Damage:
        return None
    return found if skipper.position == len(data) and None not in found else None


def stepped_array(data: bytes) -> list[bytes] | None:
    """The elements of an array, one step at a time; None where it is no whole array."""
    try:
        family, count = packed.header(data)
        if family != 0xDD:
            return None
        skipper = packed.Skipper(data, len(data), packed.body(data))
        ends = [skipper.position, *(skipper.skip() for _ in range(count))]
    except packed.Damage:
        return None
    return [data[a:b] for a, b in pairwise(ends)] if ends[-1] == len(data) else None


def cut_array(data: bytes) -> list[bytes] | None:
    found = packed.listed(data)
    return None if found is None else [bytes(item) for item in found]


def cut(data: bytes) -> dict[str, bytes] | None:
    named = packed.named(data)
    return None if named is None else {name: bytes(value) for name, value in named.items()}


@given(st.dictionaries(st.text(), VALUES))
def test_a_map_with_names_of_text_is_cut_as_stepping_over_it_does(value: dict[str, Any]) -> None:
    data = msgpack.packb(value)
    assert cut(data) == stepped(data) == {name: msgpack.packb(item) for name, item in value.items()}


@given(st.dictionaries(st.text(), VALUES).map(msgpack.packb), st.data())
def test_what_is_cut_from_a_damaged_map_is_what_stepping_over_it_finds(
    data: bytes, draw: st.DataObject
) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    damaged = data[:at] + draw.draw(st.binary(max_size=3)) + data[at + draw.draw(st.integers(0, 2)) :]
    if (found := cut(damaged)) is not None:
        assert found == stepped(damaged)
    found_extent = None
    try:
        found_extent = packed.extent(damaged)
    except packed.Damage:
        assert packed.named(damaged) is None
    if found is not None:
        assert found_extent == len(damaged)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81",
        b"\x81\xa1a",
        b"\x81\xa1a\xc1",
        b"\xc0",
        b"\x91\x01",
        b"\x81\x01\x01",
        b"\x81\xa1\xff\x01",
        b"\x81\xa3\xed\xa0\x80\x01",
        b"\x81\xa1a\x01\x00",
        b"\xdf\xff\xff\xff\xff\xa1a\x01",
        b"\x81\xa1a" + b"\x91" * 5000 + b"\x01",
    ],
    ids=[
        "nothing",
        "no entry",
        "no value",
        "no such head",
        "a null",
        "an array",
        "a number as name",
        "a name that is not UTF-8",
        "a name with a lone surrogate",
        "bytes behind",
        "more announced than there is",
        "too deep",
    ],
)
def test_what_is_no_whole_map_with_names_of_text_is_left_to_stepping(data: bytes) -> None:
    assert packed.named(data) is None


def test_of_names_that_repeat_the_last_value_counts() -> None:
    assert cut(b"\x82\xa1a\x01\xa1a\x02") == {"a": b"\x02"}


@given(st.lists(VALUES))
def test_an_array_is_cut_as_stepping_over_it_does(value: list[Any]) -> None:
    data = msgpack.packb(value)
    assert cut_array(data) == stepped_array(data) == [msgpack.packb(item) for item in value]


@given(st.lists(VALUES).map(msgpack.packb), st.data())
def test_what_is_cut_from_a_damaged_array_is_what_stepping_over_it_finds(
    data: bytes, draw: st.DataObject
) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    damaged = data[:at] + draw.draw(st.binary(max_size=3)) + data[at + draw.draw(st.integers(0, 2)) :]
    if (found := cut_array(damaged)) is not None:
        assert found == stepped_array(damaged)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES | st.dictionaries(st.text(max_size=3), VALUES)),
    st.integers(0, 60),
    st.binary(max_size=2),
)
def test_a_map_within_a_map_is_cut_as_when_it_is_cut_out_first(
    value: dict[str, Any], at: int, junk: bytes
) -> None:
    whole = msgpack.packb(value)
    for data in (whole, whole[:at] + junk + whole[at + len(junk) :], whole[:at]):
        outer = packed.named(data)
        inner = packed.named(outer["a"]) if outer and "a" in outer else None
        found = packed.named_in(data, "a")
        if found is not None:
            assert inner is not None
            assert {n: bytes(v) for n, v in found.items()} == {n: bytes(v) for n, v in inner.items()}
        elif data == whole:
            assert inner is None
