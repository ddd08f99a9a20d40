"""What PostgreSQL's errors mean to the person who asked, and what of their text may be shown.

The only place that turns a driver's message into a sentence. No secret passes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from turnstate_backends.address import redact
from turnstate_backends.interface import StoreError

# What libpq and the server say while connecting, where there is no SQLSTATE, and what to do about it.
_CONNECTION_FAILURES: Final = (
    ("authentication failed|no password supplied", "Check user and password."),
    ('role ".*" does not exist', "Check the user name."),
    ('database ".*" does not exist', "Check the database name in the address."),
    ('service (file )?".*" not found', "Check ~/.pg_service.conf or PGSERVICEFILE."),
    ("translate host name|resolve host", "Check host name and port."),
    ("SSL off|no encryption|SSL required", "The server wants TLS: add sslmode=require."),
    ("does not support SSL", "The server offers no TLS: leave sslmode out, or ask its operator."),
    ("certificate|SSL|GSS", "Check sslmode and sslrootcert."),
    ("Connection refused|No such file or directory", "Check host and port, and that the server runs."),
    ("timeout expired|timed out", "Check host and port; connect_timeout=SECONDS waits longer."),
    ("too many (clients|connections)|remaining connection slots", "Try again later."),
)

# SQLSTATE or its class → (what, hint); https://www.postgresql.org/docs/18/errcodes-appendix.html
_READ_FAILURES: Final = {
    "42501": ("the role may not read {name}", "Grant it SELECT on the store's tables, past any row policy."),
    "57014": (
        "a statement on {name} was cancelled",
        "Raise statement_timeout for this role, or ask for less.",
    ),
    "55P03": ("{name} is locked", "Try again when the migration that holds the lock is done."),
    "25P03": (
        "{name} ended the idle transaction",
        "Raise idle_in_transaction_session_timeout for this role.",
    ),
    "25P02": ("{name} cannot be read any further", "An earlier statement failed; open the store again."),
    "40001": ("{name} dropped the snapshot", "Try again, or read from the primary instead of a standby."),
    "42P01": ("a table of {name} is gone", "Open the store again."),
    "57": ("the connection to {name} was lost", "Try again; the server ended it."),
    "08": ("the connection to {name} was lost", "Try again."),
    "53": ("{name} has run out of a resource", "Try again later."),
}


@contextmanager
def store_errors(name: str, secrets: frozenset[str]) -> Iterator[None]:
    """Turn the driver's errors into StoreError, without their text's secrets and without their chain."""
    try:
        yield
    except psycopg.Error as error:
        failure = _read_failure(error, name, secrets)
    except UnicodeError as error:
        failure = StoreError(
            f"{name} cannot be read",
            f"text in it or for it does not fit its encoding: {type(error).__name__}",
            "Check the encoding of the database.",
        )
    else:
        return
    raise failure from None


def _read_failure(error: psycopg.Error, name: str, secrets: frozenset[str]) -> StoreError:
    state = error.sqlstate or ("08000" if isinstance(error, psycopg.OperationalError) else "")
    what, hint = _READ_FAILURES.get(state) or _READ_FAILURES.get(
        state[:2], ("{name} cannot be read", "Check that it is a LangGraph store.")
    )
    return StoreError(
        what.format(name=name), _reason(error.diag.message_primary or str(error), secrets), hint
    )


def connection_failure(message: str, name: str, secrets: frozenset[str]) -> StoreError:
    """The error for a connection that did not come about.

    Args:
        message: What libpq said.
        name: The address as it may be shown.
        secrets: Every spelling of a secret that ``message`` could repeat.
    """
    reason = _reason(message, secrets)
    for pattern, hint in _CONNECTION_FAILURES:
        if re.search(pattern, message):
            return StoreError(f"cannot connect to {name}", reason, hint)
    return StoreError(f"cannot connect to {name}", reason, "Check the address.")


def _reason(message: str, secrets: frozenset[str]) -> str:
    """The line of a driver's message that tells most, secrets replaced."""
    lines = [line.strip() for line in redact(message, secrets).splitlines() if line.strip()] or [
        "no reason was given"
    ]
    chosen = next((line for line in lines if "FATAL:" in line), lines[0])
    return " ".join(re.sub(r"^(connection failed|connection is bad): ", "", chosen).split())
