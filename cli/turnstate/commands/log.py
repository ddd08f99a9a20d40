"""``turnstate log``: every version of a key, or of all keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnstate.commands import options, places, session
from turnstate.commands.exits import CLEAN, UNREADABLE

if TYPE_CHECKING:
    from turnstate.history.chart import Chart

HELP = """List every version of a key: when, by whom, and what it changed

\b
Examples:
  turnstate log THREAD plan
  turnstate log THREAD gazet/get_aoi/bbox --values
  turnstate log THREAD 'gazet/*' --turns 3..
  turnstate log THREAD --limit 20 --reverse
  turnstate log THREAD plan --jsonl | jq -r 'select(.ends_turn) | .turn'

Without a key, the versions of all keys in order of time. A version is one super-step's write of a
key; a rewrite with an equal value is one too, and says same. An entry is changed where anything of
it is, also beside its value. What a reducer did to an entry that no write names is listed as
inferred. Where a turn wrote a key several times, * marks what it ended with. Rows that are gone
stand in the list as a gap where they were.

With --json a key's versions have their values, or the kind of absence; of all keys with --values.

Exit codes: 0; 4 no such thread, key or turn; 5 no row of the turns is kept; 6 none of the values
listed can be read.
"""


def log(
    ctx: typer.Context,
    thread: options.Thread,
    key: options.AnyKey = None,
    turns: Annotated[
        str | None,
        typer.Option(
            "--turns",
            metavar="A..B",
            help="Only versions of these turns; also N, A.. and ..B.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit",
            metavar="N",
            help="Only the most recent, so many of each key that the pattern matches.",
            show_default=False,
        ),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Newest first.")] = False,
    values: Annotated[bool, typer.Option("--values", help="Show each version's value.")] = False,
    patch: Annotated[
        bool, typer.Option("--patch", help="Show the difference to the version before.")
    ] = False,
    chart: options.Chart = False,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show secrets that are masked otherwise.")] = False,
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
    between = None if turns is None else places.turns_from_to(turns)
    most = options.most(limit)
    if chart and (values or patch or reverse or limit is not None):
        raise typer.BadParameter(
            "it goes without --values, --patch, --limit and --reverse.", param_hint="'--chart'"
        )
    asked = {} if key is None else {"key": key}
    with session.opened_thread(ctx, out, "turnstate.log/1", **asked) as history:
        from turnstate.history.asked import logged_keys, turns_span
        from turnstate.history.key_log import KeyLog
        from turnstate.history.keys import is_glob
        from turnstate.history.log import Log
        from turnstate.history.places import turns_had
        from turnstate.render import log as render

        found = Log(history, internal=internal)
        span = None if between is None else turns_span(history, *between)
        if between is not None and (between[1] or 0) > history.turns.total:
            out.screen.note(turns_had(history))
        if chart:
            from turnstate.history.chart import chart_of

            drawn = chart_of(found, None if key is None else logged_keys(found, key), span=span)
            draw(out, drawn)
            raise typer.Exit(CLEAN)
        keys = [None] if key is None else logged_keys(found, key)
        logs = [KeyLog(found, each, span=span, limit=most, reverse=reverse) for each in keys]
        several = key is not None and is_glob(key) and [each.name for each in logs] != [key]
        with_values = values or (out.form != "text" and key is not None)
        shown = render.Shown(with_values, patch, reveal, found.name if key is None else None)
        if out.form == "text":
            for each in logs:
                render.write_log(out.screen, each, shown, titled=several)
        elif out.form == "jsonl":
            for each in logs:
                render.write_lines(out.screen, each, shown)
        elif several:
            render.write_document(
                out.screen, render.logs_lines(out.screen, thread, ns, key or "", logs, shown)
            )
        else:
            render.write_document(out.screen, render.log_lines(out.screen, logs[0], shown))
    blind = any(each.unreadable for each in logs) and not any(each.readable for each in logs)
    raise typer.Exit(UNREADABLE if blind else CLEAN)


def draw(out: session.Output, chart: Chart) -> None:
    """Print a chart in the form asked for."""
    from turnstate.render.chart import chart_document, chart_documents, write_chart

    session.print_report(out, chart, write_chart, chart_document, chart_documents)
