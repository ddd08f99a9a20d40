"""What the store holds now, written into a file of expectations: only the values that do not hold, nothing else moves.

A value is replaced where it stands, by its offsets, so that comments, order and layout stay to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from turnstate.checking.compare import differences
from turnstate.checking.expectations import Expectation, ExpectationFile
from turnstate.checking.forms import expected_form
from turnstate.checking.judge import Finding, Result
from turnstate.checking.spots import Path
from turnstate.checking.vocabulary import kind_named
from turnstate.checking.writing import Unwritable, toml_text, writable
from turnstate.history.jsonform import room_for_depth


class Change(Struct, frozen=True):
    """A condition that now expects what there is; ``finding`` has what it expected and what there is."""

    expectation: Expectation
    finding: Finding


class Kept(Struct, frozen=True):
    """A condition that fails and stays as it is, and why."""

    expectation: Expectation
    finding: Finding
    why: str


class Acceptance(Struct, frozen=True):
    """A file's new text, what changed in it, and what could not be accepted."""

    text: str
    changes: tuple[Change, ...]
    kept: tuple[Kept, ...]


class _Edit(Struct, frozen=True):
    start: int
    stop: int
    text: str


def accept(file: ExpectationFile, results: Iterable[Result]) -> Acceptance:
    """Let every condition that fails, and that one value would meet, expect that value.

    Args:
        file: The file as it was read.
        results: Of its expectations.
    """
    edits: list[_Edit] = []
    changes: list[Change] = []
    kept: list[Kept] = []
    for result in results:
        for finding in result.failed:
            try:
                with room_for_depth():
                    edits += _accepted(file, result.expectation, finding)
            except Unwritable as error:
                kept.append(Kept(result.expectation, finding, str(error)))
            else:
                changes.append(Change(result.expectation, finding))
    text = file.text
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.stop :]
    return Acceptance(text, tuple(changes), tuple(kept))


def _accepted(file: ExpectationFile, expectation: Expectation, finding: Finding) -> list[_Edit]:
    name = finding.condition
    if not kind_named(expectation.kind).all_terms[name].one_answer:
        raise Unwritable(f"{name} has no one value that would hold")
    if not finding.found.is_value:
        raise Unwritable("there is no value")
    new = writable(finding.found.form)
    return list(_edits(file, ("expect", expectation.index, name), expectation.table[name], new))


def _edits(file: ExpectationFile, path: Path, old: Any, new: Any) -> Iterator[_Edit]:
    """What makes the text of one value into that of another; as little as will do, for the comments in between."""
    if type(old) is type(new) is list and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _edits(file, (*path, i), a, b)
    elif type(old) is type(new) is dict and old.keys() == new.keys():
        for name, item in old.items():
            yield from _edits(file, (*path, name), item, new[name])
    elif differences(expected_form(old), expected_form(new)):
        spot = file.spots[path]
        if spot.start == spot.stop:
            raise Unwritable("it does not stand in one place of the file")
        yield _Edit(spot.start, spot.stop, toml_text(new))
