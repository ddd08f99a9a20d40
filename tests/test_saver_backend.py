"""What only the way through a saver has: how one is named and opened, what it may do wrong, and what its values become.

What it shares with the other backends is in ``test_store_contract.py`` and ``test_recorded_turns.py``.
"""

from __future__ import annotations

import asyncio
import operator
import sqlite3
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import aiosqlite
import ormsgpack
import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph

from cli_run import Result, run, run_process
from delta_graphs import extend
from recorded import as_noted, copy_db, record_to_memory, recording
from savers import named
from scenarios.values import AES_KEY
from turnstate.history.accumulate import RULES
from turnstate.history.jsonform import jsonable
from turnstate.history.places import turn_place
from turnstate.history.reading import read
from turnstate.history.thread import History
from turnstate_backends.interface import StoreError
from turnstate_backends.payload import decode
from turnstate_backends.stores import open_store
from turnstate_backends.values import Absent, Stored

PASSWORD = "s3cret-pw"


def saver_with(values: dict[str, Any], *, cls: type[InMemorySaver] = InMemorySaver) -> InMemorySaver:
    """A saver that holds one checkpoint ``1`` of thread ``t``; a value is given back as it is, never stored."""

    class Given(cls):  # type: ignore[valid-type, misc]
        def _load_blobs(self, *_: Any) -> dict[str, Any]:
            return values

    saver = Given()
    put(saver, "1", versions=dict.fromkeys(values, "1"))
    return saver


def put(saver: BaseCheckpointSaver[Any], id: str, *, thread: str = "t", versions: Any = None) -> None:
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    checkpoint = {**empty_checkpoint(), "id": id, "channel_versions": versions or {}}
    saver.put(config, checkpoint, {"source": "input", "step": -1}, {})  # type: ignore[arg-type]


def opened_with(monkeypatch: pytest.MonkeyPatch, attribute: Any) -> list[str]:
    """The threads of a saver that an attribute leads to."""
    with open_store(named(monkeypatch, attribute)) as store:
        return [row.id for row in store.threads()]


def refused(monkeypatch: pytest.MonkeyPatch, attribute: Any) -> StoreError:
    with pytest.raises(StoreError) as caught, open_store(named(monkeypatch, attribute)) as store:
        list(store.checkpoints("t", ""))
    return caught.value


# How a saver is named and opened.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return copy_db(recording("demo").path, tmp_path)


def sync_cm(path: str) -> Any:
    return SqliteSaver.from_conn_string(path)


def async_cm(path: str) -> Any:
    return AsyncSqliteSaver.from_conn_string(path)


async def in_coroutine(path: str) -> Any:
    return SqliteSaver.from_conn_string(path)


@contextmanager
def own_cm(path: str) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(path)) as connection:
        yield SqliteSaver(connection)


@asynccontextmanager
async def own_async_cm(path: str) -> AsyncIterator[AsyncSqliteSaver]:
    async with asyncio.TaskGroup(), aiosqlite.connect(path) as connection:
        yield AsyncSqliteSaver(connection)


