"""The server: what it answers, in which status, to whom, and that nothing stored or asked brings it down."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.sqlite import SqliteSaver
from starlette.testclient import TestClient

import hostile
from cli_run import command, environment, run, store
from http_client import PORT, URL, client
from recorded import copy_db, record_to_postgres
from savers import named
from test_untouched import held
from turnstate.commands.listening import token_for
from turnstate.serving.answers import Source
from turnstate.serving.app import application
from turnstate.serving.guard import admission, shows_token

BBOX = "gazet/get_aoi/bbox"
FIRST = "1f1ecbdf-630e-6de2-8002-d05c3c175d23"  # as turn 1 of the demo ended
BORROWED = (
    "1f1ecbdf-639a-6555-8007-7e8defce9638"  # the input row of turn 3, kept where turn 2's own rows are gone
)


@pytest.fixture(scope="module")
def demo() -> Iterator[TestClient]:
    with client(store("demo")) as started:
        yield started


@pytest.fixture(scope="module")
def pruned() -> Iterator[TestClient]:
    with client(store("demo-pruned")) as started:
        yield started


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    path = tmp_path_factory.mktemp("odd") / "odd.db"
    hostile.record(path)
    with client(str(path)) as started:
        yield started


# What is answered.


def test_a_value_says_where_it_was_read_and_which_turns_wrote_it(demo: TestClient) -> None:
    answer = demo.get(f"/threads/demo/state/{BBOX}?turn=2")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found = answer.json()
    assert found["value"] == [12.4, 55.5, 12.7, 55.8]
    assert (found["schema"], found["outcome"], found["turn"]) == ("turnstate.show/1", "value", 2)
    assert (found["turns_written"], found["written"]["turn"], found["total_turns"]) == ([1, 3], 1, 3)
    assert "text" not in found


@pytest.mark.parametrize(
    ("path", "outcome", "fields"),
    [
        ("/threads/nobody/state/plan", "no_such_thread", {"thread": "nobody"}),
        ("/threads/nobody/turns", "no_such_thread", {}),
        ("/threads/nobody/log", "no_such_thread", {}),
        ("/threads/nobody/diff", "no_such_thread", {}),
        ("/threads/nobody/gaps", "no_such_thread", {}),
        ("/threads/demo/state/plan?turn=9", "no_such_turn", {"turns_so_far": 3, "retained_turns": [1, 2, 3]}),
        ("/threads/demo/state/plam", "no_such_key", {"nearest": ["plan"]}),
        ("/threads/demo/state/plan?turn=0", "not_yet_written", {"turns_so_far": 3}),
        ("/threads/demo/log?key=plam", "no_such_key", {}),
        ("/threads/demo/diff?from=1&to=8", "no_such_turn", {"retained_turns": [1, 2, 3]}),
        ("/threads/demo/turns?ns=sub", "no_such_thread", {"namespaces": [""]}),
    ],
)
def test_what_never_was_is_404_with_problem_details(
    demo: TestClient, path: str, outcome: str, fields: dict[str, Any]
) -> None:
    answer = demo.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    found = answer.json()
    assert (found["type"], found["status"]) == (f"urn:turnstate:outcome:{outcome}", 404)
    assert found["outcome"] == outcome
    assert found["detail"] == found["message"] != ""
    assert {name: found[name] for name in fields} == fields


@pytest.mark.parametrize("path", [f"state/{BBOX}?turn=1", "keys?turn=1", "diff?from=1&to=3"])
def test_what_was_pruned_is_410_and_names_the_turns_that_are_kept(pruned: TestClient, path: str) -> None:
    answer = pruned.get(f"/threads/demo/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (410, "application/problem+json")
    found = answer.json()
    assert found["outcome"] == "turn_no_longer_retained"
    assert (found["turns_so_far"], found["retained_turns"]) == (3, [2, 3])


def test_a_turn_of_which_only_the_next_input_row_is_kept_is_a_value(pruned: TestClient) -> None:
    found = pruned.get(f"/threads/demo/state/{BBOX}?turn=2").json()
    assert (found["value"], found["checkpoint"]) == ([12.4, 55.5, 12.7, 55.8], BORROWED)


def test_what_is_stored_and_cannot_be_read_is_422_with_its_outcome() -> None:
    with client(store("deltas")) as started:
        answer = started.get("/threads/no-snapshot/state/tool_state?turn=2")
    assert (answer.status_code, answer.json()["outcome"]) == (422, "delta_unresolved")


@pytest.mark.parametrize(
    "path",
    [
        "state/plan?turn=x",
        "diff?from=3&to=1&turn=2",
        "log?from=3&to=1",
        "log?limit=0",
        "turns?turns_by=days",
        "state/plan?tunr=1",  # the last turn would be told
        "state/plan?Turn=1",
        "turns?turn=1",
        "state/plan?turn=1&turn=2",
    ],
)
def test_what_cannot_be_answered_as_asked_is_400(demo: TestClient, path: str) -> None:
    answer = demo.get(f"/threads/demo/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


def test_no_path_is_404_without_an_outcome(demo: TestClient) -> None:
    answer = demo.get("/threads/demo/secrets")
    assert (answer.status_code, "outcome" in answer.json()) == (404, False)


@pytest.mark.parametrize(
    ("path", "argv"),
    [
        ("/threads", ["threads"]),
        ("/threads/demo/turns", ["turns", "demo"]),
        ("/threads/demo/keys?turn=1", ["keys", "demo", "--turn", "1"]),
        (f"/threads/demo/state/{BBOX}?turn=1", ["show", "demo", BBOX, "--turn", "1"]),
        ("/threads/demo/log?key=plan", ["log", "demo", "plan"]),
        (
            "/threads/demo/log?from=3&reverse=true&limit=2",
            ["log", "demo", "--turns", "3..", "--reverse", "--limit", "2"],
        ),
        ("/threads/demo/diff", ["diff", "demo"]),
        ("/threads/demo/diff?from=1&to=3&key=plan", ["diff", "demo", "plan", "--turns", "1..3"]),
        ("/threads/demo/diff?turn=2", ["diff", "demo", "--turns", "2"]),
        ("/threads/demo/gaps", ["gaps", "demo"]),
    ],
)
def test_bodies_are_the_documents_of_the_commands(demo: TestClient, path: str, argv: list[str]) -> None:
    found = demo.get(path)
    assert found.status_code == 200
    assert found.json() == run(*argv, "--json", "--store", store("demo")).document


def test_threads_beyond_the_limit_are_announced() -> None:
    with client(store("retention")) as started:
        some, every = started.get("/threads?limit=2"), started.get("/threads?pattern=first*")
    assert (len(some.json()), some.headers["x-turnstate-more"]) == (2, "true")
    assert ([each["thread"] for each in every.json()], "x-turnstate-more" in every.headers) == (
        ["first-and-last"],
        False,
    )


def test_the_chart_says_of_each_key_which_turns_wrote_it(demo: TestClient, pruned: TestClient) -> None:
    rows = {row["key"]: row for row in demo.get("/threads/demo/chart").json()["keys"]}
    assert (rows[BBOX]["turns_written"], rows[BBOX]["cells"]) == ([1, 3], ["written", "unchanged", "written"])
    found = pruned.get("/threads/demo/chart").json()
    assert found["keys"][1]["cells"] == ["pruned", "unknown", "written"]
    assert found["notes"][0] == "turns that are kept as they ended: 2, 3 of 3"


# Names.


@pytest.mark.parametrize("thread", hostile.THREADS)
def test_any_thread_and_key_can_be_named(odd: TestClient, thread: str) -> None:
    inside, query = (quote(thread, safe=""), {}) if thread not in (".", "..") else ("-", {"thread": thread})
    assert odd.get(f"/threads/{inside}/turns", params=query).json()["thread"] == thread
    texts = dict(zip(hostile.KEYS, hostile.TEXTS * 2, strict=False))
    for key, text in texts.items():
        named = {"key": key} if key in (".", "..") else {}
        found = odd.get(
            f"/threads/{inside}/state/{'-' if named else quote(key, safe='')}",
            params={**query, **named, "turn": "2"},
        ).json()
        assert (found["key"], found["value"]) == (key, f"{text} 2")


def test_a_path_that_is_no_utf8_is_400(demo: TestClient) -> None:
    assert demo.get("/threads/%ff/turns").status_code == 400


# Who may ask.


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": f"localhost:{PORT}"}, 200),
        ({"Host": f"LOCALHOST:{PORT}"}, 200),
        ({"Host": f"[::1]:{PORT}"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": f"evil.example:{PORT}"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": f"127.0.0.1:{PORT + 1}"}, 403),
        ({"Host": f"127.0.0.1.evil.example:{PORT}"}, 403),
        ({"Host": f"192.168.0.9:{PORT}"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": URL}, 200),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        ({"Origin": f"https://127.0.0.1:{PORT}"}, 403),
        ({"Origin": f"http://localhost:{PORT}"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_foreign_hosts_and_origins_are_refused(
    demo: TestClient, headers: dict[str, str], status: int
) -> None:
    answer = demo.get("/threads", headers=headers)
    assert answer.status_code == status
    assert ("demo" in answer.text) == (status == 200)
    assert "access-control-allow-origin" not in answer.headers


def test_of_several_origins_each_must_be_ours(demo: TestClient) -> None:
    ours, foreign = ("Origin", URL), ("Origin", "http://evil.example")
    for headers in ([ours, foreign], [foreign, ours]):
        assert demo.get("/threads", headers=headers).status_code == 403


def test_a_link_from_elsewhere_may_open_the_page(demo: TestClient) -> None:
    assert (
        demo.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}).status_code
        == 200
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/threads", "/", "/threads/demo/turns"])
def test_nothing_can_be_changed(demo: TestClient, method: str, path: str) -> None:
    answer = demo.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_has_the_headers_and_no_body(demo: TestClient) -> None:
    answer = demo.head("/threads")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 100


@pytest.mark.parametrize("path", ["/", "/page.js", "/threads", "/threads/nobody/turns", "/threads/demo/log"])
def test_every_answer_keeps_browsers_from_using_it_otherwise(demo: TestClient, path: str) -> None:
    headers = demo.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"


TOKEN = "a long random text"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer å", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
def test_elsewhere_the_token_is_needed(given: str | None, status: int) -> None:
    with client(store("demo"), token=TOKEN, host="0.0.0.0") as started:
        headers = {"Authorization": given.encode("latin-1")} if given else {}
        for path in ("/threads", "/threads/demo/turns", "/openapi.json"):
            answer = started.get(path, headers=headers)
            assert answer.status_code == status
        assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
        assert started.get("/").status_code == 200  # holds nothing of the store


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (f"192.168.0.9:{PORT}", 200),
        (f"[fe80::1]:{PORT}", 200),
        (f"evil.example:{PORT}", 403),
        ("agents.example", 200),
        (f"agents.example:{PORT}", 200),
        ("agents.example:99", 403),
        ("192.168.0.9:99", 403),
    ],
)
def test_a_server_for_others_goes_by_its_addresses_and_the_names_it_was_given(name: str, status: int) -> None:
    with client(store("demo"), token=TOKEN, host="0.0.0.0", others=("agents.example",)) as started:
        headers = {"Host": name, "Authorization": f"Bearer {TOKEN}"}
        assert started.get("/threads", headers=headers).status_code == status


# The store.


def test_secrets_are_masked_and_nothing_reveals_them() -> None:
    with client(store("values")) as started:
        for path in (
            "log?values=true",
            "state/secret?text=true",
            "diff?from=0&text=true",
        ):
            answer = started.get(f"/threads/values/{path}")
            assert answer.status_code == 200
            assert "masked" in answer.text
            assert not any(secret in answer.text for secret in ("correct horse", "battery staple"))


def test_a_store_that_cannot_be_read_is_503_and_shows_no_password() -> None:
    with client("postgresql://reader:s3cr3t@127.0.0.1:1/agents") as started:
        answer = started.get("/threads/demo/turns")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert "s3cr3t" not in answer.text


def test_each_request_reads_the_state_of_its_time(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    assert run("record", "demo", "--turns", "1", "--to", str(path), "--store", store("demo")).code == 0
    with client(str(path)) as started:
        assert started.get("/threads/demo/turns").json()["total"] == 1
        again = run("record", "demo", "--to", str(path), "--force", "--store", store("demo"))
        assert again.code == 0
        assert started.get("/threads/demo/turns").json()["total"] == 3


def test_no_two_requests_use_a_saver_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is the application's own object, and may be fit for one thread."""
    from turnstate_backends import stores

    now = 0
    most = 0
    really = stores.open_store

    @contextmanager
    def counted(*args: Any, **more: Any) -> Iterator[Any]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        with really(*args, **more) as opened:
            yield opened
        now -= 1

    monkeypatch.setattr(stores, "open_store", counted)
    copy = tmp_path / "demo.db"  # SqliteSaver writes when it reads
    copy.write_bytes(Path(store("demo")).read_bytes())
    address = named(monkeypatch, lambda: SqliteSaver.from_conn_string(str(copy)))
    with client(address) as started, ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: started.get("/threads/demo/chart").status_code, range(12)))
    assert (set(told), most) == ({200}, 1)


