"""No command changes a recorded store, or leaves a file beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cli_run import run
from recorded import Recording, copy_db, scenarios
from releases import IDS, unpack


def held(folder: Path) -> dict[str, tuple[str, int]]:
    """File name → digest and modification time of all that stands in a folder."""
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
    }


def assert_left_as_it_was(path: Path, thread: str) -> None:
    before = held(path.parent)
    for argv in (
        ["threads", "--turns"],
        ["turns", "--", thread],
        ["turns", "--chart", "--", thread],
        ["keys", "--all", "--", thread],
        ["show", "--all", "--", thread, "*"],
        ["show", "--turn", "1", "--json", "--", thread, "messages"],
        ["log", "--", thread],
        ["log", "--patch", "--", thread, "*"],
        ["diff", "--turns", "0..", "--", thread],
        ["gaps"],
        ["branches", "--", thread],
        ["report", "--html", f"{path.parent}.html", "--", thread],
    ):
        result = run(argv[0], "--store", str(path), *argv[1:])
        assert result.code in (0, 4, 5, 6), (argv, result.err)
        assert held(path.parent) == before, argv


@pytest.mark.parametrize("recorded", scenarios(), ids=lambda each: each.name)
def test_every_command_leaves_every_recorded_store_as_it_was(recorded: Recording, tmp_path: Path) -> None:
    assert_left_as_it_was(copy_db(recorded.path, tmp_path), next(iter(recorded.threads)))


@pytest.mark.parametrize("release", IDS)
def test_every_command_leaves_the_store_of_every_release_as_it_was(release: str, tmp_path: Path) -> None:
    assert_left_as_it_was(unpack(release, tmp_path), "linear")
