"""Files named by a column of CSV and Parquet become blobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import tsdb
from support.command import run
from tsdb.storage.check import examine

SIZES = (0, 10, 100, 150, 500)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images beside a CSV file that names them, and the table's database."""
    (tmp_path / "images").mkdir()
    lines = ["time,host,file,v"]
    for number in range(10):
        (tmp_path / "images" / f"{number}.bin").write_bytes(bytes([number]) * SIZES[number % 5])
        lines.append(f"{number},a,images/{number}.bin,{number}.5")
    lines.append("10,a,,1")
    lines.append("11,a,images/3.bin,1")
    (tmp_path / "frames.csv").write_text("\n".join(lines) + "\n")
    with tsdb.open(tmp_path / "db") as db:
        db.sql(
            "CREATE TABLE frames (time TIMESTAMP_MS TIME, host STRING TAG, image BLOB FIELD, v DOUBLE FIELD) "
            "WITH (blob_inline_max = 16, blob_packed_max = 200)"
        )
    return tmp_path


def _check(db: tsdb.Database) -> None:
    expected = [bytes([number]) * SIZES[number % 5] for number in range(10)] + [None, bytes([3]) * 150]
    assert [image for (image,) in db.sql("SELECT image FROM frames ORDER BY time").fetchall()] == expected


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_become_blobs(folder: Path, form: str) -> None:
    source = folder / f"frames.{form}"
    if form == "parquet":
        import duckdb

        duckdb.execute(f"COPY (FROM read_csv('{folder / 'frames.csv'}')) TO '{source}' (FORMAT parquet)")
    with tsdb.open(folder / "db") as db:
        report = db.ingest("frames", source, time_unit="ms", blob={"image": "file"})
        assert (report.inserted, report.rejected) == (12, 0)
        _check(db)
        db.compact()
        _check(db)
        sizes = sorted(path.stat().st_size - 24 for path in (folder / "db" / "table").rglob("*.blob"))
        assert sizes == [500, 500, 500]  # the packed ones together, and two of their own
    assert not [each for each in examine(folder / "db") if not each.note]


def test_the_command(folder: Path) -> None:
    done = run("ingest", folder / "db", folder / "frames.csv", "--table", "frames", "--time-unit", "ms", "--blob", "image=file")
    assert done.code == 0, done.err
    with tsdb.open(folder / "db") as db:
        _check(db)


def test_a_table_that_is_made(folder: Path) -> None:
    """The blobs stand in place of the column that names them; what fails leaves no table."""
    given = ("ingest", folder / "new", folder / "frames.csv", "--create", "--tags", "host", "--time-unit", "ms")
    done = run(*given, "--blob", "image=picture")
    assert done.code != 0
    assert "no file has a column 'picture' that could name files" in done.err
    done = run(*given, "--blob", "v=file")
    assert done.code != 0
    done = run("ingest", folder / "new", folder / "frames.csv", "--blob", "image=file", "--time-unit", "ms")
    assert "--create" in done.err
    done = run(*given, "--blob", "image=file")
    assert done.code == 0, done.err
    assert "image BLOB" in done.out
    assert "left out" not in done.err
    with tsdb.open(folder / "new") as db:
        assert [name for name, *_ in db.sql("DESCRIBE frames").fetchall()] == ["time", "host", "v", "image"]
        _check(db)


def test_what_cannot_be_read(folder: Path) -> None:
    (folder / "images" / "7.bin").unlink()
    with tsdb.open(folder / "db") as db:
        with pytest.raises(tsdb.InvalidInput, match=r"7\.bin cannot be read: No such file"):
            db.ingest("frames", folder / "frames.csv", time_unit="ms", blob={"image": "file"})
        with pytest.raises(tsdb.NotFound, match="no column 'picture'"):
            db.ingest("frames", folder / "frames.csv", time_unit="ms", blob={"image": "picture"})
        with pytest.raises(tsdb.InvalidInput, match="only blobs"):
            db.ingest("frames", folder / "frames.csv", time_unit="ms", blob={"v": "file"})
        assert not list((folder / "db").rglob("*.blob*"))
