"""Holding expectations against stores: one opened store per address, one history per thread. Knows no output.

What ``turnstate check`` and the pytest plugin have in common.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from turnstate.checking.expectations import Expectation, ExpectationFile, parse_file
from turnstate.checking.judge import Result, judge
from turnstate.commands import session
from turnstate.commands.address import remember_secrets, store_address
from turnstate.commands.exits import Missed, Refused
from turnstate.history.places import Miss
from turnstate_backends.interface import StoreError
from turnstate_backends.stores import open_store

if TYPE_CHECKING:
    from turnstate.history.thread import History
    from turnstate_backends.interface import Store

DEFAULT_FILE = "turnstate.toml"


def load(path: Path, shown: str) -> ExpectationFile:
    """A file of expectations.

    Args:
        path: The file.
        shown: How reports call it.

    Raises:
        Refused: It cannot be read.
        turnstate.checking.expectations.FileFlawed: It is no such file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refused(
            f"{shown} cannot be read", error.strerror or "", "Name a file of expectations, see check --help."
        ) from None
    return parse_file(shown, data)


def address_of(path: Path, option: str | None, env: Mapping[str, str] = os.environ) -> str:
    """The address of the store that a file's expectations are about.

    Raises:
        Refused: None is given.
    """
    return store_address(option, env, path.absolute().parent, path)


class Checker:
    """Judges expectations; stays open, and shows one state of each store, until it is left.

    Args:
        schema: The PostgreSQL schema of the tables.
        reducer: As ``--reducer`` has it.
    """

    def __init__(self, *, schema: str | None = None, reducer: str | Sequence[str] | None = None) -> None:
        self._schema = schema
        self._reducer = reducer
        self._open = ExitStack()
        self._stores: dict[str, Store | StoreError] = {}
        self._histories: dict[tuple[object, ...], History | Miss] = {}

    def judge(self, expectation: Expectation, address: str) -> Result:
        """Whether an expectation holds for the store at an address; ``error`` where that cannot be told."""
        try:
            return judge(expectation, self.history(address, expectation.table))
        except (StoreError, Refused) as error:
            words = f"{error.what}: {error.why}"
            return Result(expectation, "error", message=words, hint=error.hint)

    def history(self, address: str, table: Mapping[str, Any]) -> History | Miss:
        """The thread that a table of an expectation names, or why there is none.

        Raises:
            StoreError: The store cannot be opened or read.
            Refused: Several checkpoints begin as the branch does, or there is no such channel.
        """
        names = ("thread", "ns", "branch", "messages", "turns_by")
        which = (address, *map(table.get, names))
        if which not in self._histories:
            self._histories[which] = self._found(address, table)
        return self._histories[which]

    def _found(self, address: str, table: Mapping[str, Any]) -> History | Miss:
        try:
            return session.history_of(
                self._store(address),
                table["thread"],
                ns=table.get("ns", ""),
                branch=table.get("branch"),
                messages=table.get("messages", "messages"),
                turns_by=table.get("turns_by"),
                reducer=self._reducer,
            )
        except Missed as miss:
            return Miss(miss.outcome, miss.message)  # type: ignore[arg-type]

    def _store(self, address: str) -> Store:
        if address not in self._stores:
            remember_secrets(address, os.environ)
            try:
                self._stores[address] = self._open.enter_context(open_store(address, schema=self._schema))
            except StoreError as error:
                self._stores[address] = error
        found = self._stores[address]
        if isinstance(found, StoreError):
            raise found
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
