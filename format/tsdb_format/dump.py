"""The byte-for-byte dump of a file: every byte once, in order, with its field and what it says. A readable golden of the format.

A line is ``offset  bytes  hex  field  value``; bytes beyond a line's worth go on below it. The dump of a damaged file stops with
the error that reading it raises.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tsdb_format import statistics
from tsdb_format.blob import BlobKind, blob_sizes, kinds_of, locate
from tsdb_format.dump_page import Field, Page, dictionary_fields
from tsdb_format.encoding import Encoding
from tsdb_format.inspect import stored_columns, value_text
from tsdb_format.reader import TsFile
from tsdb_format.schema import Column
from tsdb_format.section import DTYPES, ENTRY, HEADER, PREFIX, TAIL
from tsdb_format.types import DOUBLE, INT64, Kind
from tsdb_format.vector import Vector

#: Bytes shown on one line.
LINE_BYTES = 16
#: Decoded values shown of a page.
_VALUES_SHOWN = 4


def dump_file(path: str | Path) -> Iterator[str]:
    """The dump, line by line. Raises NotFound, Corruption, UnsupportedFormat."""
    file = TsFile(path)
    raw = file.container.buffer
    for field in fields(file):
        yield from _lines(field, raw[field.offset : field.offset + field.size].tobytes())


def fields(file: TsFile) -> Iterator[Field]:
    """Every byte of the file, in order and once."""
    at = 0
    for field in _known_fields(file):
        if field.offset > at:
            yield Field(at, field.offset - at, "padding", "")
        if field.size:
            yield field
        at = field.offset + field.size


def _known_fields(file: TsFile) -> Iterator[Field]:
    container = file.container
    yield from _struct_fields(container.buffer, HEADER, 0, "header.", ("magic", "version", "reserved", "checksum"))
    yield from _page_fields(file)
    columns = {column.id: column for column in stored_columns(file)}
    for name, offset, size, dtype, _, _ in container.listing():
        kind, _, number = name.partition(".")
        if kind == "pages":
            yield from _pages_section(file, columns[int(number)], offset)
        elif kind == "stats":
            yield from _stats_section(file, columns[int(number)], offset)
        elif dtype == "u1":
            yield Field(offset, size, name, _bytes_text(container.buffer[offset : offset + size].tobytes()))
        else:
            yield from _array_fields(offset, name, container.array(name, "?" if dtype == "bool" else f"<{dtype}"))
    yield from _directory_fields(file)
    tail = ("directory_offset", "directory_bytes", "directory_checksum", "checksum", "magic")
    yield from _struct_fields(container.buffer, TAIL, file.size_bytes - TAIL.size, "tail.", tail)


def _struct_fields(raw: Any, layout: struct.Struct, at: int, prefix: str, names: tuple[str, ...]) -> Iterator[Field]:
    codes = list(layout.format.lstrip("<").replace("8s", "s"))
    for name, code, value in zip(names, codes, layout.unpack_from(raw.data, at), strict=True):
        size = {"I": 4, "Q": 8, "s": 8}[code]
        yield Field(at, size, prefix + name, _scalar_text(name, value))
        at += size


def _scalar_text(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return _bytes_text(value)
    return f"{value:016x}" if name.endswith("checksum") else f"{value:,}"


def _bytes_text(raw: bytes) -> str:
    return repr(raw)[1:]


def _array_fields(at: int, name: str, values: Any) -> Iterator[Field]:
    size = values.dtype.itemsize
    texts = [f"{value:,}" if values.dtype.kind in "iu" else str(value).lower() for value in values.tolist()]
    for index, text in enumerate(texts):
        yield Field(at + index * size, size, f"{name}[{index}]", text)


def _page_fields(file: TsFile) -> Iterator[Field]:
    """All pages and dictionaries, in the order of their bytes."""
    places: list[tuple[int, Callable[[], Iterator[Field]]]] = []
    for column in stored_columns(file):
        pages = file.page_set(column.name)
        for chunk in np.flatnonzero(pages.dict_bytes).tolist():
            name = f"{column.name}.dictionary[{chunk}]"
            places.append((int(pages.dict_offset[chunk]), partial(dictionary_fields, pages, chunk, name)))
        stored = np.flatnonzero(pages.page_bytes).tolist()
        places += [(int(pages.page_offset[page]), partial(_one_page, file, column, page)) for page in stored]
    for _, make in sorted(places, key=lambda place: place[0]):
        yield from make()


def _one_page(file: TsFile, column: Column, page: int) -> Iterator[Field]:
    pages = file.page_set(column.name)
    first = page * file.rows_per_page
    stop = min(first + _VALUES_SHOWN, first + file.rows_per_page, file.row_count)
    rows = file.read_cells(column.name, np.array([first]), np.array([stop]))
    encoding = Encoding(int(pages.page_encoding[page])).name + ("+zstd" if pages.page_compression[page] else "")
    head = f"· {encoding}: {_vector_text(rows)}{' …' if first + file.rows_per_page > stop < file.row_count else ''}"
    yield from Page(pages, page, f"{column.name}.page[{page}]", head).fields()


def _vector_text(rows: Vector) -> str:
    kind = rows.type
    if rows.pool is not None and rows.pool.kinds is not None:
        return ", ".join(_blob_texts(rows))
    simple = rows.pool is None and kind.kind is not Kind.VECTOR
    show = partial(value_text, kind) if simple else repr
    return ", ".join("NULL" if value is None else show(value) for value in rows.to_physical_list())


def _blob_texts(rows: Vector) -> Iterator[str]:
    """Blobs in the page as they are, of others where they are."""
    assert rows.pool is not None
    sizes, kinds = blob_sizes(rows).tolist(), kinds_of(rows.pool)
    for code, valid, size in zip(rows.values.tolist(), rows.valid().tolist(), sizes, strict=True):
        if not valid:
            yield "NULL"
        elif kinds[code] == BlobKind.INLINE:
            yield repr(rows.pool.bytes_at(code))
        else:
            found = locate(rows.pool, np.array([code]))
            yield f"{BlobKind(kinds[code]).name} {found.names[0]}[{found.position[0]:,}:{found.position[0] + size:,}]"


def _pages_section(file: TsFile, column: Column, at: int) -> Iterator[Field]:
    pages = file.page_set(column.name)
    long: list[tuple[str, Any]] = [("offset", pages.page_offset), ("bytes", pages.page_bytes), ("checksum", pages.page_checksum)]
    if column.type.is_pooled:
        long += [("dict_offset", pages.dict_offset), ("dict_bytes", pages.dict_bytes), ("dict_checksum", pages.dict_checksum)]
    for name, values in [*long, ("encoding", pages.page_encoding), ("compression", pages.page_compression)]:
        for index, value in enumerate(values.tolist()):
            text = Encoding(value).name if name == "encoding" else _scalar_text(name, value)
            yield Field(at, values.dtype.itemsize, f"pages.{column.id}.{name}[{index}]", text)
            at += values.dtype.itemsize


def _stats_section(file: TsFile, column: Column, at: int) -> Iterator[Field]:
    found = file.statistics(column.name, "all")
    prefix, kind = f"stats.{column.id}.", column.type
    for name in ("null_count", "min", "max", "sum", "first", "last", "min_prefix", "max_prefix", "flags"):
        values = getattr(found, name)
        if values is None:
            continue
        size = values.itemsize * (values.shape[1] if values.ndim == 2 else 1)
        for index, value in enumerate(values):
            yield Field(at, size, f"{prefix}{name}[{index}]", _statistic_text(name, kind, value))
            at += size


_FLAG_NAMES = {
    statistics.HAS_BOUNDS: "BOUNDS", statistics.HAS_SUM: "SUM", statistics.HAS_NAN: "NAN", statistics.MIN_EXACT: "MIN_EXACT",
    statistics.MAX_EXACT: "MAX_EXACT", statistics.HAS_EDGES: "EDGES",
}  # fmt: skip


def _statistic_text(name: str, kind: Any, value: Any) -> str:
    if name == "flags":
        return " ".join(text for bit, text in _FLAG_NAMES.items() if value & bit) or "none"
    if name == "null_count":
        return f"{int(value):,}"
    if name == "sum":
        kind = DOUBLE if kind.is_float else INT64
    return _bytes_text(value.tobytes()) if name.endswith("prefix") else value_text(kind, value)


def _directory_fields(file: TsFile) -> Iterator[Field]:
    container = file.container
    at = container.directory_offset
    count, names_bytes, text_bytes, _ = PREFIX.unpack_from(container.buffer.data, at)
    names = ("sections", "names_bytes", "attributes_bytes", "reserved")
    yield from _struct_fields(container.buffer, PREFIX, at, "directory.", names)
    at += PREFIX.size
    entries = container.buffer[at : at + count * ENTRY.itemsize].view(ENTRY)
    for name, entry in zip(container.names, entries, strict=True):
        for part in ENTRY.names or ():
            dtype, offset = ENTRY.fields[part][:2]  # type: ignore[index]
            text = DTYPES[int(entry[part])].str.lstrip("<|") if part == "dtype" else _entry_text(part, entry[part])
            yield Field(at + offset, dtype.itemsize, f"directory[{name}].{part}", text)
        at += ENTRY.itemsize
    yield Field(at, names_bytes, "directory.names", _bytes_text(container.buffer[at : at + names_bytes].tobytes()))
    text = container.buffer[at + names_bytes : at + names_bytes + text_bytes].tobytes().decode()
    yield Field(at + names_bytes, text_bytes, "directory.attributes", text)


def _entry_text(part: str, value: Any) -> str:
    return "0" if part == "zero" else _scalar_text(part, int(value))


def _lines(field: Field, raw: bytes) -> Iterator[str]:
    yield f"{field.offset:>12,} {field.size:>10,}  {raw[:LINE_BYTES].hex(' '):<47}  {field.name:<32} {field.value}".rstrip()
    for at in range(LINE_BYTES, len(raw), LINE_BYTES):
        yield f"{field.offset + at:>12,} {'':>10}  {raw[at : at + LINE_BYTES].hex(' ')}"
