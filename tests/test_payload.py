"""Payloads become plain data, whatever they hold, and nothing that they name is touched.

Most payloads come from LangGraph's own serializer; rows of releases that are not installed are literals that
those releases wrote (langgraph-checkpoint 1.0.2 for ``lc`` 2; numpy 2 for arrays, with their bytes in place).
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import hashlib
import ipaddress
import math
import pathlib
import re
import subprocess
import sys
import uuid
import zoneinfo
from collections import OrderedDict, deque, namedtuple
from pathlib import Path
from typing import Any, Generic, TypeVar

import ormsgpack
import pydantic
import pydantic.v1
import pytest
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send

import mutations
from turnstate_backends.payload import LEVELS, decode
from turnstate_backends.values import Absent, Stored, Tagged

HERE = __name__
SERIALIZER = JsonPlusSerializer()
Inner = TypeVar("Inner")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Mood(enum.StrEnum):
    CALM = "calm"


class Settings(pydantic.BaseModel):
    key: pydantic.SecretStr
    since: datetime.date | None = None


class Box(pydantic.BaseModel, Generic[Inner]):
    inside: Inner


class Old(pydantic.v1.BaseModel):
    key: pydantic.v1.SecretStr


@dataclasses.dataclass
class Point:
    x: int
    at: Any = None


Pair = namedtuple("Pair", "left right")


def stored(kind: str | None, data: bytes) -> Stored:
    return Stored(kind, data, len(data))


def written(value: Any) -> Stored:
    """A payload as LangGraph writes it."""
    return stored(*SERIALIZER.dumps_typed(value))


def read(value: Any, **options: bool) -> Any:
    return decode(written(value), **options)


def packed(data: bytes) -> Any:
    return decode(stored("msgpack", data))


def json_read(text: str | bytes) -> Any:
    return decode(stored("json", text if isinstance(text, bytes) else text.encode()))


def reason(value: Any) -> str:
    assert isinstance(value, Absent)
    assert value.kind == "undecodable"
    return str(value.stored["reason"])


# Python 3.13 keeps the class in another module, and LangGraph stores the module's name.
PATH_CLASS = f"{pathlib.PosixPath.__module__}.PosixPath"


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**64 - 1,
        -(2**63),
        1e16,
        -0.0,
        "",
        "caf\u00e9 \U0001f600 \x00",
        b"\x00\xff",
        [],
        {},
        [1, [2, {"a": None}]],
        {1: 2, None: 3, 1.5: 4, b"a": 5, (1, ("b", 2)): 6},
    ],
    ids=repr,
)
def test_plain_values_come_back_unchanged(value: Any) -> None:
    decoded = read(value)
    assert decoded == value
    assert repr(decoded) == repr(value)  # 1e16 is no int, -0.0 no 0, True no 1


def test_nan_and_infinity_keep_their_meaning() -> None:
    nan, plus, minus = read([math.nan, math.inf, -math.inf])
    assert math.isnan(nan)
    assert (plus, minus) == (math.inf, -math.inf)


HOUR = datetime.timezone(datetime.timedelta(hours=1))


@pytest.mark.parametrize(
    ("value", "name", "shown"),
    [
        (datetime.datetime(2024, 1, 31, 12, tzinfo=HOUR), "datetime.datetime", "2024-01-31T12:00:00+01:00"),
        (datetime.date(2024, 1, 31), "datetime.date", "2024-01-31"),
        (datetime.date(33, 1, 2), "datetime.date", "0033-01-02"),
        (datetime.time(1, 2, 3, 4), "datetime.time", "01:02:03.000004"),
        (datetime.time(1, 2, tzinfo=datetime.UTC), "datetime.time", "01:02:00+00:00"),
        (datetime.time(1, 2, tzinfo=HOUR, fold=1), "datetime.time", "01:02:00+01:00 fold=1"),
        (datetime.time(1, tzinfo=zoneinfo.ZoneInfo("Europe/Rome")), "datetime.time", "01:00:00[Europe/Rome]"),
        (
            datetime.timedelta(days=-1, microseconds=5),
            "datetime.timedelta",
            {"days": -1, "seconds": 0, "microseconds": 5},
        ),
        (datetime.UTC, "datetime.timezone", "UTC"),
        (HOUR, "datetime.timezone", "UTC+01:00"),
        (datetime.timezone(datetime.timedelta(hours=-3), "BRT"), "datetime.timezone", "UTC-03:00 BRT"),
        (zoneinfo.ZoneInfo("Europe/Rome"), "zoneinfo.ZoneInfo", "Europe/Rome"),
        (uuid.UUID(int=255), "uuid.UUID", "00000000-0000-0000-0000-0000000000ff"),
        (decimal.Decimal("1.50"), "decimal.Decimal", "1.50"),
        ({3, 20, 1}, "builtins.set", [1, 3, 20]),
        (frozenset({"b", "a"}), "builtins.frozenset", ["a", "b"]),
        ({"a", 1, None}, "builtins.set", [None, 1, "a"]),
        (deque([3, 1]), "collections.deque", [3, 1]),
        (Pair(1, 2), f"{HERE}.Pair", {"left": 1, "right": 2}),
        (Colour.RED, f"{HERE}.Colour", "red"),
        (Level.HIGH, f"{HERE}.Level", 3),
        (Mood.CALM, f"{HERE}.Mood", "calm"),
        (pathlib.PosixPath("/a/b"), PATH_CLASS, "/a/b"),
        (pathlib.PosixPath("a/b"), PATH_CLASS, "a/b"),
        (pathlib.PosixPath("/"), PATH_CLASS, "/"),
        (pathlib.PosixPath("."), PATH_CLASS, "."),
        (re.compile("a.b", re.IGNORECASE), "re.compile", {"pattern": "a.b", "flags": 34}),
        (ipaddress.ip_address("10.0.0.1"), "ipaddress.IPv4Address", "10.0.0.1"),
        (ipaddress.ip_network("fd00::/8"), "ipaddress.IPv6Network", "fd00::/8"),
        (Send("n", {"a": 1}), "langgraph.types.Send", {"node": "n", "arg": {"a": 1}}),
        (
            Interrupt("why", id="i"),
            "langgraph.types.Interrupt",
            {"value": "why", "id": "i", "response_schema": None},
        ),
        (Overwrite([1]), "langgraph.types.Overwrite", {"value": [1], "type": "__overwrite__"}),
        (
            Command(goto="x", resume=1),
            "langgraph.types.Command",
            {"graph": None, "update": None, "resume": 1, "goto": "x"},
        ),
        (Point(1, Point(2)), f"{HERE}.Point", {"x": 1, "at": Tagged(f"{HERE}.Point", {"x": 2, "at": None})}),
        (Box[int](inside=1), f"{HERE}.Box[int]", {"inside": 1}),
        (
            _DeltaSnapshot([1, uuid.UUID(int=1)]),
            "langgraph.checkpoint.serde.types._DeltaSnapshot",
            [1, Tagged("uuid.UUID", "00000000-0000-0000-0000-000000000001")],
        ),
    ],
    ids=lambda value: type(value).__name__,  # a set has no stable repr
)
def test_an_instance_shows_its_class_and_a_readable_value(value: Any, name: str, shown: Any) -> None:
    assert read(value) == Tagged(name, shown)
    assert read({"in": [value]}) == {"in": [Tagged(name, shown)]}


def test_a_path_of_windows_is_joined_as_windows_does() -> None:
    data = mutations.instance(1, "pathlib", "WindowsPath", ["C:\\", "a", "b"])
    assert packed(data) == Tagged("pathlib.WindowsPath", "C:\\a\\b")


def test_a_message_keeps_the_fields_that_were_stored() -> None:
    assert read([HumanMessage("hi", id="7"), AIMessage("yo")]) == [
        Tagged(
            "langchain_core.messages.human.HumanMessage",
            {
                "content": "hi",
                "additional_kwargs": {},
                "response_metadata": {},
                "type": "human",
                "name": None,
                "id": "7",
            },
        ),
        Tagged(
            "langchain_core.messages.ai.AIMessage",
            {
                "content": "yo",
                "additional_kwargs": {},
                "response_metadata": {},
                "type": "ai",
                "name": None,
                "id": None,
                "tool_calls": [],
                "invalid_tool_calls": [],
                "usage_metadata": None,
            },
        ),
    ]
    assert json_read(dumps(HumanMessage("hi", id="7"))) == Tagged(
        "langchain.schema.messages.HumanMessage", {"content": "hi", "type": "human", "id": "7"}
    )


def test_sets_written_under_different_hash_seeds_are_equal() -> None:
    one = mutations.instance(0, "builtins", "set", [["b", 1], "x", 2.5, None])
    other = mutations.instance(0, "builtins", "set", [None, 2.5, ["b", 1], "x"])
    assert packed(one) == packed(other)


@pytest.mark.parametrize(
    ("dtype", "shape", "order", "data", "shown"),
    [
        ("<i4", [2, 3], "C", "000000000100000002000000030000000400000005000000", [[0, 1, 2], [3, 4, 5]]),
        ("<i4", [2, 3], "F", "000000000300000001000000040000000200000005000000", [[0, 1, 2], [3, 4, 5]]),
        (">u2", [2, 3], "C", "000000010002000300040005", [[0, 1, 2], [3, 4, 5]]),
        ("|b1", [2], "C", "0100", [True, False]),
        ("|i1", [1], "C", "ff", [-1]),
        ("<f2", [2], "C", "003e00c0", [1.5, -2.0]),
        (">f8", [1], "C", "3ff8000000000000", [1.5]),
        ("<c8", [1], "C", "0000803f00000040", [[1.0, 2.0]]),
        ("<f8", [], "C", "0000000000000440", 2.5),
        ("<U2", [2], "C", "61000000620000006300000000000000", ["ab", "c"]),
        ("|S2", [2], "C", "616263 00", [b"ab", b"c"]),
        ("<f4", [2, 0], "C", "", []),
        ("<f4", [10**9, 0], "C", "", []),
        ("|V3", [1], "C", "010203", b"\x01\x02\x03"),
        ("|O", [1], "C", "402af3294c7f0000", bytes.fromhex("402af3294c7f0000")),
        ("<U0", [10**9], "C", "", b""),
    ],
)
def test_a_numpy_array_is_read_without_numpy(
    dtype: str, shape: list[int], order: str, data: str, shown: Any
) -> None:
    body = ormsgpack.packb([dtype, shape, order, bytes.fromhex(data)])
    fields = {"dtype": dtype, "shape": shape, "data": shown}
    assert packed(mutations.ext(6, body)) == Tagged("numpy.ndarray", fields)


def test_a_three_dimensional_array_in_fortran_order_is_put_right() -> None:
    body = ormsgpack.packb(["|u1", [2, 3, 2], "F", bytes([0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11])])
    assert packed(mutations.ext(6, body)).value["data"] == [
        [[0, 1], [2, 3], [4, 5]],
        [[6, 7], [8, 9], [10, 11]],
    ]


@pytest.mark.parametrize(
    "parts",
    [
        ["<i4", [2**40], "C", b"\0\0\0\0"],
        ["<i4", [-1], "C", b"\0\0\0\0"],
        ["<i4", [1] * 65, "C", b"\0\0\0\0"],
        ["<i4", 1, "C", b"\0\0\0\0"],
        ["<i4", [1], "X", b"\0\0\0\0"],
        ["<i4", [1], "C", "text"],
        ["<U1", [1], "C", b"\xff\xff\xff\xff"],
        ["<i4"],
        "<i4C",
        {"a": 1},
        None,
    ],
)
def test_an_array_whose_parts_contradict_each_other_is_absent_in_its_place(parts: Any) -> None:
    before, array, after = packed(b"\x93\x01" + mutations.ext(6, ormsgpack.packb(parts)) + b"\x02")
    assert (before, after) == (1, 2)
    assert reason(array)
    assert array.stored["type"] == "msgpack ext 6"


SECRET = "hush-hush"
MASKED = "**********"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (pydantic.SecretStr(SECRET), "pydantic.types.SecretStr"),
        (pydantic.SecretBytes(SECRET.encode()), "pydantic.types.SecretBytes"),
        (pydantic.Secret[str](SECRET), "pydantic.types.Secret"),
        (pydantic.v1.SecretStr(SECRET), "pydantic.v1.types.SecretStr"),
        (pydantic.v1.SecretBytes(SECRET.encode()), "pydantic.v1.types.SecretBytes"),
    ],
)
def test_a_secret_is_masked_wherever_it_stands_unless_asked_for(value: Any, name: str) -> None:
    masked = Tagged(name, MASKED, masked=True)
    assert read(value) == masked
    assert read({"a": [Point(1, value)]}) == {"a": [Tagged(f"{HERE}.Point", {"x": 1, "at": masked})]}
    assert SECRET not in repr(read([value]))
    shown = read(value, reveal=True)
    assert shown.type == name
    assert not shown.masked
    assert shown.value in (SECRET, SECRET.encode())


def test_a_secret_in_a_model_is_masked() -> None:
    model = Settings(key=pydantic.SecretStr(SECRET), since=datetime.date(2024, 1, 31))
    assert read(model) == Tagged(
        f"{HERE}.Settings",
        {
            "key": Tagged("pydantic.types.SecretStr", MASKED, masked=True),
            "since": Tagged("datetime.date", "2024-01-31"),
        },
    )
    old = read(Old(key=pydantic.v1.SecretStr(SECRET)))
    assert old.value["key"] == Tagged("pydantic.v1.types.SecretStr", MASKED, masked=True)
    assert read(model, reveal=True).value["key"].value == SECRET


def test_a_secret_stored_as_json_is_masked() -> None:
    text = '{"lc":2,"type":"constructor","id":["pydantic","types","SecretStr"],"args":["hush-hush"]}'
    assert json_read(text) == Tagged("pydantic.types.SecretStr", MASKED, masked=True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"lc":1,"type":"secret","id":["OPENAI_API_KEY"]}', Tagged("secret", "OPENAI_API_KEY")),
        (
            '{"lc":1,"type":"not_implemented","id":["app","Tool"],"repr":"Tool()"}',
            Tagged("app.Tool", "Tool()"),
        ),
        ('{"lc":2,"type":"undefined"}', Tagged("undefined", None)),
        (
            '{"lc": 2, "type": "constructor", "id": ["app", "E"], "method": null, "args": [1], "kwargs": {}}',
            Tagged("app.E", 1),
        ),
        (
            '{"lc": 2, "type": "constructor", "id": ["datetime", "timezone"], "method": null, "args": [{"lc": 2, '
            '"type": "constructor", "id": ["datetime", "timedelta"], "method": null, "args": [0, 0, 0], '
            '"kwargs": {}}], "kwargs": {}}',
            Tagged("datetime.timezone", "UTC"),
        ),
        (
            '{"lc": 2, "type": "constructor", "id": ["datetime", "datetime"], "method": "fromisoformat", '
            '"args": ["2024-01-31T01:00:00"], "kwargs": {}}',
            Tagged("datetime.datetime", "2024-01-31T01:00:00"),
        ),
        (
            '{"lc": 2, "type": "constructor", "id": ["uuid", "UUID"], "method": null, '
            '"args": ["00000000000000000000000000000001"], "kwargs": {}}',
            Tagged("uuid.UUID", "00000000-0000-0000-0000-000000000001"),
        ),
        (
            '{"lc": 2, "type": "constructor", "id": ["builtins", "set"], "method": null, "args": [[2, 1]], '
            '"kwargs": {}}',
            Tagged("builtins.set", [1, 2]),
        ),
        (
            '{"lc": 2, "type": "constructor", "id": ["app", "Dc"], "method": null, "args": [], "kwargs": {"x": 1}}',
            Tagged("app.Dc", {"x": 1}),
        ),
        (
            '{"lc": 2, "type": "constructor", "id": ["builtins", "bytes"], "method": "fromhex", '
            '"args": ["6162"], "kwargs": {}}',
            b"ab",
        ),
        (
            '{"lc":2,"type":"constructor","id":["Set"],"method":null,"args":[["b","a"]],"kwargs":{}}',
            Tagged("Set", ["a", "b"]),
        ),
        (
            '{"lc":2,"type":"constructor","id":["Map"],"method":null,"args":[[["k",1]]],"kwargs":{}}',
            Tagged("Map", [["k", 1]]),
        ),
        (
            '{"lc":2,"type":"constructor","id":["RegExp"],"method":null,"args":["a","gi"],"kwargs":{}}',
            Tagged("RegExp", {"pattern": "a", "flags": "gi"}),
        ),
        (
            '{"lc":2,"type":"constructor","id":["Uint8Array"],"method":"from","args":[[0,255]],"kwargs":{}}',
            b"\x00\xff",
        ),
        (
            '{"lc":2,"type":"constructor","id":["Uint8Array"],"method":"from","args":[99],"kwargs":{}}',
            Tagged("Uint8Array", 99),
        ),
        (
            '{"lc":2,"type":"constructor","id":["a","B"],"args":[1,2],"kwargs":{"c":3}}',
            Tagged("a.B", {"args": [1, 2], "kwargs": {"c": 3}}),
        ),
        ('{"lc":2,"type":"constructor","id":["a","B"]}', Tagged("a.B", {})),
        ('{"lc":3,"type":"constructor","id":["a","B"]}', {"lc": 3, "type": "constructor", "id": ["a", "B"]}),
        ('{"lc":1,"type":"constructor","id":"a"}', {"lc": 1, "type": "constructor", "id": "a"}),
        ('{"lc":[],"type":{},"id":null}', {"lc": [], "type": {}, "id": None}),
    ],
)
def test_json_constructors_become_tagged_values(text: str, shown: Any) -> None:
    assert json_read(text) == shown
    assert json_read(f'{{"in": [{text}]}}') == {"in": [shown]}


def test_a_plain_dictionary_of_msgpack_is_not_taken_for_a_constructor() -> None:
    fields = {"lc": 1, "type": "constructor", "id": ["a", "B"], "kwargs": {}}
    assert read(fields) == fields


def test_json_is_read_as_langgraph_reads_it() -> None:
    text = '{"a": 1, "a": 2, "big": 123456789012345678901234567890, "float": 1e16, "half": "\\ud800"}'
    decoded = json_read(text)
    assert decoded == {"a": 2, "big": 123456789012345678901234567890, "float": 1e16, "half": "\ud800"}
    assert type(decoded["float"]) is float
    assert json_read("[Infinity, -Infinity]") == [math.inf, -math.inf]
    assert math.isnan(json_read("NaN"))
    assert json_read(b'\xef\xbb\xbf"bom"') == "bom"
    assert json_read(b'"\xed\xa0\x80"') == "\ud800"


def test_an_integer_too_long_for_python_is_shown_by_its_digits() -> None:
    digits = "7" * 5000
    assert json_read(f"[1, {digits}]") == [1, Tagged("builtins.int", digits)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes.fromhex("d6ff00000001"), "1970-01-01T00:00:01Z"),
        (bytes.fromhex("c70cff00000001ffffffffffffffff"), "1969-12-31T23:59:59.000000001Z"),
        (
            ormsgpack.packb(
                datetime.datetime(2024, 10, 9, 1, 36, 0, 500_000, tzinfo=datetime.UTC),
                option=ormsgpack.OPT_DATETIME_AS_TIMESTAMP_EXT,
            ),
            "2024-10-09T01:36:00.5Z",
        ),
    ],
)
def test_a_timestamp_is_iso_text(data: bytes, text: str) -> None:
    assert packed(data) == Tagged("msgpack.Timestamp", text)


def test_a_timestamp_beyond_the_calendar_is_its_numbers() -> None:
    value = {"seconds": 2**63 - 1, "nanoseconds": 0}
    assert packed(bytes.fromhex("c70cff000000007fffffffffffffff")) == Tagged("msgpack.Timestamp", value)


def test_types_without_content_are_told_apart() -> None:
    assert decode(stored("null", b"")) is None
    assert decode(stored("bytes", b"\x00\x01")) == b"\x00\x01"
    assert decode(stored("bytearray", b"\x00")) == b"\x00"
    empty = decode(stored("empty", b""))
    assert isinstance(empty, Absent)
    assert empty.kind == "empty"


def test_an_encrypted_payload_says_what_is_stored() -> None:
    serializer = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16)
    kind, data = serializer.dumps_typed({"a": 1})
    assert decode(stored(kind, data)) == Absent(
        "encrypted",
        {
            "type": "msgpack+aes",
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "reason": "LANGGRAPH_AES_KEY is not set",
        },
    )
    assert decode(stored("null+rot13", b"")).kind == "encrypted"


@pytest.mark.parametrize("kind", ["pickle", "yaml", "", "Msgpack"])
def test_a_type_that_cannot_be_read_says_what_is_stored(kind: str) -> None:
    absent = decode(stored(kind, b"abc"))
    assert reason(absent)
    assert {key: absent.stored[key] for key in ("type", "bytes", "sha256")} == {
        "type": kind,
        "bytes": 3,
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }


def test_a_head_is_not_decoded() -> None:
    absent = decode(Stored("msgpack", b"\x91\x01", 3))
    assert "first 2" in reason(absent)
    assert absent.stored["bytes"] == 3
    assert "sha256" not in absent.stored


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b' [1, "x"]', [1, "x"]),
        (b"null", None),
        (b"5", 5),
        (b"\x81\xa1a\x01", {"a": 1}),
        (b"\x80", {}),
        (b"{", 123),
        (b"\xa1x", "x"),
    ],
)
def test_a_payload_without_a_type_is_read_by_what_it_looks_like(data: bytes, shown: Any) -> None:
    assert decode(stored(None, data)) == shown


def test_an_untyped_payload_that_looks_like_nothing_is_absent() -> None:
    assert "pickle" in reason(decode(stored(None, b"\x80\x04K\x01.")))
    assert reason(decode(stored(None, b"")))
    assert reason(decode(stored(None, b"\xc1\xc1")))
    assert reason(decode(stored(None, b"{ not json")))


@pytest.mark.parametrize(
    "part",
    [
        mutations.ext(42, b"x"),
        mutations.ext(-2, b"x"),
        mutations.ext(-1, b"\0\0"),
        mutations.ext(5, b"\x94\xa1m\xa1C"),
        mutations.ext(5, b""),
        mutations.ext(0, b"\x92\xa1m\xa1C"),
        mutations.ext(3, b"\x93\xa1m\xa1C\x01"),
        mutations.ext(0, b"\x93\x01\xa1C\x01"),
        mutations.ext(0, b"\x01"),
        mutations.ext(0, b"\xc1"),
        mutations.ext(7, b"\xdd\xff\xff\xff\xff"),
        b"\xa2\xff\xfe",
    ],
)
def test_a_damaged_part_is_absent_in_its_place_and_the_rest_stays_readable(part: bytes) -> None:
    decoded = packed(b"\x83\xa1a\x01\xa1b\x92" + part + b"\x02\xa1c" + mutations.instance(0, "m", "C", 3))
    absent, two = decoded.pop("b")
    assert decoded == {"a": 1, "c": Tagged("m.C", 3)}
    assert two == 2
    assert reason(absent)
    assert len(absent.stored["sha256"]) == 64


def test_a_damaged_argument_keeps_its_class() -> None:
    body = b"\x93\xa1m\xa1C" + mutations.ext(42, b"x")
    decoded = packed(mutations.ext(0, body))
    assert decoded.type == "m.C"
    assert reason(decoded.value) == "no such extension is known"


def test_text_of_json_that_is_not_utf8_is_absent_in_its_place() -> None:
    one, bad, two = json_read(b'["caf\xc3\xa9", "caf\xe9", 2]')
    assert (one, two) == ("caf\u00e9", 2)
    assert reason(bad) == "its text is not UTF-8"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x92\x01",
        b"\x01\x02",
        b"\xa5abc",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x05",
    ],
)
def test_a_payload_that_is_cut_or_damaged_as_a_whole_is_absent(data: bytes) -> None:
    assert reason(packed(data))
    assert reason(decode(stored("json", b"[1, 2")))


def test_keys_that_a_dictionary_cannot_hold_get_a_stable_stand_in() -> None:
    data = b"\x84\x80\x01\x81\x01\x02\x02\xd4\x05\x00\x03\x91\x80\x04"
    decoded = packed(data)
    assert list(decoded.values()) == [1, 2, 3, 4]
    assert [key.split()[0] for key in decoded] == ["<map", "<map", "<ext", "<array"]
    assert packed(data) == decoded


def nest(level: bytes, times: int) -> bytes:
    return level * times + b"\x01"


def extensions(code: int, times: int) -> bytes:
    data = b"\x01"
    for _ in range(times):
        data = mutations.ext(code, data if code == 7 else b"\x93\xa1m\xa1C" + data)
    return data


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("msgpack", nest(b"\x91", 300)),
        ("msgpack", nest(b"\x91", 100_000)),
        ("msgpack", nest(b"\x81\x01", 900)),
        ("msgpack", nest(b"\x81", 100_000)),
        ("msgpack", b"\x81" + nest(b"\x91", 900) + b"\x01"),
        ("msgpack", extensions(7, 3000)),
        ("msgpack", extensions(0, 3000)),
        ("json", b"[" * 300 + b"]" * 300),
        ("json", b"[" * 100_000 + b"]" * 100_000),
        ("json", b'{"a":' * 300 + b"1" + b"}" * 300),
        ("json", b"[" * 100_000),
        ("json", b'{"lc":1,"type":"constructor","id":["a"],"kwargs":' * 250 + b"1" + b"}" * 250),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[:8]!r}{len(value)}",
)
def test_nesting_is_bounded(kind: str, data: bytes) -> None:
    absent, depth = mutations.inspect(decode(stored(kind, data)))
    # An array that serves as a key has a stand-in instead; a constructor loses its fields and its id.
    assert absent == 1 or (absent == 0 and b"\x81\x91" in data) or (absent == 2 and b'"lc"' in data)
    assert depth <= LEVELS + 2


def test_what_is_not_nested_too_deeply_is_read_in_full() -> None:
    absent, depth = mutations.inspect(packed(nest(b"\x91", LEVELS)))
    assert (absent, depth) == (0, LEVELS + 1)


def test_an_ordered_mapping_keeps_its_order() -> None:
    assert list(read(OrderedDict(b=1, a=2))) == ["b", "a"]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module on the import path; the file returned exists once anything in it has run."""
    mark = tmp_path / "mark"
    touch = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n"
    calls = f"def mkdir(*args, **kwargs):\n    pathlib.Path({str(mark)!r}).touch()\n"
    (tmp_path / "planted_module.py").write_text(touch + calls)
    monkeypatch.syspath_prepend(str(tmp_path))
    return mark


