"""``turnstate show``: the scenario of record, every outcome, and the forms of an answer."""

from __future__ import annotations

import pytest

from cli_run import run, store
from recorded import recording

BBOX = "gazet/get_aoi/bbox"
COPENHAGEN = "[12.4, 55.5, 12.7, 55.8]\n"
AARHUS = "[9.9, 56.1, 10.3, 56.2]\n"


def checkpoint(name: str, turn: int, thread: str = "demo") -> str:
    return recording(name).threads[thread].turn(turn).last_checkpoint


@pytest.mark.parametrize(
    ("name", "turn", "code", "out", "err"),
    [
        (
            "demo",
            1,
            0,
            COPENHAGEN,
            "turn 1 · checkpoint {id} · written in turn 1 by tool · written in 2 turns (1, 3)\n",
        ),
        (
            "demo",
            2,
            0,
            COPENHAGEN,
            "turn 2 · checkpoint {id} · written in turn 1 by tool · written in 2 turns (1, 3)\n",
        ),
        (
            "demo",
            3,
            0,
            AARHUS,
            "turn 3 · checkpoint {id} · written in turn 3 by tool · written in 2 turns (1, 3)\n",
        ),
        ("demo", 4, 4, "", "no_such_turn: the thread has had 3 turns\n"),
        (
            "demo-pruned",
            1,
            5,
            "",
            "turn_no_longer_retained: turn 1 was pruned; turns that can be read: 2, 3; "
            "6 deleted checkpoints left writes behind, see gaps THREAD --writes\n",
        ),
        (
            "demo-pruned-writes",
            1,
            5,
            "",
            "turn_no_longer_retained: turn 1 was pruned; turns that can be read: 2, 3\n",
        ),
    ],
)
def test_the_scenario_of_record_reads_as_documented(
    name: str, turn: int, code: int, out: str, err: str
) -> None:
    result = run("show", "demo", BBOX, "--turn", str(turn), "--store", store(name))
    told = err.format(id=checkpoint(name, turn)) if "{id}" in err else err
    assert (result.code, result.out, result.err) == (code, out, told)


def test_a_key_before_its_first_write_is_not_yet_written() -> None:
    result = run("show", "demo", BBOX, "--turn", "0", "--store", store("demo"))
    assert (result.code, result.out) == (4, "")
    assert result.err.startswith(
        "not_yet_written: nothing up to the end of turn 0 had written it; first written in turn 1\n"
    )


def test_what_is_not_yet_written_names_the_moment_that_was_asked_for() -> None:
    first = run("turns", "demo", "--json", "--store", store("demo")).document["turns"][0]
    asked = {
        ("--checkpoint", first["first_checkpoint"]): "this checkpoint",
        ("--at", first["started"]): "that time",
        ("--turn", "1", "--at-start"): "the start of turn 1",
    }
    for options, moment in asked.items():
        result = run("show", "demo", "plan", *options, "--store", store("demo"))
        words = f"not_yet_written: nothing up to {moment} had written it; first written in turn 1"
        assert (result.code, result.err.splitlines()[0]) == (4, words)


def test_the_start_of_a_turn_is_said_to_be_pruned_where_its_end_is_kept() -> None:
    kept = [("demo-pruned", "demo", 2, "2, 3"), ("retention", "latest-only", 5, "5")]
    for name, thread, turn, retained in kept:
        result = run("show", thread, "plan", "--turn", str(turn), "--at-start", "--store", store(name))
        words = f"the start of turn {turn} was pruned, its end is kept; turns that can be read: {retained}; "
        assert result.err.startswith(f"turn_no_longer_retained: {words}")
        assert result.code == 5
    gone = run("show", "demo", "plan", "--turn", "1", "--at-start", "--store", store("demo-pruned"))
    assert gone.err.startswith("turn_no_longer_retained: turn 1 was pruned; turns that can be read: 2, 3; ")


def test_a_turn_that_never_was_is_counted_along_the_line_and_as_surely_as_turns_has_it() -> None:
    unsure = run("show", "front-and-named", "plan", "--turn", "99", "--store", store("retention-unsure"))
    assert (unsure.code, unsure.err) == (4, "no_such_turn: the thread has had about 5 turns\n")
    branch = next(
        row["tip"]
        for row in run("branches", "asked-again", "--json", "--store", store("forks")).document["branches"]
        if not row.get("current")
    )
    for verb in (
        ["show", "asked-again", "plan", "--turn", "3"],
        ["keys", "asked-again", "--turn", "3"],
        ["log", "asked-again", "plan", "--turns", "3.."],
        ["diff", "asked-again", "plan", "--turns", "3...3"],
    ):
        missed = run(*verb, "--branch", branch, "--store", store("forks"))
        assert (missed.code, missed.err) == (4, "no_such_turn: the branch has had 2 turns\n")


