"""Reading files: ranges, levels, identity of columns, closing, and how little opening costs."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.file_case import random_case, same_values
from support.reseal import reseal
from tsdb_format import section
from tsdb_format.errors import Closed, Corruption, Error, InvalidInput, NotFound, UnsupportedFormat
from tsdb_format.reader import TsFile
from tsdb_format.schema import SEQUENCE_COLUMN, Column, Schema
from tsdb_format.section import TAIL, Container
from tsdb_format.types import DOUBLE, Role
from tsdb_format.writer import MAGIC

ROWS = 400


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    case = random_case(11, rows=ROWS, devices=9)
    path = tmp_path_factory.mktemp("reader") / "a.tsf"
    case.write(path)
    return case, path


@given(st.lists(st.integers(0, ROWS), max_size=12, unique=True))
def test_any_ranges_of_any_column(written: tuple[Any, Path], cuts: list[int]) -> None:
    case, path = written
    cuts = sorted(cuts)[: len(cuts) // 2 * 2]
    starts, stops = np.array(cuts[::2], np.int64), np.array(cuts[1::2], np.int64)
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)] or [np.empty(0, np.int64)]).astype(np.int64)
    with TsFile(path) as file:
        for name, vector in case.columns.items():
            assert same_values(file.read(name, starts, stops), vector.take(rows)), name


def test_levels_agree(written: tuple[Any, Path]) -> None:
    case, path = written
    with TsFile(path) as file:
        for name in case.columns:
            pages, chunks, whole = (file.statistics(name, level) for level in ("page", "chunk", "file"))
            assert (len(pages), len(chunks), len(whole)) == (file.page_count, file.chunk_count, 1) == (25, 1, 1)
            assert pages.row_count.sum() == chunks.row_count.sum() == whole.row_count[0] == ROWS
            assert pages.null_count.sum() == whole.null_count[0] == ROWS - case.columns[name].valid().sum()
            assert file.statistics(name, "page") is pages
        assert (file.statistics("time", "page").flags & 1).all()


def test_columns_are_known_by_id(written: tuple[Any, Path]) -> None:
    case, path = written
    with TsFile(path) as file:
        field = case.schema.column("field4")
        assert file.has_column(Column("renamed", field.type, field.role, field.id))
        assert not file.has_column(Column("field4", field.type, field.role, 999))
        assert file.has_column(SEQUENCE_COLUMN)
        assert file.schema == case.schema
        assert "_sn" not in file.schema


def test_a_column_may_share_the_hidden_columns_id(tmp_path: Path) -> None:
    """Ids of tables begin where they like; ``_sn`` is known by its role."""
    case = random_case(1, fields=())
    case.schema = Schema(case.schema.columns)
    case.write(tmp_path / "a.tsf")
    with TsFile(tmp_path / "a.tsf") as file:
        assert not file.has_column(Column("x", DOUBLE, Role.FIELD, SEQUENCE_COLUMN.id))


def test_wrong_names_say_so(written: tuple[Any, Path]) -> None:
    with TsFile(written[1]) as file:
        with pytest.raises(NotFound, match="no column 'missing'"):
            file.page_set("missing")
        with pytest.raises(InvalidInput, match="'tag0' is a tag"):
            file.statistics("tag0", "page")
    with pytest.raises(NotFound, match="no file"):
        TsFile(written[1].with_name("none.tsf"))


def test_arrays_outlive_the_file(written: tuple[Any, Path]) -> None:
    case, path = written
    file = TsFile(path)
    bounds = file.statistics("time", "page").min
    pages = file.page_set("field2")
    file.close()
    uses = (lambda: file.page_set("time"), lambda: file.statistics("time", "page"), lambda: file.row_start, lambda: file.resource)
    for use in uses:
        with pytest.raises(Closed):
            use()
    assert bounds is not None
    assert bounds[0] == case.columns["time"].values[:16].min()
    assert pages.page_count == 25
    file.close()


def test_threads_share_a_file(written: tuple[Any, Path]) -> None:
    case, path = written
    wrong: list[str] = []
    with TsFile(path) as file:

        def work() -> None:
            for name, vector in case.columns.items():
                if not same_values(file.read(name, np.zeros(1, np.int64), np.array([ROWS])), vector):
                    wrong.append(name)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_opening_verifies_no_section(written: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cost per column, none per page, device or row: only header, tail and directory are hashed."""
    hashed: list[int] = []
    plain = section.checksum

    def counting(data: Any) -> int:
        hashed.append(len(data))
        return plain(data)

    monkeypatch.setattr(section, "checksum", counting)
    file = TsFile(written[1])
    directory = TAIL.unpack_from(written[1].read_bytes(), file.size_bytes - TAIL.size)[1]
    assert hashed == [16, 24, directory]
    _ = file.row_start
    assert len(hashed) == 4
    _ = file.row_start, file.statistics("time", "page"), file.statistics("time", "file")
    assert len(hashed) == 5


