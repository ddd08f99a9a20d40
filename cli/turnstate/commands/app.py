"""The program: its verbs, and the one place that turns whatever happens into messages and an exit code."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from turnstate.commands import (
    branches,
    check,
    diff,
    gaps,
    keys,
    log,
    mcp,
    options,
    record,
    report,
    serve,
    show,
    threads,
    turns,
)
from turnstate.commands.address import redacted
from turnstate.commands.exits import CLEAN, INTERRUPTED, USAGE, Refused
from turnstate.commands.session import say
from turnstate.render.screen import OutputClosed, OutputFailed

PROGRAM = "turnstate"
_AGAIN = 0.001  # seconds after which a signal that Python dropped comes again
# Objects made before the next look for cycles: what is read lives to the end, and looking took a tenth of a long log.
_RARELY = 50_000
_LISTED_BY = {"THREAD": "threads", "KEY": "keys THREAD"}
_COMPLETE = "_TURNSTATE_COMPLETE"  # set by the shell's completion function
_DEBUG = "TURNSTATE_DEBUG"

HELP = """Read a LangGraph checkpoint store: what a thread's state held as of a turn

\b
Examples:
  turnstate threads --store agent.db
  turnstate turns THREAD
  turnstate show THREAD plan --turn 3
  turnstate keys THREAD --json

Nothing is ever written to the store. Data goes to stdout, everything else to stderr.
"""

_VERBS: Mapping[str, tuple[Callable[..., None], str]] = {
    "threads": (threads.threads, threads.HELP),
    "turns": (turns.turns, turns.HELP),
    "keys": (keys.keys, keys.HELP),
    "show": (show.show, show.HELP),
    "log": (log.log, log.HELP),
    "diff": (diff.diff, diff.HELP),
    "gaps": (gaps.gaps, gaps.HELP),
    "branches": (branches.branches, branches.HELP),
    "check": (check.check, check.HELP),
    "record": (record.record, record.HELP),
    "report": (report.report, report.HELP),
    "serve": (serve.serve, serve.HELP),
    "mcp": (mcp.mcp, mcp.HELP),
}


class _AsTyped:
    """Stands in for Typer's coercion where a parameter is text or a flag, and there is nothing to coerce."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        return value


def _spared(parameters: list[Any]) -> list[Any]:
    """Typer 0.29 loads pydantic, half of our time to start, to make text of text. Others have no such attribute."""
    for parameter in parameters:
        descriptor = getattr(parameter, "type_descriptor", None)
        plain = getattr(descriptor, "annotation", None) in (str, bool, list[str])
        if plain and hasattr(parameter, "_runtime_param"):
            parameter._runtime_param = _AsTyped()
    return parameters


