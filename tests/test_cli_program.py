"""The program as a whole: exit codes, pipes, errors, which store, completion, and what it leaves behind."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cli_run import FIXTURES, command, environment, run, run_in_terminal, run_process, store
from recorded import record_to_postgres
from turnstate.commands.app import application
from turnstate.commands.exits import BY_OUTCOME

VERBS = (
    "threads",
    "turns",
    "keys",
    "show",
    "log",
    "diff",
    "gaps",
    "branches",
    "check",
    "record",
    "report",
    "serve",
    "mcp",
)


def test_a_bare_call_is_a_usage_error_with_help() -> None:
    result = run_process()
    assert result.code == 2
    assert "Usage: turnstate" in result.out + result.err


@pytest.mark.parametrize("argv", [(), *((verb,) for verb in VERBS)])
def test_help_has_two_names_and_begins_with_examples(argv: tuple[str, ...]) -> None:
    result = run(*argv, "--help")
    assert result == run(*argv, "-h")
    assert (result.code, result.err) == (0, "")
    lines = [line.strip() for line in result.out.splitlines() if line.strip()]
    assert lines[0].startswith("Usage: turnstate")
    assert lines[2] == "Examples:"
    assert lines[3].startswith("turnstate ")
    assert max(map(len, result.out.splitlines())) <= 80


def test_every_parameter_has_help_and_every_verb_a_summary() -> None:
    import typer

    built = typer.main.get_command(application())
    verbs = built.commands  # type: ignore[attr-defined]
    assert sorted(verbs) == sorted(VERBS)
    for verb in verbs.values():
        assert verb.short_help
        assert not verb.short_help.endswith(".")
        assert [p.name for p in verb.params if not p.help] == []


def test_the_version_is_the_distributions() -> None:
    from importlib.metadata import version

    assert run("--version").out == f"turnstate {version('turnstate')}\n"


def test_usage_and_arguments_are_written_as_manuals_have_them_and_without_types() -> None:
    page = run("record", "--help").out
    assert page.startswith("Usage: turnstate record [OPTIONS] [THREAD]...\n")
    assert "\n  THREAD  Ids of threads" in page
    assert run("show", "--help").out.startswith("Usage: turnstate show [OPTIONS] THREAD KEY\n")


def test_a_verbs_option_before_the_verb_is_told_where_it_goes() -> None:
    result = run("--json", "show", "demo", "plan")
    assert result.code == 2
    assert result.err.endswith("go after its name, as in: turnstate show THREAD KEY --json\n")
    assert "go after" not in run("--jason", "show", "demo", "plan").err


def test_a_slip_of_an_option_is_told_with_the_option_alone() -> None:
    said = run("show", "demo", "plan", "--trun", "1").err.splitlines()[-1]
    assert said == "Error: No such option: --trun (Possible options: --store, --turn, --turns-by)"


def test_what_a_verb_takes_as_an_argument_is_no_option_and_told_so() -> None:
    for argv in (("show", "--thread", "demo"), ("show", "demo", "--key", "plan")):
        assert run(*argv).err.endswith("without an option, as in: turnstate show THREAD KEY\n")


def test_a_name_that_is_not_given_is_told_with_what_lists_them() -> None:
    assert run("turns").err.splitlines()[-2:] == [
        "Error: Missing argument 'THREAD'.",
        "turnstate threads lists them.",
    ]
    assert run("show", "demo").err.endswith("'KEY'.\nturnstate keys THREAD lists them.\n")


def test_help_is_not_coloured_in_automation() -> None:
    assert "\x1b" not in run_process("--help", env={"GITHUB_ACTIONS": "true"}).out


def test_every_outcome_has_an_exit_code() -> None:
    assert dict(BY_OUTCOME) == {
        "value": 0,
        "no_such_thread": 4,
        "no_such_turn": 4,
        "no_such_key": 4,
        "not_yet_written": 4,
        "removed": 4,
        "turn_no_longer_retained": 5,
        "value_missing": 6,
        "encrypted": 6,
        "undecodable": 6,
        "delta_unresolved": 6,
    }


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("show", "demo", "plan"), 0),
        (("show", "demo", "nothing"), 4),
        (("show", "demo", "plan", "--turn", "0"), 4),
        (("show",), 2),
        (("nothing",), 2),
    ],
)
def test_a_process_ends_with_the_exit_code_of_its_outcome(argv: tuple[str, ...], code: int) -> None:
    assert run_process(*argv, env={"TURNSTATE_STORE": store("demo")}).code == code


def test_an_encrypted_value_is_exit_6() -> None:
    result = run("show", "encrypted", "plan", "--json", "--store", store("encrypted"))
    assert (result.code, result.document["outcome"]) == (6, "encrypted")
    assert result.document["stored"]["type"] == "msgpack+aes"
    keys = run("keys", "encrypted", "--store", store("encrypted"))
    assert (keys.code, keys.out) == (6, "")


# Which store.


def test_the_store_may_stand_before_or_after_the_verb() -> None:
    after = run("threads", "--json", "--store", store("demo"))
    assert run("--store", store("demo"), "threads", "--json") == after
    assert run("--store", store("nodes"), "threads", "--json", "--store", store("demo")) == after


def test_option_environment_and_file_are_asked_in_that_order(tmp_path: Path) -> None:
    (tmp_path / "turnstate.toml").write_text(f'store = "{store("nodes")}"\n')

    def first(*argv: str, env: dict[str, str]) -> str:
        return str(run("threads", "--jsonl", *argv, env=env, cwd=tmp_path).documents[0]["thread"])

    assert first("--store", store("several"), env={"TURNSTATE_STORE": store("demo")}) == "greeted"
    assert first(env={"TURNSTATE_STORE": store("demo")}) == "demo"
    assert first(env={"TURNSTATE_STORE": ""}) == "named-user"


def test_a_relative_path_in_a_file_starts_at_that_file(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "agent.db").write_bytes((FIXTURES / "demo.db").read_bytes())
    (tmp_path / "pyproject.toml").write_text('[tool.turnstate]\nstore = "agent.db"\n')
    (inner / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert run("threads", "--jsonl", cwd=inner).documents[0]["thread"] == "demo"
    (tmp_path / "turnstate.toml").write_text('store = "sqlite:///agent.db"\n')
    assert run("threads", "--jsonl", cwd=inner).documents[0]["thread"] == "demo"


@pytest.mark.parametrize("text", ["store = ", "store = 3"])
def test_a_broken_configuration_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "turnstate.toml").write_text(text)
    result = run("threads", cwd=tmp_path)
    assert result.code == 2
    assert "turnstate.toml" in result.err.splitlines()[0]


def test_no_store_says_how_to_give_one(tmp_path: Path) -> None:
    result = run("threads", cwd=tmp_path)
    assert (result.code, result.out) == (2, "")
    what, why, hint = result.err.splitlines()
    assert what == "turnstate: no store is given"
    assert "TURNSTATE_STORE" in why
    assert "--store" in hint


@pytest.mark.parametrize("verb", [("threads",), ("turns", "t"), ("keys", "t"), ("show", "t", "k")])
def test_a_store_that_cannot_be_opened_is_three_lines_and_exit_2(
    verb: tuple[str, ...], tmp_path: Path
) -> None:
    missing = tmp_path / "missing.db"
    result = run(*verb, "--json", "--store", str(missing))
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 3
    assert not missing.exists()


def test_a_password_is_in_no_message_not_even_a_traceback() -> None:
    for env in ({}, {"TURNSTATE_DEBUG": "1"}):
        result = run("threads", "--store", "postgresql://u:s3cr%40t@127.0.0.1:1/db", env=env)
        assert result.code == 2
        assert "s3cr" not in result.err + result.out


@pytest.mark.parametrize(
    "argv",
    [
        ("postgresql://u:s3cr@t@h/db", "threads"),
        ("turns", "demo", "postgresql://u:s3cr@t@h/db"),
        ("turns", "postgresql://u:s3cr@t@h/db"),
        ("threads", "--limit", "postgresql://u:s3cr@t@h/db"),
    ],
)
def test_an_address_in_the_wrong_place_is_repeated_without_its_password(argv: tuple[str, ...]) -> None:
    result = run(*argv, env={"TURNSTATE_STORE": store("demo")})
    assert result.code in (2, 4)
    assert "postgresql://u:***@h/db" in result.err
    assert "s3cr" not in result.err


@pytest.mark.parametrize("argv", [("show", "t", "-b"), ("log", "t", "--b/c"), ("diff", "-t"), ("gaps", "-t")])
def test_a_name_that_begins_with_a_dash_is_hinted_to_go_after_two(argv: tuple[str, ...]) -> None:
    result = run(*argv)
    assert result.code == 2
    assert f"A name that begins with - goes after --, as in: turnstate {argv[0]} -- THREAD" in result.err
    assert "no_such_thread" in run("log", "--store", store("demo"), "--", "-t", "-b").err
    assert "goes after --" not in run("--b").err


def test_a_defect_shows_its_traceback_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import turnstate_backends.stores

    def broken(text: str, **options: object) -> None:
        raise KeyError("s3cret")

    monkeypatch.setattr(turnstate_backends.stores, "open_store", broken)
    url = "postgresql://u:s3cret@h/db"
    short = run("threads", "--store", url)
    assert (short.code, len(short.err.splitlines())) == (2, 3)
    assert "s3cret" not in short.err
    long = run("threads", "--store", url, env={"TURNSTATE_DEBUG": "1"})
    assert long.code == 2
    assert "KeyError" in long.err
    assert "s3cret" not in long.err


# Nothing is left behind.


@pytest.mark.parametrize(
    "argv",
    [
        ("threads", "--turns"),
        ("turns", "demo"),
        ("keys", "demo"),
        ("show", "demo", "plan"),
        ("show", "demo", "*", "--json"),
        ("show", "demo", "nothing"),
        ("show", "nobody", "plan"),
    ],
)
def test_the_store_is_untouched_by_every_command(argv: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.write_bytes((FIXTURES / "demo.db").read_bytes())
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    run(*argv, "--store", str(path))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [each.name for each in tmp_path.iterdir()] == ["agent.db"]


# Pipes, signals, streams.


def piped_to_nobody(*argv: str) -> tuple[int, bytes]:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(command(*argv), env=environment(), stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.parametrize(
    "argv",
    [
        ("--help",),
        ("threads", "--store", store("demo")),
        ("show", "demo", "messages", "--json", "--store", store("demo")),
    ],
)
def test_a_closed_pipe_ends_quietly(argv: tuple[str, ...]) -> None:
    code, err = piped_to_nobody(*argv)
    assert code == 0
    assert b"Traceback" not in err
    assert b"Broken" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_an_error_and_not_a_finding() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            command("threads", "--store", store("demo")),
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[0] == "turnstate: the output cannot be written"


def test_an_interrupt_is_exit_130(monkeypatch: pytest.MonkeyPatch) -> None:
    import turnstate_backends.stores

    def interrupted(text: str, **options: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(turnstate_backends.stores, "open_store", interrupted)
    result = run("threads", "--store", store("demo"))
    assert (result.code, result.out, result.err) == (130, "", "")


def test_text_that_the_terminal_cannot_encode_does_not_stop_the_output() -> None:
    result = run_process("turns", "greeted", "--store", store("several"), env={"PYTHONIOENCODING": "ascii"})
    assert result.code == 0
    assert "\\u23ce" in result.out


@pytest.mark.parametrize("form", [(), ("--json",), ("--jsonl",)])
@pytest.mark.parametrize("verb", ["threads", "turns", "keys", "show"])
def test_hostile_text_in_a_store_reaches_no_terminal(
    verb: str, form: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "hostile.db"
    path.write_bytes((FIXTURES / "demo.db").read_bytes())
    hostile = "\x1b]0;x\x07[red]\u202e\x9b2J"
    with sqlite3.connect(path) as connection:
        for table in ("checkpoints", "writes"):
            connection.execute(f"UPDATE {table} SET thread_id = ?", (hostile,))
    connection.close()
    argv = {"threads": (), "show": (hostile, "[pm]*")}.get(verb, (hostile,))
    result = run(verb, *argv, *form, "--store", str(path))
    assert result.code == 0
    for stream in (result.out, result.err):
        assert not any(c in stream for c in "\x1b\x07\x9b\u202e")
    if form == ("--json",) and verb != "threads":
        assert result.document["thread"] == hostile
    missed = run("turns", hostile + "x", "--store", str(path))
    assert missed.code == 4
    assert not any(c in missed.err for c in "\x1b\x07\x9b\u202e")


def test_colour_is_for_terminals_and_for_those_who_ask() -> None:
    argv = ("turns", "demo", "--store", store("demo"))
    assert "\x1b[" in run_in_terminal(*argv, columns=100)
    assert "\x1b[" not in run_in_terminal(*argv, columns=100, env={"NO_COLOR": "1"})
    assert "\x1b[" not in run_in_terminal(*argv, columns=100, env={"TERM": "dumb"})
    assert "\x1b[" not in run(*argv).out
    assert "\x1b[" in run(*argv, "--color", "always").out
    assert "\x1b[" in run(*argv, env={"FORCE_COLOR": "1"}).out
    assert "\x1b[" not in run(*argv, env={"FORCE_COLOR": "0"}).out


# Completion.


def completed(line: str, **env: str) -> list[str]:
    words = line.split(" ")
    result = run_process(
        env={
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "_TURNSTATE_COMPLETE": "complete_bash",
            **env,
        }
    )
    assert result.err == ""
    return result.out.split()


def test_threads_and_keys_are_completed_from_the_store() -> None:
    assert completed("turnstate turns d", TURNSTATE_STORE=store("demo")) == ["demo"]
    assert completed(f"turnstate --store {store('nodes')} turns s") == ["sub-agent"]
    assert completed(f"turnstate show --store {store('demo')} demo g") == ["gazet/get_aoi/bbox"]


def test_what_a_shell_would_not_take_as_one_plain_word_is_not_offered(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    shutil.copy(store("demo"), path)
    hostile = [
        "x; touch y",
        "x$(touch y)",
        "x`touch y`",
        "it's",
        "two words",
        "-x",
        "~x",
        "=x",
        "x\ny",
        "x*",
        "x\x1b[31m",
    ]
    with closing(sqlite3.connect(path)) as connection:
        for name in [*hostile, "x:1/a.b@c"]:
            connection.execute(
                "INSERT INTO checkpoints SELECT ?, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,"
                " checkpoint, metadata FROM checkpoints WHERE thread_id = 'demo'",
                [name],
            )
        connection.commit()
    assert completed("turnstate turns ", TURNSTATE_STORE=str(path)) == ["demo", "x:1/a.b@c"]


def test_completion_runs_no_saver(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from pathlib import Path\nPath('mark').touch()\nsaver = None\n")
    assert completed("turnstate turns ", TURNSTATE_STORE="saver:mine:saver", PYTHONPATH=str(tmp_path)) == []
    assert not (tmp_path / "mark").exists()
    assert not Path("mark").exists()


def test_completion_is_silent_without_a_store(tmp_path: Path) -> None:
    assert completed("turnstate turns ", TURNSTATE_STORE=str(tmp_path / "missing.db")) == []


# Start.


def test_help_loads_no_driver_no_codec_and_no_table() -> None:
    heavy = (
        "langgraph",
        "langchain_core",
        "psycopg",
        "apsw",
        "ormsgpack",
        "msgpack",
        "jmespath",
        "rich",
        "pydantic",
    )
    code = (
        "import sys\nfrom turnstate.commands.app import main\n"
        "assert main(['show', '--help']) == 0\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


def test_a_read_loads_only_its_own_backend() -> None:
    heavy = ("langgraph", "langchain_core", "psycopg", "jmespath", "rich", "pydantic")
    code = (
        "import sys\nfrom turnstate.commands.app import main\n"
        f"assert main(['show', 'demo', 'plan', '--json', '--store', {store('demo')!r}]) == 0\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


# The other backend.


def test_a_postgresql_store_answers_like_a_file(pg_dsn: str) -> None:
    truth = record_to_postgres("demo", pg_dsn).threads["demo"]
    shown = run("show", "demo", "gazet/get_aoi/bbox", "--turn", "1", "--store", pg_dsn)
    assert (shown.code, shown.out) == (0, "[12.4, 55.5, 12.7, 55.8]\n")
    assert shown.err == (
        f"turn 1 · checkpoint {truth.turn(1).last_checkpoint} · written in turn 1 by tool · written in 2 turns (1, 3)\n"
    )
    turns = run("turns", "demo", "--json", "--store", pg_dsn).document["turns"]
    assert [turn["last_checkpoint"] for turn in turns] == [
        turn.last_checkpoint for turn in truth.turns if turn.turn
    ]
    keys = run("keys", "demo", "--json", "--schema", "public", "--store", pg_dsn).document["keys"]
    assert {key["key"]: key["turns_written"] for key in keys} == {
        "gazet/get_aoi/bbox": [1, 3],
        "messages": [1, 2, 3],
        "plan": [1, 3],
    }
    assert [t["thread"] for t in run("threads", "--json", "--store", pg_dsn).document] == ["demo"]
