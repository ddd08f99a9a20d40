"""The whole program over stores of any rows at all: no crash, and each turn and each row is accounted for once."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import row_sets


def picked(choices: st.DataObject) -> row_sets.Pick:
    return lambda many: choices.draw(st.integers(0, many - 1))


@settings(max_examples=25, deadline=None)
@given(choices=st.data())
def test_any_rows_give_turns_that_account_for_each_row_and_each_number_once(choices: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.db")
        row_sets.build(path, picked(choices))
        row_sets.check(path)


def test_30_random_stores_are_survived_by_every_command(tmp_path: Path) -> None:
    for seed in range(30):
        chance = random.Random(seed)
        path = tmp_path / f"{seed}.db"
        row_sets.build(path, chance.randrange)
        row_sets.check(path)
        row_sets.command(path, chance.randrange)
        path.unlink()
