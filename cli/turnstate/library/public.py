"""All that programs find in ``turnstate``, loaded together when the first of it is used."""

from turnstate.history.reading import Outcome
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
    "diff",
    "gaps",
    "keys",
    "log",
    "open_store",
    "read",
    "threads",
    "turns",
]
