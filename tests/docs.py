"""Keeps README.md in step with the program: runs each command shown there and compares what it prints.

``python tests/docs.py --check`` fails on a difference; ``--write`` writes the output anew. A command stands in a
``console`` block after ``$``, in a block of its own or followed by others; what it printed, errors included, follows.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
_BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    now = renewed(text)
    if arguments.write:
        README.write_text(now, encoding="utf-8")
        return 0
    difference = difflib.unified_diff(
        text.splitlines(), now.splitlines(), "README.md", "what the commands print now", lineterm=""
    )
    lines = list(difference)
    print("\n".join(lines) or f"README.md is in step: {len(commands(text))} commands")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
