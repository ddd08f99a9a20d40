"""Who may ask: the right host and origin, the token, and only to read. Stands before everything else of the server.

A page of another site can have the reader's browser send requests here, and a name that it owns can be made to resolve
to the loopback address (DNS rebinding); ``Origin``, ``Sec-Fetch-Site`` and ``Host`` tell.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from turnstate.render.values import json_text
from turnstate.serving.answers import problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = frozenset({"/", "/page.js", "/page.css"})
"""The page itself: it holds nothing of the store, and asks for the token."""

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_METHODS = "GET, HEAD"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HTTP_PORT = 80


def is_loopback(host: str) -> bool:
    """Whether a host, as ``--host`` has it, is this machine and nobody else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Admission(Struct, frozen=True):
    """Whom the server answers.

    Attributes:
        hosts: What ``Host`` may be, in lower case, with the port unless it is 80.
        port: Where ``Host`` may be any address as a number, as the server listens on all of them: its port. A number
            cannot be made to resolve to something else.
        token: What ``Authorization: Bearer`` must be; None where everybody on this machine may read.
    """

    hosts: frozenset[str]
    port: int | None = None
    token: str | None = None

    def host_fits(self, host: str) -> bool:
        """Whether ``Host`` is one of ours."""
        host = host.lower()
        if host in self.hosts:
            return True
        if self.port is None:
            return False
        name, port = _divided(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return port == self.port


def admission(host: str, port: int, *, others: tuple[str, ...], token: str | None) -> Admission:
    """Whom a server answers that listens there.

    Args:
        host: As ``--host`` has it.
        port: Where it listens.
        others: More names that it goes by, ``NAME`` or ``NAME:PORT``.
        token: What must be shown.
    """
    any_address = host in ("0.0.0.0", "::")  # noqa: S104
    own = f"[{host}]" if ":" in host else host
    names = [*_LOOPBACK_NAMES, own, *others]
    hosts = {name.lower() if _divided(name)[1] is not None else f"{name.lower()}:{port}" for name in names}
    if port == _HTTP_PORT:
        hosts |= {host.removesuffix(f":{port}") for host in hosts}
    hosts |= {name.lower() for name in others}
    return Admission(frozenset(hosts), port if any_address else None, token)


def _divided(host: str) -> tuple[str, int | None]:
    """A ``Host`` as name and port."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii() or len(port) > 5:
        return host.strip("[]"), None
    return name.strip("[]"), int(port)


class Guard:
    """Lets through what may be asked, gives each answer its headers, and tells nobody how a defect came about.

    What is let through has a path that is still percent-encoded, so that a ``/`` within an id is none.
    """

    def __init__(self, app: Application, admitted: Admission) -> None:
        self._app = app
        self._admitted = admitted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        only_head = scope["method"] == "HEAD"
        begun = done = False

        async def answer(message: Message) -> None:
            nonlocal begun, done
            if message["type"] == "http.response.start":
                begun = True
                ours = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *ours]}
            else:
                done = not message.get("more_body", False)
                if only_head:
                    message = {**message, "body": b""}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _tell(answer, *refusal)
            return
        raw = scope.get("raw_path") or quote(scope["path"]).encode()
        path = raw.partition(b"?")[0].decode("latin-1")
        try:
            await self._app({**scope, "method": "GET", "path": path}, receive, answer)
        except Exception as error:
            if done:
                return
            if begun:  # the connection ends, and with it what the reader takes for the answer
                raise ConnectionAbortedError from None
            words = f"this should not have happened, a defect in turnstate: {type(error).__name__}"
            await _tell(answer, HTTPStatus.INTERNAL_SERVER_ERROR, words)

    def _refusal(self, scope: Scope) -> tuple[HTTPStatus, str, dict[str, str]] | None:
        given = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        headers = dict(given)
        hosts = [value for name, value in given if name == b"host"]
        if len(hosts) != 1 or not self._admitted.host_fits(hosts[0]):
            return HTTPStatus.FORBIDDEN, "this server does not go by that name; see --allow-host", {}
        own = f"{scope.get('scheme', 'http')}://{hosts[0]}".lower()
        if any(name == b"origin" and value.lower() != own for name, value in given):
            return HTTPStatus.FORBIDDEN, "a page of another origin asks", {}
        if scope["method"] not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, "nothing here can be changed", {"allow": _METHODS}
        to_page = scope["path"] in OPEN
        if headers.get(b"sec-fetch-site") in ("cross-site", "same-site") and not (
            to_page and headers.get(b"sec-fetch-mode") == "navigate"
        ):
            return HTTPStatus.FORBIDDEN, "a page of another origin asks", {}
        token = self._admitted.token
        if token is not None and not to_page and not shows_token(scope, token):
            return HTTPStatus.UNAUTHORIZED, "a token is needed", {"www-authenticate": "Bearer"}
        return None


def shows_token(scope: Scope, token: str) -> bool:
    """Whether a request has ``Authorization: Bearer`` with the token."""
    kind, _, shown = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    meant = token.encode(errors="surrogateescape")  # as the environment has it
    return hmac.compare_digest(shown.strip(), meant) and kind.lower() == b"bearer"


async def _tell(send: Send, status: HTTPStatus, words: str, headers: dict[str, str] | None = None) -> None:
    body = json_text(problem(status, message=words)).encode()
    told = {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    encoded = [(name.encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": encoded})
    await send({"type": "http.response.body", "body": body})
