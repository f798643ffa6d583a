"""Blobs outside of pages through a store's life: flush, upsert, delete, TTL, compaction, backup, check, salvage."""

from __future__ import annotations

import datetime
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdb
from tsdb.storage.check import examine
from tsdb.storage.salvage import salvage
from tsdb_format.errors import Corruption

LIMITS = "blob_inline_max = 16, blob_packed_max = 200"


class Table:
    """A table of blobs beside what must be in it."""

    def __init__(self, path: Path, options: str = "") -> None:
        self.path = path
        self.db = tsdb.open(path)
        self.db.sql(
            f"CREATE TABLE IF NOT EXISTS f (time TIMESTAMP_MS TIME, host STRING TAG, image BLOB FIELD, note STRING FIELD) "
            f"WITH ({LIMITS}{options})"
        )
        self.model: dict[tuple[str, int], list[Any]] = {}

    def write(self, host: str, times: range, blob: Callable[[int], bytes | None], note: str | None = None) -> None:
        rows = [{"time": time, "host": host, "image": blob(time), "note": note} for time in times]
        self.db.write("f", rows)
        for row in rows:
            held = self.model.setdefault((host, row["time"]), [None, None])
            for place, name in enumerate(("image", "note")):
                held[place] = row[name] if row[name] is not None else held[place]

    def delete(self, host: str, low: int, high: int) -> None:
        between = f"make_timestamp({low * 1000}) AND make_timestamp({high * 1000})"
        self.db.sql(f"DELETE FROM f WHERE host = '{host}' AND time BETWEEN {between}")
        self.model = {key: value for key, value in self.model.items() if not (key[0] == host and low <= key[1] <= high)}

    def check(self, db: Any = None) -> None:
        found = (db or self.db).sql("SELECT host, time, image, note FROM f ORDER BY host, time").fetchall()
        assert found == [(host, moment(time), *value) for (host, time), value in sorted(self.model.items())]

    def payload_files(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in sorted((self.path / "table").rglob("*.blob"))}

    def is_sound(self) -> bool:
        return not [found for found in examine(self.path) if not found.note]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "db")


def moment(time: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=time)


def blob(seed: int) -> bytes | None:
    """NULL, empty, and one of each size."""
    size = (None, 0, 5, 100, 150, 300)[seed % 6]
    return None if size is None else bytes([seed % 256]) * size


def test_flush_and_reopen(table: Table) -> None:
    table.write("a", range(50), blob)
    table.check()
    table.db.flush()
    table.check()
    assert len(table.payload_files()) == 1 + 8
    assert table.is_sound()
    table.db.close()
    again = tsdb.open(table.path)
    table.check(again)
    assert len(table.payload_files()) == 1 + 8
    again.close()
    with tsdb.open(table.path, mode="r") as reader:
        table.check(reader)


def test_another_column_is_updated_and_the_blob_is_not_touched(table: Table) -> None:
    """They are neither rewritten nor lost."""
    table.write("a", range(30), blob)
    table.db.flush()
    before = table.payload_files()
    table.write("a", range(10, 20), lambda _: None, "seen")
    table.db.flush()
    table.check()
    table.db.compact()
    table.check()
    assert table.payload_files() == before
    assert table.is_sound()


def test_compaction_leaves_payloads_where_they_are(table: Table) -> None:
    for part in range(4):
        table.write("ab"[part % 2], range(30), lambda time, part=part: blob(time + part), None)
        table.db.flush()
    before = table.payload_files()
    table.db.compact()
    table.check()
    after = table.payload_files()
    assert after.items() <= before.items()
    table.db.compact()
    assert table.payload_files() == after
    assert table.is_sound()


