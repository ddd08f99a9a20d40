"""An opened store as a program holds it: by URL, or a saver that the program goes on using."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from turnstate_backends.interface import StoreError

if TYPE_CHECKING:
    from turnstate.history.thread import History
    from turnstate.history.turns import TurnsBy
    from turnstate_backends.interface import Store as Backend
    from turnstate_backends.saver_open import Saver

Source: TypeAlias = "str | os.PathLike[str] | Saver"
"""A store's path or URL, as ``--store`` takes it; or a checkpoint saver."""


class Caller:
    """Who waits on an event loop for a thread that works for them.

    Attributes:
        gone: They no longer do.
        store: What the thread reads.
    """

    def __init__(self) -> None:
        self.gone = False
        self.store: Store | None = None

    def go(self) -> None:
        """Wait no longer."""
        self.gone = True
        if (store := self.store) is not None:
            store.interrupt(self)


CALLER: ContextVar[Caller | None] = ContextVar("CALLER", default=None)
"""For whom this thread works."""


class Store:
    """An opened store; leave its ``with`` block, or call :meth:`close`, as soon as it was read.

    All reads of a SQLite file or a PostgreSQL database see the one state that it had when it was opened. A saver has
    no such snapshot: of a thread, rows are listed when it is first asked about, and values fetched as they are
    needed. Calls from several threads wait for one another.

    Attributes:
        name: What the store is called: its path or URL without passwords, or the saver's class.
    """

    def __init__(
        self, source: Source, *, schema: str | None = None, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        from turnstate_backends.address import secrets_of

        source = os.fspath(source) if isinstance(source, os.PathLike) else source
        self._secrets = (
            secrets_of(source, os.environ.get("PGPASSWORD", "")) if isinstance(source, str) else frozenset()
        )
        self._lock = Lock()
        self._state = Lock()
        self._caller: Caller | None = None
        self._closing = False
        self._closed = False
        self._last: tuple[tuple[object, ...], History] | None = None
        with self._errors():
            self._backend = _opened(source, schema, loop)
        self.name = self._backend.name

    @contextmanager
    def reading(self) -> Iterator[Backend]:
        """The store behind, for one call at a time.

        Raises:
            StoreError: It was closed; or whatever goes wrong within, so far as a caller can mend it.
        """
        try:
            with self._lock, self._errors(), self._called():
                if self._closing:
                    raise StoreError(f"{self.name} is closed", "its block was left", "Open it again.")
                yield self._backend
        finally:
            if self._closing:
                self._end()

    def history(
        self,
        backend: Backend,
        thread: str,
        *,
        namespace: str,
        branch: str | None,
        messages: str | None,
        turns_by: TurnsBy | None,
    ) -> History:
        """A thread; the one that was asked about last is at hand, as long as its rows cannot have changed.

        Raises:
            Missed: It is not there.
            Refused: Its names do not say what is meant.
        """
        from turnstate.history.asked import MESSAGES, thread_asked

        which = (thread, namespace, branch, messages, turns_by)
        if self._last is None or self._last[0] != which:
            self._last = None  # never two at a time
            history = thread_asked(
                backend,
                thread,
                ns=namespace,
                branch=branch,
                messages=messages or MESSAGES,
                turns_by=turns_by,
            )
            self._last = which, history
        return self._last[1]

    @contextmanager
    def _called(self) -> Iterator[None]:
        """Know who has the call that is under way, unless they have gone by now."""
        caller = CALLER.get()
        with self._state:
            self._tell("resume")
            self._caller = caller
        if caller is not None:
            caller.store = self
        try:
            if caller is not None and caller.gone:
                raise StoreError(f"{self.name} was not read", "whoever asked has gone", "Ask again.")
            yield
        finally:
            with self._state:
                self._caller = None

    def interrupt(self, caller: Caller) -> None:
        """Have someone's call end soon where it reads a saver; one that reads a database goes on to its end."""
        with self._state:
            if self._caller is caller:
                self._tell("interrupt")

    def _tell(self, what: Literal["interrupt", "resume"]) -> None:
        tell = getattr(self._backend, what, None)  # savers alone can be told
        if tell is not None:
            tell()

    def close(self) -> None:
        """Let go of the store; a call that is under way in another thread does so when it ends. Safe to call twice."""
        self._closing = True
        self._end()

    def _end(self) -> None:
        # Whoever holds the lock ends the store when they let go of it.
        if self._lock.acquire(blocking=False):
            try:
                if not self._closed:
                    self._closed = True
                    self._last = None
                    self._backend.close()
            finally:
                self._lock.release()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What a caller can mend, as a :class:`StoreError` that shows no password."""
        from turnstate.history.refusals import Refused

        try:
            yield
        except (StoreError, Refused) as error:
            raise StoreError(*map(self.without_passwords, (error.what, error.why, error.hint))) from None

    def without_passwords(self, text: str) -> str:
        """``text`` without those of the address, or of a URL within it."""
        from turnstate_backends.address import hide_in_urls, redact

        return redact(hide_in_urls(text), self._secrets)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _opened(source: str | Saver, schema: str | None, loop: asyncio.AbstractEventLoop | None) -> Backend:
    if isinstance(source, str):
        from turnstate_backends.stores import open_store as opened

        return opened(source, schema=schema, apart=False)  # other threads print as well
    from turnstate_backends.saver import wrap_saver

    return wrap_saver(source, loop)


def open_store(store: Source, *, schema: str | None = None) -> Store:
    """Open a store for reading; nothing is ever written to it.

    Args:
        store: A SQLite file or ``sqlite:///FILE``, ``postgresql://…``, ``saver:MODULE:ATTRIBUTE``, or a checkpoint
            saver that is open. A saver is read by its ``list`` and ``get_tuple`` or their async twins alone, and
            stays open.
        schema: The PostgreSQL schema of the tables; found through the search path when None.

    Returns:
        The store, to be used as a context manager.

    Raises:
        StoreError: It cannot be opened.
    """
    return Store(store, schema=schema)
