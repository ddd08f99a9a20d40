"""``turnstate log``: every version of a key, or of all keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnstate.commands import options, places, session
from turnstate.commands.exits import CLEAN, UNREADABLE, Missed
from turnstate.render.text import numbers

if TYPE_CHECKING:
    from turnstate.history.chart import Chart
    from turnstate.history.keys import Key
    from turnstate.history.log import Log, Span
    from turnstate.history.thread import ThreadHistory

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
        from turnstate.history.key_log import KeyLog
        from turnstate.history.keys import is_glob
        from turnstate.history.log import Log
        from turnstate.history.places import turns_had
        from turnstate.render import log as render

        found = Log(history, internal=internal)
        span = None if between is None else _span(history, *between)
        if between is not None and (between[1] or 0) > history.turns.total:
            out.screen.note(turns_had(history))
        if chart:
            from turnstate.history.chart import chart_of

            drawn = chart_of(found, None if key is None else _keys(found, key), span=span)
            draw(out, drawn)
            raise typer.Exit(CLEAN)
        keys = [None] if key is None else _keys(found, key)
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


def _keys(log: Log, asked: str) -> list[Key]:
    """The key that is meant, or each that the pattern matches; a pattern that matches none is a plain name.

    Raises:
        Missed: There is no such key.
        Refused: Two channels have an entry of that name.
    """
    from turnstate.history import keys as names

    matched = names.matching(asked, log.leaves()) if names.is_glob(asked) else []
    if matched:
        return matched
    try:
        key = names.find(asked, log.known)
    except names.AmbiguousKey as error:
        raise session.ambiguous(asked, error) from None
    if key is None:
        near = names.nearest(asked, log.names.values())
        hint = f"; nearest: {', '.join(near)}" if near else ""
        fields = {"nearest": near} if near else {}
        raise Missed("no_such_key", f"the thread has no key {asked!r}{hint}", **fields)
    return [key]


def _span(history: ThreadHistory, first: int | None, last: int | None) -> Span:
    """The rows of some turns.

    Raises:
        typer.BadParameter: The turns are in the wrong order.
        Missed: There is no such turn, or none of them has a row that is kept.
    """
    from turnstate.history.log import span_of
    from turnstate.history.places import turns_had

    turns = history.turns
    ends = [0 if first is None else first, turns.total if last is None else last]
    first, last = (turns.total + 1 + number if number < 0 else number for number in ends)
    if first > last and first <= turns.total:
        raise typer.BadParameter("the first turn comes after the last.", param_hint="'--turns'")
    known = {"total_turns": turns.total, "retained_turns": list(turns.retained)}
    if first > turns.total or last < 0:
        raise Missed("no_such_turn", turns_had(history), **known)
    span = span_of(history, max(first, 0), last)
    if span is None:
        can = numbers(turns.retained) or "none"
        raise Missed(
            "turn_no_longer_retained", f"those turns were pruned; turns that can be read: {can}", **known
        )
    return span
