"""CSV into tables: every awkward form of the text, every kind of bad row, and sums that add up."""

from __future__ import annotations

import csv
import gzip
import os
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard

from support.table_model import merged_rows
from tsdb.catalog.table import TableOptions, build_schema
from tsdb.ingest.ingest import IngestReport, ingest
from tsdb.storage.store import Store
from tsdb_format.errors import InvalidInput, NotFound, ReadOnly
from tsdb_format.types import Role

SCHEMA = build_schema(
    [
        ("time", "TIMESTAMP_NS", Role.TIME),
        ("host", "STRING", Role.TAG),
        ("v", "DOUBLE", Role.FIELD),
        ("n", "INT64", Role.FIELD),
        ("s", "STRING", Role.FIELD),
        ("ok", "BOOLEAN", Role.FIELD),
        ("day", "DATE", Role.FIELD),
        ("at", "TIMESTAMP_MS", Role.FIELD),
        ("raw", "BLOB", Role.FIELD),
        ("vec", "VECTOR(2)", Role.FIELD),
        ("f", "FLOAT", Role.FIELD),
        ("small", "INT32", Role.FIELD),
    ]
)
NS = 10**9


class Case:
    """A database in a temporary directory, and CSV texts on their way into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store.open(folder / "db", threads=2)
        self.rejects = folder / "rejects.csv"

    def file(self, data: bytes | str, name: str = "a.csv") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def ingest(self, data: bytes | str | Path, name: str = "a.csv", table: str = "t", **options: Any) -> IngestReport:
        path = data if isinstance(data, Path) else self.file(data, name)
        report = ingest(self.store, table, path, rejects=self.rejects, **options)
        assert report.read == report.inserted + report.updated + report.rejected
        assert len(self.rejected()) == report.rejected
        return report

    def rows(self, *names: str, table: str = "t") -> list[Any]:
        found = merged_rows(self.store.snapshot().tables[table])
        return [row[names[0]] if len(names) == 1 else tuple(row[name] for name in names) for row in found]

    def rejected(self) -> list[tuple[int, str, str, str]]:
        with self.rejects.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [(int(row["line"] or -1), row["column"], row["reason"], row["raw"]) for row in rows]


@pytest.fixture
def case(tmp_path: Path) -> Any:
    made = Case(tmp_path)
    made.store.create_table("t", SCHEMA)
    yield made
    made.store.close()


def test_every_type(case: Case) -> None:
    case.ingest(
        "time,host,v,n,s,ok,day,at,raw,vec,f,small\n"
        '2020-01-01,a,1.5,9223372036854775807,x,true,2020-01-02,2020-01-01T00:00:00.001Z,\\x00b,"[1, 2]",0.1,-2147483648\n'
        '2020-01-02,a,-1e300,-1,"q,""uoted""",f,1969-12-31,1969-12-31 23:59:59.999,,"[0.5, -1]",1e3,7\n'
        "2020-01-03,a,,,,,,,,,,\n"
    )
    assert case.rows("v", "n", "s", "ok", "day", "at", "raw", "vec", "small") == [
        (1.5, 2**63 - 1, "x", True, 18263, 1577836800001, b"\0b", [1.0, 2.0], -(2**31)),
        (-1e300, -1, 'q,"uoted"', False, -1, -1, None, [0.5, -1.0], 7),
        (None,) * 9,
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"time,host,v\n2020-01-01,a,1\n2020-01-02,a,2\n",
        b"time,host,v\n2020-01-01,a,1\n2020-01-02,a,2",
        b"time,host,v\r\n2020-01-01,a,1\r\n2020-01-02,a,2\r\n",
        b"time,host,v\r2020-01-01,a,1\r2020-01-02,a,2\r",
        b"\xef\xbb\xbftime,host,v\n2020-01-01,a,1\n2020-01-02,a,2\n",
        b"v,time,host\n1,2020-01-01,a\n2,2020-01-02,a\n",
        b"TIME,Host,V\n2020-01-01,a,1\n2020-01-02,a,2\n",
        b"time;host;v\n2020-01-01;a;1\n2020-01-02;a;2\n",
        b"time\thost\tv\n2020-01-01\ta\t1\n2020-01-02\ta\t2\n",
        b"time|host|v\n2020-01-01|a|1\n2020-01-02|a|2\n",
        b"time,host,v,\n2020-01-01,a,1,\n2020-01-02,a,2,\n",
        b"time,host,v\n2020-01-01,a,1,\n2020-01-02,a,2\n",
        b"time,host,v\n\n2020-01-01,a,1\n\n\n2020-01-02,a,2\n\n",
        b'"time","host","v"\n"2020-01-01","a","1"\n"2020-01-02","a","2"\n',
        b"time,host,unknown,v\n2020-01-01,a,z,1\n2020-01-02,a,z,2\n",
        b"time , host , v\n2020-01-01,a, 1 \n 2020-01-02 ,a,2.0\n",
        b"time,host,v\n2020-01-02,a,2\n2020-01-01,a,1\n",
    ],
)
def test_one_content_in_many_forms(case: Case, data: bytes) -> None:
    report = case.ingest(data)
    assert (report.read, report.inserted) == (2, 2)
    assert case.rows("time", "host", "v") == [(1577836800 * NS, "a", 1.0), (1577923200 * NS, "a", 2.0)]
    assert any("unknown" in note for note in report.notes) == (b"unknown" in data)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.zst", "it's [1]*?.csv", "no ending", "täg/ü.csv"])
