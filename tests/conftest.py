"""Fixtures that several test modules share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

import pg

# The tests say the same of the same code each time. HYPOTHESIS_PROFILE=explore looks for new cases.
settings.register_profile("repeatable", derandomize=True, print_blob=True)
settings.register_profile("explore", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

os.environ.pop("LANGGRAPH_AES_KEY", None)  # a key is what a test gives
signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, a shell has it ignored


@pytest.fixture(scope="session")
def pg_server() -> Iterator[str]:
    """The URL of a real PostgreSQL server, as a superuser; one per test process. See :mod:`pg`."""
    with pg.server() as server_url:
        yield server_url


@pytest.fixture
def pg_dsn(pg_server: str) -> Iterator[str]:
    """The URL of a fresh, empty PostgreSQL database, as its superuser; dropped after the test.

    Fit for ``PostgresSaver.from_conn_string(pg_dsn)`` and for turnstate's ``--store`` alike. ``pg.url(pg_dsn,
    user=…, password=…)`` addresses the same database as another role, ``pg.role(pg_dsn)`` makes one.
    """
    with pg.database(pg_server) as database_url:
        yield database_url
