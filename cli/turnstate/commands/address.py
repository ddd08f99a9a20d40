"""Which store is meant: an option, the environment, or a configuration file. Knows neither Typer nor Rich."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnstate.commands.exits import Refused

VARIABLE = "TURNSTATE_STORE"

_secrets: set[str] = set()


def store_address(option: str | None, env: Mapping[str, str], folder: Path, file: Path | None = None) -> str:
    """The address of the store.

    Args:
        option: ``--store``; wins.
        env: ``TURNSTATE_STORE`` comes next.
        folder: Where the search for ``turnstate.toml`` and ``pyproject.toml`` begins; goes on in its parents.
        file: Another configuration file, which is looked into first.

    Raises:
        Refused: None is given, or a configuration file cannot be read.
    """
    if option is not None:
        return option
    if given := env.get(VARIABLE):
        return given
    if file is not None and (found := _configured(file.absolute(), ())) is not None:
        return found
    for parent in (folder, *folder.parents):
        for name, table in (("turnstate.toml", ()), ("pyproject.toml", ("tool", "turnstate"))):
            found = _configured(parent / name, table)
            if found is not None:
                return found
    raise Refused(
        "no store is given",
        f"no --store, no {VARIABLE}, no store in turnstate.toml or [tool.turnstate] of pyproject.toml was found",
        "Give one: --store agent.db, or --store postgresql://USER@HOST/DATABASE.",
    )


def _configured(path: Path, table: tuple[str, ...]) -> str | None:
    """``store`` in a file's table; a relative path in it starts at the file's folder."""
    try:
        settings: Any = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError):
        return None
    except (OSError, ValueError) as error:
        if table:  # another program's file, which may be broken for its own reasons
            return None
        raise Refused(
            f"{path} cannot be read", str(error).splitlines()[0], "Correct it, or give --store."
        ) from None
    for name in table:
        settings = settings.get(name) if isinstance(settings, dict) else None
    store = settings.get("store") if isinstance(settings, dict) else None
    if store is None:
        return None
    if not isinstance(store, str):
        raise Refused(f"store in {path} is no text", f"it is {store!r}", 'Write store = "agent.db".')
    return from_folder(store, path.parent)


def from_folder(address: str, folder: Path) -> str:
    """An address whose relative path begins at a folder."""
    from turnstate_backends.address import SqliteAddress, parse
    from turnstate_backends.interface import StoreError

    try:
        parsed = parse(address)
    except StoreError:
        return address  # whoever opens it says what is wrong
    if isinstance(parsed, SqliteAddress) and not parsed.path.is_absolute():
        return str(folder / parsed.path)
    return address


def remember_secrets(address: str, env: Mapping[str, str]) -> None:
    """Note what must not be printed of an address that is about to be opened."""
    from turnstate_backends.address import secrets_of

    _secrets.update(secrets_of(address, env.get("PGPASSWORD", "")))


def redacted(text: str) -> str:
    """``text`` without the passwords of the addresses that were opened, or that stand in a URL within it."""
    from turnstate_backends.address import hide_in_urls, redact

    return redact(hide_in_urls(text), _secrets)