@pytest.mark.parametrize("name", ["demo", "values", "deltas"])
def test_a_damaged_store_has_an_answer_or_a_reason(name: str, tmp_path: Path) -> None:
    whole = Path(store(name)).read_bytes()
    path = tmp_path / "damaged.db"
    path.write_bytes(whole)
    chance = random.Random(name)
    with client(str(path)) as started:
        threads = [quote(each["thread"], safe="") for each in started.get("/threads").json()]
        seen = set()
        for _ in range(12):
            damaged = bytearray(whole)
            for _ in range(30):
                damaged[chance.randrange(4096, len(whole))] = chance.randrange(256)
            path.write_bytes(damaged)
            for what in (
                "turns",
                "chart",
                "log?values=true",
                "diff?from=0&text=true",
                "gaps",
                "state/plan?text=true",
            ):
                answer = started.get(f"/threads/{threads[0]}/{what}")
                assert answer.json()
                seen.add(answer.status_code)
    assert 503 in seen
    assert seen <= {200, 404, 410, 422, 503}


def test_a_store_is_left_as_it_was(tmp_path: Path) -> None:
    path = copy_db(Path(store("demo")), tmp_path)
    before = held(tmp_path)
    with client(str(path)) as started:
        for what in ("turns", "keys", "chart", "log", "diff", "gaps", "state/plan"):
            assert started.get(f"/threads/demo/{what}").status_code == 200
    assert held(tmp_path) == before


