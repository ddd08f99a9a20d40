"""The pytest plugin: options, fixtures and the collection of ``turnstate*.toml``. Inert unless one of them is used.

A file of expectations is collected when it is named on the command line, or when the run is told to: ``--turnstate``,
``--turnstate-store`` or the ini option ``turnstate_store``. Every run of pytest loads this, so it imports nothing more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from turnstate.pytest_items import ExpectationsFile, State


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("turnstate", "LangGraph checkpoint stores")
    group.addoption(
        "--turnstate", action="store_true", help="Collect turnstate*.toml files as tests: their expectations."
    )
    group.addoption(
        "--turnstate-store",
        metavar="URL",
        help="The store that fixtures and expectations read; collects turnstate*.toml files too.",
    )
    parser.addini("turnstate_store", "As --turnstate-store; a relative path begins at the root directory.")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ExpectationsFile | None:
    if not file_path.match("turnstate*.toml") or not _is_asked_for(file_path, parent):
        return None
    from turnstate.pytest_items import ExpectationsFile

    return ExpectationsFile.from_parent(parent, path=file_path)


def _is_asked_for(path: Path, parent: pytest.Collector) -> bool:
    config = parent.config
    told = config.getoption("turnstate") or store_option(config) is not None
    return bool(told) or parent.session.isinitpath(path)


def store_option(config: pytest.Config) -> str | None:
    """The store that the run names, by option or in its ini file."""
    given, folder = config.getoption("turnstate_store"), config.invocation_params.dir
    if given is None:
        given, folder = config.getini("turnstate_store"), config.rootpath
    if not given:
        return None
    from turnstate.commands.address import from_folder

    return from_folder(str(given), folder)


@pytest.fixture
def turnstate_store(request: pytest.FixtureRequest) -> str:
    """The address of the store: ``--turnstate-store``, else as ``turnstate`` finds it. Override it to name another,
    such as the file that an agent under test has written."""
    from turnstate.commands.address import store_address
    from turnstate.commands.exits import Refused

    try:
        return store_address(store_option(request.config), os.environ, request.config.rootpath)
    except Refused as refusal:
        pytest.fail(
            f"{refusal.what}: {refusal.why}\nGive --turnstate-store, or override turnstate_store.", False
        )


@pytest.fixture
def assert_state(turnstate_store: str | Path) -> Callable[..., State]:
    """A function that reads a key as of a turn, ``assert_state(thread, key, turn=1) == value``: the comparison itself
    asserts, and says what was found and where. See :func:`turnstate.pytest_items.state_of`."""
    from functools import partial

    from turnstate.pytest_items import state_of

    return partial(state_of, str(turnstate_store))
