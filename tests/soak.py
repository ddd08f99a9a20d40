"""A thousand reads beside a graph that writes without a pause for breath, on each kind of store: ``make soak``.

Says how many answers were of one moment, how long the writer was kept by its longest write with and without readers,
and what was left behind. Ends with 1 at the first answer that contradicts itself, and when a write failed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import live
import pg
from cli_run import run, run_process

READS = 1000
_ALONE = 20.0  # seconds in which the writer is watched without readers
_PROCESS_EACH = 25  # every so many-th read is a process of its own


def soak(kind: str, store: str, reads: int) -> None:
    """Read beside one kind of writer, and print what happened."""
    tries = again = 0
    runner: Any = run

    def ask(*argv: str) -> Any:
        nonlocal tries, again
        while True:
            tries += 1
            result = runner(*argv, "--json", "--store", store)
            if result.code == 2 and "in one snapshot" in result.err and result.out == "":
                again += 1  # it says that it is to be run again
                continue
            assert (result.code, result.err) == (0, ""), (argv, result)
            return result.document

    with live.writing(kind, store) as writer:
        writer.fared()
        time.sleep(_ALONE)
        alone = writer.fared()
        began, longest = time.monotonic(), 0.0
        for number in range(reads):
            runner = run_process if number % _PROCESS_EACH == 0 else run
            thread = live.newest(ask)
            asked = time.monotonic()
            live.READS[number % len(live.READS)](ask, thread)
            longest = max(longest, time.monotonic() - asked)
            if (number + 1) % 100 == 0:
                print(f"{kind}: {number + 1} reads so far", file=sys.stderr)
        took = time.monotonic() - began
        beside = writer.fared()
        writer.end()
    print(f"{kind}: {reads} reads of one moment each in {took:.0f} s, the longest {longest:.2f} s; ", end="")
    print(f"{again} of {tries} commands said to run them again")
    for name, fared in (("alone", alone), ("beside", beside)):
        print(f"  writer {name}: {fared.turns} turns, its longest write {fared.longest * 1000:.0f} ms")


def main(reads: int = READS, *kinds: str) -> None:
    """Every kind of store, or some."""
    for kind in kinds or ("wal", "reopening", "rollback"):
        if kind == "postgres":
            continue
        with tempfile.TemporaryDirectory() as folder:
            soak(kind, str(Path(folder, "agent.db")), reads)
            print(
                f"  left in the folder: {', '.join(path.name for path in Path(folder).iterdir())}", flush=True
            )
    if not kinds or "postgres" in kinds:
        with pg.server() as server, pg.database(server) as store:
            soak("postgres", store, reads)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else READS, *sys.argv[2:])
