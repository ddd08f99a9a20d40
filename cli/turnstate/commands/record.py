"""``turnstate record``: cut threads out of a store into a new file. The only command that writes, never to a store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnstate.commands import options, places, session
from turnstate.commands.complete import complete_thread
from turnstate.commands.exits import CLEAN, Missed

if TYPE_CHECKING:
    from turnstate.history.cut import Part
    from turnstate.history.thread import History
    from turnstate.render.record import Recorded
    from turnstate_backends.interface import Store
    from turnstate_backends.recording import Recording
    from turnstate_backends.redact import Redactor, Rules

HELP = """Cut threads out of a store into a new SQLite file that LangGraph resumes

\b
Examples:
  turnstate record THREAD --to thread.db
  turnstate record THREAD --turns 3..5 --to turns.db
  turnstate record 'user-42*' --since 7d --to week.db --redact-personal
  turnstate record THREAD --to clean.db --redact-pattern 'DK\\d{8}'

The file is one that SqliteSaver opens and goes on with, and every command says of it what it says of the
source. Payloads are copied byte for byte unless something in them is redacted.

Redacted unasked, unless --keep-secrets: SecretStr and its kind, fields named like a secret (password,
api_key, …), and tokens of known form. Not redacted unasked: everything else, personal data too.
Encrypted payloads stay encrypted unless you ask for more than secrets: then they are opened with the
key in LANGGRAPH_AES_KEY, redacted, and stored in clear.

