"""The tree, the page table and the byte dump of files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.file_case import FIELD_TYPES, every_encoding_case, random_case
from tsdb_format.dump import dump_file, fields
from tsdb_format.errors import Corruption
from tsdb_format.inspect import bounds_text, inspect_file, inspect_pages, render_pages, render_tree, value_text
from tsdb_format.reader import TsFile
from tsdb_format.statistics import HAS_BOUNDS, MIN_EXACT, Statistics
from tsdb_format.types import BOOLEAN, DATE, DOUBLE, INT64, STRING, TIMESTAMP_MS, TIMESTAMP_NS, TIMESTAMP_S

SHAPES: list[dict[str, Any]] = [
    {},
    {"devices": 1, "rows": 1},
    {"null_share": 1.0, "tags": ("BOOLEAN", "STRING")},
    {"rows": 700, "rows_per_page": 4, "fields": ("STRING", "DOUBLE")},
    {"devices": 1, "rows": 20, "tags": (), "fields": ()},
]


@pytest.mark.parametrize("shape", [*SHAPES, None], ids=str)
def test_every_byte_is_dumped_once_and_in_order(tmp_path: Path, shape: dict[str, Any] | None) -> None:
    (every_encoding_case(1_200, 1_024) if shape is None else random_case(2, **shape)).write(tmp_path / "a.tsf")
    raw = (tmp_path / "a.tsf").read_bytes()
    at = 0
    with TsFile(tmp_path / "a.tsf") as file:
        for field in fields(file):
            assert field.offset == at
            assert field.size > 0
            at += field.size
    assert at == len(raw)
    shown = bytes.fromhex("".join(line[25:72] for line in dump_file(tmp_path / "a.tsf")))
    assert shown == raw


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tree_and_table_name_every_part(tmp_path: Path, shape: dict[str, Any]) -> None:
    case = random_case(2, **shape)
    case.write(tmp_path / "a.tsf")
    report = inspect_file(tmp_path / "a.tsf")
    tree = render_tree(report)
    for name in [*case.columns, *case.device_tags, "header", "tail", "directory", "device.row_start", "a.res: good"]:
        assert name in tree
    assert tree == render_tree(inspect_file(tmp_path / "a.tsf"))
    pages = list(inspect_pages(report.file))
    assert len(pages) == len(case.columns) * report.file.page_count
    assert {page.state for page in pages} == {"ok"}
    assert render_pages(iter(pages)).count("\n") == len(pages) + 1
    assert sum(column.bytes for column in report.columns) == sum(page.bytes for page in pages) + sum(
        column.dictionary_bytes for column in report.columns
    )


def test_chunk_groups_are_listed_with_an_ellipsis(tmp_path: Path) -> None:
    case = random_case(2, rows=1300, rows_per_page=1, fields=())
    case.write(tmp_path / "a.tsf")
    report = inspect_file(tmp_path / "a.tsf")
    assert [(group.first_row, group.rows, group.pages) for group in report.groups][-1] == (1280, 20, 20)
    assert "… 13 more" in render_tree(report)


def test_a_damaged_page_is_shown_as_such(tmp_path: Path) -> None:
    random_case(2).write(tmp_path / "a.tsf")
    with TsFile(tmp_path / "a.tsf") as file:
        offset = int(file.page_set("field2").page_offset[3])
    raw = bytearray((tmp_path / "a.tsf").read_bytes())
    raw[offset] ^= 1
    (tmp_path / "a.tsf").write_bytes(raw)
    (tmp_path / "a.res").unlink()
    report = inspect_file(tmp_path / "a.tsf")
    assert "a.res: rebuilt in memory: absent" in render_tree(report)
    states = [(page.column, page.page, page.state) for page in inspect_pages(report.file) if page.state != "ok"]
    assert states == [("field2", 3, "checksum does not match")]
    with pytest.raises(Corruption):
        list(dump_file(tmp_path / "a.tsf"))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (INT64, -1234567, "-1,234,567"), (DOUBLE, 0.1, "0.1"), (DOUBLE, float("inf"), "inf"), (BOOLEAN, 1, "true"),
        (BOOLEAN, 0, "false"), (DATE, 19_000, "2022-01-08"), (TIMESTAMP_S, -1, "1969-12-31 23:59:59"),
        (TIMESTAMP_MS, 1, "1970-01-01 00:00:00.001"),
        (TIMESTAMP_NS, -(2**63), "-9,223,372,036,854,775,808"),
    ],
)  # fmt: skip
def test_values_read_as_people_write_them(kind: Any, value: Any, text: str) -> None:
    assert value_text(kind, value) == text


def test_inexact_string_bounds_end_in_an_ellipsis() -> None:
    prefix = np.frombuffer(b"sixteen bytes!!!", np.uint8).reshape(1, 16)
    one = np.ones(1, np.int64)
    found = Statistics(one, one * 0, np.array([HAS_BOUNDS | MIN_EXACT], np.uint8), min_prefix=prefix, max_prefix=prefix)
    assert bounds_text(STRING, found, 0) == ("'sixteen bytes!!!'", "'sixteen bytes!!!'…")
    found.flags[0] = 0
    assert bounds_text(STRING, found, 0) == ("", "")


def test_lines_stay_readable(tmp_path: Path) -> None:
    random_case(2).write(tmp_path / "a.tsf")
    lines = list(dump_file(tmp_path / "a.tsf"))
    assert all(re.match(r" *[\d,]+ +([\d,]+)? +[0-9a-f]{2}", line) for line in lines)
    assert lines[0].endswith("'tsdbtsf\\n'")
    assert len(FIELD_TYPES) + 2 == sum("page[0]." in line and " · " in line for line in lines)
