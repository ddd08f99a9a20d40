"""What one command takes from a store: from disk where the file was not in memory, and from a server what it sends."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

BLOCK = 512  # of rusage's counts, whatever the disk's is


def from_disk(path: Path, argv: list[str]) -> int | None:
    """Bytes that a program makes the system read from the disk of a file that is not in memory.

    The system reads ahead, so this is no less than what was asked for. None where files are never out of memory.
    """
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_inblock * BLOCK or None


def from_server(url: str, argv: Callable[[str], list[str]]) -> int:
    """Bytes that a PostgreSQL server sends to a program, which gets an address of its own."""
    with _relay(url) as (address, sent):
        subprocess.run(argv(address), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return sum(sent)


@contextmanager
def _relay(url: str) -> Iterator[tuple[str, list[int]]]:
    """An address that stands for the server's, and how many bytes came back, piece by piece."""
    told = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    host, port = told.get("host", "localhost"), int(told.get("port", "5432"))
    sent: list[int] = []
    with ExitStack() as open_now:
        listener = open_now.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                server = open_now.enter_context(_connected(host, port))
                open_now.enter_context(client)
                _start(client, server, lambda _: None)
                _start(server, client, sent.append)

        threading.Thread(target=serve, daemon=True).start()
        here = {"host": "127.0.0.1", "port": listener.getsockname()[1], "sslmode": "disable"}
        yield make_conninfo(url, **here), sent
        listener.shutdown(socket.SHUT_RDWR)


def _connected(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


def _start(source: socket.socket, target: socket.socket, count: Callable[[int], None]) -> None:
    def carry() -> None:
        try:
            while data := source.recv(1 << 16):
                count(len(data))
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    threading.Thread(target=carry, daemon=True).start()
