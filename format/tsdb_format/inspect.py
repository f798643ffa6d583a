"""What is in a file, for people: a tree of its parts and a table of its pages. The byte-for-byte dump is ``dump``.

Reports are plain dataclasses, so that a caller can print them or turn them into JSON; the text is the same for the same file. Only
footers are read for the tree; the page table reads and verifies every page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tsdb_format import statistics
from tsdb_format.encoding import COMPRESSION_NONE, COMPRESSION_ZSTD, PAGES_PER_CHUNK, Encoding
from tsdb_format.encoding import checksum as page_checksum
from tsdb_format.errors import Corruption
from tsdb_format.reader import TsFile
from tsdb_format.resource import resource_path
from tsdb_format.schema import Column
from tsdb_format.section import HEADER, TAIL
from tsdb_format.statistics import Statistics
from tsdb_format.types import ColumnType, Kind, Role

_COMPRESSIONS = {COMPRESSION_NONE: "none", COMPRESSION_ZSTD: "zstd"}
#: Chunk groups that the tree shows one by one; of more it shows the ends.
_GROUPS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """One stored column. ``encodings`` counts pages by encoding name, ``plain_bytes`` is None for types without a fixed width."""

    column: Column
    encodings: dict[str, int]
    bytes: int
    dictionary_bytes: int
    plain_bytes: int | None
    nulls: int
    min: str
    max: str


@dataclass(frozen=True, slots=True)
class TagReport:
    """One tag of the device table."""

    column: Column
    distinct: int
    nulls: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class SectionReport:
    """One section of a footer."""

    name: str
    offset: int
    bytes: int
    dtype: str
    shape: tuple[int, ...]
    checksum: int


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One chunk group: its rows, and the bytes that its chunks span."""

    first_row: int
    rows: int
    pages: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileReport:
    """A whole file. ``resource`` is empty when the sidecar is good, else says why it is not used."""

    file: TsFile
    groups: tuple[GroupReport, ...]
    columns: tuple[ColumnReport, ...]
    tags: tuple[TagReport, ...]
    sections: tuple[SectionReport, ...]
    directory: SectionReport
    resource: str


@dataclass(frozen=True, slots=True)
class PageReport:
    """One page. ``state`` is 'ok' or what is wrong with its bytes."""

    column: str
    page: int
    first_row: int
    rows: int
    offset: int
    bytes: int
    encoding: str
    compression: str
    nulls: int
    min: str
    max: str
    state: str


def inspect_file(path: str | Path) -> FileReport:
    """Report on a file from its footer. Raises NotFound, Corruption, UnsupportedFormat."""
    file = TsFile(path)
    container = file.container
    sections = tuple(SectionReport(*entry) for entry in container.listing())
    at, size = container.directory_offset, file.size_bytes - TAIL.size - container.directory_offset
    directory = SectionReport("directory", at, size, "u1", (size,), container.digest)
    stored = stored_columns(file)
    return FileReport(
        file, tuple(_groups(file, stored)), tuple(_column(file, column) for column in stored),
        tuple(_tag(file, column) for column in file.schema.tags), sections, directory, file.resource.verify(),
    )  # fmt: skip


def inspect_pages(file: TsFile) -> Iterator[PageReport]:
    """Report on every page, column by column, after checking its bytes."""
    for column in stored_columns(file):
        pages, found = file.page_set(column.name), file.statistics(column.name, "page")
        for page in range(file.page_count):
            at, size = int(pages.page_offset[page]), int(pages.page_bytes[page])
            low, high = bounds_text(column.type, found, page)
            whole = page_checksum(pages.buffer[at : at + size].tobytes()) == int(pages.page_checksum[page])
            first = page * file.rows_per_page
            state = "checksum does not match"
            if whole:
                state = "ok"
                try:
                    file.read(column.name, np.array([first]), np.array([first + int(found.row_count[page])]))
                except Corruption as error:
                    state = str(error)
            encoding, compression = Encoding(int(pages.page_encoding[page])).name, _COMPRESSIONS[int(pages.page_compression[page])]
            rows, nulls = int(found.row_count[page]), int(found.null_count[page])
            yield PageReport(column.name, page, first, rows, at, size, encoding, compression, nulls, low, high, state)


