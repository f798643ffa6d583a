"""Kernels over pools of byte strings."""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel


@kernel("(i64[in], u8[in], u8[in], i8[out]) -> void")
def compare(offsets, data, literal, out):  # type: ignore[no-untyped-def]
    """Per string of the pool: -1, 0 or 1 as it is bytewise less than, equal to or greater than ``literal``."""
    size = literal.shape[0]
    for i in range(offsets.shape[0] - 1):
        start = offsets[i]
        length = offsets[i + 1] - start
        found = 0
        for j in range(min(length, size)):
            if data[start + j] != literal[j]:
                found = -1 if data[start + j] < literal[j] else 1
                break
        if found == 0 and length != size:
            found = -1 if length < size else 1
        out[i] = found
