"""``turnstate branches``: where the lines of a thread part."""

from __future__ import annotations

import typer

from turnstate.commands import options, session
from turnstate.commands.exits import CLEAN

HELP = """Show the branches of a thread: where each leaves, why, and its own turns

\b
Examples:
  turnstate branches THREAD
  turnstate turns THREAD --branch 1f1ecbd5-fe53
  turnstate branches THREAD --jsonl | jq -r 'select(.current | not) | .tip'

The current branch is the one that LangGraph would resume. Another one is what was
left by an edited question, a replay, update_state, or two writers at once. One that
leaves a branch hangs under it. Each numbers its turns along its own line.

Exit codes: 0; 4 no such thread.
"""


def branches(
    ctx: typer.Context,
    thread: options.Thread,
    ns: options.Namespace = "",
    messages: options.Messages = "messages",
    turns_by: options.TurnsBy = None,
    store: options.Store = None,
    schema: options.Schema = None,
    json: options.Json = False,
    jsonl: options.JsonLines = False,
    color: options.Color = "auto",
) -> None:
    out = session.output(json=json, jsonl=jsonl, color=color)
    with session.opened_thread(ctx, out, "turnstate.branches/1") as history:
        from turnstate.history.branches import branch_report
        from turnstate.render.branches import branches_document, branches_lines, write_branches

        report = branch_report(history)
    session.print_report(out, report, write_branches, branches_document, branches_lines)
    raise typer.Exit(CLEAN)
