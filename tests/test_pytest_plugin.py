"""The pytest plugin, as the distribution declares it, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from cli_run import FIXTURES, ROOT, environment, store

pytest_plugins = ("pytester",)

HOLDS = '[[expect]]\nthread = "demo"\nturns = 3\n'
FAILS = '[[expect]]\nname = "the plan"\nthread = "demo"\nkey = "plan"\nturn = 1\nequals = "look up"\n'
SILENT = "def test_nothing():\n    pass\n"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project in whose environment the plugin is installed by the entry point of pyproject.toml."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = pytester.mkdir("installed") / "turnstate_as_declared-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: turnstate-as-declared\nVersion: 0\n")
    lines = "".join(f"{name} = {module}\n" for name, module in declared.items())
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{lines}")
    monkeypatch.delenv("TURNSTATE_STORE", raising=False)
    others = {each.name for each in entry_points(group="pytest11")} - set(
        declared
    )  # slow to load, some of them
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in ("cacheprovider", *others)))
    path = environment()["PYTHONPATH"]
    monkeypatch.setenv("PYTHONPATH", f"{path}:{installed.parent}")
    pytester.makefile(".ini", pytest="[pytest]\n")
    return pytester


def write(project: pytest.Pytester, tables: str, name: str = "turnstate.toml") -> Path:
    path = project.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'store = "{store("demo")}"\n{tables}')
    return path


# Inert unless used.


@pytest.mark.parametrize("tables", ["", FAILS, "flawed = 1\n"])
def test_a_project_that_does_not_use_the_plugin_gains_no_test(project: pytest.Pytester, tables: str) -> None:
    write(project, tables)
    project.makepyfile(test_own=SILENT)
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_loading_the_plugin_loads_nothing_else() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import turnstate.pytest_plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["turnstate", "turnstate.pytest_plugin"]


@pytest.mark.parametrize("argv", [("--turnstate",), ("--turnstate-store", store("demo"))])
def test_a_file_that_names_only_a_store_is_no_test(project: pytest.Pytester, argv: tuple[str, ...]) -> None:
    write(project, "")
    project.makepyfile(test_own=SILENT)
    project.runpytest_subprocess(*argv).assert_outcomes(passed=1)


# Expectations as tests.


@pytest.mark.parametrize(
    "argv", [("turnstate.toml",), ("--turnstate",), ("--turnstate-store", store("demo"))]
)
def test_expectations_are_tests_where_the_run_says_so(
    project: pytest.Pytester, argv: tuple[str, ...]
) -> None:
    write(project, HOLDS + FAILS)
    project.runpytest_subprocess(*argv).assert_outcomes(passed=1, failed=1)


def test_the_ini_option_says_so_too_and_its_path_begins_at_the_root(project: pytest.Pytester) -> None:
    (project.path / "a.db").write_bytes((FIXTURES / "demo.db").read_bytes())
    project.makefile(".ini", pytest="[pytest]\nturnstate_store = a.db\n")
    (project.path / "turnstate-demo.toml").write_text(HOLDS)
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_failure_reads_like_that_of_the_command(project: pytest.Pytester) -> None:
    write(project, FAILS)
    result = project.runpytest_subprocess("turnstate.toml")
    result.stdout.fnmatch_lines(
        [
            "the plan",
            '  expected  equals "look up"',
            '  found     "look up the area"',
            "  turn 1 · checkpoint ????????-* · written in turn 1 by tool · written in 2 turns (1, 3)",
            "  turns that can be read: 1–3 of 3",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_items.py*")


def test_items_are_named_and_selected_by_name_and_equal_names_are_told_apart(
    project: pytest.Pytester,
) -> None:
    write(project, FAILS + FAILS + HOLDS)
    listed = project.runpytest_subprocess("--collect-only", "-q", "turnstate.toml")
    assert listed.outlines[:3] == [
        "turnstate.toml::the plan",
        "turnstate.toml::the plan (2)",
        "turnstate.toml::demo: turns",
    ]
    project.runpytest_subprocess("turnstate.toml", "-k", "plan").assert_outcomes(failed=2, deselected=1)


def test_a_flawed_file_is_an_error_with_its_line(project: pytest.Pytester) -> None:
    write(project, "[[expect]]\nthred = 1\n")
    result = project.runpytest_subprocess("turnstate.toml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["turnstate.toml:3:1: unknown name 'thred'. Did you mean thread[?]"])


def test_a_store_that_cannot_be_read_fails_each_expectation_and_says_why(project: pytest.Pytester) -> None:
    write(project, HOLDS)
    result = project.runpytest_subprocess("--turnstate-store", "nowhere.db")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"  cannot open {project.path}/nowhere.db: there is no such file"])


def test_a_store_of_each_file_is_read_beside_it(project: pytest.Pytester) -> None:
    for name in ("demo", "demo-pruned"):
        folder = project.mkdir(name)
        (folder / "a.db").write_bytes((FIXTURES / f"{name}.db").read_bytes())
        (folder / "turnstate.toml").write_text(
            'store = "a.db"\n[[expect]]\nthread = "demo"\nretained = [1, 2, 3]\n'
        )
    project.runpytest_subprocess("--turnstate").assert_outcomes(passed=1, failed=1)


# Fixtures.


def test_states_are_asserted_by_comparing_them(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        BBOX = "gazet/get_aoi/bbox"

        def test_values(assert_state, turnstate_store):
            assert assert_state("demo", BBOX, turn=1) == [12.4, 55.5, 12.7, 55.8]
            assert_state("demo", BBOX, turn=-1) == (9.9, 56.1, 10.3, 56.2)
            assert assert_state("demo", BBOX, turn=1) != [9.9, 56.1, 10.3, 56.2]
            assert_state("demo", BBOX, turn=1) == pytest.approx([12.41, 55.5, 12.7, 55.8], abs=0.1)
            assert_state("demo", BBOX, turn=1, tolerance=0.1) == [12.45, 55.5, 12.7, 55.8]
            assert_state("demo", BBOX, turn=3, at_start=True) == [12.4, 55.5, 12.7, 55.8]
            assert "area" in assert_state("demo", "plan")
            assert assert_state("demo", "plan").matches("^look")
            assert assert_state("demo", "messages", turn=1, query="length(@)") <= 2
            assert_state("demo", "messages", query="[-1].type") == "ai"
            state = assert_state("demo", "plan", turn=1)
            assert (state.outcome, state.value) == ("value", "look up the area")
            assert (state.written_in, state.written_by) == ((1, 3), "tool")
            assert assert_state("demo", "plan", turn=7).outcome == "no_such_turn"
            assert assert_state("other", "plan").outcome == "no_such_thread"
            assert turnstate_store.endswith("demo.db")
        """
    )
    project.runpytest_subprocess("--turnstate-store", store("demo")).assert_outcomes(passed=1)