@pytest.mark.parametrize("make", [sync_cm, async_cm, in_coroutine, own_cm, own_async_cm])
@pytest.mark.parametrize("called", [False, True], ids=["made", "factory"])
def test_a_saver_is_reached_through_context_managers_coroutines_and_factories_sync_or_async(
    make: Callable[[str], Any], called: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attribute = (lambda: make(str(path))) if called else make(str(path))
    assert opened_with(monkeypatch, attribute) == ["demo"]


def test_an_instance_is_used_as_it_is_and_a_class_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    saver = saver_with({})
    assert opened_with(monkeypatch, saver) == ["t"]
    assert opened_with(monkeypatch, InMemorySaver) == []


def test_a_context_manager_is_left_when_the_store_is_closed_by_the_task_that_entered_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    @asynccontextmanager
    async def manager() -> AsyncIterator[InMemorySaver]:
        seen.append(asyncio.current_task())
        yield saver_with({})
        seen.append(asyncio.current_task())

    store = open_store(named(monkeypatch, manager))
    assert len(seen) == 1
    assert list(store.checkpoints("t", ""))
    store.close()
    store.close()
    assert len(seen) == 2
    assert seen[0] is seen[1]


def test_an_async_saver_that_was_made_on_a_loop_which_no_longer_runs_is_read_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def make() -> AsyncSqliteSaver:
        return AsyncSqliteSaver(aiosqlite.connect(str(path)))

    saver = asyncio.run(make())
    try:
        assert opened_with(monkeypatch, saver) == ["demo"]
    finally:
        asyncio.run(saver.conn.close())


class InThreads(InMemorySaver):
    """An async saver that works on the loop it was made for, which nobody runs meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()

    async def alist(self, config: Any, **_: Any) -> AsyncIterator[CheckpointTuple]:
        for row in await self.loop.run_in_executor(None, lambda: list(super(InThreads, self).list(config))):
            yield row

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return await self.loop.run_in_executor(None, super().get_tuple, config)

    def list(self, config: Any, **_: Any) -> Any:
        raise AssertionError("would wait for the loop for ever")


def test_an_async_saver_that_brings_its_loop_is_read_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    saver = InThreads()
    put(saver, "1", versions={"a": "1"})
    with open_store(named(monkeypatch, saver)) as store:
        assert [row.id for row in store.threads()] == ["t"]
        assert store.values("t", "", "1") == {"a": Absent("empty")}


class Stub(BaseCheckpointSaver[str]):
    """The base class's methods."""


class SyncOnly(Stub):
    def list(self, config: Any, **_: Any) -> Iterator[CheckpointTuple]:
        return iter(())

    def get_tuple(self, config: Any) -> None:
        return None


class AsyncOnly(Stub):
    async def alist(self, config: Any, **_: Any) -> AsyncIterator[CheckpointTuple]:
        for row in ():
            yield row

    async def aget_tuple(self, config: Any) -> None:
        return None


class SyncRefuses(AsyncOnly):
    def list(self, config: Any, **_: Any) -> Any:
        raise NotImplementedError("use alist")

    def get_tuple(self, config: Any) -> Any:
        raise NotImplementedError("use aget_tuple")


@pytest.mark.parametrize("cls", [SyncOnly, AsyncOnly, SyncRefuses])
def test_the_methods_that_a_saver_has_are_used_sync_or_async(
    cls: type[Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert opened_with(monkeypatch, cls()) == []


def test_nothing_that_could_write_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    class Watched(InMemorySaver):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if callable(found) and name in dir(BaseCheckpointSaver) and not name.startswith("_"):
                called.append(name)
            return found

        def setup(self) -> None:
            raise AssertionError

        def __enter__(self) -> Any:
            raise AssertionError

    saver = Watched()
    put(saver, "1")
    called.clear()
    with open_store(named(monkeypatch, saver)) as store:
        assert store.threads()
        assert store.values("t", "", "1") == {}
        assert list(store.writes("t", "", head=None)) == []
    assert set(called) - {"with_allowlist"} == {"list", "get_tuple"}


@pytest.mark.parametrize(
    ("attribute", "kind"), [("text", "builtins.str"), (lambda: 5, "builtins.int"), ([], "builtins.list")]
)
def test_what_leads_to_no_saver_is_refused_by_its_kind(
    attribute: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refused(monkeypatch, attribute)
    assert error.what.endswith("is no checkpoint saver")
    assert error.why == f"it is a {kind}"


def test_a_saver_without_any_reading_method_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(monkeypatch, Stub())
    assert error.why == "Stub has neither list and get_tuple nor alist and aget_tuple"


def test_without_langgraph_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    address = named(monkeypatch, None)
    monkeypatch.setitem(__import__("sys").modules, "langgraph.checkpoint.base", None)
    with pytest.raises(StoreError) as caught:
        open_store(address)
    assert caught.value.hint == "Install turnstate with its extra: turnstate[langgraph]."


# Failures.


def failing(*_: Any, **__: Any) -> Any:
    raise ValueError(
        f"cannot connect\nto postgresql://u:{PASSWORD}@h/db with password='{PASSWORD}' pwd={PASSWORD}"
    )


@contextmanager
def failing_cm() -> Iterator[Any]:
    failing()
    yield


@asynccontextmanager
async def failing_async_cm() -> AsyncIterator[Any]:
    failing()
    yield


class Broken(InMemorySaver):
    list = failing  # type: ignore[assignment]


@pytest.mark.parametrize("attribute", [failing, failing_cm, failing_async_cm, Broken()])
def test_a_failure_of_the_users_code_is_told_in_one_line_without_its_passwords(
    attribute: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refused(monkeypatch, attribute)
    assert error.why == "ValueError: cannot connect to postgresql://u:***@h/db with password=*** pwd=***"


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (asyncio.CancelledError(), "CancelledError"),
        (
            BaseExceptionGroup("many", [asyncio.CancelledError()]),
            "BaseExceptionGroup: many (1 sub-exception)",
        ),
        (GeneratorExit(), "GeneratorExit"),
        (SystemExit(0), "SystemExit: 0"),
        (Mute(), "Mute"),
        (ValueError("a " * 1000), "ValueError: " + "a " * 149 + "…"),
    ],
)
@pytest.mark.parametrize("step", ["open", "read", "leave"])
def test_whatever_the_users_code_raises_is_a_failure_of_the_saver_and_after_the_answer_none(
    error: BaseException, why: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(InMemorySaver):
        def list(self, *_: Any, **__: Any) -> Any:
            if step == "read":
                raise error
            return iter(())

    @contextmanager
    def manager() -> Iterator[Any]:
        if step == "open":
            raise error
        yield Failing()
        if step == "leave":
            raise error

    if step == "leave":
        assert opened_with(monkeypatch, manager) == []
    else:
        assert refused(monkeypatch, manager).why == why


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (f"raise OSError('redis://:{PASSWORD}@h is down')", "OSError: redis://:***@h is down"),
        ("raise SystemExit('usage: app')", "SystemExit: usage: app"),
        ("import there_is_no_such_module", "ModuleNotFoundError: No module named 'there_is_no_such_module'"),
        ("__import__('os').environ['NO_SUCH_SETTING']", "KeyError: 'NO_SUCH_SETTING'"),
        ("", "AttributeError: module 'app' has no attribute 'saver'"),
    ],
)
def test_a_module_that_cannot_be_imported_ends_the_command_plainly(
    code: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(code)
    done = run_process("threads", "--store", "saver:app:saver", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        "turnstate: saver:app:saver cannot be imported",
        f"  {why}",
        "  Give saver:module:attribute as Python imports it, in the folder that holds the module.",
    ]


def test_what_the_module_of_a_saver_left_open_is_closed_as_the_program_ends(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import sqlite3\nfrom langgraph.checkpoint.sqlite import SqliteSaver\n"
        "log = open('app.log', 'w')\nlog.write('started')\n"
        "saver = SqliteSaver(sqlite3.connect('store.db', check_same_thread=False))\n"
        "def logged(): return log\n"  # refers to the module's names, which thereby hold themselves
    )
    assert run_process("threads", "--store", "saver:app:saver", cwd=tmp_path).code == 0
    assert (tmp_path / "app.log").read_text() == "started"
    assert {path.name for path in tmp_path.glob("store.db*")} == {"store.db"}


class OneThreadOnly(InMemorySaver):
    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        return super().list({"configurable": {**config["configurable"]}}, **asked)


def test_a_saver_that_cannot_list_all_threads_says_so_and_reads_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = named(monkeypatch, saver_with({"plan": "walk"}, cls=OneThreadOnly))
    done = run("threads", "--store", address)
    assert done.code == 2
    assert done.err.splitlines()[1:] == [
        "  TypeError: 'NoneType' object is not subscriptable",
        "  Name a thread: turns, keys, show, log and diff take one.",
    ]
    assert run("show", "t", "plan", "--checkpoint", "1", "--store", address).out == "walk\n"
    missed = run("turns", "nobody", "--store", address)
    assert (missed.code, missed.err) == (4, "no_such_thread: the store has no thread 'nobody'\n")


# What a saver may do otherwise than it was asked.


class Deaf(InMemorySaver):
    """Lists all that it has whatever is asked, and gives its newest row for each id."""

    def list(self, config: Any, **_: Any) -> Iterator[CheckpointTuple]:
        return super().list(None)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        at = {**config["configurable"]}
        del at["checkpoint_id"]
        return super().get_tuple({"configurable": at})


def test_rows_that_were_not_asked_for_are_not_taken_for_those_that_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saver = saver_with({"a": 1}, cls=Deaf)
    put(saver, "2", versions={"a": "2"})
    put(saver, "3", thread="u")
    with open_store(named(monkeypatch, saver)) as store:
        assert {row.id for row in store.checkpoints("t", "")} == {"1", "2"}
        found = dict(store.along("t", "", ["1", "2"], ["a", "b"]))
    assert decode(found["2"]["a"]) == 1  # type: ignore[arg-type]
    assert found["1"] == {
        "a": Absent("value_missing", {"reason": "the saver no longer gives this checkpoint"})
    }


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (lambda row: row._asdict(), "AttributeError: 'dict' object has no attribute 'config'"),
        (lambda row: row._replace(config={}), "KeyError: 'configurable'"),
    ],
)
def test_what_is_no_checkpoint_tuple_is_a_failure_of_the_saver_in_a_listing_and_alone(
    changed: Callable[[Any], Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lists(InMemorySaver):
        def list(self, *asked: Any, **more: Any) -> Iterator[CheckpointTuple]:
            return map(changed, super().list(*asked, **more))

    class Gives(InMemorySaver):
        def get_tuple(self, config: Any) -> CheckpointTuple | None:
            return changed(super().get_tuple(config))

    assert refused(monkeypatch, saver_with({}, cls=Lists)).why == why
    with open_store(named(monkeypatch, saver_with({"a": 1}, cls=Gives))) as store:
        with pytest.raises(StoreError) as caught:
            store.values("t", "", "1")
        assert caught.value.why == why


def test_names_and_tasks_that_are_no_text_are_read_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    class Numbered(InMemorySaver):
        def list(self, *asked: Any, **more: Any) -> Iterator[CheckpointTuple]:
            return (row._replace(pending_writes=[(7, 5, "v")]) for row in super().list(*asked, **more))

    with open_store(named(monkeypatch, saver_with({}, cls=Numbered))) as store:
        (write,) = store.writes("t", "")
    assert (write.task, write.channel) == ("7", "5")


class RootUnlessNamed(InMemorySaver):
    """Lists the root namespace where none is named."""

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        at = {"checkpoint_ns": "", **(config or {"configurable": {"thread_id": "t"}})["configurable"]}
        return super().list({"configurable": at}, **asked)


def test_a_namespace_that_a_listing_of_the_thread_lacks_is_listed_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saver = RootUnlessNamed()
    put(saver, "1")
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": "sub:1"}}
    saver.put(config, {**empty_checkpoint(), "id": "2"}, {}, {})  # type: ignore[arg-type]
    with open_store(named(monkeypatch, saver)) as store:
        assert [row.id for row in store.checkpoints("t", "")] == ["1"]
        assert [row.id for row in store.checkpoints("t", "sub:1")] == ["2"]


def test_a_thread_id_that_is_a_number_in_the_saver_is_found_by_its_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saver = InMemorySaver()
    put(saver, "1", thread=7, versions={"a": "1"})  # type: ignore[arg-type]
    with open_store(named(monkeypatch, saver)) as store:
        assert [row.id for row in store.threads()] == ["7"]
        assert store.values("7", "", "1") == {"a": Absent("empty")}
        assert store.threads(thread="9" * 5000) == []


# Values.


class Odd:
    """Nothing that a serialiser knows."""


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (Odd(), "test_saver_backend.Odd", "Type is not msgpack serializable: Odd"),
        ({"inside": [Odd()]}, "builtins.dict", "Type is not msgpack serializable: Odd"),
        ({2**70: 1}, "builtins.dict", "Integer exceeds 64-bit range"),
    ],
)
def test_an_object_that_no_payload_can_hold_is_absent_by_its_class_and_the_rest_is_read(
    value: Any, kind: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(named(monkeypatch, saver_with({"odd": value, "plain": 1}))) as store:
        found = store.values("t", "", "1")
    assert found["odd"] == Absent(
        "undecodable", {"type": kind, "reason": f"LangGraph's serialiser cannot encode it: {reason}"}
    )
    assert decode(found["plain"]) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2**70, [-(2**64), {"a": 2**65, "b": None}]])
