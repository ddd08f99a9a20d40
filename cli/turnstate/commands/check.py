"""``turnstate check``: whether a store holds what a file expects of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnstate.commands import options, session
from turnstate.commands.address import redacted
from turnstate.commands.complete import complete_thread
from turnstate.commands.exits import CLEAN, FOUND, USAGE, Missed, Refused

if TYPE_CHECKING:
    from turnstate.checking.expectations import Expectation, ExpectationFile
    from turnstate.checking.judge import CheckReport, Result

HELP = """Check what a store holds against the expectations in a file

\b
Examples:
  turnstate check
  turnstate check turnstate.toml --store agent.db
  turnstate check --format junit --to report.xml
  turnstate check --init THREAD --to turnstate.toml
  turnstate check --accept

\b
The file, turnstate.toml here or in a folder above unless another is named:
  store = "agent.db"
  [[expect]]
  thread = "demo"
  key = "plan"
  turn = 1
  equals = "look up the area"

An expectation is about a key (its value as of a turn), a turn, what changed between two turns,
or a thread; docs/checking.md lists every name, and --print-schema has them for an editor. A value is
equal as diff has it: 1, 1.0 and "1" differ. Secrets are compared and shown masked. --accept
writes what the store holds into the file; it changes nothing but values that do not hold.

