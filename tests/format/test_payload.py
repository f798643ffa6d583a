"""Blobs outside of pages: written to payload files, read only where they are asked for, and verified one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.blob_case import BLOB, LIMITS, blob_case, blob_vector, every_kind, external_vector, random_payloads
from tsdb_format.blob import BlobKind, BlobLimits, blob_sizes, kinds_of
from tsdb_format.disk import DISK, InputFile
from tsdb_format.encoding.page_set import PAGES_PER_CHUNK
from tsdb_format.errors import Corruption, NotFound, UnsupportedFormat
from tsdb_format.payload import GAP_BYTES_MAX, REQUEST_BYTES_MAX, PayloadFiles, resolve
from tsdb_format.payload_writer import write_payload
from tsdb_format.reader import TsFile
from tsdb_format.section import HEADER
from tsdb_format.vector import Vector, concat
from tsdb_format.writer import FileFacts


def everything(file: TsFile) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(1, np.int64), np.array([file.row_count])


def live(facts: FileFacts) -> dict[str, int]:
    return {each.name: each.live_bytes for each in facts.payloads}


class Counting:
    """The disk; notes what is read of files that are opened for their parts."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int, int]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(DISK, name)

    def open(self, path: str) -> InputFile:
        return _Noted(self, Path(path).name, DISK.open(path))


class _Noted:
    def __init__(self, storage: Counting, name: str, file: InputFile) -> None:
        self.storage, self.name, self.file, self.size = storage, name, file, file.size

    def read(self, position: int, parts: list[np.ndarray]) -> int:
        size = sum(map(len, parts))
        if size != HEADER.size:
            self.storage.requests.append((self.name, position, size))
        return self.file.read(position, parts)


@pytest.mark.parametrize("rows", [1, 16, 17, 300])
@pytest.mark.parametrize("rows_per_page", [1, 4, 1024])
def test_blobs_of_all_sizes_come_back(tmp_path: Path, rows: int, rows_per_page: int) -> None:
    payloads = random_payloads(rows, seed=rows)
    facts = blob_case(blob_vector(payloads), rows_per_page).write(tmp_path / "a.tsf")
    with TsFile(tmp_path / "a.tsf") as file:
        assert file.read("image", *everything(file)).to_physical_list() == payloads
        sizes = [0 if payload is None else len(payload) for payload in payloads]
        cells = file.read_cells("image", *everything(file))
        assert blob_sizes(cells).tolist() == sizes
        assert cells.valid().tolist() == [payload is not None for payload in payloads]
        assert file.payloads == facts.payloads
        kinds = kinds_of(cells.pool)[np.where(cells.valid(), cells.values, 0)]
        for kind, size, valid in zip(kinds.tolist(), sizes, cells.valid().tolist(), strict=True):
            expected = BlobKind.INLINE if size <= 16 else BlobKind.PACKED if size <= 200 else BlobKind.DEDICATED
            assert not valid or kind == expected
        file.verify()
    for payload in facts.payloads:
        assert (tmp_path / payload.name).stat().st_size == payload.bytes
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.res", "a.tsf", *(each.name for each in facts.payloads)])


