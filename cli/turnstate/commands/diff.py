"""``turnstate diff``: what changed from the end of one turn to the end of another, or of the same in two recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import Struct

from turnstate.commands import options, places, session
from turnstate.commands.exits import BY_OUTCOME, CLEAN, FOUND, NO_LONGER_RETAINED, UNREADABLE, Missed, Refused

if TYPE_CHECKING:
    from turnstate.history.against import AgainstReport
    from turnstate.history.changes import DiffReport, Standpoint
    from turnstate.history.thread import History
    from turnstate.render.diff import Detail
    from turnstate.render.screen import Screen

_SCHEMA = "turnstate.diff/1"

HELP = """Show what changed from the end of one turn to the end of another

\b
Examples:
  turnstate diff THREAD
  turnstate diff THREAD plan --turns 1..3
  turnstate diff THREAD 'gazet/*' --turns 2.. --stat
  turnstate diff THREAD --checkpoints 1f1ecbdf-630e..1f1ecbdf-63c7
  turnstate diff THREAD --turns ... --branch 1f1ecbd5-fe53
  turnstate diff THREAD plan --exit-code && echo same
  turnstate diff THREAD --against new-release.db --exit-code

\b
--turns A..B   from the end of A to the end of B
        A..    to the last turn
        ..B    from before the first question
        N      what turn N changed
        A...B  from A on the head's line to B on the branch's; A left out is
               the last row that both share (for a branch of a branch, where
               the outer one left), B left out the last turn
The default is what the last turn changed.

\b
--against URL, --against-thread ID
        the same turns of two recordings, each from its end in this one to
        its end in the other: every turn that either has had, or those of
        --turns N, A..B, A.., ..B

Of a pattern, each key that matches is compared. Values stand at $, as in $.area[2]: + added, - removed,
~ changed. Items of a list belong together by their id, key, uuid or name where all have one. What was
compared goes to stderr; --json has a patch (RFC 6902) per key.

Ids that a run makes up for its messages and tool calls are not compared with another recording's, unless --ids:
messages belong together by position and role. Only with --ids does --json then have patches. --schema is that of
--store; the other's is found through its search path.

