"""Splitting CSV against Python's csv module, in pieces of any size, and the verdicts on what is not well formed."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.exec.kernels import csv_split
from tsdb.exec.kernels.csv_split import BAD_QUOTE, BAD_TEXT, FINE, LONG, SHORT
from tsdb.ingest import csv_text
from tsdb.ingest.csv_layout import CsvLayout, read_layout
from tsdb.ingest.csv_text import read_pieces
from tsdb.ingest.source import Source
from tsdb_format.errors import InvalidInput

CELL = st.text(st.sampled_from(['"', ",", ";", "\n", " ", "a", "é", "\U0001f600", "1", "'", "\t"]), max_size=6)


def _source(path: Path, data: bytes) -> Source:
    path.write_bytes(data)
    return Source(str(path), "csv", len(data), 0)


def _cells(source: Source, layout: CsvLayout, wanted: list[int]) -> list[tuple[int, int, list[str | None]]]:
    """(line, verdict, cells) of every record; the pieces' own account of where they end is checked by starting there."""
    out: list[tuple[int, int, list[str | None]]] = []
    ends: list[tuple[int, int, int]] = []
    for piece in read_pieces(source, layout, wanted):
        columns = [piece.cells(number) for number in range(len(wanted))]
        for row, (line, verdict) in enumerate(zip(piece.record_line.tolist(), piece.verdict.tolist(), strict=True)):
            sound = verdict == FINE
            out.append((line, verdict, [None if c.starts[row] < 0 else c.text(row) for c in columns] if sound else []))
        ends.append((piece.offset, piece.next_line, len(out)))
    for offset, line, seen in ends[:: max(1, len(ends) // 3)]:
        rest = [each for piece in read_pieces(source, layout, wanted, offset, line) for each in piece.record_line.tolist()]
        assert rest == [each[0] for each in out[seen:]]
    return out


@given(
    st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=30),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.booleans(),
    st.sampled_from([16, 40, 1000]),
)
def test_what_csv_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, ...]],
    delimiter: str,
    end: str,
    quoting: int,
    cut: bool,
    size: int,
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerow(["x", "y", "z"])
    writer.writerows(rows)
    data = text.getvalue().encode()
    source = _source(tmp_path_factory.mktemp("csv") / "a.csv", data[: -len(end)] if cut else data)
    layout = CsvLayout(delimiter, ("x", "y", "z"), 3, (), 10.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_text, "PIECE_BYTES", size)
        patch.setattr(csv_text, "RECORDS_MIN", 2)
        found = _cells(source, layout, [0, 2, 1])
    assert [verdict for _, verdict, _ in found] == [FINE] * len(rows)
    quoted = quoting != csv.QUOTE_MINIMAL
    expected = [[cell if cell or quoted else None for cell in (row[0], row[2], row[1])] for row in rows]
    assert [[_bare(cell) for cell in cells] for _, _, cells in found] == [[_bare(cell) for cell in row] for row in expected]
    lines = [2]
    for row in rows:
        lines.append(lines[-1] + 1 + sum(cell.count("\n") for cell in row))
    assert [line for line, *_ in found] == lines[:-1]


def _bare(cell: str | None) -> str | None:
    """Python quotes no cell for its blanks; here they are kept or stripped by who reads the value, so they are no matter."""
    return cell if cell is None else cell.strip(" ")


@pytest.mark.parametrize("size", [8, 16, 4096])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, end: str) -> None:
    monkeypatch.setattr(csv_text, "PIECE_BYTES", size)
    records = [
        ("1,2,3", FINE), ("1,2", SHORT), ("1", SHORT), ("1,2,3,4", LONG), ("1,2,3,,", FINE), ("1,2,3,,x", LONG), (",,", FINE),
        ('1,"a"b,3', BAD_QUOTE), ('1,"a" ,3', FINE), ('1, "a",3', FINE), ('1,a"b,3', FINE), ('"",1,2', FINE), ('1,2,"3', BAD_QUOTE),
        ("4,5,6", FINE), ('"a""b",2,3', FINE), ("\xe9,2,3", FINE), ("\xff\xfe,2,3", BAD_TEXT), (" , ,", FINE), ("7,8,9", FINE),
    ]  # fmt: skip
    data = "".join(record + end for record, _ in records).encode("latin-1").replace(b"\xe9", "é".encode())
    source = _source(tmp_path / "a.csv", data)
    found = _cells(source, CsvLayout(",", None, 3, (), 5.0), [0, 1, 2])
    if end == "\r":  # lines are counted by the breaks that are there
        assert len(found) == len(records)
    assert [verdict for _, verdict, _ in found] == [verdict for _, verdict in records]
    assert [line for line, *_ in found] == list(range(1, len(records) + 1))
    cells = {line: cells for line, _, cells in found}
    assert cells[7] == [None, None, None]
    assert cells[9] == cells[10] == ["1", "a", "3"]
    assert cells[11] == ["1", 'a"b', "3"]
    assert cells[12] == ["", "1", "2"]
    assert cells[15] == ['a"b', "2", "3"]


