"""Read a LangGraph checkpoint store by turns.

What a program calls is here, and for a running event loop in :mod:`turnstate.aio` by the same names. Each name is
loaded when it is first used, so that importing the package, as the command line does, loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnstate import aio as aio
    from turnstate.library.functions import diff, gaps, keys, log, read, threads, turns
    from turnstate.library.history import CheckpointHistory
    from turnstate.library.protocol import Snapshots, ThreadHistory
    from turnstate.library.records import (
        Change,
        Diff,
        End,
        Gap,
        Gaps,
        Key,
        Keys,
        Log,
        Outcome,
        Reading,
        Snapshot,
        Thread,
        Turn,
        Turns,
        Version,
        Written,
    )
    from turnstate.library.store import Store, open_store
    from turnstate_backends.interface import StoreError

__all__ = [
    "Change",
    "CheckpointHistory",
    "Diff",
    "End",
    "Gap",
    "Gaps",
    "Key",
    "Keys",
    "Log",
    "Outcome",
    "Reading",
    "Snapshot",
    "Snapshots",
    "Store",
    "StoreError",
    "Thread",
    "ThreadHistory",
    "Turn",
    "Turns",
    "Version",
    "Written",
    "aio",
    "diff",
    "gaps",
    "keys",
    "log",
    "open_store",
    "read",
    "threads",
    "turns",
]

_FUNCTIONS = ("diff", "gaps", "keys", "log", "read", "threads", "turns")
_HOMES = {
    **dict.fromkeys(_FUNCTIONS, "turnstate.library.functions"),
    **dict.fromkeys(("Store", "open_store"), "turnstate.library.store"),
    **dict.fromkeys(("Snapshots", "ThreadHistory"), "turnstate.library.protocol"),
    "CheckpointHistory": "turnstate.library.history",
    "StoreError": "turnstate_backends.interface",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "aio":
        return import_module("turnstate.aio")
    found = getattr(import_module(_HOMES.get(name, "turnstate.library.records")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
