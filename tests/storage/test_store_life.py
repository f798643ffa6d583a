"""The life of a database directory: locks, readers, crashes at every step, damage, copies, drops."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.table_model import merged_rows, vectors_of
from tsdb.catalog.table import TableOptions, build_schema, create_table_text
from tsdb.storage import manifest as manifests
from tsdb.storage.check import check
from tsdb.storage.manifest import SourceEntry
from tsdb.storage.store import Store
from tsdb_format.errors import Closed, Corruption, InvalidInput, Locked, NotFound, ReadOnly, UnsupportedFormat
from tsdb_format.types import Role

SCHEMA = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("host", "STRING", Role.TAG), ("v", "DOUBLE", Role.FIELD)])


def _write(store: Store, *times: int, host: str = "a", table: str = "t") -> None:
    """One commit, and its file."""
    store.write_batch(table, vectors_of(SCHEMA, [{"time": time, "host": host, "v": float(time)} for time in times]))
    store.flush()


def _times(store: Store, table: str = "t") -> list[int]:
    return [row["time"] for row in merged_rows(store.snapshot().tables[table])]


def _filled(path: Path) -> Path:
    with Store.open(path) as store:
        store.create_table("t", SCHEMA, TableOptions(ttl_ns=9 * 10**18, partition_ns=10**12))
        _write(store, 3, 1, 2)
        _write(store, 9, host="b")
    return path


def test_reopening_shows_the_same(tmp_path: Path) -> None:
    path = _filled(tmp_path / "db")
    for mode in ("r", "rw", "r"):
        with Store.open(path, mode) as store:
            assert _times(store) == [1, 2, 3, 9]
            table = store.table("T")
            assert table.schema == SCHEMA
            assert (table.options.ttl_ns, table.options.partition_ns) == (9 * 10**18, 10**12)
            assert store.snapshot().sequence == 2
            assert "host STRING" in create_table_text(table)


def test_a_moved_or_copied_directory_opens(tmp_path: Path) -> None:
    path = _filled(tmp_path / "db")
    shutil.copytree(path, tmp_path / "copy")
    shutil.move(path, tmp_path / "moved")
    for name in ("copy", "moved"):
        with Store.open(tmp_path / name) as store:
            assert _times(store) == [1, 2, 3, 9]
            _write(store, 10)
            assert _times(store) == [1, 2, 3, 10, 9]


def test_one_writer_at_a_time_in_this_process_and_others(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = Store.open(path)
    with pytest.raises(Locked) as here:
        Store.open(path)
    assert here.value.pid == os.getpid()
    code = "import sys; from tsdb.storage.store import Store\n"
    code += "try: Store.open(sys.argv[1])\nexcept BlockingIOError as e: print(e.pid)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.strip() == str(os.getpid())
    store.close()
    store.close()
    code = "import os, sys; from tsdb.storage.store import Store; Store.open(sys.argv[1]); os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=False)
    Store.open(path).close()


def test_a_forked_child_does_not_write_and_does_not_hold_the_lock(tmp_path: Path) -> None:
    code = """
import os, sys
from support.table_model import vectors_of
from tsdb.storage.store import Store
from tsdb_format.errors import Locked

store = Store.open(sys.argv[1])
schema = store.table("t").schema
child_done, parent_done = os.pipe(), os.pipe()
if os.fork() == 0:
    try:
        store.write_batch("t", vectors_of(schema, [{"time": 50}]))
    except Locked as error:
        os.write(child_done[1], str(error).encode())
    os.read(parent_done[0], 1)
    store.close()
    os._exit(0)
print(os.read(child_done[0], 999).decode())
store.write_batch("t", vectors_of(schema, [{"time": 60}]))
store.close()
with Store.open(sys.argv[1]) as again:  # the child lives and has let go
    again.write_batch("t", vectors_of(schema, [{"time": 70}]))
