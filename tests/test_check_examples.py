"""What the examples, the hook for pre-commit and the documentation of checks say is so."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli_run import FIXTURES, ROOT
from turnstate.checking.schema import schema
from turnstate.checking.vocabulary import EVERYWHERE, KINDS

HOLDS = '[[expect]]\nthread = "demo"\nturns = 3\n'
FAILS = '[[expect]]\nthread = "demo"\nturns = 4\n'


def project(folder: Path, tables: str) -> Path:
    (folder / "agent.db").write_bytes((FIXTURES / "demo.db").read_bytes())
    (folder / "turnstate.toml").write_text(f'store = "agent.db"\n{tables}')
    return folder


def shell(command: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command where ``turnstate`` is installed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TURNSTATE", "GITHUB"))}
    env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}", **more}
    return subprocess.run(
        ["bash", "-e", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def workflow() -> list[str]:
    """The commands of the example for GitHub Actions, without the one that installs."""
    job = yaml.safe_load((ROOT / "examples" / "github-actions.yml").read_text())["jobs"]["check"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands[0] == "python -m pip install turnstate"
    assert len(commands) == 3
    return commands[1:]


@pytest.mark.parametrize(("tables", "code"), [(HOLDS, 0), (FAILS, 1)])
def test_the_commands_of_the_workflow_annotate_and_report(tmp_path: Path, tables: str, code: int) -> None:
    folder = project(tmp_path, tables)
    github = {"GITHUB_WORKSPACE": str(folder), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    check, report = (shell(command, folder, **github) for command in workflow())
    assert (check.returncode, report.returncode) == (code, code)
    annotated = check.stdout.startswith("::error file=turnstate.toml,line=2,title=demo%3A turns::")
    assert annotated == bool(code)
    assert (folder / "summary.md").read_text().startswith("### turnstate check\n")
    suites = ElementTree.fromstring((folder / "turnstate.xml").read_bytes())
    assert (suites.get("tests"), suites.get("failures")) == ("1", str(code))


def hook() -> Any:
    (only,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return only


@pytest.mark.parametrize(("tables", "code"), [(HOLDS, 0), (FAILS, 1), ("[[expect]]\n", 2)])
def test_the_hook_checks_the_files_that_it_is_given(tmp_path: Path, tables: str, code: int) -> None:
    folder = project(tmp_path, tables)
    assert shell(f"{hook()['entry']} {shlex.quote('turnstate.toml')}", folder).returncode == code


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("turnstate.toml", True),
        ("checks/turnstate-prod.toml", True),
        ("not-turnstate.toml", False),
        ("turnstate.toml.orig", False),
        ("turnstate/other.toml", False),
    ],
)
def test_the_hook_takes_files_of_expectations(path: str, taken: bool) -> None:
    assert bool(re.search(hook()["files"], path)) == taken


def test_the_example_holds_for_the_demonstration() -> None:
    done = shell("turnstate check examples/turnstate.toml", ROOT)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "4 expectations: 4 hold")


def test_the_schema_that_ships_is_the_one_of_the_vocabulary() -> None:
    shipped = ROOT / "cli" / "turnstate" / "checking" / "turnstate.schema.json"
    assert json.loads(shipped.read_text("utf-8")) == schema()


@pytest.mark.parametrize(
    "term", sorted({(t.name, t.about) for t in (*EVERYWHERE, *(t for k in KINDS for t in k.terms))})
)
def test_every_name_is_documented_as_the_program_has_it(term: tuple[str, str]) -> None:
    assert f"| `{term[0]}` | {term[1]} |\n" in (ROOT / "docs" / "checking.md").read_text("utf-8")
