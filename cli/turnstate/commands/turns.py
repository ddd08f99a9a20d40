"""``turnstate turns``: each turn of a thread."""

from __future__ import annotations

import typer

from turnstate.commands import options, session
from turnstate.commands.exits import CLEAN

HELP = """List the turns of a thread, those that were pruned included

\b
Examples:
  turnstate turns THREAD
  turnstate turns THREAD --branch 1f1ecbd5-fe53
  turnstate turns THREAD --chart
  turnstate turns THREAD --jsonl | jq -r 'select(.status == "error") | .turn'

A turn is a question and everything up to the next one, counted from 1. Each has its status, time,
checkpoints and the keys written in it; one that was pruned keeps its number and its row. Questions
that came in one input share a row, such as 2–3. Notes, such as other branches, go to stderr. The
chart has a row per key, and a column per turn.

Exit codes: 0; 4 no such thread or branch; 5 the branch's checkpoint was deleted.
"""


def turns(
    ctx: typer.Context,
    thread: options.Thread,
    ns: options.Namespace = "",
    branch: options.Branch = None,
    messages: options.Messages = "messages",
    turns_by: options.TurnsBy = None,
    reducer: options.Reducer = None,
    chart: options.Chart = False,
    store: options.Store = None,
    schema: options.Schema = None,
    json: options.Json = False,
    jsonl: options.JsonLines = False,
    color: options.Color = "auto",
) -> None:
    out = session.output(json=json, jsonl=jsonl, color=color)
    with session.opened_thread(ctx, out, "turnstate.turns/1") as history:
        from turnstate.history.listing import turn_report
        from turnstate.render import documents, listings

        if chart:
            from turnstate.commands.log import draw
            from turnstate.history.chart import chart_of
            from turnstate.history.log import Log

            draw(out, chart_of(Log(history)))
            raise typer.Exit(CLEAN)
        report = turn_report(history)
    session.print_report(out, report, listings.write_turns, documents.turns_document, documents.turns_lines)
    raise typer.Exit(CLEAN)
