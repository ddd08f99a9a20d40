"""The tools of :mod:`turnstate.serving.tools` over the Model Context Protocol. The one place that knows its SDK."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from turnstate.library.worker import in_thread
from turnstate.serving.desk import Desk
from turnstate.serving.guard import shows_token
from turnstate.serving.tools import INSTRUCTIONS, TOOLS, Tool

if TYPE_CHECKING:
    from turnstate.serving.guard import Admission

PATH = "/mcp"
"""Where the server answers over HTTP."""

_READS = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def server(desk: Desk) -> Server[Any]:
    """The tools as a server, to be run over any transport."""
    from importlib.metadata import version

    listed = [_listed(tool) for tool in TOOLS.values()]

    async def list_tools(
        _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        answer = await in_thread(partial(desk.call, params.name, params.arguments or {}))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)],
            structured_content=answer.structured,
            is_error=answer.failed,
        )

    return Server(
        "turnstate",
        version=version("turnstate"),
        title="turnstate",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=_READS,
    )


def quiet() -> None:
    """Let the SDK say nothing: it would repeat what a client sent, as it came."""
    log = logging.getLogger("mcp")
    log.addHandler(logging.NullHandler())
    log.propagate = False


def serve_stdio(desk: Desk) -> None:
    """Answer on stdin and stdout until stdin ends or nobody reads what is answered."""

    async def run() -> None:
        served = server(desk)
        async with stdio_server() as (read, write):
            await served.run(read, write, served.create_initialization_options())

    try:
        anyio.run(run)
    except* (BrokenPipeError, ConnectionError):
        pass


Application = Callable[[Any, Any, Any], Awaitable[None]]


def http_application(desk: Desk, host: str, admitted: Admission) -> Application:
    """The tools over streamable HTTP, at :data:`PATH`.

    Args:
        desk: Answers.
        host: Where it listens.
        admitted: Who may ask.
    """
    hosts = sorted(admitted.hosts)
    security = TransportSecuritySettings(
        # Where it listens on all addresses its names are not known: then the token tells.
        enable_dns_rebinding_protection=admitted.port is None,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")],
    )
    app = server(desk).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=security,
        host=host,
    )
    return app if admitted.token is None else _with_token(app, admitted.token)


def _with_token(app: Application, token: str) -> Application:
    """Only for those who show the token, as ``Authorization: Bearer TOKEN``."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not shows_token(scope, token):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"a token is needed"})
            return
        await app(scope, receive, send)

    return guarded
