"""Charts of keys by turns: the grid, and how it is drawn."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli_run import run, run_in_terminal, store
from recorded import delete_blobs, delete_rows, record_to_postgres, recording
from test_log import converse
from turnstate.history.chart import Cell, Chart, ChartRow, chart_of
from turnstate.history.keys import Key
from turnstate.history.log import Log, span_of
from turnstate.history.thread import History
from turnstate.history.turns import Turn, Turns
from turnstate.render.chart import chart_lines, shortened
from turnstate_backends.stores import open_store

BBOX = "gazet/get_aoi/bbox"
W: Cell = "written"
U: Cell = "unchanged"


def cells(path: Path | str, thread: str) -> dict[str, tuple[Cell, ...]]:
    with open_store(str(path)) as opened:
        return {row.name: row.cells for row in chart_of(Log(History(opened, thread))).rows}


def test_the_demo_wrote_the_area_in_turns_1_and_3() -> None:
    assert cells(recording("demo").path, "demo") == {
        "messages": (W, W, W),
        "plan": (W, U, W),
        BBOX: (W, U, W),
    }


def test_a_pruned_turn_is_pruned_and_what_was_written_before_is_unchanged_since() -> None:
    assert cells(recording("demo-pruned").path, "demo") == {
        "messages": ("pruned", "unknown", W),
        "plan": ("pruned", "unknown", W),
        BBOX: ("pruned", "unknown", W),
    }


P: Cell = "pruned"
N: Cell = "unknown"
A: Cell = "absent"


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        (
            "thinned",
            {
                "messages": (N, "changed", "changed", "changed"),
                "plan": (N, "changed", "changed", "changed"),
                "lookup/1": (N, "equal", "equal", "equal"),
                "lookup/2": (A, "added", "equal", "equal"),
                "lookup/3": (A, A, "added", "equal"),
                "lookup/4": (A, A, A, "added"),
            },
        ),
        (
            "one-turn-gone",
            {
                "messages": (W, "changed", W, W),
                "plan": (W, "changed", W, W),
                "lookup/1": (W, "equal", U, U),
                "lookup/2": (A, "added", U, U),
                "lookup/3": (A, A, W, U),
                "lookup/4": (A, A, A, W),
            },
        ),
        (
            "front-mid-turn",
            {
                "messages": (P, P, W, W),
                "plan": (P, P, N, W),
                "lookup/1": (P, P, N, U),
                "lookup/2": (P, P, N, U),
                "lookup/3": (P, P, N, U),
                "lookup/4": (P, P, A, W),
            },
        ),
        (
            "front-at-input",
            {
                "messages": (P, P, N, W, W),
                "plan": (P, P, N, W, W),
                "lookup/1": (P, P, N, U, U),
                "lookup/2": (P, P, N, U, U),
                "lookup/3": (P, P, N, U, U),
                "lookup/4": (P, P, A, W, U),
                "lookup/5": (P, P, A, A, W),
            },
        ),
        (
            "latest-only",
            dict.fromkeys(("messages", "plan", *(f"lookup/{n}" for n in range(1, 6))), (P, P, P, P, N)),
        ),
    ],
)
def test_of_a_turn_that_lost_steps_its_ends_tell_and_what_they_cannot_is_unknown(
    thread: str, expected: dict[str, tuple[Cell, ...]]
) -> None:
    assert cells(recording("retention").path, thread) == expected


@pytest.mark.parametrize(("thread", "turns"), [("thinned", (2, 3, 4)), ("one-turn-gone", (2,))])
def test_a_chart_of_a_turn_that_lost_steps_agrees_with_the_recorded_states(
    thread: str, turns: tuple[int, ...]
) -> None:
    truth = recording("retention").threads[thread]
    told = cells(recording("retention").path, thread)
    for number in turns:
        old, new = ({**s, **s["tool_state"]} for s in (truth.turn(n).state for n in (number - 1, number)))
        for name, row in told.items():
            expected = (
                "absent"
                if name not in new
                else "added"
                if name not in old
                else "equal"
                if old[name] == new[name]
                else "changed"
            )
            assert row[number - 1] == expected, (name, number)


def only_ends(path: Path) -> None:
    """Delete every row of ``t`` but the last of each turn, and all writes."""
    with open_store(str(path)) as opened:
        history = History(opened, "t")
        ends = {turn.end for turn in history.turns.turns[1:]}
        lost = [row.id for i, row in enumerate(history.line.rows) if i not in ends]
        every = [row.id for row in history.line.rows]
    delete_rows(path, "t", lost)
    delete_rows(path, "t", every, checkpoints=False, writes=True)


def test_what_went_or_cannot_be_compared_in_steps_that_are_gone_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(
        path,
        [
            [{"notes": {"a": 1}}, {"plan": "x"}],
            [{"notes": {"b": 1}}, {"notes": {"c": 1}}],
            [{"notes": {"b": 2}}],
            [{"plan": "x"}],
        ],
    )
    only_ends(path)
    told = cells(path, "t")
    assert told["a"] == (N, "removed", A, A)
    assert told["b"] == (A, "added", "changed", "equal")
    assert told["plan"] == (N, "equal", "equal", "equal")


def test_cells_of_lost_steps_have_signs_and_words_of_their_own_and_fit_80_columns() -> None:
    argv = ("turns", "thinned", "--chart", "--store", store("retention"))
    assert run(*argv).out == (
        "          1 2 3 4\n"
        "messages  : % % %\n"
        "plan      : % % %\n"
        "lookup/1  : - - -\n"
        "lookup/2    + - -\n"
        "lookup/3      + -\n"
        "lookup/4        +\n"
        "\n"
        "+ added, by no step that is kept   % changed, by no step that is kept   "
        "- equal, steps are gone   : not known, steps are gone   blank not there\n"
    )
    seen = run_in_terminal(*argv, "--color", "never", columns=80)
    lines = re.sub(r"[^\n]*\x1b\[2K", "", seen).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("changed, by no step that is kept" in line for line in lines)
    named = run(*argv, "--json").document["keys"]
    assert named[1]["cells"] == ["unknown", "changed", "changed", "changed"]


def test_a_value_that_was_read_back_in_another_form_is_charted_as_changed_and_not_as_written() -> None:
    told = cells(recording("values").path, "values")
    assert (told["generic"], told["items"]) == ((W, A), (A, "added"))
    named = run("log", "values", "generic", "--chart", "--json", "--store", store("values")).document["keys"]
    assert named[0]["cells"] == ["written", "changed"]


def test_each_kind_of_cell_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    turns = (
        [{"plan": "a"}],
        [{"notes": {"a": 1}}],
        [{"plan": "a"}],
        [{"notes": {"b": 1}}, {"notes": {"c": 1}}],
    )
    converse(path, turns)
    told = cells(path, "t")
    assert told["plan"] == (W, U, "same", U)
    assert told["a"] == ("absent", W, U, "removed")
    assert told["b"] == ("absent", "absent", "absent", W)


def test_what_cannot_be_read_is_unreadable() -> None:
    assert cells(recording("encrypted").path, "encrypted")["plan"] == (W, "unreadable")


def broken_turn(path: Path, number: int) -> None:
    """Make every row of a turn of ``t`` undecodable."""
    with open_store(str(path)) as opened:
        history = History(opened, "t")
        turn = history.turns.turns[number]
        assert turn.first is not None
        assert turn.last is not None
        ids = [row.id for row in history.line.rows[turn.first : turn.last + 1]]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "UPDATE checkpoints SET checkpoint = x'c1' WHERE checkpoint_id = ?", [(id,) for id in ids]
        )


@pytest.mark.parametrize("keys", [None, [Key("notes", "a"), Key("notes", "b"), Key("plan")]])
def test_what_can_be_read_again_after_a_version_that_cannot_is_unreadable_in_that_turn_only(
    tmp_path: Path, keys: list[Key] | None
) -> None:
    path = tmp_path / "store.db"
    converse(
        path,
        [
            [{"notes": {"a": 1}}, {"plan": "x"}],
            [{"notes": {"b": 1}}, {"plan": "y"}],
            [{}],
            [{"notes": {"b": 2}}],
        ],
    )
    broken_turn(path, 2)
    with open_store(str(path)) as opened:
        rows = chart_of(Log(History(opened, "t")), keys).rows
    told = {row.name: row.cells for row in rows if row.name != "messages"}
    assert told == {
        "a": (W, "unreadable", U, U),
        "plan": (W, "unreadable", U, U),
        "b": ("absent", "unreadable", U, W),
    }


def test_a_value_that_is_missing_in_one_version_of_a_mapping_is_unreadable_in_that_turn_only(
    pg_dsn: str,
) -> None:
    thread = record_to_postgres("plain", pg_dsn).threads["plain"]
    delete_blobs(pg_dsn, "plain", "tool_state", checkpoint=thread.turn(2).last_checkpoint)
    told = cells(pg_dsn, "plain")
    assert "tool_state" not in told
    assert told["lookup/1"] == (W, "unreadable", *[U] * 8)
    assert told["lookup/2"] == ("absent", "unreadable", *[U] * 8)
    assert told["lookup/3"] == ("absent", "unreadable", W, *[U] * 7)


def test_a_mapping_has_a_row_of_its_own_only_while_it_has_no_entries_or_is_none(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"notes": {}}], [{"notes": {"a": 1}}], [{"plan": "x"}]])
    told = cells(path, "t")
    assert "notes" not in told
    assert told["a"] == ("absent", W, U)
    only = tmp_path / "only.db"
    converse(only, [[{"notes": {}}], [{}]])
    assert cells(only, "t")["notes"] == (W, U)
    other = tmp_path / "other.db"
    converse(other, [[{"plan": "text"}], [{"plan": {"a": 1}}], [{"plan": "text"}]])
    told = cells(other, "t")
    assert told["plan"] == (W, "absent", W)
    assert told["plan:a"] == ("absent", W, "removed")


def test_a_span_has_its_turns_only_and_knows_what_was_before() -> None:
    with open_store(str(recording("demo").path)) as opened:
        log = Log(History(opened, "demo"))
        chart = chart_of(log, [Key("plan")], span=span_of(log.history, 2, 3))
    assert (chart.numbers, [row.cells for row in chart.rows]) == ((2, 3), [(U, W)])


def test_a_chart_as_a_document() -> None:
    for argv in (["turns", "demo"], ["log", "demo"]):
        told = run(*argv, "--chart", "--json", "--store", store("demo")).document
        assert (told["schema"], told["turns"], told["total_turns"]) == ("turnstate.chart/1", [1, 2, 3], 3)
        assert told["keys"][2] == {
            "key": BBOX,
            "channel": "tool_state",
            "entry_name": BBOX,
            "turns_written": [1, 3],
            "cells": ["written", "unchanged", "written"],
        }
    lines = run("log", "demo", "plan", "--chart", "--jsonl", "--store", store("demo")).documents
    assert [line["cells"] for line in lines] == [["written", "unchanged", "written"]]


def test_a_chart_is_drawn_with_plain_signs_where_there_is_no_colour() -> None:
    assert run("log", "demo", "--chart", "--store", store("demo")).out == (
        "                    1 2 3\n"
        "messages            # # #\n"
        "plan                # . #\n"
        "gazet/get_aoi/bbox  # . #\n"
        "\n"
        "# written   . unchanged\n"
    )


def test_a_chart_in_colour_has_signs_of_its_own() -> None:
    out = run("log", "demo", "plan", "--chart", "--color", "always", "--store", store("demo")).out
    assert "\x1b[32m●\x1b[0m \x1b[2m·\x1b[0m \x1b[32m●\x1b[0m" in out
    assert "● written   · unchanged" in out


def long_chart(count: int, *names: str) -> Chart:
    """A key that every tenth turn wrote, under some names."""
    turns = tuple(Turn(n, None, n, n, n, "complete") for n in range(count + 1))
    row: tuple[Cell, ...] = tuple("written" if n % 10 == 0 else "unchanged" for n in range(1, count + 1))
    rows = tuple(ChartRow(Key("c", name), name, row) for name in names)
    return Chart("t", "", Turns(turns, "questions", "exact"), tuple(range(1, count + 1)), rows)


@pytest.mark.parametrize("width", [80, 160])
def test_200_turns_are_folded_into_bands_with_a_number_over_every_tenth(width: int) -> None:
    lines = list(chart_lines(long_chart(200, "plan", "area"), width=width, plain=True))
    assert max(map(len, lines)) <= width
    bands = "\n".join(lines).split("\n\n")
    assert len(bands) == {80: 3, 160: 2}[width]
    seen = ""
    for band in bands:
        ruler, ticks, plan, area = band.splitlines()
        assert plan[6:] == area[6:]
        seen += plan[6:]
        for number in re.finditer(r"\d+", ruler):
            assert ticks[number.start()] == "|"
            turn = int(number[0])
            assert plan[number.start()] == ("#" if turn % 10 == 0 else ".")
    assert seen == (".........#") * 20
    assert {int(n) for n in re.findall(r"\d+", " ".join(band.splitlines()[0] for band in bands))} >= {
        *range(10, 201, 10)
    }


def test_elsewhere_than_on_a_terminal_nothing_is_folded_or_shortened() -> None:
    name = "a/very/long/name/" * 8
    lines = list(chart_lines(long_chart(200, name), width=None, plain=True))
    assert len(lines) == 3
    assert lines[2] == name + "  " + ".........#" * 20


def test_a_long_key_is_shortened_in_the_middle_on_a_terminal() -> None:
    name = "gazetteer/" * 6 + "bbox"
    *_, line = chart_lines(long_chart(5, name), width=80, plain=False)
    assert line.startswith("gazetteer/")
    assert re.search(r"…\S*bbox  ", line)
    assert shortened("abcdefghij", 5, "…") == "ab…ij"
    assert shortened("abcde", 5, "…") == "abcde"


def test_a_chart_fits_a_terminal_and_names_keys_safely(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    converse(path, [[{"notes": {"\x1b[31mred": n}}] for n in (1, 2)])
    seen = run_in_terminal("turns", "t", "--chart", "--color", "never", "--store", str(path), columns=40)
    assert "\\x1b[31mred" in seen
    assert max(map(len, re.sub(r"[^\n]*\x1b\[2K", "", seen).splitlines())) <= 40
