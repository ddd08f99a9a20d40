"""``turnstate gaps``: what a thread had and the store no longer holds; of one thread, or of all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from turnstate.commands import options, session
from turnstate.commands.complete import complete_thread
from turnstate.commands.exits import CLEAN, FOUND

if TYPE_CHECKING:
    from turnstate.history.gaps import GapReport
    from turnstate.history.thread import History
    from turnstate.render.gaps import Loss
    from turnstate.render.screen import Screen
    from turnstate_backends.interface import Store, ThreadRow

HELP = """Say which turns and steps are no longer retained, and what shows it

\b
Examples:
  turnstate gaps THREAD
  turnstate gaps --since 7d --jsonl
  turnstate gaps 'user-42*' --exit-code
  turnstate gaps THREAD --writes

pruned: the turn's end is gone. thinned: it is kept, steps of the turn are gone.
value_missing: a checkpoint is kept and a value of it is not. not_recorded: steps
that durability="exit" never stored, no loss. Without a thread, every thread of the
store is looked at, and those that lost something are listed. --writes lists the
writes that deleted checkpoints left behind, with when and by which node they were
made as far as the rows tell.

Exit codes: 0, also where no thread matches a pattern; 1 with --exit-code if something
is gone; 4 no such thread.
"""


def gaps(
    ctx: typer.Context,
    thread: Annotated[
        str | None,
        typer.Argument(
            metavar="THREAD",
            help="The thread's id, or a pattern (* ? [abc]) for several; all threads without it.",
            autocompletion=complete_thread,
            show_default=False,
        ),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 when something is no longer retained.")
    ] = False,
    writes: Annotated[
        bool, typer.Option("--writes", help="List what was written on checkpoints that are gone.")
    ] = False,
    internal: options.Internal = False,
    limit: options.Limit = None,
    since: options.Since = None,
    ns: options.Namespace = "",
    branch: options.Branch = None,
    messages: options.Messages = "messages",
    turns_by: options.TurnsBy = None,
    store: options.Store = None,
    schema: options.Schema = None,
    json: options.Json = False,
    jsonl: options.JsonLines = False,
    color: options.Color = "auto",
) -> None:
    out = session.output(json=json, jsonl=jsonl, color=color)
    _only_with(writes or not internal, "--all", "--writes")
    most = options.most(limit)
    after = None if since is None else options.moment(since, "--since")
    with (
        session.answering(out, "turnstate.gaps/1", thread or "", ns),
        session.opened(ctx, out, store, schema) as opened,
    ):
        from turnstate.history.gaps import gap_report

        if thread is None or _is_pattern(opened, thread):
            _only_with(branch is None, "--branch", "one thread")
            _only_with(not writes, "--writes", "one thread")
            rows = _active(opened, thread, ns, most, after)
            histories = (
                session.history_of(opened, row.id, ns=ns, branch=None, messages=messages, turns_by=turns_by)
                for row in rows
            )
            found = _write_many(out, map(gap_report, histories))
        else:
            _only_with(limit is None, "--limit", "several threads")
            _only_with(since is None, "--since", "several threads")
            history = session.history_of(
                opened, thread, ns=ns, branch=branch, messages=messages, turns_by=turns_by
            )
            if writes:
                found = _write_writes(out, history, internal=internal)
            else:
                report = gap_report(history)
                found = bool(report.losses)
                _write_one(out, report, history)
    raise typer.Exit(FOUND if found and exit_code else CLEAN)


def _only_with(fits: bool, option: str, what: str) -> None:
    if not fits:
        raise typer.BadParameter(f"it goes with {what} only.", param_hint=f"'{option}'")


def _active(
    store: Store, pattern: str | None, ns: str, most: int | None, after: datetime | None
) -> Iterator[ThreadRow]:
    """The threads that have the namespace and were active since, most recent first."""
    from turnstate.history.activity import span_of

    listed = store.threads(limit=most if after is None else None, pattern=pattern)
    rows = (row for row in listed if ns in row.namespaces)
    if after is not None:
        rows = (row for row in rows if (last := span_of(store, row)[1]) and last >= after)
    return islice(rows, most)


def _is_pattern(store: Store, thread: str) -> bool:
    """Whether several threads are meant: it looks like a pattern and is no thread's id."""
    from turnstate.history.keys import is_glob

    return is_glob(thread) and not store.threads(thread=thread)


def _write_one(out: session.Output, report: GapReport, history: History) -> None:
    from turnstate.render.gaps import gaps_document, gaps_lines, write_gaps

    def text(screen: Screen, report: GapReport) -> None:
        write_gaps(screen, report, history.forest.rows)

    session.print_report(out, report, text, gaps_document, gaps_lines)


def _write_writes(out: session.Output, history: History, *, internal: bool) -> bool:
    """What deleted checkpoints left behind; whether there is any."""
    from turnstate.history.orphans import orphaned, orphaned_writes
    from turnstate.render import documents, orphans
    from turnstate.render.log import write_document

    rows = orphaned_writes(history, internal=internal)
    if out.form == "text":
        orphans.write_orphans(out.screen, rows, {*history.writes, *history.forest.rows})
    elif out.form == "json":
        write_document(out.screen, orphans.orphan_lines(out.screen, history.thread, history.ns, rows))
    else:
        for document in orphans.orphan_documents(history.thread, history.ns, rows):
            documents.write_jsonl(out.screen, [document])
    return bool(orphaned(history))


def _write_many(out: session.Output, reports: Iterator[GapReport]) -> bool:
    """Each thread as it is found; whether one has lost something.

    A person's screen gets all at the end, so that nothing stands in the middle of the line that says what goes on.
    """
    from turnstate.render import documents
    from turnstate.render.gaps import gaps_document, loss, write_array, write_losses

    found = False
    looked_at = 0

    def with_losses() -> Iterator[GapReport]:
        nonlocal found, looked_at
        for report in reports:
            looked_at += 1
            found |= bool(report.losses)
            if report.losses or report.orphans.writes or report.orphans.blobs:
                yield report

    if out.form == "text":
        losses: list[Loss] = [loss(report) for report in with_losses()]
        write_losses(out.screen, losses, looked_at)
        return found
    lines = map(gaps_document, with_losses())
    shown = list(lines) if out.screen.interactive else lines
    if out.form == "json":
        write_array(out.screen, shown)
    else:
        for line in shown:
            documents.write_jsonl(out.screen, [line])
    return found
