"""Blob descriptors: where a blob's bytes are, how many, and their checksum; enough for ``IS NULL``, ``length()`` and a later fetch.

The kinds are final. Version 1 writes INLINE only, whatever the size; readers refuse the others by name until they know them.
NULL is never a kind: a NULL blob is a cleared validity bit, and an empty blob is INLINE with size 0.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class BlobKind(IntEnum):
    """Where the payload of a blob lives, as stored in files; a closed registry, never renumbered."""

    INLINE = 0  # in the page, after the descriptors
    PACKED = 1  # in the file's .blob sidecar, beside others
    DEDICATED = 2  # a file of its own
    EXTERNAL = 3  # a range of a file that tsdb does not own


#: Payloads up to this size belong in the page: a fetch of a page brings them along at little cost.
INLINE_BYTES_MAX = 16 * 2**10
#: Payloads above this size belong in files of their own, so that dropping one is an unlink and not a rewrite.
PACKED_BYTES_MAX = 2 * 2**20

#: One descriptor: ``position`` counts from the start of the payload area of its kind, ``checksum`` is xxh3_64 of the payload.
DESCRIPTOR = np.dtype(
    [("kind", "<u1"), ("zero", "<u1", (3,)), ("source", "<u4"), ("position", "<u8"), ("size", "<u8"), ("checksum", "<u8")]
)