def test_compressed_files_and_strange_names(case: Case, name: str) -> None:
    data = b"time,host,v\n" + b"".join(b"2020-01-01 00:00:%02d,a,%d\n" % (number, number) for number in range(60))
    packed = gzip.compress(data) if name.endswith("gz") else zstandard.compress(data) if name.endswith("zst") else data
    assert case.ingest(packed, name).inserted == 60
    assert case.rows("v") == [float(number) for number in range(60)]


def test_empty_is_null_and_quoted_empty_is_a_string(case: Case) -> None:
    case.ingest('time,host,s\n2020-01-01,,\n2020-01-01,"",""\n2020-01-01,null,null\n2020-01-01,NULL,NA\n')
    assert sorted(case.rows("host", "s"), key=repr) == [("", ""), ("NULL", "NA"), ("null", "null"), (None, None)]


def test_quoted_blanks_are_null_where_they_cannot_be_strings(case: Case) -> None:
    report = case.ingest(
        'time,host,v,n,ok,f,s,day,small\n2020-01-01,a,"","","","","","",""\n2020-01-02,a,"1.5","2","yes","0.5","x","2020-01-01","3"\n'
        "2020-01-03,a,1e400,3,no,nan,,,\n2020-01-04,a,one,3,no,,,,\n2020-01-05,a,1,3,maybe,,,,\n"
    )
    assert case.rows("v", "n", "ok", "s", "day", "small")[:2] == [(None, None, None, "", None, None), (1.5, 2, True, "x", 18262, 3)]
    assert report.rejected == 2
    assert [(line, column) for line, column, *_ in case.rejected()] == [(5, "v"), (6, "ok")]


def test_quoted_newlines_and_huge_cells(case: Case) -> None:
    huge = "y" * 3_000_000
    case.ingest(f'time,host,s\n2020-01-01,a,"two\nlines, ""and"" a comma"\n2020-01-02,a,{huge}\n2020-01-03,a,"\r\n"\n')
    assert case.rows("s") == ['two\nlines, "and" a comma', huge, "\r\n"]


BAD = (
    b"time,host,v,n,small,s\n"
    b"2020-01-01,a,1,1,1,x\n"
    b'2020-01-02,a,x,1,1,"two\nlines"\n'  # line 3
    b"not a time,a,1,1,1,x\n"  # line 5
    b",a,1,1,1,x\n"  # line 6
    b"2020-01-04,a,1,1.5,1,x\n"  # line 7
    b"\n"
    b"2020-01-05,a,1,1,2147483648,x\n"  # line 9
    b"2020-01-06,a,1\n"  # line 10
    b"2020-01-07,a,1,1,1,x,extra\n"  # line 11
    b"2020-01-08,a,1,1,1,\xff\xfe\n"  # line 12
    b"2300-01-01,a,1,1,1,x\n"  # line 13
    b"2020-02-30,a,1,99999999999999999999,1,x\n"  # line 14
    b'"",a,1,1,1,x\n'  # line 15
    b"2020-01-09,a,1,1,1,x\n"
)
REASONS = [
    (3, "v", "'x' is not a DOUBLE"),
    (5, "time", "'not a time' is not a time"),
    (6, "time", "there is no time"),
    (7, "n", "'1.5' is not a whole number"),
    (9, "small", "'2147483648' is outside of the range of INT32"),
    (10, "", "3 cells where there should be 6"),
    (11, "", "7 cells where there should be 6"),
    (12, "", "not UTF-8"),
    (13, "time", "'2300-01-01' is outside of the range of TIMESTAMP_NS"),
    (14, "time", "'2020-02-30' is not a time"),
    (15, "time", "there is no time"),
]


