"""Tables made by inference, Parquet, resuming, memory limits, and the recorded series."""

from __future__ import annotations

import csv
import datetime
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.table_model import merged_rows
from tsdb.catalog.table import TableOptions, build_schema
from tsdb.ingest import ingest as ingest_module
from tsdb.ingest.ingest import Progress, ingest
from tsdb.storage.store import Store
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.types import Role

NS = 10**9


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "db", threads=2) as opened:
        yield opened


def _file(folder: Path, name: str, data: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data)
    return path


def _rows(store: Store, *names: str, table: str = "t") -> list[Any]:
    return [tuple(row[name] for name in names) for row in merged_rows(store.snapshot().tables[table])]


def _declared(store: Store, table: str = "t") -> list[str]:
    return [f"{column.name} {column.type} {column.role.name}" for column in store.table(table).schema]


@pytest.mark.parametrize(
    ("text", "options", "declared"),
    [
        (
            "timestamp,host,usage,n,up,note,day\n2020-01-01T00:00:00Z,a,1.5,3,true,x,2020-01-01\n2020-01-02T00:00:00Z,b,,4,false,,\n",
            {"tags": ["host"]},
            [
                "timestamp TIMESTAMP_NS TIME",
                "host STRING TAG",
                "usage DOUBLE FIELD",
                "n INT64 FIELD",
                "up BOOLEAN FIELD",
                "note STRING FIELD",
                "day DATE FIELD",
            ],
        ),
        ("v,when\n1,2020-01-01 00:00:00\n", {}, ["when TIMESTAMP_NS TIME", "v INT64 FIELD"]),
        ("ts,v\n1577836800,1\n", {}, ["ts TIMESTAMP_NS TIME", "v INT64 FIELD"]),
        ("x,v\n1577836800,1.0\n", {"time": "x"}, ["x TIMESTAMP_NS TIME", "v DOUBLE FIELD"]),
        ("date,v\n1600-01-01,1\n", {}, ["date TIMESTAMP_US TIME", "v INT64 FIELD"]),
        (
            "time,id,zip,v\n2020-01-01,7,007,1\n",
            {"tags": ["id", "zip"]},
            ["time TIMESTAMP_NS TIME", "id INT64 TAG", "zip STRING TAG", "v INT64 FIELD"],
        ),
        ("time,blank,v\n2020-01-01,,1\n", {}, ["time TIMESTAMP_NS TIME", "blank STRING FIELD", "v INT64 FIELD"]),
        ("2020-01-01,1.5\n2020-01-02,2\n", {}, ["column0 TIMESTAMP_NS TIME", "column1 DOUBLE FIELD"]),
        ("time,end\n2020-01-01,2020-01-01T01:00:00\n", {}, ["time TIMESTAMP_NS TIME", "end TIMESTAMP_NS FIELD"]),
    ],
)
def test_inferred_schemas(store: Store, tmp_path: Path, text: str, options: dict[str, Any], declared: list[str]) -> None:
    report = ingest(store, "t", _file(tmp_path, "a.csv", text), create=True, **options)
    assert _declared(store) == declared
    assert report.rejected == 0
    assert report.schema is not None
    assert report.schema.startswith("CREATE TABLE t (")
    assert ingest(store, "t", tmp_path / "a.csv", create=True, again=True, **options).schema is None


def test_types_agree_across_files(store: Store, tmp_path: Path) -> None:
    _file(tmp_path, "d/a.csv", "time,value,x\n2020-01-01,1,\n")
    _file(tmp_path, "d/b.csv", "time,value,x\n2020-01-02,1.5,2\n")
    _file(tmp_path, "d/c.csv", "time,value,y\n2020-01-03,7,word\n")
    ingest(store, None, tmp_path / "d", create=True, tag_from_path="{name}.csv")
    assert _declared(store, "a") == [
        "time TIMESTAMP_NS TIME",
        "name STRING TAG",
        "value DOUBLE FIELD",
        "x INT64 FIELD",
        "y STRING FIELD",
    ]
    assert _rows(store, "name", "value", "x", "y", table="a") == [("a", 1, None, None), ("b", 1.5, 2, None), ("c", 7, None, "word")]