class _Verb(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        return _spared(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As manuals have it, whichever Typer there is: 0.29 puts what is required in braces, like a choice."""
        names = [
            (each.metavar if each.required else f"[{each.metavar}]", each.nargs) for each in _arguments(self)
        ]
        return ["[OPTIONS]", *(name if count == 1 else f"{name}..." for name, count in names)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments without the types that Python has for them, which Typer 0.29 would add."""
        for argument in _arguments(self):
            argument.get_help_record = partial(_described, argument)
        super().format_options(ctx, formatter)


def _arguments(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument" and each.metavar]


def _described(argument: Any, ctx: Any) -> tuple[str, str]:
    return argument.metavar, argument.help or ""


class _Commands(Mapping[str, Any]):
    """The verbs, each built when it is asked for: whoever runs one need not wait for the others."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            verb, text = _VERBS[name]
            alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
            summary = text.partition("\n")[0]
            alone.command(name, cls=_Verb, help=text, short_help=summary, no_args_is_help=False)(verb)
            self._built[name] = typer.main.get_command(alone)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_VERBS)

    def __len__(self) -> int:
        return len(_VERBS)


class _Verbs(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Commands()

    def get_params(self, ctx: Any) -> Any:
        return _spared(super().get_params(ctx))


def application() -> typer.Typer:
    """All verbs under one name."""
    app = typer.Typer(
        name=PROGRAM,
        cls=_Verbs,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=True,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=HELP)(_before_verb)
    return app


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit(CLEAN)


def _before_verb(
    store: options.Store = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass  # what stands before the verb is found in its context


class _Interrupts:
    """Which signal asked for an end, Ctrl-C's or another's: all of them let what was begun be cleared up.

    Within an import or a clearing up, Python turns the interrupt into another error.
    """

    came = 0

    @classmethod
    def listen(cls) -> None:
        cls.came = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Nobody else's, and not ignored.
            if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
                with suppress(ValueError):  # only the main thread hears of signals
                    signal.signal(number, cls._heard)
                    sys.unraisablehook = cls._dropped

    @classmethod
    def code(cls) -> int:
        """The exit code, as a shell has it: 128 and the signal's number."""
        return 128 + (cls.came or signal.SIGINT)

    @classmethod
    def _heard(cls, number: int, _frame: object) -> None:
        cls.came = number
        raise KeyboardInterrupt

    @classmethod
    def _dropped(cls, error: sys.UnraisableHookArgs) -> None:
        """Where Python would only say that it ignores an error, and go on: the signal comes once more, elsewhere."""
        if issubclass(error.exc_type, KeyboardInterrupt):
            again = threading.Timer(_AGAIN, os.kill, (os.getpid(), cls.came or signal.SIGINT))
            again.daemon = True
            again.start()
            return
        sys.__unraisablehook__(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        argv: The arguments without the program's name; the process's own when None.

    Returns:
        The exit code. Shell completion alone exits by itself.
    """
    _prepare_streams()
    gc.set_threshold(_RARELY)
    _Interrupts.listen()
    try:
        code = _run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
    except (BrokenPipeError, OutputClosed):
        _drop_output()
        code = CLEAN
    except KeyboardInterrupt:
        code = _Interrupts.code()
    except (OutputFailed, OSError) as error:
        why = str(error if isinstance(error, OutputFailed) else error.strerror)
        code = say("the output cannot be written", why, "See whether the device is full.")
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        _drop_output()
    return code


def _run(args: list[str]) -> int:
    built: Any = typer.main.get_command(application())
    if _COMPLETE in os.environ:
        built.main(args=args, prog_name=PROGRAM)
    try:
        with built.make_context(PROGRAM, args) as ctx:
            built.invoke(ctx)
        return CLEAN
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return INTERRUPTED
    except Refused as refusal:
        return say(refusal.what, refusal.why, refusal.hint)
    except (OutputClosed, OutputFailed, BrokenPipeError):
        raise
    except Exception as error:
        return _Interrupts.code() if _Interrupts.came else _failed(error)


def _failed(error: Exception) -> int:
    if hasattr(error, "format_message") and hasattr(
        error, "show"
    ):  # the base of Typer's usage errors has moved
        told = io.StringIO()
        error.show(file=told)
        sys.stderr.write(redacted(told.getvalue() + _hint(error)))
        return USAGE
    from turnstate_backends.interface import StoreError

    if isinstance(error, StoreError):
        return say(error.what, error.why, error.hint)
    if os.environ.get(_DEBUG):
        import traceback

        sys.stderr.write(redacted("".join(traceback.format_exception(error))))
        return USAGE
    # Its text is not shown: a driver's may hold anything.
    kind = type(error).__name__
    return say(
        "this should not have happened", f"a defect in {PROGRAM}: {kind}", f"Set {_DEBUG}=1 to see where."
    )


def _hint(error: Any) -> str:
    """What to do about an option that is not known, or a name that is not given; empty where the message says it."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    if command is None:
        return ""
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        return _option_hint(error.option_name, command, like=bool(error.possibilities))
    missing = getattr(getattr(error, "param", None), "metavar", None)
    is_missing = type(error).__name__ == "MissingParameter"  # the class has moved, as its base has
    return f"{PROGRAM} {_LISTED_BY[missing]} lists them.\n" if is_missing and missing in _LISTED_BY else ""


def _option_hint(option: str, command: Any, *, like: bool) -> str:
    """It may be a name, what a name is called, or a verb's option before the verb."""
    if isinstance(command, _Verbs):
        if any(option in each.opts for verb in command.commands.values() for each in verb.params):
            return f"A command's options go after its name, as in: {PROGRAM} show THREAD KEY {option}\n"
        return ""
    names = [each.metavar for each in _arguments(command)]
    usage = f"as in: {PROGRAM} {command.name}"
    if option.removeprefix("--").upper() in names:
        return f"It is given without an option, {usage} {' '.join(names)}\n"
    slip = like and option.removeprefix("--").replace("-", "").isalpha()  # the option that was meant is told
    if slip or not names:
        return ""
    return f"A name that begins with - goes after --, {usage} -- {' '.join(names)}\n"


def _prepare_streams() -> None:
    """No text may fail to encode, and a stream that was closed must not be missing."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let what is still buffered go nowhere, so that Python's own flush at exit says nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
