"""Every record of a segment that can be read, also behind what is damaged. A replay stops there; a salvage goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tsdb.storage.log_segment import CHANGE, END, HEAD_BYTES, Record, read_head, read_record
from tsdb_format.errors import UnsupportedFormat
from tsdb_format.vector import ByteArray, IntArray


class Gap(NamedTuple):
    """Bytes start:stop of a segment, in which there is no valid record; not the zeros that may be ahead of its end."""

    start: int
    stop: int


def scan(raw: ByteArray, path: str) -> Iterator[Record | Gap]:
    """The valid records of a segment in order, and what lies between and behind them. Raises UnsupportedFormat."""
    view = raw.data
    at = HEAD_BYTES if read_head(view, path) is not None or read_record(view, HEAD_BYTES) is not None else 0
    candidates: IntArray | None = None
    while at < len(raw):
        record = read_record(view, at)
        if record is not None:
            if record.kind not in (CHANGE, END):
                raise UnsupportedFormat(f"{path} has a record of kind {record.kind:#x}, which this build does not know")
            yield record
            at = record.stop
            if record.kind == END:
                return
            continue
        if candidates is None:
            candidates = _candidates(raw)
        later = candidates[int(np.searchsorted(candidates, at + 1)) :].tolist()
        stop = next((place for place in later if read_record(view, place) is not None), len(raw))
        if stop < len(raw) or raw[at:].any():
            yield Gap(at, stop)
        at = stop


def _candidates(raw: ByteArray) -> IntArray:
    """Offsets at which a record of a known kind may begin."""
    words = raw[: len(raw) // 8 * 8].view(np.uint64)
    kind = words[1:] >> np.uint64(32)
    return 8 * np.flatnonzero((kind == CHANGE) | (kind == END))
