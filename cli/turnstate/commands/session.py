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
from turnstate.commands.exits import BY_OUTCOME, USAGE, Missed, Refused
from turnstate.render.screen import OutputClosed, OutputFailed, Screen, progress, screen
from turnstate.render.text import one_line

if TYPE_CHECKING:
    from turnstate.history.keys import AmbiguousKey
    from turnstate.history.thread import ThreadHistory
    from turnstate.history.turns import TurnsBy
    from turnstate.render.documents import Document
    from turnstate_backends.interface import Store, StoreError

_Report = TypeVar("_Report")
_MESSAGES = "messages"  # the conversation's channel unless --messages names another
_NEAREST_AMONG = 1000  # the latest threads, to look for a name like the one that was typed


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
def opened_thread(ctx: typer.Context, out: Output, kind: str, **fields: object) -> Iterator[ThreadHistory]:
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
) -> ThreadHistory:
    """A thread along the head's line, or along that of a branch.

    Raises:
        Missed: There is no such thread, namespace or branch.
        Refused: Several checkpoints begin as the branch does; a reducer cannot be imported; or an option names a
            channel that the thread has not.
    """
    from turnstate.commands.reducers import rules
    from turnstate.history.thread import ThreadHistory

    reducers = rules(reducer)
    history = ThreadHistory(
        store,
        thread,
        ns,
        messages=messages,
        turns_by=cast("TurnsBy | None", turns_by),
        reducers=reducers,
    )
    if not history.forest.rows:
        raise no_thread(store, thread, ns)
    lines = [history]
    if branch is not None:
        named = checkpoint_id(history, branch)
        # With clock skew the head can have children; who names it means the line that LangGraph would resume.
        tip = named if named == history.forest.head else history.forest.tip_beyond(named)
        lines.append(history.along(tip))
    if messages != _MESSAGES:
        _must_have(lines, messages, "--messages")
    for channel in reducers:
        _must_have(lines, channel, "--reducer")
    return lines[-1]


def _must_have(lines: Sequence[ThreadHistory], channel: str, option: str) -> None:
    """Refuse an option that names a channel which the thread has on none of some lines."""
    channels = {name for line in lines for name in line.channels()}
    if channel in channels:
        return
    from turnstate.history.keys import nearest

    near = ", ".join(nearest(channel, channels)) or ", ".join(sorted(channels)[:5])
    raise Refused(
        f"thread {lines[0].thread!r} has no channel {channel!r}",
        f"it has: {near}",
        f"Correct {option}, or leave it out.",
    )


def checkpoint_id(history: ThreadHistory, prefix: str) -> str:
    """The whole id of a checkpoint of the thread, on whichever line.

    Raises:
        Missed: None begins so; or one did, and only what was written on it is left.
        Refused: Several do.
    """
    from turnstate.history.lines import matching

    found = matching(list(history.forest.rows), prefix) if prefix else []
    if len(found) == 1:
        return found[0]
    if not found:
        gone = matching(list(history.writes), prefix) if prefix else []
        if len(gone) == 1:
            raise Missed(
                "turn_no_longer_retained", f"checkpoint {gone[0]} was deleted; only writes on it are left"
            )
        raise Missed(
            "no_such_turn",
            f"the thread has no checkpoint that begins with {prefix!r}; its newest is {history.forest.head}",
        )
    listed = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    raise Refused(f"{prefix!r} is the beginning of {len(found)} checkpoints", listed, "Give more of the id.")


def ambiguous(name: str, error: AmbiguousKey) -> Refused:
    """That two channels have an entry of a name."""
    return Refused(
        f"{name!r} is an entry of {len(error.names)} channels",
        ", ".join(error.names),
        "Give one of these names.",
    )


def no_thread(store: Store, thread: str, ns: str) -> Missed:
    """That a thread, or this namespace of it, is not there; with what is."""
    here = store.threads(thread=thread)
    if here:
        names = [f"{name!r}" for name in here[0].namespaces]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return Missed(
            "no_such_thread",
            f"thread {thread!r} has no checkpoint in namespace {ns!r}; it has: {', '.join(names[:5])}{more}",
            namespaces=list(here[0].namespaces),
        )
    from turnstate.history.keys import is_glob, nearest
    from turnstate_backends.interface import StoreError

    message = f"the store has no thread {thread!r}"
    if is_glob(thread):
        message += ", and only threads and gaps take a pattern"
    try:
        latest = [row.id for row in store.threads(limit=_NEAREST_AMONG)]
    except StoreError:  # not every saver can list its threads
        return Missed("no_such_thread", message)
    near = nearest(thread, latest)
    if near:
        return Missed("no_such_thread", f"{message}; nearest: {', '.join(near)}", nearest=near)
    latest_words = f"; the latest: {', '.join(latest[:3])}" if latest else "; it has no threads"
    return Missed("no_such_thread", message + latest_words)