def test_a_turn_that_survives_only_in_the_next_input_says_where_it_was_read() -> None:
    result = run("show", "demo", BBOX, "--turn", "2", "--store", store("demo-pruned"))
    assert (result.code, result.out) == (0, COPENHAGEN)
    assert "read in turn 3's input row, turn 2's own rows are gone" in result.err
    assert "written in rows that are gone, in a turn that can no longer be told · and in turn 3" in result.err


def test_a_value_whose_writer_was_pruned_says_that_nobody_can_tell() -> None:
    result = run("show", "one-turn-gone", "lookup/2", "--store", store("retention"))
    assert (result.code, result.out) == (0, "20\n")
    assert result.err.endswith(" · written in rows that are gone, in a turn that can no longer be told\n")


def test_a_json_answer_has_every_field_of_the_contract() -> None:
    document = run("show", "demo", BBOX, "--turn", "1", "--json", "--store", store("demo")).document
    written = document.pop("written")
    assert (written["turn"], written["node"], written["time"][-1]) == (1, "tool", "Z")
    assert document == {
        "schema": "turnstate.show/1",
        "thread": "demo",
        "namespace": "",
        "key": BBOX,
        "channel": "tool_state",
        "turn": 1,
        "outcome": "value",
        "value": [12.4, 55.5, 12.7, 55.8],
        "entry": {
            "value": [12.4, 55.5, 12.7, 55.8],
            "tool": "gazet/get_aoi",
            "seq": 1,
            "note": "bounding box, WGS 84",
        },
        "checkpoint": checkpoint("demo", 1),
        "turns_written": [1, 3],
        "total_turns": 3,
        "total_is": "exact",
        "turns_by": "questions",
        "retained_turns": [1, 2, 3],
    }


@pytest.mark.parametrize(
    ("argv", "outcome", "code"),
    [
        (("nobody", "plan"), "no_such_thread", 4),
        (("demo", "plan", "--ns", "elsewhere"), "no_such_thread", 4),
        (("demo", "plan", "--turn", "9"), "no_such_turn", 4),
        (("demo", "plan", "--checkpoint", "zz"), "no_such_turn", 4),
        (("demo", "plan", "--at", "2020-01-01"), "no_such_turn", 4),
        (("demo", "plam"), "no_such_key", 4),
        (("demo", "no/*"), "no_such_key", 4),
        (("demo", "plan", "--turn", "0"), "not_yet_written", 4),
    ],
)
def test_an_outcome_without_a_value_is_a_document_or_a_message(
    argv: tuple[str, ...], outcome: str, code: int
) -> None:
    told = run("show", *argv, "--json", "--store", store("demo"))
    assert (told.code, told.document["outcome"], told.err) == (code, outcome, "")
    assert "value" not in told.document
    assert told.document["key"] == argv[1]
    said = run("show", *argv, "--store", store("demo"))
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith(f"{outcome}: ")


def test_the_nearest_threads_and_keys_are_named() -> None:
    assert run("show", "dmeo", "plan", "--store", store("demo")).err == (
        "no_such_thread: the store has no thread 'dmeo'; nearest: demo\n"
    )
    assert run("show", "demo", "plam", "--store", store("demo")).err == (
        "no_such_key: the thread has no key 'plam'; nearest: plan\n"
    )


def test_a_key_is_near_by_either_of_its_names_and_named_once() -> None:
    for wrong in ("bbox", "gazet/get_aoi/bbx"):
        assert run("show", "demo", wrong, "--store", store("demo")).err.endswith(
            "; nearest: gazet/get_aoi/bbox\n"
        )
    named = run("show", "demo", "tool_state/gazet/get_aoi/bbox", "--store", store("demo")).err
    assert named.endswith("; nearest: tool_state:gazet/get_aoi/bbox, tool_state\n")


def test_channels_that_could_be_meant_are_the_applications_own() -> None:
    result = run("turns", "demo", "--messages", "foo", "--store", store("demo"))
    assert (result.code, result.err.splitlines()[1]) == (2, "  it has: messages, plan, tool_state")


def test_the_last_turn_is_the_default_and_counts_from_the_end() -> None:
    last = run("show", "demo", BBOX, "--store", store("demo"))
    assert last.out == AARHUS
    assert run("show", "demo", BBOX, "--turn", "-1", "--store", store("demo")) == last
    assert run("show", "demo", BBOX, "--turn=-2", "--store", store("demo")).out == COPENHAGEN


