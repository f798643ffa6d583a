"""Rows that could not be taken: which line of which file, which column, why, and the line itself."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from tsdb_format.errors import InvalidInput

#: How much of a rejected line is kept.
RAW_BYTES_MAX = 65_536
COLUMNS = ("file", "line", "column", "reason", "raw")


@dataclass(frozen=True, slots=True)
class Reject:
    """One rejected row. ``line`` counts from 1; for Parquet it is the row, from 0. ``column`` is empty where it is none's fault."""

    path: str
    line: int
    column: str
    reason: str
    raw: bytes = b""

    def __str__(self) -> str:
        column = f", column {self.column!r}" if self.column else ""
        return f"{self.path} line {self.line:,}{column}: {self.reason}"


class RejectFile:
    """The file that rejects go to: CSV with file, line, column, reason, raw. Without a path rejects are only counted.

    ``more`` appends to what an interrupted run wrote.
    """

    #: Rejects of which the report tells.
    EXAMPLES = 5

    def __init__(self, path: str | Path | None, *, more: bool = False) -> None:
        self.count = 0
        self.examples: list[str] = []
        self._file: IO[str] | None = None
        if path is not None:
            more = more and Path(path).exists()
            try:
                self._file = Path(path).open("a" if more else "w", newline="", encoding="utf-8")  # noqa: SIM115 - closed by __exit__
            except OSError as error:
                raise InvalidInput(f"the file for rejects cannot be written: {error}") from None
            self._writer = csv.writer(self._file)
            if not more:
                self._writer.writerow(COLUMNS)

    def add(self, rejects: Iterable[Reject]) -> None:
        """Write some down."""
        for reject in rejects:
            self.count += 1
            if len(self.examples) < self.EXAMPLES:
                self.examples.append(str(reject))
            if self._file is not None:
                raw = reject.raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
                self._writer.writerow([reject.path, reject.line, reject.column, reject.reason, raw])
        if self._file is not None:
            self._file.flush()

    def __enter__(self) -> RejectFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
