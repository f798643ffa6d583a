"""The container of named arrays."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from support.reseal import reseal
from tsdb_format.errors import Corruption, NotFound, UnsupportedFormat
from tsdb_format.section import DTYPES, HEADER, TAIL, Container, checksum, write_container

MAGIC = b"tsdbtst\n"
ARRAYS = {
    "plain": np.arange(7, dtype=np.int64),
    "wide": np.arange(12, dtype=np.float32).reshape(4, 3),
    "empty": np.empty(0, np.uint16),
    "truth": np.array([True, False, True]),
}


def _write(folder: Path) -> Path:
    path = folder / "a.tst"
    write_container(str(path), MAGIC, ARRAYS, {"kind": "test", "größe": 3}, sync=False)
    return path


@given(
    st.lists(
        st.sampled_from(list(DTYPES.values())).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=9))
        ),
        max_size=5,
    )
)
def test_any_arrays_come_back(tmp_path_factory: pytest.TempPathFactory, arrays: list[np.ndarray]) -> None:
    path = str(tmp_path_factory.getbasetemp() / "any.tst")
    write_container(path, MAGIC, {f"a{i}": array for i, array in enumerate(arrays)}, {}, sync=False)
    found = Container(path, MAGIC)
    assert len(found.names) == len(arrays)
    for i, array in enumerate(arrays):
        back = found.array(f"a{i}", array.dtype.str, array.shape[1] if array.ndim == 2 else 0)
        assert back.dtype == array.dtype
        assert back.shape == array.shape == found.shape(f"a{i}")
        assert back.tobytes() == array.tobytes()
        assert back.flags.writeable
        assert found.extent(f"a{i}")[0] % 8 == 0


def test_attributes_and_listing(tmp_path: Path) -> None:
    found = Container(str(_write(tmp_path)), MAGIC)
    assert found.attributes == {"kind": "test", "größe": 3}
    assert found.names == tuple(ARRAYS)
    assert [(entry[0], entry[3], entry[4]) for entry in found.listing()] == [
        ("plain", "i8", (7,)), ("wide", "f4", (4, 3)), ("empty", "u2", (0,)), ("truth", "bool", (3,)),
    ]  # fmt: skip
    assert "plain" in found
    assert "other" not in found
    found.verify()


def test_equal_content_has_equal_bytes_and_digest(tmp_path: Path) -> None:
    one = write_container(str(tmp_path / "1"), MAGIC, ARRAYS, {"a": 1}, sync=False)
    two = write_container(str(tmp_path / "2"), MAGIC, ARRAYS, {"a": 1}, sync=True)
    other = write_container(str(tmp_path / "3"), MAGIC, ARRAYS, {"a": 2}, sync=False)
    assert one == two != other
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert not list(tmp_path.glob("*.tmp"))


def test_absent_and_ill_typed_sections_are_damage(tmp_path: Path) -> None:
    found = Container(str(_write(tmp_path)), MAGIC)
    with pytest.raises(Corruption, match="'other' is missing"):
        found.array("other", "<i8")
    with pytest.raises(Corruption, match="not of the type"):
        found.array("plain", "<i4")
    with pytest.raises(Corruption, match="not of the type"):
        found.array("wide", "<f4", 4)


def test_damage_is_found_where_it_is_used(tmp_path: Path) -> None:
    path = _write(tmp_path)
    offset, _ = Container(str(path), MAGIC).extent("plain")
    raw = bytearray(path.read_bytes())
    raw[offset + 9] ^= 4
    path.write_bytes(raw)
    found = Container(str(path), MAGIC)
    assert found.array("wide", "<f4", 3).shape == (4, 3)
    for _ in range(2):
        with pytest.raises(Corruption) as caught:
            found.array("plain", "<i8")
        assert (caught.value.path, caught.value.offset) == (str(path), offset)
    with pytest.raises(Corruption, match="'plain'"):
        found.verify()


def test_a_truth_value_beyond_one_is_damage(tmp_path: Path) -> None:
    path = _write(tmp_path)
    offset, _ = Container(str(path), MAGIC).extent("truth")
    raw = bytearray(path.read_bytes())
    raw[offset] = 2
    path.write_bytes(reseal(raw))
    with pytest.raises(Corruption, match="truth value"):
        Container(str(path), MAGIC).array("truth", "?")


@pytest.mark.parametrize("size", [0, 1, HEADER.size, HEADER.size + TAIL.size - 1, HEADER.size + TAIL.size, 4096])
def test_zeros_are_not_a_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "zeros"
    path.write_bytes(bytes(size))
    with pytest.raises(Corruption) as caught:
        Container(str(path), MAGIC)
    assert caught.value.path == str(path)


def test_a_tail_of_zeros_is_damage(tmp_path: Path) -> None:
    path = _write(tmp_path)
    path.write_bytes(path.read_bytes() + bytes(512))
    with pytest.raises(Corruption, match="tail"):
        Container(str(path), MAGIC)


def test_a_whole_file_inside_a_cut_one_is_not_taken_for_it(tmp_path: Path) -> None:
    path = _write(tmp_path)
    inner = path.read_bytes()
    path.write_bytes(inner[: HEADER.size] + inner)
    with pytest.raises(Corruption, match="outside"):
        Container(str(path), MAGIC)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing here"):
        Container(str(tmp_path / "nothing here"), MAGIC)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Corruption, match="not a oth file"):
        Container(str(_write(tmp_path)), b"tsdboth\n")


@pytest.mark.parametrize("version", [0, 3, 2**31])
def test_unknown_versions_are_refused_by_number(tmp_path: Path, version: int) -> None:
    path = _write(tmp_path)
    raw = bytearray(path.read_bytes())
    struct.pack_into("<I", raw, 8, version)
    struct.pack_into("<Q", raw, 16, checksum(bytes(raw[:16])))
    path.write_bytes(raw)
    with pytest.raises(UnsupportedFormat, match=f"version {version}"):
        Container(str(path), MAGIC)


def test_an_unknown_element_type_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path)
    raw = bytearray(path.read_bytes())
    offset = TAIL.unpack_from(raw, len(raw) - TAIL.size)[0]
    raw[offset + 16 + 36] = 77
    path.write_bytes(reseal(raw))
    with pytest.raises(UnsupportedFormat, match="element type"):
        Container(str(path), MAGIC)