def test_a_number_beyond_64_bits_keeps_its_value(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(named(monkeypatch, saver_with({"n": value}))) as store:
        assert decode(store.values("t", "", "1")["n"]) == value  # type: ignore[arg-type]


def test_a_write_that_no_payload_can_hold_is_told_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Given(InMemorySaver):
        def _ordered_writes(self, *_: Any) -> Any:
            return [("task", "a", Odd(), ""), ("task", "b", ("msgpack", b"\x01"), "")]

    class Serde(JsonPlusSerializer):
        def loads_typed(self, data: Any) -> Any:
            return data if isinstance(data, Odd) else super().loads_typed(data)

    saver = Given(serde=Serde())
    put(saver, "1")
    with open_store(named(monkeypatch, saver)) as store:
        odd, plain = store.writes("t", "", head=None)
    assert decode(plain.value) == 1
    assert decode(odd.value).stored["type"] == "object test_saver_backend.Odd"


def test_what_the_encrypting_serialiser_reads_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = recording("encrypted")
    path = copy_db(recorded.path, tmp_path)
    with open_store(named(monkeypatch, sync_cm(str(path)))) as store, pytest.raises(StoreError) as caught:
        store.threads()
    assert caught.value.why == "NotImplementedError: Unknown serialization type: msgpack+aes"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection, serde=EncryptedSerializer.from_pycryptodome_aes(key=AES_KEY))
        with open_store(named(monkeypatch, saver)) as store:
            for thread in recorded.threads.values():
                for turn in (each for each in thread.turns if each.retained):
                    found = store.values(thread.id, "", turn.last_checkpoint)
                    for channel in turn.written:
                        value = found[channel]
                        assert isinstance(value, Stored)
                        assert as_noted(jsonable(decode(value))) == turn.state[channel]


