"""Files of expectations: where their names stand, what is wrong with them, and their schema for editors."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from cli_run import run
from turnstate.checking.expectations import FileFlawed, parse_file
from turnstate.checking.forms import expected_form
from turnstate.checking.schema import schema
from turnstate.checking.spots import spots_in
from turnstate.checking.writing import Unwritable, toml_text, writable

ODD = (
    r"""# an odd one
store = 'a.db'   # where
 "ex pect" . b . 'c' = 1
[[expect]]
thread = "" + ""
""".replace('"" + ""', '"""a ""\\" # [x]\n"""')
    + """\
equals = [ 1, # one, ]
  {a=1, b . c = "x]"}, '''it's''''', 1979-05-27 07:32:00 , [[]],]
[expect.more]
\tx = inf
  [[ expect ]]   # second
key=1
[[expect.deep]]
a=1
  [[expect."deep"]]
a=+2.5e3
"""
)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(item, (*path, name))


def test_every_name_and_item_of_an_oddly_written_file_has_its_spot() -> None:
    spots = spots_in(ODD)
    assert set(spots) == set(paths(tomllib.loads(ODD)))
    where = {path: (spot.line, spot.column, ODD[spot.start : spot.stop]) for path, spot in spots.items()}
    assert where["store",] == (2, 1, "'a.db'")
    assert where["ex pect", "b", "c"] == (3, 2, "1")
    assert where["expect", 0] == (4, 1, "")
    assert where["expect", 0, "equals", 1, "b", "c"] == (8, 9, '"x]"')
    assert where["expect", 0, "equals", 2] == (8, 24, "'''it's'''''")
    assert where["expect", 0, "equals", 3] == (8, 38, "1979-05-27 07:32:00")
    assert where["expect", 0, "more", "x"] == (10, 2, "inf")
    assert where["expect", 1] == (11, 3, "")
    assert where["expect", 1, "deep", 1, "a"] == (16, 1, "+2.5e3")


def test_spots_count_lines_that_end_as_on_windows() -> None:
    spots = spots_in('a = 1\r\n[[expect]]\r\nb = """\r\nx"""\r\nc = 2\r\n')
    assert [(spots[path].line, spots[path].column) for path in (("expect", 0, "b"), ("expect", 0, "c"))] == [
        (3, 1),
        (5, 1),
    ]


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.datetimes()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(VALUES)
def test_a_value_reads_back_as_it_was_written(value: Any) -> None:
    form = expected_form(value)
    text = toml_text(writable(form))
    assert text.isprintable()
    again = expected_form(tomllib.loads(f"v = {text}")["v"])
    assert json.dumps(again, sort_keys=True) == json.dumps(form, sort_keys=True)


@given(st.dictionaries(st.text(), VALUES.filter(lambda value: value is not None), max_size=4))
def test_spots_are_those_of_what_a_parser_reads_whatever_is_written(top: dict[str, Any]) -> None:
    def no_nulls(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: no_nulls(item) for name, item in value.items() if item is not None}
        return [no_nulls(item) for item in value if item is not None] if isinstance(value, list) else value

    text = tomlkit.dumps(no_nulls(top))
    assert set(spots_in(text)) == set(paths(tomllib.loads(text)))


@pytest.mark.parametrize(
    "form",
    [
        {"$type": "pydantic.types.SecretStr", "$value": "**********", "$masked": True},
        [{"deep": {"$type": "pydantic.types.SecretStr", "$value": "**********", "$masked": True}}],
        "lone \ud800",
    ],
)
def test_a_secret_and_text_that_no_file_holds_cannot_be_written(form: Any) -> None:
    with pytest.raises(Unwritable):
        toml_text(writable(form))


