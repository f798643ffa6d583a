"""Encode one chunk: the rows of at most 64 pages of one column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tsdb_format.encoding.checksum import EMPTY_CHECKSUM
from tsdb_format.encoding.page_set import WordArray
from tsdb_format.types import Kind
from tsdb_format.vector import ByteArray, IntArray, Vector

#: Most words that a block of a page may take: packed residuals, patches, exceptions and their positions.
_BLOCK_WORDS_MAX = 2_432


@dataclass(slots=True)
class EncodedChunk:
    """A chunk's bytes and where its pages are. Offsets count from the start of ``data``; the dictionary, if any, comes first."""

    data: ByteArray
    page_offset: IntArray
    page_bytes: IntArray
    page_checksum: WordArray
    page_encoding: ByteArray
    page_compression: ByteArray
    dict_offset: int = 0
    dict_bytes: int = 0
    dict_checksum: int = 0

    @classmethod
    def empty(cls, page_count: int) -> EncodedChunk:
        """A chunk whose page tables are still to be filled."""
        return cls(
            np.empty(0, np.uint8), np.zeros(page_count, np.int64), np.zeros(page_count, np.int64),
            np.full(page_count, EMPTY_CHECKSUM, np.uint64), np.zeros(page_count, np.uint8), np.zeros(page_count, np.uint8),
        )  # fmt: skip

    def put_first(self, section: bytes, checksum: int) -> None:
        """Place a dictionary section before the pages."""
        self.data = np.concatenate([np.frombuffer(section, np.uint8), self.data])
        self.page_offset += len(section)
        self.dict_bytes = len(section)
        self.dict_checksum = checksum


def room(row_count: int, rows_per_page: int, more_words: int = 0) -> WordArray:
    """An uninitialized array of words that any encoding of the chunk's numbers fits into, and ``more_words``."""
    pages = -(-row_count // rows_per_page)
    blocks = pages * -(-min(rows_per_page, row_count) // 1024)
    return np.empty(row_count // 64 + 3 * pages + blocks * _BLOCK_WORDS_MAX + more_words, np.uint64)


def encode_chunk(vector: Vector, rows_per_page: int) -> EncodedChunk:
    """Encode ``vector``, one chunk's rows, into pages of ``rows_per_page``; the last page may be short.

    The encoding is chosen by the size that a sample of blocks takes in each, weighed with how fast it decodes.
    """
    if vector.type.kind in (Kind.STRING, Kind.BLOB):
        from tsdb_format.encoding.text import encode_text

        return encode_text(vector, rows_per_page)
    if vector.type.kind is Kind.VECTOR:
        from tsdb_format.encoding.dense import encode_vectors

        return encode_vectors(vector, rows_per_page)
    from tsdb_format.encoding.number import encode_numbers

    return encode_numbers(vector, rows_per_page)