def test_parallel_writes_of_a_delta_channel_add_up_in_langgraphs_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class State(TypedDict, total=False):
        trail: Annotated[list[str], DeltaChannel(extend, list, snapshot_frequency=1000)]
        ticks: Annotated[int, operator.add]

    builder = StateGraph(State)
    for name in "abcdefgh":
        builder.add_node(name, lambda _, name=name: {"trail": [name], "ticks": 1})  # type: ignore[misc]
        builder.add_edge(START, name)
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    for _ in range(3):
        graph.invoke({"ticks": 0}, config)
    expected = graph.get_state(config).values["trail"]
    assert expected == [*"abcdefgh"] * 3
    with open_store(named(monkeypatch, saver)) as store:
        history = History(store, "t", reducers={"trail": RULES["extend"]})
        found = history.values(history.forest.head)["trail"]
    assert isinstance(found, Stored)
    assert decode(found) == expected


class Large(InMemorySaver):
    """Sixty rows of a megabyte of state and a megabyte of writes, made as they are asked for."""

    def list(self, config: Any, **asked: Any) -> Iterator[CheckpointTuple]:
        return (self._row(f"{n:02}") for n in range(60))

    def get_tuple(self, config: Any) -> CheckpointTuple:
        return self._row(config["configurable"]["checkpoint_id"])

    def _row(self, id: str) -> CheckpointTuple:
        place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}}
        state = {"big": id * 500_000}
        checkpoint: Any = {"id": id, "channel_values": state, "channel_versions": {"big": id}}
        return CheckpointTuple(place, checkpoint, {}, None, [("task", "big", id * 500_000)])


