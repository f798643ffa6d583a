"""Writing files: what comes back, what is refused, and what is left after a failure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.file_case import FIELD_TYPES, FileCase, random_case, same_values, text_vector
from tsdb_format import disk, writer
from tsdb_format.errors import InvalidInput
from tsdb_format.reader import TsFile
from tsdb_format.types import INT64, STRING, TIMESTAMP_MS, TIMESTAMP_S, TIMESTAMP_US
from tsdb_format.vector import Vector


def check_whole(case: FileCase, file: TsFile) -> None:
    """Everything that was written is there."""
    assert file.row_count == case.rows
    assert file.row_start.tolist() == case.row_start.tolist()
    starts, stops = np.zeros(1, np.int64), np.array([case.rows])
    for name, vector in case.columns.items():
        assert same_values(file.read(name, starts, stops), vector), name
    for name, vector in case.device_tags.items():
        assert file.device_tags[name].to_physical_list() == vector.to_physical_list()


@pytest.mark.parametrize(
    "shape",
    [
        {"devices": 1, "rows": 1},
        {"devices": 5, "rows": 5},
        {"rows": 100, "rows_per_page": 1, "fields": ("DOUBLE", "STRING")},
        {"rows": 3_000, "rows_per_page": 16, "devices": 300},
        {"rows": 5_000, "rows_per_page": 1024},
        {"rows": 5_000, "rows_per_page": 8192, "tags": ()},
        {"devices": 1, "rows": 50, "tags": (), "fields": ()},
        {"null_share": 0.0, "tags": ("BOOLEAN", "INT64", "STRING")},
        {"null_share": 1.0},
        {"time_type": TIMESTAMP_S},
        {"time_type": TIMESTAMP_MS, "fields": ("BLOB",)},
        {"time_type": TIMESTAMP_US, "fields": ("VECTOR(1)", "VECTOR(300)")},
    ],
    ids=str,
)
def test_what_is_written_comes_back(tmp_path: Path, shape: dict[str, Any]) -> None:
    case = random_case(7, **shape) if shape.get("tags") != () else random_case(7, **{**shape, "devices": 1})
    facts = case.write(tmp_path / "a.tsf")
    times, sequences = case.columns["time"].values, case.columns["_sn"].values
    assert (facts.rows, facts.devices) == (case.rows, len(case.row_start) - 1)
    assert (facts.min_time, facts.max_time) == (times.min(), times.max())
    assert (facts.min_sequence, facts.max_sequence) == (sequences.min(), sequences.max())
    assert facts.bytes == sum(entry.stat().st_size for entry in tmp_path.iterdir())
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.res", "a.tsf"]
    with TsFile(tmp_path / "a.tsf") as file:
        check_whole(case, file)
        assert not file.resource.rebuilt
        assert (file.min_time, file.max_time) == (facts.min_time, facts.max_time)
        assert (file.min_sequence, file.max_sequence) == (facts.min_sequence, facts.max_sequence)
        assert (file.table, file.rows_per_page, file.size_bytes % 8) == ("t", case.rows_per_page, 0)
        file.verify()


def test_bytes_depend_on_the_rows_alone(tmp_path: Path) -> None:
    case = random_case(3, rows=9_000, rows_per_page=32, devices=50)
    for name, changes in (("one", {}), ("again", {}), ("threads", {"threads": 4}), ("durable", {"sync": True})):
        case.write(tmp_path / f"{name}.tsf", **changes)
    for suffix in ("tsf", "res"):
        assert len({(tmp_path / f"{name}.{suffix}").read_bytes() for name in ("one", "again", "threads", "durable")}) == 1


def test_fields_left_out_are_not_in_the_file(tmp_path: Path) -> None:
    case = random_case(4, fields=("DOUBLE", "INT32"))
    del case.columns["field0"]
    case.write(tmp_path / "a.tsf")
    with TsFile(tmp_path / "a.tsf") as file:
        assert [column.name for column in file.schema] == ["time", "tag0", "tag1", "field1"]
        assert not file.has_column(case.schema.column("field0"))
        assert file.has_column(case.schema.column("field1"))


def test_a_vector_may_be_a_strided_view_of_a_larger_array(tmp_path: Path) -> None:
    case = random_case(5, fields=("DOUBLE",))
    twice = np.repeat(case.columns["field0"].values, 2)
    case.columns["field0"] = Vector(case.columns["field0"].type, twice[::2], case.columns["field0"].validity)
    case.write(tmp_path / "a.tsf")
    with TsFile(tmp_path / "a.tsf") as file:
        check_whole(case, file)


def _unsorted(case: FileCase) -> None:
    case.columns["time"].values[[0, 1]] = 10**18, 10**17


def _null_time(case: FileCase) -> None:
    case.columns["time"].validity = np.arange(case.rows) > 0


def _short(case: FileCase) -> None:
    case.columns["field0"] = case.columns["field0"].take(slice(1, None))


def _wrong_type(case: FileCase) -> None:
    case.columns["field0"] = Vector(INT64, np.zeros(case.rows, np.int64))


def _wrong_dtype(case: FileCase) -> None:
    case.columns["field0"].values = np.zeros(case.rows, np.float32)


def _codes_beyond(case: FileCase) -> None:
    case.columns["field1"] = Vector(STRING, np.full(case.rows, 5, np.int32), None, text_vector([b"a"]).pool)


def _codes_below(case: FileCase) -> None:
    case.columns["field1"] = Vector(STRING, np.full(case.rows, -1, np.int32), None, text_vector([b"a"]).pool)


def _no_pool(case: FileCase) -> None:
    case.columns["field1"].pool = None


def _no_sequence(case: FileCase) -> None:
    del case.columns["_sn"]


def _no_tag(case: FileCase) -> None:
    del case.device_tags["tag1"]


def _unknown_column(case: FileCase) -> None:
    case.columns["other"] = case.columns["field0"]


def _tag_as_column(case: FileCase) -> None:
    case.columns["tag0"] = case.columns["field1"]


def _empty_device(case: FileCase) -> None:
    case.row_start[1] = case.row_start[2]


def _no_rows(case: FileCase) -> None:
    case.row_start = np.zeros(1, np.int64)


def _bad_page_size(case: FileCase) -> None:
    case.rows_per_page = 1500


def _zero_page_size(case: FileCase) -> None:
    case.rows_per_page = 0


def _few_numbers(case: FileCase) -> None:
    case.device_number = np.zeros(1, np.int32)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_unsorted, "row 1"), (_null_time, "cannot hold NULL"), (_short, "shape"), (_wrong_type, "is DOUBLE, not INT64"),
        (_wrong_dtype, "float32"), (_codes_beyond, "beyond its pool"), (_codes_below, "beyond its pool"),
        (_no_pool, "beyond its pool"), (_no_sequence, "'_sn' is not given"), (_no_tag, "'tag1' is not given"),
        (_unknown_column, "other"), (_tag_as_column, "tag0"), (_empty_device, "at least one row"),
        (_no_rows, "at least one device"), (_bad_page_size, "1,500"), (_zero_page_size, "not 0"),
        (_few_numbers, "1 device numbers for 4 devices"),
    ],
)  # fmt: skip
def test_what_no_file_can_hold_is_refused_and_leaves_nothing(tmp_path: Path, spoil: Any, says: str) -> None:
    case = random_case(6, fields=("DOUBLE", "STRING"), null_share=0.0)
    spoil(case)
    with pytest.raises(InvalidInput, match=says):
        case.write(tmp_path / "a.tsf")
    assert not list(tmp_path.iterdir())


def test_times_may_fall_between_devices_and_repeat_within(tmp_path: Path) -> None:
    case = random_case(6, fields=())
    case.columns["time"].values[:] = np.where(np.arange(case.rows) < case.row_start[1], 9, 3)
    case.write(tmp_path / "a.tsf")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failing_encoder_or_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    case = random_case(8, rows=4_000, rows_per_page=8)
    encode, calls = writer.encode_chunk, []

    def failing(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > 20:
            raise MemoryError("no more")
        return encode(*arguments)

    monkeypatch.setattr(writer, "encode_chunk", failing)
    with pytest.raises(MemoryError):
        case.write(tmp_path / "a.tsf", threads=threads)
    monkeypatch.setattr(writer, "encode_chunk", encode)
    plain_write, room = os.pwrite, [20_000]

    def full(handle: int, data: memoryview, at: int) -> int:
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        size = min(len(data), 1_000, room[0])
        room[0] -= size
        return plain_write(handle, data[:size], at)

    monkeypatch.setattr(disk.os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        case.write(tmp_path / "a.tsf", threads=threads)
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(8, fields=("DOUBLE",))
    plain_write = os.pwrite
    monkeypatch.setattr(disk.os, "pwrite", lambda handle, data, at: plain_write(handle, data[:7], at))
    case.write(tmp_path / "a.tsf")
    monkeypatch.undo()
    with TsFile(tmp_path / "a.tsf") as file:
        check_whole(case, file)


def test_a_durable_file_is_synced_before_it_has_its_name_and_its_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    opened: dict[int, str] = {}
    plain_open, rename = os.open, os.rename

    def record_open(path: str, *arguments: int) -> int:
        handle = plain_open(path, *arguments)
        opened[handle] = Path(path).name
        return handle

    def record_sync(place: Any, name: str) -> None:
        sync = getattr(place, name)

        def recorded(handle: int) -> None:
            steps.append(f"sync {opened[handle]}")
            sync(handle)

        monkeypatch.setattr(place, name, recorded)

    def record_rename(source: str, target: str) -> None:
        steps.append(f"name {Path(target).name}")
        rename(source, target)

    monkeypatch.setattr(disk.os, "open", record_open)
    record_sync(disk, "_sync_bytes")
    record_sync(disk.os, "fsync")
    monkeypatch.setattr(disk.os, "rename", record_rename)
    random_case(9, fields=()).write(tmp_path / "a.tsf", sync=True)
    assert steps == ["sync a.res.tmp", "name a.res", "sync a.tsf.tmp", "name a.tsf", f"sync {tmp_path.name}"]


def test_every_type_is_tried() -> None:
    assert len(FIELD_TYPES) == 13


def test_a_name_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.tsf").mkdir()
    with pytest.raises(OSError, match="directory"):
        random_case(1).write(tmp_path / "a.tsf")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsf"]
