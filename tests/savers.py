"""Savers for tests of the way through a saver: ones that yield their rows in other orders, and names for them."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver


class Ascending(InMemorySaver):
    """Lists the oldest row first, as savers once did."""

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        yield from reversed(list(super().list(config, **asked)))


class Shuffled(InMemorySaver):
    """Lists rows in no order, some of them twice."""

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        found = list(super().list(config, **asked))
        found += found[::3]
        random.Random(len(found)).shuffle(found)
        yield from found


def named(monkeypatch: pytest.MonkeyPatch, attribute: Any) -> str:
    """The address of something as ``module:attribute``, for the time of the test."""
    module = ModuleType(f"a_module_of_{len(sys.modules)}")
    module.it = attribute  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv(
        "LANGGRAPH_STRICT_MSGPACK", "false"
    )  # put back as it was; LangGraph is imported already
    return f"saver:{module.__name__}:it"
