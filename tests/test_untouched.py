"""No command changes a recorded store, or leaves a file beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cli_run import run
from recorded import copy_db, recording, releases, scenarios


def held(folder: Path) -> dict[str, tuple[str, int]]:
    """File name → digest and modification time of all that stands in a folder."""
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
    }


@pytest.mark.parametrize("name", [each.name for each in (*scenarios(), *releases())])
def test_every_command_leaves_every_recorded_store_as_it_was(name: str, tmp_path: Path) -> None:
    recorded = recording(name)
    path = copy_db(recorded.path, tmp_path)
    before = held(tmp_path)
    thread = next(iter(recorded.threads))
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
    ):
        result = run(argv[0], "--store", str(path), *argv[1:])
        assert result.code in (0, 4, 5, 6), (argv, result.err)
        assert held(tmp_path) == before, argv
