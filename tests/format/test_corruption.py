"""Damage: every byte flipped, every length cut. Right rows or a clear error, never wrong rows, never a crash.

Flips under intact checksums are what disks do; flips under recomputed ones are what a faulty writer could do, and must at least not
crash the process.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from support.file_case import FileCase, random_case, same_values
from support.reseal import reseal
from tsdb_format.errors import Corruption, Error, UnsupportedFormat
from tsdb_format.reader import TsFile
from tsdb_format.statistics import Statistics
from tsdb_format.vector import Vector

#: Small files that between them use every encoding, dictionaries, NULLs, blobs, and tags of each kind.
CASES = {
    "every type": {"devices": 3, "rows": 40, "rows_per_page": 16},
    "no nulls": {"devices": 2, "rows": 24, "rows_per_page": 8, "null_share": 0.0, "tags": ("BOOLEAN", "INT64")},
    "blocks": {"devices": 1, "rows": 1500, "rows_per_page": 2048, "tags": (), "fields": ("DOUBLE", "BOOLEAN")},
}


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

    def read(self, file: TsFile) -> list[object]:
        """Everything a file can be asked for."""
        out: list[object] = [file.schema, file.row_count, file.rows_per_page, file.table, file.min_sequence, file.max_sequence]
        out += [file.row_start.tolist(), sorted(file.columns)]
        for level in ("page", "chunk", "file"):
            out += [file.statistics(name, level) for name in self.case.columns]
        out += [file.read(name, *self.everything) for name in self.case.columns]
        out += [vector.to_physical_list() for vector in file.device_tags.values()]
        found = file.resource
        return [*out, *(each.tolist() for each in (found.min_time, found.max_time, found.by_max_time, found.by_min_time))]

    def check(self) -> bool:
        """Whether the file at ``path`` reads as it must; where not, reading must have raised, and ``errors`` keeps what."""
        try:
            file = TsFile(self.path)
            found = self.read(file)
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
    return Whole(tmp_path_factory.mktemp("damage"), random_case(17, **CASES[request.param]))


def test_every_byte_flipped(whole: Whole) -> None:
    right = 0
    with open(whole.path, "r+b", buffering=0) as handle:
        for at, byte in enumerate(whole.raw):
            os.pwrite(handle.fileno(), bytes([byte ^ 1 << (at * 5 % 8)]), at)
            right += whole.check()
            os.pwrite(handle.fileno(), bytes([byte]), at)
    assert whole.check()
    check_errors(whole)
    # What may flip unnoticed is padding between pages and between sections.
    used = sum(size for _, size, _ in whole.places)
    with TsFile(whole.path) as file:
        sections = sum(entry[2] for entry in file.container.listing())
        padding = len(whole.raw) - used - sections - (file.size_bytes - file.container.directory_offset) - 24
    assert right <= padding


def test_cut_at_every_length(whole: Whole) -> None:
    try:
        for size in reversed(range(len(whole.raw))):
            os.truncate(whole.path, size)
            assert not whole.check()
        check_errors(whole)
    finally:
        whole.path.write_bytes(whole.raw)


def test_zeroed_and_swapped_parts(whole: Whole) -> None:
    """A torn write leaves zeros or another page's bytes."""
    try:
        for offset, size, _ in whole.places:
            raw = bytearray(whole.raw)
            raw[offset : offset + size] = bytes(size)
            whole.path.write_bytes(raw)
            assert whole.check() == (whole.raw[offset : offset + size] == bytes(size))
        sized: dict[int, int] = {}
        for offset, size, _ in whole.places:
            other = sized.setdefault(size, offset)
            raw = bytearray(whole.raw)
            raw[offset : offset + size] = whole.raw[other : other + size]
            whole.path.write_bytes(raw)
            assert whole.check() == (raw == whole.raw)
    finally:
        whole.path.write_bytes(whole.raw)


def test_flips_under_good_checksums_do_not_crash(whole: Whole) -> None:
    rng = np.random.default_rng(5)
    try:
        for at in sorted(rng.choice(len(whole.raw), min(1_200, len(whole.raw)), replace=False).tolist()):
            raw = bytearray(whole.raw)
            raw[at] ^= 1 << int(rng.integers(0, 8))
            whole.path.write_bytes(reseal(raw, whole.places))
            try:
                file = TsFile(whole.path)
                for name in file.columns:
                    if name in whole.case.columns:
                        file.statistics(name, "file")
                        file.read(name, np.zeros(1, np.int64), np.array([file.row_count]))
                _ = file.device_tags, file.resource.by_max_time
            except Error:
                continue
    finally:
        whole.path.write_bytes(whole.raw)


def test_a_damaged_page_hides_no_other(whole: Whole) -> None:
    """Rows of the other pages stay readable, and the error names the page."""
    with TsFile(whole.path) as file:
        pages = file.page_set("time")
        offset = int(pages.page_offset[-1])
    raw = bytearray(whole.raw)
    raw[offset + 3] ^= 8
    whole.path.write_bytes(raw)
    try:
        with TsFile(whole.path) as file:
            last = (file.page_count - 1) * file.rows_per_page
            if last:
                rows = file.read("time", np.zeros(1, np.int64), np.array([last]))
                assert same_values(rows, whole.case.columns["time"].take(slice(0, last)))
            for _ in range(2):
                with pytest.raises(Corruption) as caught:
                    file.read("time", np.array([last]), np.array([file.row_count]))
                assert (caught.value.path, caught.value.offset) == (str(whole.path), offset)
            with pytest.raises(Corruption):
                file.verify()
    finally:
        whole.path.write_bytes(whole.raw)


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