@pytest.mark.parametrize("breaks", [b"\n", b"\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_bad_rows_are_named_by_line_column_and_reason(case: Case, breaks: bytes, bom: bytes) -> None:
    data = bom + BAD.replace(b"\n", breaks)
    report = case.ingest(data)
    assert (report.read, report.inserted, report.rejected) == (13, 2, 11)
    found = case.rejected()
    assert [(line, column, reason) for line, column, reason, _ in found] == REASONS
    lines = data.removeprefix(bom).split(breaks)
    for line, _, _, raw in found:
        if line != 3:
            assert raw == lines[line - 1].decode("utf-8", "backslashreplace")
    assert found[0][3].startswith('2020-01-02,a,x,1,1,"two')
    assert case.rows("time") == [1577836800 * NS, 1578528000 * NS]
    assert len([note for note in report.notes if note.startswith("rejected")]) == 5


def test_rejects_in_a_larger_file_and_many_pieces(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdb.ingest.csv_text.PIECE_BYTES", 1000)
    monkeypatch.setattr("tsdb.ingest.csv_text.RECORDS_MIN", 7)
    lines = ["time,host,v,s"]
    expected = []
    for number in range(2000):
        bad_time, bad_value = number % 97 == 5, number % 101 == 7
        time = "never" if bad_time else f"2020-01-01 00:{number // 60 % 60:02}:{number % 60:02}.{number:06}"
        text = f'"multi\nline {number}"' if number % 13 == 0 else "plain"
        if bad_time or bad_value:
            expected.append((1 + sum(line.count("\n") + 1 for line in lines), "time" if bad_time and not bad_value else "v"))
        lines.append(f"{time},a,{'bad' if bad_value else number},{text}")
    report = case.ingest("\n".join(lines) + "\n")
    assert [(line, column) for line, column, *_ in case.rejected()] == expected
    assert report.inserted == 2000 - len(expected)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_only_bad_rows_or_none(case: Case, packed: bool) -> None:
    def given(data: bytes) -> tuple[bytes, str]:
        return (gzip.compress(data), "a.csv.gz") if packed else (data, "a.csv")

    assert case.ingest(*given(b"time,host,v\nx,a,1\n")).rejected == 1
    assert case.ingest(*given(b"time,host,v\n")).read == 0
    assert case.ingest(*given(b"")).read == 0
    assert case.ingest(*given(b"\xef\xbb\xbf\n\n")).read == 0
    assert case.store.snapshot().tables["t"].files == ()


def test_compressed_files_in_several_frames(case: Case) -> None:
    parts = [b"time,host,v\n2020-01-01,a,1\n", b"2020-01-02,a,2\n", b"2020-01-03,a,3\n"]
    assert case.ingest(b"".join(map(gzip.compress, parts)), "a.csv.gz").inserted == 3
    assert case.ingest(b"".join(map(zstandard.compress, parts)), "a.csv.zst").updated == 3


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.zst"])
def test_cut_compressed_files_are_errors(case: Case, name: str) -> None:
    rng = random.Random(1)
    data = b"time,host,v\n" + b"".join(b"%d,a,%d\n" % (number, rng.randrange(10**9)) for number in range(50_000))
    packed = gzip.compress(data) if name.endswith("gz") else zstandard.compress(data)
    for cut in (len(packed) - 1, len(packed) // 2, 20, 3):
        with pytest.raises(InvalidInput, match=f"{name} cannot be read"):
            case.ingest(packed[:cut], name, time_unit="s")
    if name.endswith("gz"):  # its frames carry a checksum
        flipped = bytearray(packed)
        flipped[len(packed) // 2] ^= 0x55
        with pytest.raises(InvalidInput, match=f"{name} cannot be read"):
            case.ingest(bytes(flipped), name, time_unit="s")
    assert case.ingest(packed, name, time_unit="s").inserted == 50_000


def test_a_place_for_rejects_that_cannot_be_written(case: Case) -> None:
    path = case.file("time,host,v\n2020-01-01,a,1\n")
    with pytest.raises(InvalidInput, match="rejects cannot be written"):
        ingest(case.store, "new", path, create=True, rejects=case.folder / "no" / "such" / "r.csv")
    assert "new" not in case.store.tables()


def test_cut_files(case: Case) -> None:
    data = gzip.compress(b"time,host,v\n" + b"2020-01-01,a,1\n" * 5000)
    with pytest.raises(InvalidInput, match=r"a\.csv\.gz cannot be read"):
        case.ingest(data[: len(data) // 2], "a.csv.gz")
    assert case.ingest("time,host,v\n2020-01-01,a,1\n2020-01-02,a").rejected == 1
    assert case.ingest('time,host,s\n2020-01-03,a,x\n2020-01-04,a,"never closed\n2020-01-05,a,y\n').rejected == 1
    assert case.rejected() == [(3, "", "a quote is not closed, or closed before the end of its cell", '2020-01-04,a,"never closed')]
    assert case.rows("time") == [1577836800 * NS, 1578009600 * NS, 1578182400 * NS], "only the line with the quote is given up"


def test_epochs_zones_and_units(case: Case) -> None:
    report = case.ingest("time,host\n1577836800,a\n-0.5,a\n1577836800.123456789,a\n")
    assert case.rows("time") == [-NS // 2, 1577836800 * NS, 1577836800123456789]
    assert any("epoch times in s" in note for note in report.notes)
    case.ingest("time,host\n1577836800000,b\n", "b.csv")
    case.ingest("time,host\n1577836800000000,c\n", "c.csv", time_unit="us")
    case.ingest("time,host\n1577836800000000000,d\n", "d.csv")
    assert [row for row in case.rows("host", "time") if row[0] > "a"] == [(host, 1577836800 * NS) for host in "bcd"]
    assert not any("epoch" in note for note in case.ingest("time,host\n5,e\n", "e.csv", time_unit="ms").notes)
    report = case.ingest(
        "time,host\n2024-03-31 02:30,f\n2024-10-27 02:30,f\n2024-07-01T00:00Z,f\n", "f.csv", timezone="Europe/Berlin"
    )
    assert [row for row in case.rows("host", "time") if row[0] == "f"] == [("f", 1719792000 * NS), ("f", 1729989000 * NS)]
    assert case.rejected() == [(2, "time", "'2024-03-31 02:30' is a time that clocks in that zone skipped", "2024-03-31 02:30,f")]
    assert any("showed twice" in note for note in report.notes)
    with pytest.raises(InvalidInput):
        case.ingest("time,host\n5,e\n", time_unit="minutes")
    with pytest.raises(InvalidInput):
        case.ingest("time,host\n5,e\n", timezone="Mars")


def test_the_time_column_by_another_name_and_without_a_header(case: Case) -> None:
    assert case.ingest("stamp,host,v\n2020-01-01,a,1\n", time="stamp").inserted == 1
    assert case.ingest("time,stamp,host,v\nx,2020-01-02,a,1\n", "b.csv", time="stamp").inserted == 1
    case.store.create_table(
        "u", build_schema([("time", "TIMESTAMP_S", Role.TIME), ("k", "INT32", Role.TAG), ("v", "DOUBLE", Role.FIELD)])
    )
    assert case.ingest("2020-01-01,1,2\n2020-01-02,1,2\n", "c.csv", table="u").inserted == 2
    for data, error, says in (
        ("stamp,host,v\n2020-01-01,a,1\n", NotFound, "no column 'time' for the time"),
        ("time,x,y\n2020-01-01,a,1\n", NotFound, "shares no column but the time"),
        ("time,host,v,V\n2020-01-01,a,1,2\n", InvalidInput, "two columns 'V'"),
        ("2020-01-01,a,1\n", InvalidInput, "no header and 3 columns"),
        ("\xff\xfet\0".encode("latin-1"), InvalidInput, "UTF-16"),
    ):
        with pytest.raises(error, match=says):
            case.ingest(data, "d.csv")
    with pytest.raises(NotFound, match="no column 'when'"):
        case.ingest("time,host,v\n2020-01-01,a,1\n", "e.csv", time="when")


def test_paths(case: Case) -> None:
    for number, name in enumerate(("one/x.csv", "one/y.csv", "two/x.csv", "two/readme.txt")):
        case.file(f"time,v\n2020-01-01,{number}\n", f"data/{name}")
    report = ingest(case.store, "t", case.folder / "data", tag_from_path="{host}/*.csv")
    assert (report.files, report.read) == (3, 3)
    assert case.rows("host", "v") == [("one", 1.0), ("two", 2.0)]
    assert ingest(case.store, "t", [str(case.folder / "data/**/x.csv")], tag_from_path="{host}/x.csv", again=True).files == 2
    with pytest.raises(InvalidInput, match=r"readme\.txt does not end as"):
        ingest(case.store, "t", case.folder / "data/two/readme.txt", tag_from_path="{host}/{s}.csv")
    with pytest.raises(InvalidInput, match="no tag 'group'"):
        ingest(case.store, "t", case.folder / "data", tag_from_path="{group}/*.csv")
    for paths in ([], case.folder / "absent.csv", case.folder / "data/*.parquet"):
        with pytest.raises((NotFound, InvalidInput)):
            ingest(case.store, "t", paths)
    (case.folder / "nothing").mkdir()
    with pytest.raises(NotFound, match="holds no"):
        ingest(case.store, "t", case.folder / "nothing")
    with pytest.raises(InvalidInput, match="its path gives that tag too"):
        case.ingest("time,host\n2020-01-01,a\n", "k/b.csv", tag_from_path="{host}/b.csv")


def test_duplicates_across_batches_and_files_are_updates(case: Case) -> None:
    assert case.ingest("time,host,v,s\n2020-01-01,a,1,x\n2020-01-01,a,2,\n").updated == 1
    assert case.rows("v", "s") == [(2.0, "x")]
    report = case.ingest("time,host,v\n2020-01-01,a,3\n2020-01-02,a,4\n", "b.csv")
    assert (report.inserted, report.updated) == (1, 1)
    assert case.rows("v", "s") == [(3.0, "x"), (4.0, None)]


def test_files_with_different_columns_in_one_commit(case: Case) -> None:
    case.file("time,host,v\n2020-01-01,a,1\n", "d/1.csv")
    case.file("time,s\n2020-01-02,x\n", "d/2.csv")
    case.file("time,host,n\n2020-01-03,a,5\n", "d/3.csv")
    assert case.ingest(case.folder / "d").inserted == 3
    assert len(case.store.snapshot().tables["t"].files) == 1
    assert sorted(case.rows("time", "host", "v", "s", "n")) == [
        (1577836800 * NS, "a", 1.0, None, None),
        (1577923200 * NS, None, None, "x", None),
        (1578009600 * NS, "a", None, None, 5),
    ]


def test_tables_that_are_not_there_and_readers(case: Case) -> None:
    with pytest.raises(NotFound, match="create=True"):
        case.ingest("time,host,v\n2020-01-01,a,1\n", table="missing")
    path = case.file("time,host,v\n2020-01-01,a,1\n")
    case.store.close()
    case.store = Store.open(case.folder / "db", "r")
    with pytest.raises(ReadOnly):
        ingest(case.store, "t", path)


def test_a_stream_keeps_all_rows(case: Case) -> None:
    case.store.create_table("log", SCHEMA, TableOptions(mode="append"))
    data = "time,host,v\n2020-01-01,a,1\n2020-01-01,a,1\n"
    assert case.ingest(data, table="log").inserted == 2
    assert case.ingest(data, table="log").read == 0
    assert case.ingest(case.folder / "a.csv", table="log", again=True).inserted == 2
    assert case.rows("v", table="log") == [1.0] * 4


def test_a_pipe_is_refused_and_not_waited_for(case: Case, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", Path("/dev/null")):
        with pytest.raises(InvalidInput, match="is a pipe or a device"):
            ingest(case.store, "t", path)


def test_a_column_without_a_name_is_left_out_aloud(case: Case) -> None:
    report = case.ingest("time,host,,s,\n2026-01-01,a,lost,x,\n")
    assert (report.inserted, report.rejected) == (1, 0)
    assert [note for note in report.notes if "left out" in note] == [
        "columns that table 't' does not have were left out: the unnamed column 3"
    ]
