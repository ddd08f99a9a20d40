"""What the shell offers for thread ids and keys: taken from the store on the line, quickly and without a word."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from turnstate.commands.address import store_address
from turnstate.commands.session import store_option

if TYPE_CHECKING:
    from turnstate_backends.interface import Store

_MOST = 50
# A shell may evaluate what it is offered, and stored text is hostile: what it would not take as one plain word is not.
_PLAIN_WORD = re.compile(r"[\w./@+,:][\w./@+,:%=-]*")


def complete_thread(ctx: typer.Context, incomplete: str) -> list[str]:
    """The latest threads whose id begins so."""
    with suppress(Exception), _store(ctx) as store:
        rows = store.threads(limit=_MOST, pattern=f"{_literal(incomplete)}*")
        return [row.id for row in rows if _PLAIN_WORD.fullmatch(row.id)]
    return []


def complete_key(ctx: typer.Context, incomplete: str) -> list[str]:
    """The keys of the thread's newest checkpoint that begin so."""
    with suppress(Exception), _store(ctx) as store:
        from turnstate.history.keys import all_keys, display_names
        from turnstate.history.steps import is_internal

        thread, ns = ctx.params["thread"], ctx.params.get("ns") or ""
        head = store.threads(thread=thread)[0].head
        if ns:
            head = max(row.id for row in store.checkpoints(thread, ns))
        hidden = None if ctx.params.get("internal") else is_internal
        keys = all_keys(store.values(thread, ns, head or ""), hidden)
        names = (name for name in display_names(keys).values() if name.startswith(incomplete))
        return [name for name in names if _PLAIN_WORD.fullmatch(name)][:_MOST]
    return []


@contextmanager
def _store(ctx: typer.Context) -> Iterator[Store]:
    from turnstate_backends.stores import open_store

    address = store_address(store_option(ctx, ctx.params.get("store")), os.environ, Path.cwd())
    if address.startswith("saver:"):
        raise ValueError("a key that is pressed must not run the user's code")
    with open_store(address, schema=ctx.params.get("schema")) as store:
        yield store


def _literal(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