def stored_columns(file: TsFile) -> list[Column]:
    """The columns that have pages, in file order: time, ``_sn``, fields."""
    by_role = {Role.TIME: 0, Role.SEQUENCE: 1, Role.FIELD: 2}
    return sorted((column for column in file.columns.values() if column.role in by_role), key=lambda column: by_role[column.role])


def value_text(kind: ColumnType, value: Any) -> str:
    """A value of a column's 8-byte domain as people read it."""
    unit = kind.numpy_unit
    if unit and int(value) != np.iinfo(np.int64).min:  # which numpy takes for "not a time"
        return str(np.array(int(value)).astype(f"M8[{unit}]")).replace("T", " ")
    if kind.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    return f"{float(value)!r}" if kind.is_float else f"{int(value):,}"


def bounds_text(kind: ColumnType, found: Statistics, unit: int) -> tuple[str, str]:
    """A unit's bounds as people read them; empty where it has none. An inexact string ends in an ellipsis."""
    flags = int(found.flags[unit])
    if not flags & statistics.HAS_BOUNDS:
        return "", ""
    if found.min is not None and found.max is not None:
        return value_text(kind, found.min[unit]), value_text(kind, found.max[unit])
    assert found.min_prefix is not None
    assert found.max_prefix is not None
    exact = flags & statistics.MIN_EXACT, flags & statistics.MAX_EXACT
    texts = (prefix[unit].tobytes().rstrip(b"\0").decode(errors="replace") for prefix in (found.min_prefix, found.max_prefix))
    low, high = (repr(text) + ("" if whole else "…") for text, whole in zip(texts, exact, strict=True))
    return low, high


