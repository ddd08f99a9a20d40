"""Every address a user may type for a store: which backend it means, and what may be shown of it.

Knows the spellings of addresses and nothing else: no file is looked at, no driver is imported until
:func:`open_store` has decided for one. PostgreSQL addresses are taken apart here and not by libpq,
because libpq repeats the text it cannot read, password included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

from msgspec import Struct

from turnstate_backends.interface import StoreError

_FORMS = (
    "Give a SQLite file, sqlite:///FILE, postgresql://USER@HOST/DATABASE, 'host=… dbname=…' "
    "or saver:module:attribute."
)
_ESCAPE_HINT = (
    "Percent-encode it (@ is %40, / is %2F, ? is %3F, : is %3A, % is %25), or set PGPASSWORD instead."
)

# Connection keywords of libpq 18, https://www.postgresql.org/docs/18/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_KEYWORDS = frozenset(
    """
    application_name channel_binding client_encoding connect_timeout dbname fallback_application_name
    gssdelegation gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle
    keepalives_interval krbsrvname load_balance_hosts max_protocol_version min_protocol_version
    oauth_client_id oauth_client_secret oauth_issuer oauth_scope options passfile password port
    replication require_auth requirepeer requiressl scram_client_key scram_server_key service servicefile
    ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl sslcrldir
    sslkey sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni target_session_attrs
    tcp_user_timeout user
    """.split()  # noqa: SIM905
)
_SECRET_KEYWORDS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.:-]*?)://")
_POSTGRES_SCHEME = re.compile(r"postgres(?:ql)?(?:\+\w+)?", re.IGNORECASE)
_SQLITE_SCHEME = re.compile(r"sqlite(?:\+\w+)?", re.IGNORECASE)
_FIRST_KEYWORD = re.compile(r"\s*([A-Za-z_]+)\s*=")
_PASSWORD_INSIDE = re.compile(r"\b(?:password|passwd|pwd)\s*=", re.IGNORECASE)
_CONNINFO_PAIR = re.compile(
    r"\s*([A-Za-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'(?=\s|$)|([^\s'](?:[^\s\\]|\\.)*|))", re.DOTALL
)
_SAVER = re.compile(r"saver:(\w+(?:\.\w+)*):(\w+(?:\.\w+)*)")
_IN_URL = re.compile(r"(://[^\s:/@]*:)\S*@")
_IN_PAIR = re.compile(
    r"""((?:password|passwd|pwd)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&)}]+)""", re.IGNORECASE
)
_HOST_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?")


class SqliteAddress(Struct, frozen=True):
    """A SQLite file.

    Attributes:
        path: The file, ``~`` expanded; relative paths stay relative.
        display: What the user calls it.
    """

    path: Path
    display: str


class PostgresAddress(Struct, frozen=True):
    """A PostgreSQL database.

    Attributes:
        params: libpq keyword → value, decoded; what is not given is left to libpq (PG* variables,
            service and password files). May hold secrets, so it stays out of ``repr``.
        display: The address with every secret removed.
        secrets: Every spelling in which a secret of this address could turn up in a message.
    """

    params: Mapping[str, str]
    display: str
    secrets: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(display={self.display!r})"


class SaverAddress(Struct, frozen=True):
    """A saver that the user's own code makes.

    Attributes:
        module: Dotted name of the module.
        attribute: Name in that module, dotted where it is an attribute of one.
        display: What the user calls it.
    """

    module: str
    attribute: str
    display: str


def parse(text: str) -> SqliteAddress | PostgresAddress | SaverAddress:
    """Tell what ``text`` addresses.

    Read as a path when it begins like one (``/``, ``./``, ``../``, ``~``), and when nothing else fits.
    ``sqlite:///`` takes a path as SQLAlchemy does: three slashes relative, four absolute, not
    percent-decoded, options after ``?`` set aside. ``file:`` is SQLite's URI, percent-decoded.

    Raises:
        StoreError: The address cannot be read, or names a kind of store that is not known.
    """
    if not text.strip() or "\0" in text:
        raise StoreError(
            "no store address was given", "the address is empty or holds a NUL character", _FORMS
        )
    if text.startswith(("/", "./", "../", "~")):
        return _sqlite(text, text)
    if text.lstrip().startswith("saver:"):
        return _saver(text)
    if scheme := _SCHEME.match(text):
        return _url(scheme[1], text[scheme.end() :].rstrip(), text.strip())
    if text.lower().startswith("file:"):
        return _file_uri(text, text)
    if text.lower().startswith(("sqlite:", "sqlite+")):
        raise _bad_sqlite(text)
    keyword = _FIRST_KEYWORD.match(text)
    if (keyword and keyword[1].lower() in _KEYWORDS) or _PASSWORD_INSIDE.search(text):
        return _conninfo(text)
    if "://" in text or re.match(r"\s*[\"']?postgres(ql)?(\+\w+)?:", text, re.IGNORECASE):
        # A mistyped or quoted URL; it may hold a password, so it is not repeated.
        raise StoreError(
            "the store address cannot be read", "it looks like a URL, but does not begin as one", _FORMS
        )
    return _sqlite(text, text)


def _url(scheme: str, rest: str, text: str) -> SqliteAddress | PostgresAddress:
    if _POSTGRES_SCHEME.fullmatch(scheme):
        return _postgres_url(rest)
    if _SQLITE_SCHEME.fullmatch(scheme):
        return _sqlite_url(rest, text)
    if scheme.lower() == "file":
        return _file_uri(text, text)
    raise StoreError(f"a store of the kind {scheme}:// cannot be opened", "the scheme is not known", _FORMS)


def _saver(text: str) -> SaverAddress:
    named = _SAVER.fullmatch(text.strip())
    if named is None:
        raise StoreError(
            "the saver address cannot be read",
            "after saver: come the name of a module, a colon, and a name in that module",
            "Write saver:module:attribute, as in saver:app.storage:make_saver.",
        )
    return SaverAddress(named[1], named[2], named[0])


def _sqlite(path: str, display: str) -> SqliteAddress:
    if path == ":memory:":
        raise StoreError(
            "a SQLite database in memory cannot be opened",
            "it exists only inside the process that made it",
            _FORMS,
        )
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:  # "~name" of no known user is an ordinary file name
        expanded = Path(path)
    return SqliteAddress(expanded, display)


def _sqlite_url(rest: str, text: str) -> SqliteAddress:
    path, _, query = rest.partition("?")
    if not path.startswith("/") or path == "/":
        raise _bad_sqlite(text)
    path = path[1:]
    if path.startswith("file:") and dict(parse_qsl(query)).get("uri") == "true":
        return _file_uri(path, text)
    return _sqlite(path, text)


def _file_uri(text: str, display: str) -> SqliteAddress:
    """SQLite's URI filenames, https://www.sqlite.org/uri.html. Options are set aside."""
    path = re.split("[?#]", text.strip()[len("file:") :], maxsplit=1)[0]
    if path.startswith("//"):
        authority, slash, path = path[2:].partition("/")
        path = slash + path
        if authority not in ("", "localhost"):
            raise StoreError(
                "the file: address names a host",
                "only files of this machine can be opened",
                "Write file:///ABSOLUTE/PATH or file:RELATIVE/PATH.",
            )
    path = unquote(path)
    if not path or "\0" in path:
        raise StoreError("the file: address names no file", "its path is empty", _FORMS)
    return _sqlite(path, display)


