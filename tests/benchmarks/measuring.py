"""Times whole processes on one store: the commands of turnstate, empty programs, LangGraph's own walks.

Every run of a command is preceded by a run of an empty program of the same kind, and a command's own cost is the
difference within such a pair, so what else the machine does meanwhile meets both alike. A wrong answer ends
everything before anything is timed. Knows nothing of how stores are made or figures are shown.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stores import KEY, ONCE, THREAD, Shape, value_of

Backend = Literal["SQLite", "PostgreSQL"]

HERE = Path(__file__).resolve().parent
TURNSTATE = Path(sys.executable).with_name("turnstate")
COMMANDS: Mapping[str, list[str]] = {
    "show": ["show", THREAD, KEY, "--turn", "3", "--json"],
    "turns": ["turns", THREAD, "--json"],
    "keys": ["keys", THREAD, "--json"],
    "log": ["log", THREAD, KEY],
    "gaps": ["gaps", THREAD, "--json"],
    "threads": ["threads", "--json"],
}
BASELINES: Mapping[Backend, Path] = {
    "SQLite": HERE / "baseline.py",
    "PostgreSQL": HERE / "baseline_postgres.py",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One whole process: seconds of wall and processor time, peak resident memory in MiB."""

    wall: float
    cpu: float
    peak: float


@dataclass(frozen=True, slots=True)
class Store:
    """A store to read.

    Attributes:
        backend: Which one.
        shape: Its size in turns and bytes.
        address: As given to ``--store``.
        size: Bytes on disk.
    """

    backend: Backend
    shape: Shape
    address: str
    size: int


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs on one store.

    Attributes:
        store: The store.
        baseline: The empty program.
        commands: Command → its runs.
        own: Command → seconds beyond the baseline, one per pair of runs.
        walks: ``list`` and ``history`` → runs that walk the thread that way; those that were asked for.
    """

    store: Store
    baseline: list[Run]
    commands: dict[str, list[Run]]
    own: dict[str, list[float]]
    walks: dict[str, list[Run]]


class Runner:
    """The measuring process; see :mod:`runner` for why it is a process.

    Bytecode is cached, as an installer leaves it, whatever this environment says: compiling turnstate from source in
    each run would cost more than most of what it does.
    """

    def __enter__(self) -> Runner:
        self._bytecode = tempfile.TemporaryDirectory(prefix="turnstate-bytecode-")
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(HERE / "runner.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, "PYTHONPYCACHEPREFIX": self._bytecode.name},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._bytecode.cleanup()

    def __call__(self, argv: Sequence[str]) -> Run:
        """Measure one program; SystemExit where it fails."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(list(argv)) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["code"]:
            raise SystemExit(f"exit {answer['code']}: {' '.join(argv)}")
        return Run(answer["wall"], answer["cpu"], answer["peak"])


def check(store: Store) -> None:
    """SystemExit unless every command gives the right answer on this store."""
    turns = list(range(1, store.shape.turns + 1))

    def answer(command: str) -> Any:
        argv = [str(TURNSTATE), "--store", store.address, *COMMANDS[command]]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(f"exit {ended.returncode}: {' '.join(argv)}\n{ended.stderr}")
        return json.loads(ended.stdout) if "--json" in argv else ended.stdout.splitlines()

    shown, told, keys = answer("show"), answer("turns"), answer("keys")
    written = {row["key"]: row["turns_written"] for row in keys["keys"]}
    right = {
        "value at turn 3": shown["value"] == value_of(3, store.shape),
        "turns that wrote the key": shown["turns_written"] == turns,
        "questions": [row["question"] for row in told["turns"]] == [f"Question {turn}" for turn in turns],
        "keys": written.get(KEY) == turns and written.get(ONCE) == [1] and written.get("plan") == turns,
        "log": [int(line.split()[0]) for line in answer("log")[1:]] == turns,
        "gaps": (answer("gaps")["retained"], answer("gaps")["gaps"]) == (turns, []),
        "threads": [row["thread"] for row in answer("threads")] == [THREAD],
    }
    if wrong := [what for what, is_right in right.items() if not is_right]:
        raise SystemExit(f"wrong on {store.address}: {', '.join(wrong)}")


def measure(runner: Runner, store: Store, *, runs: int, walks: Mapping[str, int]) -> Measured:
    """Time everything on one store, interleaved.

    Args:
        runner: The measuring process.
        store: The store.
        runs: Pairs of baseline and command, per command.
        walks: ``list`` and ``history`` → how many walks, spread over the runs.
    """
    check(store)
    empty = [sys.executable, str(BASELINES[store.backend]), "--store", store.address]
    ours = [str(TURNSTATE), "--store", store.address]
    result = Measured(store, [], {name: [] for name in COMMANDS}, {name: [] for name in COMMANDS}, {})
    for arguments in COMMANDS.values():  # what is measured has been run before: bytecode and pages are cached
        runner([*empty, *arguments])
        runner([*ours, *arguments])
    for turn in range(runs):
        for name, arguments in COMMANDS.items():
            baseline, run = runner([*empty, *arguments]), runner([*ours, *arguments])
            result.baseline.append(baseline)
            result.commands[name].append(run)
            result.own[name].append(run.wall - baseline.wall)
        for way, times in walks.items():
            if turn * times // runs != (turn + 1) * times // runs:
                walk = [sys.executable, str(HERE / "walk.py"), way, store.address]
                result.walks.setdefault(way, []).append(runner(walk))
    return result
