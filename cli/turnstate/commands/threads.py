"""``turnstate threads``: the threads of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnstate.commands import options, session
from turnstate.commands.exits import CLEAN

if TYPE_CHECKING:
    from turnstate.render.listings import ThreadLine
    from turnstate_backends.interface import Store, ThreadRow

HELP = """List the threads of a store, most recent activity first

\b
Examples:
  turnstate threads --store agent.db
  turnstate threads 'user-42*' --since 7d
  turnstate threads --limit 20 --turns
  turnstate threads user-42 --namespaces
  turnstate threads --jsonl | jq -r .thread

Only keys are read, no state; --turns reads each listed thread's conversation as far as it must.
"""


def threads(
    ctx: typer.Context,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN", help="Only ids that match it: * ? [abc], case-sensitive.", show_default=False
        ),
    ] = None,
    limit: options.Limit = None,
    since: options.Since = None,
    turns: Annotated[bool, typer.Option("--turns", help="Count each thread's turns.")] = False,
    namespaces: Annotated[
        bool,
        typer.Option("--namespaces", help="A row per namespace, as --ns takes it. JSON lists them always."),
    ] = False,
    messages: options.Messages = "messages",
    turns_by: options.TurnsBy = None,
    store: options.Store = None,
    schema: options.Schema = None,
    json: options.Json = False,
    jsonl: options.JsonLines = False,
    color: options.Color = "auto",
) -> None:
    most = options.most(limit)
    after = None if since is None else options.moment(since, "--since")
    out = session.output(json=json, jsonl=jsonl, color=color)
    with session.opened(ctx, out, store, schema) as opened:
        from turnstate.history.activity import span_of

        rows = opened.threads(limit=most if after is None else None, pattern=pattern)
        lines: list[ThreadLine] = []
        for row in rows:
            if most is not None and len(lines) >= most:
                break
            first, last = span_of(opened, row)
            if after is not None and (last is None or last < after):
                continue
            total = _turns(opened, row, messages, turns_by) if turns else None
            lines.append((row, first, last, total))
    if out.form == "text":
        from turnstate.render.listings import write_namespaces, write_threads

        if lines and namespaces:
            write_namespaces(out.screen, [row for row, *_ in lines])
        elif lines:
            write_threads(out.screen, lines)
        else:
            out.screen.note("no threads match" if pattern or since else "the store has no threads")
    else:
        from turnstate.render.documents import thread_document, write_json, write_jsonl

        documents = [thread_document(*line) for line in lines]
        if out.form == "json":
            write_json(out.screen, documents)
        else:
            write_jsonl(out.screen, documents)
    raise typer.Exit(CLEAN)


def _turns(store: Store, row: ThreadRow, messages: str, turns_by: str | None) -> tuple[int, str] | None:
    if row.head is None:
        return None
    history = session.history_of(store, row.id, ns="", branch=None, messages=messages, turns_by=turns_by)
    return history.turns.total, history.turns.total_is