@given(data=st.data())
def test_any_rows_come_back_each_once(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One dense slot for each row asked for: NULLs and empty blobs, which need no reading, shift nothing."""
    folder = tmp_path_factory.mktemp("blobs")
    payloads = data.draw(st.lists(st.one_of(st.none(), st.binary(max_size=30), st.just(b"")), min_size=1, max_size=40))
    blob_case(blob_vector(payloads), data.draw(st.sampled_from([1, 3, 1024]))).write(
        folder / "a.tsf", blobs={"image": BlobLimits(*data.draw(st.sampled_from([(0, 0), (0, 10), (5, 20)])))}
    )
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(payloads), max_size=len(payloads))))
    rows = np.flatnonzero(mask)
    with TsFile(folder / "a.tsf") as file:
        assert file.read("image", rows, rows + 1).to_physical_list() == [payloads[row] for row in rows.tolist()]


def test_files_without_large_blobs_are_of_version_1(tmp_path: Path) -> None:
    blob_case(blob_vector([b"x" * 16, None, b""])).write(tmp_path / "a.tsf")
    blob_case(blob_vector([b"x" * 17, None, b""])).write(tmp_path / "b.tsf")
    assert [TsFile(tmp_path / name).container.version for name in ("a.tsf", "b.tsf")] == [1, 2]
    assert not (tmp_path / "a.blob").exists()


def test_only_the_rows_asked_for_are_read_in_storage_order(tmp_path: Path) -> None:
    """Ascending, coalesced over small gaps, each payload once whoever has it."""
    payloads: list[bytes | None] = [bytes([row]) * 40_000 for row in range(100)]
    limits = {"image": BlobLimits(0, 10**6)}
    blob_case(blob_vector(payloads)).write(tmp_path / "a.tsf", blobs=limits)
    storage = Counting()
    with TsFile(tmp_path / "a.tsf", storage) as file:
        rows = np.array([3, 4, 5, 7, 50, 99])
        cells = file.read_cells("image", rows, rows + 1)
        assert blob_sizes(cells).tolist() == [40_000] * 6
        assert not storage.requests  # descriptors are enough
        picked = cells.take(np.array([5, 0, 0, 1, 2, 3, 4, 5]))  # unsorted, and twice
        found, count = resolve(picked, file.payload_files)
        assert found.to_physical_list() == [payloads[row] for row in (99, 3, 3, 4, 5, 7, 50, 99)]
        assert count == 6 * 40_000
    assert GAP_BYTES_MAX > 40_000
    head = HEADER.size
    assert storage.requests == [
        ("a.blob", head + 3 * 40_000, 5 * 40_000), ("a.blob", head + 50 * 40_000, 40_000), ("a.blob", head + 99 * 40_000, 40_000)
    ]  # fmt: skip


def test_requests_are_bounded(tmp_path: Path) -> None:
    payloads: list[bytes | None] = [bytes([row]) * 2**20 for row in range(20)]
    blob_case(blob_vector(payloads)).write(tmp_path / "a.tsf", blobs={"image": BlobLimits(0, 2**20)})
    storage = Counting()
    with TsFile(tmp_path / "a.tsf", storage) as file:
        assert file.read("image", *everything(file)).to_physical_list() == payloads
    assert [size for _, _, size in storage.requests] == [REQUEST_BYTES_MAX, REQUEST_BYTES_MAX, 4 * 2**20]


def test_payloads_that_are_outside_already_stay_where_they_are(tmp_path: Path) -> None:
    external = tmp_path / "camera.raw"
    external.write_bytes(b"0123456789abcdef")
    blobs = every_kind(external)
    expected = [b"inline", None, b"", b"packed" * 5, b"dedicated" * 30, b"packed" * 6, b"012345678", b"456789a"]
    blob_case(blobs).write(tmp_path / "a.tsf")
    with TsFile(tmp_path / "a.tsf") as file:
        cells = file.read_cells("image", *everything(file))
        assert file.read("image", *everything(file)).to_physical_list() == expected
    kept = [*(expected[row] for row in (7, 4, 3, 1, 0)), b"new" * 20]
    again = concat([cells.take(np.array([7, 4, 3, 1, 0])), blob_vector([b"new" * 20])])
    facts = blob_case(again).write(tmp_path / "b.tsf")
    assert live(facts) == {
        str(external): 7,
        "a.1.blob": 270,
        "a.blob": 30,
        "b.blob": 60,
    }
    assert {each.name: each.bytes for each in facts.payloads}[str(external)] == -1
    with TsFile(tmp_path / "b.tsf") as file:
        assert file.read("image", *everything(file)).to_physical_list() == kept
        moved = file.read_cells("image", *everything(file))
    facts = blob_case(moved).write(tmp_path / "c.tsf", moved=frozenset({"a.blob", "a.1.blob"}))
    assert live(facts) == {
        str(external): 7,
        "b.blob": 60,
        "c.1.blob": 270,
        "c.blob": 30,
    }
    (tmp_path / "a.blob").unlink()
    with TsFile(tmp_path / "c.tsf") as file:
        assert file.read("image", *everything(file)).to_physical_list() == kept
        file.verify()
    with TsFile(tmp_path / "b.tsf") as file, pytest.raises(NotFound, match=r"a\.blob"):
        file.verify()


def test_a_damaged_payload_spoils_its_own_row(tmp_path: Path) -> None:
    payloads: list[bytes | None] = [bytes([row + 1]) * 100 for row in range(30)]
    blob_case(blob_vector(payloads)).write(tmp_path / "a.tsf")
    raw = bytearray((tmp_path / "a.blob").read_bytes())
    raw[HEADER.size + 7 * 100 + 13] ^= 4
    (tmp_path / "a.blob").write_bytes(raw)
    with TsFile(tmp_path / "a.tsf") as file:
        for row in range(30):
            one = np.array([row]), np.array([row + 1])
            if row == 7:
                with pytest.raises(Corruption, match="a blob's checksum") as caught:
                    file.read("image", *one)
                assert (Path(caught.value.path).name, caught.value.offset) == ("a.blob", HEADER.size + 700)
            else:
                assert file.read("image", *one).to_physical_list() == [payloads[row]]
        with pytest.raises(Corruption, match="a blob's checksum"):
            file.verify()
        assert blob_sizes(file.read_cells("image", *everything(file))).tolist() == [100] * 30


@pytest.mark.parametrize("left", [0, 10, HEADER.size, HEADER.size + 250])
def test_a_payload_file_that_was_cut(tmp_path: Path, left: int) -> None:
    payloads: list[bytes | None] = [bytes([row]) * 100 for row in range(5)]
    blob_case(blob_vector(payloads)).write(tmp_path / "a.tsf")
    (tmp_path / "a.blob").write_bytes((tmp_path / "a.blob").read_bytes()[:left])
    with TsFile(tmp_path / "a.tsf") as file:
        for row in range(5):
            one = np.array([row]), np.array([row + 1])
            if HEADER.size + 100 * (row + 1) <= left:
                assert file.read("image", *one).to_physical_list() == [payloads[row]]
            else:
                with pytest.raises(Corruption) as caught:
                    file.read("image", *one)
                assert caught.value.offset == (0 if left < HEADER.size else HEADER.size + 100 * row)


def test_payload_files_of_later_versions_are_refused(tmp_path: Path) -> None:
    from tsdb_format.section import header_bytes

    (tmp_path / "a.blob").write_bytes(header_bytes(b"tsdbblb\n", 3) + b"x")
    with pytest.raises(UnsupportedFormat, match="version 3"):
        PayloadFiles(str(tmp_path)).open("a.blob")
    (tmp_path / "b.blob").write_bytes(header_bytes(b"tsdbtsf\n", 2) + b"x")
    with pytest.raises(Corruption, match="header"):
        PayloadFiles(str(tmp_path)).open("b.blob")


@pytest.mark.parametrize("byte", [1, 4, 255])
def test_unknown_kinds_are_refused_by_name(tmp_path: Path, byte: int) -> None:
    """Where the kinds are, each changed byte is refused or found to be damage: no page is read that was changed."""
    blob_case(blob_vector([b"x" * 17])).write(tmp_path / "a.tsf")
    raw = bytearray((tmp_path / "a.tsf").read_bytes())
    with TsFile(tmp_path / "a.tsf") as file:
        pages = file.page_set("image")
        pages.verified[:] = 1  # as if its checksum were right
        at = int(pages.page_offset[0])
        body = pages.buffer[at : at + int(pages.page_bytes[0])]
        body[int(body[16:24].view("<u8")[0]) * 8] = byte
        del raw
        if byte == 1:
            assert file.read("image", *everything(file)).to_physical_list() == [b"x" * 17]
        else:
            with pytest.raises(UnsupportedFormat, match="unknown kind"):
                file.read("image", *everything(file))


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    from support.storage import FailingStorage

    case = blob_case(blob_vector([b"i", b"p" * 100, b"d" * 300]))
    counting = FailingStorage()
    case.write(tmp_path / "a.tsf", storage=counting)
    for path in tmp_path.iterdir():
        path.unlink()
    for number in range(1, counting.operations + 1):
        try:
            case.write(tmp_path / "a.tsf", storage=FailingStorage(number))
        except OSError:
            left = {path.name for path in tmp_path.iterdir()}
            assert "a.tsf" in left or not left - {"a.blob", "a.1.blob"}, number
        if (tmp_path / "a.tsf").exists():
            with TsFile(tmp_path / "a.tsf") as file:
                file.verify()
        for path in tmp_path.iterdir():
            path.unlink()


def test_a_large_payload_is_written_piece_by_piece(tmp_path: Path) -> None:
    size, digest = write_payload(str(tmp_path / "a.blob"), (bytes([n]) * 1000 for n in range(10)), sync=False)
    files = PayloadFiles(str(tmp_path))
    assert size == 10_000
    assert b"".join(part.tobytes() for part in files.parts("a.blob", HEADER.size, size))[::1000] == bytes(range(10))
    assert digest
    with pytest.raises(Corruption, match="ends before"):
        list(files.parts("a.blob", HEADER.size, size + 1))


def test_many_pages_and_chunks(tmp_path: Path) -> None:
    rows = PAGES_PER_CHUNK * 2 + 3
    payloads = random_payloads(rows, seed=5)
    blob_case(blob_vector(payloads), 1).write(tmp_path / "a.tsf")
    with TsFile(tmp_path / "a.tsf") as file:
        assert file.read("image", *everything(file)).to_physical_list() == payloads


def test_external_ranges_may_overlap(tmp_path: Path) -> None:
    external = tmp_path / "x.raw"
    external.write_bytes(bytes(range(100)))
    ranges = [(10, 50), (0, 100), (10, 50), (20, 5), (99, 1)]
    vector = external_vector(external, ranges)
    assert vector.type == BLOB
    found: Vector = resolve(vector, PayloadFiles(str(tmp_path)))[0]
    assert found.to_physical_list() == [bytes(range(100))[at : at + size] for at, size in ranges]
    assert LIMITS.inline_max == 16