def test_no_more_than_a_few_states_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(named(monkeypatch, Large())) as store:
        tracemalloc.start()
        try:
            ids = [row.id for row in store.checkpoints("t", "")]
            for id, found in store.along("t", "", ids):
                value = found["big"]
                assert isinstance(value, Stored)
                assert decode(value) == id * 500_000
            assert [write.value.size for write in store.writes("t", "", head=100)] == [1_000_005] * 60
            assert sum(len(write.value.data) for write in store.writes("t", "", head=None)) == 60 * 1_000_005
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(ids) == 60
    assert peak < 20_000_000


# The saver's deserialiser.

APP = """
from langgraph.checkpoint.sqlite import SqliteSaver
print("app says \\x1b[31mhello")
saver = SqliteSaver.from_conn_string("store.db")
"""


def _ext(code: int, *parts: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, ormsgpack.packb(parts))


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with a store whose payload names a class, with a module of that name that notes when it is built."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "planted.py").write_text(
        "class Bomb:\n    def __init__(self, word):\n        open('built', 'w').close()\n        self.word = word\n"
        "    def dict(self):\n        return {'word': self.word}\n"
    )
    state = {
        "bomb": _ext(0, "planted", "Bomb", "word"),
        "key": _ext(0, "pydantic.types", "SecretStr", PASSWORD),
        "odd": _ext(0, "planted", "\x1b[2J", 5),
    }
    checkpoint = {"v": 4, "id": "1", "ts": "2026-01-01T00:00:00+00:00", "channel_values": state}
    checkpoint |= {"channel_versions": dict.fromkeys(state, "1"), "versions_seen": {}}
    with SqliteSaver.from_conn_string(str(tmp_path / "store.db")) as saver:
        saver.setup()
        saver.conn.execute(
            "INSERT INTO checkpoints VALUES ('t', '', '1', NULL, 'msgpack', ?, NULL)",
            (ormsgpack.packb(checkpoint),),
        )
        saver.conn.commit()
    return tmp_path


