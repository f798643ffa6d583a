"""The dictionary section of a chunk of strings: its distinct values, which the pages name by number.

Bytes: number of strings (8), bytes of the strings (8), bytes of the frame (8; 0: not compressed), then as they are or as one zstd
frame: lengths (4 each, padded to 8) and the strings end to end. Padded with zeros to a multiple of 8.
"""

from __future__ import annotations

import numpy as np

from tsdb_format.encoding.checksum import checksum
from tsdb_format.encoding.kept import KEPT
from tsdb_format.encoding.page_set import PAGES_PER_CHUNK, PageSet
from tsdb_format.errors import Corruption
from tsdb_format.kernels.page import SCRATCH, check_page
from tsdb_format.vector import Pool

_HEADER_BYTES = 24
#: Sections below this are not worth a decompressor's start.
_COMPRESSED_FROM_BYTES = 4096
_LEVEL = 3


def write_dictionary(pool: Pool) -> tuple[bytes, int]:
    """The section and its checksum."""
    import zstandard

    lengths = np.diff(pool.offsets).astype(np.uint32).tobytes()
    payload = lengths.ljust(-(-len(lengths) // 8) * 8, b"\0") + pool.data.tobytes()
    frame = b""
    if len(payload) >= _COMPRESSED_FROM_BYTES:
        frame = zstandard.ZstdCompressor(level=_LEVEL).compress(payload)
        if len(frame) > 0.8 * len(payload):
            frame = b""
    header = np.array([len(pool), len(pool.data), len(frame)], np.uint64).tobytes()
    section = header + (frame or payload)
    section += bytes(-len(section) % 8)
    return section, checksum(section)


def read_dictionary(pages: PageSet, chunk: int) -> Pool:
    """The dictionary of a chunk; kept with the handle for a while."""
    pool = pages.pools.get(chunk)
    if pool is None:
        pool = pages.pools[chunk] = _load(pages, chunk)
        KEPT.note(pages, chunk, pool.offsets.nbytes + pool.data.nbytes)
    return pool


def _load(pages: PageSet, chunk: int) -> Pool:
    source = pages.source or pages.prepare()
    offset, size = int(pages.dict_offset[chunk]), int(pages.dict_bytes[chunk])
    scratch = np.empty(SCRATCH, np.uint64)
    if check_page(source.words, offset, size, np.uint64(pages.dict_checksum[chunk]), np.zeros(1, np.uint8), 0, scratch):
        raise Corruption("dictionary does not match its checksum", path=pages.path, offset=offset)
    section = pages.buffer[offset : offset + size]
    if size < _HEADER_BYTES:
        raise Corruption("dictionary is malformed", path=pages.path, offset=offset)
    count, data_bytes, frame_bytes = (int(word) for word in section[:_HEADER_BYTES].view(np.uint64))
    lengths_bytes = -(-count // 2) * 8
    if count > pages.rows_per_page * PAGES_PER_CHUNK or count == 0 or frame_bytes > size - _HEADER_BYTES:
        raise Corruption("dictionary is malformed", path=pages.path, offset=offset)
    payload = section[_HEADER_BYTES:]
    if frame_bytes:
        payload = _decompress(payload[:frame_bytes].tobytes(), lengths_bytes + data_bytes, pages.path, offset)
    if lengths_bytes + data_bytes > len(payload):
        raise Corruption("dictionary is malformed", path=pages.path, offset=offset)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(payload[: 4 * count].view(np.uint32), out=offsets[1:])
    if offsets[-1] != data_bytes:
        raise Corruption("dictionary is malformed", path=pages.path, offset=offset)
    return Pool(offsets, payload[lengths_bytes : lengths_bytes + data_bytes])


def _decompress(frame: bytes, size: int, path: str, offset: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    import zstandard

    try:
        if zstandard.get_frame_parameters(frame).content_size != size:
            raise ValueError("sizes differ")
        return np.frombuffer(bytearray(zstandard.ZstdDecompressor().decompress(frame)), np.uint8)
    except (ValueError, MemoryError, zstandard.ZstdError) as error:
        raise Corruption(f"dictionary is malformed: {error}", path=path, offset=offset) from error
