"""The server in this process: asked directly, or listening for a browser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
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


@contextmanager
def served(address: str, *, token: str | None = None) -> Iterator[str]:
    """The URL of a server that listens, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        app = application(
            Source(address, messages="messages"), admission("127.0.0.1", port, others=(), token=token)
        )
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/"  # who connects before it answers waits in the listener's queue
        finally:
            server.should_exit = True
            thread.join(20)