def test_the_start_of_a_turn_is_what_it_found() -> None:
    result = run("show", "demo", BBOX, "--turn", "3", "--at-start", "--store", store("demo"))
    assert result.out == COPENHAGEN
    assert result.err.startswith("start of turn 3 · ")


def test_a_checkpoint_may_be_named_by_its_unique_beginning() -> None:
    id = checkpoint("demo", 1)
    assert run("show", "demo", BBOX, "--checkpoint", id[:-4], "--store", store("demo")).out == COPENHAGEN
    result = run("show", "demo", BBOX, "--checkpoint", "1f", "--store", store("demo"))
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[0] == "turnstate: '1f' is the beginning of 12 checkpoints"


def test_a_time_reads_what_was_last_then() -> None:
    turns = run("turns", "demo", "--json", "--store", store("demo")).document["turns"]
    result = run("show", "demo", BBOX, "--at", turns[1]["ended"], "--json", "--store", store("demo"))
    assert (result.document["turn"], result.document["checkpoint"]) == (2, checkpoint("demo", 2))


@pytest.mark.parametrize(
    "argv",
    [
        ("--turn", "1", "--checkpoint", "1f"),
        ("--turn", "1", "--at", "2026-01-01"),
        ("--at-start", "--checkpoint", "1f"),
        ("--turn", "one"),
        ("--at", "yesterday-ish"),
        ("--json", "--jsonl"),
        ("--color", "sometimes"),
        ("--turns-by", "runs"),
        ("--query", "[*"),
    ],
)
def test_options_that_make_no_sense_are_a_usage_error(argv: tuple[str, ...]) -> None:
    result = run("show", "demo", "plan", *argv, "--store", store("demo"))
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) >= 3


def test_a_pattern_heads_each_key_and_is_one_document() -> None:
    text = run("show", "demo", "[gp]*", "--turn", "1", "--store", store("demo"))
    assert text.out == f"plan\nlook up the area\n{BBOX}\n{COPENHAGEN}"
    told = run("show", "demo", "[gp]*", "--turn", "1", "--json", "--store", store("demo")).document
    assert (told["schema"], told["key"], told["turn"], told["outcome"]) == (
        "turnstate.show/1",
        "[gp]*",
        1,
        "value",
    )
    assert [(r["key"], r["value"]) for r in told["readings"]] == [
        ("plan", "look up the area"),
        (BBOX, [12.4, 55.5, 12.7, 55.8]),
    ]
    lines = run("show", "demo", "[gp]*", "--turn", "1", "--jsonl", "--store", store("demo")).documents
    assert lines == told["readings"]


def test_of_a_pattern_each_note_names_its_key_and_no_name_stands_without_a_value() -> None:
    nothing = run("show", "demo", "*", "--turn", "0", "--store", store("demo"))
    assert (nothing.code, nothing.out) == (4, "")
    words = "not_yet_written: nothing up to the end of turn 0 had written it; first written in turn 1"
    keys = ["messages", "plan", "tool_state", BBOX]
    lines = nothing.err.splitlines()
    assert lines[::2] == [f"{key}: {words}" for key in keys]
    assert [line.partition(": turn 0 · checkpoint ")[0] for line in lines[1::2]] == keys
    some = run("show", "demo", "p*", "--turn", "1", "--store", store("demo"))
    assert some.out == "plan\nlook up the area\n"
    assert some.err.startswith("plan: turn 1 · checkpoint ")


@pytest.mark.parametrize(
    "argv",
    [
        ("show", "demo", "plan", "--checkpoint", "1f1ecbdf-630e", "--branch", "1f1ecbdf-63c7"),
        ("keys", "demo", "--checkpoint", "1f1ecbdf-630e", "--branch", "1f1ecbdf-63c7"),
        ("diff", "demo", "--checkpoints", "1f1ecbdf-630e..1f1ecbdf-63c7", "--branch", "1f1ecbdf-63c7"),
        ("diff", "demo", "--side-by-side", "--stat"),
        ("diff", "demo", "--side-by-side", "--name-only"),
    ],
)
def test_two_options_of_which_one_would_be_ignored_are_a_usage_error(argv: tuple[str, ...]) -> None:
    result = run(*argv, "--store", store("demo"))
    assert (result.code, result.out) == (2, "")
    assert argv[-2 if argv[-1].startswith("1f1") else 2] in result.err


def test_what_cannot_be_read_as_a_whole_says_which_turn_and_checkpoint() -> None:
    last = run("turns", "encrypted", "--json", "--store", store("encrypted")).document["head"]
    shown = run("show", "encrypted", "plan", "--store", store("encrypted"))
    assert (shown.code, shown.err.splitlines()[-1][-len(last) :]) == (6, last)
    listed = run("keys", "encrypted", "--store", store("encrypted"))
    assert (listed.code, listed.err.strip().endswith(f"checkpoint {last}")) == (6, True)