def test_requests_at_once_get_what_each_asked_for(odd: TestClient) -> None:
    asked = [(key, turn) for key in hostile.TEXTS for turn in (1, 2)] * 3

    def ask(place: tuple[str, int]) -> str:
        key, turn = place
        answer = odd.get(f"/threads//state/{quote(key, safe='')}?turn={turn}")
        return str(answer.json()["value"])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, asked)) == [f"{key} {turn}" for key, turn in asked]


def test_a_defect_is_told_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("s3cr3t")

    monkeypatch.setattr(Source, "turns", broken)
    with client(store("demo")) as started:
        answer = started.get("/threads/demo/turns")
    assert (answer.status_code, "s3cr3t" in answer.text) == (500, False)
    assert "RuntimeError" in answer.json()["detail"]


def test_postgres_answers_the_same_and_takes_a_name_that_it_cannot_hold(pg_dsn: str) -> None:
    record_to_postgres("demo", pg_dsn)
    with client(pg_dsn) as started:
        found = started.get(f"/threads/demo/state/{BBOX}?turn=1").json()
        assert (found["value"], found["turns_written"]) == ([12.4, 55.5, 12.7, 55.8], [1, 3])
        for name in ("%00", "a%00b"):
            assert started.get(f"/threads/{name}/turns").status_code == 404
            assert started.get(f"/threads/demo/state/{name}").status_code == 404