Exit codes: 0, or 1 with --exit-code if anything differs; 4 no such thread, turn or key; 5 a turn is no
longer retained; 6 the key that was asked for cannot be read at an end, or, with --exit-code, some key at
neither and nothing else differs. Against another recording: 1 with --exit-code also for a turn that only
one of them has had, and 5 with it where turns are no longer retained and nothing else differs.
"""


class _Asked(Struct, frozen=True):
    """Which two rows are meant.

    Attributes:
        by: ``turn``: what ``last`` changed; ``turns``: two of one line; ``lines``: ``first`` on the head's line,
            ``last`` on the branch's; ``checkpoints``: the ``ids``.
        first: A turn; None where it is left open.
        last: The same.
        ids: Beginnings of checkpoint ids.
    """

    by: Literal["turn", "turns", "lines", "checkpoints"]
    first: int | None = None
    last: int | None = None
    ids: tuple[str, str] = ("", "")


def diff(
    ctx: typer.Context,
    thread: options.Thread,
    key: options.AnyKey = None,
    turns: Annotated[
        str | None,
        typer.Option("--turns", metavar="A..B", help="The two turns, see above.", show_default=False),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            "--checkpoints",
            metavar="ID..ID",
            help="Two checkpoints, ids or their unique beginnings, on whichever lines they lie.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="URL",
            help="Another store, to compare the same turns in; --store is the first.",
            show_default=False,
        ),
    ] = None,
    against_thread: Annotated[
        str | None,
        typer.Option(
            "--against-thread",
            metavar="ID",
            help="The thread to compare with, of that store or of the same; by default the one of the same id.",
            show_default=False,
        ),
    ] = None,
    ids: Annotated[
        bool,
        typer.Option("--ids", help="Compare generated ids of messages and tool calls too, with --against."),
    ] = False,
    stat: Annotated[
        bool, typer.Option("--stat", help="Count per key what was added, removed and replaced.")
    ] = False,
    name_only: Annotated[
        bool, typer.Option("--name-only", help="Only the names of the keys that changed.")
    ] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if anything differs.")] = False,
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="N",
            help="Lines of text and items of lists around a change; by default 3 lines and 1 item.",
            show_default=False,
        ),
    ] = None,
    side_by_side: Annotated[
        bool,
        typer.Option(
            "--side-by-side",
            help="Both values next to each other, on a terminal of 80 columns or more.",
        ),
    ] = False,
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
    if stat and name_only:
        raise typer.BadParameter("give either --stat or --name-only, not both.", param_hint="'--name-only'")
    if side_by_side and (stat or name_only):
        raise typer.BadParameter("it goes without --stat and --name-only.", param_hint="'--side-by-side'")
    around = None if context is None else options.whole_number(context, "--context")
    if around is not None and around < 0:
        raise typer.BadParameter("it is not negative.", param_hint="'--context'")
    detail: Detail = "names" if name_only else "stat" if stat else "full"
    if against is not None or against_thread is not None:
        between = _both_have(turns, checkpoints, branch)
        one = turns is not None and ".." not in turns
        with session.opened_thread(ctx, out, _SCHEMA) as history, _other(ctx, out) as other:
            numbers = _numbers(history, other, between)
            compared = _compared(history, other, numbers, key, internal=internal, reveal=reveal, ids=ids)
        from turnstate.render import against as turn_by_turn

        write = _writer(detail, context=around, side_by_side=side_by_side, totals=False)
        session.print_report(
            out,
            compared,
            partial(turn_by_turn.write_against, write=write),
            partial(turn_by_turn.against_document, detail=detail),
            partial(turn_by_turn.against_lines, detail=detail),
        )
        raise typer.Exit(_code_against(compared, one=one, exit_code=exit_code))
    if ids:
        raise typer.BadParameter("it goes with --against or --against-thread.", param_hint="'--ids'")
    asked = _asked(turns, checkpoints, branch)
    with session.opened_thread(ctx, out, _SCHEMA) as history:
        old, new = _ends(history, asked)
        from turnstate.history.asked import changes_asked

        report = changes_asked(old, new, key, internal=internal, reveal=reveal)
    from turnstate.render import diff as render

    session.print_report(
        out,
        report,
        _writer(detail, context=around, side_by_side=side_by_side),
        partial(render.diff_document, detail=detail),
        partial(render.diff_lines, detail=detail),
    )
    raise typer.Exit(_code(report, exit_code=exit_code))


def _writer(
    detail: Detail, *, context: int | None, side_by_side: bool, totals: bool = True
) -> Callable[[Screen, DiffReport], object]:
    """What writes one comparison for a person."""
    from turnstate.render import diff as render

    if detail == "names":
        return render.write_names
    if detail == "stat":
        return partial(render.write_stat, totals=totals)
    return partial(render.write_diff, context=context, side_by_side=side_by_side, totals=totals)


def _asked(turns: str | None, checkpoints: str | None, branch: str | None) -> _Asked:
    """The options as they belong together.

    Raises:
        typer.BadParameter: Both of them, one that cannot be read, three dots without a branch, or a branch beside
            checkpoints.
    """
    if turns is not None and checkpoints is not None:
        raise typer.BadParameter("give only one of --turns and --checkpoints.", param_hint="'--checkpoints'")
    if checkpoints is not None and branch is not None:
        raise typer.BadParameter(places.NO_BRANCH, param_hint="'--branch'")
    if checkpoints is not None:
        first, _, last = checkpoints.partition("..")
        if not first or not last:
            raise typer.BadParameter(
                f"{checkpoints!r} is not two checkpoints; write ID..ID.", param_hint="'--checkpoints'"
            )
        return _Asked("checkpoints", ids=(first, last))
    if turns is None:
        return _Asked("turn", last=-1)
    if "..." not in turns:
        ends = places.turns_from_to(turns)
        return _Asked("turns", *ends) if ".." in turns else _Asked("turn", last=ends[1])
    if branch is None:
        raise typer.BadParameter(
            "three dots compare the head's line with a branch; give --branch too.", param_hint="'--turns'"
        )
    between = (None, None) if turns == "..." else places.turn_range(turns.replace("...", "..", 1))
    return _Asked("lines", *between)


def _ends(history: History, asked: _Asked) -> tuple[Standpoint, Standpoint]:
    """The two rows, each on its line.

    Args:
        history: Along the line that was asked for.
        asked: Which rows.

    Raises:
        Missed: There is no such turn or checkpoint, or it is no longer kept.
        Refused: Several checkpoints begin so, or the branch is none.
    """
    from turnstate.history import asked as named

    if asked.by == "checkpoints":
        return named.ends_at_checkpoints(history, asked.ids)
    if asked.by == "turn":
        return named.ends_of_turn(history, -1 if asked.last is None else asked.last)
    if asked.by == "turns":
        return named.ends_of_turns(history, asked.first, asked.last)
    head = history.along(history.forest.head)
    if asked.first is not None:
        return named.ends_of_turns(history, asked.first, asked.last, line=head)
    from turnstate.history.changes import Standpoint
    from turnstate.history.places import turn_place

    last = turn_place(history, -1 if asked.last is None else asked.last)
    new = Standpoint(history, named.found_place(history, last))
    return _fork(history, head), new


def _fork(history: History, head: History) -> Standpoint:
    """The last row that the branch shares with the head's line, going by parent ids alone."""
    from turnstate.history.changes import Standpoint
    from turnstate.history.places import checkpoint_place

    tip = history.line.rows[-1].id
    if tip in head.line.index:
        raise Refused(
            "there is no fork to start from",
            f"checkpoint {tip} is on the head's own line",
            "Give --branch a checkpoint of another branch, or write --turns A..B.",
        )
    shared = [row.id for row in history.forest.chain(tip) if row.id in head.line.index]
    if not shared:
        raise Missed(
            "turn_no_longer_retained", "the branch shares no checkpoint that is kept with the head's line"
        )
    return Standpoint(history, checkpoint_place(history, shared[-1]), at_fork=True)