@pytest.mark.parametrize(
    ("text", "options", "error", "says"),
    [
        ("a,b\n1,2\n", {}, InvalidInput, "none of the columns is recognisably the time: a, b"),
        ("a,b\nx,2\n", {"time": "a"}, InvalidInput, "'a' holds no times that can be read, such as 'x'"),
        ("a,b\n1,2\n", {"time": "c"}, NotFound, "no file has a column 'c'"),
        ("time,b\n2020-01-01,2\n", {"tags": ["c"]}, NotFound, "no file has a column 'c'"),
        ("", {}, InvalidInput, "no columns"),
        ("time,time\n2020-01-01,2\n", {}, InvalidInput, "two columns 'time'"),
    ],
)
def test_what_cannot_be_inferred_leaves_no_table(
    store: Store, tmp_path: Path, text: str, options: dict[str, Any], error: type, says: str
) -> None:
    with pytest.raises(error, match=says):
        ingest(store, "t", _file(tmp_path, "a.csv", text), create=True, **options)
    assert store.tables() == {}


PARQUET_TIMES = {
    "ns": pa.array([1577836800 * NS + 5, -1], pa.timestamp("ns")),
    "us": pa.array([1577836800 * 10**6, -1], pa.timestamp("us")),
    "zone": pa.array([1577836800 * 10**3, -1], pa.timestamp("ms", "Europe/Berlin")),
    "date": pa.array([18262, -1], pa.date32()),
    "epoch": pa.array([1577836800, -1], pa.int64()),
    "real": pa.array([1577836800.5, -1.0], pa.float64()),
    "text": pa.array(["2020-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]),
}


@pytest.mark.parametrize("kind", PARQUET_TIMES)
def test_parquet_times(store: Store, tmp_path: Path, kind: str) -> None:
    table = pa.table({"time": PARQUET_TIMES[kind], "host": ["a", "a"], "v": pa.array([1.5, None], pa.float32())})
    pq.write_table(table, tmp_path / "a.parquet")
    report = ingest(store, "t", tmp_path / "a.parquet", tags=["host"], create=True)
    assert (report.read, report.inserted) == (2, 2)
    expected = {
        "ns": (1577836800 * NS + 5, -1),
        "us": (1577836800 * NS, -1000),
        "zone": (1577836800 * NS, -(10**6)),
        "date": (1577836800 * NS, -86400 * NS),
        "epoch": (1577836800 * NS, -NS),
        "real": (1577836800 * NS + NS // 2, -NS),
        "text": (1577836800 * NS, -NS),
    }[kind]
    assert _rows(store, "time", "v") == [(expected[1], None), (expected[0], 1.5)]
    assert ingest(store, "t", tmp_path / "a.parquet").read == 0


def test_parquet_types_and_bad_rows(store: Store, tmp_path: Path) -> None:
    schema = build_schema(
        [
            ("time", "TIMESTAMP_S", Role.TIME),
            ("k", "INT32", Role.TAG),
            ("n", "INT32", Role.FIELD),
            ("d", "DOUBLE", Role.FIELD),
            ("b", "BLOB", Role.FIELD),
        ]
    )
    store.create_table("t", schema)
    table = pa.table(
        {
            "TIME": pa.array([1, None, 2, 3, 4], pa.timestamp("s")),
            "k": pa.array([1, 1, 2**31, 1, 1], pa.int64()),
            "n": pa.array([1.0, 1.0, 1.0, 1.5, None], pa.float64()),
            "d": pa.array([1, 2, 3, 4, 2**53 + 1], pa.int64()),
            "b": pa.array([b"\0", b"", b"x", None, b"y"]),
        }
    )
    pq.write_table(table, tmp_path / "a.pq")
    report = ingest(store, "t", tmp_path / "a.pq", rejects=tmp_path / "r.csv")
    assert (report.read, report.inserted, report.rejected) == (5, 1, 4)
    with (tmp_path / "r.csv").open(newline="") as file:
        found = [(row["line"], row["column"], row["reason"]) for row in csv.DictReader(file)]
    assert found == [
        ("1", "time", "there is no time"),
        ("2", "k", "'2147483648' is outside of the range of INT32"),
        ("3", "n", "'1.5' is not a whole number"),
        ("4", "d", "'9007199254740993' is not exactly a DOUBLE"),
    ]
    assert _rows(store, "time", "k", "n", "d", "b") == [(1, 1, 1, 1.0, b"\0")]
    pq.write_table(pa.table({"time": [1], "k": ["x"]}), tmp_path / "b.pq")
    with pytest.raises(InvalidInput, match="'k' is INT32; the data has"):
        ingest(store, "t", tmp_path / "b.pq")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InvalidInput, match=r"c\.parquet cannot be read"):
        ingest(store, "t", tmp_path / "c.parquet")


def _many(path: Path, count: int, first: int = 0) -> Path:
    with path.open("a" if first else "w") as file:
        if not first:
            file.write("time,host,v,s\n")
        for number in range(first, count):
            time = "bad" if number % 10_000 == 77 else number
            text = number % 50 if number < 90_000 else number
            file.write(f"{time},h{number % 7},{number / 10},text {text}\n")
    return path


def test_small_memory_means_several_commits(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdb.ingest.csv_text.PIECE_BYTES", 200_000)
    path = _many(tmp_path / "a.csv", 200_000)
    seen: list[Progress] = []
    report = ingest(
        store, "t", path, time="time", time_unit="ms", tags=["host"], create=True, memory_limit=4 * 2**20, on_progress=seen.append
    )
    assert (report.read, report.inserted, report.rejected) == (200_000, 199_980, 20)
    assert len(store.snapshot().tables["t"].files) > 3
    assert len({row[0] for row in _rows(store, "time")}) == 199_980
    assert _rows(store, "s")[-1] == ("text 199996",)
    assert seen[-1].bytes_done == seen[-1].bytes_total == path.stat().st_size
    assert [each.rows for each in seen] == sorted(each.rows for each in seen)
    assert store.entry("t").sources[str(path)].rows == 200_000


@pytest.mark.parametrize("mode", ["table", "append"])
def test_an_interrupted_ingest_goes_on(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    monkeypatch.setattr(ingest_module, "CHUNK_BYTES_MIN", 2**18)
    path = _many(tmp_path / "a.csv", 60_000)
    schema = build_schema(
        [
            ("time", "TIMESTAMP_MS", Role.TIME),
            ("host", "STRING", Role.TAG),
            ("v", "DOUBLE", Role.FIELD),
            ("s", "STRING", Role.FIELD),
        ]
    )
    store.create_table("t", schema, TableOptions(mode=mode))
    real, calls = store.write_pieces, [0]

    def failing(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr("tsdb.ingest.ingest.BATCH_ROWS", 10_000)
    monkeypatch.setattr("tsdb.ingest.csv_text.PIECE_BYTES", 200_000)
    with monkeypatch.context() as patch:
        patch.setattr(store, "write_pieces", failing)
        with pytest.raises(KeyboardInterrupt):
            ingest(store, "t", path, time_unit="ms", memory_limit=2**21, rejects=tmp_path / "r.csv")
    known = store.entry("t").sources[str(path)]
    assert not known.finished
    assert 0 < known.rows < 60_000
    report = ingest(store, "t", path, time_unit="ms", rejects=tmp_path / "r.csv")
    assert (report.read, report.rejected) == (60_000 - known.rows, 6 - known.rejected)
    with (tmp_path / "r.csv").open(newline="") as file:
        assert [int(row["line"]) for row in csv.DictReader(file)] == [
            number + 2 for number in range(60_000) if number % 10_000 == 77
        ]
    assert report.updated == 0
    assert any("resumed" in note for note in report.notes)
    assert sorted(row[0] for row in _rows(store, "time")) == [number for number in range(60_000) if number % 10_000 != 77]
    assert ingest(store, "t", path, time_unit="ms").read == 0
    again = ingest(store, "t", path, time_unit="ms", again=True)
    assert (again.inserted, again.updated) == ((0, 59_994) if mode == "table" else (59_994, 0))


def test_changed_files(store: Store, tmp_path: Path) -> None:
    schema = build_schema(
        [
            ("time", "TIMESTAMP_MS", Role.TIME),
            ("host", "STRING", Role.TAG),
            ("v", "DOUBLE", Role.FIELD),
            ("s", "STRING", Role.FIELD),
        ]
    )
    store.create_table("t", schema)
    store.create_table("log", schema, TableOptions(mode="append"))
    path = _many(tmp_path / "a.csv", 1000)
    for table in ("t", "log"):
        assert ingest(store, table, path, time_unit="ms").inserted == 999
    _many(path, 1500, first=1000)
    report = ingest(store, "t", path, time_unit="ms")
    assert (report.read, report.inserted, report.updated, report.rejected) == (1500, 500, 999, 1)
    report = ingest(store, "log", path, time_unit="ms")
    assert (report.read, report.inserted, report.rejected) == (500, 500, 0)
    assert any("grew" in note for note in report.notes)
    with path.open("a") as file:
        file.write("1500,h0,1")
    assert ingest(store, "log", path, time_unit="ms").rejected == 1
    with path.open("a") as file:
        file.write("50,x\n")
    with pytest.raises(InvalidInput, match="other than by growing"):
        ingest(store, "log", path, time_unit="ms")
    assert ingest(store, "log", path, time_unit="ms", again=True).inserted == 1500
    path.write_text("time,host,v,s\n5,h5,1,x\n")
    assert ingest(store, "t", path, time_unit="ms").updated == 1
    state = path.stat()
    path.write_text("time,host,v,s\n6,h6,1,x\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert ingest(store, "t", path, time_unit="ms").updated == 1, "same size and time, other bytes"


def test_the_recorded_series(store: Store, shared_data: Path) -> None:
    files = sorted((shared_data / "nab").glob("**/*.csv"))
    report = ingest(store, "nab", str(shared_data / "nab/**/*.csv"), tag_from_path="{group}/{metric}.csv", create=True)
    assert (report.files, report.rejected) == (len(files), 0)
    assert report.read == report.inserted + report.updated
    assert report.inserted >= 162_000
    assert _declared(store, "nab") == ["timestamp TIMESTAMP_NS TIME", "group STRING TAG", "metric STRING TAG", "value DOUBLE FIELD"]
    expected = []
    for path in files:
        newest: dict[int, float] = {}
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                moment = datetime.datetime.fromisoformat(row["timestamp"]).replace(tzinfo=datetime.UTC)
                newest[int(moment.timestamp()) * NS] = float(row["value"])
        expected += [(path.parent.name, path.stem, time, newest[time]) for time in sorted(newest)]
    expected.sort(key=lambda row: (row[0].encode(), row[1].encode(), row[2]))
    assert _rows(store, "group", "metric", "timestamp", "value", table="nab") == expected


def test_values_are_those_that_duckdb_reads(store: Store, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("time,d,f,n\n")
        for number in range(5000):
            value = [f"{rng.normal():.17g}", f"{rng.normal() * 10.0 ** rng.integers(-300, 300):.3e}", str(rng.integers(10**6)), ""][
                number % 4
            ]
            file.write(f"{number},{value},{value},{rng.integers(-(2**62), 2**62)}\n")
    schema = build_schema(
        [("time", "TIMESTAMP_S", Role.TIME), ("d", "DOUBLE", Role.FIELD), ("f", "FLOAT", Role.FIELD), ("n", "INT64", Role.FIELD)]
    )
    store.create_table("t", schema)
    ingest(store, "t", path, time_unit="s")
    there = duckdb.sql(
        f"SELECT time, d, f, n FROM read_csv('{path}', columns={{'time': 'BIGINT', 'd': 'DOUBLE', 'f': 'FLOAT', 'n': 'BIGINT'}})"
    )
    assert _rows(store, "time", "d", "f", "n") == there.fetchall()
