"""Ways to run the program in tests: in this process, as a process of its own, and in a terminal."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from turnstate.commands.app import main

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "fixtures"
_DECIDES = ("TURNSTATE_STORE", "TURNSTATE_DEBUG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PGPASSWORD")


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """``out`` as strict JSON."""
        return json.loads(self.out, parse_constant=_not_json)

    @property
    def documents(self) -> list[Any]:
        """``out`` as strict JSON, one document per line."""
        return [json.loads(line, parse_constant=_not_json) for line in self.out.splitlines()]


def _not_json(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


def store(name: str) -> str:
    """The address of a recorded store."""
    return str(FIXTURES / f"{name}.db")


def run(*argv: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Result:
    """In this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n", write_through=True) for _ in "oe")
    with pytest.MonkeyPatch.context() as patch:
        for name in _DECIDES:
            patch.delenv(name, raising=False)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = main(argv)
    return Result(code, *(s.buffer.getvalue().decode() for s in (out, err)))  # type: ignore[attr-defined]


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a process of its own is started with."""
    kept = {name: value for name, value in os.environ.items() if name not in _DECIDES}
    return {
        **kept,
        "PYTHONPATH": f"{ROOT / 'cli'}:{ROOT / 'backends'}",
        "TERM": "xterm-256color",
        **(env or {}),
    }


def command(*argv: str) -> list[str]:
    """The program as a command."""
    return [sys.executable, "-m", "turnstate", *argv]


def run_process(*argv: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Result:
    """In a process of its own."""
    done = subprocess.run(
        command(*argv), env=environment(env), cwd=cwd, capture_output=True, timeout=60, check=False
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


# A slow machine is told that the program is still reading; the line is erased again.
_PROGRESS = re.compile(r"\r[^\r\n]*…\r\x1b\[2K")


def run_in_terminal(*argv: str, columns: int, env: Mapping[str, str] | None = None) -> str:
    """What a terminal of that width shows in the end, both streams together, line ends as ``\\n``."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        command(*argv), env=environment(env), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    try:
        while part := _read(ours):
            seen += part
    finally:
        os.close(ours)
        process.wait(timeout=60)
    return _PROGRESS.sub("", seen.decode().replace("\r\n", "\n"))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # how Linux ends a terminal whose other side was closed
            return b""
        raise
