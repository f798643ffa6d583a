"""Damage: every byte flipped, every length cut. Right rows or a clear error, never wrong rows, never a crash.

Flips under intact checksums are what disks do; flips under recomputed ones are what a faulty writer could do, and must at least not
crash the process.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from support.file_case import FileCase, every_encoding_case, random_case, same_values
from support.reseal import reseal
from tsdb_format.disk import DISK
from tsdb_format.encoding import Encoding
from tsdb_format.errors import Corruption, Error, UnsupportedFormat
from tsdb_format.inspect import inspect_file
from tsdb_format.reader import TsFile
from tsdb_format.statistics import Statistics
from tsdb_format.types import Kind
from tsdb_format.vector import Vector

#: Small files that between them use every encoding, dictionaries, compression, NULLs, blobs, and tags of each kind.
CASES = {
    "every type": lambda: random_case(17, devices=3, rows=22, rows_per_page=16),
    "no nulls": lambda: random_case(18, devices=2, rows=24, null_share=0.0, tags=("BOOLEAN", "INT64"), fields=("STRING", "FLOAT")),
    "every encoding": every_encoding_case,
}


class InMemory:
    """The disk, but for one file, which holds ``raw``."""

    def __init__(self, path: str, raw: bytes | bytearray) -> None:
        self.path, self.raw = path, raw

    def read(self, path: str) -> NDArray[np.uint8]:
        return np.frombuffer(bytearray(self.raw), np.uint8) if path == self.path else DISK.read(path)


class Whole:
    """A file, what it must read as, and a place to damage it."""

    def __init__(self, folder: Path, case: FileCase) -> None:
        self.case = case
        self.path = folder / "a.tsf"
        case.write(self.path)
        self.sidecar = (folder / "a.res").read_bytes()
        self.raw = self.path.read_bytes()
        self.errors: list[Corruption | UnsupportedFormat] = []
        self.everything = np.zeros(1, np.int64), np.array([case.rows])
        with TsFile(self.path) as file:
            self.found = self.read(file)
            self.places = page_places(file)

    def open(self, raw: bytes | bytearray) -> TsFile:
        """The file as it is when it holds ``raw``: in memory, since the disk would take most of these tests' time."""
        return TsFile(self.path, InMemory(str(self.path), raw))

    def read(self, file: TsFile) -> list[object]:
        """Everything a file can be asked for."""
        out: list[object] = [file.schema, file.row_count, file.rows_per_page, file.table, file.min_sequence, file.max_sequence]
        out += [file.row_start.tolist(), sorted(file.columns)]
        for level in ("page", "chunk", "file"):
            out += [file.statistics(name, level) for name in self.case.columns]
        out += [file.read(name, *self.everything) for name in self.case.columns]
        vectors = [column.name for column in file.columns.values() if column.type.kind is Kind.VECTOR]
        for balls in map(file.balls, vectors):
            assert balls is not None
            out += [balls.start.tolist(), balls.centroid.tobytes(), balls.radius.tolist()]
        out += [vector.to_physical_list() for vector in file.device_tags.values()]
        found = file.resource
        return [*out, *(each.tolist() for each in (found.min_time, found.max_time, found.by_max_time, found.by_min_time))]

    def check(self, raw: bytes | bytearray) -> bool:
        """Whether a file of these bytes reads as it must; where not, reading must have raised, and ``errors`` keeps what."""
        try:
            found = self.read(self.open(raw))
        except (Corruption, UnsupportedFormat) as error:
            self.errors.append(error)
            return False
        for mine, theirs in zip(found, self.found, strict=True):
            assert same(mine, theirs)
        return True


def same(mine: object, theirs: object) -> bool:
    if isinstance(mine, Vector) and isinstance(theirs, Vector):
        return same_values(mine, theirs)
    if isinstance(mine, Statistics) and isinstance(theirs, Statistics):
        parts = [(getattr(mine, name), getattr(theirs, name)) for name in Statistics.__slots__]
        return all(a is b is None or a.tobytes() == b.tobytes() for a, b in parts)
    return mine == theirs


def page_places(file: TsFile) -> list[tuple[int, int, int]]:
    """Offset, bytes and place of the checksum of every page and dictionary."""
    places = []
    for column in file.columns.values():
        if column.name not in {tag.name for tag in file.schema.tags}:
            pages = file.page_set(column.name)
            at = file.container.extent(f"pages.{column.id}")[0]
            count = file.page_count
            pairs = zip(pages.page_offset.tolist(), pages.page_bytes.tolist(), strict=True)
            places += [(offset, size, at + 16 * count + 8 * page) for page, (offset, size) in enumerate(pairs)]
            for chunk in np.flatnonzero(pages.dict_bytes).tolist():
                place = at + 24 * count + 16 * file.chunk_count + 8 * chunk
                places.append((int(pages.dict_offset[chunk]), int(pages.dict_bytes[chunk]), place))
    return places


