"""Keeps README.md and docs/*.md in step with the program: runs each command shown there and compares what it prints.

``python tests/docs.py --check`` fails on a difference; ``--write`` writes the output anew. A command stands in a
``console`` block after ``$``, in a block of its own or followed by others; what it printed, errors included, follows.
The check also follows every link within the repository, and reads the blocks of Python, TOML and JSON.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")))
_BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def commands(text: str) -> list[str]:
    """The commands that the page shows, in order."""
    return [
        line[2:] for block in _BLOCK.findall(text) for line in block.splitlines() if line.startswith("$ ")
    ]


def output_of(command: str) -> str:
    """What a shell prints for a command in the repository's folder, both streams as they come."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TURNSTATE", "PG", "GITHUB"))}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def renewed(text: str) -> str:
    """The page with every command's output as it is now."""

    def block(match: re.Match[str]) -> str:
        shown = (f"$ {command}\n{output_of(command)}" for command in commands(f"```console\n{match[1]}```"))
        return "\n".join(part if part.endswith("\n") else part + "\n" for part in shown)

    return _BLOCK.sub(block, text)


def flaws(page: Path, text: str) -> Iterator[str]:
    """What is wrong on a page apart from output: links that lead nowhere, and examples that cannot be read.

    Args:
        page: Where it stands, from where its links lead.
        text: What stands there.
    """
    for target in _LINK.findall(_FENCED.sub("", text)):
        name, _, anchor = target.partition("#")
        if "://" in name:
            continue
        file = page.parent / name if name else page
        if not file.exists():
            yield f"no such file: {target}"
        elif anchor and anchor not in _anchors(text if file == page else file.read_text(encoding="utf-8")):
            yield f"no such heading: {target}"
    readers: dict[str, Callable[[str], object]] = {
        "python": _imported,
        "toml": tomllib.loads,
        "json": json.loads,
    }
    for language, code in _FENCED.findall(text):
        try:
            readers.get(language, str)(code)
        except (SyntaxError, ValueError, ImportError) as error:
            yield f"{language}: {error}"


def _anchors(text: str) -> set[str]:
    """A page's headings as GitHub links to them."""
    titles = _HEADING.findall(_FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _imported(code: str) -> None:
    """Raise what keeps code from being read, or ImportError for a name that turnstate does not have."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "turnstate":
            module = importlib.import_module(node.module or "")
            if missing := [each.name for each in node.names if not hasattr(module, each.name)]:
                raise ImportError(f"{node.module} has no {', '.join(missing)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    wrong = False
    for page in PAGES:
        name, text = page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")
        now = renewed(text)
        if arguments.write:
            page.write_text(now, encoding="utf-8")
            continue
        difference = difflib.unified_diff(
            text.splitlines(), now.splitlines(), name, "what the commands print now", lineterm=""
        )
        lines = [*difference, *(f"{name}: {flaw}" for flaw in flaws(page, text))]
        wrong |= bool(lines)
        print("\n".join(lines) or f"{name} is in step: {len(commands(text))} commands")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
