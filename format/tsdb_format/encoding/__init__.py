"""Encodings: how a chunk's vector becomes page bodies, and how page bodies become a vector again.

``encode_chunk`` chooses and writes, ``read_pages`` reads row ranges, ``search_sorted`` finds a time inside sorted rows without
decoding them. The bytes are described in ``format/SPEC.md``.
"""

from tsdb_format.encoding.checksum import checksum
from tsdb_format.encoding.chunk import EncodedChunk, encode_chunk
from tsdb_format.encoding.dense import VectorRows, open_vectors
from tsdb_format.encoding.page_set import (
    COMPRESSION_NONE,
    COMPRESSION_ZSTD,
    PAGES_PER_CHUNK,
    Encoding,
    PageSet,
    check_rows_per_page,
)
from tsdb_format.encoding.read import read_pages
from tsdb_format.encoding.search import search_sorted

__all__ = [
    "COMPRESSION_NONE",
    "COMPRESSION_ZSTD",
    "PAGES_PER_CHUNK",
    "EncodedChunk",
    "Encoding",
    "PageSet",
    "VectorRows",
    "check_rows_per_page",
    "checksum",
    "encode_chunk",
    "open_vectors",
    "read_pages",
    "search_sorted",
]