A placeholder such as [redacted:1f0c2a9b7e55] stands for equal things in one recording. Names stay: thread
ids, channels, nodes. What was redacted is said on stderr, or with --json.
"""


def record(
    ctx: typer.Context,
    threads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="THREAD",
            help="Ids of threads, or patterns (* ? [abc]); with --since, all threads when left out.",
            autocompletion=complete_thread,
            show_default=False,
        ),
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="The new file.", show_default=False)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace what stands at FILE.")] = False,
    turns: Annotated[
        str | None,
        typer.Option(
            "--turns",
            metavar="A..B",
            help="Only these turns of one thread's line, and no other branches: A..B, A.., ..B or N.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only the turns of each thread's line that were active since: 2026-03-01 (UTC), or 30m, 2h, 7d ago.",
            show_default=False,
        ),
    ] = None,
    redact: Annotated[
        list[str] | None,
        typer.Option(
            "--redact",
            metavar="KEY",
            help="The value of every channel, entry and field of this name, or of names that match it (* ? [abc]); "
            "may be given several times.",
            show_default=False,
        ),
    ] = None,
    redact_pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--redact-pattern",
            metavar="REGEX",
            help="What matches in texts and numbers; may be given several times.",
            show_default=False,
        ),
    ] = None,
    redact_personal: Annotated[
        bool, typer.Option("--redact-personal", help="E-mail addresses and telephone numbers.")
    ] = False,
    keep_secrets: Annotated[
        bool, typer.Option("--keep-secrets", help="Do not redact secrets unasked.")
    ] = False,
    salt: Annotated[
        str | None,
        typer.Option(
            "--salt",
            metavar="TEXT",
            help="Makes placeholders equal across recordings with the same salt; keep it secret. Random by default.",
            show_default=False,
        ),
    ] = None,
    branch: options.Branch = None,
    messages: options.Messages = "messages",
    turns_by: options.TurnsBy = None,
    store: options.Store = None,
    schema: options.Schema = None,
    json: options.Json = False,
    color: options.Color = "auto",
) -> None:
    out = session.output(json=json, jsonl=False, color=color)
    target = _target(to)
    rules = _rules(redact or [], redact_pattern or [], personal=redact_personal, kept=keep_secrets)
    after = None if since is None else options.moment(since, "--since")
    wanted = None if turns is None else places.turns_from_to(turns)
    names = threads or []
    _check(names, after, turns, branch)
    with (
        session.answering(out, "turnstate.record/1", " ".join(names)),
        session.opened(ctx, out, store, schema) as opened,
    ):
        from turnstate_backends.recording import new_recording
        from turnstate_backends.redact import Redactor

        redactor = Redactor(rules, os.urandom(32) if salt is None else salt.encode())

        def parts() -> Iterator[tuple[str, Part | None]]:
            for thread in _threads(opened, names, one=wanted is not None or branch is not None):
                if wanted is None and after is None and branch is None:
                    yield thread, None
                    continue
                history = session.history_of(
                    opened, thread, ns="", branch=branch, messages=messages, turns_by=turns_by
                )
                if part := _part(history, wanted, after):
                    yield thread, part

        with new_recording(target, force=force) as recording:
            found = [_copied(opened, thread, part, recording, redactor) for thread, part in parts()]
            if not found:
                raise Missed("no_such_turn", f"no turn was active since {since}")
    from turnstate.render.record import record_document, write_record

    if out.form == "json":
        from turnstate.render.documents import write_json

        write_json(out.screen, record_document(str(target), target.stat().st_size, found, redactor.found))
    else:
        write_record(out.screen, str(target), target.stat().st_size, found, redactor.found)
    raise typer.Exit(CLEAN)


def _target(to: str) -> Path:
    from turnstate_backends.address import SqliteAddress, parse

    if not to:
        raise typer.BadParameter("give the new file.", param_hint="'--to'")
    address = parse(to)
    if not isinstance(address, SqliteAddress):
        raise typer.BadParameter("a recording is a file.", param_hint="'--to'")
    return address.path


def _rules(keys: list[str], patterns: list[str], *, personal: bool, kept: bool) -> Rules:
    from turnstate_backends.redact import Rules

    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise typer.BadParameter(
                f"{pattern!r} is no regular expression: {error}.", param_hint="'--redact-pattern'"
            ) from None
    return Rules(tuple(keys), tuple(compiled), secrets=not kept, personal=personal)


def _check(names: list[str], after: datetime | None, turns: str | None, branch: str | None) -> None:
    if not names and after is None:
        raise typer.BadParameter("name a thread, '*' for all, or --since.", param_hint="'THREAD'")
    if turns is not None and after is not None:
        raise typer.BadParameter("give only one of --turns and --since.", param_hint="'--since'")


def _threads(store: Store, names: list[str], *, one: bool) -> list[str]:
    """The threads that are meant, each once, as they were named.

    Raises:
        Missed: One is not there.
        typer.BadParameter: There is more than one, and only one makes sense.
    """
    from turnstate.history.asked import no_thread
    from turnstate.history.keys import is_glob

    found: dict[str, None] = {}
    for name in names or ["*"]:
        exact = store.threads(thread=name)
        rows = exact or (store.threads(pattern=name) if is_glob(name) else [])
        if not rows:
            raise no_thread(store, name, "")
        found |= dict.fromkeys(row.id for row in rows)
    if one and len(found) > 1:
        raise typer.BadParameter("it goes with one thread only.", param_hint="'--turns' / '--branch'")
    return list(found)


def _part(
    history: History, wanted: tuple[int | None, int | None] | None, after: datetime | None
) -> Part | None:
    """The turns that are meant, as rows; None where none was active since.

    Raises:
        Missed: There is no such turn, or it is no longer kept.
    """
    from turnstate.history.cut import first_since, part_of

    if after is not None:
        start = first_since(history, after)
        return None if start is None else part_of(history, start, history.turns.total)
    first, last = wanted or (None, None)
    begin = _turn(history, first) if first is not None else _first_kept(history)
    end = _turn(history, -1 if last is None else last)
    if begin > end:
        raise Missed("no_such_turn", f"turn {begin} comes after turn {end}")
    return part_of(history, begin, end)


def _first_kept(history: History) -> int:
    return next(turn.number for turn in history.turns.turns if turn.first is not None or turn.end is not None)


def _turn(history: History, number: int) -> int:
    from turnstate.history.places import Miss, turn_place

    place = turn_place(history, number)
    if isinstance(place, Miss):
        raise Missed(place.outcome, place.message)
    return place.turn or 0


def _copied(
    store: Store, thread: str, part: Part | None, recording: Recording, redactor: Redactor
) -> Recorded:
    from turnstate.render.record import Recorded
    from turnstate_backends.recording import Cut, copy_thread

    cut = None if part is None else Cut(part.checkpoints, part.left_out, part.until)
    return Recorded(thread, part, copy_thread(store, thread, recording, redactor, cut))
