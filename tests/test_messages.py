"""A message that is read by its fields alone is what decoding all of it gives, whatever is stored."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, HumanMessageChunk
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Overwrite

import mutations
from turnstate.history.messages import (
    CLASSES,
    NotMessages,
    _message,
    _Spoken,
    of_plain,
    read_after,
    read_messages,
)
from turnstate_backends import heads
from turnstate_backends.payload import decode
from turnstate_backends.values import Stored

SPOKEN: list[Any] = [
    HumanMessage("What did you find?"),
    HumanMessage("café", id="1", name="critic"),
    HumanMessage(
        "a summary", additional_kwargs={"lc_source": "summarization", "n": [1, {"deep": AIMessage("x")}]}
    ),
    HumanMessage(
        [{"type": "text", "text": "an image"}, {"type": "image_url", "image_url": "http://x"}], id="2"
    ),
    HumanMessage(["two", "texts"], response_metadata={"at": 1.5}),
    HumanMessageChunk("chunk", id="3"),
    HumanMessage(""),
]


def stored(value: Any) -> Stored:
    kind, data = JsonPlusSerializer().dumps_typed(value)
    return Stored(kind, data, len(data))


@pytest.mark.parametrize("message", SPOKEN)
def test_a_human_message_is_read_as_it_was_spoken(message: HumanMessage) -> None:
    held = stored(message)
    found = _message(held)
    assert (found.role, found.id, found.name) == ("human", message.id, message.name)
    assert found.summary == bool(message.additional_kwargs)
    assert (heads.fields_of(held, _Spoken) is not None) == isinstance(message.content, str)
    if isinstance(message.content, str):
        assert found.text == message.content
    assert found == of_plain(decode(held), held.data)


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_human_message_is_read_as_decoding_it_gives(seed: int) -> None:
    seeds = [(each.type or "", each.data) for each in map(stored, SPOKEN)]
    # as a call of a method, and as fields of a class that is no model: of the same name and arguments
    seeds += [
        (
            "msgpack",
            mutations.instance(code, "langchain_core.messages", "HumanMessage", {"content": "x"}, *more),
        )
        for code, more in ((3, ("construct",)), (2, ()), (2, ("x",)), (4, ("x",)), (5, ()), (1, ("x",)))
    ]
    by_fields = 0
    for held in mutations.mutated(seeds, 10_000, seed):
        try:
            name = heads.class_name(held)
        except (heads.Cut, heads.Unreadable):
            continue
        if name is None or CLASSES.get(name.rpartition(".")[2]) != "human" or not held.complete:
            continue
        by_fields += heads.fields_of(held, _Spoken) is not None
        assert _message(held) == of_plain(decode(held), held.data)
    assert by_fields > 200


LISTS: list[Any] = [
    ["user"],
    ["user", "hi"],
    ["user", "hi", "there"],
    [HumanMessage("a", id="1")],
    [HumanMessage("a", id="1"), AIMessage("b", id="2")],
    [HumanMessage("a", id="1"), AIMessage("b", id="2"), HumanMessage("a", id="3")],
    [AIMessage("b", id="2"), HumanMessage("a", id="3"), {"role": "user", "content": "c"}],
    Overwrite([HumanMessage("a", id="1")]),
    HumanMessage("a", id="1"),
    [],
    {"content": "no list"},
]


@pytest.mark.parametrize("old", LISTS)
@pytest.mark.parametrize("new", LISTS)
def test_a_list_read_after_another_is_what_it_is_alone(old: Any, new: Any) -> None:
    before, after = stored(old), stored(new)
    assert read_after(after, before, read_messages(before)) == read_messages(after)


def test_the_same_bytes_of_another_type_are_another_list() -> None:
    text = b'["a"]'
    before = Stored("json", text, len(text))
    with pytest.raises(NotMessages):
        read_after(Stored("msgpack", text, len(text)), before, read_messages(before))
