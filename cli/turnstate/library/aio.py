"""The library for a running event loop: :mod:`turnstate.library.functions` with ``await``, by the same names.

Each call works in a thread. An async saver is awaited on the loop that it was made for, and else on the caller's; calls
to one store wait for one another. Whoever is cancelled goes on at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from turnstate.library import functions
from turnstate.library.store import Source, Store
from turnstate.library.worker import in_thread

__all__ = ["diff", "gaps", "keys", "log", "open_store", "read", "threads", "turns"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


@asynccontextmanager
async def open_store(store: Source, *, schema: str | None = None) -> AsyncIterator[Store]:
    """As :func:`turnstate.open_store`, for ``async with``."""
    loop = asyncio.get_running_loop()
    opened = await in_thread(lambda: Store(store, schema=schema, loop=loop), drop=Store.close)
    try:
        yield opened
    finally:
        await in_thread(opened.close)


def _awaited(function: Callable[_P, _T]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    @wraps(function)
    async def awaited(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await in_thread(lambda: function(*args, **kwargs))

    return awaited


threads = _awaited(functions.threads)
turns = _awaited(functions.turns)
keys = _awaited(functions.keys)
read = _awaited(functions.read)
log = _awaited(functions.log)
diff = _awaited(functions.diff)
gaps = _awaited(functions.gaps)
