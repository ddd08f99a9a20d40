"""What a verb that answers over HTTP does around its work: what it needs, whom it admits, where it listens."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnstate.commands import options
from turnstate.commands.address import redacted
from turnstate.commands.exits import INTERRUPTED, Refused

if TYPE_CHECKING:
    from turnstate.serving.guard import Admission

TOKEN = "TURNSTATE_TOKEN"  # noqa: S105, the variable's name
_BACKLOG = 128
_CONNECTIONS = 200
_STACK = 64 << 20  # bytes for each thread: a value may be nested as deep there as in the main one
_PATIENCE = 2  # seconds for answers that are under way when the server is to end

Host = Annotated[
    str,
    typer.Option("--host", metavar="ADDRESS", help="Where to listen; beyond loopback a token is needed."),
]
Port = Annotated[str, typer.Option("--port", metavar="N", help="The port; 0 takes one that is free.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME[:PORT]",
        help="Another name that requests may be addressed to, such as a proxy's; may be given several times.",
        show_default=False,
    ),
]


def port_number(port: str) -> int:
    """``--port`` as typed.

    Raises:
        typer.BadParameter: It is none.
    """
    number = options.whole_number(port, "--port")
    if not 0 <= number <= 65535:
        raise typer.BadParameter("a port is from 0 to 65535.", param_hint="'--port'")
    return number


def must_be_installed(extra: str, needs: Sequence[str]) -> None:
    """Go on only where the packages of an extra are there.

    Raises:
        Refused: They are not.
    """
    missing = [name for name in needs if find_spec(name) is None]
    if missing:
        raise Refused(
            f"turnstate {extra} is not installed",
            f"{' and '.join(missing)} cannot be found",
            f"Install it: pip install 'turnstate[{extra}]'.",
        )


def token_for(host: str) -> str | None:
    """What must be shown to be answered; None where everybody on this machine may read.

    Raises:
        Refused: There is none, and others than this machine could read.
    """
    from turnstate.serving.guard import is_loopback

    token = os.environ.get(TOKEN, "").strip() or None  # a header's value has no space around it
    if token is None and not is_loopback(host):
        raise Refused(
            f"a token is needed to listen on {host}",
            "others than this machine could read the store",
            f"Set {TOKEN} to a long random text, or leave out --host.",
        )
    return token


def answer(
    application: Callable[[Admission], Any],
    host: str,
    port: int,
    *,
    others: Sequence[str] | None,
    token: str | None,
    name: str,
    path: str = "/",
) -> None:
    """Listen, say where, and answer until Ctrl-C, or until the process is told to end.

    Args:
        application: What answers those who are admitted.
        host: ``--host``.
        port: ``--port``; 0 takes one that is free.
        others: ``--allow-host``.
        token: What must be shown.
        name: What is served.
        path: Where.

    Raises:
        Refused: The port is taken, or the address is none of this machine.
    """
    from turnstate.serving.guard import admission

    listener = _listening(host, port)
    at = listener.getsockname()[1]
    app = application(admission(host, at, others=tuple(others or ()), token=token))
    shown = f"[{host}]" if ":" in host else host
    needs = "; the token is needed" if token else ""
    sys.stderr.write(redacted(f"serving {name} at http://{shown}:{at}{path}{needs}; Ctrl-C ends it\n"))
    sys.stderr.flush()
    _run(app, listener)


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


def _run(app: Any, listener: socket.socket) -> None:
    """Answer until Ctrl-C, or until the process is told to end."""
    import threading

    import uvicorn

    class Server(uvicorn.Server):
        """One that ends in time: a thread that still reads would be waited for, and has nothing to lose."""

        def handle_exit(self, sig: int, frame: Any) -> None:
            last = threading.Timer(
                _PATIENCE + 1, os._exit, [INTERRUPTED if sig == signal.SIGINT else 128 + sig]
            )
            last.daemon = True
            last.start()
            super().handle_exit(sig, frame)

    threading.stack_size(_STACK)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        log_level="critical",  # what is below shows tracebacks, in which anything may stand
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_PATIENCE,
        ws="none",
    )
    Server(config).run(sockets=[listener])
