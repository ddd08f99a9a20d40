"""The library for a running event loop: :mod:`turnstate.library.functions` with ``await``, by the same names.

Each call works in a thread. An async saver is awaited on the loop that it was made for, and else on the caller's; calls
to one store wait for one another. Whoever is cancelled goes on at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from turnstate.library import functions
from turnstate.library.records import Diff, Gaps, Keys, Log, Reading, Thread, Turns, TurnsBy
from turnstate.library.store import Source, Store
from turnstate.library.worker import in_thread

__all__ = ["diff", "gaps", "keys", "log", "open_store", "read", "threads", "turns"]


@asynccontextmanager
async def open_store(store: Source, *, schema: str | None = None) -> AsyncIterator[Store]:
    """As :func:`turnstate.open_store`, for ``async with``."""
    loop = asyncio.get_running_loop()
    opened = await in_thread(lambda: Store(store, schema=schema, loop=loop), drop=Store.close)
    try:
        yield opened
    finally:
        await in_thread(opened.close)


async def threads(
    store: Store, pattern: str | None = None, *, limit: int | None = None
) -> tuple[Thread, ...]:
    """As :func:`turnstate.threads`."""
    return await in_thread(lambda: functions.threads(store, pattern, limit=limit))


async def turns(
    store: Store,
    thread: str,
    *,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Turns:
    """As :func:`turnstate.turns`."""
    return await in_thread(
        lambda: functions.turns(
            store, thread, namespace=namespace, branch=branch, messages=messages, turns_by=turns_by
        )
    )


async def keys(
    store: Store,
    thread: str,
    turn: int | None = None,
    *,
    checkpoint: str | None = None,
    at: datetime | None = None,
    internal: bool = False,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Keys:
    """As :func:`turnstate.keys`."""
    return await in_thread(
        lambda: functions.keys(
            store,
            thread,
            turn,
            checkpoint=checkpoint,
            at=at,
            internal=internal,
            namespace=namespace,
            branch=branch,
            messages=messages,
            turns_by=turns_by,
        )
    )


async def read(
    store: Store,
    thread: str,
    key: str,
    turn: int | None = None,
    *,
    at_start: bool = False,
    checkpoint: str | None = None,
    at: datetime | None = None,
    internal: bool = False,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Reading:
    """As :func:`turnstate.read`."""
    return await in_thread(
        lambda: functions.read(
            store,
            thread,
            key,
            turn,
            at_start=at_start,
            checkpoint=checkpoint,
            at=at,
            internal=internal,
            namespace=namespace,
            branch=branch,
            messages=messages,
            turns_by=turns_by,
        )
    )


async def log(
    store: Store,
    thread: str,
    key: str | None = None,
    *,
    turns: tuple[int | None, int | None] | None = None,
    limit: int | None = None,
    reverse: bool = False,
    values: bool | None = None,
    internal: bool = False,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Log:
    """As :func:`turnstate.log`."""
    return await in_thread(
        lambda: functions.log(
            store,
            thread,
            key,
            turns=turns,
            limit=limit,
            reverse=reverse,
            values=values,
            internal=internal,
            namespace=namespace,
            branch=branch,
            messages=messages,
            turns_by=turns_by,
        )
    )


async def diff(
    store: Store,
    thread: str,
    key: str | None = None,
    *,
    turns: int | tuple[int | None, int | None] = -1,
    internal: bool = False,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Diff:
    """As :func:`turnstate.diff`."""
    return await in_thread(
        lambda: functions.diff(
            store,
            thread,
            key,
            turns=turns,
            internal=internal,
            namespace=namespace,
            branch=branch,
            messages=messages,
            turns_by=turns_by,
        )
    )


async def gaps(
    store: Store,
    thread: str,
    *,
    namespace: str = "",
    branch: str | None = None,
    messages: str | None = None,
    turns_by: TurnsBy | None = None,
) -> Gaps:
    """As :func:`turnstate.gaps`."""
    return await in_thread(
        lambda: functions.gaps(
            store, thread, namespace=namespace, branch=branch, messages=messages, turns_by=turns_by
        )
    )
