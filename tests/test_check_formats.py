"""Reports of a check for other programs, read back as those programs read them; hostile text is but text in each."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from cli_run import Result, run, store
from recorded import recording

HOSTILE = '100% <b>&"]]> :: , \x1b[31m `x` ``` | # \\ \uffff\n::error::x é'
WRITTEN = HOSTILE.replace("\\", "\\\\").replace('"', '\\"').replace("\x1b", "\\u001b").replace("\n", "\\n")
SHOWN = '100% <b>&"]]> :: , \\x1b[31m `x` ``` | # \\ \uffff⏎::error::x é'
TABLES = f"""
[[expect]]
name = "it holds"
thread = "demo"
turns = 3
[[expect]]
name = "{WRITTEN}"
thread = "demo"
key = "plan"
turn = 1
equals = "{WRITTEN}"
[[expect]]
name = "not told"
thread = "demo"
messages = "none"
turns = 3
[[expect]]
name = "not there"
thread = "demo"
key = "plan"
turn = 8
equals = 1
"""


def report(folder: Path, *argv: str, tables: str = TABLES, env: dict[str, str] | None = None) -> Result:
    (folder / "turnstate.toml").write_text(f'store = "{store("demo")}"{tables}', encoding="utf-8")
    return run("check", *argv, cwd=folder, env=env)


def checkpoint(turn: int) -> str:
    return recording("demo").threads["demo"].turn(turn).last_checkpoint


def test_json_has_every_expectation_with_what_was_expected_and_found_and_where(tmp_path: Path) -> None:
    result = report(tmp_path, "--format", "json")
    document = result.document
    assert result.code == 2
    totals = ("schema", "total", "holds", "fails", "error", "not_run")
    assert [document[name] for name in totals] == ["turnstate.check/1", 4, 1, 2, 1, 0]
    holds, fails, error, missing = document["results"]
    assert (holds["name"], holds["status"], holds["line"], holds["kind"]) == (
        "it holds",
        "holds",
        2,
        "thread",
    )
    assert fails == {
        "name": HOSTILE,
        "file": "turnstate.toml",
        "line": 6,
        "kind": "value",
        "thread": "demo",
        "key": "plan",
        "status": "fails",
        "turn": 1,
        "checkpoint": checkpoint(1),
        "conditions": [
            {
                "condition": "equals",
                "holds": False,
                "outcome": "value",
                "expected": HOSTILE,
                "found": "look up the area",
                "patch": [{"op": "replace", "path": "", "value": "look up the area"}],
            }
        ],
    }
    assert (error["status"], error["conditions"]) == ("error", [])
    assert error["message"].startswith("thread 'demo' has no channel 'none'")
    assert missing["conditions"] == [
        {
            "condition": "equals",
            "holds": False,
            "outcome": "no_such_turn",
            "expected": 1,
            "message": "the thread has had 3 turns",
        }
    ]


def test_the_option_of_the_other_verbs_asks_for_json_too(tmp_path: Path) -> None:
    assert report(tmp_path, "--json").out == report(tmp_path, "--format", "json").out


def test_junit_is_xml_with_a_case_per_expectation(tmp_path: Path) -> None:
    result = report(tmp_path, "--format", "junit")
    suites = ElementTree.fromstring(result.out.encode())
    counts = {"tests": "4", "failures": "2", "errors": "1", "skipped": "0"}
    assert (suites.tag, suites.attrib) == ("testsuites", counts)
    (suite,) = suites
    assert (suite.tag, suite.attrib) == ("testsuite", {"name": "turnstate.toml", **counts})
    cases = [(case.get("classname"), case.get("name"), [child.tag for child in case]) for case in suite]
    hostile = SHOWN.replace("\uffff", "\\uffff")
    assert cases == [
        ("demo", "it holds", []),
        ("demo", hostile, ["failure"]),
        ("demo", "not told", ["error"]),
        ("demo", "not there", ["failure"]),
    ]
    failure = suite[3][0]
    assert failure.get("message") == "expected equals 1, found no_such_turn: the thread has had 3 turns"
    assert failure.text == "expected  equals 1\nfound     no_such_turn: the thread has had 3 turns"


def test_a_case_that_was_not_run_is_skipped(tmp_path: Path) -> None:
    suites = ElementTree.fromstring(report(tmp_path, "--format", "junit", "--fail-fast").out.encode())
    assert [[child.tag for child in case] for case in suites[0]] == [
        [],
        ["failure"],
        ["skipped"],
        ["skipped"],
    ]


def test_a_suite_per_file_stands_in_junit(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(
        f'store = "{store("demo")}"\n[[expect]]\nthread = "demo"\ngaps = 0\n'
    )
    out = report(tmp_path, "turnstate.toml", "other.toml", "--format", "junit").out
    suites = ElementTree.fromstring(out.encode())
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [
        ("turnstate.toml", "4"),
        ("other.toml", "1"),
    ]


def unescaped(text: str, more: dict[str, str]) -> str:
    for code, char in {**more, "%0D": "\r", "%0A": "\n", "%25": "%"}.items():
        text = text.replace(code, char)
    return text


def test_github_gets_an_annotation_on_the_line_of_what_does_not_hold(tmp_path: Path) -> None:
    *annotations, totals = report(tmp_path, "--format", "github").out.splitlines()
    assert totals == "4 expectations: 1 holds, 2 do not, 1 cannot be told"
    matches = [
        re.fullmatch(r"::error file=([^,]*),line=(\d+),title=([^,:]*)::(.*)", line) for line in annotations
    ]
    assert [match and (match[1], match[2]) for match in matches] == [
        ("turnstate.toml", "6"),
        ("turnstate.toml", "12"),
        ("turnstate.toml", "17"),
    ]
    first, _, last = (match for match in matches if match)
    assert unescaped(first[3], {"%3A": ":", "%2C": ","}) == SHOWN
    lines = unescaped(first[4], {}).split("\n")
    assert lines[1] == 'found     "look up the area"'
    assert lines[-1].startswith(f"turn 1 · checkpoint {checkpoint(1)} · written in turn 1 by tool")
    assert unescaped(last[4], {}) == "expected  equals 1\nfound     no_such_turn: the thread has had 3 turns"


def test_github_names_files_from_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    result = report(tmp_path / "inner", "--format", "github", env={"GITHUB_WORKSPACE": str(tmp_path)})
    assert result.out.startswith("::error file=inner/turnstate.toml,line=6,")


def test_the_summary_of_a_step_is_added_to(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    env = {"GITHUB_STEP_SUMMARY": str(summary)}
    report(tmp_path, env=env)
    assert summary.read_text() == "before\n"
    report(tmp_path, "--format", "github", env=env)
    added = summary.read_text(encoding="utf-8")
    assert added == "before\n" + report(tmp_path, "--format", "markdown").out


def test_a_summary_that_cannot_be_written_changes_no_exit_code(tmp_path: Path) -> None:
    env = {"GITHUB_STEP_SUMMARY": str(tmp_path)}
    result = report(
        tmp_path, "--format", "github", tables='\n[[expect]]\nthread = "demo"\nturns = 3\n', env=env
    )
    assert (result.code, result.out) == (0, "1 expectation: 1 holds\n")
    assert result.err.startswith("no summary: ")


def test_markdown_shows_hostile_text_as_text(tmp_path: Path) -> None:
    lines = report(tmp_path, "--format", "markdown").out.splitlines()
    assert lines[:7] == [
        "### turnstate check",
        "",
        "4 expectations: 1 holds, 2 do not, 1 cannot be told",
        "",
        "| | expectation | where |",
        "|---|---|---|",
        "| ✅ | it holds | turnstate\\.toml\\:2 |",
    ]
    cells = re.split(r"(?<!\\)\|", lines[7])
    assert len(cells) == 5
    assert re.sub(r"\\([^\w\s])", r"\1", cells[2].strip()) == SHOWN
    assert re.findall(r"(?<!\\)[`<*\[]", cells[2]) == []
    fences = [line for line in lines if re.fullmatch("`{3,}", line)]
    assert fences == ["````", "````", "```", "```", "```", "```"]


def test_tap_has_a_point_per_expectation_and_yaml_on_what_does_not_hold(tmp_path: Path) -> None:
    lines = report(tmp_path, "--format", "tap").out.splitlines()
    assert lines[:2] == ["TAP version 14", "1..4"]
    points = [line for line in lines if re.match(r"(not )?ok \d", line)]
    assert points == [
        "ok 1 - it holds",
        f"not ok 2 - {SHOWN.replace(chr(92), chr(92) * 2).replace('#', chr(92) + '#')}",
        "not ok 3 - not told",
        "not ok 4 - not there",
    ]
    blocks = re.findall(r"^  ---\n(.*?)^  \.\.\.$", "\n".join(lines), re.DOTALL | re.MULTILINE)
    first, second, third = (yaml.safe_load(block) for block in blocks)
    assert (first["line"], first["checkpoint"]) == (6, checkpoint(1))
    assert first["conditions"][0]["found"] == "look up the area"
    assert second["message"].startswith("thread 'demo' has no channel 'none'")
    assert third["message"] == "expected equals 1, found no_such_turn: the thread has had 3 turns"


def test_tap_skips_what_was_not_run(tmp_path: Path) -> None:
    lines = report(tmp_path, "--format", "tap", "--fail-fast").out.splitlines()
    assert lines[-1] == "ok 4 - not there # SKIP not run"


@pytest.mark.parametrize("form", ["json", "junit", "tap", "markdown", "github"])
def test_a_report_goes_to_a_file_and_the_screen_has_the_text(tmp_path: Path, form: str) -> None:
    printed = report(tmp_path, "--format", form).out
    result = report(tmp_path, "--format", form, "--to", "report")
    assert (tmp_path / "report").read_text(encoding="utf-8") == printed
    assert (result.code, result.out) == (2, report(tmp_path).out)


def test_a_report_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    table = '\n[[expect]]\nthread = "demo"\nturns = 3\n'
    result = report(tmp_path, "--format", "junit", "--to", "none/report.xml", tables=table)
    assert result.code == 2
    assert result.err.startswith("turnstate: none/report.xml cannot be written\n")


@pytest.mark.parametrize("form", ["text", "json", "junit", "tap", "markdown", "github"])
def test_no_report_has_a_character_that_a_terminal_acts_on(tmp_path: Path, form: str) -> None:
    out = report(tmp_path, "--format", form).out
    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out) == []


@pytest.mark.parametrize("form", ["text", "json", "junit", "tap", "markdown", "github"])
def test_no_report_has_a_password_of_the_store(tmp_path: Path, form: str) -> None:
    address = "postgresql://me:s3cret@127.0.0.1:1/none"
    result = report(tmp_path, "--format", form, "--store", address)
    assert result.code == 2
    assert "s3cret" not in result.out + result.err


@pytest.mark.parametrize("form", ["text", "github", "markdown"])
def test_no_line_of_stored_text_is_a_command_to_a_runner(tmp_path: Path, form: str) -> None:
    said = "::set-output name=a::1\\n" * 9
    table = f'\n[[expect]]\nthread = "demo"\nkey = "plan"\nturn = 1\nequals = "{said}look up the area"\n'
    lines = report(tmp_path, "--format", form, tables=table).out.splitlines()
    assert any("set-output" in line for line in lines)
    assert [
        line for line in lines if line.lstrip().startswith("::") and not line.startswith("::error file")
    ] == []


def test_a_long_text_is_shown_by_what_differs_in_it(tmp_path: Path) -> None:
    said = (
        recording("demo").threads["demo"].turn(1).state["messages"][-1]["content"]
    )  # of the recording's own notes
    wrong = said.replace("lies", "lay") + " and more words, so that it takes more than sixty characters"
    table = f'\n[[expect]]\nthread = "demo"\nkey = "messages"\nturn = 1\nquery = "[-1].content"\nequals = "{wrong}"\n'
    out = report(tmp_path, tables=table).out
    assert "[-lay-]{+lies+}" in out