def test_dead_bytes_are_reclaimed(table: Table) -> None:
    """Bytes go with their blobs once half of a file is dead, and whole files at once."""
    table.write("a", range(60), lambda time: bytes([time]) * 100)
    table.write("b", range(60), lambda time: bytes([time]) * 300)
    table.db.flush()
    assert sum(table.payload_files().values()) == 60 * 100 + 60 * 300 + 61 * 24
    table.delete("a", 0, 19)
    table.db.compact()
    table.check()
    packed = [size for size in table.payload_files().values() if size != 300 + 24]
    assert packed == [6_024]  # a third is dead
    table.delete("a", 20, 39)
    table.delete("b", 0, 49)
    table.db.compact()
    table.check()
    packed = [size for size in table.payload_files().values() if size != 300 + 24]
    assert packed == [20 * 100 + 24]
    assert len(table.payload_files()) == 1 + 10
    assert table.is_sound()
    table.db.sql("DROP TABLE f")
    table.db.close()
    assert not table.payload_files()


def test_snapshots_keep_the_files_they_see(table: Table) -> None:
    """What was opened before rows were rewritten goes on reading what it saw."""
    table.write("a", range(40), lambda time: bytes([time]) * 100)
    table.db.flush()
    old = table.payload_files()
    earlier = table.db.sql("SELECT image FROM f ORDER BY time")
    table.delete("a", 0, 35)
    table.db.compact()
    table.check()
    assert table.payload_files().keys() > old.keys()
    assert earlier.fetchall() == [(bytes([time]) * 100,) for time in range(40)]
    del earlier
    gc.collect()
    table.db.compact()
    assert sorted(table.payload_files().values()) == [424]


def test_show_files(table: Table) -> None:
    table.write("a", range(50), lambda time: bytes([time]) * 100)
    table.db.flush()

    def shown() -> list[tuple[int, ...]]:
        result = table.db.sql("SHOW FILES")
        return [row[result.columns.index("blob_files") :] for row in result.fetchall()]

    assert shown() == [(1, 5_000, 5_024)]
    table.delete("a", 0, 9)
    table.db.compact()
    assert shown() == [(1, 4_000, 5_024)]


def test_ttl(tmp_path: Path) -> None:
    import time

    now = time.time_ns() // 10**6
    table = Table(tmp_path / "db", ", ttl = '1h'")
    table.write("a", range(now - 7_200_000, now - 7_200_000 + 30), lambda at: bytes([at % 256]) * 100)
    table.db.flush()
    assert table.payload_files()
    table.db.compact()
    table.model = {}
    table.check()
    assert not table.payload_files()


def test_upserts_and_deletes_in_memory_and_files(table: Table) -> None:
    rng = np.random.default_rng(4)
    for step in range(40):
        host, at = str(rng.choice(["a", "b"])), int(rng.integers(0, 40))
        action = rng.choice(["write", "write", "write", "note", "delete", "flush", "compact"])
        if action == "write":
            table.write(host, range(at, at + 10), lambda time, step=step: blob(time * step))
        elif action == "note":
            table.write(host, range(at, at + 10), lambda _: None, f"step {step}")
        elif action == "delete":
            table.delete(host, at, at + int(rng.integers(0, 20)))
        elif action == "flush":
            table.db.flush()
        else:
            table.db.compact()
        table.check()
    table.db.compact()
    table.check()
    assert table.is_sound()


def test_a_crash_leaves_no_payload_files(table: Table) -> None:
    table.write("a", range(30), blob)
    table.db.flush()
    before = table.payload_files()
    table.db.close()
    folder = next((table.path / "table").iterdir())
    for name in ("0000000077.blob", "0000000077.1.blob", "0000000078.blob.tmp"):
        (folder / name).write_bytes(b"x")
    with tsdb.open(table.path) as db:
        table.check(db)
        assert table.payload_files() == before
    assert not list(folder.glob("*.tmp"))


@pytest.mark.parametrize("link", [True, False])
def test_backup(table: Table, tmp_path: Path, link: bool) -> None:
    table.write("a", range(30), blob)
    table.db.flush()
    table.write("b", range(30), blob)
    target = tmp_path / "backup"
    table.db.backup(target, link=link)
    table.check(tsdb.open(target, mode="r"))
    assert not [found for found in examine(target) if not found.note]
    table.delete("a", 0, 25)
    table.db.compact()
    table.db.backup(target, link=link)
    with tsdb.open(target, mode="r") as copy:
        table.check(copy)
    names = {path.name for path in (target / "table").rglob("*.blob")}
    assert names == set(table.payload_files())


