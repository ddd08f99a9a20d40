"""README.md shows what the program prints."""

from __future__ import annotations

import pytest

from docs import README, commands, output_of, renewed


def test_every_command_in_the_readme_prints_what_is_shown() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(commands(text)) >= 8
    assert renewed(text) == text


def test_a_wrong_output_is_noticed() -> None:
    assert renewed("```console\n$ echo right\nwrong\n```\n") == "```console\n$ echo right\nright\n```\n"


@pytest.mark.parametrize("verb", ["threads", "turns", "keys", "show"])
def test_every_verb_is_in_the_readme_and_its_help_begins_with_examples(verb: str) -> None:
    assert f"turnstate --store fixtures/demo.db {verb}" in README.read_text(encoding="utf-8")
    page = output_of(f"turnstate {verb} --help")
    assert page.index("Examples:") < page.index("Options:")
