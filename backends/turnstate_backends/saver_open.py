"""A saver of the user's own: found by its name, opened, and called, whether it is sync or async.

Runs the user's code and the saver's, and turns whatever they raise into a :class:`StoreError`. Calls nothing of a
saver but ``list`` and ``get_tuple`` or their async twins, and never ``setup``. What a row means is
:mod:`turnstate_backends.saver`'s affair.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from turnstate_backends.address import SaverAddress
from turnstate_backends.interface import StoreError
from turnstate_backends.usercode import Unimported, aside, guarded, imported, one_line, present_folder

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

Saver: TypeAlias = "BaseCheckpointSaver[Any]"

STRICT = "LANGGRAPH_STRICT_MSGPACK"
_YES = ("1", "true", "yes")  # as langgraph.checkpoint.serde._msgpack reads it
_NAMES_A_CLASS = b"\xc7\x15\x00\x93\xa9fractions\xa8Fraction\x05"  # extension 0: that class of 5

# Built also by a strict deserialiser, which would else hand out their content as plain text, unmasked.
_SECRETS = tuple(
    (module, name)
    for module in ("pydantic.types", "pydantic.v1.types")
    for name in ("SecretStr", "SecretBytes")
)
_MOST_STEPS = 5  # a factory of a coroutine of a context manager of a saver is four
_MOST_TRIES = 10  # of a listing that another thread's writing breaks off
_LOOK_AFTER = 1.0  # seconds between looks whether a loop that is waited for still runs
_READ_DIRECTLY = "A SQLite file or a PostgreSQL database can be read directly, by its path or URL."


class SaverCalls:
    """An opened saver.

    Args:
        source: Where it is; or the saver, which a program then keeps and goes on using.
        apart: See :func:`turnstate_backends.usercode.guarded`.
        loop: The caller's running event loop, where the saver may be awaited.

    Attributes:
        name: What the user calls it.
        interrupted: Reads are to end.

    Raises:
        StoreError: It cannot be imported, made or opened, or is no saver; or LangGraph is not installed.
    """

    def __init__(
        self, source: SaverAddress | Any, *, apart: bool = True, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._is_given = not isinstance(source, SaverAddress)
        self.name = type(source).__qualname__ if self._is_given else source.display
        self._apart = apart
        self.interrupted = False
        self._loop = loop
        self._pending: Future[Any] | None = None
        self._saver: Any = None
        self._stack = ExitStack()
        self._runner: asyncio.Runner | None = None
        try:
            if self._is_given:
                base = _saver_class(self.name)
                self._saver = self._taken(source, base)
            else:
                base = _langgraph(self.name)
                self._saver = self._opened(source, base)
            self._ways = self._offered(base)
        except BaseException:
            self.close()
            raise

    def each(self, config: Mapping[str, Any] | None, visit: Callable[[Any], None]) -> None:
        """Show ``visit`` every ``CheckpointTuple`` that the saver lists, one at a time, in the saver's order.

        Raises:
            StoreError: The saver fails.
        """
        visited = False

        def noted(found: Any) -> None:
            nonlocal visited
            visited = True
            if self.interrupted:
                raise self._given_up()
            visit(found)

        with self._errors("cannot be read", _READ_DIRECTLY):
            refused: NotImplementedError | None = None
            for is_async in self._ways:
                try:
                    self._list_again(is_async, config, noted)
                except NotImplementedError as error:  # also how a stub says that it is one
                    if visited:
                        raise
                    refused = refused or error
                else:
                    self._ways = (is_async,)
                    return
            raise refused or NotImplementedError

    def one(self, config: Mapping[str, Any], visit: Callable[[Any], None]) -> None:
        """Show ``visit`` the ``CheckpointTuple`` that the saver gives for a checkpoint, if any. After a listing.

        Raises:
            StoreError: The saver fails.
        """
        with self._errors("cannot be read", _READ_DIRECTLY):
            if self.interrupted:
                raise self._given_up()
            saver, is_async = self._saver, self._ways[0]
            found = self._run(lambda: saver.aget_tuple(config)) if is_async else saver.get_tuple(config)
            if found is not None:
                visit(found)

    @property
    def apart(self) -> AbstractContextManager[None]:
        """What the user's code runs within."""
        return aside() if self._apart else nullcontext()

    def interrupt(self) -> None:
        """End the call that is under way in another thread, where it waits for an event loop, and those to come."""
        self.interrupted = True
        if (pending := self._pending) is not None:
            pending.cancel()

    def _given_up(self) -> StoreError:
        return StoreError(f"{self.name} was not read to the end", "whoever asked has gone", "Ask again.")

    def close(self) -> None:
        """Leave the context managers that were entered, and end the event loop. Safe to call twice."""
        with suppress(StoreError), self._errors("cannot be left", ""):  # the answer has been given
            if self._runner is not None:  # nor does it matter what comes of a task that was left behind
                self._runner.get_loop().set_exception_handler(lambda *_: None)
            self._stack.close()
        self._runner = None

    def _list_again(
        self, is_async: bool, config: Mapping[str, Any] | None, visit: Callable[[Any], None]
    ) -> None:
        """List, anew where a saver in memory was written to meanwhile; rows may then be shown more than once."""
        for left in reversed(range(_MOST_TRIES)):
            try:
                self._list(is_async, config, visit)
                return
            except RuntimeError as error:
                if not left or "during iteration" not in str(error):
                    raise

    def _list(self, is_async: bool, config: Mapping[str, Any] | None, visit: Callable[[Any], None]) -> None:
        if not is_async:
            for found in self._saver.list(config):
                visit(found)
            return

        async def visit_all() -> None:
            rows = self._saver.alist(config)
            async for found in await rows if inspect.isawaitable(rows) else rows:
                visit(found)

        self._run(visit_all)

    # How the saver is come by.

    def _opened(self, address: SaverAddress, base: type[Any]) -> Any:
        self._stack.enter_context(present_folder())  # for what a factory imports
        try:
            found = imported(address.module, address.attribute, apart=self._apart)
        except Unimported as error:
            raise StoreError(
                f"{self.name} cannot be imported",
                str(error),
                "Give saver:module:attribute as Python imports it, in the folder that holds the module.",
            ) from None
        with self._errors(
            "cannot be opened", "It is called and entered without arguments: see that it can be."
        ):
            for _ in range(_MOST_STEPS):
                if isinstance(found, base):
                    # The saver itself is not entered: some set up their tables there.
                    return _with_secrets(found)
                found = self._unwrapped(found)
        raise self._no_saver(found)

    def _taken(self, saver: Any, base: type[Any]) -> Any:
        if not isinstance(saver, base):
            raise self._no_saver(saver)
        with self._errors("cannot be read", _READ_DIRECTLY):
            return _with_secrets(saver)

    def _unwrapped(self, found: Any) -> Any:
        """One step from what was named towards the saver."""
        if inspect.isawaitable(found):
            return self._run(lambda: found)
        if not isinstance(found, type):
            if hasattr(type(found), "__enter__"):
                return self._stack.enter_context(found)
            if hasattr(type(found), "__aenter__"):
                return self._entered(found)
        if not callable(found):
            raise self._no_saver(found)
        try:
            return found()
        except RuntimeError as error:
            if "no running event loop" not in str(error):
                raise

        async def called() -> Any:
            return found()

        return self._run(called)

    def _no_saver(self, found: Any) -> StoreError:
        kind = type(found)
        return StoreError(
            f"{self.name} is no checkpoint saver",
            f"it is a {kind.__module__}.{kind.__qualname__}",
            "Name a BaseCheckpointSaver, a context manager that gives one, or a function that returns either.",
        )

    def _offered(self, base: type[Any]) -> tuple[bool, ...]:
        """Which of the saver's ways to take, sync (False) or async (True), the better one first.

        The sync methods of a saver that lives on an event loop wait for that loop, which stands still meanwhile.
        """
        cls = type(self._saver)

        def overrides(*names: str) -> bool:
            return all(getattr(cls, name, None) is not getattr(base, name) for name in names)

        made_for = self._made_for
        if made_for is not None and not (self._is_given or made_for.is_closed() or made_for.is_running()):
            self._loop_runner(made_for)
        on_loop = self._runner is not None or made_for is not None or self._loop is not None
        ways = {False: overrides("list", "get_tuple"), True: overrides("alist", "aget_tuple")}
        found = tuple(way for way in (on_loop, not on_loop) if ways[way])
        if not found:
            raise StoreError(
                f"{self.name} cannot be read",
                f"{cls.__name__} has neither list and get_tuple nor alist and aget_tuple",
                _READ_DIRECTLY,
            )
        return found

    # The event loop: the saver's or the caller's where one runs; else one that runs only while a call is under way.

    @property
    def _made_for(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the saver was made for, where it came with one."""
        loop = getattr(self._saver, "loop", None)
        return loop if isinstance(loop, asyncio.AbstractEventLoop) else None

    def _run(self, made: Callable[[], Awaitable[Any]]) -> Any:
        """What an awaitable gives, which is made on the loop: where that does not start, none is left over."""

        async def awaited() -> Any:
            return await made()

        made_for = self._made_for
        running = next(
            (each for each in (made_for, self._loop) if each is not None and each.is_running()), None
        )
        if running is not None:
            return self._handed_to(running, awaited())
        if self._is_given and made_for is not None and not made_for.is_closed():
            return made_for.run_until_complete(awaited())  # it stays the program's own, and is not closed
        return self._loop_runner().run(awaited())

    def _handed_to(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine gives on a loop that runs in another thread."""
        if _running_loop() is loop:
            coroutine.close()
            raise StoreError(
                f"{self.name} cannot be waited for on its own event loop",
                "it was called by a plain function, which keeps the loop from going on",
                "Await the function of the same name in turnstate.aio.",
            )
        try:
            self._pending = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:  # it was closed meanwhile
            coroutine.close()
            raise
        try:
            if self.interrupted:
                raise self._given_up()
            while not wait([self._pending], _LOOK_AFTER).done:
                if not loop.is_running():
                    raise RuntimeError("the event loop of the saver was stopped")
            return self._pending.result()
        except CancelledError:
            raise self._given_up() if self.interrupted else RuntimeError("the event loop ended") from None
        finally:
            self._pending.cancel()
            self._pending = None

    def _loop_runner(self, loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Runner:
        """The one runner, on the loop that the saver was made for where it came with one."""
        if self._runner is None:
            factory = None if loop is None else lambda: loop
            self._runner = self._stack.enter_context(asyncio.Runner(loop_factory=factory))
        return self._runner

    def _entered(self, manager: Any) -> Any:
        """Enter an async context manager; one task enters and leaves it, as task groups and time limits demand."""
        loop = self._loop_runner().get_loop()
        ready, leaving = loop.create_future(), asyncio.Event()
        task = loop.create_task(_hold(manager, ready, leaving))

        async def entered() -> Any:
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
            return ready.result() if ready.done() else await task

        def leave() -> None:
            leaving.set()
            self._run(lambda: task)

        found = self._run(entered)
        self._stack.callback(leave)
        return found

    def _errors(self, what: str, hint: str) -> AbstractContextManager[None]:
        return guarded(lambda why: StoreError(f"{self.name} {what}", why, hint), apart=self._apart)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _hold(manager: Any, ready: asyncio.Future[Any], leaving: asyncio.Event) -> None:
    async with manager as found:
        ready.set_result(found)
        await leaving.wait()


def _with_secrets(saver: Any) -> Any:
    """The saver, or a clone of it, whose strict deserialiser still builds secrets."""
    return saver.with_allowlist(_SECRETS) if hasattr(saver, "with_allowlist") else saver


def _saver_class(name: str) -> type[Any]:
    """``BaseCheckpointSaver``.

    Raises:
        StoreError: LangGraph is not installed.
    """
    try:
        from langgraph.checkpoint.base import BaseCheckpointSaver
    except ImportError as error:
        raise StoreError(
            f"{name} needs LangGraph",
            one_line(error),
            "Install turnstate with its extra: turnstate[langgraph].",
        ) from None
    return BaseCheckpointSaver


def _langgraph(name: str) -> type[Any]:
    """``BaseCheckpointSaver``, imported with strict deserialisation unless the user has set it otherwise.

    Raises:
        StoreError: LangGraph is not installed, or it is not strict though it should be: older releases cannot be, and
            one that was imported before keeps to what was set then.
    """
    os.environ.setdefault(STRICT, "true")
    base = _saver_class(name)
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    if os.environ[STRICT].lower() in _YES and not _is_strict(JsonPlusSerializer()):
        raise StoreError(
            f"{name} would be read without strict deserialisation",
            f"the LangGraph that is installed does not go by {STRICT}={os.environ[STRICT]}",
            f"Upgrade langgraph-checkpoint, or set {STRICT}=false and let payloads call what they name.",
        )
    return base


def _is_strict(serializer: Any) -> bool:
    """Whether a class outside LangGraph's list is left alone, tried with a harmless one."""
    before = logging.root.manager.disable
    logging.disable()  # of the class that is tried nobody needs to hear
    try:
        return type(serializer.loads_typed(("msgpack", _NAMES_A_CLASS))) is int
    finally:
        logging.disable(before)
