"""The pages of one stored column, as arrays: everything that reading them needs, and no object per page."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tsdb_format.types import ColumnType
from tsdb_format.vector import ByteArray, IntArray, Pool

#: Pages per chunk: a dictionary is shared by that many consecutive pages.
PAGES_PER_CHUNK = 64
#: Rows per block: the unit of bit-packing and of random access inside a page.
BLOCK_ROWS = 1024
COMPRESSION_NONE = 0
COMPRESSION_ZSTD = 1


class Encoding(IntEnum):
    """Encoding ids as stored in files; a closed registry, never renumbered."""

    PLAIN = 0
    CONSTANT = 1
    BITMAP = 2
    FOR = 3
    DELTA = 4
    RLE = 5
    ALP = 6
    BYTE_SPLIT = 7
    DICTIONARY = 8


@dataclass(slots=True)
class PageSet:
    """A column's pages inside one file. Arrays may be views of a memory map; ``verified`` and the caches belong to this handle."""

    type: ColumnType
    buffer: ByteArray
    row_count: int
    rows_per_page: int
    page_offset: IntArray
    page_bytes: IntArray
    page_checksum: NDArray[np.uint64]
    page_encoding: ByteArray
    page_compression: ByteArray
    page_null_count: IntArray
    dict_offset: IntArray
    dict_bytes: IntArray
    dict_checksum: NDArray[np.uint64]
    verified: ByteArray
    path: str
    pools: dict[int, Pool] = field(default_factory=dict)

    @property
    def page_count(self) -> int:
        """Number of pages."""
        return len(self.page_offset)
