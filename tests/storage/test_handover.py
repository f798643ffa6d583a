"""What snapshots see while a commit is under way: the state before it or the one after it, whoever asks and whatever fails."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

import tsdb
from tsdb.storage import manifest as manifests
from tsdb.storage import writer as writers
from tsdb.storage.versions import Versions
from tsdb_format.errors import Error

COUNT = "SELECT count(*) FROM t"


def database(folder: Path) -> tsdb.Database:
    """A database with an empty table, whose background work is done by commits."""
    db = tsdb.open(folder / "db")
    db.sql("CREATE TABLE t (time TIMESTAMP_S TIME, host STRING TAG, v DOUBLE FIELD)")
    return db


def rows(times: range, host: str = "a") -> list[dict[str, Any]]:
    """One row for each time."""
    return [{"time": time, "host": host, "v": 1.0} for time in times]


def versions(db: tsdb.Database) -> Versions:
    """The state of the database's handle."""
    return db._store._versions


def visible_rows(db: tsdb.Database) -> int:
    """Rows that a snapshot taken now sees."""
    versions(db)._snapshot = None  # as every commit leaves it
    return int(db.sql(COUNT).fetchall()[0][0])


def test_who_decides_by_commits_that_are_not_visible_yet_leaves_the_visible_ones_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(tmp_path) as db:
        db.write("t", rows(range(3)))
        writer = db._store.writer
        with monkeypatch.context() as patch:
            patch.setattr(writer, "settle", lambda *_: None)  # the commits still wait for their sync
            db.write("t", rows(range(3, 5)))
            db.sql("DELETE FROM t WHERE time < make_timestamp(1000000)")
            newest = versions(db).latest(writer.sequence).tables["t"]
            assert [file.row_count for file in newest.files] == [3, 2]
            assert visible_rows(db) == 3
        writer.settle(writer.log.position, writer.sequence)
        assert visible_rows(db) == 4


def test_deletes_hide_rows_until_the_files_without_them_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save, seen = manifests.save, []
    with database(tmp_path) as db:
        db.write("t", rows(range(10)))
        db.flush()
        db.sql("DELETE FROM t WHERE time < make_timestamp(5000000)")
        db.flush()

        def refuse(*_: Any) -> None:
            seen.append(visible_rows(db))
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(manifests, "save", refuse)
            with pytest.raises(Error, match="No space"):
                db.compact()
        assert (seen, visible_rows(db)) == ([5], 5)
        db.write("t", rows(range(10, 11)))
        db.flush()

        def look(*given: Any) -> None:
            save(*given)
            seen.append(visible_rows(db))

        monkeypatch.setattr(manifests, "save", look)
        db.compact()
        assert set(seen[1:]) == {6}
        assert not len(versions(db).memory[1].tombstones)
    with tsdb.open(tmp_path / "db") as db:
        assert visible_rows(db) == 6


def test_a_large_write_brings_its_devices_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "DIRECT_ROWS", 5)
    hosts = "SELECT DISTINCT host FROM t ORDER BY host"
    with database(tmp_path) as db:
        db.write("t", rows(range(2)))
        reclaimer = db._store.writer._reclaimer
        retire, seen = reclaimer.retire, []

        def look(*given: Any) -> None:
            retire(*given)
            seen.append(db.sql(hosts).fetchall())

        monkeypatch.setattr(reclaimer, "retire", look)
        db.write("t", rows(range(5), "b") + rows(range(5), "c"))
        assert seen == [[("a",)], [("a",), ("b",), ("c",)]]
        assert db.sql(hosts).fetchall() == seen[-1]


def test_runs_are_merged_also_where_their_newest_rows_were_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with database(tmp_path) as db:
        writer = db._store.writer
        with monkeypatch.context() as patch:
            patch.setattr(writer, "settle", lambda *_: None)
            db.write("t", rows(range(1)))
            db.write("t", rows(range(9, 10)))
            db.sql("DELETE FROM t WHERE time = make_timestamp(9000000)")
        writer.settle(writer.log.position, writer.sequence)
        assert visible_rows(db) == 1
        db.write("t", rows(range(1, 2)))
        assert visible_rows(db) == 2
        assert len(versions(db).memory[1]._runs) == 1


def test_a_file_finds_its_devices_after_the_table_was_renamed_and_its_device_file_replaced(tmp_path: Path) -> None:
    with database(tmp_path) as db:
        db.write("t", rows(range(2)))
        db.flush()
    with tsdb.open(tmp_path / "db") as db:
        held, name = db._store.snapshot().tables["t"].files[0], db._store.entry("t").device_file
        db.write("t", rows(range(2), "b"))
        db.flush()
        db.sql("ALTER TABLE t RENAME TO u")
        db.write("u", rows(range(2), "c"))
        db.flush()
        (tmp_path / "db" / name).unlink(missing_ok=True)
        assert held._devices().count == 3
