"""``turnstate check``: what holds, what does not, and what cannot be told; accepting and drafting."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from cli_run import FIXTURES, Result, run, store
from recorded import recording

BBOX = "gazet/get_aoi/bbox"


def checkpoint(name: str, turn: int, thread: str = "demo") -> str:
    return recording(name).threads[thread].turn(turn).last_checkpoint


def check(folder: Path, tables: str, *argv: str, name: str = "demo", env: Any = None) -> Result:
    """Check expectations against a recorded store."""
    (folder / "turnstate.toml").write_text(f'store = "{store(name)}"\n{tables}')
    return run("check", *argv, cwd=folder, env=env)


def verdict(folder: Path, table: str, name: str = "demo") -> str:
    """The status of one expectation, whose thread is the store's first unless named."""
    thread = "" if "thread" in table else 'thread = "demo"\n'
    result = check(folder, f"[[expect]]\n{thread}{table}\n", "--json", name=name)
    (only,) = result.document["results"]
    assert result.code == {"holds": 0, "fails": 1, "error": 2}[only["status"]]
    return str(only["status"])


# The bar.


def test_a_wrong_value_fails_and_names_the_expected_and_the_found_value_and_the_checkpoint(
    tmp_path: Path,
) -> None:
    table = f'[[expect]]\nthread = "demo"\nkey = "{BBOX}"\nturn = 1\nequals = [12.4, 55.5, 12.7, 99.9]\n'
    result = check(tmp_path, table)
    assert (result.code, result.err) == (1, "")
    assert result.out == (
        f"FAIL  turnstate.toml:2  demo {BBOX} turn 1: equals\n"
        "  expected  equals [12.4, 55.5, 12.7, 99.9]\n"
        "  found     [12.4, 55.5, 12.7, 55.8]\n"
        "    |   $[2]  12.7\n"
        "    | ~ $[3]  99.9 → 55.8\n"
        f"  turn 1 · checkpoint {checkpoint('demo', 1)} · written in turn 1 by tool · written in 2 turns (1, 3)\n"
        "1 expectation: 0 hold, 1 does not\n"
    )


def test_a_right_value_holds(tmp_path: Path) -> None:
    table = f'[[expect]]\nthread = "demo"\nkey = "{BBOX}"\nturn = 1\nequals = [12.4, 55.5, 12.7, 55.8]\n'
    result = check(tmp_path, table)
    assert (result.code, result.out) == (
        0,
        f"ok    turnstate.toml:2  demo {BBOX} turn 1: equals\n1 expectation: 1 holds\n",
    )


@pytest.mark.parametrize("bytes_", [None, b"", b"no database at all, and longer than a header" * 9])
def test_an_unreadable_store_cannot_be_told(tmp_path: Path, bytes_: bytes | None) -> None:
    if bytes_ is not None:
        (tmp_path / "a.db").write_bytes(bytes_)
    (tmp_path / "turnstate.toml").write_text('store = "a.db"\n[[expect]]\nthread = "demo"\nturns = 3\n')
    result = run("check", cwd=tmp_path)
    assert result.code == 2
    assert result.out.startswith("ERROR turnstate.toml:2  demo: turns\n  ")
    assert result.out.endswith("1 expectation: 0 hold, 1 cannot be told\n")
    assert (tmp_path / "a.db").exists() == (bytes_ is not None)


# Every condition, on the demonstration: three turns, turns 1 and 3 write plan and the area.


@pytest.mark.parametrize(
    ("holds", "fails"),
    [
        ('equals = "look up the area"', 'equals = "look up"'),
        ('not_equals = "look up"', 'not_equals = "look up the area"'),
        ('contains = "the area"', 'contains = "The area"'),
        ('contains = ["look", "area"]', 'contains = ["look", "bird"]'),
        ('matches = "up|down"', 'matches = "^up"'),
        ('less_than = "look v"', 'less_than = "look"'),
        ('at_least = "look up the area"', 'more_than = "look up the area"'),
        ('type = "str"', 'type = "list"'),
        ("absent = false", "absent = true"),
        ('outcome = "value"', 'outcome = "removed"'),
        ("written_in = [1, 3]", "written_in = [1]"),
        ('written_by = "tool"', 'written_by = "answer"'),
        ('equals = "look up the area"\ntype = "str"', 'equals = "look up the area"\ntype = "int"'),
        ("query = 'length(@)'\nequals = 16", "query = 'length(@)'\nequals = 16.0"),
        ("query = 'length(@)'\nat_most = 16", "query = 'length(@)'\nless_than = 16"),
        ("query = 'nothing'\ntype = 'null'", "query = 'nothing'\nequals = 'null'"),
        ("query = 'nothing'\nequals = {\"$type\" = 'null'}", "query = 'sum(@)'\nequals = 1"),
    ],
)
def test_a_condition_on_a_text(tmp_path: Path, holds: str, fails: str) -> None:
    where = 'key = "plan"\nturn = 1\n'
    assert (verdict(tmp_path, where + holds), verdict(tmp_path, where + fails)) == ("holds", "fails")


