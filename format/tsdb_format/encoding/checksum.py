"""The checksum of pages and dictionaries: XXH3-64, where what is shorter than 248 bytes counts as followed by zeros up to that."""

from __future__ import annotations

import numpy as np

from tsdb_format.kernels.checksum import STATE, stored_checksum

#: Checksum of no bytes: that of a page that is all NULL.
EMPTY_CHECKSUM = 0x7D332B897562BDC9


def checksum(stored: bytes) -> int:
    """Checksum of a stored page or dictionary: a multiple of 8 bytes."""
    return int(stored_checksum(np.frombuffer(stored, np.uint64), 0, len(stored) // 8, np.empty(STATE, np.uint64)))
