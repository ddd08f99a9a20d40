"""The server's paths, their parameters, and their description in OpenAPI. The one place that knows FastAPI."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import IO, Annotated, Any, Literal
from urllib.parse import unquote

import anyio.to_thread
from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from turnstate.history.asked import When
from turnstate.render.values import json_text
from turnstate.serving.answers import REFUSED, Answer, Line, Source, problem
from turnstate.serving.guard import Admission, Guard
from turnstate.serving.page_files import KINDS, page_file

MORE = "x-turnstate-more"
"""A header: ``true`` where there was more than the limit."""

_AT_ONCE = 8  # questions that are worked on at a time, each with a connection of its own
_CHUNK = 1 << 16
_DEPTH = 10_000  # frames, as much as :func:`turnstate.history.jsonform.room_for_depth` makes room for
_LIMIT = 1000
_MOST = 100_000
_JSON = "application/json"
_PROBLEM = "application/problem+json"


class _Segment(Convertor[str]):
    """One part of a path, which may be empty: so may a thread's id."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("segment", _Segment())


def _whole(text: str) -> str:
    """A part of a path as it was meant.

    Raises:
        HTTPException: It is no UTF-8.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise HTTPException(REFUSED, "the path is no UTF-8") from None


_Thread = Annotated[
    str, Path(description="The thread's id, percent-encoded, a `/` in it as `%2F`; it may be empty.")
]
_Key = Annotated[
    str,
    Path(
        description="A channel, an entry of a channel that is a mapping, or `channel:entry`, percent-encoded."
    ),
]
_Instead = Annotated[
    str | None,
    Query(
        alias="thread",
        description="The thread's id in place of the path's: for `.` and `..`, which clients drop from a path.",
    ),
]
_Turn = Annotated[
    int | None,
    Query(description="As this turn ended: from 1; -1 is the last, 0 the state before the first question."),
]
_From = Annotated[int | None, Query(alias="from", description="The first turn.")]
_To = Annotated[int | None, Query(alias="to", description="The last turn.")]
_AKey = Annotated[str | None, Query(description="The key; all keys when left out.")]
_Ns = Annotated[str, Query(description="`checkpoint_ns`; the root graph's is empty.")]
_Branch = Annotated[
    str | None,
    Query(
        description="A checkpoint, by its id or a unique beginning of it, whose line is meant, not the head's."
    ),
]
_TurnsBy = Annotated[Literal["questions", "inputs"] | None, Query(description="What to count as turns.")]
_Limit = Annotated[int, Query(ge=1, le=_MOST, description="At most so many, the most recent.")]
_Text = Annotated[bool, Query(description="Also `text` and `notes`, as the command prints them.")]

_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "outcome": {"type": "string"},
        "message": {"type": "string"},
        "turns_so_far": {"type": "integer"},
        "retained_turns": {"type": "array", "items": {"type": "integer"}},
    },
}
_WHY = {
    400: "It cannot be answered as it was asked.",
    401: "The token is needed.",
    403: "The host or the origin is foreign.",
    404: "The thread, turn or key never was, was not written yet, or was removed: see `outcome`.",
    410: "It was, and is no longer retained: see `retained_turns`.",
    422: "It is stored, and cannot be read: `value_missing`, `encrypted`, `undecodable`, `delta_unresolved`.",
    503: "The store cannot be read.",
}


def _responses(document: str, *, many: bool = False, never: tuple[int, ...] = ()) -> dict[int | str, Any]:
    one = {
        "type": "object",
        "required": ["schema"],
        "properties": {"schema": {"type": "string", "const": document}},
    }
    schema = {"type": "array", "items": one} if many else one
    problems: dict[int | str, Any] = {
        status: {"description": why, "content": {_PROBLEM: {"schema": _PROBLEM_SCHEMA}}}
        for status, why in _WHY.items()
        if status not in never
    }
    return {200: {"description": f"`{document}`", "content": {_JSON: {"schema": schema}}}, **problems}


def application(source: Source, admitted: Admission) -> Guard:
    """The whole server.

    Args:
        source: What is read.
        admitted: Who may ask.
    """
    # Raised and lowered around each deep value by several threads, it would be lowered under one that needs it.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEPTH))
    from importlib.metadata import version

    from fastapi import Depends

    app = FastAPI(
        title="turnstate",
        summary="What a thread's state held as of a turn, and what can no longer be known.",
        version=version("turnstate"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_bounded,
        dependencies=[Depends(_once_and_known)],
    )
    _add_paths(app, source)
    _add_page(app)
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _defect)
    return Guard(app, admitted)


async def _once_and_known(request: Request) -> None:
    """Refuse a parameter that the path is not described with, and one that is given twice: left out, another question
    than was asked would be answered.

    Raises:
        HTTPException: There is one.
    """
    described = request.app.openapi()["paths"].get(request.scope["route"].path_format)
    if described is None:  # the page, to which a link may add what it likes
        return
    known = [each["name"] for each in described["get"]["parameters"] if each["in"] == "query"]
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise HTTPException(REFUSED, f"there is no parameter {name!r}, only: {', '.join(known)}")
        if given.count(name) > 1:
            raise HTTPException(REFUSED, f"{name} is given more than once")


@asynccontextmanager
async def _bounded(_app: FastAPI) -> AsyncIterator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = _AT_ONCE
    yield


def _add_paths(app: FastAPI, source: Source) -> None:
    def line(
        thread: _Thread,
        instead: _Instead = None,
        ns: _Ns = "",
        branch: _Branch = None,
        turns_by: _TurnsBy = None,
    ) -> Line:
        return Line(_whole(thread) if instead is None else instead, ns, branch, turns_by)

    from fastapi import Depends

    asked = Depends(line)

    @app.get("/threads", responses=_responses("turnstate.threads/1", many=True, never=(404, 410, 422)))
    def threads(
        pattern: Annotated[
            str | None, Query(description="Only ids that match it: `*`, `?`, `[abc]`, case-sensitive.")
        ] = None,
        limit: _Limit = _LIMIT,
    ) -> Response:
        """The threads, most recent activity first; the header `X-Turnstate-More` says whether there are more."""
        return _response(source.threads(pattern, limit))

    @app.get("/threads/{thread:segment}/turns", responses=_responses("turnstate.turns/1"))
    def turns(line: Line = asked) -> Response:
        """Each turn, those that were pruned included."""
        return _response(source.turns(line))

    @app.get("/threads/{thread:segment}/keys", responses=_responses("turnstate.keys/1"))
    def keys(line: Line = asked, turn: _Turn = None) -> Response:
        """The keys that the state held as a turn ended, by default the last."""
        return _response(source.keys(line, When(-1 if turn is None else turn)))

    @app.get("/threads/{thread:segment}/chart", responses=_responses("turnstate.chart/1"))
    def chart(line: Line = asked) -> Response:
        """Keys by turns: what each turn did to each key, and which turns wrote it."""
        return _response(source.chart(line))

    @app.get("/threads/{thread:segment}/state/{key:path}", responses=_responses("turnstate.show/1"))
    def state(
        key: _Key,
        line: Line = asked,
        turn: _Turn = None,
        named: Annotated[
            str | None,
            Query(alias="key", description="The key in place of the path's: for `.` and `..` alone."),
        ] = None,
        text: _Text = False,
    ) -> Response:
        """What a key held as a turn ended, by default the last."""
        name = _whole(key) if named is None else named
        return _response(source.state(line, name, When(-1 if turn is None else turn), text=text))

    @app.get("/threads/{thread:segment}/log", responses=_responses("turnstate.log/1"))
    def log(
        line: Line = asked,
        key: _AKey = None,
        first: _From = None,
        last: _To = None,
        limit: _Limit = _LIMIT,
        reverse: Annotated[bool, Query(description="Newest first.")] = False,
        values: Annotated[
            bool | None, Query(description="Each version's value; by default where one key is meant.")
        ] = None,
    ) -> Response:
        """The versions of a key, or of all keys."""
        span = None if first is None and last is None else (first, last)
        return _response(source.log(line, key, span, limit=limit, reverse=reverse, values=values))

    @app.get("/threads/{thread:segment}/diff", responses=_responses("turnstate.diff/1"))
    def diff(
        line: Line = asked,
        key: Annotated[
            str | None, Query(description="The key, or a pattern such as `gazet/*`; all keys when left out.")
        ] = None,
        turn: Annotated[int | None, Query(description="What this turn changed; by default the last.")] = None,
        first: _From = None,
        last: _To = None,
        text: _Text = False,
    ) -> Response:
        """What changed in a turn, or from the end of one turn to the end of another."""
        ends = None if first is None and last is None else (first, last)
        if ends is not None and turn is not None:
            raise HTTPException(REFUSED, "give either turn, or from and to")
        return _response(source.diff(line, key, turn, ends, text=text))

    @app.get("/threads/{thread:segment}/gaps", responses=_responses("turnstate.gaps/1"))
    def gaps(line: Line = asked) -> Response:
        """Turns and steps that are no longer retained, with the evidence."""
        return _response(source.gaps(line))


def _add_page(app: FastAPI) -> None:
    for name, kind in KINDS.items():
        path = "/" if name == "index.html" else f"/{name}"
        response = Response(page_file(name), media_type=f"{kind}; charset=utf-8")
        app.add_api_route(path, _constant(response), include_in_schema=False)


def _constant(response: Response) -> Any:
    async def page() -> Response:  # waits for no thread that reads
        return response

    return page


def _response(answer: Answer) -> Response:
    kind = _JSON if answer.status == 200 else _PROBLEM
    headers = {MORE: "true"} if answer.more else {}
    if isinstance(answer.body, bytes):
        return Response(answer.body, answer.status, headers, media_type=kind)
    return StreamingResponse(_pieces(answer.body), answer.status, headers, media_type=kind)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_CHUNK):
            yield piece


def _problem(status: int, words: str) -> Response:
    return Response(json_text(problem(status, message=words)), status, media_type=_PROBLEM)


async def _http_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, "there is no such path" if error.status_code == 404 else error.detail)


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    words = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
    return _problem(REFUSED, words)


async def _defect(_request: Request, error: Exception) -> Response:
    return _problem(500, f"this should not have happened, a defect in turnstate: {type(error).__name__}")