# The description.


PATHS = {
    "/threads",
    *(
        f"/threads/{{thread}}/{what}"
        for what in ("turns", "keys", "chart", "state/{key}", "log", "diff", "gaps")
    ),
}


def test_answers_are_as_they_are_described_whatever_is_asked() -> None:
    import schemathesis  # takes seconds
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    app = application(
        Source(store("demo-pruned"), messages="messages"),
        admission("127.0.0.1", PORT, others=("testserver",), token=None),
    )
    operations = [
        each.ok() for each in schemathesis.openapi.from_asgi("/openapi.json", app).get_all_operations()
    ]
    assert {operation.path for operation in operations} == PATHS
    # Valid questions may be refused, such as one for turns out of order; and 410 is an answer.
    but = [check for check in CHECKS.get_all() if check.__name__ == "positive_data_acceptance"]
    seen = set()

    def ask(case: Any, thread: str | None, key: str | None) -> None:
        if thread is not None and "thread" in case.path_parameters:
            case.path_parameters["thread"] = thread
            case.query = {name: value for name, value in (case.query or {}).items() if name != "thread"}
        if key is not None and "key" in case.path_parameters:
            case.path_parameters["key"] = key
        seen.add(case.call_and_validate(excluded_checks=but).status_code)

    for operation in operations:
        bounds = settings(
            max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        names = st.sampled_from(["demo", None]), st.sampled_from(["plan", None])
        bounds(given(operation.as_strategy(), *names)(ask))()
    assert {200, 404} <= seen <= {200, 400, 404, 410}


# The command.


def test_ctrl_c_ends_it_with_130_and_a_taken_port_is_told(tmp_path: Path) -> None:
    server = subprocess.Popen(
        command("serve", "--store", store("demo"), "--port", "0"),
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert server.stderr is not None
        line = server.stderr.readline()
        port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(
                f"GET /threads HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
            )
            told = b"".join(iter(lambda: connection.recv(65536), b""))
        assert told.startswith(b"HTTP/1.1 200 OK")
        assert json.loads(told.partition(b"\r\n\r\n")[2])[0]["thread"] == "demo"
        taken = run("serve", "--store", store("demo"), "--port", str(port))
        assert (taken.code, taken.err.splitlines()[1].strip()) == (2, "Address already in use")
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=20) == 130
        assert server.stderr.read() == ""
    finally:
        server.kill()
        server.wait()


def test_beyond_this_machine_no_token_is_refused() -> None:
    for nothing in ("", " \n"):
        refused = run(
            "serve", "--store", store("demo"), "--host", "0.0.0.0", env={"TURNSTATE_TOKEN": nothing}
        )
        assert (refused.code, "TURNSTATE_TOKEN" in refused.err) == (2, True)


def test_a_token_that_is_no_utf8_fits_as_it_was_given() -> None:
    token = "caf\udce9"  # as Python has b"caf\xe9" from the environment
    for shown, fits in ((b"Bearer caf\xe9", True), ("Bearer café".encode(), False)):
        assert shows_token({"headers": [(b"authorization", shown)]}, token) is fits


def test_a_token_from_a_file_fits_without_its_newline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTATE_TOKEN", "a long random text\n")
    assert token_for("0.0.0.0") == "a long random text"


def test_a_store_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    assert run("serve", "--store", str(tmp_path / "none.db"), "--port", "0").code == 2


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnstate.commands import listening

    monkeypatch.setattr(listening, "find_spec", lambda _name: None)
    told = run("serve", "--store", store("demo"))
    assert told.code == 2
    assert "pip install 'turnstate[serve]'" in told.err
