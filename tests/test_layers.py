"""The layers: ``commands → render → checking → history → backends``, ``agent → library → history``; Typer only in
commands, Rich only in render, LangChain and LangGraph only in what reads a saver and in the agent's tool."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cli" / "turnstate"
BACKENDS = ROOT / "backends" / "turnstate_backends"

ALLOWED = {
    "commands": {
        "turnstate.commands",
        "turnstate.serving",
        "turnstate.render",
        "turnstate.checking",
        "turnstate.history",
        "turnstate_backends",
        "typer",
    },
    "serving": {
        "turnstate.serving",
        "turnstate.agent.bounded",  # a model's expressions cost no more here
        "turnstate.library",
        "turnstate.render",
        "turnstate.history",
        "turnstate_backends",
    },
    "render": {"turnstate.render", "turnstate.checking", "turnstate.history", "turnstate_backends", "rich"},
    "checking": {"turnstate.checking", "turnstate.history", "turnstate_backends"},
    "agent": {
        "turnstate.agent",
        "turnstate.library",
        "turnstate.history",
        "turnstate.render.text",  # which knows characters, no screen
        "turnstate.render.values",
        "turnstate_backends",
    },
    "library": {"turnstate.library", "turnstate.history", "turnstate_backends"},
    "history": {"turnstate.history", "turnstate_backends"},
    "backends": {"turnstate_backends"},
}
OURS_OR_UI = ("turnstate", "turnstate_backends", "typer", "click", "rich")


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it: ``turnstate.history.keys`` and so on."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    ("layer", "path"),
    [
        pytest.param(layer, path, id=f"{layer}/{path.name}")
        for layer in ALLOWED
        for path in modules(BACKENDS if layer == "backends" else PACKAGE / layer)
    ],
)
def test_a_module_imports_only_from_its_own_layer_and_those_below(layer: str, path: Path) -> None:
    of_interest = [name for name in imported(path) if name.partition(".")[0] in OURS_OR_UI]
    above = [
        name
        for name in of_interest
        if not any(name == base or name.startswith(f"{base}.") for base in ALLOWED[layer])
    ]
    assert above == []


def test_every_module_belongs_to_a_layer() -> None:
    outside = {path.name for path in PACKAGE.glob("*.py")}
    assert outside == {"__init__.py", "__main__.py", "aio.py", "pytest_plugin.py", "pytest_items.py"}
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} == {
        "commands",
        "serving",
        "render",
        "checking",
        "agent",
        "library",
        "history",
    }


def test_no_package_is_named_like_a_source_root() -> None:
    assert not (ROOT / "cli" / "__init__.py").exists()
    assert not (ROOT / "backends" / "__init__.py").exists()


@pytest.mark.parametrize("folder", [PACKAGE, BACKENDS])
def test_nothing_but_the_way_through_a_saver_and_an_agent_s_tool_imports_what_wrote_the_store(
    folder: Path,
) -> None:
    wrote = ("langgraph", "langchain", "langchain_core", "pickle", "importlib.import_module")
    found = [
        (path.name, name)
        for path in modules(folder)
        if path.name not in ("saver.py", "saver_open.py")
        and path.relative_to(folder).as_posix() not in ("agent/inspect_tool.py", "agent/live.py")
        for name in imported(path)
        if name in wrote or name.partition(".")[0] in wrote
    ]
    assert found == []
