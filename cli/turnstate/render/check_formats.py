"""Reports of a check for other programs: JSON, JUnit XML, GitHub annotations, TAP and Markdown.

Each is one function from a report to text. Stored text is hostile in each of these languages in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final

from turnstate.checking.judge import CheckReport, Finding, Result, Status
from turnstate.history.changes import End
from turnstate.history.diff import patch
from turnstate.render.checks import details, expected_words, found_words, place, totals
from turnstate.render.documents import Document, present
from turnstate.render.text import one_line
from turnstate.render.values import json_text

SCHEMA: Final = "turnstate.check/1"

_NO_XML = re.compile(
    "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # https://www.w3.org/TR/xml/#charsets


# JSON.


def document(report: CheckReport) -> Document:
    """``turnstate.check/1``."""
    return {
        "schema": SCHEMA,
        "total": len(report.results),
        **{status: report.count(status) for status in ("holds", "fails", "error", "not_run")},
        "results": [_result_fields(result) for result in report.results],
    }


def _result_fields(result: Result) -> Document:
    table = result.expectation.table
    return present(
        name=result.expectation.name,
        file=result.expectation.file,
        line=result.expectation.line,
        kind=result.expectation.kind,
        thread=result.expectation.thread,
        namespace=table.get("ns"),
        key=table.get("key"),
        status=result.status,
        turn=result.turn,
        checkpoint=result.checkpoint,
        since=None if result.since is None else _end_fields(result.since),
        conditions=[_finding_fields(finding) for finding in result.findings],
        message=result.message or None,
        hint=result.hint or None,
    )


def _end_fields(end: End) -> Document:
    return present(turn=end.turn, checkpoint=end.checkpoint)


def _finding_fields(finding: Finding) -> Document:
    found = finding.found
    fields: Document = {
        "condition": finding.condition,
        "holds": finding.holds,
        "outcome": found.outcome,
        "expected": finding.expected,
    }
    if found.is_value:
        fields["found"] = found.form
    return fields | present(
        tolerance=finding.tolerance, message=found.message or None, patch=patch(finding.operations) or None
    )


def json_report(report: CheckReport) -> str:
    """One document on one line."""
    return json_text(document(report))


# JUnit XML, as Jenkins, GitLab and others read it.


def junit_report(report: CheckReport) -> str:
    """A test suite per file, a test case per expectation."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f"<testsuites{_counts(report)}>"]
    for file, group in groupby(report.results, key=lambda result: result.expectation.file):
        results = tuple(group)
        lines.append(f"  <testsuite{_attributes(name=file)}{_counts(CheckReport(results))}>")
        for result in results:
            lines += _case(result)
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"])


def _counts(report: CheckReport) -> str:
    return _attributes(
        tests=len(report.results),
        failures=report.count("fails"),
        errors=report.count("error"),
        skipped=report.count("not_run"),
    )


def _case(result: Result) -> list[str]:
    expectation = result.expectation
    named = _attributes(
        classname=expectation.thread, name=expectation.name, file=expectation.file, line=expectation.line
    )
    head = f"    <testcase{named}"
    if result.status == "holds":
        return [f"{head}/>"]
    if result.status == "not_run":
        return [f"{head}><skipped/></testcase>"]
    element = "error" if result.status == "error" else "failure"
    kind = ", ".join(finding.condition for finding in result.failed) or "cannot be told"
    text = _xml("\n".join(details(result)))
    return [
        f"{head}>",
        f"      <{element}{_attributes(type=kind, message=headline(result))}>{text}</{element}>",
        "    </testcase>",
    ]


def _attributes(**values: object) -> str:
    return "".join(f' {name}="{_xml(one_line(str(value)))}"' for name, value in values.items())


def _xml(text: str) -> str:
    """Text that XML 1.0 can hold, in an element or between double quotes."""
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(char, entity)
    return _NO_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def headline(result: Result) -> str:
    """Why an expectation does not hold, on one line: ``expected equals 1, found 2``."""
    if result.status == "error":
        return one_line(result.message)
    return "; ".join(f"expected {expected_words(each)}, found {found_words(each)}" for each in result.failed)


# GitHub's workflow commands: https://docs.github.com/actions/reference/workflow-commands-for-github-actions.


def github_report(report: CheckReport) -> str:
    """An annotation per expectation that does not hold, and a line with the totals."""
    lines = [
        f"::error file={_property(result.expectation.file)},line={result.expectation.line},"
        f"title={_property(one_line(result.expectation.name))}::{_data(chr(10).join(details(result)))}"
        for result in report.results
        if result.status in ("fails", "error")
    ]
    return "\n".join([*lines, totals(report)])


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# TAP 14: https://testanything.org/tap-version-14-specification.html.


def tap_report(report: CheckReport) -> str:
    """A test point per expectation; what was found stands in its YAML block, as JSON, which YAML includes."""
    lines = ["TAP version 14", f"1..{len(report.results)}"]
    for number, result in enumerate(report.results, 1):
        name = re.sub(r"([\\#])", r"\\\1", one_line(result.expectation.name))
        if result.status == "holds":
            lines.append(f"ok {number} - {name}")
        elif result.status == "not_run":
            lines.append(f"ok {number} - {name} # SKIP not run")
        else:
            lines += [f"not ok {number} - {name}", "  ---", *_diagnostics(result), "  ..."]
    return "\n".join(lines)


def _diagnostics(result: Result) -> list[str]:
    fields = _result_fields(result)
    shown = ("status", "file", "line", "turn", "checkpoint", "message", "hint", "conditions")
    diagnostics = {"message": headline(result), **{name: fields[name] for name in shown if fields.get(name)}}
    return [f"  {name}: {_yaml(value)}" for name, value in diagnostics.items()]


def _yaml(value: Any) -> str:
    return json_text(value, ascii_only=True)


# Markdown, as GitHub shows it.


def markdown_report(report: CheckReport) -> str:
    """A table of all, and the details of what does not hold."""
    lines = ["### turnstate check", "", totals(report), "", "| | expectation | where |", "|---|---|---|"]
    for result in report.results:
        mark = _MARKS[result.status]
        lines.append(f"| {mark} | {_cell(result.expectation.name)} | {_cell(place(result.expectation))} |")
    for result in report.results:
        if text := "\n".join(details(result)):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            lines += ["", f"**{_cell(result.expectation.name)}**", "", fence, text, fence]
    return "\n".join(lines)


_MARKS: Mapping[Status, str] = {"holds": "✅", "fails": "❌", "error": "⚠️", "not_run": "⏭️"}


def _cell(text: str) -> str:
    """Text as nothing but text: no markup, no reference, no end of a cell."""
    return re.sub(r"([\\`*_{}\[\]<>()#+\-.!|~@&:])", r"\\\1", one_line(text))


FORMATS: Mapping[str, Callable[[CheckReport], str]] = {
    "json": json_report,
    "junit": junit_report,
    "github": github_report,
    "tap": tap_report,
    "markdown": markdown_report,
}
"""What ``--format`` knows beside ``text``."""
