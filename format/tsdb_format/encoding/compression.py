"""zstd around whole page bodies, where it pays.

A compressed page is: body bytes (8), frame bytes (8), the zstd frame, zeros up to a multiple of 8.
"""

from __future__ import annotations

import numpy as np

from tsdb_format.encoding.checksum import checksum
from tsdb_format.encoding.chunk import EncodedChunk
from tsdb_format.encoding.kept import KEPT
from tsdb_format.encoding.page_set import COMPRESSION_NONE, COMPRESSION_ZSTD, EXPANDED_SLOT, PageSet, Source
from tsdb_format.errors import Corruption, UnsupportedFormat
from tsdb_format.kernels.page import SCRATCH, check_page
from tsdb_format.vector import ByteArray, IntArray

_LEVEL = 1
#: No zstd frame expands further, so that damaged sizes cannot ask for the whole memory.
_RATIO_MAX = 65_536
_HEADER_BYTES = 16
#: Smaller pages are not worth a decompressor's start.
_COMPRESSED_FROM_BYTES = 512
#: Decompressed pages of up to so many bytes in total stay with the handle for a while: readers row by row do not repeat the work.
_KEPT_BYTES = 4 << 20


def pack_frame(body: bytes, share_max: float) -> bytes | None:
    """``body`` as a compressed page, or None where that takes more than ``share_max`` of it."""
    import zstandard

    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(body)
    if len(frame) + _HEADER_BYTES > share_max * len(body):
        return None
    header = np.array([len(body), len(frame)], np.uint64).tobytes()
    return header + frame + bytes(-len(frame) % 8)


def unpack_frame(stored: ByteArray, path: str, offset: int) -> bytes:
    """The body of a compressed page; ``path`` and ``offset`` are named when it is damaged."""
    import zstandard

    try:
        body_bytes, frame_bytes = (int(word) for word in stored[:_HEADER_BYTES].view(np.uint64))
        if frame_bytes > len(stored) - _HEADER_BYTES or body_bytes % 8 or body_bytes > _RATIO_MAX * frame_bytes:
            raise ValueError("impossible sizes")
        frame = stored[_HEADER_BYTES : _HEADER_BYTES + frame_bytes].tobytes()
        if zstandard.get_frame_parameters(frame).content_size != body_bytes:
            raise ValueError("sizes differ")
        body = zstandard.ZstdDecompressor().decompress(frame)
        if len(body) != body_bytes:
            raise ValueError("sizes differ")
    except (ValueError, MemoryError, zstandard.ZstdError) as error:
        raise Corruption(f"compressed page is malformed: {error}", path=path, offset=offset) from error
    return body


def compress_pages(chunk: EncodedChunk, share_max: float) -> None:
    """Compress those of a chunk's pages that shrink to ``share_max`` or less."""
    bodies = []
    at = 0
    for page in range(len(chunk.page_offset)):
        start, size = int(chunk.page_offset[page]), int(chunk.page_bytes[page])
        body = chunk.data[start : start + size].tobytes()
        packed = pack_frame(body, share_max) if size >= _COMPRESSED_FROM_BYTES else None
        chunk.page_offset[page] = at
        if packed is not None:
            body = packed
            chunk.page_compression[page] = COMPRESSION_ZSTD
            chunk.page_bytes[page] = len(body)
            chunk.page_checksum[page] = checksum(body)
        bodies.append(body)
        at += len(body)
    chunk.data = np.frombuffer(b"".join(bodies), np.uint8)


def open_ranges(pages: PageSet, starts: IntArray, stops: IntArray) -> tuple[Source, IntArray, IntArray]:
    """A source that holds the pages of the given ranges ready to decode, and the ranges as kernels take them."""
    source = pages.source or pages.prepare()
    starts = np.ascontiguousarray(starts, np.int64)
    stops = np.ascontiguousarray(stops, np.int64)
    if len(starts) and (int(starts[0]) < 0 or int(stops[-1]) > pages.row_count):
        raise IndexError(f"rows outside the column's {pages.row_count:,}")
    return _expand(pages, starts, stops) if pages.has_compression else source, starts, stops


def _expand(pages: PageSet, starts: IntArray, stops: IntArray) -> Source:
    """A source in which the pages of the given ranges are decompressed, and no others are present."""
    source = pages.source or pages.prepare()
    edges = np.zeros(pages.page_count + 1, np.int64)
    np.add.at(edges, starts // pages.rows_per_page, 1)
    np.add.at(edges, (stops - 1) // pages.rows_per_page + 1, -1)
    touched = np.flatnonzero(np.cumsum(edges[:-1]))
    key = touched.tobytes()
    kept = pages.expanded  # other threads may replace it meanwhile
    if kept is not None and kept[0] == key:
        return kept[1]
    offsets = np.zeros(pages.page_count, np.int64)
    sizes = np.zeros(pages.page_count, np.int64)
    scratch = np.empty(SCRATCH, np.uint64)
    bodies = []
    at = 0
    for number in touched.tolist():
        size = int(source.page_bytes[number])
        if size == 0:
            continue
        offset = int(source.page_offset[number])
        code = check_page(source.words, offset, size, source.page_checksum[number], source.verified, number, scratch)
        if code:
            raise pages.failure(code - 8 * number)
        stored = pages.buffer[offset : offset + size]
        if pages.page_compression[number] == COMPRESSION_NONE:
            body = stored.tobytes()
        elif pages.page_compression[number] == COMPRESSION_ZSTD:
            body = unpack_frame(stored, pages.path, offset)
        else:
            raise UnsupportedFormat(f"page {number:,} of {pages.path} has unknown compression {pages.page_compression[number]}")
        bodies.append(body)
        offsets[number] = at
        sizes[number] = len(body)
        at += len(body)
    joined = np.frombuffer(b"".join(bodies), np.uint8).view(np.uint64)
    result = source._replace(words=joined, page_offset=offsets, page_bytes=sizes, verified=np.ones(pages.page_count, np.uint8))
    if at <= _KEPT_BYTES:
        pages.expanded = key, result
        KEPT.note(pages, EXPANDED_SLOT, at + offsets.nbytes + sizes.nbytes)
    return result