def _damage(table: Table, at: int = 74) -> str:
    """Change a byte of the packed blobs, of the first one; the file's name."""
    path = next(path for path in (table.path / "table").rglob("*.blob") if path.with_suffix(".tsf").exists())
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)
    return str(path)


def test_damage_spoils_its_own_row(table: Table) -> None:
    table.write("a", range(30), blob)
    table.db.flush()
    path = _damage(table)
    with pytest.raises(Corruption, match="a blob's checksum") as caught:
        table.db.sql("SELECT image FROM f").fetchall()
    assert (caught.value.path, caught.value.offset) == (path, 24)
    found = table.db.sql("SELECT time, image FROM f WHERE time <> make_timestamp(3000) ORDER BY time").fetchall()
    assert found == [(moment(at), blob(at)) for at in range(30) if at != 3]
    assert [(each.path, each.offset) for each in examine(table.path) if not each.note] == [(path, 24)]


def test_salvage(table: Table, tmp_path: Path) -> None:
    table.write("a", range(30), blob)
    table.db.flush()
    table.write("b", range(5), blob)
    table.db.close()
    path = _damage(table)
    report = salvage(table.path, tmp_path / "saved")
    assert [path in str(each) for each in report.lost] == [True]
    table.model["a", 3][0] = None
    with tsdb.open(tmp_path / "saved") as saved:
        table.check(saved)
    assert not [found for found in examine(tmp_path / "saved") if not found.note]


def test_compaction_leaves_what_is_damaged(table: Table) -> None:
    table.write("a", range(30), lambda time: bytes([time]) * 100)
    table.db.flush()
    _damage(table, 24 + 2950)
    table.delete("a", 0, 28)
    table.db.compact()
    assert "a blob's checksum" in (table.db.compaction_problem or "")
    with pytest.raises(Corruption):
        table.db.sql("SELECT image FROM f").fetchall()
    assert table.db.sql("SELECT time FROM f").fetchall() == [(moment(29),)]
    table.write("b", range(5), blob)
    table.db.flush()
    table.db.compact()


def test_thresholds_are_options_of_the_table(table: Table) -> None:
    [(text,)] = table.db.sql("SHOW CREATE TABLE f").fetchall()
    assert text.endswith("WITH (blob_inline_max = 16, blob_packed_max = 200);")
    with pytest.raises(tsdb.InvalidInput, match="blob_inline_max"):
        table.db.sql("CREATE TABLE g (time TIMESTAMP_MS TIME, image BLOB FIELD) WITH (blob_inline_max = 99999999999)")


@pytest.mark.parametrize("damage", ["byte", "cut", "gone"])
def test_payload_files_that_only_the_log_names_are_checked(table: Table, damage: str) -> None:
    """Blobs that are too large for the log lie beside it until a flush; a damaged one is named with its commit."""
    table.write("a", range(3), lambda i: bytes([65 + i]) * (300 + i))
    table.write("b", range(1), lambda i: b"small")
    assert table.is_sound()
    assert not [found for found in examine(table.path) if found.path.endswith(".blob")]  # nor a note
    files = {path.stat().st_size: path for path in (table.path / "table").rglob("*.blob")}
    assert len(files) == 3
    path = files[301 + 24]
    raw = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(raw[:100] + b"?" + raw[101:] if damage == "byte" else raw[:-5])
    (found,) = [each for each in examine(table.path) if not each.note]
    assert (found.table, Path(found.path).name in (path.name, path.parent.name)) == ("f", True)
    assert "1 row of commit" in found.message
    (note,) = table.db.check()
    assert note == found
    with pytest.raises((Corruption, tsdb.NotFound)):
        table.db.sql("SELECT image FROM f WHERE host = 'a'").fetchall()
    assert table.db.sql("SELECT image FROM f WHERE host = 'b'").fetchall() == [(b"small",)]
