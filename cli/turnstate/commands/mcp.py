"""``turnstate mcp``: the store for a model, over the Model Context Protocol."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnstate.commands import listening, options, session
from turnstate.commands.address import remember_secrets, store_address
from turnstate.commands.exits import CLEAN, Refused

if TYPE_CHECKING:
    from turnstate.serving.desk import Desk

HELP = """Serve the store to a model over MCP, as seven tools that read

\b
Examples:
  turnstate mcp --store agent.db
  turnstate mcp --keys plan --keys 'gazet/*' --threads 'user-42*'
  turnstate mcp --http --port 8322
  TURNSTATE_TOKEN=… turnstate mcp --http --host 0.0.0.0

Needs the extra: pip install 'turnstate[mcp]'. A client starts it and talks over stdin and stdout; with --http it
listens on this machine, at /mcp. Only reading is possible, secrets stay masked, and each call reads the state that
the store has then.

Answers are the documents of --json. What is beyond --max-rows or --max-bytes is left out, and the answer says so.
With --keys only keys that match one of the patterns are shown; a pattern that matches a channel shows its entries
too, one that matches an entry not the channel as a whole. Questions are then shown only with the channel they stand in,
and errors and interrupts, which can hold anything, not at all.

On another address than loopback everybody must show the token in TURNSTATE_TOKEN, as Authorization: Bearer TOKEN.
There is no encryption: put a proxy with TLS in front.

Exit codes: 0 stdin ended; 2 usage, or the port is taken; 130 ended by Ctrl-C.
"""

_NEEDS = ("mcp",)
_LEAST_BYTES = 4000  # what tells of an answer that most of it was left out


def mcp(
    ctx: typer.Context,
    http: Annotated[
        bool, typer.Option("--http", help="Listen for streamable HTTP, not on stdin and stdout.")
    ] = False,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            metavar="PATTERN",
            help="Show only keys that match (* ? [abc]); may be given several times.",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            metavar="PATTERN",
            help="Show only threads whose id matches (* ? [abc]).",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[
        str, typer.Option("--max-rows", metavar="N", help="Rows of an answer, at most.")
    ] = "100",
    max_bytes: Annotated[
        str, typer.Option("--max-bytes", metavar="N", help="Bytes of an answer's JSON, at most.")
    ] = "50000",
    host: listening.Host = "127.0.0.1",
    port: listening.Port = "8322",
    allow_host: listening.AllowHost = None,
    messages: options.Messages = "messages",
    store: options.Store = None,
    schema: options.Schema = None,
) -> None:
    number = listening.port_number(port)
    rows = _at_least(1, max_rows, "--max-rows")
    size = _at_least(_LEAST_BYTES, max_bytes, "--max-bytes")
    if not http and (host != "127.0.0.1" or port != "8322" or allow_host):
        raise typer.BadParameter("--host, --port and --allow-host go with it.", param_hint="'--http'")
    listening.must_be_installed("mcp", _NEEDS)
    try:
        from turnstate.serving import mcp as protocol
    except ImportError:
        raise Refused(
            "turnstate mcp cannot be started",
            "the mcp package is one of another version, or incomplete",
            "Install it: pip install 'turnstate[mcp]'.",
        ) from None
    from turnstate.serving.allowed import Allowed
    from turnstate.serving.caps import Caps
    from turnstate.serving.desk import Desk
    from turnstate_backends.address import secrets_of

    token = listening.token_for(host) if http else None
    address = store_address(session.store_option(ctx, store), os.environ, Path.cwd())
    remember_secrets(address, os.environ)
    desk = Desk(
        address,
        schema=schema,
        messages=messages,
        secrets=frozenset(secrets_of(address, os.environ.get("PGPASSWORD", ""))),
        allowed=Allowed(tuple(keys or ()), threads),
        caps=Caps(rows, size),
        report=session.say,
    )
    if not os.environ.get("TURNSTATE_DEBUG"):
        protocol.quiet()
    if http:
        app = partial(protocol.http_application, desk, host)
        listening.answer(app, host, number, others=allow_host, token=token, name="tools", path=protocol.PATH)
    else:
        _on_stdio(desk)
    raise typer.Exit(CLEAN)


def _on_stdio(desk: Desk) -> None:
    from turnstate.serving.mcp import serve_stdio

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):  # not where whoever started it has it ignored
            # A thread waits for stdin and cannot be called back; what is under way only reads.
            signal.signal(number, lambda number, _: os._exit(128 + number))
    serve_stdio(desk)


def _at_least(least: int, text: str, option: str) -> int:
    number = options.whole_number(text, option)
    if number < least:
        raise typer.BadParameter(f"it is at least {least}.", param_hint=f"'{option}'")
    return number
