"""The table that a result set is: in memory while its members are few, spilled into data files once they are many.

Either has the members in columns ``value`` (``value1``, ``value2`` and so on where they are tuples), in ascending order, and is a
table snapshot like any other: DuckDB reads it as an input, and scans prune it. Its time column only numbers the members.

A set is spilled as a sequence of sorted runs, each a file: the members until then make the first, and whatever the same scan still
finds the next ones. A run holds no member twice, two runs may hold the same, and memory never holds more than one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table, TableOptions
from tsdb.catalog.tag_order import tag_ranks
from tsdb.exec.join_key import KeyNumbers
from tsdb.exec.key_domain import KeyDomain
from tsdb.resultset.member_set import Distinct, MemberSet, comparable, domains_of
from tsdb.storage import temporary
from tsdb.storage.arrange import SortedRows
from tsdb.storage.manifest import FileEntry
from tsdb.storage.memory_file import MemoryRun
from tsdb.storage.snapshot import OpenFile, TableFile, TableSnapshot
from tsdb_format.blob import BlobLimits
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Error
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME, Column, Schema
from tsdb_format.types import TIMESTAMP_NS, ColumnType, Kind, Role
from tsdb_format.vector import IntArray, Vector
from tsdb_format.writer import write_file

#: Members of one run: a table of fewer is one file, and a digest of them is made.
RUN_MEMBERS_MAX = 4_194_304
_TIME = "member"
#: No blob is outside of the pages: a temporary file is alone.
_INLINE = BlobLimits(2**62, 2**62)


def value_names(width: int) -> tuple[str, ...]:
    """The columns of a set's table."""
    return ("value",) if width == 1 else tuple(f"value{number}" for number in range(1, width + 1))


def table_of(name: str, types: Sequence[ColumnType]) -> Table:
    """The definition of a set's table."""
    values = (
        Column(column, kind, Role.FIELD, at)
        for at, (column, kind) in enumerate(zip(value_names(len(types)), types, strict=True), 2)
    )
    return Table(0, name, Schema((Column(_TIME, TIMESTAMP_NS, Role.TIME, 1), *values)), TableOptions(mode="append"))


def snapshot_of(table: Table, files: Sequence[TableFile]) -> TableSnapshot:
    """A set's table with these rows."""
    return TableSnapshot(table, tuple(files), _devices(table), 0, lambda: 0)


def memory_table(table: Table, distinct: Distinct) -> TableSnapshot:
    """The table of a set in memory."""
    return snapshot_of(table, [MemoryRun(table, _sorted_rows(table, _ordered(distinct.columns())))] if len(distinct) else [])


def memory_members(name: str, distinct: Distinct) -> MemberSet:
    """The members of a set in memory; there are some."""
    columns = distinct.columns()
    made = MemberSet(name, distinct.types, len(distinct), [domains_of(columns)], lambda: distinct.numbers, bytes=_bytes(columns))
    made.values = columns
    return made


class Spill:
    """A set on its way into files of a database directory; leaving the block gives the files up, those that are open stay open."""

    def __init__(self, table: Table, root: Path, storage: Storage = DISK) -> None:
        self._table = table
        self._root = root
        self._storage = storage
        self._place = temporary.place(root, storage)
        self._name = ""
        self._types = tuple(column.type for column in table.schema.fields)
        self._blobs = [column.name for column in table.schema.fields if column.type.kind is Kind.BLOB]
        self._domains: list[tuple[KeyDomain, ...]] = []
        self._files: list[OpenFile] = []
        self._bytes = 0

    def __enter__(self) -> Spill:
        try:
            self._name = self._place.__enter__()
        except OSError as error:
            raise self._refused(error) from error
        return self

    def __exit__(self, *raised: object) -> None:
        self._place.__exit__(*raised)  # type: ignore[arg-type]

    def add(self, distinct: Distinct, threads: int) -> None:
        """Write one run. Raises Error where the disk refuses."""
        columns = _ordered(distinct.columns())
        rows = _sorted_rows(self._table, columns, sum(file.row_count for file in self._files))
        name = f"{self._name}.{len(self._files)}.tsf"
        try:
            facts = write_file(
                str(self._root / name), schema=self._table.schema, device_tags={}, row_start=rows.row_start, columns=rows.columns,
                rows_per_page=self._table.options.rows_per_page, device_number=rows.numbers, threads=threads,
                sync=False, storage=self._storage, blobs=dict.fromkeys(self._blobs, _INLINE),
            )  # fmt: skip
        except OSError as error:
            raise self._refused(error) from error
        entry = FileEntry(name, facts.rows, 1, facts.bytes, facts.min_time, facts.max_time, 0, 0)
        made = OpenFile(self._root, entry, lambda: _devices(self._table), self._storage)
        _ = made.file.resource, made.device_number  # from now on its name is not needed
        self._files.append(made)
        self._domains.append(domains_of(columns))
        self._bytes += _bytes(columns)

    def members(self, name: str) -> MemberSet:
        """The members of all runs."""
        count, size = sum(file.row_count for file in self._files), sum(file.bytes for file in self._files)
        files = tuple(self._files)
        return MemberSet(
            name, self._types, count, self._domains, lambda: _numbered(files, len(self._types)), bytes=self._bytes, table_bytes=size
        )

    def snapshot(self) -> TableSnapshot:
        """The table."""
        return snapshot_of(self._table, self._files)

    def _refused(self, error: OSError) -> Error:
        return Error(f"a result set of many members cannot be written to {self._root / temporary.FOLDER}: {error.strerror}")


def _numbered(files: Sequence[OpenFile], width: int) -> KeyNumbers:
    """The members of some runs, numbered in memory."""
    numbers = KeyNumbers(width)
    for each in files:
        whole = np.zeros(1, np.int64), np.array([each.row_count], np.int64)
        numbers.numbers([comparable(each.file.read_cells(name, *whole)) for name in value_names(width)], add=True)
    return numbers


def _ordered(columns: Sequence[Vector]) -> list[Vector]:
    """Distinct tuples in ascending order."""
    _, order = tag_ranks([comparable(vector) for vector in columns], len(columns[0]))
    return [vector.take(order) for vector in columns]


def _sorted_rows(table: Table, columns: Sequence[Vector], first: int = 0) -> SortedRows:
    count = len(columns[0])
    numbers: IntArray = np.arange(first, first + count, dtype=np.int64)
    made = {_TIME: Vector(TIMESTAMP_NS, numbers), SEQUENCE_NAME: Vector(SEQUENCE_COLUMN.type, np.zeros(count, np.int64))}
    made |= dict(zip((column.name for column in table.schema.fields), columns, strict=True))
    return SortedRows(np.zeros(1, np.int32), np.array([0, count], np.int64), made, 0)


def _devices(table: Table) -> DeviceTable:
    return DeviceTable(table.schema, 1, {}, None)


def _bytes(columns: Sequence[Vector]) -> int:
    """Bytes of some columns, and of the table in which their rows are looked up."""
    pools = sum(len(vector.pool.data) for vector in columns if vector.pool is not None)
    return pools + len(columns[0]) * (8 * len(columns) + 24)