def _bad_sqlite(text: str) -> StoreError:
    name = re.sub(r"^[^:]*:/*", "", text.strip()).partition("?")[0]
    if not name or name == ":memory:":
        return StoreError(
            "the sqlite address names no file",
            "what it means is a database in memory",
            "Write sqlite:///FILE.",
        )
    return StoreError(
        "the sqlite address cannot be read",
        "after sqlite: come three slashes and a relative path, or four and an absolute one",
        "Write sqlite:///FILE, or just the path of the file."
        if "@" in name
        else f"Write sqlite:///{name}, or just the path of the file.",
    )


def _unreadable(why: str, hint: str) -> StoreError:
    """Never repeats the address: where it was misread, any part of it may be the password."""
    return StoreError("the PostgreSQL address cannot be read", why, hint)


def _postgres_url(rest: str) -> PostgresAddress:
    """``[user[:password]@][host[:port][,…]][/database][?keyword=value&…]``, as libpq reads it, but also
    with characters in the password that should have been percent-encoded and were not."""
    location, _, query = rest.partition("?")
    authority, slash, database = location.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    if "@" in database or (not at and "@" in query.partition("=")[0]):
        raise _unreadable("a character of its user name or password stands unescaped", _ESCAPE_HINT)
    params: dict[str, str] = {}
    spelled: set[str] = set()
    if at:
        user, _, password = userinfo.partition(":")
        params |= {"user": _decode(user)} if user else {}
        if password:
            params["password"] = _decode(password)
            spelled.add(password)
    params |= _hosts(hosts)
    if slash and database:
        params["dbname"] = _decode(database)
    for pair in query.split("&") if query else ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise _unreadable("a part after its ? has no value", _ESCAPE_HINT)
        key = _decode(key)
        spelled |= {value} if key in _SECRET_KEYWORDS else set()
        params |= dict([_url_option(key, _decode(value))])
    _refuse_unknown(params, rest)
    return PostgresAddress(params, _display_url(params), _spellings(params, spelled))


