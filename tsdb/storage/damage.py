"""Which pages of a data file can be read, column by column: what a check lists and what a salvage leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tsdb.storage.finding import reason_of
from tsdb_format.encoding import PAGES_PER_CHUNK
from tsdb_format.errors import Corruption, Error, UnsupportedFormat
from tsdb_format.payload import verify_payloads
from tsdb_format.reader import TsFile
from tsdb_format.vector import IntArray


@dataclass(frozen=True, slots=True)
class Damage:
    """Pages first:stop of a column, which are rows start_row:stop_row, cannot be read. ``offset`` is the first damaged byte."""

    column: str
    first: int
    stop: int
    start_row: int
    stop_row: int
    reason: str
    offset: int | None = None

    def __str__(self) -> str:
        pages = f"page {self.first:,}" if self.stop == self.first + 1 else f"pages {self.first:,} to {self.stop - 1:,}"
        return f"column {self.column!r}, {pages} (rows {self.start_row:,} to {self.stop_row - 1:,}): {self.reason}"


def damaged_pages(file: TsFile, name: str) -> list[Damage]:
    """The pages of a TIME, FIELD or ``_sn`` column that cannot be read, neighbours of one kind together. Reads all of them.

    All pages where what describes them cannot be read.
    """
    pages, size = file.page_count, file.rows_per_page
    try:
        _ = file.page_set(name)
    except (Corruption, UnsupportedFormat) as error:
        offset = error.offset if isinstance(error, Corruption) else None
        return [Damage(name, 0, pages, 0, file.row_count, reason_of(error), offset)]
    found: list[Damage] = []
    for chunk in range(0, pages, PAGES_PER_CHUNK):
        stop = min(chunk + PAGES_PER_CHUNK, pages)
        if _trouble(file, name, chunk, stop) is None:
            continue
        for page in range(chunk, stop):
            trouble = _trouble(file, name, page, page + 1)
            if trouble is None:
                continue
            reason = reason_of(trouble)
            if found and found[-1].stop == page and found[-1].reason == reason:
                before = found.pop()
                first, start_row, offset = before.first, before.start_row, before.offset
            else:
                first, start_row, offset = page, page * size, trouble.offset if isinstance(trouble, Corruption) else None
            found.append(Damage(name, first, page + 1, start_row, min((page + 1) * size, file.row_count), reason, offset))
    return found


def damaged_blobs(file: TsFile, name: str) -> Iterator[tuple[IntArray, Error]]:
    """Rows whose blobs are outside of pages and cannot be read, and why; rows of damaged pages are passed over."""
    size, pages = file.rows_per_page, file.page_count
    ranges = [(first, min(first + PAGES_PER_CHUNK, pages)) for first in range(0, pages, PAGES_PER_CHUNK)]
    while ranges:
        first, stop = ranges.pop()
        try:
            cells = file.read_cells(name, np.array([first * size]), np.array([min(stop * size, file.row_count)]))
        except (Corruption, UnsupportedFormat):
            ranges += [(page, page + 1) for page in range(first, stop)] if stop > first + 1 else []
            continue
        for rows, error in verify_payloads(cells, file.payload_files):
            yield rows + first * size, error


def readable_rows(row_count: int, damages: list[Damage]) -> np.ndarray | None:
    """Which rows are on pages that can be read; None for all."""
    if not damages:
        return None
    good = np.ones(row_count, np.bool_)
    for damage in damages:
        good[damage.start_row : damage.stop_row] = False
    return good


def _trouble(file: TsFile, name: str, first: int, stop: int) -> Error | None:
    """Why pages first:stop cannot be read; None where they can."""
    size = file.rows_per_page
    try:
        file.read_cells(name, np.array([first * size]), np.array([min(stop * size, file.row_count)]))
    except (Corruption, UnsupportedFormat) as error:
        return error
    return None
