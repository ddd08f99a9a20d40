"""What the commands say of a thread, to hold a recording against its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cli_run import run


def threads_of(address: str) -> list[str]:
    return [each["thread"] for each in run("threads", "--store", address, "--jsonl").documents]


def told(address: str, thread: str, env: Mapping[str, str] | None = None) -> Iterator[tuple[Any, ...]]:
    """What the commands say of a thread in JSON, with their exit codes."""
    for verb, *argv in (
        ("turns",),
        ("keys", "--all"),
        ("show", "--all", "*"),
        ("log", "--values"),
        ("log", "--all", "*"),
        ("diff", "--turns", "0.."),
        ("gaps",),
        ("branches",),
    ):
        options = [each for each in argv if each != "*"]
        key = [each for each in argv if each == "*"]
        result = run(verb, "--store", address, *options, "--json", "--", thread, *key, env=env)
        yield verb, argv, result.code, result.document
