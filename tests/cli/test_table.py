"""Text tables and name-value lists."""

from __future__ import annotations

import io
from collections.abc import Iterator

from tsdb_cli.table import write_pairs, write_table


def _table(names: list[str], types: list[str], rows: list[tuple], rows_max: int | None = None) -> tuple[int, list[str]]:
    stream = io.StringIO()
    count = write_table(names, types, rows, stream, rows_max)
    return count, stream.getvalue().split("\n")[:-1]


def test_text_left_numbers_right_null_named() -> None:
    count, lines = _table(["host", "usage"], ["STRING", "DOUBLE"], [("a", 1.5), ("host_12", None), (None, 100.25)])
    assert count == 3
    assert lines == ["host      usage", "───────  ──────", "a           1.5", "host_12    NULL", "NULL     100.25"]


def test_no_rows_is_a_heading() -> None:
    assert _table(["a"], ["INT64"], []) == (0, ["a", "─"])


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    _, lines = _table(["t", "x"], ["STRING", "INT64"], [("日本", 1), ("é", 2), ("e\u0301", 3)])
    assert lines[2:] == ["日本  1", "é     2", "e\u0301     3"]


def test_control_characters_cannot_reach_the_terminal() -> None:
    _, lines = _table(["a\nb"], ["STRING"], [("\x1b[31mred\t",)])
    assert lines[0].strip() == "a\\nb"
    assert lines[2] == "\\x1b[31mred\\t"


def test_rows_past_the_limit_are_counted_not_written() -> None:
    count, lines = _table(["a"], ["INT64"], [(i,) for i in range(10)], rows_max=3)
    assert (count, len(lines)) == (10, 5)


def test_a_long_result_streams() -> None:
    produced = 0

    def rows() -> Iterator[tuple[int]]:
        nonlocal produced
        for produced in range(5_000):
            yield (produced,)

    class Closed(Exception):
        pass

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if text.strip() == "1500":
                raise Closed
            return super().write(text)

    try:
        write_table(["a"], ["INT64"], rows(), Stream())
    except Closed:
        assert produced == 1_500
    else:
        raise AssertionError("the stream was never written")


def test_pairs_are_aligned_and_numbers_grouped() -> None:
    stream = io.StringIO()
    write_pairs([("pages_read", 1_234), ("first", "heap"), ("flag", True)], stream)
    assert stream.getvalue() == "pages_read  1,234\nfirst       heap\nflag        true\n"
