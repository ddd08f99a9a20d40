"""Damaged payloads, the same ones for the same seed: what tests and the fuzzer feed the payload readers."""

from __future__ import annotations

import datetime
import decimal
import pathlib
import random
import re
import uuid
from collections import deque
from collections.abc import Iterator
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Overwrite, Send
from pydantic import SecretStr

from turnstate_backends import heads, payload
from turnstate_backends.values import Absent, Stored, Tagged

TYPES = [
    None,
    "json",
    "msgpack",
    "msgpack",
    "json",
    "pickle",
    "bytes",
    "msgpack+aes",
    "null",
    "empty",
    "yaml",
]
PLAIN = (type(None), bool, int, float, str, bytes)


def ext(code: int, body: bytes) -> bytes:
    """A msgpack extension with the widest header."""
    return b"\xc9" + len(body).to_bytes(4, "big") + code.to_bytes(1, "big", signed=True) + body


def instance(code: int, module: str, name: str, *rest: Any) -> bytes:
    """An object as LangGraph's msgpack encoding writes it."""
    return ext(code, ormsgpack.packb([module, name, *rest]))


def seeds(module: str = "os") -> list[tuple[str, bytes]]:
    """Whole payloads of every form; those of application classes name ``module``."""
    zone = datetime.timezone(datetime.timedelta(hours=1), "X")
    values = [
        [
            HumanMessage("hi", id="1"),
            AIMessage("yo", id="2", tool_calls=[{"name": "t", "args": {}, "id": "c"}]),
        ],
        {"plan": [1, -5, 2.5, True, None, "café"], 3: {"x": b"\x00\xff"}, (1, 2): [], "n": 2**64 - 1},
        [
            datetime.datetime(2024, 1, 31, tzinfo=zone),
            datetime.date(2024, 1, 31),
            datetime.timedelta(1, 2, 3),
        ],
        [datetime.time(1, 2, 3, tzinfo=zone), {3, 1}, deque([1]), re.compile("a"), pathlib.Path("/a/b")],
        [uuid.UUID(int=1), decimal.Decimal("1.5"), SecretStr("hush")],
        [Send("n", {"a": 1}), Overwrite([1]), _DeltaSnapshot([HumanMessage("a", id="1")])],
    ]
    lc = b'{"lc": %d, "type": "constructor", "id": ["%s", "mkdir"], "args": [1], "kwargs": {}}'
    array = ["<i4", [2, 3], "F", bytes(range(24))]
    return [
        *[JsonPlusSerializer().dumps_typed(value) for value in values],
        *[
            ("msgpack", instance(code, module, "mkdir", arg))
            for code, arg in ((0, "x"), (1, ["x"]), (2, {"x": 1}))
        ],
        ("msgpack", instance(3, module, "path", "x", "exists")),
        ("msgpack", instance(4, module, "mkdir", {"x": 1})),
        ("msgpack", instance(5, module, "mkdir", {"x": [1, {"y": None}]}, "model_validate_json")),
        ("msgpack", ext(6, ormsgpack.packb(array))),
        ("msgpack", ext(-1, bytes(12))),
        ("json", lc % (1, module.encode())),
        ("json", b"[" + lc % (2, module.encode()) + b', {"lc": 2, "type": "undefined"}]'),
        ("json", b'{"lc": 1, "type": "not_implemented", "id": ["%s", "X"], "repr": "X()"}' % module.encode()),
        ("json", b'{"a": [NaN, 1e16, 12345678901234567890123, "\\ud800", "caf\xc3\xa9"], "b": {"c": null}}'),
        ("pickle", b"\x80\x04c%s\nmkdir\n(S'x'\ntR." % module.encode()),
    ]


def mutated(seeds: list[tuple[str, bytes]], count: int, seed: int) -> Iterator[Stored]:
    """``count`` payloads, each a seed that was changed in one to four places, or only its head."""
    chance = random.Random(seed)
    for _ in range(count):
        kind, data = chance.choice(seeds)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            data = _mutate(chance, data, seeds)[:20_000]
        if kind == "msgpack" and chance.random() < 0.6:
            data = _wrapped(chance, data)
        stored_type = chance.choice(TYPES) if chance.random() < 0.1 else kind
        more = chance.choice((1, 20, 10**6)) if chance.random() < 0.1 else 0
        yield Stored(stored_type, data, len(data) + more)


def survives(stored: Stored) -> str:
    """Feed one payload to every reader; anything but an answer, ``Cut`` or ``Unreadable`` escapes.

    Returns:
        What :func:`payload.decode` made of it: ``absent``, ``part`` (of it is absent) or ``value``.
    """
    value = payload.decode(stored)
    absent, depth = inspect(value)
    assert depth <= payload.LEVELS + 3  # a leaf, and the parts of a readable form
    for look in (heads.elements, heads.entries, heads.keys, heads.class_name):
        try:
            found = look(stored)
        except (heads.Cut, heads.Unreadable):
            continue
        if look is heads.keys and found is not None and type(value) is dict:
            assert len(found) == len(value)
        if look is heads.elements and found is not None and type(value) is list:
            assert len(found) == len(value)
        if look is heads.class_name and type(value) is Tagged:
            assert found == value.type
    if isinstance(value, Absent):
        return "absent"
    return "part" if absent else "value"


def inspect(value: Any) -> tuple[int, int]:
    """How many parts of a decoded value are absent, and how deep it nests; fails on anything not plain."""
    absent = depth = 0
    level: list[Any] = [value]
    while level:
        depth += 1
        below: list[Any] = []
        for item in level:
            if type(item) is list:
                below.extend(item)
            elif type(item) is dict:
                for key in item:
                    hash(key)
                below.extend(item.values())
            elif type(item) is Tagged:
                assert type(item.type) is str
                below.append(item.value)
            elif type(item) is Absent:
                absent += 1
                assert "reason" in item.stored
            else:
                assert type(item) in PLAIN, type(item)
        level = below
    return absent, depth


def _wrapped(chance: random.Random, data: bytes) -> bytes:
    """A good payload whose second part is the damaged one, inside an extension."""
    code = chance.randrange(9)
    if chance.random() < 0.5:
        data = b"\x94\xa1m\xa1C" + data + b"\xadfromisoformat"
    return b"\x93\x01" + ext(code, data) + b"\x81\x01\xc0"


def _mutate(chance: random.Random, data: bytes, seeds: list[tuple[str, bytes]]) -> bytes:
    at = chance.randrange(len(data) + 1)
    way = chance.choice((0, 0, 0, 0, 1, 2, 2, 3, 4, 5, 6, 7))
    if way == 0 and data:
        at = min(at, len(data) - 1)
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if way == 1:
        return data[:at]
    if way == 2:
        return data[:at] + chance.randbytes(chance.randint(1, 4)) + data[at + chance.randint(0, 4) :]
    if way == 3:
        other = chance.choice(seeds)[1]
        return data[:at] + other[chance.randrange(len(other) + 1) :]
    if way == 4:
        return ext(chance.choice((-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 42, -128)), data)
    if way == 5:
        return chance.choice((b"\x91", b"\x81\xa1k", b"\x81", b"\x92\x01")) + data
    if way == 6:
        head = chance.choice((b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"))
        return data[:at] + head + chance.choice((b"\xff" * 4, b"\0\0\0\x02", b"\x10\0\0\0")) + data[at:]
    depth = chance.choice((3, 50, 300, 1030))
    return chance.choice((b"\x91", b"[", b'{"lc":', b"\x81\x01", b"\x81")) * depth + data
