"""Values and stored text on the way out: nothing hostile gets through, nothing is lost in JSON."""

from __future__ import annotations

import io
import json
import math
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec.structs import replace

from turnstate.history.jsonform import jsonable
from turnstate.history.query import queryable
from turnstate.history.summary import summary_of, type_of
from turnstate.history.times import iso
from turnstate.render import screen as screens
from turnstate.render.screen import screen
from turnstate.render.tables import Cell, Column, plain_lines
from turnstate.render.text import multi_line, numbers, one_line, second, size, took
from turnstate.render.values import Shared, json_text, value_text
from turnstate_backends.values import Absent, Tagged

HOSTILE = {
    "\x1b[31m": "\\x1b[31m",
    "a\x07b": "a\\x07b",
    "\x7f": "\\x7f",
    "\x9b2J": "\\x9b2J",
    "\u202eevil": "\\u202eevil",
    "\u2066x\u2069": "\\u2066x\\u2069",
    "one\u2028two": "one\\u2028two",
    "\ud800": "\\ud800",
    "\U000e0041": "\\U000e0041",
    "\r": "\\r",
    "nul\x00": "nul\\x00",
}


def deep(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(("text", "shown"), HOSTILE.items())
def test_what_a_terminal_would_act_on_is_shown_escaped(text: str, shown: str) -> None:
    assert one_line(text) == shown
    assert multi_line(text) == shown.replace("\\r", "\\x0d")


def test_a_line_feed_stays_in_a_value_and_is_a_mark_in_a_cell() -> None:
    assert one_line("a\nb\tc") == "a⏎b\\tc"
    assert multi_line("a\nb\tc") == "a\nb\tc"


def test_markup_and_emoji_codes_are_plain_text() -> None:
    assert (
        plain_lines([Column("key")], [[Cell("[red]x[/] :smile: [/etc/passwd]")]])[1]
        == "[red]x[/] :smile: [/etc/passwd]"
    )


def test_text_in_other_scripts_stays_readable() -> None:
    assert one_line("Ærø, 東京, 👩‍🚀") == "Ærø, 東京, 👩‍🚀"


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_hostile_text_in_json_is_escaped_and_keeps_its_meaning(text: str, ascii_only: bool) -> None:
    written = json_text({text if text != "\ud800" else "k": [text]}, ascii_only=ascii_only)
    assert json.loads(written)[text if text != "\ud800" else "k"] == [text]
    written.encode("ascii" if ascii_only else "utf-8")
    assert written.isprintable()


@pytest.mark.parametrize("value", [[1e22, 55], "Ærø", 2**70, "\ud800", {"deep": deep(300)}])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_value_that_stands_in_a_document_twice_is_written_in_both_places(
    value: Any, ascii_only: bool
) -> None:
    shared = Shared(value)
    written = json_text({"value": shared, "entry": {"seq": 2**65, "value": shared}}, ascii_only=ascii_only)
    assert json.loads(written) == {"value": value, "entry": {"seq": 2**65, "value": value}}
    written = json_text({"value": shared, "entry": {"seq": 1, "value": shared}}, ascii_only=ascii_only)
    assert json.loads(written) == {"value": value, "entry": {"seq": 1, "value": value}}
    written.encode("ascii" if ascii_only else "utf-8")


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (1e16, 1e16),
        (math.nan, {"$type": "float", "$value": "NaN"}),
        (math.inf, {"$type": "float", "$value": "Infinity"}),
        (-math.inf, {"$type": "float", "$value": "-Infinity"}),
        (b"\x00\xff", {"$type": "bytes", "$base64": "AP8="}),
        ({1: "a"}, {"$type": "dict", "$value": [[1, "a"]]}),
        ({"$type": "forged"}, {"$type": "dict", "$value": [["$type", "forged"]]}),
        (Tagged("m.C", {"a": [b""]}), {"$type": "m.C", "$value": {"a": [{"$type": "bytes", "$base64": ""}]}}),
        (Tagged("m.Secret", "***", masked=True), {"$type": "m.Secret", "$value": "***", "$masked": True}),
        (Absent("encrypted", {"bytes": 3}), {"$absent": "encrypted", "bytes": 3}),
        ([1, 2.5, True, -(2**80)], [1, 2.5, True, -(2**80)]),
        ([1.0, None, "a"], [1.0, None, "a"]),
        (
            [math.inf, -math.inf],
            [{"$type": "float", "$value": "Infinity"}, {"$type": "float", "$value": "-Infinity"}],
        ),
        ([0.5, math.nan], [0.5, {"$type": "float", "$value": "NaN"}]),
        ([1e308, 1e308], [1e308, 1e308]),
        (
            [2**14000, -(2**14000)],
            [{"$type": "int", "$value": hex(2**14000)}, {"$type": "int", "$value": hex(-(2**14000))}],
        ),
    ],
)
def test_every_kind_of_value_has_one_json_form(value: Any, form: Any) -> None:
    assert jsonable(value) == form
    assert json.loads(json_text([jsonable(value)])) == [form]