def _with_attributes(path: Path, target: Path, change: Any) -> Path:
    """A copy of the file with other attributes under good checksums."""
    raw = path.read_bytes()
    container = Container(str(path), MAGIC)
    attributes = json.loads(json.dumps(container.attributes))
    attributes = change(attributes) or attributes
    text = json.dumps(attributes).encode()
    at = container.directory_offset
    count, names_bytes, _, _ = section.PREFIX.unpack_from(raw, at)
    names_at = at + section.PREFIX.size + count * section.ENTRY.itemsize
    text += b" " * (-(names_at + names_bytes + len(text)) % 8)
    head = section.PREFIX.pack(count, names_bytes, len(text), 0)
    directory = head + raw[at + section.PREFIX.size : names_at + names_bytes] + text
    tail = bytearray(raw[-TAIL.size :])
    tail[8:16] = len(directory).to_bytes(8, "little")
    target.write_bytes(reseal(bytearray(raw[:at] + directory + tail)))
    return target


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda a: a.update(unknown=1), None),
        (lambda a: a.pop("rows") and None, Corruption),
        (lambda a: a.update(rows=399), Corruption),
        (lambda a: a.update(rows=0), Corruption),
        (lambda a: a.update(rows=2**60), Corruption),
        (lambda a: a.update(rows="400"), Corruption),
        (lambda a: a.update(rows_per_page=0), Corruption),
        (lambda a: a.update(rows_per_page=1500), Corruption),
        (lambda a: a.update(devices=8), Corruption),
        (lambda a: a.update(time=[1]), Corruption),
        (lambda a: a.update(time=[1.5, 2]), Corruption),
        (lambda a: a.update(table=None), Corruption),
        (lambda a: a.update(columns=a["columns"][1:]), Corruption),
        (lambda a: a.update(columns=a["columns"][:-1]), Corruption),
        (lambda a: a.update(columns=a["columns"] + [[99, "new", 5, 0, 3]]), Corruption),
        (lambda a: a.update(columns=a["columns"] + [a["columns"][1]]), Corruption),
        (lambda a: a["columns"][1].__setitem__(2, 5), Corruption),  # a DOUBLE tag
        (lambda a: a["columns"][0].__setitem__(2, 5), Corruption),  # a DOUBLE time
        (lambda a: a["columns"][3].__setitem__(3, 9), Corruption),  # a BOOLEAN of width 9
        (lambda a: a["columns"][3].__setitem__(0, -1), Corruption),
        (lambda a: a["columns"][3].__setitem__(0, True), Corruption),
        (lambda a: a["columns"][3].__setitem__(0, [1]), Corruption),
        (lambda a: a["columns"][3].pop() and None, Corruption),
        (lambda a: a["columns"][3].__setitem__(2, 14), UnsupportedFormat),
        (lambda a: a["columns"][3].__setitem__(4, 6), UnsupportedFormat),
        (lambda a: [a], Corruption),
    ],
)
def test_attributes_are_not_trusted(written: tuple[Any, Path], tmp_path: Path, change: Any, error: type[Exception] | None) -> None:
    path = _with_attributes(written[1], tmp_path / "a.tsf", change)
    if error is None:
        TsFile(path).verify()
        return
    with pytest.raises(error) as caught:
        TsFile(path).verify()
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("section_name", "at", "value", "name", "error", "says"),
    [
        ("stats.1", -1, b"\0", "time", Corruption, "lacks bounds"),
        ("stats.0", 0, b"\1", "_sn", Corruption, "lacks bounds"),
        ("stats.22", 0, (17).to_bytes(8, "little"), "field2", Corruption, "more NULLs than rows"),
        ("stats.22", 0, b"\xff" * 8, "field2", Corruption, "more NULLs than rows"),
        ("stats.22", -1, b"\x40", "field2", UnsupportedFormat, "unknown flags"),
        ("pages.22", -1, b"\2", "field2", UnsupportedFormat, "unknown encoding or compression"),
        ("pages.22", -26, b"\x0a", "field2", UnsupportedFormat, "unknown encoding or compression"),
        ("pages.22", 0, (2**40).to_bytes(8, "little"), "field2", Corruption, "outside of the file"),
        ("pages.22", 0, b"\xff" * 8, "field2", Corruption, "outside of the file"),
        ("pages.22", 0, (25).to_bytes(8, "little"), "field2", Corruption, "outside of the file"),
        ("pages.22", 8 * 25, (2**63 - 1).to_bytes(8, "little"), "field2", Corruption, "outside of the file"),
        ("pages.25", 24 * 25, (2**62).to_bytes(8, "little"), "field5", Corruption, "outside of the file"),
        ("device.row_start", 0, b"\1", "row_start", Corruption, "do not ascend"),
        ("device.row_start", 8, b"\0\2", "row_start", Corruption, "do not ascend"),
        ("tag.2.codes", 0, b"\x7f", "device_tags", Corruption, "beyond its values"),
        ("tag.2.codes", 3, b"\xff", "device_tags", Corruption, "beyond its values"),
        ("tag.2.offsets", 8, b"\xff", "device_tags", Corruption, "do not ascend"),
    ],
)
def test_footers_are_not_trusted(
    written: tuple[Any, Path], tmp_path: Path, section_name: str, at: int, value: bytes, name: str, error: type[Error], says: str
) -> None:
    """Under good checksums too, nothing leads outside of the file, and unknown ids are refused."""
    raw = bytearray(written[1].read_bytes())
    offset, size = Container(str(written[1]), MAGIC).extent(section_name)
    at = offset + (at if at >= 0 else size + at)
    raw[at : at + len(value)] = value
    path = tmp_path / "a.tsf"
    path.write_bytes(reseal(raw))
    with TsFile(path) as file:
        use = (lambda: getattr(file, name)) if name in ("row_start", "device_tags") else (lambda: file.page_set(name))
        with pytest.raises(error, match=says) as caught:
            use()
        assert str(path) in str(caught.value)
