"""A connection that reads one snapshot, also through a pooler, and cannot write.

Nothing relies on the session, so a pooler in transaction mode serves as well: no prepared statement,
settings only for the length of the transaction.
"""

from __future__ import annotations

import os
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import make_conninfo

from turnstate_backends.address import PostgresAddress
from turnstate_backends.postgres_errors import connection_failure

# search_path: no function or operator of the store is called. row_security: a policy that hides rows
# raises an error instead of making them look pruned. jit: compiling takes longer than these statements.
# The scans: rows are wide and statistics often old, so every read goes along an index. lock_timeout: only
# ACCESS EXCLUSIVE keeps a reader waiting (a migration, VACUUM FULL), and whoever waits is told.
SETTINGS: Final = """
select pg_catalog.set_config('search_path', 'pg_catalog', true),
       pg_catalog.set_config('row_security', 'off', true),
       pg_catalog.set_config('jit', 'off', true),
       pg_catalog.set_config('lock_timeout', coalesce(
           nullif(pg_catalog.current_setting('lock_timeout'), '0'), '10s'), true),
       pg_catalog.set_config('enable_seqscan', 'off', true),
       pg_catalog.set_config('enable_bitmapscan', 'off', true)
"""


def begin(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Set up the transaction in which everything is read; its snapshot is taken by the first statement."""
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    if unchecked_text(connection):
        _take_text_as_it_is(connection)


def connect(address: PostgresAddress, secrets: frozenset[str]) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect with defaults fit for a command line, where the address and the environment say nothing.

    Raises:
        StoreError: The server cannot be reached or refuses. No error of the driver hangs on it.
    """
    params: dict[str, Any] = dict(address.params)
    # A service file may set these itself, and what is given explicitly would beat it.
    if "service" not in params and "PGSERVICE" not in os.environ:
        params = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"} | params
        if "PGCONNECT_TIMEOUT" not in os.environ:
            params = {"connect_timeout": "10"} | params
    params = {"fallback_application_name": "turnstate"} | params | {"client_encoding": "UTF8"}
    try:
        # prepare_threshold: a statement prepared on one server connection of a pooler is missing on the next.
        return psycopg.connect(make_conninfo(**params), prepare_threshold=None)
    except (psycopg.Error, ValueError) as error:  # ValueError: a host name that cannot be looked up at all
        failure = connection_failure(str(error), address.display, secrets)
    raise failure


def unchecked_text(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    """Whether the server stores text without looking at its encoding (SQL_ASCII)."""
    return connection.info.parameter_status("server_encoding") == "SQL_ASCII"


def _take_text_as_it_is(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Text of an SQL_ASCII server as UTF-8 where it is that, other bytes as surrogates (PEP 383).

    With UTF8 as the client's encoding such a server refuses to send what is not UTF-8.
    """
    for type_name in ("text", "varchar", "name"):
        connection.adapters.register_loader(type_name, _LenientLoader)
        connection.adapters.register_loader(type_name, _LenientBinaryLoader)
    connection.adapters.register_dumper(str, _LenientDumper)
    connection.execute("select pg_catalog.set_config('client_encoding', 'SQL_ASCII', true)")


class _LenientLoader(Loader):
    def load(self, data: Buffer) -> str:
        return bytes(data).decode("utf-8", "surrogateescape")


class _LenientBinaryLoader(_LenientLoader):
    format = pq.Format.BINARY


class _LenientDumper(Dumper):
    oid = psycopg.adapters.types["text"].oid

    def dump(self, obj: str) -> bytes:
        return obj.encode("utf-8", "surrogateescape")
