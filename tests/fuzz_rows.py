"""Feed stores of any rows at all to the whole program for as long as you like.

``python tests/fuzz_rows.py 2000 --seed 7`` ends at the first store that is not survived, and names its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "fixtures", "backends", "cli")]

import row_sets  # noqa: E402  (found through the lines above)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("count", type=int, help="how many stores")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them")
    options = parser.parse_args()
    slowest, culprit = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.count):
            path, chance = Path(folder, f"{seed}.db"), random.Random(seed)
            started = time.perf_counter()
            try:
                row_sets.build(path, chance.randrange)
                row_sets.check(path)
                row_sets.command(path, chance.randrange)
            except BaseException:
                print(f"not survived: the store of seed {seed}", file=sys.stderr)
                raise
            path.unlink()
            slowest, culprit = max((slowest, culprit), (time.perf_counter() - started, seed))
    print(f"{options.count} stores from seed {options.seed}; slowest {slowest:.2f} s (seed {culprit})")


if __name__ == "__main__":
    main()