def test_a_quote_that_is_never_closed_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_text, "PIECE_BYTES", 64)
    monkeypatch.setattr(csv_text, "RECORD_BYTES_MAX", 256)
    lines = [f"{number},x" for number in range(200)]
    lines[3] = '3,"open'
    source = _source(tmp_path / "a.csv", "\n".join(lines).encode())
    layout = CsvLayout(",", None, 2, (), 5.0)
    found = _cells(source, layout, [0])
    assert [line for line, verdict, _ in found if verdict != FINE] == [4]
    assert [cells[0] for _, verdict, cells in found if verdict == FINE] == [str(number) for number in range(200) if number != 3]
    long = _source(tmp_path / "b.csv", b"1,x\n2," + b"y" * 1000 + b"\n3,z\n")
    with pytest.raises(InvalidInput, match="a line of more than 0 MiB: line 2"):
        _cells(long, layout, [0])


@pytest.mark.parametrize(
    ("data", "delimiter", "header", "width"),
    [
        ("time,v\n1,2\n", ",", ("time", "v"), 2),
        ("time;v,w\n1;2,5\n", ";", ("time", "v,w"), 2),
        ("a\tb\n1\t2\n", "\t", ("a", "b"), 2),
        ("2020-01-01,2\n", ",", None, 2),
        ("x,\n1,\n", ",", ("x", ""), 2),
        ("a,a\n1,2\n", ",", None, 2),
        ("time,time\n1,2\n", ",", ("time", "time"), 2),
        ("time\n1\n", ",", ("time",), 1),
        ('"time, local",v\n1,2\n', ",", ("time, local", "v"), 2),
    ],
)
def test_layouts(tmp_path: Path, data: str, delimiter: str, header: tuple[str, ...] | None, width: int) -> None:
    layout = read_layout(_source(tmp_path / "a.csv", data.encode()), {"TIME"})
    assert layout is not None
    assert (layout.delimiter, layout.header, layout.width) == (delimiter, header, width)
    assert read_layout(_source(tmp_path / "b.csv", b"\n\n"), {"time"}) is None


@given(st.binary(max_size=12))
def test_utf8_as_python_judges(data: bytes) -> None:
    array = np.frombuffer(data, np.uint8)
    try:
        data.decode()
        sound = True
    except UnicodeDecodeError:
        sound = False
    assert csv_split.is_utf8(array, 0, len(array)) == sound
    assert csv_split.is_utf8.py_func(array, 0, len(array)) == sound


def test_the_splitter_as_a_plain_function() -> None:
    text = b'a,"b""c"\r\nd,"e\nf"\n'
    data = np.zeros(2 * len(text), np.uint8)
    data[: len(text)] = np.frombuffer(text, np.uint8)
    state = np.array([0, 1, len(text), 0, 0], np.int64)
    starts, stops = np.empty((2, 4), np.int64), np.empty((2, 4), np.int64)
    extents = [np.empty(4, np.int64) for _ in range(3)]
    verdict, cells = np.empty(4, np.uint8), np.empty(4, np.int64)
    count = csv_split.split_records.py_func(
        data, len(text), True, np.uint8(44), np.uint8(34), np.arange(2), state, starts, stops, *extents, verdict, cells
    )
    found = [[data[starts[k, row] : stops[k, row]].tobytes() for k in range(2)] for row in range(count)]
    assert found == [[b"a", b'b"c'], [b"d", b"e\nf"]]
    assert state[:2].tolist() == [len(text), 4]
