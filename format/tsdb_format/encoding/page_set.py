"""The pages of one stored column, as arrays: everything that reading them needs, and no object per page."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb_format.errors import Corruption, InvalidInput, UnsupportedFormat
from tsdb_format.kernels import page, read
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import ByteArray, IntArray, Pool

WordArray = NDArray[np.uint64]
#: Pages per chunk: a dictionary is shared by that many consecutive pages.
PAGES_PER_CHUNK = 64
#: Rows per block: the unit of bit-packing and of random access inside a page.
BLOCK_ROWS = 1024
#: So that every block of a page can be addressed by the 27 bits of its directory entry, however badly it packs.
PAGE_ROWS_MAX = 1 << 25
COMPRESSION_NONE = 0
COMPRESSION_ZSTD = 1


class Encoding(IntEnum):
    """Encoding ids as stored in files; a closed registry, never renumbered. The kernels' ``page`` module has the same numbers."""

    PLAIN = 0
    CONSTANT = 1
    FOR = 2
    DELTA = 3
    ALP = 4
    DICTIONARY = 5
    RLE = 6
    BITMAP = 7
    BYTE_SPLIT = 8
    PLAIN_4 = 9


_KERNEL_KINDS = {Kind.INT32: page.INTEGER_4, Kind.DATE: page.INTEGER_4, Kind.DOUBLE: page.DOUBLE, Kind.FLOAT: page.FLOAT}
_TROUBLE = {
    page.OUT_OF_FILE: "page lies outside the file",
    page.BAD_CHECKSUM: "page checksum does not match",
    page.MALFORMED: "page body is malformed",
}


def check_rows_per_page(rows: int) -> None:
    """Refuse, with InvalidInput, pages that end inside a block or are too large."""
    if rows < 1 or (rows > BLOCK_ROWS and rows % BLOCK_ROWS) or rows > PAGE_ROWS_MAX:
        raise InvalidInput(f"rows_per_page must be 1 to 1,024 or a multiple of 1,024 up to {PAGE_ROWS_MAX:,}, not {rows:,}")


def kernel_kind(kind: Kind) -> int:
    """What the kernels call a column of that kind: 4-byte integers, doubles and floats have numbers of their own."""
    return _KERNEL_KINDS.get(kind, page.INTEGER)


def item_bytes(kind: Kind) -> int:
    """Bytes of a plain stored value: 4 or 8."""
    return 4 if kernel_kind(kind) & 1 else 8


class Source(NamedTuple):
    """A page set's arrays as the kernels take them: of the declared dtype, contiguous and aligned."""

    words: WordArray
    page_offset: IntArray
    page_bytes: IntArray
    page_checksum: WordArray
    page_encoding: ByteArray
    page_nulls: IntArray
    verified: ByteArray
    row_count: int
    rows_per_page: int


#: Slots of what a page set keeps: decompressed pages, the joined dictionaries; that of a chunk's dictionary is its number.
EXPANDED_SLOT, JOINED_SLOT = -1, -2


@dataclass(slots=True, eq=False, weakref_slot=True)
class PageSet:
    """A column's pages inside one file. Arrays may be views of a memory map; ``verified`` and the caches belong to this handle.

    ``buffer`` is the whole file. Per page: ``page_offset`` (multiple of 8), ``page_bytes`` (0: all NULL), XXH3-64 of those bytes,
    ``Encoding`` id, compression, NULLs. Per chunk: where its dictionary is, 0 bytes where it has none.
    Threads may share a handle: its caches are replaced whole, and what two of them do twice they do alike.
    """

    type: ColumnType
    buffer: ByteArray
    row_count: int
    rows_per_page: int
    page_offset: IntArray
    page_bytes: IntArray
    page_checksum: WordArray
    page_encoding: ByteArray
    page_compression: ByteArray
    page_null_count: IntArray
    dict_offset: IntArray
    dict_bytes: IntArray
    dict_checksum: WordArray
    verified: ByteArray
    path: str
    source: Source | None = field(default=None, repr=False)
    has_nulls: bool = field(default=True, repr=False)
    has_compression: bool = field(default=True, repr=False)
    expanded: tuple[bytes, Source] | None = field(default=None, repr=False)
    pools: dict[int, Pool] = field(default_factory=dict, repr=False)
    joined_pool: tuple[bytes, Pool, IntArray] | None = field(default=None, repr=False)

    @property
    def page_count(self) -> int:
        """Number of pages."""
        return len(self.page_offset)

    def let_go(self, slot: int) -> None:
        """Forget what was kept between reads in one of the slots; readers that have it go on with it."""
        if slot == EXPANDED_SLOT:
            self.expanded = None
        elif slot == JOINED_SLOT:
            self.joined_pool = None
        else:
            self.pools.pop(slot, None)

    def prepare(self) -> Source:
        """Check the arrays once and keep them in the kernels' form."""
        pages = -(-self.row_count // self.rows_per_page)
        per_page = (
            self.page_offset, self.page_bytes, self.page_checksum, self.page_encoding, self.page_compression,
            self.page_null_count, self.verified,
        )  # fmt: skip
        if any(len(array) < pages for array in per_page):
            raise Corruption("page tables are shorter than the column", path=self.path, offset=0)
        words = self.buffer[: len(self.buffer) >> 3 << 3].view(np.uint64)
        self.has_nulls = bool(self.page_null_count.any())
        self.has_compression = bool(self.page_compression.any())
        self.source = Source(
            _as(words, np.uint64), _as(self.page_offset, np.int64), _as(self.page_bytes, np.int64),
            _as(self.page_checksum, np.uint64), _as(self.page_encoding, np.uint8), _as(self.page_null_count, np.int64),
            _as(self.verified, np.uint8), self.row_count, self.rows_per_page,
        )  # fmt: skip
        return self.source

    def failure(self, code: int) -> Exception:
        """The error that a kernel's negative result stands for: -8 * page - reason."""
        number, reason = -code >> 3, -(-code & 7)
        if reason == read.BAD_RANGE:
            return IndexError(f"rows outside the column's {self.row_count:,}")
        if reason == page.UNKNOWN_ENCODING:
            return UnsupportedFormat(f"page {number:,} of {self.path} has unknown encoding {self.page_encoding[number]}")
        if reason == page.UNKNOWN_KIND:
            return UnsupportedFormat(f"page {number:,} of {self.path} has a blob of an unknown kind")
        return Corruption(_TROUBLE[reason], path=self.path, offset=int(self.page_offset[number]))


def _as(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return np.require(array, dtype, ["C", "A"])
