"""The benchmark of the main job: what was in a key as of a turn, on threads that grow. ``make bench``.

Nothing fails by being slow: targets are printed beside the figures. A wrong answer does fail.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import psycopg
from fleet import Fleet, postgres_fleet, sqlite_fleet
from measuring import Measured, Runner, Store, measure
from stores import Shape, postgres_server, postgres_size, postgres_store, sqlite_store
from tables import growth, size_effect, table

LARGE_VALUE, SMALL_VALUE = 20 * 1024, 1024
QUICK = (125, 500)
LARGE, KEPT = 2000, 500  # turns, and messages of a conversation that is trimmed
FLEET = 20_000


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=["sqlite", "postgres"], help="only this one")
    parser.add_argument(
        "--quick", action="store_true", help="only 125 and 500 turns, and no walk of get_state_history"
    )
    parser.add_argument(
        "--only", choices=[*map(str, (*QUICK, LARGE)), "fleet"], help="only the stores of so many turns"
    )
    parser.add_argument(
        "--runs", type=int, default=9, metavar="N", help="pairs of runs per command (default 9)"
    )
    parser.add_argument("--walks", type=int, default=3, metavar="N", help="walks of saver.list (default 3)")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="make the stores there, or use those that are there"
    )
    arguments = parser.parse_args()
    if arguments.runs < 1 or not 0 <= arguments.walks <= arguments.runs:
        parser.error("--runs must be at least 1, and --walks between 0 and --runs")
    return arguments


def _shapes(*, quick: bool, only: str | None) -> list[Shape | Fleet]:
    sizes = QUICK if quick else (*QUICK, LARGE)
    shapes: list[Shape | Fleet] = [
        Shape(turns, size) for size in (LARGE_VALUE, SMALL_VALUE) for turns in sizes
    ]
    if not quick:
        shapes += [Shape(LARGE, LARGE_VALUE, KEPT), Fleet(FLEET)]
    return [
        each for each in shapes if only in (None, str(each.turns) if isinstance(each, Shape) else "fleet")
    ]


def main() -> None:
    """Make the stores, time the commands, print the tables."""
    arguments = _arguments()
    shapes = _shapes(quick=arguments.quick, only=arguments.only)
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
        keep = arguments.keep is not None
        if arguments.backend != "postgres":
            _report(runner, (_in_sqlite(folder, shape, keep) for shape in shapes), arguments)
        if server_url is not None:
            _report(runner, (_in_postgres(server_url, shape, keep) for shape in shapes), arguments)


@contextmanager
def _in_sqlite(folder: Path, shape: Shape | Fleet, keep: bool) -> Iterator[Store]:
    path = sqlite_fleet(folder, shape) if isinstance(shape, Fleet) else sqlite_store(folder, shape)
    yield Store("SQLite", shape, str(path), path.stat().st_size)
    if not keep:
        path.unlink()


@contextmanager
def _in_postgres(server_url: str, shape: Shape | Fleet, keep: bool) -> Iterator[Store]:
    made = (
        postgres_fleet(server_url, shape, keep=keep)
        if isinstance(shape, Fleet)
        else postgres_store(server_url, shape, keep=keep)
    )
    with made as url:
        yield Store("PostgreSQL", shape, url, postgres_size(url))


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


def _report(
    runner: Runner, stores: Iterable[AbstractContextManager[Store]], arguments: argparse.Namespace
) -> None:
    """Measure one store after the other, each made when it is its turn and dropped afterwards unless it is kept."""
    done: dict[Shape | Fleet, Measured] = {}
    for made in stores:
        with made as store:
            walks = _walks(store, arguments)
            done[store.shape] = measure(runner, store, runs=arguments.runs, walks=walks)
        _say(table(done[store.shape]))
    whole = [each for shape, each in done.items() if isinstance(shape, Shape) and shape.kept is None]
    for before, after in pairwise(whole):
        if before.store.shape.value_bytes == after.store.shape.value_bytes:
            _say(growth(before, after))
    for large in whole:
        small = done.get(replace(large.store.shape, value_bytes=SMALL_VALUE))
        if small and small is not large:
            _say(size_effect(small, large))


def _walks(store: Store, arguments: argparse.Namespace) -> dict[str, int]:
    """How often the thread is walked by LangGraph's own means, which takes long."""
    if isinstance(store.shape, Fleet) or store.shape.value_bytes == SMALL_VALUE:
        return {}
    if store.shape.turns == LARGE:  # it takes minutes; get_state_history would also hold tens of GB
        return {"list": min(arguments.walks, 1)}
    return {"list": arguments.walks, "history": int(not arguments.quick)}


def _say(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)
    print(flush=True)


if __name__ == "__main__":
    main()