Exit codes: 0 every expectation holds; 1 some do not; 2 some cannot be told: the file is wrong,
or the store cannot be read.
"""

_FORMATS = ("text", "json", "junit", "github", "tap", "markdown")


def _format(value: str) -> str:
    if value not in _FORMATS:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(_FORMATS)}.")
    return value


def check(
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Files of expectations.", show_default=False),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            "-k", metavar="TEXT", help="Only expectations whose name holds this text.", show_default=False
        ),
    ] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="End with the first that fails.")] = False,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(_FORMATS),
            help="The form of the report. github also adds to the step's summary.",
            callback=_format,
            autocompletion=lambda: list(_FORMATS),
        ),
    ] = "text",
    json: options.Json = False,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="Write the report, or the draft, to this file; the report is then printed as text too.",
            show_default=False,
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Write what the store holds into the file, where it differs.")
    ] = False,
    init: Annotated[
        str | None,
        typer.Option(
            "--init",
            metavar="THREAD",
            help="Draft expectations from what the thread holds, and check nothing.",
            autocompletion=complete_thread,
            show_default=False,
        ),
    ] = None,
    print_schema: Annotated[
        bool, typer.Option("--print-schema", help="Print the file's JSON Schema, for editors.")
    ] = False,
    reducer: options.Reducer = None,
    store: options.Store = None,
    schema: options.Schema = None,
    color: options.Color = "auto",
) -> None:
    out = session.output(json=False, jsonl=False, color=color)
    form = "json" if json else format
    _only_alone(accept, init, print_schema, fail_fast=fail_fast, form=form, files=files, to=to)
    if print_schema:
        from turnstate.checking.schema import schema as described
        from turnstate.render.documents import write_json

        write_json(out.screen, described())
        raise typer.Exit(CLEAN)
    address = session.store_option(ctx, store)
    if init is not None:
        _draft(ctx, out, init, to, address, schema)
        raise typer.Exit(CLEAN)
    loaded = _loaded(out, files or [], form)
    wanted = _wanted([file for _, file in loaded], select)
    addresses = {file.path: _address(path, address) for path, file in loaded}
    results = list(_results(out, wanted, addresses, schema, reducer, fail_fast=fail_fast))
    raise typer.Exit(_accept(out, loaded, results) if accept else _report(out, results, form, to))


def _only_alone(
    accept: bool,
    init: str | None,
    print_schema: bool,
    *,
    fail_fast: bool,
    form: str,
    files: list[str] | None,
    to: str | None,
) -> None:
    """Refuse options that make no sense together.

    Raises:
        typer.BadParameter: Which ones.
    """
    asked = [
        name
        for name, given in (
            ("--accept", accept),
            ("--init", init is not None),
            ("--print-schema", print_schema),
        )
        if given
    ]
    if len(asked) > 1:
        raise typer.BadParameter(f"give only one of {' and '.join(asked)}.", param_hint=f"'{asked[1]}'")
    if asked and (form != "text" or fail_fast):
        name = "--fail-fast" if fail_fast else "--format"
        raise typer.BadParameter(f"it does not go with {asked[0]}.", param_hint=f"'{name}'")
    if asked and asked != ["--accept"] and files:
        raise typer.BadParameter(f"no file goes with {asked[0]}.", param_hint="'FILE'")
    if to is not None and form == "text" and asked != ["--init"]:
        raise typer.BadParameter("it goes with --format and --init only.", param_hint="'--to'")


# What is asked.


def _loaded(out: session.Output, names: list[str], form: str) -> list[tuple[Path, ExpectationFile]]:
    """The files, each once.

    Raises:
        Refused: One cannot be read.
        typer.Exit: Something is wrong with one; that has been said.
    """
    from turnstate.checking.expectations import FileFlawed
    from turnstate.commands.checks import load

    base = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()) if form == "github" else Path.cwd()
    given = [Path(name) for name in reversed(names)] or [_default_file()]
    paths = {path.resolve(): path for path in given}
    loaded, problems = [], []
    for path in reversed(paths.values()):
        try:
            loaded.append((path, load(path, _shown(path, base))))
        except FileFlawed as flawed:
            problems += flawed.problems
    if problems:
        from turnstate.render.checks import write_problems

        write_problems(out.screen, problems)
        raise typer.Exit(USAGE)
    return loaded


def _default_file() -> Path:
    from turnstate.commands.checks import DEFAULT_FILE

    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / DEFAULT_FILE).is_file():
            return folder / DEFAULT_FILE
    raise Refused(
        "no file of expectations is given",
        f"there is no {DEFAULT_FILE} here or in a folder above",
        f"Name one, or draft one: turnstate check --init THREAD --to {DEFAULT_FILE}.",
    )


def _shown(path: Path, base: Path) -> str:
    """A file by its path from a folder, where it lies in it."""
    whole = path.absolute()
    return whole.relative_to(base).as_posix() if whole.is_relative_to(base) else str(path)


def _wanted(files: Sequence[ExpectationFile], select: str | None) -> list[Expectation]:
    every = [expectation for file in files for expectation in file.expectations]
    named = ", ".join(file.path for file in files)
    if not every:
        raise Refused(
            "nothing is expected",
            f"{named}: there is no [[expect]]",
            "Write one, or draft some: turnstate check --init THREAD.",
        )
    if select is None:
        return every
    found = [each for each in every if select.casefold() in f"{each.name}\n{each.about}".casefold()]
    if not found:
        raise Refused(
            f"no expectation is selected by -k {select!r}",
            f"{named}: {len(every)} have other names",
            "Leave -k out to see them.",
        )
    return found


def _address(path: Path, option: str | None) -> str:
    from turnstate.commands.checks import address_of

    return address_of(path, option)


def _results(
    out: session.Output,
    wanted: Sequence[Expectation],
    addresses: dict[str, str],
    schema: str | None,
    reducer: Sequence[str] | None,
    *,
    fail_fast: bool,
) -> Iterator[Result]:
    from turnstate.checking.judge import Result
    from turnstate.commands.checks import Checker
    from turnstate.render.screen import progress

    ended = False
    with progress(out.screen, "checking"), Checker(schema=schema, reducer=reducer) as checker:
        for expectation in wanted:
            if ended:
                yield Result(expectation, "not_run")
                continue
            result = checker.judge(expectation, addresses[expectation.file])
            ended = fail_fast and result.status != "holds"
            yield result


# What is told.


def _code(results: Sequence[Result]) -> int:
    statuses = {result.status for result in results}
    return USAGE if "error" in statuses else FOUND if "fails" in statuses else CLEAN


def _report(out: session.Output, results: Sequence[Result], form: str, to: str | None) -> int:
    from turnstate.checking.judge import CheckReport
    from turnstate.render.check_formats import FORMATS
    from turnstate.render.checks import write_report

    report = CheckReport(tuple(results))
    if form == "text" or to is not None:
        write_report(out.screen, report)
    if form != "text":
        text = redacted(FORMATS[form](report))
        if to is None:
            out.screen.data(text)
        else:
            _write(Path(to), text + "\n", "w")
    for message in dict.fromkeys(result.message for result in results if result.status == "error"):
        if form != "text" and to is None:
            out.screen.note(redacted(message), "red")
    if form == "github":
        _add_to_summary(out, report)
    return _code(results)


def _add_to_summary(out: session.Output, report: CheckReport) -> None:
    """Append to the page that GitHub shows of a step, where there is one."""
    from turnstate.render.check_formats import markdown_report

    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            _write(Path(summary), redacted(markdown_report(report)) + "\n", "a")
        except Refused as refusal:
            out.screen.note(f"no summary: {refusal.what}, {refusal.why}", "yellow")


def _accept(
    out: session.Output, loaded: Sequence[tuple[Path, ExpectationFile]], results: Sequence[Result]
) -> int:
    """Write what there is into the files; exits clean when every expectation then holds."""
    from turnstate.checking.accept import accept
    from turnstate.checking.judge import CheckReport
    from turnstate.render.checks import write_acceptance, write_report

    left = [result for result in results if result.status == "error"]
    for path, file in loaded:
        here = [result for result in results if result.expectation.file == file.path]
        acceptance = accept(file, here)
        if acceptance.changes:
            _replace(path, file.text, acceptance.text)
        write_acceptance(out.screen, acceptance)
        kept = {kept.expectation.index for kept in acceptance.kept}
        left += [result for result in here if result.expectation.index in kept]
    if left:
        write_report(out.screen, CheckReport(tuple(left)))
    elif all(result.status == "holds" for result in results):
        out.screen.note("every expectation holds; nothing to accept")
    return _code(left)


# Files.


def _replace(path: Path, read: str, text: str) -> None:
    """Put a new text in the place of a file's, as a whole or not at all.

    Raises:
        Refused: The file is not as it was read, or cannot be written.
    """
    from tempfile import NamedTemporaryFile

    path = path.resolve()  # a link stays one
    try:
        if path.read_bytes() != read.encode():
            raise Refused(f"{path} has changed", "someone else wrote it meanwhile", "Check again.")
        with NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.", delete=False) as temporary:
            try:
                temporary.write(text.encode())
                temporary.flush()
                os.fsync(temporary.fileno())
                Path(temporary.name).chmod(path.stat().st_mode & 0o7777)
                Path(temporary.name).replace(path)
            except BaseException:
                Path(temporary.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _cannot_write(path, error) from None


def _write(path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: Path, error: OSError) -> Refused:
    return Refused(
        f"{path} cannot be written", error.strerror or "", "Name another file, or mend what is wrong."
    )


# A draft.


def _draft(
    ctx: typer.Context,
    out: session.Output,
    thread: str,
    to: str | None,
    address: str | None,
    schema: str | None,
) -> None:
    """Print expectations that hold, or write them into a new file.

    Raises:
        Refused: There is no such thread; or the file is there already.
    """
    folder = Path.cwd() if to is None else Path(to).absolute().parent
    with session.opened(ctx, out, address, schema) as opened:
        from turnstate.checking.draft import draft

        try:
            history = session.history_of(
                opened, thread, ns="", branch=None, messages="messages", turns_by=None
            )
        except Missed as miss:
            raise Refused(
                "nothing can be drafted", miss.message, "Name a thread that the store has, see threads."
            ) from None
        text = draft(history, None if address is None else _address_from(folder, address))
    if to is None:
        out.screen.data(text.removesuffix("\n"))
        return
    if Path(to).exists():
        raise Refused(f"{to} is there already", "a draft replaces no file", "Name another one with --to.")
    _write(Path(to), text, "x")
    out.screen.note(f"drafted {to}; leave out what may change")


def _address_from(folder: Path, address: str) -> str | None:
    """An address as a file in a folder names it; None where it holds a password."""
    from turnstate_backends.address import PostgresAddress, SqliteAddress, parse

    parsed = parse(address)
    if isinstance(parsed, SqliteAddress):
        path = parsed.path
        return str(path) if path.is_absolute() else os.path.relpath(path.absolute(), folder)
    if isinstance(parsed, PostgresAddress) and parsed.secrets:
        return None
    return address