@pytest.mark.parametrize(
    ("holds", "fails"),
    [
        ("equals = [12.4, 55.5, 12.7, 55.8]", "equals = [12.4, 55.5, 12.7]"),
        (
            "tolerance = 0.1\nequals = [12.5, 55.4, 12.7, 55.8]",
            "tolerance = 0.1\nequals = [12.6, 55.5, 12.7, 55.8]",
        ),
        ("tolerance = 1\nequals = [12, 55, 13, 56]", "tolerance = 0\nequals = [12, 55, 13, 56]"),
        (
            "tolerance = 0.1\nnot_equals = [1, 1, 1, 1]",
            "tolerance = 0.1\nnot_equals = [12.4, 55.5, 12.7, 55.8]",
        ),
        ("contains = 55.5", "contains = 55"),
        ("contains = [12.7, 12.4]", "contains = [[12.4, 55.5]]"),
        ("query = '[0]'\nmore_than = 12", "query = '[0]'\nmore_than = '12'"),
        ("type = 'list'", "matches = '12'"),
    ],
)
def test_a_condition_on_a_list_of_numbers(tmp_path: Path, holds: str, fails: str) -> None:
    where = f'key = "{BBOX}"\nturn = 1\n'
    assert (verdict(tmp_path, where + holds), verdict(tmp_path, where + fails)) == ("holds", "fails")


@pytest.mark.parametrize(
    ("holds", "fails"),
    [
        ("contains = {content = 'Find the area of Copenhagen'}", "contains = {content = 'Find the area'}"),
        ("query = '[-1]'\ncontains = 'content'", "query = '[-1]'\ncontains = 'contents'"),
        ("query = '[0]'\ncontains = {type = 'human'}", "query = '[0]'\ncontains = {type = 'ai'}"),
        ("query = '[].type'\nequals = ['human', 'ai']", "query = '[].type'\nequals = ['ai', 'human']"),
    ],
)
def test_a_condition_on_messages(tmp_path: Path, holds: str, fails: str) -> None:
    where = 'key = "messages"\nturn = 1\n'
    assert (verdict(tmp_path, where + holds), verdict(tmp_path, where + fails)) == ("holds", "fails")


@pytest.mark.parametrize(
    ("key", "equals"),
    [
        ("day", "2026-01-02"),
        ("moment", "2026-01-02T03:04:05.000678Z"),
        ("identity", '{"$type" = "uuid.UUID", "$value" = "12345678-1234-5678-1234-567812345678"}'),
        ("members", '{"$type" = "builtins.set", "$value" = ["d", "a"]}'),
        ("raw", '{"$type" = "bytes", "$base64" = "AP8="}'),
        ("int(1)", '"one"'),
    ],
)
def test_a_value_that_is_no_plain_data_is_written_as_toml_has_it_or_with_its_type(
    tmp_path: Path, key: str, equals: str
) -> None:
    table = f'thread = "values"\nkey = "{key}"\nequals = '
    assert verdict(tmp_path, table + equals, "values") == "holds"
    assert verdict(tmp_path, table + '"another"', "values") == "fails"


@pytest.mark.parametrize("type_", ["pydantic.types.SecretStr", "SecretStr"])
def test_a_type_may_be_named_by_its_last_name(tmp_path: Path, type_: str) -> None:
    assert verdict(tmp_path, f'thread = "values"\nkey = "secret"\ntype = "{type_}"', "values") == "holds"


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    shown = run("show", "values", "secret", "--reveal", "--store", store("values")).out.strip()
    secret = shown.split('"')[1]
    result = check(tmp_path, '[[expect]]\nthread = "values"\nkey = "secret"\nequals = "x"\n', name="values")
    assert result.code == 1
    assert secret not in result.out + result.err


