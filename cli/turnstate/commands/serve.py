"""``turnstate serve``: the same answers over HTTP, and a page to look at them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import typer

from turnstate.commands import listening, options, session
from turnstate.commands.address import remember_secrets, store_address
from turnstate.commands.exits import CLEAN

HELP = """Serve the store over HTTP: a JSON API, and a page to look at it

\b
Examples:
  turnstate serve --store agent.db
  turnstate serve --port 0
  TURNSTATE_TOKEN=… turnstate serve --host 0.0.0.0
  curl http://127.0.0.1:8321/threads/THREAD/state/plan?turn=3

Needs the extra: pip install 'turnstate[serve]'. The page is at /, the API's description at /openapi.json.
Only reading is possible, secrets stay masked, and each request reads the state that the store has then.

By default only programs on this machine are answered. On another address everybody must show the token
in TURNSTATE_TOKEN, as Authorization: Bearer TOKEN; the page asks for it. There is no encryption: put a
proxy with TLS in front. A request that names a foreign host, or comes from a page of another origin, is
refused.

Exit codes: 2 the store cannot be opened, or the port is taken; 130 ended by Ctrl-C.
"""

_NEEDS = ("fastapi", "uvicorn")


def serve(
    ctx: typer.Context,
    host: listening.Host = "127.0.0.1",
    port: listening.Port = "8321",
    allow_host: listening.AllowHost = None,
    messages: options.Messages = "messages",
    store: options.Store = None,
    schema: options.Schema = None,
) -> None:
    number = listening.port_number(port)
    listening.must_be_installed("serve", _NEEDS)
    from turnstate.serving.answers import Source
    from turnstate.serving.app import application
    from turnstate_backends.address import secrets_of

    token = listening.token_for(host)
    address = store_address(session.store_option(ctx, store), os.environ, Path.cwd())
    remember_secrets(address, os.environ)
    secrets = secrets_of(address, os.environ.get("PGPASSWORD", ""))
    source = Source(address, schema=schema, messages=messages, secrets=frozenset(secrets))
    with source.opened() as opened:
        name = opened.name
    listening.answer(partial(application, source), host, number, others=allow_host, token=token, name=name)
    raise typer.Exit(CLEAN)
