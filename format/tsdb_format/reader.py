"""Reading a data file: opening costs work per column; pages, statistics and devices are arrays of the memory map, used in place.

Everything is verified before it is used: header, tail and directory at opening, footer sections at first use, pages by the decoder.
What the bytes say is bounded against the file's size, so that damage is an error and never a stray read.
"""

from __future__ import annotations

import os
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tsdb_format import statistics
from tsdb_format.ball import Balls, read_balls
from tsdb_format.device import ROW_START, read_row_start, read_tag
from tsdb_format.disk import DISK, Storage
from tsdb_format.encoding import COMPRESSION_ZSTD, PAGES_PER_CHUNK, Encoding, PageSet, VectorRows, open_vectors, read_pages
from tsdb_format.errors import Closed, Corruption, InvalidInput, UnsupportedFormat
from tsdb_format.payload import PayloadFiles, resolve, verify_payloads
from tsdb_format.payload_table import Payload, PayloadTable
from tsdb_format.resource import Resource
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.section import ALIGNMENT, Container
from tsdb_format.statistics import HAS_BOUNDS, Statistics
from tsdb_format.types import INT64, STORED_KINDS, TAG_KINDS, ColumnType, Kind, Role
from tsdb_format.vector import IntArray, Vector
from tsdb_format.writer import DEFINITION, MAGIC

_ENCODING_MAX = max(Encoding)
_KIND_IDS = STORED_KINDS
_ROLE_IDS = frozenset(Role)
_ROLES_WITH_PAGES = frozenset({Role.TIME, Role.FIELD, Role.SEQUENCE})


