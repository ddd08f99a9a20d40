"""Reading a SQLite store changes nothing, loses nothing, and sees one state of it.

Every database here was written by LangGraph's own saver through the standard library's SQLite; other
processes are real ones. What must be seen is what the standard library sees in a *copy*.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import mmap
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier

import apsw
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from turnstate_backends import sqlite_files, sqlite_open
from turnstate_backends.interface import StoreError
from turnstate_backends.sqlite import SqliteStore, open_sqlite
from turnstate_backends.sqlite_mapped import Mapping

# What every process here writes with: one checkpoint per call.
PUT = """
import os, sqlite3, sys, time
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

path = sys.argv[1]
conn = sqlite3.connect(path, check_same_thread=False)
saver = SqliteSaver(conn)

def put(number, size=10):
    checkpoint = empty_checkpoint() | {"id": f"{number:08}", "channel_values": {"text": "x" * size}}
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, {})

def say(word):
    print(word, flush=True)

def wait():
    sys.stdin.readline()
"""

_MAP_FIXED = 0x10  # of asm-generic/mman.h, which Python's mmap does not name

AWKWARD_NAMES = [
    "two words.db",
    "a?mode=rwc.db",
    "50%.db",
    "%41.db",
    "#1.db",
    "späť 会話.db",
    "a'b\".db",
    "x-wal",
]
AWKWARD_NAME = "a?mode=rwc&vfs=x#%41 'ť\".db"


def put(saver: SqliteSaver, number: int) -> None:
    checkpoint = empty_checkpoint() | {"id": f"{number:08}", "channel_values": {"text": "x" * 10}}
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, {})


def record(path: Path, rows: int = 3) -> None:
    """A store whose writer closed it properly: WAL mode, no -wal left."""
    with closing(sqlite3.connect(path)) as conn:
        saver = SqliteSaver(conn)
        for number in range(rows):
            put(saver, number)


@contextmanager
def writer(path: Path, body: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the store; it says a word when it has come so far, and waits for a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", PUT + textwrap.dedent(body), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def leave_hot(path: Path, body: str) -> None:
    """Let another process write, and kill it before it can close the database."""
    with writer(path, textwrap.dedent(body) + "\nsay('written'); wait()") as process:
        assert heard(process) == "written"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def look(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Every file with its hash, its time stamp and its inode."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(folder))] = (
                hashlib.sha256(path.read_bytes()).hexdigest(),
                status.st_mtime_ns,
                status.st_ino,
            )
    return found


def ids(store: SqliteStore) -> list[str]:
    return sorted(checkpoint.id for checkpoint in store.checkpoints("t", ""))


def read_everything(store: SqliteStore) -> list[str]:
    """Use every read once."""
    store.threads()
    found = ids(store)
    list(store.writes("t", "", head=None))
    store.versions("t", "", found)
    store.times("t", "", found)
    for checkpoint in found:
        store.values("t", "", checkpoint)
    return found


def seen_by_sqlite_in_a_copy(path: Path, scratch: Path) -> list[str]:
    scratch.mkdir()
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copy(source, scratch / ("copy" + suffix))
    with closing(sqlite3.connect(scratch / "copy")) as conn:
        return [row[0] for row in conn.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")]


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def to_rollback_journal(path: Path) -> None:
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


@pytest.mark.parametrize("prepare", [lambda path: None, to_rollback_journal], ids=["wal", "rollback"])
def test_a_closed_store_and_its_folder_are_the_same_after_every_read(
    folder: Path, prepare: Callable[[Path], None]
) -> None:
    path = folder / "a.db"
    record(path)
    prepare(path)
    before = look(folder)
    with open_sqlite(path) as store:
        assert read_everything(store) == ["00000000", "00000001", "00000002"]
        assert look(folder) == before
    assert look(folder) == before


@pytest.mark.parametrize("name", AWKWARD_NAMES)
@pytest.mark.parametrize("prepare", [lambda path: None, to_rollback_journal], ids=["wal", "rollback"])
def test_a_file_name_is_taken_literally(folder: Path, name: str, prepare: Callable[[Path], None]) -> None:
    record(folder / name)
    prepare(folder / name)
    before = look(folder)
    with open_sqlite(folder / name) as store:
        assert len(ids(store)) == 3
        assert store.name == str(folder / name)
    assert look(folder) == before


def test_a_live_writer_in_another_process_is_read_with_its_newest_rows_and_nothing_is_touched(
    folder: Path,
) -> None:
    path = folder / AWKWARD_NAME
    record(path)
    with writer(path, "put(3); say('up'); wait()") as process:
        assert heard(process) == "up"
        before = look(folder)
        assert set(before) == {path.name, path.name + "-wal", path.name + "-shm"}
        with open_sqlite(path) as store:
            assert read_everything(store) == ["00000000", "00000001", "00000002", "00000003"]
            assert look(folder) == before
        assert look(folder) == before


def test_commits_and_checkpoints_of_a_live_writer_do_not_reach_a_store_that_is_open(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    body = """
    put(3); say('up'); wait()
    put(4); conn.execute("DELETE FROM checkpoints WHERE checkpoint_id < '00000003'"); conn.commit()
    print(conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone())
    for number in range(5, 60): put(number, 20000)
    say('more'); wait()
    """
    with writer(path, body) as process:
        assert heard(process) == "up"
        with open_sqlite(path) as store:
            assert [row.checkpoints for row in store.threads()] == [4]
            tell(process)
            heard(process)
            assert heard(process) == "more"
            assert ids(store) == ["00000000", "00000001", "00000002", "00000003"]
            assert [row.last for row in store.threads()] == ["00000003"]
        with open_sqlite(path) as store:
            assert len(ids(store)) == 57


def test_a_writer_that_leaves_while_a_store_is_open_loses_nothing(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    with writer(path, "put(3); say('up'); wait(); put(4); conn.close(); say('gone'); wait()") as process:
        assert heard(process) == "up"
        with open_sqlite(path) as store:
            tell(process)
            assert heard(process) == "gone"
            assert len(ids(store)) == 4
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT count(*) FROM checkpoints").fetchone() == (5,)


@pytest.mark.parametrize("shm", ["kept", "removed"])
def test_a_wal_left_by_a_killed_writer_is_read_and_stays(folder: Path, tmp_path: Path, shm: str) -> None:
    path = folder / AWKWARD_NAME
    record(path)
    leave_hot(path, "put(3); put(4)")
    if shm == "removed":
        path.with_name(path.name + "-shm").unlink()
    before = look(folder)
    with open_sqlite(path) as store:
        found = read_everything(store)
        assert look(folder) == before
    assert look(folder) == before
    assert found == ["00000000", "00000001", "00000002", "00000003", "00000004"]
    assert found == seen_by_sqlite_in_a_copy(path, tmp_path / "copy")


def test_frames_that_were_never_committed_are_not_read(folder: Path, tmp_path: Path) -> None:
    path = folder / "a.db"
    record(path)
    body = """
    put(3)
    committed = os.path.getsize(path + "-wal")
    conn.execute("PRAGMA cache_size=2")
    for number in range(100):
        row = ["t", "", f"open{number}", None, "json", bytes(9000), "{}"]
        conn.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    assert os.path.getsize(path + "-wal") > committed, "the open transaction must have spilled"
    """
    leave_hot(path, body)
    with open_sqlite(path) as store:
        assert ids(store) == ["00000000", "00000001", "00000002", "00000003"]
    assert seen_by_sqlite_in_a_copy(path, tmp_path / "copy") == [
        "00000000",
        "00000001",
        "00000002",
        "00000003",
    ]


def test_tables_that_only_the_wal_holds_are_found(folder: Path) -> None:
    path = folder / "a.db"
    leave_hot(path, "put(0)")
    assert b"CREATE TABLE" not in path.read_bytes()
    with open_sqlite(path) as store:
        assert ids(store) == ["00000000"]


def test_a_deletion_that_only_the_wal_holds_counts(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    leave_hot(path, "conn.execute('DELETE FROM checkpoints'); conn.commit()")
    with open_sqlite(path) as store:
        assert store.threads() == []
        assert ids(store) == []


def test_a_wal_is_found_through_a_link_to_its_database(folder: Path, tmp_path: Path) -> None:
    path = folder / "a.db"
    record(path)
    leave_hot(path, "put(3)")
    (tmp_path / "link.db").symlink_to(path)
    with open_sqlite(tmp_path / "link.db") as store:
        assert len(ids(store)) == 4
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.db", "store"]


# Everything is imported first: an unprivileged user may not be able to reach the interpreter's files.
READ_IDS = """
import fcntl, os, sys
from pathlib import Path
from turnstate_backends import sqlite_open
from turnstate_backends.interface import StoreError
from turnstate_backends.sqlite import open_sqlite
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    with open_sqlite(Path(sys.argv[1])) as store:
        print([checkpoint.id for checkpoint in store.checkpoints("t", "")])
