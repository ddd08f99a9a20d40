"""``turnstate report``: a thread as one HTML file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from turnstate.commands import options, places, session
from turnstate.commands.address import redacted
from turnstate.commands.exits import CLEAN

HELP = """Write a thread as one HTML file that needs neither a network nor turnstate

\b
Examples:
  turnstate report THREAD --html thread.html
  turnstate report THREAD --turns 40..60 --html part.html --force

The page is the one that turnstate serve shows: keys by turns, a cell's value, the difference of two.
Secrets stay masked; everything else in the state is in the file. What is too long for it is cut or
left out, which the page and stderr say: of very long threads the earlier turns, of long values the
end, and differences beyond some number.

Exit codes: 0; 2 the file is there already, or cannot be written; 4 no such thread or turn; 5 no row
of the turns is kept.
"""


def report(
    ctx: typer.Context,
    thread: options.Thread,
    html: Annotated[
        str, typer.Option("--html", metavar="FILE", help="The new file.", show_default=False)
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace what stands at FILE.")] = False,
    turns: Annotated[
        str | None,
        typer.Option(
            "--turns",
            metavar="A..B",
            help="Only these turns: A..B, A.., ..B or N.",
            show_default=False,
        ),
    ] = None,
    ns: options.Namespace = "",
    branch: options.Branch = None,
    messages: options.Messages = "messages",
    turns_by: options.TurnsBy = None,
    reducer: options.Reducer = None,
    store: options.Store = None,
    schema: options.Schema = None,
    color: options.Color = "auto",
) -> None:
    if not html:
        raise typer.BadParameter("give the new file.", param_hint="'--html'")
    out = session.output(json=False, jsonl=False, color=color)
    between = None if turns is None else places.turns_from_to(turns)
    with session.opened_thread(ctx, out, "turnstate.report/1") as history:
        from turnstate.history.asked import turns_span
        from turnstate.history.times import iso
        from turnstate.serving.report import report_of
        from turnstate_backends.new_file import NewFile

        new = NewFile(Path(html), force, "a report", "--html")
        with new.part() as (_, descriptor):
            span = None if between is None else turns_span(history, *between)
            about = f"{history.store.name}, read {iso(datetime.now(UTC).replace(microsecond=0))}"
            made = report_of(history, span, about=redacted(about))
            with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
                file.write(made.page)
    for note in made.notes:
        out.screen.note(note)
    raise typer.Exit(CLEAN)
