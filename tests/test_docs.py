"""README.md and docs/*.md show what the program prints, and lead where they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_run import run
from docs import DOCS, PAGES, README, commands, flaws, renewed
from turnstate.commands.app import _VERBS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_prints_what_is_shown_and_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert renewed(text) == text
    assert list(flaws(page, text)) == []


def test_no_page_is_left_out() -> None:
    assert {README, *DOCS.rglob("*.*")} == set(PAGES)
    assert len(commands(README.read_text(encoding="utf-8"))) >= 20
    linked = README.read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"](docs/{page.name})" not in linked] == []


def test_a_wrong_output_is_noticed() -> None:
    assert renewed("```console\n$ echo right\nwrong\n```\n") == "```console\n$ echo right\nright\n```\n"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[a](docs/none.md)", "no such file: docs/none.md"),
        ("# One two\n[a](#one)", "no such heading: #one"),
        ("[a](fixtures/README.md#none-such)", "no such heading: fixtures/README.md#none-such"),
        ("```toml\na = \n```", "toml: Invalid value (at line 1, column 5)"),
        ("```python\nfrom turnstate import raed\n```", "python: turnstate has no raed"),
    ],
)
def test_a_link_that_leads_nowhere_and_an_example_that_cannot_be_read_are_noticed(
    text: str, wrong: str
) -> None:
    assert list(flaws(README, text)) == [wrong]
    assert list(flaws(README, "# One, two!\n[a](#one-two) [b](https://x.example/none)")) == []


@pytest.mark.parametrize("verb", _VERBS)
def test_every_verb_is_in_the_readme_and_its_help_begins_with_examples(verb: str) -> None:
    assert f"| `{verb}" in README.read_text(encoding="utf-8")
    page = run(verb, "--help").out
    assert page.index("Examples:") < page.index("Options:")