def show(folder: Path, *keys: str, env: dict[str, str] | None = None) -> Result:
    argv = ("show", "t", *keys, "--checkpoint", "1", "--json", "--store", "saver:app:saver")
    return run_process(*argv, cwd=folder, env=env)


def test_a_class_that_a_payload_names_is_not_built_and_its_argument_is_shown(planted: Path) -> None:
    done = show(planted, "bomb")
    assert (done.code, done.document["value"]) == (0, "word")
    assert not (planted / "built").exists()


@pytest.mark.parametrize("value", ["true", "1", None])
def test_a_deserialiser_that_is_not_strict_is_refused_unless_the_user_says_so(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = named(monkeypatch, InMemorySaver())  # LangGraph has been imported without
    if value is None:
        monkeypatch.delenv("LANGGRAPH_STRICT_MSGPACK")
    else:
        monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", value)
    with pytest.raises(StoreError) as caught:
        open_store(address)
    assert caught.value.what == f"{address} would be read without strict deserialisation"


def test_it_is_built_where_the_user_turns_strictness_off(planted: Path) -> None:
    done = show(planted, "bomb", env={"LANGGRAPH_STRICT_MSGPACK": "false"})
    assert done.document["value"] == {"$type": "planted.Bomb", "$value": {"word": "word"}}
    assert (planted / "built").exists()


def test_a_secret_stays_masked_under_a_strict_deserialiser(planted: Path) -> None:
    done = show(planted, "key")
    assert done.document["value"]["$type"] == "pydantic.types.SecretStr"
    assert PASSWORD not in done.out + done.err


def test_what_the_users_code_and_the_deserialiser_print_goes_to_stderr_and_moves_no_cursor(
    planted: Path,
) -> None:
    done = show(planted, "odd")
    assert done.document["value"] == 5
    assert "\x1b" not in done.err
    assert r"app says \x1b[31mhello" in done.err
    assert r"Blocked deserialization of planted.\x1b[2J" in done.err


def test_a_connection_that_nobody_closes_does_not_keep_the_program_from_ending(planted: Path) -> None:
    (planted / "app.py").write_text(
        "import aiosqlite\nfrom langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver\n"
        "async def saver():\n    return AsyncSqliteSaver(await aiosqlite.connect('store.db'))\n"
    )
    assert show(planted, "key").code == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_another_database_is_read_through_its_saver(
    is_async: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lmdb = pytest.importorskip("lmdb")
    savers = pytest.importorskip("langgraph_checkpoint_lmdb.lmdb")
    with lmdb.open(str(tmp_path / "store"), max_dbs=2, map_size=1 << 26) as environment:
        writing = savers.LMDBSaver(environment)
        recorded = record_to_memory("plain", writing)

        async def reading() -> Any:
            return savers.AsyncLMDBSaver(environment)

        with open_store(named(monkeypatch, reading if is_async else writing)) as store:
            (thread,) = recorded.threads.values()
            history = History(store, thread.id)
            assert history.turns.total == thread.total
            for turn in thread.turns:
                assert history.turns.turns[turn.turn].question == turn.question
                held = read(history, "plan", turn_place(history, turn.turn))
                assert (held.value, held.checkpoint) == (turn.state["plan"], turn.last_checkpoint)


@pytest.mark.parametrize("name", ["demo", "forks", "trimmed", "deltas"])
def test_every_verb_gives_the_same_as_for_the_file_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_db(recording(name).path, tmp_path)
    address = named(monkeypatch, lambda: SqliteSaver.from_conn_string(str(path)))
    thread = next(iter(recording(name).threads))
    for argv in (
        ["threads"],
        ["turns", thread],
        ["keys", thread],
        ["show", thread, "*"],
        ["log", thread],
        ["diff", thread, "--turns", "0.."],
        ["gaps", thread],
        ["branches", thread],
    ):
        through, directly = (run(*argv, "--json", "--store", each) for each in (address, str(path)))
        assert (through.code, through.document) == (0, directly.document), argv


def test_of_writes_on_deleted_checkpoints_no_saver_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_db(recording("retention").path, tmp_path)
    address = named(monkeypatch, lambda: SqliteSaver.from_conn_string(str(path)))
    through, directly = (
        run("gaps", "front", "--json", "--store", each).document for each in (address, str(path))
    )
    assert (through["orphans"]["writes"], directly["orphans"]["writes"]) == (0, 20)
    assert through["retained"] == directly["retained"] == [4, 5]