class TsFile:
    """An open data file. Threads may share it; arrays that it handed out outlive ``close``.

    ``schema`` lists the columns the file has, without the hidden ``_sn``. Raises NotFound, Corruption, UnsupportedFormat.
    """

    def __init__(self, path: str | Path, storage: Storage = DISK) -> None:
        self.path = str(path)
        self._storage = storage
        self._container: Container | None = Container(self.path, MAGIC, storage)
        self.size_bytes = len(self._container.buffer)
        #: Stands for the file's content: equal digests mean equal files.
        self.digest: int = self._container.digest
        try:
            self._read_attributes(self._container.attributes)
        except (KeyError, TypeError, ValueError, IndexError):
            raise self._corrupt("the file's attributes are malformed") from None
        self._pages: dict[str, PageSet] = {}
        self._statistics: dict[tuple[str, str], Statistics] = {}
        self._balls: dict[str, Balls | None] = {}
        self._unit_rows: IntArray | None = None
        self._row_start: IntArray | None = None
        self._device_tags: dict[str, Vector] | None = None
        self._resource: Resource | None = None

    def _read_attributes(self, found: dict[str, Any]) -> None:
        self.table: str = _expect(found["table"], str)
        self.row_count: int = _expect(found["rows"], int)
        self.rows_per_page: int = _expect(found["rows_per_page"], int)
        self.device_count: int = _expect(found["devices"], int)
        self.min_time, self.max_time = (int(_expect(value, int)) for value in found["time"])
        self.min_sequence, self.max_sequence = (int(_expect(value, int)) for value in found["sequence"])
        size = self.rows_per_page
        if not (0 < self.device_count <= self.row_count < 2**48 and 0 < size < 2**48 and (size <= 1024 or size % 1024 == 0)):
            raise ValueError("counts out of range")
        self.page_count = -(-self.row_count // size)
        self.chunk_count = -(-self.page_count // PAGES_PER_CHUNK)
        columns = tuple(self._column(*entry) for entry in found["columns"])
        self.columns: dict[str, Column] = {column.name: column for column in columns}
        self.schema = Schema(tuple(column for column in columns if column.role is not Role.SEQUENCE))
        roles = [column.role for column in columns]
        distinct = len(self.columns) == len(columns) == len({(c.id, c.role is Role.SEQUENCE) for c in columns})
        if not distinct or roles.count(Role.TIME) != 1 or roles.count(Role.SEQUENCE) != 1 or SEQUENCE_NAME not in self.columns:
            raise ValueError("columns repeat or are missing")
        container = self.container
        if container.shape(ROW_START) != (self.device_count + 1,):
            raise ValueError("device count disagrees")
        units = statistics.unit_count(self.page_count, self.chunk_count)
        for column in columns:
            if column.role in _ROLES_WITH_PAGES:
                shapes = container.shape(f"pages.{column.id}"), container.shape(f"stats.{column.id}")
                if shapes != ((self._page_entry_bytes(column.type),), (statistics.stored_bytes(column.type, units),)):
                    raise ValueError("page counts disagree")

    def _column(self, number: Any, name: Any, kind: Any, width: Any, role: Any) -> Column:
        if kind not in _KIND_IDS or role not in _ROLE_IDS:
            raise UnsupportedFormat(f"{self.path}: column {name!r} has the unknown type {kind!r} or role {role!r}")
        return _column(number, name, kind, width, role)

    def _page_entry_bytes(self, kind: ColumnType) -> int:
        size: int = self.page_count * 26 + (self.chunk_count * 24 if kind.is_pooled else 0)
        return size

    def close(self) -> None:
        """Forget the file. Its bytes stay mapped for as long as somebody holds an array of it."""
        self._container = None
        self._pages, self._statistics, self._balls = {}, {}, {}
        self._row_start = self._device_tags = self._resource = None

    def __enter__(self) -> TsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"TsFile({self.path!r}, rows={self.row_count:,}, devices={self.device_count:,})"

    @property
    def row_start(self) -> IntArray:
        """First row of each device, and the row count at the end."""
        if self._row_start is None:
            self._row_start = read_row_start(self.container, self.row_count)
        return self._row_start

    @property
    def device_tags(self) -> dict[str, Vector]:
        """Each tag's value per device, in tag order; a NULL string has code −1."""
        if self._device_tags is None:
            container = self.container
            self._device_tags = {column.name: read_tag(container, column, self.device_count) for column in self.schema.tags}
        return self._device_tags

    @property
    def resource(self) -> Resource:
        """The file's time index by device."""
        if self._resource is None:
            _ = self.container
            self._resource = Resource(self, self._storage)
        return self._resource

    @property
    def definition(self) -> bytes:
        """What the writer knew of the whole table, for repair where nothing else tells; empty in files of builds before 0.5.1."""
        return self.container.array(DEFINITION, "u1").tobytes() if DEFINITION in self.container else b""

    def has_column(self, column: Column) -> bool:
        """Whether the file stores that column, by id; names may differ after a rename."""
        mine = (each for each in self.columns.values() if each.id == column.id)
        return any((each.role is Role.SEQUENCE) == (column.role is Role.SEQUENCE) for each in mine)

    def page_set(self, name: str) -> PageSet:
        """The pages of a TIME, FIELD or ``_sn`` column. Raises NotFound, Corruption, UnsupportedFormat."""
        found = self._pages.get(name)
        if found is None:
            found = self._pages[name] = self._load_pages(self._stored(name))
        return found

    def statistics(self, name: str, level: str) -> Statistics:
        """Statistics of a stored column per unit of a level: 'page', 'chunk' or 'file'; 'all' for the units as stored."""
        found = self._statistics.get((name, level))
        if found is None:
            if level == "all":
                found = self._load_statistics(self._stored(name))
            else:
                found = self.statistics(name, "all").take(statistics.level_units(level, self.page_count, self.chunk_count))
            self._statistics[name, level] = found
        return found

    def balls(self, name: str) -> Balls | None:
        """Where the vectors of a VECTOR column lie; None in files that do not say it. Raises Corruption."""
        if name not in self._balls:
            column = self._stored(name)
            self._balls[name] = read_balls(self.container, column.id, column.type, self.row_count, self.rows_per_page)
        return self._balls[name]

    @property
    def payloads(self) -> tuple[Payload, ...]:
        """The files that hold blobs of the rows outside of pages. Names are relative to the file's folder, or absolute."""
        return self._payloads.payloads()

    @cached_property
    def _payloads(self) -> PayloadTable:
        return PayloadTable(self.container)

    @cached_property
    def payload_files(self) -> PayloadFiles:
        """Where blobs outside of pages are read from."""
        return PayloadFiles(os.path.dirname(self.path), self._storage)

    def vectors(self, name: str, starts: IntArray, stops: IntArray) -> VectorRows:
        """The rows of the given ranges of a VECTOR column, where they are: as far as pages allow in place."""
        return open_vectors(self.page_set(name), starts, stops)

    def read(self, name: str, starts: IntArray, stops: IntArray) -> Vector:
        """The rows of the given ranges (ascending, apart, none empty), end to end."""
        return resolve(self.read_cells(name, starts, stops), self.payload_files)[0]

    def read_cells(self, name: str, starts: IntArray, stops: IntArray) -> Vector:
        """As ``read``, but of blobs outside of pages only where they are: see ``blob`` and ``payload.resolve``."""
        pages = self.page_set(name)
        found = read_pages(pages, starts, stops)
        return self._payloads.named(found) if pages.type.kind is Kind.BLOB else found

    def verify(self) -> None:
        """Read and check every footer section, page, dictionary and payload. Raises the first error."""
        self.container.verify()
        _ = self.row_start, self.device_tags, [self.balls(c.name) for c in self.schema.fields if c.type.kind is Kind.VECTOR]
        chunk_rows = self.rows_per_page * PAGES_PER_CHUNK
        for column in self.columns.values():
            if column.role in _ROLES_WITH_PAGES:
                for start in range(0, self.row_count, chunk_rows):
                    cells = self.read_cells(column.name, np.array([start]), np.array([min(start + chunk_rows, self.row_count)]))
                    for _, error in verify_payloads(cells, self.payload_files):
                        raise error

    @property
    def container(self) -> Container:
        """The sections under this file; raises Closed."""
        if self._container is None:
            raise Closed(f"{self.path} was closed")
        return self._container

    def _corrupt(self, message: str) -> Corruption:
        container = self.container
        return container.corrupt(message, container.directory_offset)

    def _stored(self, name: str) -> Column:
        _ = self.container
        column = self.columns.get(name) or self.schema.column(name)
        if column.role not in _ROLES_WITH_PAGES:
            raise InvalidInput(f"{name!r} is a tag: it has no pages, its values are in the device table")
        return column

    def _load_statistics(self, column: Column) -> Statistics:
        container = self.container
        name = f"stats.{column.id}"
        if self._unit_rows is None:
            self._unit_rows = statistics.unit_rows(self.row_count, self.rows_per_page, PAGES_PER_CHUNK)
        found = statistics.from_bytes(column.type, container.array(name, "<u1"), self._unit_rows)
        whole = not found.null_count.any() and bool((found.flags & HAS_BOUNDS).all())
        if column.role is not Role.FIELD and not whole:
            raise container.corrupt(f"column {column.name!r} lacks bounds", container.extent(name)[0])
        if (found.null_count < 0).any() or (found.null_count > found.row_count).any():
            raise container.corrupt(f"column {column.name!r} counts more NULLs than rows", container.extent(name)[0])
        if (found.flags > statistics.FLAGS_KNOWN).any():
            raise UnsupportedFormat(f"{self.path}: statistics of {column.name!r} have unknown flags")
        return found

    def _load_pages(self, column: Column) -> PageSet:
        container = self.container
        name = f"pages.{column.id}"
        raw, pages = container.array(name, "<u1"), self.page_count
        offset, size, digest = raw[: 24 * pages].view("<i8").reshape(3, pages)
        encoding, compression = raw[len(raw) - 2 * pages :].reshape(2, pages)
        _check_extents(container, name, offset, size)
        if column.type.is_pooled:
            dictionary = raw[24 * pages : len(raw) - 2 * pages].view("<i8").reshape(3, -1)
            _check_extents(container, name, dictionary[0], dictionary[1])
        else:
            dictionary = np.zeros((3, self.chunk_count), np.int64)
        if int(encoding.max()) > _ENCODING_MAX or int(compression.max()) > COMPRESSION_ZSTD:
            raise UnsupportedFormat(f"{self.path}: column {column.name!r} has a page of an unknown encoding or compression")
        nulls = self.statistics(column.name, "page").null_count
        return PageSet(
            column.type, container.buffer, self.row_count, self.rows_per_page, offset, size, digest.view("<u8"),
            encoding, compression, nulls, dictionary[0], dictionary[1], dictionary[2].view("<u8"),
            np.zeros(pages, np.uint8), self.path,
        )  # fmt: skip


def _check_extents(container: Container, section: str, offset: IntArray, size: IntArray) -> None:
    """Refuse pages that do not lie before the directory, or not at a word. Negative numbers are huge ones here."""
    limit = np.uint64(container.directory_offset)
    begin, length = offset.view("<u8"), size.view("<u8")
    inside = (begin <= limit) & (length <= limit - begin)
    if not inside.all() or int(np.bitwise_or.reduce(offset)) % ALIGNMENT:
        raise container.corrupt(f"section {section!r} has a page outside of the file", container.extent(section)[0])


def _expect(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"not {kind.__name__}: {value!r}")
    return value


@lru_cache(maxsize=4096, typed=True)
def _column(number: int, name: str, kind_id: int, width: int, role_id: int) -> Column:
    """A column as an attribute entry gives it. Many files repeat the same few. Raises ValueError, TypeError."""
    kind, role = ColumnType(Kind(_expect(kind_id, int)), _expect(width, int)), Role(_expect(role_id, int))
    width_fits = 1 <= width <= 65_535 if kind.kind is Kind.VECTOR else width == 0
    if not width_fits or _expect(number, int) < 0:
        raise ValueError("impossible column type or id")
    allowed = {Role.TIME: kind.is_time, Role.TAG: kind.kind in TAG_KINDS, Role.SEQUENCE: kind == INT64, Role.FIELD: True}
    if not allowed.get(role, False):
        raise ValueError("a role that its type cannot have")
    return Column(_expect(name, str), kind, role, number)
