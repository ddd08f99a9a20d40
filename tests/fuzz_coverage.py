"""Fuzzing that is guided by coverage: of the payload readers, or of the whole history over any rows at all.

``python tests/fuzz_coverage.py payloads -max_total_time=300 FOLDER`` needs ``atheris``, which the other tests do not;
``make fuzz-coverage`` has it in an environment of its own. What follows the name goes to libFuzzer. A case that is not
survived is left in the present folder, and belongs into ``tests/test_fuzzed.py``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "fixtures", "backends", "cli")]

with atheris.instrument_imports(include=["turnstate", "turnstate_backends"]):
    import mutations
    import row_sets
    from turnstate_backends.values import Stored

KINDS = [None, "json", "msgpack", "bytes", "pickle", "msgpack+aes"]


def payloads(data: bytes) -> None:
    """The first byte says which type the rest is stored as."""
    if data:
        mutations.survives(Stored(KINDS[data[0] % len(KINDS)], data[1:], len(data) - 1))


def rows(folder: Path) -> Callable[[bytes], None]:
    """Each choice takes some of the bytes."""
    path = folder / "t.db"

    def one(data: bytes) -> None:
        given = atheris.FuzzedDataProvider(data)
        path.unlink(missing_ok=True)
        row_sets.build(path, lambda many: given.ConsumeIntInRange(0, many - 1))
        row_sets.check(path)

    return one


def seed(folder: Path) -> None:
    """Whole payloads of every form, for the fuzzer to begin with."""
    for number, (kind, data) in enumerate(mutations.seeds()):
        (folder / f"seed-{number}").write_bytes(bytes([KINDS.index(kind)]) + data)


def main() -> None:
    what, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if what == "payloads":
            seed(Path(folder))
            options.append(folder)
        target = payloads if what == "payloads" else rows(Path(folder))
        atheris.Setup([sys.argv[0], *options], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
