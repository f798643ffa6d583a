"""Charts in the terminal."""

from __future__ import annotations

import datetime
import io

import numpy as np
import pytest

from tsdb_cli.plot import write_charts

START = datetime.datetime(2026, 1, 1)


def _chart(names: list[str], rows: list[tuple], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", "60")
    stream = io.StringIO()
    write_charts(names, rows, stream)
    return stream.getvalue().split("\n")


def test_a_rising_line_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(START + datetime.timedelta(seconds=i), float(i)) for i in range(200)]
    lines = _chart(["time", "usage"], rows, monkeypatch)
    assert lines[0] == "usage"
    firsts = [next((i for i, char in enumerate(line.partition("┤")[2]) if char != " "), None) for line in lines[1:8]]
    assert firsts == sorted(firsts, reverse=True)
    assert lines[1].startswith("199 ┤")
    assert lines[7].startswith("  0 ┤⣀")
    assert lines[8].split() == ["2026-01-01", "00:00:00", "2026-01-01", "00:03:19"]
    assert all(len(line) <= 60 for line in lines)


def test_nulls_and_nan_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(START, None), (START, float("nan")), (START + datetime.timedelta(hours=1), 5.0), (None, 6.0)]
    lines = _chart(["time", "usage"], rows, monkeypatch)
    assert sum(char > "\u2800" for line in lines[1:8] for char in line.partition("┤")[2]) == 1


@pytest.mark.parametrize(("rows", "text"), [([], "nothing to draw"), ([("a",)], "nothing to draw"), ([(None,)], "nothing to draw")])
def test_nothing_to_draw(rows: list[tuple], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text in _chart(["x"], rows, monkeypatch)[0]


def test_lines_are_told_apart_by_text_columns_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [(np.datetime64(i, "ns"), f"host_{i % 3}", i) for i in range(30)]
    assert _chart(["time", "host", "n"], few, monkeypatch)[0].split() == ["n", "━", "host_0", "━", "host_1", "━", "host_2"]
    many = [(np.datetime64(i, "ns"), f"host_{i}", i) for i in range(30)]
    assert _chart(["time", "host", "n"], many, monkeypatch)[0].split() == ["n", "━", "30", "lines"]


def test_without_a_time_column_rows_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _chart(["n"], [(1,), (2,)], monkeypatch)[8].split() == ["row", "1", "row", "2"]
