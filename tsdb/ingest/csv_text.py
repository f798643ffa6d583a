"""CSV text in pieces: read, decompressed, and split into records and cells.

Written here and not left to DuckDB because every record must be accounted for: its reader (2.0, with rejects and in parallel) drops
all records of a buffer whose first one is bad, drops zone offsets, and rounds 1.5 to 2 where a whole number is declared.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import csv_split
from tsdb.ingest.cells import Cells
from tsdb.ingest.csv_layout import QUOTE, CsvLayout
from tsdb.ingest.source import Source, open_text, skip_text
from tsdb_format.errors import InvalidInput
from tsdb_format.vector import ByteArray, IntArray

#: Bytes read at once: some ten thousand records, a few columns' worth of cache.
PIECE_BYTES = 4 * 2**20
#: A record may be this long; of one with an open quote only its first line is given up.
RECORD_BYTES_MAX = 64 * 2**20
#: The least number of records that arrays are made for.
RECORDS_MIN = 1024


@dataclass(slots=True)
class Piece:
    """Some records. Cells of the k-th wanted column are starts[k], stops[k] into ``data``; ``verdict`` is csv_split's per record.

    ``offset`` and ``next_line`` say where in the text the record after them begins.
    """

    data: ByteArray
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    record_start: IntArray
    record_stop: IntArray
    record_line: IntArray
    verdict: NDArray[np.uint8]
    cell_count: IntArray
    offset: int
    next_line: int

    def cells(self, column: int) -> Cells:
        """A wanted column's cells."""
        return Cells(self.data, self.starts[column], self.stops[column])

    def raw(self, row: int, limit: int) -> bytes:
        """A record as it stands in the file, up to ``limit`` bytes."""
        start = int(self.record_start[row])
        return self.data[start : min(int(self.record_stop[row]), start + limit)].tobytes()


def read_pieces(source: Source, layout: CsvLayout, wanted: list[int], offset: int = 0, line: int = 1) -> Iterator[Piece]:
    """The records from byte ``offset`` of the text on, which is on line ``line``.

    At 0 a byte-order mark and the header are skipped. ``wanted`` are the columns whose cells are kept. Raises InvalidInput where
    the file cannot be read.
    """
    import zstandard

    try:
        with open_text(source) as file:
            if offset:
                skip_text(file, offset)
            yield from _Splitter(file, source, layout, wanted, offset, line).pieces()
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InvalidInput(f"{source.path} cannot be read: {error}") from None


class _Splitter:
    """The state between pieces: the open file, and the start of a record that the last piece did not complete."""

    def __init__(self, file: IO[bytes], source: Source, layout: CsvLayout, wanted: list[int], offset: int, line: int) -> None:
        self.file = file
        self.source = source
        self.delimiter = np.uint8(ord(layout.delimiter))
        self.slot = np.full(layout.width, -1, np.int64)
        self.slot[wanted] = np.arange(len(wanted))
        self.wanted = len(wanted)
        self.row_bytes = layout.row_bytes
        self.base = offset
        self.line = line
        self.skip_header = layout.header is not None and offset == 0

    def pieces(self) -> Iterator[Piece]:
        """All pieces."""
        kept: ByteArray = np.empty(0, np.uint8)
        final = False
        while not final:
            data, size, final = self._fill(kept)
            if self.base == 0 and data[:3].tobytes() == b"\xef\xbb\xbf":
                self.base, data, size = 3, data[3:], size - 3
            state = np.array([0, self.line, size, 0, 0], np.int64)
            if self.skip_header and self._split(data, size, final, state, 1) is not None:
                self.skip_header = False
            if not self.skip_header:
                yield from self._records(data, size, final, state)
            if not state[csv_split.AT] and not final and size >= RECORD_BYTES_MAX:
                yield self._give_up(data, size, state)
            at = min(int(state[csv_split.AT]), size)
            self.base, self.line = self.base + at, int(state[csv_split.LINE])
            kept = data[at:size]

    def _fill(self, kept: ByteArray) -> tuple[ByteArray, int, bool]:
        """(buffer, bytes in it, whether the text ends there): what was kept and at least as much again; half is to unescape."""
        room = len(kept) + max(PIECE_BYTES, len(kept))
        data = np.empty(2 * room, np.uint8)
        data[: len(kept)] = kept
        size = len(kept)
        while size < room:
            count = self.file.readinto(data[size:room])  # type: ignore[attr-defined]
            if not count:
                return data, size, True
            size += count
        return data, size, False

    def _records(self, data: ByteArray, size: int, final: bool, state: IntArray) -> Iterator[Piece]:
        while True:
            expected = int(1.2 * (size - int(state[csv_split.AT])) / self.row_bytes) + RECORDS_MIN
            piece = self._split(data, size, final, state, expected)
            if piece is None:
                return
            self.row_bytes = max(1.0, (self.row_bytes + size / max(1, len(piece.verdict))) / 2)
            yield piece

    def _split(self, data: ByteArray, size: int, final: bool, state: IntArray, limit: int) -> Piece | None:
        starts, stops = (np.empty((max(1, self.wanted), limit), np.int64) for _ in range(2))
        record_start, record_stop, record_line, cell_count = (np.empty(limit, np.int64) for _ in range(4))
        verdict = np.empty(limit, np.uint8)
        count = csv_split.split_records(
            data, size, final, self.delimiter, np.uint8(ord(QUOTE)), self.slot, state,
            starts, stops, record_start, record_stop, record_line, verdict, cell_count,
        )  # fmt: skip
        if not count:
            return None
        if data[:size].max() > 0x7F:
            csv_split.check_text(data, record_start[:count], record_stop[:count], verdict[:count])
        return Piece(
            data, starts[:, :count], stops[:, :count], record_start[:count], record_stop[:count], record_line[:count],
            verdict[:count], cell_count[:count], self.base + min(int(state[csv_split.AT]), size), int(state[csv_split.LINE]),
        )  # fmt: skip

    def _give_up(self, data: ByteArray, size: int, state: IntArray) -> Piece:
        """The first line of a record that does not end, as a record with a bad quote."""
        piece = self._split(data, size, True, state, 1)
        if piece is None or piece.verdict[0] != csv_split.BAD_QUOTE or int(state[csv_split.AT]) >= size:
            raise InvalidInput(f"{self.source.path} has a line of more than {RECORD_BYTES_MAX >> 20} MiB: line {self.line:,}")
        return piece
