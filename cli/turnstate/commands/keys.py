"""``turnstate keys``: what a thread's state holds, key by key."""

from __future__ import annotations

import typer

from turnstate.commands import options, places, session
from turnstate.commands.exits import CLEAN

HELP = """List the keys of a thread's state, and which turns wrote them

\b
Examples:
  turnstate keys THREAD
  turnstate keys THREAD --turn 1
  turnstate keys THREAD --jsonl | jq -r 'select(.bytes > 100000) | .key'

Each has its type, size in bytes, the number of turns that wrote it, its last writer and a summary.
A channel that is a mapping is listed by its entries. The default is the state as the last turn ended.

Exit codes: 0; 4 no such thread or turn; 5 the turn is no longer retained; 6 the checkpoint cannot be read.
"""


def keys(
    ctx: typer.Context,
    thread: options.Thread,
    turn: options.Turn = None,
    at_start: options.AtStart = False,
    checkpoint: options.Checkpoint = None,
    at: options.At = None,
    internal: options.Internal = False,
    ns: options.Namespace = "",
    branch: options.Branch = None,
    messages: options.Messages = "messages",
    turns_by: options.TurnsBy = None,
    reducer: options.Reducer = None,
    store: options.Store = None,
    schema: options.Schema = None,
    json: options.Json = False,
    jsonl: options.JsonLines = False,
    color: options.Color = "auto",
) -> None:
    out = session.output(json=json, jsonl=jsonl, color=color)
    when = places.when(turn=turn, at_start=at_start, checkpoint=checkpoint, at=at, branch=branch)
    with session.opened_thread(ctx, out, "turnstate.keys/1") as history:
        from turnstate.history.asked import keys_asked
        from turnstate.render import documents, listings

        report = keys_asked(history, when, internal=internal)
    session.print_report(out, report, listings.write_keys, documents.keys_document, documents.keys_lines)
    raise typer.Exit(CLEAN)