def _groups(file: TsFile, stored: list[Column]) -> Iterator[GroupReport]:
    sets = [file.page_set(column.name) for column in stored]
    for group in range(file.chunk_count):
        pages = slice(group * PAGES_PER_CHUNK, (group + 1) * PAGES_PER_CHUNK)
        begins, ends = [], []
        for each in sets:
            has = each.page_bytes[pages] > 0
            begins += each.page_offset[pages][has].tolist()
            ends += (each.page_offset[pages] + each.page_bytes[pages])[has].tolist()
            if each.dict_bytes[group]:
                begins.append(int(each.dict_offset[group]))
                ends.append(int(each.dict_offset[group] + each.dict_bytes[group]))
        first = group * PAGES_PER_CHUNK * file.rows_per_page
        rows = int(file.statistics(file.schema.time.name, "chunk").row_count[group])
        count = -(-rows // file.rows_per_page)
        yield GroupReport(first, rows, count, min(begins), max(ends) - min(begins))


def _column(file: TsFile, column: Column) -> ColumnReport:
    pages, found = file.page_set(column.name), file.statistics(column.name, "file")
    counts = Counter(
        Encoding(number).name + ("+zstd" if packed else "")
        for number, packed in zip(pages.page_encoding.tolist(), pages.page_compression.tolist(), strict=True)
    )
    low, high = bounds_text(column.type, found, 0)
    width = None if column.type.is_pooled else column.type.physical.itemsize * max(column.type.width, 1)
    dictionary = int(pages.dict_bytes.sum())
    return ColumnReport(
        column, dict(sorted(counts.items())), int(pages.page_bytes.sum()) + dictionary, dictionary,
        None if width is None else width * file.row_count, int(found.null_count[0]), low, high,
    )  # fmt: skip


def _tag(file: TsFile, column: Column) -> TagReport:
    vector = file.device_tags[column.name]
    valid = vector.valid()
    nulls = int(len(valid) - valid.sum())
    if nulls == len(valid):
        return TagReport(column, 0, nulls, "", "")
    values = vector.values[valid]
    ends = [vector.take(np.array([np.flatnonzero(valid)[int(i)]])) for i in (values.argmin(), values.argmax())]
    low, high = (repr(value) for value in (ends[0].to_physical_list()[0], ends[1].to_physical_list()[0]))
    return TagReport(column, len(np.unique(values)), nulls, low, high)


def render_tree(report: FileReport) -> str:
    """The report as a tree, one part a line."""
    file = report.file
    lines = [f"{Path(file.path).name}: .tsf version {file.container.version}, {file.size_bytes:,} bytes, table {file.table!r}"]
    kind = file.schema.time.type
    lines += [
        f"├─ rows {file.row_count:,} of {file.device_count:,} devices, {file.size_bytes / file.row_count:.2f} bytes a row",
        f"├─ time {value_text(kind, file.min_time)} … {value_text(kind, file.max_time)}",
        f"├─ sequence {file.min_sequence:,} … {file.max_sequence:,}",
        f"├─ header: {HEADER.size} bytes at 0",
        f"├─ chunk groups: {file.chunk_count:,}, pages: {file.page_count:,} of {file.rows_per_page:,} rows",
    ]
    groups = [
        f"rows {_row_range(each.first_row, each.rows)}: {each.pages} pages, {each.bytes:,} bytes at {each.offset:,}"
        for each in report.groups
    ]
    lines += _branch(groups, _GROUPS_SHOWN)
    lines.append(f"├─ columns: {len(report.columns)}")
    lines += _branch(_table([_column_cells(each, file.row_count) for each in report.columns]))
    lines.append(f"├─ devices: {file.device_count:,}, {_section_sum(report, 'device.', 'tag.'):,} bytes")
    lines += _branch(_table([_tag_cells(each) for each in report.tags]))
    lines.append(f"├─ footer: {len(report.sections)} sections, {_section_sum(report, ''):,} bytes")
    parts = [[s.name, f"{s.bytes:,} bytes", f"at {s.offset:,}", _shape(s), f"xxh3 {s.checksum:016x}"] for s in report.sections]
    last = report.directory
    parts.append([last.name, f"{last.bytes:,} bytes", f"at {last.offset:,}", "", f"xxh3 {last.checksum:016x}"])
    lines += _branch(_table(parts))
    lines.append(f"├─ tail: {TAIL.size} bytes at {file.size_bytes - TAIL.size:,}")
    state = f"rebuilt in memory: {report.resource}" if report.resource else "good"
    lines.append(f"└─ resource {Path(resource_path(file.path)).name}: {state}")
    return "\n".join(lines) + "\n"


def render_pages(reports: Iterator[PageReport]) -> str:
    """The page table, one page a line."""
    head = ["column", "page", "rows", "offset", "bytes", "encoding", "nulls", "min", "max", "state"]
    rows = [
        [
            each.column, f"{each.page:,}", _row_range(each.first_row, each.rows), f"{each.offset:,}", f"{each.bytes:,}",
            each.encoding + ("+zstd" if each.compression == "zstd" else ""), f"{each.nulls:,}", each.min, each.max, each.state,
        ]
        for each in reports
    ]  # fmt: skip
    return "\n".join(_table([head, *rows])) + "\n"


def _column_cells(each: ColumnReport, rows: int) -> list[str]:
    column = each.column
    encodings = ", ".join(f"{name}×{count:,}" for name, count in each.encodings.items())
    ratio = "" if each.plain_bytes is None or not each.bytes else f"{each.plain_bytes / each.bytes:.1f}× smaller"
    bounds = f"{each.min} … {each.max}" if each.min else ""
    stored = f"{each.bytes:,} bytes"
    if each.dictionary_bytes:
        stored += f" ({each.dictionary_bytes:,} dictionary)"
    what = [column.name, str(column.type), column.role.name, f"id {column.id}"]
    return [*what, encodings, stored, f"{each.bytes / rows:.2f} a row", ratio, f"{each.nulls:,} nulls", bounds]


def _tag_cells(each: TagReport) -> list[str]:
    bounds = f"{each.first} … {each.last}" if each.first else ""
    counts = f"{each.distinct:,} distinct", f"{each.nulls:,} nulls"
    return [each.column.name, str(each.column.type), f"id {each.column.id}", *counts, bounds]


def _row_range(first: int, rows: int) -> str:
    return f"{first:,} … {first + rows - 1:,}"


def _section_sum(report: FileReport, *prefixes: str) -> int:
    return sum(section.bytes for section in report.sections if section.name.startswith(prefixes))


def _shape(section: SectionReport) -> str:
    return f"{section.dtype}[{', '.join(f'{size:,}' for size in section.shape)}]"


def _branch(lines: Iterable[str], shown: int = 2**63) -> list[str]:
    listed = list(lines)
    if len(listed) > shown:
        listed[shown // 2 : -(shown // 2)] = [f"… {len(listed) - shown // 2 * 2:,} more"]
    return [f"│  {'└─' if i == len(listed) - 1 else '├─'} {line}" for i, line in enumerate(listed)]


def _table(rows: list[list[str]]) -> list[str]:
    """Cells in aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