@pytest.mark.parametrize(
    ("where", "outcome"),
    [
        ('key = "plan"\nturn = 7', "no_such_turn"),
        ('key = "plans"', "no_such_key"),
        ('key = "plan"\nturn = 0', "not_yet_written"),
        ('thread = "other"\nkey = "plan"', "no_such_thread"),
    ],
)
def test_a_read_without_a_value_has_the_outcome_that_is_expected_and_meets_nothing_else(
    tmp_path: Path, where: str, outcome: str
) -> None:
    assert verdict(tmp_path, f'{where}\noutcome = "{outcome}"') == "holds"
    assert verdict(tmp_path, f'{where}\noutcome = "value"') == "fails"
    assert verdict(tmp_path, f'{where}\nnot_equals = "x"') == "fails"


@pytest.mark.parametrize(
    ("where", "status"),
    [
        ('key = "plans"', "holds"),
        ('key = "plan"\nturn = 0', "holds"),
        ('key = "plan"\nturn = 9', "fails"),
        ('thread = "other"\nkey = "plan"', "fails"),
    ],
)
def test_a_key_is_absent_where_the_turn_can_be_read_and_has_none(
    tmp_path: Path, where: str, status: str
) -> None:
    assert verdict(tmp_path, f"{where}\nabsent = true") == status


def test_a_pruned_turn_is_no_longer_retained_and_holds_nothing(tmp_path: Path) -> None:
    where = 'key = "plan"\nturn = 1\n'
    assert verdict(tmp_path, where + 'outcome = "turn_no_longer_retained"', "demo-pruned") == "holds"
    assert verdict(tmp_path, where + "absent = true", "demo-pruned") == "fails"
    result = check(tmp_path, f'[[expect]]\nthread = "demo"\n{where}equals = "x"\n', name="demo-pruned")
    assert "found     turn_no_longer_retained: turn 1 was pruned; turns that can be read" in result.out


@pytest.mark.parametrize(
    ("holds", "fails"),
    [
        ("turn = 1\nquestion = 'Find the area of Copenhagen'", "turn = 1\nquestion = 'Find the area'"),
        ("turn = -1\nquestion_matches = 'Aarhus'", "turn = 1\nquestion_matches = 'Aarhus'"),
        ("turn = 1\nstatus = 'complete'", "turn = 1\nstatus = 'error'"),
        ("turn = 3\nstatus = 'complete'", "turn = 4\nstatus = 'complete'"),
        ("turns = 3", "turns = 2"),
        ("retained = [1, 2, 3]", "retained = [2, 3]"),
        ("gaps = 0", "gaps = 1"),
        ("forks = 0", "forks = 1"),
        ("exists = true", "exists = false"),
        ("thread = 'other'\nexists = false", "thread = 'other'\nexists = true"),
        ("between = [1, 2]\nonly_changed = ['messages']", "between = [1, 3]\nonly_changed = ['messages']"),
        (
            "between = [1, 3]\nonly_changed = ['messages', 'plan', 'gazet/*']",
            "between = [1, 2]\nonly_changed = []",
        ),
        ("between = [1, 3]\nchanged = ['tool_state']", "between = [1, 3]\nchanged = ['plan', 'none']"),
        ("between = [1, 2]\nunchanged = ['plan', 'gazet/*']", "between = [1, 3]\nunchanged = ['plan']"),
        ("between = [-1, -1]\nonly_changed = []", "between = [1, 9]\nchanged = ['plan']"),
    ],
)
def test_a_condition_on_a_thread_a_turn_or_what_changed(tmp_path: Path, holds: str, fails: str) -> None:
    assert (verdict(tmp_path, holds), verdict(tmp_path, fails)) == ("holds", "fails")


def test_pruning_shows_as_gaps_and_as_turns_that_are_not_retained(tmp_path: Path) -> None:
    assert verdict(tmp_path, "gaps = 0", "demo-pruned") == "fails"
    assert verdict(tmp_path, "retained = [2, 3]", "demo-pruned") == "holds"
    assert verdict(tmp_path, "turns = 3", "demo-pruned") == "holds"