def _code(report: DiffReport, *, exit_code: bool) -> int:
    """6 where what was asked for cannot be read, or nothing else is in question; 1 for differences, if asked about."""
    from turnstate.history.keys import is_glob

    one = report.asked is not None and not is_glob(report.asked)
    if one and (report.incomparable or any(change.absences for change in report.changes)):
        return UNREADABLE
    if not exit_code:
        return CLEAN
    return FOUND if report.changes else UNREADABLE if report.incomparable else CLEAN


# Two recordings.


def _both_have(
    turns: str | None, checkpoints: str | None, branch: str | None
) -> tuple[int | None, int | None]:
    """Which turns of both are meant, as typed; None for an end left open.

    Raises:
        typer.BadParameter: The range cannot be read, or something is named that only one of them can have.
    """
    for name, value in (("--checkpoints", checkpoints), ("--branch", branch)):
        if value is not None:
            raise typer.BadParameter("another recording has other checkpoints.", param_hint=f"'{name}'")
    return (None, None) if turns is None else places.turns_from_to(turns)


@contextmanager
def _other(ctx: typer.Context, out: session.Output) -> Iterator[History]:
    """The thread to compare with, for the time of the work.

    Raises:
        Missed: It is not there.
        Refused: As :func:`session.history_of`.
    """
    given = ctx.params
    apart = given["against"] is not None
    store, schema = (given["against"], None) if apart else (given["store"], given["schema"])
    with session.opened(ctx, out, store, schema) as opened:
        try:
            history = session.history_of(
                opened,
                given["thread"] if given["against_thread"] is None else given["against_thread"],
                ns=given["ns"],
                branch=None,
                messages=given["messages"],
                turns_by=given["turns_by"],
                reducer=given["reducer"],
            )
        except Missed as miss:
            raise Missed(miss.outcome, f"to compare with: {miss.message}", **miss.fields) from None
        yield history


def _numbers(history: History, other: History, between: tuple[int | None, int | None]) -> range:
    """The numbers of the turns that are meant, of which at least one of both has had some.

    Raises:
        Missed: Neither has had one of them.
    """
    from turnstate.history.places import turns_had

    longer = max(history, other, key=lambda each: each.turns.total)
    total = longer.turns.total
    first, last = (end if end is None or end >= 0 else max(total + 1 + end, -1) for end in between)
    numbers = range(1 if first is None else max(first, 0), min(total, total if last is None else last) + 1)
    if not numbers:
        raise Missed("no_such_turn", turns_had(longer), total_turns=total)
    return numbers


def _compared(
    history: History,
    other: History,
    numbers: range,
    key: str | None,
    *,
    internal: bool,
    reveal: bool,
    ids: bool,
) -> AgainstReport:
    from turnstate.history.against import against_report
    from turnstate.history.asked import ambiguous, missed
    from turnstate.history.keys import AmbiguousKey
    from turnstate.history.places import Miss

    try:
        report = against_report(history, other, numbers, key, internal=internal, reveal=reveal, ids=ids)
    except AmbiguousKey as error:
        raise ambiguous(key or "", error) from None
    if isinstance(report, Miss):
        raise missed(other, report)
    return report


def _code_against(report: AgainstReport, *, one: bool, exit_code: bool) -> int:
    """The gravest of what is missing and unreadable where ``one`` turn was asked for; else, of all turns, 6 for what
    cannot be read, 1 for differences, if asked about, and 5 where the rest cannot be told."""
    missing = {BY_OUTCOME[miss.outcome] for each in report.turns for _, miss in each.missing}
    found = [each.report for each in report.turns if each.report is not None]
    codes = {_code(each, exit_code=exit_code) for each in found}
    lone = any(each.in_one_only for each in report.turns)
    if one and missing and not (exit_code and lone):
        return max(missing)
    if UNREADABLE in missing | {_code(each, exit_code=False) for each in found}:
        return UNREADABLE
    if not exit_code:
        return CLEAN
    if lone or FOUND in codes:
        return FOUND
    return NO_LONGER_RETAINED if NO_LONGER_RETAINED in missing else max(codes, default=CLEAN)
