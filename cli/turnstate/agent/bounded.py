"""Regular expressions and JMESPath that a model wrote, with an end to what they may cost.

Both languages have short expressions that run for years or fill any memory, and neither can be stopped from within a
process. What can be such an expression runs in a process of its own, which ends when its time is up.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from turnstate.history.jsonform import jsonable, plain
from turnstate.history.query import QueryError, compiled, selected

MOST_CHARACTERS = 500
"""Of an expression."""
CPU_SECONDS = 2
_WALL_SECONDS = 10  # for a machine that has other work
_MEMORY = 2 << 30
_MOST_RESULT = 1 << 24  # characters of JSON

# Without a repeat and a group an expression looks at each place of a line once.
_IS_QUICK = re.compile(r"[^*+?{(]*")
# Fields and items by number: one step down each.
_NAME = r'(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\\]*")'
_STEPS = re.compile(rf"(?:{_NAME}|\[-?\d+\])(?:\.{_NAME}|\[-?\d+\])*")
_PROGRAM = (
    "import json, sys; asked = json.load(sys.stdin); sys.path[:] = asked['sys_path']; "
    "from turnstate.agent.bounded import serve; serve(asked)"
)


class BadExpression(Exception):
    """An expression that cannot be read, or not be applied; the text says why, in one line.

    Attributes:
        which: What it was given as.
    """

    def __init__(self, which: Literal["path", "pattern"], why: str) -> None:
        super().__init__(why)
        self.which = which


class TooCostly(Exception):
    """The expression took too long, or too much memory."""


Found = tuple[int, list[tuple[int, int]]]
"""How many lines match, and of the first of them the index and where in the line the match begins."""


def matching_lines(pattern: str, lines: Sequence[str], most: int) -> Found:
    """Lines in which a regular expression (Python's ``re``) matches. Takes :data:`CPU_SECONDS` of work at most.

    Raises:
        BadExpression: It is none.
        TooCostly: It was given up.
    """
    _check_length("pattern", pattern)
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadExpression("pattern", " ".join(str(error).split())) from None
    if _IS_QUICK.fullmatch(pattern):
        return _matching(pattern, lines, most)
    count, places = _elsewhere({"pattern": pattern, "lines": list(lines), "most": most})
    return count, [(line, start) for line, start in places]


def at_path(path: str, value: Any) -> Any:
    """What a JMESPath expression selects of plain data. Takes :data:`CPU_SECONDS` of work at most.

    Raises:
        BadExpression: It is none, or asks for what the value does not have.
        TooCostly: It was given up.
    """
    _check_length("path", path)
    try:
        expression = compiled(path)
        if is_steps(path):
            return selected(expression, value)
    except QueryError as error:
        raise BadExpression("path", str(error)) from None
    except RecursionError:
        raise BadExpression("path", "it is nested too deeply") from None
    return plain(_elsewhere({"query": path, "value": jsonable(value)}))


def is_steps(path: str) -> bool:
    """Whether a path only goes down by fields and items."""
    return bool(_STEPS.fullmatch(path))


def _check_length(which: Literal["path", "pattern"], expression: str) -> None:
    if len(expression) > MOST_CHARACTERS:
        raise BadExpression(which, f"it has {len(expression)} characters, and {MOST_CHARACTERS} are allowed")


def _matching(pattern: str, lines: Sequence[str], most: int) -> Found:
    find = re.compile(pattern).search
    count, places = 0, []
    for i, line in enumerate(lines):
        if match := find(line):
            count += 1
            if count <= most:
                places.append((i, match.start()))
    return count, places


def _elsewhere(asked: dict[str, Any]) -> Any:
    asked |= {"sys_path": sys.path, "cpu_seconds": CPU_SECONDS}
    try:
        done = subprocess.run(  # noqa: S603 - the command line holds nothing of the expression
            [sys.executable, "-I", "-c", _PROGRAM],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=_WALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TooCostly from None
    if done.returncode:
        raise TooCostly
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise BadExpression("path", answer["error"])
    return answer["result"]


def serve(asked: dict[str, Any]) -> None:
    """Answer on stdout, in the process that may be ended; a failure for want of time or memory has no answer."""
    _limit(asked["cpu_seconds"])
    try:
        if "pattern" in asked:
            result: Any = _matching(asked["pattern"], asked["lines"], asked["most"])
        else:
            result = jsonable(selected(compiled(asked["query"]), plain(asked["value"])))
    except QueryError as error:
        answer = {"error": str(error)}
    else:
        answer = {"result": result}
    text = json.dumps(answer)
    if len(text) > _MOST_RESULT:
        raise SystemExit(1)
    sys.stdout.write(text)


def _limit(cpu_seconds: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    with suppress(ValueError, OSError):  # macOS refuses
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