def test_forks_are_the_branches_beside_the_current_one(tmp_path: Path) -> None:
    listed = run("branches", "regenerated", "--json", "--store", store("forks")).document["branches"]
    assert [branch["current"] for branch in listed].count(False) == 1
    assert verdict(tmp_path, 'thread = "regenerated"\nforks = 1', "forks") == "holds"
    other = next(branch["tip"] for branch in listed if not branch["current"])
    assert verdict(tmp_path, f'thread = "regenerated"\nbranch = "{other}"\nexists = true', "forks") == "holds"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('thread = "regenerated"\nbranch = "1"\nturns = 1', "is the beginning of"),
        ('thread = "regenerated"\nmessages = "none"\nturns = 1', "has no channel"),
    ],
)
def test_what_does_not_say_which_line_or_channel_is_meant_cannot_be_told(
    tmp_path: Path, table: str, words: str
) -> None:
    result = check(tmp_path, f"[[expect]]\n{table}\n", name="forks")
    assert result.code == 2
    assert words in result.out


# Which files, which expectations, which store.

TWO = """
[[expect]]
name = "the first"
thread = "demo"
turns = 4
[[expect]]
thread = "demo"
key = "plan"
turn = 1
equals = "look up the area"
"""


def test_the_first_failure_can_be_the_last(tmp_path: Path) -> None:
    result = check(tmp_path, TWO, "--fail-fast")
    assert result.code == 1
    assert result.out.splitlines()[-2:] == [
        "-     turnstate.toml:7  demo plan turn 1: equals",
        "2 expectations: 0 hold, 1 does not, 1 not run",
    ]


@pytest.mark.parametrize(("text", "line"), [("FIRST", 3), ("plan", 7)])
def test_expectations_are_selected_by_a_part_of_their_names(tmp_path: Path, text: str, line: int) -> None:
    result = check(tmp_path, TWO, "-k", text, "--json")
    assert [each["line"] for each in result.document["results"]] == [line]


def test_a_selection_of_nothing_is_no_success(tmp_path: Path) -> None:
    result = check(tmp_path, TWO, "-k", "zebra")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("turnstate: no expectation is selected by -k 'zebra'\n")


def test_a_file_that_expects_nothing_is_no_success(tmp_path: Path) -> None:
    result = check(tmp_path, "")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("turnstate: nothing is expected\n  turnstate.toml: there is no [[expect]]\n")


