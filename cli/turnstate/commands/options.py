"""The options that several verbs share: names, help, and the checks that need no store.

Every option is text or a flag, so that Typer has nothing to coerce and starts without loading a validator for it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from turnstate.commands.complete import complete_key, complete_thread

_AGO = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_COLORS = ("auto", "always", "never")
_COUNTED = ("questions", "inputs")


def _color(value: str) -> str:
    return _one_of(value, _COLORS)


def _turns_by(value: str | None) -> str | None:
    return None if value is None else _one_of(value, _COUNTED)


def _one_of(value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.")
    return value


Thread = Annotated[
    str, typer.Argument(metavar="THREAD", help="The thread's id.", autocompletion=complete_thread)
]
KeyName = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="A channel, an entry of a mapping channel, channel:entry, or a pattern such as 'gazet/*'.",
        autocompletion=complete_key,
    ),
]
AnyKey = Annotated[
    str | None,
    typer.Argument(
        metavar="KEY",
        help="A channel, an entry, channel:entry, or a pattern such as 'gazet/*'; all keys when left out.",
        autocompletion=complete_key,
        show_default=False,
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The store: a SQLite file, sqlite:///FILE, postgresql://…, or saver:MODULE:ATTRIBUTE, "
        "which runs that module and the saver's own deserialiser. "
        "Else TURNSTATE_STORE, else store in turnstate.toml or [tool.turnstate] of pyproject.toml.",
        show_default=False,
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="NAME", help="The PostgreSQL schema that holds the tables.", show_default=False
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--ns",
        metavar="NS",
        help="The checkpoint namespace: that of a subgraph call, NODE:TASK. The root graph's is empty.",
        show_default=False,
    ),
]
Branch = Annotated[
    str | None,
    typer.Option(
        "--branch",
        metavar="ID",
        help="Follow the line through this checkpoint (an id or its unique beginning), not the head's.",
        show_default=False,
    ),
]
Messages = Annotated[
    str, typer.Option("--messages", metavar="CHANNEL", help="The channel that holds the conversation.")
]
TurnsBy = Annotated[
    str | None,
    typer.Option(
        "--turns-by",
        metavar="questions|inputs",
        help="What to count. By default questions, and inputs where no question arrives as a message.",
        callback=_turns_by,
        autocompletion=lambda: list(_COUNTED),
        show_default=False,
    ),
]
Turn = Annotated[
    str | None,
    typer.Option(
        "--turn",
        metavar="N",
        help="As turn N ended: from 1; 0 is before the first question, -1 the last turn, which is the default.",
        show_default=False,
    ),
]
AtStart = Annotated[bool, typer.Option("--at-start", help="What the turn began with, not how it ended.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="ID",
        help="As of this checkpoint, an id or its unique beginning, on whichever line it lies.",
        show_default=False,
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="As of a time: 2026-03-01T12:00Z (UTC where no zone is given), or 30m, 2h, 7d ago.",
        show_default=False,
    ),
]
Chart = Annotated[bool, typer.Option("--chart", help="Draw keys by turns, one sign a cell.")]
Limit = Annotated[
    str | None, typer.Option("--limit", metavar="N", help="At most so many.", show_default=False)
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only those active since: 2026-03-01 (UTC), or 30m, 2h, 7d ago.",
        show_default=False,
    ),
]
Internal = Annotated[bool, typer.Option("--all", help="LangGraph's own channels too, such as branch:to:*.")]
Reducer = Annotated[
    list[str] | None,
    typer.Option(
        "--reducer",
        metavar="CHANNEL=RULE,…",
        help="How a channel that is kept as deltas adds up: messages, extend, append, add-new, merge, union, "
        "replace, or module:function, which is imported and run. May be given several times.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
JsonLines = Annotated[bool, typer.Option("--jsonl", help="Print JSON, one line per row.")]
Color = Annotated[
    str,
    typer.Option(
        "--color",
        metavar="auto|always|never",
        help="When to colour; auto heeds NO_COLOR and FORCE_COLOR.",
        callback=_color,
        autocompletion=lambda: list(_COLORS),
    ),
]


def whole_number(text: str, option: str) -> int:
    """A whole number as typed, negative ones included.

    Raises:
        typer.BadParameter: It is none.
    """
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.", param_hint=f"'{option}'") from None


def most(limit: str | None) -> int | None:
    """A ``--limit`` as typed.

    Raises:
        typer.BadParameter: It is no whole number, or a negative one.
    """
    number = None if limit is None else whole_number(limit, "--limit")
    if number is not None and number < 1:
        raise typer.BadParameter("a limit is at least 1.", param_hint="'--limit'")
    return number


def moment(text: str, option: str, now: datetime | None = None) -> datetime:
    """A time as typed: ISO 8601, or how long ago.

    Raises:
        typer.BadParameter: It is neither.
    """
    from turnstate.history.times import parse_time

    found = parse_time(text)
    if match := _AGO.fullmatch(text):
        with suppress(OverflowError):  # before the calendar begins
            found = (now or datetime.now(UTC)) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is no time; write 2026-03-01T12:00Z, or 30m, 2h, 7d.", param_hint=f"'{option}'"
        )
    return found
