"""Questions to the server in this process, as a client on this machine sends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.testclient import TestClient

from turnstate.serving.answers import Source
from turnstate.serving.app import application
from turnstate.serving.guard import admission

PORT = 8321
URL = f"http://127.0.0.1:{PORT}"


@contextmanager
def client(
    address: str, *, token: str | None = None, host: str = "127.0.0.1", others: tuple[str, ...] = ()
) -> Iterator[TestClient]:
    """A client of a server for a store."""
    app = application(Source(address, messages="messages"), admission(host, PORT, others=others, token=token))
    with TestClient(app, base_url=URL) as started:
        yield started
