"""Rows that could not be taken: which line of which file, which column, why, and the line itself."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from tsdb.exec.kernels.csv_record import find_records
from tsdb.ingest.file_plan import FilePlan
from tsdb.ingest.source import open_text
from tsdb_format.vector import BoolArray, ByteArray, IntArray

#: Bytes of a file that are searched for records at once.
PIECE_BYTES = 8 * 2**20
#: Records found per call of the kernel.
RECORDS_AT_ONCE = 1 << 17
#: How much of a rejected line is kept.
RAW_BYTES_MAX = 65_536


@dataclass(slots=True)
class Reject:
    """One rejected row. ``line`` counts from 1 (for Parquet: the row, from 0) and is None where it could not be found."""

    path: str
    line: int | None
    column: str
    reason: str
    raw: bytes = b""

    def __str__(self) -> str:
        where = "" if self.line is None else f" line {self.line:,}"
        column = f", column {self.column!r}" if self.column else ""
        return f"{self.path}{where}{column}: {self.reason}"


class RejectFile:
    """The file that rejects go to: CSV with file, line, column, reason, raw. Without a path rejects are only counted."""

    #: Rejects of which the report tells.
    EXAMPLES = 5

    def __init__(self, path: str | Path | None) -> None:
        self.path = path
        self.count = 0
        self.examples: list[str] = []
        self._file: IO[str] | None = None
        if path is not None:
            self._file = Path(path).open("w", newline="", encoding="utf-8")  # noqa: SIM115 - closed by __exit__
            self._writer = csv.writer(self._file)
            self._writer.writerow(["file", "line", "column", "reason", "raw"])

    def add(self, reject: Reject) -> None:
        """Write one down."""
        self.count += 1
        if len(self.examples) < self.EXAMPLES:
            self.examples.append(str(reject))
        if self._file is not None:
            raw = reject.raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
            self._writer.writerow([reject.path, reject.line, reject.column, reject.reason, raw])

    def __enter__(self) -> RejectFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()


@dataclass(slots=True)
class Refused:
    """A delivered row that was refused: its ordinal among the rows that DuckDB delivered of its file."""

    ordinal: int
    column: str
    reason: str


@dataclass(slots=True)
class Malformed:
    """A record that DuckDB could not deliver: where it starts in the text, by its account."""

    position: int
    column: str
    reason: str
    raw: bytes


def malformed_records(connection: Any, plan: FilePlan) -> list[Malformed]:
    """What DuckDB's reject tables hold after a file was read, one per record; the tables are emptied."""
    names = {f"c{each.index}": each.column.name for each in plan.columns}
    found: dict[int, Malformed] = {}
    rows = connection.execute(
        "SELECT line_byte_position, error_type, column_name, error_message, csv_line FROM reject_errors ORDER BY 1, column_idx"
    ).fetchall()
    for position, kind, column, message, raw in rows:
        column = names.get(column, column or "")
        found.setdefault(position, Malformed(position - 1, column, _reason(kind, message), (raw or "").strip("\r\n").encode()))
    connection.execute("DROP TABLE reject_errors").fetchall()
    connection.execute("DROP TABLE reject_scans").fetchall()
    return list(found.values())


def _reason(kind: str, message: str) -> str:
    cast = re.search(r"Could not convert string \"(.*)\" to '(.*)'", message, re.DOTALL)
    if kind == "CAST" and cast:
        return f"{cast[1][:60]!r} is not a {cast[2]}"
    cells = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if cells:
        return f"{cells[2]} cells where there should be {cells[1]}"
    return {"UNQUOTED VALUE": "a quote is not closed", "INVALID ENCODING": "not UTF-8"}.get(kind, message.splitlines()[0])


