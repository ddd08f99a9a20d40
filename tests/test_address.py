"""Addresses that a user types: what they mean, and that no password of theirs is ever shown."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from turnstate_backends.address import PostgresAddress, SaverAddress, SqliteAddress, parse
from turnstate_backends.interface import StoreError
from turnstate_backends.stores import open_store


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///rel.db", "rel.db"),
        ("sqlite:///folder/rel.db", "folder/rel.db"),
        ("sqlite:////abs/a b.db", "/abs/a b.db"),
        ("sqlite:///a%20b.db", "a%20b.db"),
        ("sqlite:///x.db?check_same_thread=false", "x.db"),
        ("sqlite+aiosqlite:///x.db", "x.db"),
        ("sqlite:///file:x%20y.db?mode=ro&uri=true", "x y.db"),
        ("SQLite:///x.db", "x.db"),
        ("x.db", "x.db"),
        ("folder/with space/x?mode=ro#1 %20.db", "folder/with space/x?mode=ro#1 %20.db"),
        ("/abs/x.db", "/abs/x.db"),
        ("./host=x", "host=x"),
        ("a=b.db", "a=b.db"),
        ("thread:1.db", "thread:1.db"),
        ("file:rel%20a.db?mode=ro", "rel a.db"),
        ("file:/abs/x.db", "/abs/x.db"),
        ("file:///abs/x%3F.db?immutable=1#f", "/abs/x?.db"),
        ("file://localhost/abs/x.db", "/abs/x.db"),
    ],
)
def test_a_sqlite_address_names_this_file(text: str, path: str) -> None:
    assert parse(text) == SqliteAddress(Path(path), text)


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse("~/x.db") == SqliteAddress(Path("/home/someone/x.db"), "~/x.db")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("sqlite://", "Write sqlite:///FILE."),
        ("sqlite://rel.db", "Write sqlite:///rel.db, or just the path of the file."),
        ("sqlite:rel.db", "Write sqlite:///rel.db, or just the path of the file."),
        ("file://server/x.db", "Write file:///ABSOLUTE/PATH or file:RELATIVE/PATH."),
    ],
)
def test_an_odd_sqlite_address_is_refused_with_the_right_spelling(text: str, hint: str) -> None:
    with pytest.raises(StoreError) as caught:
        parse(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "text", [":memory:", "sqlite:///:memory:", "sqlite:///", "file:", "", "  ", "x\0.db"]
)
def test_an_address_of_no_file_is_refused(text: str) -> None:
    with pytest.raises(StoreError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("postgresql://", {}),
        ("postgres://h", {"host": "h"}),
        ("postgresql:///db", {"dbname": "db"}),
        (
            "postgresql+psycopg://u:p%40s%25@h:5433/d%20b?sslmode=require",
            {
                "user": "u",
                "password": "p@s%",
                "host": "h",
                "port": "5433",
                "dbname": "d b",
                "sslmode": "require",
            },
        ),
        ("postgresql+psycopg2://u@h/db", {"user": "u", "host": "h", "dbname": "db"}),
        ("postgresql+asyncpg://h/db?ssl=require", {"host": "h", "dbname": "db", "sslmode": "require"}),
        ("POSTGRES://h/db", {"host": "h", "dbname": "db"}),
        ("postgresql://u:50%off@h/db", {"user": "u", "password": "50%off", "host": "h", "dbname": "db"}),
        ("postgresql://u:p@ss:w#@h/db", {"user": "u", "password": "p@ss:w#", "host": "h", "dbname": "db"}),
        ("postgresql://[::1]:5/db", {"host": "::1", "port": "5", "dbname": "db"}),
        ("postgresql://a:1,b/db", {"host": "a,b", "port": "1,", "dbname": "db"}),
        ("postgresql://%2Frun%2Fpg/db", {"host": "/run/pg", "dbname": "db"}),
        (
            "postgresql:///db?host=/run/pg&password=a%26b",
            {"dbname": "db", "host": "/run/pg", "password": "a&b"},
        ),
        ("service=prod", {"service": "prod"}),
        ("postgresql://?service=prod", {"service": "prod"}),
        (
            r"host = h  dbname='my db' password='it\'s \\ a' user=u\ v",
            {"host": "h", "dbname": "my db", "password": r"it's \ a", "user": "u v"},
        ),
        ("host=h password=", {"host": "h", "password": ""}),
    ],
)
def test_a_postgresql_address_gives_these_parameters(text: str, params: dict[str, str]) -> None:
    address = parse(text)
    assert isinstance(address, PostgresAddress)
    assert address.params == params


@pytest.mark.parametrize(
    ("text", "display"),
    [
        ("postgresql://", "postgresql://"),
        ("postgres://u:secret@h:5/db?sslmode=require", "postgresql://u@h:5/db?sslmode=require"),
        ("postgresql+psycopg://u:se@cret@a:1,b:2/db", "postgresql://u@a:1,b:2/db"),
        ("postgresql://[::1]:5/d%2Fb", "postgresql://[::1]:5/d%2Fb"),
        ("postgresql://u@/db?host=/run/pg&password=secret", "postgresql://u@/db?host=/run/pg"),
        ("host=h password='a b' dbname='my db' sslpassword=x", "host=h dbname='my db'"),
        ("service=prod", "service=prod"),
    ],
)
def test_an_address_is_shown_without_its_secrets(text: str, display: str) -> None:
    assert parse(text).display == display


SECRET = "xyz"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:12/xyz@h/db",
        "postgresql://u:xyz/1@h/db",
        "postgresql://u:12?xyz@h/db",
        "postgresql://u:12?xyz=1@h/db",
        "postgresql://u:xyz?1@h/db",
        "postgresql://u:xyz%ff@h/db",
        "postgresql://u:xyz@h/db?nonsense=1",
        "postgresql://u:1@h:xyz/db",
        "postgresql:/u:xyz@h/db",
        "postgresql:u:xyz@h/db",
        "postgresqll://u:xyz@h/db",
        "mysql://u:xyz@h/db",
        "jdbc:postgresql://h/db?password=xyz",
        "'postgresql://u:xyz@h/db'",
        "DATABASE_URL=postgresql://u:xyz@h/db",
        "hosst=h password=xyz",
        "host=h password='xyz",
        "host=h password=a xyz",
        "host=h password=a xyz=b",
        "dbname=postgresql://u:xyz@h/db",
        "sqlite://u:xyz@h/db",
        "saver:xyz",
        "saver:a:postgresql://u:xyz@h/db",
        "saver:a b:xyz",
        "saver::xyz",
        "saver:a:xyz:b",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(text: str) -> None:
    with pytest.raises(StoreError) as caught:
        parse(text)
    error = caught.value
    for line in (error.what, error.why, error.hint):
        assert SECRET not in line
        assert line
        assert "\n" not in line
    assert SECRET not in "".join(traceback.format_exception(error))


def test_a_parameter_of_another_library_is_named() -> None:
    with pytest.raises(StoreError) as caught:
        parse("postgresql://h/db?pgbouncer=true")
    assert caught.value.why == "PostgreSQL's client library does not know 'pgbouncer'"


def test_the_repr_of_an_address_holds_no_password() -> None:
    assert repr(parse("postgresql://u:p%40ss@h/db")) == "PostgresAddress(display='postgresql://u@h/db')"


@pytest.mark.parametrize(
    ("text", "module", "attribute"),
    [
        ("saver:app:saver", "app", "saver"),
        ("saver:app.storage:Stores.make", "app.storage", "Stores.make"),
        (" saver:app:saver ", "app", "saver"),
    ],
)
def test_a_saver_address_names_a_module_and_what_it_calls_the_saver(
    text: str, module: str, attribute: str
) -> None:
    assert parse(text) == SaverAddress(module, attribute, f"saver:{module}:{attribute}")


@pytest.mark.parametrize(("address", "kind"), [("x.db", "a SQLite file"), ("saver:a:b", "a saver")])
def test_a_schema_for_what_has_none_is_refused(address: str, kind: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(address, schema="public")
    assert caught.value.what == f"a schema was given for {kind}"