def test_a_pattern_where_one_thread_is_meant_is_said_to_be_one() -> None:
    result = run("turns", "dem*", "--store", store("demo"))
    assert (result.code, "only threads and gaps take a pattern" in result.err) == (4, True)


def test_no_keys_is_no_empty_table_without_a_word() -> None:
    result = run("keys", "functional", "--store", store("functional"))
    assert "no keys of the application; --all lists LangGraph's own channels too" in result.err.splitlines()


def test_a_query_looks_into_an_instance_as_into_its_fields() -> None:
    result = run("show", "demo", "messages", "--query", "[-1].content", "--store", store("demo"))
    assert result.out == "Aarhus lies within 9.9, 56.1, 10.3, 56.2, and is the smaller one.\n"
    typed = run(
        "show", "demo", "messages", "--query", "[].type", "--turn", "1", "--json", "--store", store("demo")
    )
    assert typed.document["value"] == ["human", "ai"]
    assert typed.document["query"] == "[].type"


def test_a_query_keeps_bytes_as_bytes() -> None:
    argv = ("show", "values", "raw", "--turn", "1", "--query", "@", "--json", "--store", store("values"))
    assert run(*argv).document["value"] == {"$type": "bytes", "$base64": "AP8="}


def test_a_query_that_selects_nothing_says_so() -> None:
    result = run("show", "demo", "messages", "--query", "nothing", "--store", store("demo"))
    assert (result.code, result.out) == (0, "null\n")
    assert result.err.startswith("the query selects nothing, or a null\n")


def test_a_stored_null_is_a_value() -> None:
    result = run("show", "values", "nothing", "--turn", "1", "--json", "--store", store("values"))
    assert (result.code, result.document["outcome"]) == (0, "value")
    assert result.document["value"] is None


def test_instances_bytes_and_names_that_are_no_text_keep_their_kind_in_json() -> None:
    def value(key: str) -> object:
        return run("show", "values", key, "--turn", "1", "--json", "--store", store("values")).document[
            "value"
        ]

    truth = recording("values").threads["values"].turn(1).state
    assert value("moment") == truth["moment"]
    assert value("point") == truth["point"]
    assert value("raw") == {"$type": "bytes", "$base64": "AP8="}
    assert value("keyed") == {"$type": "dict", "$value": [[1, "one"], ["1", "text one"], [None, "none"]]}


def test_a_secret_is_shown_only_when_asked() -> None:
    masked = run("show", "values", "secret", "--turn", "1", "--store", store("values"))
    assert "masked" in masked.out
    shown = run("show", "values", "secret", "--turn", "1", "--reveal", "--store", store("values"))
    assert recording("values").threads["values"].more["secrets"] == ["correct horse", "battery staple"]
    assert "battery staple" in shown.out
    assert "battery staple" not in masked.out + masked.err


def test_a_branch_has_its_own_numbering() -> None:
    truth = recording("forks").threads["edited-past"]
    branch = truth.branches[0]
    turns = run(
        "turns", "edited-past", "--branch", branch["tip"], "--json", "--store", store("forks")
    ).document
    assert [turn["question"] for turn in turns["turns"]] == ["Find Aarhus", "Describe it"]
    assert turns["tip"] == branch["tip"]
    last = run(
        "show", "edited-past", "messages", "--branch", branch["tip"], "--json", "--store", store("forks")
    )
    assert last.document["checkpoint"] == branch["tip"]


def test_a_checkpoint_of_another_branch_is_read_on_its_own_line() -> None:
    branch = recording("forks").threads["edited-past"].branches[0]
    result = run(
        "show", "edited-past", "messages", "--checkpoint", branch["tip"], "--json", "--store", store("forks")
    )
    assert (result.code, result.document["checkpoint"]) == (0, branch["tip"])
    assert result.document["turn"] == 2


def test_turns_that_are_inputs_are_said_to_be() -> None:
    document = run("turns", "demo", "--turns-by", "inputs", "--json", "--store", store("demo")).document
    assert (document["turns_by"], document["total"]) == ("inputs", 3)
    result = run("show", "demo", "plan", "--turns-by", "inputs", "--store", store("demo"))
    assert result.err.endswith("turns are counted by inputs, not by questions in the messages\n")


def test_turns_in_a_row_are_told_as_a_range() -> None:
    told = run("show", "plain", "messages", "--turn", "1", "--store", store("plain")).err
    assert told.endswith(" · written in 10 turns (1–10)\n")