def locate(plan: FilePlan, refused: list[Refused], malformed: list[Malformed], first_position: int) -> list[Reject]:
    """Rejects with their lines, in file order, by reading the text once more.

    Malformed records before byte ``first_position`` were reported by an earlier run and are left out.
    """
    path = plan.source.path
    if plan.layout is None:
        return [Reject(path, each.ordinal, each.column, each.reason) for each in refused]
    if not refused and not malformed:
        return []
    malformed = sorted(malformed, key=lambda each: each.position)
    wanted = np.array([each.ordinal for each in refused], np.int64)
    positions = np.array([each.position for each in malformed], np.int64)
    by_ordinal, by_position = _find(plan, np.unique(wanted), positions)
    out: list[tuple[int, Reject]] = []
    for each in refused:
        position, line, raw = by_ordinal.get(each.ordinal, (1 << 62, None, b""))
        out.append((position, Reject(path, line, each.column, each.reason, raw)))
    for bad in malformed:
        position, line, raw = by_position.get(bad.position, (bad.position, None, bad.raw))
        if position >= first_position:
            out.append((position, Reject(path, line, bad.column, bad.reason, raw)))
    return [reject for _, reject in sorted(out, key=lambda pair: pair[0])]


_Found = dict[int, tuple[int, "int | None", bytes]]


def _find(plan: FilePlan, ordinals: IntArray, positions: IntArray) -> tuple[_Found, _Found]:
    """(position, line, raw) of delivered rows by ordinal, and of malformed records by the position DuckDB gave."""
    assert plan.layout is not None
    by_ordinal: _Found = {}
    by_position: _Found = {}
    ordinal, header = 0, plan.layout.header is not None
    for data, base, starts, stops, lines in _records(plan):
        absolute = starts + base
        at = np.minimum(np.searchsorted(absolute, positions), len(starts) - 1)
        here = (absolute[at] - positions >= 0) & (absolute[at] - positions <= 2)  # with CRLF DuckDB points at the break before
        delivered: BoolArray = stops > starts if plan.layout.width > 1 else np.ones(len(starts), np.bool_)
        delivered[at[here]] = False
        if header and delivered.any():
            delivered[int(np.argmax(delivered))] = False
            header = False
        for position, record in zip(positions[here].tolist(), at[here].tolist(), strict=True):
            by_position[position] = int(absolute[record]), int(lines[record]), _raw(data, starts[record], stops[record])
        rows = np.flatnonzero(delivered)
        inside = ordinals[(ordinals >= ordinal) & (ordinals < ordinal + len(rows))]
        for wanted in inside.tolist():
            record = rows[wanted - ordinal]
            by_ordinal[wanted] = int(absolute[record]), int(lines[record]), _raw(data, starts[record], stops[record])
        ordinal += len(rows)
    return by_ordinal, by_position


def _raw(data: ByteArray, start: Any, stop: Any) -> bytes:
    return data[int(start) : min(int(stop), int(start) + RAW_BYTES_MAX)].tobytes()


def _records(plan: FilePlan) -> Iterator[tuple[ByteArray, int, IntArray, IntArray, IntArray]]:
    """(bytes, their offset in the text, records' starts and stops within, their lines), piece by piece."""
    assert plan.layout is not None
    delimiter = ord(plan.layout.delimiter)
    starts, stops, lines = (np.empty(RECORDS_AT_ONCE, np.int64) for _ in range(3))
    base, line = 0, 1
    with open_text(plan.source) as file:
        kept = file.read(3)
        if kept == b"\xef\xbb\xbf":
            base, kept = 3, b""
        final = False
        while not final:
            more = file.read(max(PIECE_BYTES, len(kept)))
            final = len(more) == 0
            data = np.frombuffer(kept + more, np.uint8)
            at = 0
            while True:
                count = find_records(data, at, final, np.uint8(delimiter), np.uint8(34), starts, stops, lines)
                if not count:
                    break
                yield data, base, starts[:count].copy(), stops[:count].copy(), lines[:count] + line
                after = int(stops[count - 1])
                breaks = 2 if data[after : after + 2].tobytes() == b"\r\n" else 1
                inside = data[int(starts[count - 1]) : after]
                line += int(lines[count - 1]) + int((inside == 10).sum()) + 1
                at = after + breaks
            kept = data[min(at, len(data)) :].tobytes()
            base += min(at, len(data))