def _hosts(text: str) -> dict[str, str]:
    """``host:port,host:port`` as libpq's two comma-separated lists."""
    if not text:
        return {}
    matches = [_HOST_PORT.fullmatch(part) for part in text.split(",")]
    pairs = [(match[1].removeprefix("[").removesuffix("]"), match[2] or "") for match in matches if match]
    if len(pairs) < len(matches):
        raise _unreadable(
            "its port is not a number, or a character of its password stands unescaped", _ESCAPE_HINT
        )
    params = {
        "host": ",".join(_decode(host) for host, _ in pairs),
        "port": ",".join(port for _, port in pairs),
    }
    return {key: value for key, value in params.items() if value.strip(",")}


def _url_option(key: str, value: str) -> tuple[str, str]:
    """One ``keyword=value`` of a URL in libpq's words; JDBC and asyncpg spell TLS as ``ssl``."""
    if key == "ssl":
        return "sslmode", "require" if value == "true" else value
    return key, value


def _conninfo(text: str) -> PostgresAddress:
    """``keyword = value`` pairs; values quoted with ``'`` where needed, ``\\`` before any character."""
    params: dict[str, str] = {}
    spelled: set[str] = set()
    position, end = 0, len(text.rstrip())
    while position < end:
        pair = _CONNINFO_PAIR.match(text, position)
        if pair is None:
            raise _unreadable(
                "it is not a list of keyword=value pairs",
                "Put values with spaces in single quotes: password='a b'.",
            )
        key, quoted, bare = pair[1].lower(), pair[2], pair[3]
        raw = quoted if quoted is not None else bare
        spelled |= {raw} if key in _SECRET_KEYWORDS else set()
        params[key] = re.sub(r"\\(.)", r"\1", raw, flags=re.DOTALL)
        position = pair.end()
    _refuse_unknown(params, text)
    return PostgresAddress(params, _display_conninfo(params), _spellings(params, spelled))


def _decode(text: str) -> str:
    """Percent-decode; a ``%`` that begins no escape stands for itself, as it does in a pasted password."""
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        decoded = "\0"
    if "\0" in decoded:
        raise _unreadable("a percent-encoded part of it is not text in UTF-8", _ESCAPE_HINT) from None
    return decoded


