"""The benchmark of the main job: what was in a key as of a turn, on threads that grow. ``make bench``.

Nothing fails by being slow: targets are printed beside the figures. A wrong answer does fail.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import psycopg
from measuring import Measured, Runner, Store, measure
from stores import Shape, postgres_server, postgres_size, postgres_store, sqlite_store
from tables import growth, size_effect, table

LARGE_VALUE, SMALL_VALUE = 20 * 1024, 1024
SIZES = (125, 500)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=["sqlite", "postgres"], help="only this one")
    parser.add_argument(
        "--runs", type=int, default=9, metavar="N", help="pairs of runs per command (default 9)"
    )
    parser.add_argument("--walks", type=int, default=3, metavar="N", help="walks of saver.list (default 3)")
    parser.add_argument("--history", action="store_true", help="also walk graph.get_state_history once: slow")
    parser.add_argument("--large", action="store_true", help="also 2,000 turns: minutes to make, 3 GB")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="make the stores there, or use those that are there"
    )
    arguments = parser.parse_args()
    if arguments.runs < 1 or not 0 <= arguments.walks <= arguments.runs:
        parser.error("--runs must be at least 1, and --walks between 0 and --runs")
    return arguments


def main() -> None:
    """Make the stores, time the commands, print the tables."""
    arguments = _arguments()
    turns = (*SIZES, 2000) if arguments.large else SIZES
    shapes = [*(Shape(each, LARGE_VALUE) for each in turns), Shape(500, SMALL_VALUE)]
    with ExitStack() as open_now:
        runner = open_now.enter_context(Runner())
        if arguments.keep is None:
            folder = Path(open_now.enter_context(tempfile.TemporaryDirectory(prefix="turnstate-bench-")))
        else:
            folder = arguments.keep.resolve()
            folder.mkdir(parents=True, exist_ok=True)
        with_postgres = arguments.backend != "sqlite"
        server_url = (
            open_now.enter_context(postgres_server(arguments.keep and folder)) if with_postgres else None
        )
        _say(_machine(server_url))
        if arguments.backend != "postgres":
            paths = [(shape, sqlite_store(folder, shape)) for shape in shapes]
            _report(
                runner,
                [Store("SQLite", shape, str(path), path.stat().st_size) for shape, path in paths],
                arguments,
            )
        if server_url is not None:
            urls = [
                (
                    shape,
                    open_now.enter_context(
                        postgres_store(server_url, shape, keep=arguments.keep is not None)
                    ),
                )
                for shape in shapes
            ]
            _report(
                runner,
                [Store("PostgreSQL", shape, url, postgres_size(url)) for shape, url in urls],
                arguments,
            )


def _machine(server_url: str | None) -> Iterator[str]:
    """When and on what this was measured."""
    import apsw

    yield (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} at the start, Python {platform.python_version()}"
    )
    packages = (
        "typer",
        "rich",
        "psycopg",
        "langgraph",
        "langgraph-checkpoint-sqlite",
        "langgraph-checkpoint-postgres",
    )
    versions = [f"SQLite {apsw.sqlite_lib_version()}", *(f"{name} {version(name)}" for name in packages)]
    if server_url is not None:
        with psycopg.connect(server_url) as connection:
            number = connection.info.server_version
        versions.insert(1, f"PostgreSQL {number // 10000}.{number % 10000}")
    yield ", ".join(versions)


def _report(runner: Runner, stores: Sequence[Store], arguments: argparse.Namespace) -> None:
    done: dict[Shape, Measured] = {}
    for store in stores:
        walks = {"list": arguments.walks, "history": int(arguments.history)}
        if store.shape.turns > 500:
            walks = {way: min(times, 1) for way, times in walks.items()}
        if store.shape.value_bytes == SMALL_VALUE:
            walks = {}
        done[store.shape] = measure(runner, store, runs=arguments.runs, walks=walks)
        _say(table(done[store.shape]))
    large_values = [each for shape, each in done.items() if shape.value_bytes == LARGE_VALUE]
    for before, after in pairwise(large_values):
        _say(growth(before, after))
    _say(size_effect(done[Shape(500, SMALL_VALUE)], done[Shape(500, LARGE_VALUE)]))


def _say(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)
    print(flush=True)


if __name__ == "__main__":
    main()
