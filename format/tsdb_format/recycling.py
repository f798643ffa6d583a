"""Memory of batches, used again once nobody has it: pages new to the process take longer than decoding what goes into them.

A block is free when nothing but the pool refers to it. So nobody gives one back, and whatever shares the memory of an array, in
Arrow and DuckDB too, holds it for as long as it is used.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tsdb_format.vector import ByteArray

#: Bytes of arrays whose memory is kept: smaller ones the allocator has at hand, larger ones are rare.
_BYTES_MIN, _BYTES_MAX = 1 << 17, 1 << 20
#: Sizes of blocks are multiples of it; a block serves arrays from half of its size on.
_STEP_BYTES = 1 << 16
#: Blocks that are remembered; more of them are in use only where results are kept, which have no use for them later.
_BLOCKS_MAX = 48


class Recycling:
    """Blocks of memory, oldest first. Whoever looks at one has taken it out, so that no two threads are given the same."""

    def __init__(self, blocks_max: int) -> None:
        self._blocks: deque[ByteArray] = deque([np.empty(0, np.uint8)], maxlen=blocks_max)
        #: What is said of a block that only the pool has; how variables count differs between versions of Python.
        self._alone = self._oldest()[1]

    def array(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """An array of ``count`` items, whatever they are."""
        kind = np.dtype(dtype)
        size = count * kind.itemsize
        if not _BYTES_MIN <= size <= _BYTES_MAX:
            return np.empty(count, kind)
        for _ in range(len(self._blocks)):
            try:
                block, references = self._oldest()
            except IndexError:  # other threads look at the rest
                break
            free = references == self._alone and size <= len(block) <= 2 * size
            made = block[:size].view(kind) if free else None
            self._blocks.append(block)
            if made is not None:
                return made
        block = np.empty(-(-size // _STEP_BYTES) * _STEP_BYTES, np.uint8)
        self._blocks.append(block)
        return block[:size].view(kind)

    def _oldest(self) -> tuple[ByteArray, int]:
        """A block, taken out, and how many references to it there are."""
        block = self._blocks.popleft()
        return block, sys.getrefcount(block)


#: The arrays of this process.
recycled = Recycling(_BLOCKS_MAX).array
