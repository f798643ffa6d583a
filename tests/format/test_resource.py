"""The time index by device: right from the sidecar, and right without it."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from support.file_case import FileCase, random_case
from support.reseal import reseal
from tsdb_format.reader import TsFile
from tsdb_format.resource import MAGIC, Resource, device_orders
from tsdb_format.section import Container


def _case(seed: int = 1, **changes: int) -> FileCase:
    return random_case(seed, **{"devices": 30, "rows": 200, **changes}, fields=("INT32",))


def check(found: Resource, case: FileCase) -> None:
    """All four arrays against plain Python."""
    times, starts = case.columns["time"].values.tolist(), case.row_start.tolist()
    first = [times[a] for a in starts[:-1]]
    last = [times[b - 1] for b in starts[1:]]
    devices = range(len(first))
    assert found.min_time.tolist() == first
    assert found.max_time.tolist() == last
    assert found.by_min_time.tolist() == sorted(devices, key=lambda device: (first[device], device))
    assert found.by_max_time.tolist() == sorted(devices, key=lambda device: (-last[device], device))
    assert found.by_max_time.dtype == found.by_min_time.dtype == np.int32
    assert case.device_number is not None
    if found.device_number is not None:
        assert found.device_number.tolist() == case.device_number.tolist()


def test_the_sidecar_serves(tmp_path: Path) -> None:
    case = _case()
    case.write(tmp_path / "a.tsf")
    found = TsFile(tmp_path / "a.tsf").resource
    check(found, case)
    assert found.device_number is not None
    assert (found.rebuilt, found.reason) == (False, "")


def test_an_absent_sidecar_is_rebuilt(tmp_path: Path) -> None:
    case = _case()
    case.write(tmp_path / "a.tsf")
    (tmp_path / "a.res").unlink()
    found = TsFile(tmp_path / "a.tsf").resource
    assert found.device_number is None
    check(found, case)
    assert (found.rebuilt, found.reason) == (True, "absent")
    assert not (tmp_path / "a.res").exists()


def test_a_sidecar_of_another_file_is_not_used(tmp_path: Path) -> None:
    """Also when that file has as many devices and rows."""
    mine, other = _case(1), _case(2)
    mine.write(tmp_path / "a.tsf")
    other.write(tmp_path / "b.tsf")
    shutil.copy(tmp_path / "b.res", tmp_path / "a.res")
    found = TsFile(tmp_path / "a.tsf").resource
    check(found, mine)
    assert (found.rebuilt, found.reason, found.device_number) == (True, "belongs to another file", None)


def test_a_sidecar_without_numbers(tmp_path: Path) -> None:
    case = _case()
    case.write(tmp_path / "a.tsf", device_number=None)
    found = TsFile(tmp_path / "a.tsf").resource
    assert found.device_number is None
    check(found, case)
    assert not found.rebuilt


@pytest.mark.parametrize("name", ["min_time", "max_time", "by_min_time", "by_max_time", "device_number"])
def test_one_damaged_section_is_noticed_when_it_is_used(tmp_path: Path, name: str) -> None:
    case = _case()
    case.write(tmp_path / "a.tsf")
    raw = bytearray((tmp_path / "a.res").read_bytes())
    raw[Container(str(tmp_path / "a.res"), MAGIC).extent(name)[0] + 5] ^= 1
    (tmp_path / "a.res").write_bytes(raw)
    found = TsFile(tmp_path / "a.tsf").resource
    assert not found.rebuilt
    if name == "device_number":
        assert found.device_number is None
    check(found, case)
    assert found.rebuilt
    assert name in found.reason


def test_every_flipped_byte_and_every_cut_gives_right_answers(tmp_path: Path) -> None:
    case = _case(devices=5, rows=20)
    case.write(tmp_path / "a.tsf")
    sidecar = tmp_path / "a.res"
    whole = sidecar.read_bytes()
    rebuilt = 0
    for at in range(len(whole)):
        raw = bytearray(whole)
        raw[at] ^= 1 << (at * 5 % 8)
        sidecar.write_bytes(raw)
        found = TsFile(tmp_path / "a.tsf").resource
        check(found, case)
        rebuilt += found.rebuilt
    assert rebuilt >= len(whole) - 40  # all but the padding between sections
    for size in range(len(whole)):
        sidecar.write_bytes(whole[:size])
        found = TsFile(tmp_path / "a.tsf").resource
        check(found, case)
        assert found.rebuilt


def test_orders_beyond_the_devices_are_not_used_even_under_good_checksums(tmp_path: Path) -> None:
    case = _case()
    case.write(tmp_path / "a.tsf")
    for name in ("by_min_time", "by_max_time"):
        for value in (-1, 30):
            raw = bytearray((tmp_path / "a.res").read_bytes())
            struct.pack_into("<i", raw, Container(str(tmp_path / "a.res"), MAGIC).extent(name)[0], value)
            (tmp_path / "b.res").write_bytes(reseal(raw))
            shutil.copy(tmp_path / "a.tsf", tmp_path / "b.tsf")
            found = TsFile(tmp_path / "b.tsf").resource
            check(found, case)
            assert found.rebuilt


def test_orders_hold_at_the_ends_of_int64() -> None:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    times = np.array([high, low, 0, low, high], np.int64)
    ascending, descending = device_orders(times, times)
    assert ascending.tolist() == [1, 3, 2, 0, 4]
    assert descending.tolist() == [0, 4, 2, 1, 3]


def test_verify_finds_damage_that_nobody_has_met_yet(tmp_path: Path) -> None:
    _case().write(tmp_path / "a.tsf")
    assert TsFile(tmp_path / "a.tsf").resource.verify() == ""
    raw = bytearray((tmp_path / "a.res").read_bytes())
    raw[Container(str(tmp_path / "a.res"), MAGIC).extent("device_number")[0]] ^= 1
    (tmp_path / "a.res").write_bytes(raw)
    assert "device_number" in TsFile(tmp_path / "a.tsf").resource.verify()
