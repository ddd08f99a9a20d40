"""What every verb does around its own work: choose the form of output, open the store, find thread and line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import typer
from msgspec import Struct

from turnstate.commands.address import redacted, remember_secrets, store_address
from turnstate.commands.exits import BY_OUTCOME, USAGE, Missed
from turnstate.render.screen import OutputClosed, OutputFailed, Screen, progress, screen
from turnstate.render.text import one_line

if TYPE_CHECKING:
    from turnstate.history.thread import History
    from turnstate.history.turns import TurnsBy
    from turnstate.render.documents import Document
    from turnstate_backends.interface import Store, StoreError

_Report = TypeVar("_Report")


class Output(Struct, frozen=True):
    """Where a command writes and in which form."""

    screen: Screen
    form: Literal["text", "json", "jsonl"]


def output(*, json: bool, jsonl: bool, color: str) -> Output:
    """The output that the options ask for.

    Raises:
        typer.BadParameter: Both forms of JSON.
    """
    if json and jsonl:
        raise typer.BadParameter("give either --json or --jsonl, not both.", param_hint="'--jsonl'")
    return Output(screen(color), "json" if json else "jsonl" if jsonl else "text")


@contextmanager
def opened(ctx: typer.Context, out: Output, store: str | None, schema: str | None) -> Iterator[Store]:
    """The store that is meant, for the time of the work; a line on a terminal says so if that takes long.

    Whoever reads the output slowly keeps the store open no longer than reading it takes. A JSON document is written
    when the work is done, and not at all when it fails.

    Args:
        ctx: Its parent may hold the ``--store`` that stood before the verb.
        out: Where to say so.
        store: The ``--store`` after the verb.
        schema: ``--schema``.
    """
    from turnstate_backends.stores import open_store

    address = store_address(store_option(ctx, store), os.environ, Path.cwd())
    remember_secrets(address, os.environ)
    with out.screen.held(whole=out.form == "json") as hand_over:
        try:
            with (
                progress(out.screen, "reading"),
                open_store(address, schema=schema, if_cut=_end) as opened_store,
            ):
                yield opened_store
        except (OutputClosed, OutputFailed):
            raise
        except Exception as error:
            if out.form != "json" or isinstance(error, typer.Exit):
                hand_over()
            raise
        hand_over()


def store_option(ctx: typer.Context, after: str | None) -> str | None:
    """``--store``, which may stand before the verb and after it; the one after it wins."""
    before: str | None = ctx.parent.params.get("store") if ctx.parent else None
    return before if after is None else after


@contextmanager
def opened_thread(ctx: typer.Context, out: Output, kind: str, **fields: object) -> Iterator[History]:
    """The thread that a verb is about, for the time of the work; or why there is none, as :func:`answering` has it.

    Which thread, line and store are meant stands in the context, under the names that every verb gives these options:
    ``thread``, ``ns``, ``branch``, ``messages``, ``turns_by``, ``reducer``, ``store``, ``schema``.

    Args:
        ctx: Of the verb.
        out: Where to write.
        kind: ``schema`` of the verb's JSON.
        fields: What a document without an answer says besides.

    Raises:
        Refused: As :func:`history_of`.
    """
    given = ctx.params
    with (
        answering(out, kind, given["thread"], given["ns"], **fields),
        opened(ctx, out, given["store"], given["schema"]) as store,
    ):
        yield history_of(
            store,
            given["thread"],
            ns=given["ns"],
            branch=given.get("branch"),
            messages=given["messages"],
            turns_by=given["turns_by"],
            reducer=given.get("reducer"),
        )


def say(what: str, why: str, hint: str) -> int:
    """Say on stderr why a command could not be carried out, in three lines. Returns its exit code."""
    for line in (f"turnstate: {what}", f"  {why}", f"  {hint}"):
        sys.stderr.write(redacted(one_line(line)) + "\n")
    return USAGE


def _end(error: StoreError) -> None:
    """End the program where it stands: nothing can be read any more, nor cleaned up."""
    code = say(error.what, error.why, error.hint)
    sys.stderr.flush()
    os._exit(code)


def print_report(
    out: Output,
    report: _Report,
    text: Callable[[Screen, _Report], object],
    document: Callable[[_Report], Document],
    lines: Callable[[_Report], Iterable[Document]],
) -> None:
    """Print a report in the form asked for.

    Args:
        out: Where to, and in which form.
        report: What was found.
        text: Prints it for a person.
        document: It as one JSON document.
        lines: It as a document per row.
    """
    if out.form == "text":
        text(out.screen, report)
        return
    from turnstate.render.documents import write_json, write_jsonl

    if out.form == "json":
        write_json(out.screen, document(report))
    else:
        write_jsonl(out.screen, lines(report))


@contextmanager
def answering(out: Output, schema: str, thread: str, ns: str = "", **fields: object) -> Iterator[None]:
    """Print why there is no answer in the form asked for, and exit by its outcome."""
    try:
        yield
    except Missed as miss:
        message = redacted(miss.message)
        if out.form == "text":
            from turnstate.render.reading import write_outcome

            write_outcome(out.screen, miss.outcome, message)
        else:
            from turnstate.render.documents import miss_document, write_jsonl

            more = {**fields, **miss.fields}
            write_jsonl(out.screen, [miss_document(schema, thread, ns, miss.outcome, message, **more)])
        raise typer.Exit(BY_OUTCOME[miss.outcome]) from None


def history_of(
    store: Store,
    thread: str,
    *,
    ns: str,
    branch: str | None,
    messages: str,
    turns_by: str | None,
    reducer: str | Sequence[str] | None = None,
) -> History:
    """:func:`turnstate.history.asked.thread_asked` with the options as typed.

    Raises:
        Missed: As there.
        Refused: As there; or a reducer cannot be imported.
    """
    from turnstate.commands.reducers import rules
    from turnstate.history.asked import thread_asked

    return thread_asked(
        store,
        thread,
        ns=ns,
        branch=branch,
        messages=messages,
        turns_by=cast("TurnsBy | None", turns_by),
        reducers=rules(reducer),
    )
