"""The log as a reader in another process follows it, while its writer appends.

A record that is not there in full, or not valid yet, is simply not there: it is looked for again next time. Where a segment ends in
an END record the next one is looked for. What a reader sees this way may not be durable yet.
"""

from __future__ import annotations

import numpy as np

from tsdb.storage.log_record import Change, decode
from tsdb.storage.log_segment import CHANGE, END, HEAD_BYTES, RECORD_BYTES, list_segments, read_head, read_record, segment_name
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Error, NotFound, UnsupportedFormat
from tsdb_format.vector import ByteArray

#: A segment may vanish between listing and reading it, but not again and again.
_TRIES_MAX = 64


class LogTail:
    """Follows the log in ``folder``. Not for several threads at once; holds no file open."""

    def __init__(self, folder: str, storage: Storage = DISK) -> None:
        self._folder = folder
        self._storage = storage
        self._first = 0  # of the segment being read; 0 for none
        self._at = 0  # how far it was read; 0 while its head was not
        self._ended = False
        self._last = 0

    def poll(self, after: int) -> list[tuple[int, Change]]:
        """The commits after ``after`` that were not returned before, in order, each with its number.

        Raises NotFound where commits between are not in the log, or no longer: they are in files that a newer manifest names,
        whose ``logged`` is the ``after`` to go on with. Raises Corruption and UnsupportedFormat as ``decode`` and ``replay`` do.
        What was found before it raises is returned first.
        """
        found: list[tuple[int, Change]] = []
        self._last = max(self._last, after)
        for _ in range(_TRIES_MAX):
            if (not self._first or self._ended) and not self._next():
                break
            path = f"{self._folder}/{segment_name(self._first)}"
            try:
                raw = self._storage.read(path)
            except NotFound:  # dropped, or set aside
                self._first = 0
                continue
            try:
                self._read(raw, path, found)
            except Error:  # which the next call meets again
                if not found:
                    raise
                break
            if not self._ended:
                break
        return found

    def _next(self) -> bool:
        """Go to the segment that the next commit is in, or would be."""
        firsts = [first for _, first in list_segments(self._folder, self._storage) if first > self._first or not self._ended]
        if not firsts:
            return False
        self._first = firsts[0] if self._ended else max((first for first in firsts if first <= self._last + 1), default=firsts[0])
        self._at, self._ended = 0, False
        return True

    def _read(self, raw: ByteArray, path: str, found: list[tuple[int, Change]]) -> None:
        """Take what is new in the segment."""
        if not self._at:
            first = read_head(raw.data, path)
            if first is None:
                return
            if first > self._last + 1:
                self._first = 0
                raise self._missing(first)
            self._at = HEAD_BYTES
        if not raw[self._at : self._at + RECORD_BYTES].any():  # nothing more, or the zeros that the writer keeps ahead
            return
        fresh = np.array(raw[self._at :])  # of its own: a mapping for each poll would keep as many files open
        view, at = fresh.data, 0
        while (record := read_record(view, at)) is not None:
            if record.kind == END:
                self._ended = True
                break
            if record.kind != CHANGE:
                raise UnsupportedFormat(f"{path} has a record of kind {record.kind:#x}, which this build does not know")
            if record.sequence > self._last + 1:
                raise self._missing(record.sequence)
            if record.sequence > self._last:
                offset = self._at + record.start - at
                found.append((record.sequence, decode(fresh[record.start : record.stop], path=path, offset=offset)))
                self._last = record.sequence
            self._at += record.stop - at
            at = record.stop

    def _missing(self, sequence: int) -> NotFound:
        return NotFound(f"the log in {self._folder} has no commits {self._last + 1} to {sequence - 1}: they are in files")
