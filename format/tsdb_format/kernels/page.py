"""Pages: the numbers that files and kernels share, and the check that comes before any decoding."""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.checksum import stored_checksum
from tsdb_format.kernels.registry import kernel

u = np.uint64
#: Encoding ids; ``Encoding`` in ``encoding.page_set`` names them. ``rare`` decodes those above DICTIONARY.
PLAIN, CONSTANT, FOR, DELTA, ALP, DICTIONARY, RLE, BITMAP, BYTE_SPLIT, PLAIN_4 = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
#: Kinds of column: 8-byte integers, 4-byte integers, doubles, floats.
INTEGER, INTEGER_4, DOUBLE, FLOAT = 0, 1, 2, 3
#: Result codes: a page that is not inside the file, whose checksum differs, whose body breaks the rules, of unknown encoding.
OUT_OF_FILE, BAD_CHECKSUM, MALFORMED, UNKNOWN_ENCODING = -1, -2, -3, -4
#: Of a page of blobs: a kind that there is not. (-5 and -6 are the readers' own.)
UNKNOWN_KIND = -7
#: Words of the readers' scratch array: a block's integers; which those are (entry, from, to); and the state of a checksum.
SCRATCH, HELD, HASH = 1040, 1024, 1032


@kernel("(u64[in], i64, i64, u64, u8[out], i64, u64[out]) -> i64", inline=True)
def check_page(words, offset, size, checksum, verified, page, scratch):
    """Whether a page of ``size`` bytes lies inside the file and, the first time, has its checksum: 0 or an error code."""
    if offset < 0 or size < 8 or (offset | size) & 7 or offset > 8 * len(words) - size:
        return OUT_OF_FILE
    if not verified[page]:
        if stored_checksum(words, offset >> 3, size >> 3, scratch[HASH:]) != checksum:
            return BAD_CHECKSUM
        verified[page] = 1
    return 0