def test_nothing_that_a_payload_names_is_imported_or_called(planted: Path) -> None:
    for kind, data in mutations.seeds("planted_module"):
        mutations.survives(stored(kind, data))
        decode(stored(kind, data), reveal=True)
    assert not planted.exists()
    assert "planted_module" not in sys.modules
    # The plant works: LangGraph's own reader springs it.
    JsonPlusSerializer().loads_typed(("msgpack", mutations.instance(0, "planted_module", "mkdir", "x")))
    assert planted.exists()
    del sys.modules["planted_module"]


def test_decoding_loads_no_module_of_langgraph_nor_what_could_run_code() -> None:
    seeds = mutations.seeds("xml.dom.minidom")
    backends = Path(__file__).parent.parent / "backends"
    script = f"""
import sys
sys.path.insert(0, {str(backends)!r})
from turnstate_backends.payload import decode
from turnstate_backends import heads
from turnstate_backends.values import Stored
assert not {{"ormsgpack", "msgpack"}} & set(sys.modules)
for kind, data in {seeds!r}:
    decode(Stored(kind, data, len(data)))
    for look in (heads.elements, heads.entries, heads.keys, heads.class_name):
        try:
            look(Stored(kind, data, len(data)))
        except (heads.Cut, heads.Unreadable):
            pass
print(*sorted(name.partition(".")[0] for name in sys.modules))
"""
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    forbidden = {"langgraph", "langchain_core", "langchain", "numpy", "pydantic", "pickle", "psycopg", "xml"}
    assert "ormsgpack" in loaded.split()
    assert not forbidden & set(loaded.split())


def test_50000_damaged_payloads_are_survived(planted: Path) -> None:
    outcomes = [
        mutations.survives(damaged)
        for damaged in mutations.mutated(mutations.seeds("planted_module"), 50_000, seed=20240131)
    ]
    assert not planted.exists()
    assert "planted_module" not in sys.modules
    # All three outcomes are common, so the damage reached every path.
    assert min(outcomes.count(outcome) for outcome in ("value", "part", "absent")) > 2_000