def check_errors(whole: Whole) -> None:
    """Every error names the file, and damage the byte."""
    for error in whole.errors:
        assert str(whole.path) in str(error)
        if isinstance(error, Corruption):
            assert error.path == str(whole.path)
            assert 0 <= error.offset <= len(whole.raw)
    whole.errors.clear()


@pytest.fixture(scope="module", params=list(CASES))
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole(tmp_path_factory.mktemp("damage"), CASES[request.param]())


def test_the_cases_use_every_encoding(tmp_path: Path) -> None:
    seen: set[str] = set()
    for make in CASES.values():
        make().write(tmp_path / "a.tsf")
        report = inspect_file(tmp_path / "a.tsf")
        seen.update(encoding for column in report.columns for encoding in column.encodings)
    assert {name.removesuffix("+zstd") for name in seen} == {encoding.name for encoding in Encoding}
    assert {"PLAIN+zstd", "BYTE_SPLIT+zstd"} <= seen


def test_every_byte_flipped(whole: Whole) -> None:
    right = 0
    raw = bytearray(whole.raw)
    for at, byte in enumerate(whole.raw):
        raw[at] = byte ^ 1 << (at * 5 % 8)
        right += whole.check(raw)
        raw[at] = byte
    assert whole.check(raw)
    check_errors(whole)
    # What may flip unnoticed is padding between pages and between sections.
    used = sum(size for _, size, _ in whole.places)
    with TsFile(whole.path) as file:
        sections = sum(entry[2] for entry in file.container.listing())
        padding = len(raw) - used - sections - (file.size_bytes - file.container.directory_offset) - 24
    assert right <= padding


def test_cut_at_every_length(whole: Whole) -> None:
    for size in range(len(whole.raw)):
        assert not whole.check(whole.raw[:size])
    check_errors(whole)


def test_a_cut_file_on_disk(whole: Whole) -> None:
    try:
        for size in range(0, len(whole.raw), 997):
            os.truncate(whole.path, size)
            with pytest.raises(Corruption):
                TsFile(whole.path)
            whole.path.write_bytes(whole.raw)
    finally:
        whole.path.write_bytes(whole.raw)


def test_zeroed_and_swapped_parts(whole: Whole) -> None:
    """A torn write leaves zeros or another page's bytes."""
    sized: dict[int, int] = {}
    for offset, size, _ in whole.places:
        raw = bytearray(whole.raw)
        raw[offset : offset + size] = bytes(size)
        assert whole.check(raw) == (whole.raw[offset : offset + size] == bytes(size))
        other = sized.setdefault(size, offset)
        raw[offset : offset + size] = whole.raw[other : other + size]
        assert whole.check(raw) == (raw == whole.raw)
    check_errors(whole)


def test_flips_under_good_checksums_do_not_crash(whole: Whole) -> None:
    rng = np.random.default_rng(5)
    for at in sorted(rng.choice(len(whole.raw), min(2_000, len(whole.raw)), replace=False).tolist()):
        raw = bytearray(whole.raw)
        raw[at] ^= 1 << int(rng.integers(0, 8))
        try:
            file = whole.open(reseal(raw, whole.places))
            for name in file.columns:
                if name in whole.case.columns:
                    file.statistics(name, "file")
                    file.read(name, np.zeros(1, np.int64), np.array([file.row_count]))
            _ = file.device_tags, file.resource.by_max_time
        except Error:
            continue


def test_a_damaged_page_hides_no_other(whole: Whole) -> None:
    """Rows of the other pages stay readable, and the error names the page."""
    with TsFile(whole.path) as file:
        offset = int(file.page_set("time").page_offset[-1])
    raw = bytearray(whole.raw)
    raw[offset + 3] ^= 8
    with whole.open(raw) as file:
        last = (file.page_count - 1) * file.rows_per_page
        rows = file.read("time", np.zeros(1, np.int64), np.array([last]))
        assert same_values(rows, whole.case.columns["time"].take(slice(0, last)))
        for _ in range(2):
            with pytest.raises(Corruption) as caught:
                file.read("time", np.array([last]), np.array([file.row_count]))
            assert (caught.value.path, caught.value.offset) == (str(whole.path), offset)
        with pytest.raises(Corruption):
            file.verify()


def test_sidecar_flips_under_good_checksums_do_not_crash(whole: Whole) -> None:
    sidecar = whole.path.with_suffix(".res")
    devices = len(whole.case.row_start) - 1
    for at in range(len(whole.sidecar)):
        raw = bytearray(whole.sidecar)
        raw[at] ^= 1 << (at * 3 % 8)
        sidecar.write_bytes(reseal(raw))
        with TsFile(whole.path) as file:
            found = file.resource
            for order in (found.by_max_time, found.by_min_time):
                assert len(order) == devices
                assert (order >= 0).all()
                assert (order < devices).all()
    sidecar.write_bytes(whole.sidecar)
