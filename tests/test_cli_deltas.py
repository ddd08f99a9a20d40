"""``--reducer`` on the command line, and what is said where a value cannot be rebuilt."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_run import run, run_process, store

SHOW = ("show", "no-snapshot", "tool_state", "--turn", "1", "--store", store("deltas"))
VALUE = {"lookup/1": {"value": 10, "seq": 1}}


def test_a_value_that_cannot_be_rebuilt_says_why_and_what_would_help() -> None:
    done = run(*SHOW)
    assert (done.code, done.out) == (6, "")
    assert done.err.splitlines()[:2] == [
        "delta_unresolved: no later or earlier snapshot shows how its writes add up, 1 write and no snapshot",
        "--reducer CHANNEL=RULE says how its writes add up, see show --help",
    ]


def test_its_document_has_the_facts() -> None:
    document = run(*SHOW, "--json").document
    assert document["outcome"] == "delta_unresolved"
    assert document["stored"] == {
        "type": "delta",
        "reason": "no later or earlier snapshot shows how its writes add up",
        "rule": "unknown",
        "writes": 1,
    }


def test_a_rule_that_is_named_rebuilds_it() -> None:
    done = run(*SHOW, "--json", "--reducer", "tool_state=merge")
    assert (done.code, done.document["value"]) == (0, VALUE)


@pytest.mark.parametrize("verb", ["keys", "log", "diff"])
def test_every_verb_that_reads_values_takes_it(verb: str) -> None:
    done = run(verb, "no-snapshot", "--json", "--reducer", "tool_state=merge", "--store", store("deltas"))
    assert done.code == 0
    assert "lookup/4" in done.out
    assert "delta_unresolved" not in done.out


def test_a_function_of_the_present_folder_is_run_and_its_prints_are_no_data(tmp_path: Path) -> None:
    code = (
        "print('imported')\ndef merge(old, writes):\n    print('called')\n    return {**old, **writes[-1]}\n"
    )
    (tmp_path / "mine.py").write_text(code)
    done = run_process(*SHOW, "--json", "--reducer", "tool_state=mine:merge", cwd=tmp_path)
    assert done.code == 0
    assert done.document["value"] == VALUE
    assert set(done.err.splitlines()) == {"imported", "called"}


def test_nothing_is_imported_where_no_function_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit(77)")
    done = run_process(*SHOW, "--reducer", "tool_state=merge", cwd=tmp_path)
    assert done.code == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tool_state", "'tool_state' is not CHANNEL=RULE."),
        ("tool_state=", "'tool_state=' is not CHANNEL=RULE."),
        ("tool_state=merge,tool_state=union", "'tool_state' is given twice."),
        (
            "tool_state=sum",
            "'sum' is neither messages, extend, append, add-new, merge, union, replace nor module:function.",
        ),
        ("tool_state=nowhere:merge", "the reducer nowhere:merge cannot be imported"),
        ("tool_state=json:nothing", "the reducer json:nothing cannot be imported"),
        ("tool_state=json:__name__", "json:__name__ is no function"),
    ],
)
def test_what_is_no_rule_is_a_usage_error(given: str, said: str) -> None:
    done = run(*SHOW, "--reducer", given)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.split())


def test_a_rule_that_does_not_fit_the_writes_is_said() -> None:
    done = run(*SHOW, "--reducer", "tool_state=union")
    assert done.code == 6
    assert "by the rule union: it is no set" in done.err
