"""Aligned sequences, held against a table of all pairs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstate.history.align import Pairs, aligned


def longest(old: Sequence[int], new: Sequence[int]) -> int:
    """Length of a longest common subsequence, by the textbook's table."""
    row = [0] * (len(new) + 1)
    for a in old:
        before = row
        row = [0]
        for j, b in enumerate(new):
            row.append(before[j] + 1 if a == b else max(before[j + 1], row[j]))
    return row[-1]


def is_alignment(old: Sequence[int], new: Sequence[int], pairs: Pairs) -> bool:
    ascending = all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    return ascending and all(old[i] == new[j] for i, j in pairs)


_FEW = st.lists(st.integers(0, 4), max_size=25)


@given(_FEW, _FEW)
def test_short_sequences_are_aligned_as_far_as_possible(old: list[int], new: list[int]) -> None:
    pairs = aligned(old, new)
    assert is_alignment(old, new, pairs)
    assert len(pairs) == longest(old, new)


@pytest.mark.parametrize("seed", range(8))
def test_long_sequences_that_differ_much_keep_an_order(seed: int) -> None:
    chance = random.Random(seed)
    old = [chance.randrange(600) for _ in range(1500)]
    new = chance.sample(old, 1200) if seed % 2 else [chance.randrange(600) for _ in range(1500)]
    assert is_alignment(old, new, aligned(old, new))


def test_items_that_occur_once_anchor_what_is_too_different_to_be_searched() -> None:
    blocks = [[10_000 + n] + [n % 7] * 3 for n in range(400)]
    old = [item for block in blocks for item in block]
    new = [item for n, block in enumerate(blocks) for item in [*block[:1], -n, *block[1:], n % 5]]
    pairs = aligned(old, new)
    assert is_alignment(old, new, pairs)
    assert {old[i] for i, _ in pairs} >= {10_000 + n for n in range(400)}
