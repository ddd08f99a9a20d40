"""``turnstate show``: the value of a key as of a turn."""

from __future__ import annotations

from typing import Annotated

import typer

from turnstate.commands import options, places, session
from turnstate.commands.exits import BY_OUTCOME

HELP = """Show what a key held as of a turn

\b
Examples:
  turnstate show THREAD plan
  turnstate show THREAD gazet/get_aoi/bbox --turn 1
  turnstate show THREAD 'gazet/*' --turn 2 --json
  turnstate show THREAD messages --query '[-1].content'
  turnstate show THREAD plan --turn 3 --at-start

The value goes to stdout; where it was read and which turns wrote it go to stderr, and into the
document with --json. An entry that is a mapping with a value field is shown by that field. Of a
pattern, each key is headed by its name; with --json they are one document's readings, with
--jsonl one line each, and the exit code is the highest.

A channel that LangGraph keeps as deltas is rebuilt from its writes. Where the store does not prove how
they add up, --reducer says so, by a rule or by a function of yours: --reducer plan=app.state:merge
imports and runs it as function(old, writes) with plain data, lists, dicts, sets and texts, and takes
what it returns. Give it only code you trust; nothing in a store is ever imported.

Exit codes: 0 a value; 4 no such thread, turn or key, not yet written, or removed; 5 the turn is
no longer retained; 6 the value is stored and cannot be read.
"""


def show(
    ctx: typer.Context,
    thread: options.Thread,
    key: options.KeyName,
    turn: options.Turn = None,
    at_start: options.AtStart = False,
    checkpoint: options.Checkpoint = None,
    at: options.At = None,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            metavar="JMESPATH",
            help="Look into the value, see jmespath.org; an instance is its fields.",
            show_default=False,
        ),
    ] = None,
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
    when = places.when(turn=turn, at_start=at_start, checkpoint=checkpoint, at=at, branch=branch)
    from turnstate.history.asked import looked_into, place_asked, query_asked, readings_asked

    look = None if query is None else query_asked(query)
    with session.opened_thread(ctx, out, "turnstate.show/1", key=key) as history:
        history, place = place_asked(history, when)
        readings = readings_asked(history, key, place, internal=internal, reveal=reveal)
        if look is not None:
            readings = [looked_into(reading, look) for reading in readings]
        turns = history.turns
    several = len(readings) > 1 or readings[0].key != key
    if out.form == "text":
        from turnstate.render.reading import write_reading

        for reading in readings:
            write_reading(out.screen, reading, turns, titled=several)
    else:
        from turnstate.render import documents

        found = [
            documents.show_document(thread, ns, reading, by=turns.by, total_is=turns.total_is)
            for reading in readings
        ]
        if query is not None:
            found = [{**document, "query": query} for document in found]
        if out.form == "jsonl":
            documents.write_jsonl(out.screen, found)
        elif several:
            documents.write_json(out.screen, documents.readings_document(thread, ns, key, found))
        else:
            documents.write_json(out.screen, found[0])
    raise typer.Exit(max(BY_OUTCOME[reading.outcome] for reading in readings))