os.write(parent_done[1], b"x")
os.wait()
"""
    path = _filled(tmp_path / "db")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(path)], capture_output=True, text=True, env=environment, check=True
    )
    assert "before this process was forked; open it again" in ran.stdout
    with Store.open(path) as store:
        assert sorted(_times(store)) == [1, 2, 3, 9, 60, 70]


def test_a_reader_refreshes_and_never_blocks(tmp_path: Path) -> None:
    path = _filled(tmp_path / "db")
    with Store.open(path) as writer, Store.open(path, "r") as reader, Store.open(path, "r") as other:
        before = reader.snapshot()
        _write(writer, 20)
        writer.create_table("u", SCHEMA)
        for time in range(30, 40):
            _write(writer, time, host=f"h{time}", table="u")
        assert _times(reader) == [1, 2, 3, 9]
        after = reader.refresh()
        assert reader.refresh() is after
        assert (after.sequence, after.version > before.version) == (13, True)
        assert _times(reader) == [1, 2, 3, 20, 9]
        assert _times(reader, "u") == list(range(30, 40))
        assert [row["time"] for row in merged_rows(before.tables["t"])] == [1, 2, 3, 9]
        assert [row["time"] for row in merged_rows(other.snapshot().tables["t"])] == [1, 2, 3, 9]
        for forbidden in (lambda: _write(reader, 1), lambda: reader.create_table("x", SCHEMA), lambda: reader.drop_table("t")):
            with pytest.raises(ReadOnly):
                forbidden()


def test_an_old_snapshot_keeps_a_device_table_that_was_replaced(tmp_path: Path) -> None:
    path = _filled(tmp_path / "db")
    with Store.open(path) as writer, Store.open(path, "r") as reader:
        mine = writer.snapshot()
        for number in range(5):
            _write(writer, number, host=f"new{number}")
        assert [row["time"] for row in merged_rows(mine.tables["t"])] == [1, 2, 3, 9]
        assert _times(reader) == [1, 2, 3, 9]
    assert len(list(path.rglob("*.dev"))) == 1, "older versions are deleted"


def test_dropped_tables_live_as_long_as_their_snapshots(tmp_path: Path) -> None:
    path = _filled(tmp_path / "db")
    with Store.open(path) as store:
        held: Any = store.snapshot()
        assert store.drop_table("t")
        assert not store.drop_table("t", if_exists=True)
        with pytest.raises(NotFound, match="no table 't'"):
            store.drop_table("t")
        table: Any = held.tables["t"]
        del held
        assert [row["time"] for row in merged_rows(table)] == [1, 2, 3, 9]
        store.create_table("t", SCHEMA)
        assert list(path.rglob("*.tsf")), "still pinned"
        del table
        _write(store, 7)
        assert _times(store) == [7]
        assert len(list(path.rglob("*.tsf"))) == 1
        assert store.table("t").id == 2


def test_names(tmp_path: Path) -> None:
    with Store.open(tmp_path / "db") as store:
        store.create_table("Cpu", SCHEMA)
        for taken in ("Cpu", "cpu", ""):
            with pytest.raises(InvalidInput):
                store.create_table(taken, SCHEMA)
        assert store.create_table("CPU", SCHEMA, if_not_exists=True).name == "Cpu"
        with pytest.raises(NotFound, match="did you mean 'Cpu'"):
            store.table("cpuu")
        assert list(store.tables()) == list(store.snapshot().tables) == ["Cpu"]
        assert "x" not in store.snapshot().tables
    for use in (store.snapshot, store.tables, lambda: _write(store, 1)):
        with pytest.raises(Closed):
            use()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ([("v", "DOUBLE", Role.FIELD)], "exactly one TIME"),
        ([("a", "TIMESTAMP_S", Role.TIME), ("b", "TIMESTAMP_S", Role.TIME)], "exactly one TIME"),
        ([("a", "INT64", Role.TIME)], "must be a TIMESTAMP"),
        ([("a", "TIMESTAMP_S", Role.TIME), ("A", "DOUBLE", Role.FIELD)], "twice"),
        ([("a", "TIMESTAMP_S", Role.TIME), ("t", "DOUBLE", Role.TAG)], "tag 't'"),
        ([("a", "TIMESTAMP_S", Role.TIME), ("_SN", "DOUBLE", Role.FIELD)], "cannot be named"),
        ([("a", "TIMESTAMP_S", Role.TIME), ("t", "DUBLE", Role.FIELD)], "unknown column type"),
    ],
)
def test_impossible_schemas(columns: list[Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        build_schema(columns)


@pytest.mark.parametrize(
    "options",
    [
        {"ttl_ns": 0},
        {"partition_ns": -1},
        {"mode": "x"},
        {"shards": 0},
        {"rows_per_page": 1500},
        {"rows_per_page": 1 << 26},
        {"file_rows_max": 0},
        {"primary_key": ("a",)},
    ],
)
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        TableOptions(**options)


def test_places_that_are_no_database(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("x")
    (tmp_path / "other" / "manifest").mkdir(parents=True)
    (tmp_path / "other" / "manifest" / "app.yaml").write_text("x")
    for path in (tmp_path / "file", tmp_path / "folder", tmp_path / "other"):
        with pytest.raises(InvalidInput):
            Store.open(path)
    (tmp_path / "begun" / "manifest").mkdir(parents=True)
    (tmp_path / "begun" / "table").mkdir()
    Store.open(tmp_path / "begun").close()
    assert [each.name for each in (tmp_path / "folder").iterdir()] == ["thesis.txt"]
    for path in (tmp_path / "absent", tmp_path / "folder"):
        with pytest.raises(NotFound):
            Store.open(path, "r")
    with pytest.raises(InvalidInput):
        Store.open(tmp_path / "x", "w")


def test_a_damaged_file_is_named_and_hides_nothing_else(tmp_path: Path) -> None:
    path = _filled(tmp_path / "db")
    with Store.open(path) as store:
        store.create_table("u", SCHEMA)
        _write(store, 5, table="u")
    first, second, third = sorted(path.rglob("*.tsf"))
    raw = bytearray(first.read_bytes())
    raw[len(raw) // 2] ^= 1
    first.write_bytes(raw)
    second.with_suffix(".res").unlink()
    with Store.open(path) as store:
        assert _times(store, "u") == [5]
        assert store.snapshot().tables["t"].files[1].device_number.tolist() == [1]
        with pytest.raises(Corruption) as caught:
            _times(store)
        assert caught.value.path == str(first)
        _write(store, 1)
        problems = list(check(store))
        assert {problem.path for problem in problems} == {str(first), str(second)}
        assert list(check(store, "u")) == []
        third.unlink()
        assert [problem.path for problem in check(store, "u")] == [str(third)], "though it is still mapped"
    third_gone = Store.open(path, "r")
    with pytest.raises(NotFound, match=third.name):
        _times(third_gone, "u")
    assert [problem.path for problem in check(third_gone, "u")] == [str(third)]
    first.write_bytes(b"")
    with Store.open(path, "r") as store, pytest.raises(Corruption):
        _times(store)


def test_a_missing_device_file_is_named(tmp_path: Path) -> None:
    path = _filled(tmp_path / "db")
    [devices] = path.rglob("*.dev")
    devices.unlink()
    with Store.open(path) as store:
        with pytest.raises(NotFound, match=devices.name):
            _ = store.snapshot().tables["t"]
        assert next(check(store)).path == str(devices)


def test_manifest_damage(tmp_path: Path) -> None:
    path = _filled(tmp_path / "db")
    current = path / "CURRENT"
    good = current.read_bytes()
    newest = path / manifests.load(path).name
    for damage in (b"", b"garbage", good[:-3], good.replace(b"0", b"1")):
        current.write_bytes(damage)
        with Store.open(path, "r") as store:
            assert _times(store) == [1, 2, 3, 9]
    current.unlink()
    with Store.open(path) as store:
        assert _times(store) == [1, 2, 3, 9]
    assert current.read_bytes() == good
    raw = newest.read_bytes()
    kept = sorted(path.rglob("*.tsf"))
    older = replace(manifests.load(path), version=1, tables={})
    manifests.save(path, older)
    current.unlink()
    newest.write_bytes(raw[:-1])
    with pytest.raises(Corruption):  # the older manifest would undo commits, and their files would be swept away
        Store.open(path)
    assert sorted(path.rglob("*.tsf")) == kept
    (path / older.name).unlink()
    current.write_bytes(good)
    for at in range(0, len(raw), 11):
        newest.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(Corruption) as caught:
            Store.open(path)
        assert caught.value.path == str(newest)
    later = raw.decode().partition("\n")[0].replace(f'"format":{manifests.FORMAT}', f'"format":{manifests.FORMAT + 1}')
    newest.write_bytes(manifests.sealed(later))
    with pytest.raises(UnsupportedFormat):
        Store.open(path, "r")
    newest.unlink()
    with pytest.raises(Corruption):
        Store.open(path, "r")
    newest.write_bytes(raw)
    with Store.open(path) as store:
        assert _times(store) == [1, 2, 3, 9]


def test_sources_are_recorded_with_their_commit(tmp_path: Path) -> None:
    source = SourceEntry("/data/a.csv", 10, 5, "ab", "cd", 3, 1, 9, 4, True)
    with Store.open(tmp_path / "db") as store:
        store.create_table("t", SCHEMA)
        store.write_pieces("t", vectors_of(SCHEMA, [{"time": 1}]), [source])
        assert store.write_pieces("t", {}, [SourceEntry("/data/b.csv", 1, 1, "", "", 0, 0, 0, 1, False)]).sequence == 1
    with Store.open(tmp_path / "db", "r") as store:
        assert store.entry("t").sources["/data/a.csv"] == source
        assert len(store.entry("t").sources) == 2


def test_more_files_than_the_process_may_open_by_default(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 400:
        return
    with Store.open(tmp_path / "db", threads=1) as store:
        store.create_table("t", SCHEMA)
        for time in range(150):
            _write(store, time)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
            assert _times(store) == list(range(150))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_reader_in_another_process_never_sees_half_a_commit(tmp_path: Path) -> None:
    """Each commit writes three rows to each of two tables' worth of files; a reader counts threes only, and never goes back."""
    path = tmp_path / "db"
    code = """
import sys
from support.table_model import merged_rows
from tsdb.storage.store import Store

last = 0
with Store.open(sys.argv[1], "r") as store:
    print("ready", flush=True)
    while last < 3 * int(sys.argv[2]):
        rows = merged_rows(store.refresh().tables["t"])
        assert len(rows) % 3 == 0 and len(rows) >= last, (len(rows), last)
        assert len(rows) == 3 * store.snapshot().sequence
        last = len(rows)
print("done")
"""
    commits = 60
    with Store.open(path) as store:
        store.create_table("t", SCHEMA, TableOptions(file_rows_max=1))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        arguments = [sys.executable, "-c", code, str(path), str(commits)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
            for number in range(commits):
                _write(store, 3 * number, 3 * number + 1, 3 * number + 2, host=f"h{number}")
            assert reader.stdout.read() == "done\n"


def test_a_writer_that_is_killed_leaves_whole_commits(tmp_path: Path) -> None:
    path = tmp_path / "db"
    code = """
import sys
from support.table_model import vectors_of
from tsdb.catalog.table import TableOptions, build_schema
from tsdb.storage.store import Store
from tsdb_format.types import Role

schema = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("host", "STRING", Role.TAG), ("v", "DOUBLE", Role.FIELD)])
with Store.open(sys.argv[1]) as store:
    store.create_table("t", schema, TableOptions(file_rows_max=2), if_not_exists=True)
    first = store.snapshot().sequence
    for number in range(first, first + 1000):
        rows = [{"time": 5 * number + k, "host": f"h{number}", "v": 1.0} for k in range(5)]
        print(store.write_batch("t", vectors_of(schema, rows)).sequence, flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    acknowledged = 0
    for lines in (3, 8, 1):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, env=environment
        ) as writer:
            assert writer.stdout is not None
            for _ in range(lines):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
        with Store.open(path) as store:
            sequence = store.snapshot().sequence
            assert sequence >= acknowledged
            assert _times(store) == sorted(range(5 * sequence), key=lambda time: (f"h{time // 5}", time))
            assert list(check(store)) == []