except StoreError as error:
    print(error.what, error.why, error.hint, sep="|")
"""


def read_unprivileged(path: Path) -> str:
    """Read a store in a process whom file permissions bind, which they do not do to root."""
    result = subprocess.run(
        [sys.executable, "-c", READ_IDS, str(path)],
        env=os.environ | {"PYTHONPATH": str(Path(sqlite_open.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users can reach, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made).resolve()
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


@pytest.mark.parametrize("state", ["closed", "hot"])
def test_a_folder_that_may_not_be_written_is_read(public_folder: Path, state: str) -> None:
    path = public_folder / "a.db"
    record(path)
    if state == "hot":
        leave_hot(path, "put(3)")
    for file in public_folder.iterdir():
        file.chmod(0o444)
    public_folder.chmod(0o555)
    before = look(public_folder)
    expected = ["00000000", "00000001", "00000002", "00000003"]
    assert read_unprivileged(path) == str(expected if state == "hot" else expected[:3])
    assert look(public_folder) == before


def test_a_live_writer_in_a_folder_that_may_not_be_written_is_read(public_folder: Path) -> None:
    path = public_folder / "a.db"
    record(path)
    with writer(path, "put(3); say('up'); wait()") as process:
        assert heard(process) == "up"
        for file in public_folder.iterdir():
            file.chmod(0o444)
        public_folder.chmod(0o555)
        before = look(public_folder)
        assert read_unprivileged(path) == "['00000000', '00000001', '00000002', '00000003']"
        assert look(public_folder) == before


def test_a_file_that_may_not_be_read_is_said_to_be_so(public_folder: Path) -> None:
    path = public_folder / "a.db"
    record(path)
    path.chmod(0)
    assert read_unprivileged(path) == (
        f"cannot open {path}|reading it is not permitted|"
        "Ask for read permission on the file and its -wal, and for search permission on their folders."
    )


def test_a_wal_that_may_not_be_read_is_not_ignored(public_folder: Path) -> None:
    path = public_folder / "a.db"
    record(path)
    leave_hot(path, "put(3)")
    path.with_name("a.db-wal").chmod(0)
    assert read_unprivileged(path).split("|")[1] == "reading it is not permitted"


@pytest.mark.parametrize("mode", ["wal", "rollback"])
def test_a_store_that_this_process_has_open_is_read_with_its_newest_rows(folder: Path, mode: str) -> None:
    path = folder / "a.db"
    record(path)
    with closing(sqlite3.connect(path)) as conn:
        saver = SqliteSaver(conn)
        if mode == "rollback":
            saver.is_setup = True
            assert conn.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        put(saver, 3)
        before = look_without_dropping_locks(folder)
        with open_sqlite(path) as store:
            assert read_everything(store)[-1] == "00000003"
        assert look_without_dropping_locks(folder) == before


def look_without_dropping_locks(folder: Path) -> list[tuple[str, int, int, int]]:
    return sorted(
        (entry.name, entry.stat().st_size, entry.stat().st_mtime_ns, entry.stat().st_ino)
        for entry in folder.iterdir()
    )


def test_rows_that_this_process_appends_do_not_reach_a_store_that_is_open(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    with closing(sqlite3.connect(path)) as conn:
        saver = SqliteSaver(conn)
        put(saver, 3)
        with open_sqlite(path) as store:
            put(saver, 4)
            assert len(ids(store)) == 4
        with open_sqlite(path) as store:
            assert len(ids(store)) == 5


def test_locks_that_this_process_holds_survive_reading(folder: Path) -> None:
    """POSIX drops them when any descriptor of the file is closed; another process would then write."""
    path = folder / "a.db"
    record(path)
    to_rollback_journal(path)
    attempt = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        with open_sqlite(path) as store:
            assert len(ids(store)) == 3
        result = subprocess.run([sys.executable, "-c", attempt, str(path)], capture_output=True, text=True)
        assert "database is locked" in result.stderr


def test_the_wal_of_a_connection_in_this_process_is_not_lost_to_another_process_after_reading(
    folder: Path,
) -> None:
    path = folder / "a.db"
    record(path)
    visit = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT count(*) FROM writes'); c.close()"
    with closing(sqlite3.connect(path)) as conn:
        saver = SqliteSaver(conn)
        put(saver, 3)
        with open_sqlite(path) as store:
            assert len(ids(store)) == 4
        subprocess.run([sys.executable, "-c", visit, str(path)], check=True)
        put(saver, 4)
        assert path.with_name("a.db-wal").exists()
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("SELECT count(*) FROM checkpoints").fetchone() == (5,)


def test_a_store_that_was_overwritten_while_it_was_read_is_an_error_and_never_a_mixture(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    with open_sqlite(path) as store:
        with writer(path, "put(3); conn.close(); say('done')") as process:
            assert heard(process) == "done"
        with pytest.raises(StoreError) as error:
            ids(store)
    assert error.value.what == f"cannot read {path} in one snapshot"
    assert error.value.why == "a program wrote to it while it was being read"
    with open_sqlite(path) as store:
        assert len(ids(store)) == 4


LARGE_STORE = """
for number in range(250):
    put(number, 65_000)