def test_a_flawed_file_is_told_by_line_and_nothing_is_checked(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("\nexpected = 1\n")
    result = check(tmp_path, TWO, "turnstate.toml", "other.toml")
    assert (result.code, result.out) == (2, "")
    assert result.err == "other.toml:2:1: unknown name 'expected'\n  Did you mean expect?\n"


def test_the_file_is_found_in_a_folder_above_and_its_store_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes((FIXTURES / "demo.db").read_bytes())
    (tmp_path / "turnstate.toml").write_text('store = "a.db"\n[[expect]]\nthread = "demo"\nturns = 3\n')
    inner = tmp_path / "x" / "y"
    inner.mkdir(parents=True)
    result = run("check", cwd=inner)
    assert result.code == 0
    assert result.out == f"ok    {tmp_path}/turnstate.toml:2  demo: turns\n1 expectation: 1 holds\n"


def test_a_file_that_is_named_twice_is_checked_once(tmp_path: Path) -> None:
    result = check(tmp_path, TWO, "./turnstate.toml", "turnstate.toml", "--accept")
    assert result.code == 0
    assert (tmp_path / "turnstate.toml").read_text().endswith(TWO.replace("turns = 4", "turns = 3"))


def test_the_option_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    table = '[[expect]]\nthread = "demo"\nretained = [2, 3]\n'
    assert check(tmp_path, table).code == 1
    pruned = {"TURNSTATE_STORE": store("demo-pruned")}
    assert check(tmp_path, table, env=pruned).code == 0
    assert check(tmp_path, table, "--store", store("demo"), env=pruned).code == 1


def test_several_files_are_each_checked_against_their_own_store(tmp_path: Path) -> None:
    for name in ("demo", "demo-pruned"):
        (tmp_path / f"{name}.toml").write_text(
            f'store = "{store(name)}"\n[[expect]]\nthread = "demo"\nretained = [1, 2, 3]\n'
        )
    result = run("check", "demo.toml", "demo-pruned.toml", "--json", cwd=tmp_path)
    assert [each["status"] for each in result.document["results"]] == ["holds", "fails"]


@pytest.mark.parametrize(
    "argv",
    [
        ("--accept", "--init", "demo"),
        ("--accept", "--format", "junit"),
        ("--init", "demo", "--json"),
        ("--init", "demo", "turnstate.toml"),
        ("--to", "x"),
        ("--format", "xml"),
    ],
)
def test_options_that_make_no_sense_together_are_a_usage_error(tmp_path: Path, argv: tuple[str, ...]) -> None:
    result = check(tmp_path, TWO, *argv)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: turnstate check")


# Accepting.

DRIFTED = """
# what the agent does
[[expect]]   # the first
thread = "demo"
key = "gazet/get_aoi/bbox"
turn = 1
equals = [
  12.4,  # west
  55.0,  # south
  12.7, 55.8,
]  # end
written_in=[ 1 ]   # and 3?

  [[expect]]
  turns  =  2 # so far
  thread = 'demo'
[[expect]]
thread = "demo"
key = "plan"
turn = 1
[expect.equals]
a = 1
[[expect]]
thread = "demo"
key = "plan"
at_most = "a"
[[expect]]
thread = "demo"
key = "plan"
turn = 8
equals = "x"
"""


def test_accepting_writes_what_there_is_and_keeps_comments_order_and_layout(tmp_path: Path) -> None:
    result = check(tmp_path, DRIFTED, "--accept")
    text = (tmp_path / "turnstate.toml").read_text()
    assert text == f'store = "{store("demo")}"\n' + DRIFTED.replace("55.0", "55.5").replace(
        "[ 1 ]", "[1, 3]"
    ).replace("turns  =  2 #", "turns  =  3 #")
    assert result.code == 1
    assert result.out.startswith(
        f"accepted turnstate.toml:4  demo {BBOX} turn 1: equals, written_in\n"
        "  - equals [12.4, 55.0, 12.7, 55.8]\n"
        "  + equals [12.4, 55.5, 12.7, 55.8]\n"
    )
    assert result.err == (
        "turnstate.toml:18: equals stays, it does not stand in one place of the file\n"
        "turnstate.toml:24: at_most stays, at_most has no one value that would hold\n"
        "turnstate.toml:28: equals stays, there is no value\n"
    )


def test_what_was_accepted_holds(tmp_path: Path) -> None:
    wrong = (
        f'[[expect]]\nthread = "values"\nkey = "{key}"\nequals = "x"\ntype = "x"\n'
        for key in ("day", "moment", "members", "raw", "numbers", "model", "text", "amount", "nothing")
    )
    assert check(tmp_path, "".join(wrong), "--accept", name="values").code == 0
    result = run("check", cwd=tmp_path)
    assert (result.code, result.out.splitlines()[-1]) == (0, "9 expectations: 9 hold")


def test_a_secret_is_not_accepted(tmp_path: Path) -> None:
    table = '[[expect]]\nthread = "values"\nkey = "login"\nequals = 1\n'
    result = check(tmp_path, table, "--accept", name="values")
    assert result.code == 1
    assert result.err == "turnstate.toml:2: equals stays, it holds a secret, which is masked\n"
    assert (tmp_path / "turnstate.toml").read_text().endswith(table)


def test_accepting_keeps_line_ends_mode_and_link_and_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_bytes(
        f'store = "{store("demo")}"\r\n[[expect]]\r\nthread = "demo"\r\nturns = 1 # c\r\n'.encode()
    )
    real.chmod(0o640)
    (tmp_path / "turnstate.toml").symlink_to(real)
    assert run("check", "--accept", cwd=tmp_path).code == 0
    assert real.read_bytes().endswith(b'thread = "demo"\r\nturns = 3 # c\r\n')
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert (tmp_path / "turnstate.toml").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["real.toml", "turnstate.toml"]


def test_where_everything_holds_there_is_nothing_to_accept(tmp_path: Path) -> None:
    table = '[[expect]]\nthread = "demo"\nturns = 3\n'
    result = check(tmp_path, table, "--accept")
    assert (result.code, result.out, result.err) == (0, "", "every expectation holds; nothing to accept\n")


@pytest.fixture
def deep_store(tmp_path: Path) -> str:
    """A store whose thread ``deep`` holds a value nested as deep as LangGraph can store one."""
    value: Any = 1
    for level in range(120):
        value = {level: value} if level % 2 else [value]
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = {"deep": value}, {"deep": "1"}
    config: Any = {"configurable": {"thread_id": "deep", "checkpoint_ns": ""}}
    with SqliteSaver.from_conn_string(str(tmp_path / "deep.db")) as saver:
        saver.put(config, checkpoint, {"source": "input", "step": -1, "parents": {}}, {"deep": "1"})
    return str(tmp_path / "deep.db")


@pytest.mark.parametrize(
    "argv",
    [(), ("--accept",), *(("--format", form) for form in ("json", "junit", "github", "tap", "markdown"))],
)
@pytest.mark.parametrize("condition", ["equals = 1", "contains = 'b'", "query = '@'\nequals = []"])
def test_the_deepest_value_can_be_held_against_anything(
    tmp_path: Path, deep_store: str, argv: tuple[str, ...], condition: str
) -> None:
    table = f'[[expect]]\nthread = "deep"\nkey = "deep"\n{condition}\n'
    result = check(tmp_path, table, *argv, "--store", deep_store)
    assert (result.code, "should not have happened" in result.err) == (1, False)


def test_the_deepest_value_is_neither_accepted_nor_drafted(tmp_path: Path, deep_store: str) -> None:
    table = '[[expect]]\nthread = "deep"\nkey = "deep"\nequals = 1\n'
    result = check(tmp_path, table, "--accept", "--store", deep_store)
    assert result.err == "turnstate.toml:2: equals stays, it is nested too deeply\n"
    drafted = run("check", "--init", "deep", "--store", deep_store).out
    assert "equals" not in drafted


# Drafting.


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*.db")))
def test_a_draft_of_any_recorded_thread_holds(tmp_path: Path, name: str) -> None:
    threads = run("threads", "--jsonl", "--limit", "4", "--store", store(name)).documents
    assert threads
    for number, thread in enumerate(threads):
        if not thread.get("head"):
            continue
        draft = tmp_path / f"turnstate-{number}.toml"
        drafted = run("check", "--init", thread["thread"], "--to", str(draft), "--store", store(name))
        assert (drafted.code, drafted.out) == (0, "")
        result = run("check", draft.name, cwd=tmp_path)
        assert result.code == 0, result.out


def test_a_draft_has_turns_questions_short_values_and_who_wrote_them(tmp_path: Path) -> None:
    draft = run("check", "--init", "demo", "--store", store("demo")).out
    assert draft.startswith('# Drafted from thread "demo" as it was recorded. Leave out what may change.\n')
    tables = draft.split("\n\n")
    assert tables[1] == '[[expect]]\nthread = "demo"\nturns = 3\nretained = [1, 2, 3]\ngaps = 0\nforks = 0'
    assert tables[2] == (
        '[[expect]]\nthread = "demo"\nturn = 1\nquestion = "Find the area of Copenhagen"\nstatus = "complete"'
    )
    assert tables[-1] == (
        f'[[expect]]\nthread = "demo"\nkey = "{BBOX}"\nturn = 3\nequals = [9.9, 56.1, 10.3, 56.2]\n'
        'written_by = "tool"\nwritten_in = [1, 3]\n'
    )


def test_a_draft_replaces_no_file(tmp_path: Path) -> None:
    (tmp_path / "turnstate.toml").write_text("# mine\n")
    result = run("check", "--init", "demo", "--to", "turnstate.toml", "--store", store("demo"), cwd=tmp_path)
    assert result.code == 2
    assert result.err.startswith("turnstate: turnstate.toml is there already\n")
    assert (tmp_path / "turnstate.toml").read_text() == "# mine\n"


def test_a_draft_of_a_thread_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    result = run("check", "--init", "dem", "--store", store("demo"), cwd=tmp_path)
    assert (result.code, result.out) == (2, "")
    assert "nearest: demo" in result.err


def test_a_draft_names_the_store_by_its_way_from_the_draft(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes((FIXTURES / "demo.db").read_bytes())
    (tmp_path / "checks").mkdir()
    run("check", "--init", "demo", "--to", "checks/turnstate.toml", "--store", "a.db", cwd=tmp_path)
    assert 'store = "../a.db"\n' in (tmp_path / "checks" / "turnstate.toml").read_text()
    assert run("check", cwd=tmp_path / "checks").code == 0