def test_a_state_that_differs_says_what_was_expected_and_found_and_where(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_area(assert_state):
            assert_state("demo", "gazet/get_aoi/bbox", turn=1) == [12.4, 55.5, 12.7, 99.9]
        """
    )
    result = project.runpytest_subprocess("--turnstate-store", store("demo"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>       assert_state("demo", "gazet/get_aoi/bbox", turn=1) == [[]12.4, 55.5, 12.7, 99.9[]]',
            "E *demo gazet/get_aoi/bbox turn 1: equals",
            "E *expected  equals [[]12.4, 55.5, 12.7, 99.9[]]",
            "E *found     [[]12.4, 55.5, 12.7, 55.8[]]",
            "E *| ~ $[[]3[]]  99.9 → 55.8",
            "E *turn 1 · checkpoint ????????-*",
            "E *turns that can be read: 1–3 of 3",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_items.py*def *")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('assert_state("demo", "plan", turn=7) == "x"', "found     no_such_turn: the thread has had 3 turns"),
        ('assert_state("demo", "plan", turn=7) != "x"', "found     no_such_turn: the thread has had 3 turns"),
        ('assert_state("demo", "plan").matches("^up")', 'expected  matches "^up"'),
        ('assert 3 in assert_state("demo", "plan")', "expected  contains 3"),
        ('assert_state("demo", "plan", query="length(@)") == 1.0', "expected  equals 1.0"),
        ('assert_state("demo", "plan") == object', "<class 'object'>"),
        ('assert_state("demo", "plans").value', "found     no_such_key: *nearest: plan"),
        ('assert assert_state("demo", "plan")', "nothing is compared: write assert_state(…) == value*"),
        ('assert_state("demo", "plan", branch="1")', "'1' is the beginning of 12 checkpoints: *"),
        ('assert_state("demo", "plan", messages="m")', "thread 'demo' has no channel 'm': *"),
    ],
)
def test_whatever_does_not_hold_fails_and_says_why(project: pytest.Pytester, line: str, words: str) -> None:
    project.makepyfile(f"def test_it(assert_state):\n    {line}\n")
    result = project.runpytest_subprocess("--turnstate-store", store("demo"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{words}"])


def test_a_test_names_the_store_that_it_has_just_written_and_sees_each_write(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        f"""
        import pytest, shutil

        @pytest.fixture
        def turnstate_store(tmp_path):
            shutil.copy({store("demo")!r}, tmp_path / "agent.db")
            return tmp_path / "agent.db"

        def test_it(assert_state, turnstate_store):
            assert_state("demo", "plan", turn=1) == "look up the area"
            shutil.copy({store("demo-pruned")!r}, turnstate_store)
            assert assert_state("demo", "plan", turn=1).outcome == "turn_no_longer_retained"
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_without_a_store_the_fixture_says_how_to_give_one(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(turnstate_store):\n    pass\n")
    result = project.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["Give --turnstate-store, or override turnstate_store."])
