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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bytes_read import from_disk, from_server
from fleet import ROWS, Fleet, thread_id
from stores import KEY, ONCE, THREAD, Shape, value_of

Backend = Literal["SQLite", "PostgreSQL"]

HERE = Path(__file__).resolve().parent
TURNSTATE = Path(sys.executable).with_name("turnstate")
COMMANDS: Mapping[str, list[str]] = {
    "show": ["show", THREAD, KEY, "--turn", "3", "--json"],
    "turns": ["turns", THREAD, "--json"],
    "keys": ["keys", THREAD, "--json"],
    "log": ["log", THREAD, KEY],
    "log --json": ["log", THREAD, KEY, "--json"],
    "gaps": ["gaps", THREAD, "--json"],
    "threads": ["threads", "--json"],
    "turns, table": ["turns", THREAD],
    "keys, table": ["keys", THREAD],
    "gaps, text": ["gaps", THREAD],
}
"""What is timed on a store of one thread."""
FLEET_COMMANDS: Mapping[str, list[str]] = {
    "threads": ["threads", "--limit", "50", "--json"],
    "threads, table": ["threads", "--limit", "50"],
    "threads, all": ["threads", "--jsonl"],
    "gaps": ["gaps", "--limit", "200", "--jsonl"],
    "show": ["show", thread_id(7), "plan", "--turn", "3", "--json"],
}
"""What is timed on a fleet."""
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
        shape: What it holds.
        address: As given to ``--store``.
        size: Bytes on disk.
    """

    backend: Backend
    shape: Shape | Fleet
    address: str
    size: int

    @property
    def commands(self) -> Mapping[str, list[str]]:
        """What is timed on it."""
        return FLEET_COMMANDS if isinstance(self.shape, Fleet) else COMMANDS


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs on one store.

    Attributes:
        store: The store.
        baseline: The empty program.
        commands: Command → its runs.
        own: Command → seconds beyond the baseline, one per pair of runs.
        walks: ``list`` and ``history`` → runs that walk the thread that way; those that were asked for.
        read: Command → bytes that it takes from the store: from a disk whose file is not in memory, or a server.
    """

    store: Store
    baseline: list[Run]
    commands: dict[str, list[Run]]
    own: dict[str, list[float]]
    walks: dict[str, list[Run]]
    read: dict[str, int | None]


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

    def answer(command: str) -> Any:
        argv = [str(TURNSTATE), "--store", store.address, *store.commands[command]]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(f"exit {ended.returncode}: {' '.join(argv)}\n{ended.stderr}")
        return json.loads(ended.stdout) if "--json" in argv else ended.stdout.splitlines()

    shape = store.shape
    right = _of_fleet(answer, shape) if isinstance(shape, Fleet) else _of_thread(answer, shape)
    if wrong := [what for what, is_right in right.items() if not is_right]:
        raise SystemExit(f"wrong on {store.address}: {', '.join(wrong)}")


def _of_thread(answer: Callable[[str], Any], shape: Shape) -> dict[str, bool]:
    turns = list(range(1, shape.turns + 1))
    shown, told, keys, log = answer("show"), answer("turns"), answer("keys"), answer("log --json")
    written = {row["key"]: row["turns_written"] for row in keys["keys"]}
    return {
        "value at turn 3": shown["value"] == value_of(3, shape),
        "turns that wrote the key": shown["turns_written"] == turns,
        "questions": [row["question"] for row in told["turns"]] == [f"Question {turn}" for turn in turns],
        "keys": written.get(KEY) == turns and written.get(ONCE) == [1] and written.get("plan") == turns,
        "log": [int(line.split()[0]) for line in answer("log")[1:]] == turns,
        "values of the log": [row["value"] for row in log["versions"]] == [value_of(t, shape) for t in turns],
        "gaps": (answer("gaps")["retained"], answer("gaps")["gaps"]) == (turns, []),
        "threads": [row["thread"] for row in answer("threads")] == [THREAD],
    }


def _of_fleet(answer: Callable[[str], Any], fleet: Fleet) -> dict[str, bool]:
    latest = [thread_id(number) for number in reversed(range(fleet.threads))]
    threads, everything = answer("threads"), answer("threads, all")
    return {
        "the most recent": [row["thread"] for row in threads] == latest[:50],
        "checkpoints": {row["checkpoints"] for row in threads} == {ROWS},
        "all": [json.loads(line)["thread"] for line in everything] == latest,
        "gaps": answer("gaps") == [],
        "value": answer("show")["value"] == "Plan 3",
    }


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
    commands = store.commands
    result = Measured(store, [], {name: [] for name in commands}, {name: [] for name in commands}, {}, {})
    for arguments in commands.values():  # what is measured has been run before: bytecode and pages are cached
        runner([*empty, *arguments])
        runner([*ours, *arguments])
    for turn in range(runs):
        for name, arguments in commands.items():
            baseline, run = runner([*empty, *arguments]), runner([*ours, *arguments])
            result.baseline.append(baseline)
            result.commands[name].append(run)
            result.own[name].append(run.wall - baseline.wall)
        for way, times in walks.items():
            if turn * times // runs != (turn + 1) * times // runs:
                walk = [sys.executable, str(HERE / "walk.py"), way, store.address]
                result.walks.setdefault(way, []).append(runner(walk))
    for name, arguments in commands.items():
        result.read[name] = _bytes_read(store, arguments)
    return result


def _bytes_read(store: Store, arguments: Sequence[str]) -> int | None:
    def argv(address: str) -> list[str]:
        return [str(TURNSTATE), "--store", address, *arguments]

    if store.backend == "PostgreSQL":
        return from_server(store.address, argv)
    return from_disk(Path(store.address), argv(store.address))
