"""What a recording must not hold: planted in every kind of place, looked for in the bytes of the file."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgpack
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from pydantic import BaseModel, SecretBytes, SecretStr

from cli_run import Result, run
from scenarios.kit import chain
from scenarios.values import AES_KEY
from turnstate_backends.detectors import secrets_in, shows_secret
from turnstate_backends.payload import decode
from turnstate_backends.redact import Redactor, Rules
from turnstate_backends.values import Stored

WITH_KEY = {"LANGGRAPH_AES_KEY": AES_KEY.decode()}
BY_PATTERN = [f"CASE-{number:02}-violet" for number in range(18)]
BY_KEY = [f"customer number {number}" for number in range(6)]
BY_DETECTOR = [
    "sk-proj-Zx81kQ0mPn55tYwW2b",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
    "correct horse battery",
    "hunter2-in-a-field",
    "a-secret-string",
    "some secret bytes",
    "tok_in_json_arguments",
    "Bearer-0123456789abcdef",
    "p4ssw0rd-in-a-url",
    "90210777",
    "ada@example.org",
    "grace.hopper@navy.example.mil",
    "+45 33 12 34 56",
    "(555) 867-5309",
]
PLANTED = [*BY_PATTERN, *BY_KEY, *BY_DETECTOR]
ASKED = ["--redact", "customer", "--redact-pattern", r"CASE-\d\d-violet", "--redact-personal"]


class Owner(BaseModel):
    customer: str
    password: str
    note: str
    token: SecretStr


@dataclasses.dataclass
class Ticket:
    customer: str
    lines: list[str]
    owner: Owner


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    ticket: Any
    raw: Any
    nested: Any
    api_key: str


def plant(path: Path) -> None:
    """Two runs, the second encrypted; the first ends in an interrupt and what it wrote is pending."""
    case, key, hidden = iter(BY_PATTERN), iter(BY_KEY), BY_DETECTOR

    def plain(state: State) -> dict[str, Any]:
        owner = Owner(customer=next(key), password=hidden[5], note=next(case), token=SecretStr(hidden[6]))
        arguments = json.dumps({"auth_token": hidden[8], "about": next(case), "when": 3})
        call = {"function": {"name": "look", "arguments": arguments}, "id": "c1", "type": "function"}
        return {
            "messages": [
                AIMessage(
                    [{"type": "text", "text": f"I saw {next(case)} and {hidden[0]}"}],
                    id="a1",
                    tool_calls=[
                        {"name": "look", "args": {"customer": next(key), "q": next(case)}, "id": "c1"}
                    ],
                    additional_kwargs={"tool_calls": [call]},
                ),
                ToolMessage(f"Authorization: Bearer {hidden[9]}; {next(case)}", id="t1", tool_call_id="c1"),
            ],
            "ticket": Ticket(next(key), [next(case), hidden[1]], owner),
            "raw": {
                "bytes": f"before {next(case)} after".encode(),
                "array": bytearray(next(case).encode()),
                "secret": SecretBytes(hidden[7].encode()),
            },
            "nested": {
                hidden[12]: [{next(case)}, (hidden[13], next(case))],
                "headers": [{"name": "X-Api-Key", "value": hidden[4]}],
                "pin": {"password": int(hidden[11])},
                "url": f"postgresql://app:{hidden[10]}@db/app",
                "call": f"{hidden[14]} or {hidden[15]}",
                "text": f"\ud83e\udee0 {next(case)} \\u00e6",
            },
            "api_key": hidden[2],
        }

    def ask(state: State) -> dict[str, Any]:
        interrupt({"why": next(case), "jwt": hidden[3]})
        return {}

    def closing_node(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(next(case), id="a2")], "raw": next(case).encode()}

    metadata = {"customer": next(key), "label": next(case)}
    place: Any = {"configurable": {"thread_id": "t"}, "metadata": metadata}
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        graph = chain(SqliteSaver(connection), State, plain=plain, ask=ask)
        graph.invoke({"messages": [HumanMessage(f"Case {next(case)}", id="h1", customer=next(key))]}, place)
        sealed = SqliteSaver(connection, serde=EncryptedSerializer.from_pycryptodome_aes(key=AES_KEY))
        graph = chain(sealed, State, closing_node=closing_node)
        sealed_input = {"messages": [HumanMessage("more", id="h2")], "nested": {"customer": next(key)}}
        graph.invoke(
            sealed_input,
            {"configurable": {"thread_id": "sealed"}, "metadata": {"n": next(case), "m": next(case)}},
        )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    assert list(case) == []
    assert list(key) == []


def record(source: Path, target: Path, *argv: str, env: Mapping[str, str] | None = None) -> Result:
    threads = ["t", "sealed"]
    return run("record", "--store", str(source), *threads, "--to", str(target), *argv, env=env)


def found_in(path: Path, texts: list[str]) -> set[str]:
    """The texts that stand in the bytes of a file, also as UTF-16 and as packed numbers."""
    data = path.read_bytes()
    forms = {text: [text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be")] for text in texts}
    forms["90210777"].append(int("90210777").to_bytes(4, "big"))
    return {text for text, sought in forms.items() if any(form in data for form in sought)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planted") / "source.db"
    plant(path)
    return path


def test_a_redacted_recording_holds_none_of_forty_planted_texts(source: Path, tmp_path: Path) -> None:
    assert len(set(PLANTED)) == 40
    encrypted = {*BY_PATTERN[-2:], BY_KEY[-1]}
    assert found_in(source, PLANTED) == set(PLANTED) - encrypted
    target = tmp_path / "clean.db"
    result = record(source, target, *ASKED, env=WITH_KEY)
    assert result.code == 0, result.err
    assert found_in(target, PLANTED) == set()
    assert not any(text in result.err for text in PLANTED)
    result = record(source, target, *ASKED, "--json", "--force", env=WITH_KEY)
    assert not any(text in result.out for text in PLANTED)


def test_a_redacted_recording_still_resumes_with_what_was_redacted_replaced(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "clean.db"
    assert record(source, target, *ASKED, env=WITH_KEY).code == 0

    def more(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage("seen", id="a9")]}

    for thread, before in (("t", ["h1", "a1", "t1"]), ("sealed", ["h2", "a2"])):
        with closing(sqlite3.connect(target, check_same_thread=False)) as connection:
            graph = chain(SqliteSaver(connection), State, more=more)
            place: Any = {"configurable": {"thread_id": thread}}
            held = graph.invoke({"messages": [HumanMessage("on", id="h9")]}, place)
        assert [message.id for message in held["messages"]] == [*before, "h9", "a9"]
        if thread == "t":
            assert re.fullmatch(r"I saw \[redacted:.{12}\] and \[redacted:.{12}\]", held["messages"][1].text)
            assert held["nested"]["headers"][0]["name"] == "X-Api-Key"
            assert held["ticket"].owner.token.get_secret_value().startswith("[redacted:")


def test_secrets_go_unasked_and_everything_else_stays(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "default.db"
    result = record(source, target, "--json")
    assert result.code == 0
    personal = {"ada@example.org", "grace.hopper@navy.example.mil", "+45 33 12 34 56", "(555) 867-5309"}
    left = found_in(target, PLANTED)
    assert left == found_in(source, PLANTED) - set(BY_DETECTOR) | personal
    detectors = {each["detector"] for each in result.document["redacted"]}
    assert detectors == {"secret class", "secret key", "token"}
    assert result.document["encrypted"]["opened"] == 0
    assert result.document["encrypted"]["kept"] > 0


def test_secrets_stay_where_that_is_asked(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "kept.db"
    result = record(source, target, "--keep-secrets", "--json")
    assert result.document["redacted"] == []
    assert found_in(target, PLANTED) == found_in(source, PLANTED)


def test_without_the_key_encrypted_payloads_stay_encrypted(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "sealed.db"
    result = record(source, target, *ASKED, "--json")
    assert result.document["encrypted"] == {"kept": result.document["encrypted"]["kept"], "opened": 0}
    assert found_in(target, PLANTED) == set()
    with closing(sqlite3.connect(target)) as connection:
        kinds = connection.execute("SELECT DISTINCT type FROM checkpoints WHERE thread_id = 'sealed'")
        assert kinds.fetchall() == [("msgpack+aes",)]


def test_equal_things_have_equal_placeholders_and_a_salt_makes_them_so_across_recordings(
    source: Path, tmp_path: Path
) -> None:
    def marks(name: str, *argv: str) -> set[bytes]:
        target = tmp_path / name
        assert record(source, target, *ASKED, *argv, env=WITH_KEY).code == 0
        return set(re.findall(rb"\[redacted:[0-9a-f]{12}\]", target.read_bytes()))

    first, second, random = marks("1.db", "--salt", "a"), marks("2.db", "--salt", "a"), marks("3.db")
    assert first == second
    assert not first & random
    assert len(first) == 40


def redactor(**rules: Any) -> Redactor:
    return Redactor(Rules(**rules), b"salt")


def redacted(value: Any, given: Redactor) -> Any:
    kind, data = JsonPlusSerializer().dumps_typed(value)
    return decode(given.value(Stored(kind, data, len(data)), "channel"))


def mark(text: str) -> Any:
    """The placeholder of a text, as a value that holds nothing else gets it."""
    return redacted(text, redactor(secrets=False, patterns=(re.compile(re.escape(text)),)))


@pytest.mark.parametrize(
    "value",
    [
        {"input_tokens": 1200, "token_usage": {"total_tokens": 3}, "max_tokens": 5},
        {"tokens": ["find", "the", "area"], "has_password": True, "password": None},
        {"monkey": "banana", "keyboard": "us", "secretary": "Ada", "author": "Grace"},
        "the password is wrong, ask the secretary for another; a bearer of news",
        "2026-11-30T13:00:04 and 1f1ecbdf-630e-6de2-8002-d05c3c175d23",
    ],
)
def test_what_only_sounds_like_a_secret_stays(value: Any) -> None:
    assert redacted(value, redactor()) == value


@pytest.mark.parametrize(
    "text",
    [
        "1f1ecbdf-630e-6de2-8002-d05c3c175d23",
        "12345678-1234-1234-1234-123456789012",
        "2026-11-30",
        "2026-11-30 13:00:04",
        "192.168.100.200",
        "[12.4, 55.5, 12.7, 55.8]",
        "00000002.0.48881",
        "1,234,567.89",
    ],
)
def test_an_id_a_date_or_an_address_is_no_telephone_number(text: str) -> None:
    assert redacted(text, redactor(personal=True)) == text


@pytest.mark.parametrize(
    "number",
    ["+4533123456", "+45 33 12 34 56", "33 12 34 56", "(555) 867-5309", "555-867-5309", "0301234567"],
)
def test_a_telephone_number_goes_and_the_words_around_it_stay(number: str) -> None:
    assert redacted(f"call {number}, please", redactor(personal=True)) == f"call {mark(number)}, please"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "x"),
        ("dbPassword", 12345),
        ("DB_PASSWD", b"x"),
        ("clientSecret", "x"),
        ("x-api-key", "x"),
        ("apikey", "x"),
        ("OPENAI_API_KEY", "x"),
        ("access_token", "x"),
        ("token", "x"),
        ("Authorization", "Basic QWxhZGRpbg=="),
        ("connectionString", "x"),
        ("credentials", {"user": "ada", "list": ["x"]}),
    ],
)
def test_a_field_named_like_a_secret_is_emptied_however_the_name_is_written(name: str, value: Any) -> None:
    text = json.dumps(redacted({"a": [{name: value}]}, redactor()), default=bytes.decode)
    assert re.search(r"\[redacted:[0-9a-f]{12}\]", text)
    assert "ada" not in text
    assert '"x"' not in text
    assert "12345" not in text
    assert "Basic" not in text


def test_a_payload_in_which_nothing_goes_is_given_back_as_it_is() -> None:
    # Not the shortest headers, a repeated key, and text that is not UTF-8: none of it may be written anew.
    for kind, data in (
        ("msgpack", b"\xde\x00\x02\xa1k\xd9\x01a\xa1k\xdb\x00\x00\x00\x01\xff"),
        ("json", b'{ "k":1e16,"k" : 1.0, "t":"\\ud800", "key": 12345678901234567890123 }'),
    ):
        stored = Stored(kind, data, len(data))
        assert redactor(patterns=(re.compile("never"),), personal=True).value(stored, "c") is stored


def test_an_instance_is_given_back_as_it_is_also_where_an_equal_one_came_before() -> None:
    instance = b"\xc9\x00\x00\x00\x0a\x02\x93\xa1m\xa1C\x81\xa1f\xa1x"
    given = redactor(personal=True)
    for _ in range(2):
        data = bytes(bytearray(b"\x91" + instance))
        stored = Stored("msgpack", data, len(data))
        assert given.value(stored, "c") is stored


def test_a_value_that_several_checkpoints_hold_goes_from_each_and_the_rest_keeps_its_bytes() -> None:
    beside = b"\xa1n\xde\x00\x01\xa1k\xd9\x01a"  # not the shortest headers
    state = b"\x82\xa2id\xa11\xaechannel_values\x82\xa1c\x81\xa8customer\xa6Sophie" + beside
    given = redactor(keys=("customer",))
    for times in (1, 2):
        found = given.state(Stored("msgpack", state, len(state))).data
        assert b"Sophie" not in found
        assert found.endswith(beside)
        assert given.found.places == {("key", "customer"): times}
    assert len(given.found.distinct) == 1


@pytest.mark.parametrize(
    "value",
    [
        *BY_DETECTOR[:4],
        "password: hunter2-in-text",
        "amqp://Ǉ}:p4ssw0rd-in-a-url@host",
        {"Private-Key": "x1"},
        {"set-cookie": "x1"},
        {"userToken": "x1"},
        {"databaseUrl": "x1"},
        [{"name": "X-Api-Key", "value": "x1"}],
    ],
)
def test_a_secret_beside_what_an_earlier_payload_held_goes_too(value: Any) -> None:
    given = redactor()
    beside = [HumanMessage("a question", id="h1"), "text"]
    assert "[redacted:" not in str(redacted(beside, given))
    found = redacted([*beside, value, "text"], given)
    assert "[redacted:" in str(found)
    assert str(found) == str(redacted([*beside, value, "text"], given))


def test_of_a_payload_in_which_something_goes_the_rest_keeps_its_bytes() -> None:
    data = b'{"password":"x", "k":1e16, "k": 1.0, "big": 12345678901234567890123, "nan": NaN, "t":"\\ud800"}'
    found = redactor().value(Stored("json", data, len(data)), "c").data
    assert re.sub(rb"\[redacted:.{12}\]", b"x", found) == (
        b'{"password": "x", "k": 1e16, "k": 1.0, "big": 12345678901234567890123, "nan": NaN, "t": "\\ud800"}'
    )
    head, float32, ext = (
        b"\x83\xa8password\xa1x",
        b"\xa1f\xca\x3f\x80\x00\x00",
        b"\xa1t\xd6\xff\x00\x00\x00\x01",
    )
    data = head + float32 + ext
    found = redactor().value(Stored("msgpack", data, len(data)), "c").data
    assert found.startswith(b"\x83\xa8password\xb7[redacted:")
    assert found.endswith(float32 + ext)


@pytest.mark.parametrize(
    "stored",
    [
        Stored("pickle", b"\x80\x04\x8c\x06hidden.", 10),
        Stored("msgpack", b"\x92\xa6hidden", 8),  # cut short
        Stored("msgpack", b"\xc0hidden", 7),  # bytes follow
        Stored("json", b'{"a": "hidden', 13),
        Stored("other", b"hidden", 6),
        Stored("msgpack", b"\xc7\x06\x63hidden", 9),  # an unknown extension
    ],
)
def test_what_cannot_be_looked_into_goes_as_a_whole_where_anything_was_asked_to_go(stored: Stored) -> None:
    asked = redactor(keys=("nothing",))
    found = asked.value(stored, "c")
    assert b"hidden" not in found.data
    assert str(decode(found)).startswith("[redacted:")
    assert list(asked.found.places) == [("unreadable", "c")]
    assert redactor().value(stored, "c") is stored


def test_a_key_names_channels_entries_and_fields_and_what_a_pattern_matches() -> None:
    value = {"plan": 1, "deep": [{"PLAN": "x"}, {"plan/a": None}], "other": "plan"}
    gone = redacted(value, redactor(keys=("plan*",)))
    assert gone["other"] == "plan"
    assert gone["deep"][1] == {"plan/a": None}
    assert str(gone["plan"]).startswith("[redacted:")
    assert gone["deep"][0]["PLAN"].startswith("[redacted:")
    assert redacted("x", redactor(keys=("channel",))).startswith("[redacted:")


def test_a_set_and_a_mapping_get_the_placeholder_of_an_equal_one_whatever_their_order() -> None:
    one = redacted({"k": {"a": 1, "b": {1, 2, 3}}}, redactor(keys=("k",)))
    kind, data = JsonPlusSerializer().dumps_typed({"k": {"b": {3, 1, 2}, "a": 1}})
    assert decode(redactor(keys=("k",)).value(Stored(kind, data, len(data)), "c")) == one


def test_a_pattern_goes_over_numbers_and_mapping_keys_too() -> None:
    given = redactor(patterns=(re.compile(r"4711\d*"),))
    gone = redacted({"n": 47111, "m": 5, "id 4711": "x", "list": [4711.5]}, given)
    assert gone["m"] == 5
    assert "4711" not in str(gone)


def array(dtype: str, buffer: bytes) -> Stored:
    """A numpy array of one element as LangGraph stores it: extension 6 of dtype, shape, order and buffer."""
    data = msgpack.packb(msgpack.ExtType(6, msgpack.packb([dtype, [1], "C", buffer])))
    return Stored("msgpack", data, len(data))


@pytest.mark.parametrize(
    ("dtype", "buffer"), [("<U9", "so hidden".encode("utf-32-le")), ("|S9", b"so hidden"), ("|u1", b"hidden")]
)
def test_an_array_that_shows_what_should_go_goes_as_a_whole(dtype: str, buffer: bytes) -> None:
    given = redactor(patterns=(re.compile("hidden"),))
    assert str(decode(given.value(array(dtype, buffer), "c"))).startswith("[redacted:")


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_secret_in_an_array_of_text_goes_unasked(order: str) -> None:
    text = BY_DETECTOR[1]
    stored = array(f"{order}U{len(text)}", text.encode("utf-32-le" if order == "<" else "utf-32-be"))
    assert str(decode(redactor().value(stored, "c"))).startswith("[redacted:")


@pytest.mark.parametrize(
    "call",
    [
        {"id": ["builtins", "bytes"], "method": "fromhex", "args": [BY_DETECTOR[1].encode().hex()]},
        {"id": ["Uint8Array"], "method": "from", "args": [list(BY_DETECTOR[1].encode())], "kwargs": {}},
    ],
    ids=["Python", "JavaScript"],
)
def test_a_secret_in_bytes_that_json_has_as_a_call_goes_unasked(call: dict[str, Any]) -> None:
    data = json.dumps({"raw": {"lc": 2, "type": "constructor", **call}}).encode()
    raw = decode(redactor().value(Stored("json", data, len(data)), "c"))["raw"]
    assert re.fullmatch(rb"\[redacted:[0-9a-f]{12}\]", raw)


@pytest.mark.parametrize("length", [20, 48, 51, 70, 100])
def test_a_secret_in_a_pickle_goes_unasked_whatever_its_length_looks_like(length: int) -> None:
    data = pickle.dumps({"note": ("sk-" + "a1" * 60)[:length]}, protocol=4)
    assert str(decode(redactor().value(Stored("pickle", data, len(data)), "c"))).startswith("[redacted:")


def test_an_array_of_numbers_stays() -> None:
    stored = array("<f8", b"\0\0\0\0\0\0\xf8?")
    assert redactor(patterns=(re.compile("hidden"),), personal=True).value(stored, "c") is stored


def test_a_placeholder_is_not_redacted_again() -> None:
    given = redactor(keys=("k",), patterns=(re.compile("[0-9a-f]+|redacted"),))
    once = redacted({"k": "zzz", "password": "yyy"}, given)
    assert redacted(once, given) == once


def test_names_that_hold_what_should_go_are_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        graph = chain(SqliteSaver(connection), State, node=lambda state: {"api_key": "x"})
        graph.invoke({"messages": [HumanMessage("q")]}, {"configurable": {"thread_id": "ada@example.org"}})
    argv = ("record", "--store", str(path), "ada@example.org", "--redact-personal", "--json")
    document = run(*argv, "--to", str(tmp_path / "r.db")).document
    assert document["names_kept"] == ["ada@example.org"]


def test_a_key_or_pattern_that_matched_nothing_is_pointed_out(tmp_path: Path) -> None:
    demo = str(Path(__file__).parent.parent / "fixtures" / "demo.db")
    argv = ("record", "--store", demo, "demo", "--to", str(tmp_path / "r.db"), "--force")
    rules = (
        "--redact",
        "PLAN",
        "--redact",
        "plam",
        "--redact-pattern",
        "Aarhus",
        "--redact-pattern",
        "Århus",
    )
    assert run(*argv, *rules, "--json").document["matched_nothing"] == ["plam", "Århus"]
    said = "matched nothing, see whether it is spelt right: plam, Århus"
    assert said in run(*argv, *rules).err.splitlines()
    assert "matched nothing" not in run(*argv, "--redact", "pl*", "--redact-pattern", r"55\.5").err


@pytest.mark.parametrize("length", [20, 2100, 12_000])
def test_a_token_is_found_however_long_a_chain_of_certificates_it_carries(length: int) -> None:
    token = f"eyJ{'a' * length}.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN"
    text = f"sent with {token}"
    assert shows_secret(text.encode())
    assert (len("sent with "), len(text)) in secrets_in(text)