def _refuse_unknown(params: Mapping[str, str], text: str) -> None:
    """Refuse what libpq would refuse; name the keyword only where it cannot be a piece of a password."""
    if "://" in params.get("dbname", ""):
        raise _unreadable("its database name is a URL", "Give that URL as the address.")
    if unknown := [key for key in params if key not in _KEYWORDS]:
        harmless = not _SECRET_KEYWORDS & params.keys() and "@" not in text
        raise _unreadable(
            f"PostgreSQL's client library does not know {unknown[0]!r}"
            if harmless
            else "PostgreSQL's client library does not know one of its keywords",
            "Take out what belongs to another library (pgbouncer, schema, connection_limit, …).",
        )


def _spellings(params: Mapping[str, str], spelled: set[str]) -> frozenset[str]:
    decoded = {params[key] for key in _SECRET_KEYWORDS & params.keys()}
    encoded = {form for text in decoded for form in spellings_of(text)}
    return frozenset(spelled | encoded) - {""}


def spellings_of(secret: str) -> frozenset[str]:
    """The ways a secret can be written in an address or in a message about one."""
    escaped = secret.replace("\\", "\\\\").replace("'", "\\'")
    return frozenset({secret, quote(secret, safe=""), quote(secret), escaped, repr(secret)[1:-1]}) - {""}


def secrets_of(address: str, password: str = "") -> frozenset[str]:
    """What must not be shown of an address, as far as that can be read, and of a password given beside it."""
    beside = spellings_of(password)
    try:
        parsed = parse(address)
    except StoreError:
        return beside | ({address} if "@" in address or "password" in address.lower() else set())
    return beside | (parsed.secrets if isinstance(parsed, PostgresAddress) else frozenset())


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` with ``***`` for every secret in it.

    A short secret also occurs inside words, where it gives nothing away: it is replaced where it stands alone.
    """
    for secret in sorted((s for s in secrets if s.strip()), key=len, reverse=True):
        pattern = re.escape(secret) if len(secret) > 3 else rf"(?<!\w){re.escape(secret)}(?!\w)"
        text = re.sub(pattern, "***", text)
    return text


def hide_in_urls(text: str) -> str:
    """``text`` with ``***`` for the passwords of the URLs in it."""
    return _IN_URL.sub(r"\1***@", text)


def hide_passwords(text: str) -> str:
    """``text`` with ``***`` for all that looks like a password: in a URL, or after ``password=``."""
    return _IN_PAIR.sub(r"\1***", hide_in_urls(text))


def _display_url(params: Mapping[str, str]) -> str:
    user = f"{quote(params['user'], safe='')}@" if "user" in params else ""
    in_query = {
        key: value
        for key, value in params.items()
        if key not in {"user", "dbname", "host", "port"} and key not in _SECRET_KEYWORDS
    }
    hosts = params.get("host", "")
    if "/" in hosts or not hosts:  # a socket directory has no place before the first slash
        in_query |= {key: params[key] for key in ("host", "port") if key in params}
        authority = ""
    else:
        ports = params.get("port", "").split(",")
        names = hosts.split(",")
        ports = ports * len(names) if len(ports) == 1 else ports
        authority = ",".join(
            (f"[{name}]" if ":" in name else name) + (f":{port}" if port else "")
            for name, port in zip(names, ports, strict=False)
        )
    database = f"/{quote(params['dbname'], safe='')}" if "dbname" in params else ""
    query = "&".join(f"{key}={quote(value, safe='/,:')}" for key, value in in_query.items())
    if query and not database:
        database = "/"
    return f"postgresql://{user}{authority}{database}{'?' if query else ''}{query}"


def _display_conninfo(params: Mapping[str, str]) -> str:
    return " ".join(
        f"{key}={_quote_conninfo(value)}" for key, value in params.items() if key not in _SECRET_KEYWORDS
    )


def _quote_conninfo(value: str) -> str:
    if value and not re.search(r"[\s'\\]", value):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
