"""Blob descriptors: where a blob's bytes are and how many, known without touching them.

A cell of a BLOB page has a kind and bytes. Of kind INLINE the bytes are the payload; of any other kind they are a ``LOCATOR``.
The kinds are final; version 1 writes INLINE only, whatever the size, and readers refuse the others until they know them. NULL is
never a kind: a NULL blob is a cleared validity bit, and an empty blob is INLINE with no bytes.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class BlobKind(IntEnum):
    """Where the payload of a blob lives, as stored in files; a closed registry, never renumbered."""

    INLINE = 0  # in the page
    PACKED = 1  # in the file's .blob sidecar, beside others
    DEDICATED = 2  # a file of its own
    EXTERNAL = 3  # a range of a file that tsdb does not own


#: Payloads up to this size belong in the page: a fetch of the page brings them along at little cost.
INLINE_BYTES_MAX = 16 * 2**10
#: Payloads above this size belong in files of their own, so that dropping one is an unlink and not a rewrite.
PACKED_BYTES_MAX = 2 * 2**20

#: The bytes of a cell that is not INLINE: ``source`` numbers the file among those of its kind, ``checksum`` is the payload's xxh3.
LOCATOR = np.dtype([("source", "<u4"), ("zero", "<u4"), ("position", "<u8"), ("size", "<u8"), ("checksum", "<u8")])