FLAWED = {
    "a name of the file": ('stor = "a.db"', "1:1: unknown name 'stor'", "Did you mean store?"),
    "a name": (
        '[[expect]]\nthread = "t"\nkey = "k"\n  equal = 1',
        "4:3: unknown name 'equal'",
        "Did you mean equals?",
    ),
    "a name like none": (
        '[[expect]]\nthread = "t"\nturns = 1\nzzz = 1',
        "4:1: unknown name 'zzz'",
        "What an expectation of a thread has: name, thread, ns, branch, messages, turns_by, "
        "turns, retained, gaps, forks, exists.",
    ),
    "a name of another kind": (
        '[[expect]]\nthread = "t"\nturns = 1\nstatus = "error"',
        "4:1: status is nothing to expect of a thread",
        "It belongs to a turn (turn = …); this table is about a thread.",
    ),
    "two subjects": (
        '[[expect]]\nthread = "t"\nkey = "k"\nbetween = [1, 2]\nequals = 1',
        "4:1: between is nothing to expect of a key",
        "It belongs to what changed (between = …); this table is about a key, as it has key.",
    ),
    "a type": (
        '[[expect]]\nthread = "t"\nturns = "3"',
        "3:1: turns is not a whole number from 0",
        "Give a whole number from 0: how many turns it has had.",
    ),
    "a number that is true": (
        '[[expect]]\nthread = "t"\nkey = "k"\nequals = 1\ntolerance = true',
        "5:1: tolerance is not a number from 0",
        "Give a number from 0: how far numbers may lie apart and be equal.",
    ),
    "a choice": (
        '[[expect]]\nthread = "t"\nkey = "k"\noutcome = "no_such_turns"',
        "4:1: outcome: there is no 'no_such_turns'",
        "Did you mean no_such_turn?",
    ),
    "a pattern": (
        '[[expect]]\nthread = "t"\nkey = "k"\nmatches = "("',
        "4:1: matches: no regular expression: missing ), unterminated subpattern at position 0",
        "Give a regular expression: the text has a part that matches; ^ and $ for the whole.",
    ),
    "a modifier alone": (
        '[[expect]]\nthread = "t"\nkey = "k"\nat_most = 1\ntolerance = 1',
        "5:1: tolerance stands alone",
        "It goes with equals or not_equals.",
    ),
    "a slip of thread, once": (
        '\n[[expect]]\nthraed = "demo"\nturns = 1',
        "3:1: unknown name 'thraed'",
        "Did you mean thread?",
    ),
    "no thread": ("\n [[expect]]\nturns = 1", "2:2: no thread is named", 'Write thread = "ID".'),
    "no condition": (
        '[[expect]]\nthread = "t"\nbetween = [1, 2]',
        "1:1: nothing is expected",
        "Of what changed it can be: changed, only_changed, unchanged.",
    ),
    "no table": (
        "expect = [1]",
        "1:1: expect is no array of tables",
        "Begin each expectation with [[expect]].",
    ),
    "the store": ("store = 1\n", "1:1: store is no text", 'Write store = "agent.db".'),
    "the syntax": (
        "a = 1\nb = ",
        "2:5: no TOML: Invalid value",
        "See https://toml.io for how TOML is written.",
    ),
    "the encoding": ("a = '\udcff'", "1:6: the file is no UTF-8", "Save the file as UTF-8."),
    "a byte order mark": (
        "\ufeffa = 1",
        "1:1: the file begins with a byte order mark",
        "Save it as UTF-8 without one; TOML has none.",
    ),
}


@pytest.mark.parametrize(("text", "what", "hint"), FLAWED.values(), ids=FLAWED)
def test_whatever_is_wrong_with_a_file_is_told_with_its_line_and_what_to_do(
    text: str, what: str, hint: str
) -> None:
    with pytest.raises(FileFlawed) as error:
        parse_file("f.toml", text.encode(errors="surrogateescape"))
    told = [(f"{each.line}:{each.column}: {each.what}", each.hint) for each in error.value.problems]
    assert told == [(what, hint)]


def test_a_query_that_cannot_be_read_is_told_at_its_line() -> None:
    with pytest.raises(FileFlawed) as error:
        parse_file("f.toml", b'[[expect]]\nthread="t"\nkey="k"\nequals=1\nquery="a b"')
    (problem,) = error.value.problems
    assert (problem.line, problem.column) == (5, 1)
    assert problem.what.startswith("query: no JMESPath expression: ")


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(FileFlawed) as error:
        parse_file("f.toml", b'[[expect]]\nthred = "t"\nturns = "x"\n[[expect]]\nthread = 1\nforks = 0\n')
    assert [each.line for each in error.value.problems] == [2, 3, 5]


VALID = (
    'store = "a.db"',
    '[[expect]]\nname = "n"\nthread = "t"\nkey = "k"\nturn = -1\nequals = [1, {a = 2}]\ntolerance = 0.1',
    '[[expect]]\nthread = "t"\nkey = "k"\nquery = "[0]"\nat_least = 1\nmore_than = 0\nless_than = "x"',
    '[[expect]]\nthread = "t"\nkey = "k"\noutcome = "removed"\nwritten_in = []\nwritten_by = "n"\nabsent = true',
    '[[expect]]\nthread = "t"\nbetween = [1, -1]\nonly_changed = ["a*"]\nunchanged = []',
    '[[expect]]\nthread = "t"\nturn = 1\nstatus = "never_ran"\nquestion_matches = "^a"',
    '[[expect]]\nthread = "t"\nns = "n:1"\nbranch = "1f"\nmessages = "m"\nturns_by = "inputs"\nturns = 0',
    '[[expect]]\nthread = "t"\nretained = [1]\ngaps = 0\nforks = 0\nexists = true',
)
# What no JSON Schema can say: the syntax and encoding of TOML, and the grammar of an expression.
UNSEEN = ("the syntax", "the encoding", "a byte order mark", "a pattern")


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(schema())


@pytest.mark.parametrize("text", VALID)
def test_what_is_right_is_right_for_the_program_and_for_an_editor(text: str) -> None:
    parse_file("f.toml", text.encode())
    jsonschema.validate(tomllib.loads(text), schema(), cls=jsonschema.Draft7Validator)


@pytest.mark.parametrize("what", [what for what in FLAWED if what not in UNSEEN])
def test_what_is_wrong_is_wrong_for_an_editor_too(what: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(FLAWED[what][0]), schema(), cls=jsonschema.Draft7Validator)


def test_the_schema_can_be_printed() -> None:
    printed = run("check", "--print-schema")
    assert printed.code == 0
    assert printed.document == schema()
