"""What a CSV file looks like: its delimiter, its header, its first rows. Read from the head of the file."""

from __future__ import annotations

import contextlib
import csv
import io
import zlib
from collections.abc import Collection
from dataclasses import dataclass

from tsdb.ingest.source import Source, open_text
from tsdb_format.errors import InvalidInput

#: Bytes of the head that are looked at.
HEAD_BYTES = 65_536
DELIMITERS = ",\t;|"
QUOTE = '"'


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """Delimiter, column names (None without a header), the number of columns, and a sample of rows of the head."""

    delimiter: str
    header: tuple[str, ...] | None
    width: int
    sample: tuple[tuple[str, ...], ...]
    row_bytes: float

    @property
    def names(self) -> tuple[str, ...]:
        """The header's names, or made-up ones."""
        return self.header or tuple(f"column{number}" for number in range(self.width))


def read_layout(source: Source, known: Collection[str]) -> CsvLayout | None:
    """The layout of a file, None for one without any row or header. ``known`` are names that a header would contain."""
    import zstandard

    try:
        with open_text(source) as file:
            raw = file.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InvalidInput(f"{source.path} cannot be read: {error}") from None
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{source.path} is UTF-16; only UTF-8 is read")
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    whole = len(raw) < HEAD_BYTES
    folded = {name.lower() for name in known}
    best: tuple[int, int, str, list[list[str]]] | None = None
    for delimiter in DELIMITERS:
        rows = _rows(text, delimiter, whole)
        if not rows:
            continue
        hits = sum(cell.strip().lower() in folded for cell in rows[0])
        if best is None or (hits, len(rows[0])) > best[:2]:
            best = hits, len(rows[0]), delimiter, rows
    if best is None:
        return None
    hits, width, delimiter, rows = best
    names = tuple(cell.strip() for cell in rows[0])
    header = names if hits or _is_header(names) else None
    sample = tuple(tuple(row) for row in (rows[1:] if header else rows))
    return CsvLayout(delimiter, header, width, sample, max(1.0, len(text) / len(rows)))


def _rows(text: str, delimiter: str, whole: bool) -> list[list[str]]:
    """The records of the head, blank lines left out, and the last one too where it may be cut."""
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error):  # what is read until then is enough for a sample
        rows.extend(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    if not whole and len(rows) > 1:
        rows.pop()
    return [row for row in rows if row]


def _is_header(cells: tuple[str, ...]) -> bool:
    """Whether a first row reads like names: no number, no time, no blank but the last, none twice."""
    named = cells[:-1] if len(cells) > 1 and not cells[-1] else cells
    return all(named) and len(set(named)) == len(named) and not any(_is_value(cell) for cell in named)


def _is_value(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return len(cell) >= 8 and cell[:4].isdigit() and cell[4] in "-/"
    return True