def test_the_deepest_values_can_be_written_in_every_form() -> None:
    value: Any = 1
    for level in range(200):
        value = {level: value} if level % 2 else Tagged("m.C", [value])
    assert json_text(jsonable(value)).count("m.C") == 100
    assert json.dumps(json.loads(value_text(jsonable(value)))).count("m.C") == 100
    assert value_text(value).count("m.C") == 100
    queryable(value)


def test_plain_data_is_shown_as_json_and_text_as_itself() -> None:
    assert value_text("a\n[b]") == "a\n[b]"
    assert value_text([12.4, 55.5]) == "[12.4, 55.5]"
    assert value_text({"a": None, "b": [True, "x"]}) == '{"a": null, "b": [true, "x"]}'
    long = {"a": ["x" * 60, "y" * 60], "b": 1}
    assert (
        value_text(long) == '{\n  "a": [\n    "' + "x" * 60 + '",\n    "' + "y" * 60 + '"\n  ],\n  "b": 1\n}'
    )
    assert json.loads(value_text(long)) == long


def test_kinds_that_json_lacks_are_named() -> None:
    assert value_text(Tagged("geo.Place", {"lat": 1.5})) == 'geo.Place {"lat": 1.5}'
    assert (
        value_text([Absent("undecodable", {"reason": "cut short"}), math.nan])
        == "[<undecodable: cut short>, NaN]"
    )
    assert value_text(Tagged("m.Secret", "***", masked=True)) == "m.Secret (masked)"


@pytest.mark.parametrize(
    ("value", "kind", "summary"),
    [
        ([12.4, 55.5], "list", "2 items: 12.4, 55.5"),
        ([], "list", "0 items"),
        ({"value": 1, "tool": 2}, "dict", "2 fields: value, tool"),
        ("some words", "str", "some words"),
        (None, "null", "null"),
        (True, "bool", "true"),
        (b"abc", "bytes", "3 bytes"),
        (Tagged("m.HumanMessage", {"content": "Hi", "id": "1"}), "m.HumanMessage", "2 fields: content, id"),
        ([Tagged("m.HumanMessage", {"content": "Hi"})], "list", '1 item: HumanMessage "Hi"'),
        (Absent("encrypted", {"reason": "no key"}), "encrypted", "no key"),
    ],
)
def test_a_summary_names_kind_and_content(value: Any, kind: str, summary: str) -> None:
    assert (type_of(value), summary_of(value)) == (kind, summary)


def test_a_summary_is_never_long() -> None:
    assert len(summary_of("x" * 10_000)) == 72
    assert len(summary_of(["y" * 500] * 1000)) <= 72
    assert len(summary_of(10**5000)) <= 72


def test_an_empty_cell_holds_its_column_and_a_long_one_pushes_only_its_own_row() -> None:
    lines = plain_lines([Column("a"), Column("b")], [[Cell(""), Cell("1")], [Cell("x" * 50), Cell("2")]])
    assert lines == ["A  B", "-  1", "x" * 50 + "  2"]


def test_times_durations_sizes_and_turns_in_words() -> None:
    noon = datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    assert (iso(noon), second(noon)) == ("2026-03-01T12:00:00Z", "2026-03-01 12:00:00Z")
    assert [took(s) for s in (0.0801, 1.25, 59.97, 200, 7500, 277200)] == [
        "80ms",
        "1.2s",
        "1m00s",
        "3m20s",
        "2h05m",
        "3d5h",
    ]
    assert [size(n) for n in (512, 4200, 17_000_000)] == ["512 B", "4.2 kB", "17.0 MB"]
    assert numbers((1, 2, 3, 4, 7, 9, 10)) == "1–4, 7, 9, 10"


@pytest.mark.parametrize(
    ("color", "env", "colored"),
    [
        ("auto", {}, False),
        ("always", {"NO_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": "0"}, False),
        ("auto", {"FORCE_COLOR": ""}, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_is_decided_by_option_then_environment_then_terminal(
    color: str, env: dict[str, str], colored: bool
) -> None:
    assert screen(color, env).color is colored


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_work_says_so_on_a_terminal_and_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "_DELAY", 0.01)
    err = Terminal()
    on = replace(screen(), err=err, width=80)
    with screens.progress(on, "reading", {"TERM": "xterm"}):
        while not err.getvalue():
            time.sleep(0.005)
    assert err.getvalue() == "\rreading …\r\x1b[2K"


@pytest.mark.parametrize(("err", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb")])
def test_long_work_says_nothing_to_anything_but_a_terminal(
    err: io.StringIO, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screens, "_DELAY", 0.0)
    with screens.progress(replace(screen(), err=err), "reading", {"TERM": term}):
        time.sleep(0.05)
    assert err.getvalue() == ""


def test_a_note_on_a_terminal_is_folded_between_words() -> None:
    err = Terminal()
    replace(screen(), err=err, err_color=False, width=20).note(
        "checkpoint 1f1ecbd5-fe41-64a6-8002-68ff27e2c62d was read"
    )
    assert err.getvalue() == "checkpoint\n  1f1ecbd5-fe41-64a6-8002-68ff27e2c62d\n  was read\n"
