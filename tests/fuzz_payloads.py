"""Feed damaged payloads to the payload readers for as long as you like.

``python tests/fuzz_payloads.py 200000 --seed 7`` prints what became of them; an escaped exception stops
it and names the payload that did it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "backends")]

import mutations  # noqa: E402  (found through the lines above)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("count", type=int, help="how many payloads")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    slowest, culprit = 0.0, ""
    for stored in mutations.mutated(mutations.seeds(), options.count, options.seed):
        started = time.perf_counter()
        try:
            outcomes[mutations.survives(stored)] += 1
        except BaseException:
            print(f"escaped from {stored!r}", file=sys.stderr)
            raise
        took = time.perf_counter() - started
        if took > slowest:
            slowest, culprit = took, f"{stored.type}, {len(stored.data)} bytes"
    print(f"seed {options.seed}: {options.count} payloads, {dict(outcomes)}")
    print(f"slowest {slowest * 1000:.1f} ms ({culprit})")


if __name__ == "__main__":
    main()
