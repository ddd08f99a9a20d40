"""Read a LangGraph checkpoint store by turns.

What a program calls is here, and for a running event loop in :mod:`turnstate.aio` by the same names. Each name is
loaded when it is first used, so that importing the package, as the command line does, loads nothing.

What :func:`turns`, :func:`keys`, :func:`read`, :func:`log`, :func:`diff` and :func:`gaps` share:

* ``store``: as :func:`turnstate.open_store` gives it.
* ``thread``: ``thread_id``.
* ``turn``: from 1; -1 is the last one, 0 the state before the first question.
* ``namespace``: ``checkpoint_ns``; the root graph's is empty.
* ``branch``: a checkpoint, by its id or the unique beginning of it, whose line is meant and not the head's.
* ``messages``: the channel that holds the conversation; ``messages`` when None.
* ``turns_by``: what to count; by default questions, and inputs where no question arrives as a message.
* ``internal``: LangGraph's own channels too.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; typing is not loaded for its own
if TYPE_CHECKING:
    from turnstate import aio as aio
    from turnstate.agent.inspect_tool import make_inspect_state
    from turnstate.agent.tool_state import breadcrumb, merge_tool_state, state_metadata, tool_state_entry
    from turnstate.library.public import (
        Change,
        CheckpointHistory,
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
        Snapshots,
        Store,
        StoreError,
        Thread,
        ThreadHistory,
        Turn,
        Turns,
        Version,
        Written,
        diff,
        gaps,
        keys,
        log,
        open_store,
        read,
        threads,
        turns,
    )

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
    "breadcrumb",
    "diff",
    "gaps",
    "keys",
    "log",
    "make_inspect_state",
    "merge_tool_state",
    "open_store",
    "read",
    "state_metadata",
    "threads",
    "tool_state_entry",
    "turns",
]


def __getattr__(name: str) -> object:
    if name == "aio":
        import turnstate.aio as module

        return module
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "make_inspect_state":
        from turnstate.agent.inspect_tool import make_inspect_state

        return make_inspect_state
    if name in ("breadcrumb", "merge_tool_state", "state_metadata", "tool_state_entry"):
        from turnstate.agent import tool_state

        return getattr(tool_state, name)
    from turnstate.library import public

    found: object = getattr(public, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
