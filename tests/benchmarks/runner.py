"""Runs programs one at a time and measures each: one JSON request per line in, one JSON measurement per line out.

A process of its own that imports next to nothing, because Linux counts what the parent held at the start towards
a child's peak memory: measured from a program that has LangGraph loaded, no command would seem to need less.
"""

from __future__ import annotations

import json
import os
import sys
import time


def measure(argv: list[str]) -> dict[str, float]:
    """Run a program whose output and notes go nowhere.

    Returns:
        ``wall`` and ``cpu`` in seconds, ``peak`` in MiB, ``code`` as the exit code.
    """
    discard = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    started = time.perf_counter()
    child = os.posix_spawn(argv[0], argv, os.environ, file_actions=discard)
    _, status, used = os.wait4(child, 0)
    wall = time.perf_counter() - started
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return {
        "wall": wall,
        "cpu": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss / unit,
        "code": os.waitstatus_to_exitcode(status),
    }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(measure(json.loads(line))), flush=True)
