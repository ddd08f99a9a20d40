"""``turnstate serve``: the same answers over HTTP, and a page to look at them."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnstate.commands import options, session
from turnstate.commands.address import redacted, remember_secrets, store_address
from turnstate.commands.exits import CLEAN, Refused

if TYPE_CHECKING:
    from turnstate.serving.guard import Guard

HELP = """Serve the store over HTTP: a JSON API, and a page to look at it

\b
Examples:
  turnstate serve --store agent.db
  turnstate serve --port 0
  TURNSTATE_TOKEN=… turnstate serve --host 0.0.0.0 --allow-host agents.example:8321
  curl http://127.0.0.1:8321/threads/THREAD/state/plan?turn=3

Needs the extra: pip install 'turnstate[serve]'. The page is at /, the API's description at /openapi.json.
Only reading is possible, secrets stay masked, and each request reads the state that the store has then.

By default only programs on this machine are answered. On another address everybody must show the token
in TURNSTATE_TOKEN, as Authorization: Bearer TOKEN; the page asks for it. There is no encryption: put a
proxy with TLS in front. A request that names a foreign host, or comes from a page of another origin, is
refused.

Exit codes: 2 the store cannot be opened, or the port is taken; 130 ended by Ctrl-C.
"""

TOKEN = "TURNSTATE_TOKEN"  # noqa: S105, the variable's name
_NEEDS = ("fastapi", "uvicorn")
_BACKLOG = 128
_CONNECTIONS = 200
_STACK = 64 << 20  # bytes for each thread: a value may be nested as deep there as in the main one
_PATIENCE = 2  # seconds for answers that are under way when the server is to end


def serve(
    ctx: typer.Context,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Where to listen; beyond loopback a token is needed."),
    ] = "127.0.0.1",
    port: Annotated[
        str, typer.Option("--port", metavar="N", help="The port; 0 takes one that is free.")
    ] = "8321",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME[:PORT]",
            help="Another name that requests may be addressed to, such as a proxy's; may be given several times.",
            show_default=False,
        ),
    ] = None,
    messages: options.Messages = "messages",
    store: options.Store = None,
    schema: options.Schema = None,
) -> None:
    number = options.whole_number(port, "--port")
    if not 0 <= number <= 65535:
        raise typer.BadParameter("a port is from 0 to 65535.", param_hint="'--port'")
    _check_installed()
    from turnstate.serving.answers import Source
    from turnstate.serving.app import application
    from turnstate.serving.guard import admission, is_loopback
    from turnstate_backends.address import secrets_of

    token = os.environ.get(TOKEN) or None
    if token is None and not is_loopback(host):
        raise Refused(
            f"a token is needed to listen on {host}",
            "others than this machine could read the store",
            f"Set {TOKEN} to a long random text, or leave out --host.",
        )
    address = store_address(session.store_option(ctx, store), os.environ, Path.cwd())
    remember_secrets(address, os.environ)
    secrets = secrets_of(address, os.environ.get("PGPASSWORD", ""))
    source = Source(address, schema=schema, messages=messages, secrets=frozenset(secrets))
    with source.opened() as opened:
        name = opened.name
    listener = _listening(host, number)
    at = listener.getsockname()[1]
    app = application(source, admission(host, at, others=tuple(allow_host or ()), token=token))
    shown = f"[{host}]" if ":" in host else host
    needs = "; the token is needed" if token else ""
    sys.stderr.write(redacted(f"serving {name} at http://{shown}:{at}/{needs}; Ctrl-C ends it\n"))
    sys.stderr.flush()
    _run(app, listener)
    raise typer.Exit(CLEAN)


def _check_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise Refused(
            "turnstate serve is not installed",
            f"{' and '.join(missing)} cannot be found",
            "Install it: pip install 'turnstate[serve]'.",
        )


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        Refused: The port is taken, or the address is none of this machine.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise Refused(
            f"cannot listen on {host}, port {port}",
            str(error)
            if error.errno is None or isinstance(error, socket.gaierror)
            else os.strerror(error.errno),
            "Give another --port, or 0 for one that is free.",
        ) from None


def _run(app: Guard, listener: socket.socket) -> None:
    """Answer until Ctrl-C, or until the process is told to end."""
    import threading

    import uvicorn

    threading.stack_size(_STACK)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        log_level="error",
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_PATIENCE,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listener])