conn.close()
"""
READ_MAPPED = """
import os, resource, sys
from pathlib import Path
from turnstate_backends.sqlite import open_sqlite

path, cut, most = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def end(error):
    print(error.what, "|", error.why, flush=True)
    os._exit(2)
with open_sqlite(path, if_cut=end) as store:
    open_sqlite(Path(sys.argv[4]), if_cut=lambda error: os._exit(9)).close()
    rows = iter(store.checkpoints("t", ""))
    read = [row for row, _ in zip(rows, range(most))]
    if cut == "cut":
        os.truncate(path, 8192)
    print(len(read) + sum(1 for _ in rows if most > 1))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
"""


def read_mapped(path: Path, cut: str, most: int) -> tuple[int, list[str]]:
    another = Path(__file__).parent.parent / "fixtures" / "demo.db"
    command = [sys.executable, "-c", READ_MAPPED, str(path), cut, str(most), str(another)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="files are mapped on Linux only")
def test_a_large_store_is_read_in_little_memory_and_one_that_is_cut_short_meanwhile_ends_the_process_plainly(
    folder: Path,
) -> None:
    path = folder / "store.db"
    with writer(path, LARGE_STORE) as process:
        assert process.wait() == 0
    assert path.stat().st_size > 16_000_000
    (_, one), (code, all_rows) = (read_mapped(path, "whole", most) for most in (1, 250))
    assert (code, one[0], all_rows[0]) == (0, "1", "250")
    assert int(all_rows[1]) - int(one[1]) < 13_000  # KiB: what may stay mapped, and some
    assert read_mapped(path, "cut", 2) == (
        2,
        [f"cannot read {path} in one snapshot | a program wrote to it while it was being read"],
    )


@pytest.mark.skipif(sys.platform != "linux", reason="files are mapped on Linux only")
def test_memory_that_took_the_place_of_a_mapped_file_is_not_let_go_with_the_file_mapped_elsewhere(
    folder: Path,
) -> None:
    path, size = folder / "store.db", 32 << 20
    path.touch()
    os.truncate(path, size)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

    def in_memory() -> int:
        return int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE

    def map_file(stream: io.FileIO) -> int:
        address: int = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, stream.fileno(), 0)
        assert len(ctypes.string_at(address, size)) == size
        return address

    with closing(Mapping(path, os.abort)) as mapping, path.open("rb", buffering=0) as stream:
        before = in_memory()
        first = map_file(stream)
        assert in_memory() - before >= size
        mapping.trim()
        assert in_memory() - before < size // 2
        anew = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED, -1, 0
        assert libc.mmap(first, size, *anew) == first
        ctypes.memset(first, ord("x"), size)
        second = map_file(stream)
        mapping.trim()
        assert in_memory() - before < size // 2
        assert ctypes.string_at(first, size) == b"x" * size
        for address in (first, second):
            assert libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size)) == 0


def test_a_wal_that_was_started_over_while_it_was_read_is_an_error_and_never_a_mixture(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    with closing(sqlite3.connect(path)) as conn:
        saver = SqliteSaver(conn)
        for number in range(3, 40):
            put(saver, number)
        with open_sqlite(path) as store:
            conn.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            put(saver, 40)
            with pytest.raises(StoreError) as error:
                ids(store)
    assert error.value.why == "a program wrote to it while it was being read"


def test_an_unfinished_rollback_journal_is_refused_and_left_alone(folder: Path) -> None:
    path = folder / "a.db"
    record(path, rows=50)
    to_rollback_journal(path)
    body = """
    saver.is_setup = True
    conn.execute("PRAGMA cache_size=2")
    conn.execute("UPDATE checkpoints SET checkpoint = zeroblob(9000)")
    say('written'); wait()
    """
    with writer(path, body) as process:
        assert heard(process) == "written"
        process.kill()
        process.wait()
    before = look(folder)
    assert "a.db-journal" in before
    with pytest.raises(StoreError) as error:
        open_sqlite(path)
    assert "-journal" in error.value.why
    assert look(folder) == before


@pytest.mark.parametrize(
    "body",
    [
        "saver.is_setup = True; conn.execute('PRAGMA journal_mode=DELETE'); conn.execute('BEGIN EXCLUSIVE')",
        "conn.execute('PRAGMA locking_mode=EXCLUSIVE'); put(3)",
    ],
    ids=["rollback", "wal"],
)
def test_a_store_that_stays_locked_is_said_to_be_so(folder: Path, body: str) -> None:
    path = folder / "a.db"
    record(path)
    with writer(
        path, body + "\nsay('locked'); wait(); conn.commit(); conn.close(); say('free'); wait()"
    ) as process:
        assert heard(process) == "locked"
        before = look(folder)
        started = time.monotonic()
        with pytest.raises(StoreError) as error:
            open_sqlite(path, busy_seconds=0.3)
        assert 0.3 <= time.monotonic() - started < 3
        assert error.value.why == "another program kept the database locked exclusively"
        assert look(folder) == before
        tell(process)
        assert heard(process) == "free"
        with open_sqlite(path, busy_seconds=0.3) as store:
            assert len(ids(store)) >= 3


def test_rows_before_a_transaction_that_another_process_has_open_are_read(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    to_rollback_journal(path)
    body = "saver.is_setup = True; conn.execute('DELETE FROM checkpoints'); say('begun'); wait()"
    with writer(path, body) as process:
        assert heard(process) == "begun"
        before = look(folder)
        assert "a.db-journal" in before
        with open_sqlite(path) as store:
            assert len(ids(store)) == 3
        assert look(folder) == before


def test_a_transaction_that_this_process_has_open_is_not_mistaken_for_committed_rows(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    to_rollback_journal(path)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA cache_size=1")
        conn.execute("UPDATE checkpoints SET checkpoint = zeroblob(90000)")
        with pytest.raises(StoreError) as error:
            open_sqlite(path)
        assert "-journal" in error.value.why


def test_opening_waits_for_a_writer_that_finishes_in_time(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    to_rollback_journal(path)
    body = "saver.is_setup = True; conn.execute('BEGIN EXCLUSIVE'); say('locked'); time.sleep(0.5); conn.rollback()"
    with writer(path, body) as process:
        assert heard(process) == "locked"
        with open_sqlite(path) as store:
            assert len(ids(store)) == 3


@pytest.mark.parametrize("state", ["closed", "hot", "rollback"])
def test_closing_gives_every_descriptor_back(folder: Path, state: str) -> None:
    path = folder / "a.db"
    record(path)
    if state == "hot":
        leave_hot(path, "put(3)")
    if state == "rollback":
        to_rollback_journal(path)
    gc.collect()
    before = open_descriptors()
    for _ in range(5):
        store = open_sqlite(path)
        ids(store)
        store.close()
        store.close()
    assert open_descriptors() == before
    assert not [name for name in apsw.vfs_names() if name.startswith("turnstate")]


def test_descriptors_kept_for_the_sake_of_locks_are_used_again(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("SELECT count(*) FROM checkpoints").fetchall()
        open_sqlite(path).close()
        before = open_descriptors()
        for _ in range(5):
            open_sqlite(path).close()
        assert open_descriptors() == before
    open_sqlite(path).close()
    assert open_descriptors() < before


def test_a_query_that_would_write_is_refused_in_every_mode(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    for prepare in (lambda: None, lambda: to_rollback_journal(path)):
        prepare()
        database = sqlite_open.open_database(path)
        with pytest.raises(StoreError):
            list(database.rows("DELETE FROM checkpoints"))
        database.close()


def test_an_index_that_came_with_a_copy_is_not_taken_for_a_live_writer(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    with writer(path, "put(3); say('up'); wait()") as process:
        assert heard(process) == "up"
        assert sqlite_files.in_use_by_another_process(folder / "a.db-shm")
        shutil.copytree(folder, folder.with_name("copied"))
    copied = folder.with_name("copied")
    assert not sqlite_files.in_use_by_another_process(copied / "a.db-shm")
    before = look(copied)
    with open_sqlite(copied / "a.db") as store:
        assert len(ids(store)) == 4
    assert look(copied) == before


def test_a_damaged_index_of_a_live_writer_is_done_without(folder: Path) -> None:
    path = folder / "a.db"
    record(path)
    with writer(path, "put(3); say('up'); wait()") as process:
        assert heard(process) == "up"
        with (folder / "a.db-shm").open("r+b") as index:
            index.write(bytes(96))
        before = look(folder)
        with open_sqlite(path) as store:
            assert len(ids(store)) == 4
        assert look(folder) == before


def locks(path: Path) -> set[tuple[str, int]]:
    """The locks that this process has on a file, by kind and first byte; proc_locks(5)."""
    inode, own = path.stat().st_ino, str(os.getpid())
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return {(row[3], int(row[6])) for row in rows if row[4] == own and int(row[5].split(":")[2]) == inode}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/locks")
@pytest.mark.parametrize(("mode", "locked"), [("delete", ""), ("wal", "-shm")])
def test_threads_that_open_and_close_the_same_file_at_once_drop_no_lock_of_a_reader(
    mode: str, locked: str, folder: Path
) -> None:
    path = folder / "a.db"
    held = []

    def read(together: Barrier) -> None:
        for _ in range(30):
            together.wait()
            with open_sqlite(path) as store:
                assert [row.id for row in store.checkpoints("t", "")] == ["00000001"]
                together.wait()
                held.append(locks(Path(f"{path}{locked}")))
                together.wait()

    with writer(path, f"conn.execute('PRAGMA journal_mode={mode}')\nput(1)\nsay('ready')\nwait()") as process:
        assert heard(process) == "ready"
        together = Barrier(4)
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(read, together) for _ in range(4)]:
                done.result()
        assert len(held) == 120
        assert all(any(kind == "READ" for kind, _ in each) for each in held)
        tell(process)
