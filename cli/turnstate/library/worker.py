"""Work that blocks, done in a thread while an event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import BoundedSemaphore, Thread
from typing import Any, TypeVar

from turnstate.library.store import CALLER, Caller

_T = TypeVar("_T")
_AT_ONCE = BoundedSemaphore(8)  # a database has not many more connections to spare


async def in_thread(work: Callable[[], _T], *, drop: Callable[[_T], object] | None = None) -> _T:
    """What ``work`` gives, done in a thread of its own.

    The event loop's own threads (:func:`asyncio.to_thread`) are left to the savers: the work may wait for one that
    needs them, and all of them would be waiting. Whoever is cancelled goes on at once; the thread ends by itself.

    Args:
        work: What to do.
        drop: What becomes of a result that nobody waits for any more; called in a thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()
    caller = Caller()

    def deliver(result: Any, error: BaseException | None) -> None:
        if done.done():
            if error is None:
                _let_go(drop, result)
        elif error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        CALLER.set(caller)
        result, failure = None, None
        with _AT_ONCE:
            try:
                result = work()
            except BaseException as error:
                failure = error
        try:
            loop.call_soon_threadsafe(deliver, result, failure)
        except RuntimeError:  # the loop was closed meanwhile
            if failure is None and drop is not None:
                drop(result)  # type: ignore[arg-type]

    Thread(target=partial(copy_context().run, run), name="turnstate", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        if done.done() and not done.cancelled() and done.exception() is None:
            _let_go(drop, done.result())
        caller.go()
        raise


def _let_go(drop: Callable[[Any], object] | None, result: Any) -> None:
    if drop is not None:
        with suppress(RuntimeError):  # no more threads are started: the process ends
            Thread(target=partial(drop, result), name="turnstate", daemon=True).start()
