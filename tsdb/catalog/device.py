"""The devices of a table: every distinct tuple of tags, numbered in order of first appearance.

On query paths a device is its number. The table-wide numbers are dense int32 and never change; ``rank`` gives each device's
position in tag order. Tags by number, ranks and attributes are arrays in one memory-mapped file per version, shared by all
snapshots that saw it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device_index import DeviceIndex
from tsdb.catalog.tag_order import tag_ranks
from tsdb_format.pool import take_strings
from tsdb_format.schema import Schema
from tsdb_format.types import Role
from tsdb_format.vector import Pool, Vector, concat, null_vector

Int32Array = NDArray[np.int32]


@dataclass(slots=True, eq=False, weakref_slot=True)
class DeviceTable:
    """Devices 0..count-1 of one table version.

    ``tags`` and ``attributes`` hold one value per device number; ``rank[number]`` is the device's position in tag order (ascending,
    strings bytewise, NULL last) and ``by_rank`` its inverse. Never changed once made.
    """

    schema: Schema
    count: int
    tags: dict[str, Vector]
    rank: Int32Array
    by_rank: Int32Array
    attributes: dict[str, Vector] = field(default_factory=dict)
    _index: DeviceIndex | None = None

    @classmethod
    def empty(cls, schema: Schema) -> DeviceTable:
        """The table before its first device."""
        none = np.empty(0, np.int32)
        return cls(schema, 0, {column.name: null_vector(column.type, 0) for column in schema.tags}, none, none)

    def resolve(self, tags: Mapping[str, Vector], row_count: int) -> tuple[Int32Array, DeviceTable]:
        """The device number of each row, and the table with the unknown devices added (itself where there are none).

        A tag that ``tags`` leaves out is NULL in every row.
        """
        index = self._index
        if index is None or index.count != self.count:  # none yet, or it ran ahead with a write that failed
            index = DeviceIndex(self.schema.tags, self.tags, self.count)
            self._index = index
        with index.lock:
            numbers = index.numbers(tags, row_count, add=True)
            if index.count == self.count:
                return numbers, self
            vectors = index.vectors()
            count = index.count
        rank, by_rank = tag_ranks([vectors[column.name] for column in self.schema.tags], count)
        attributes = {name: _extended(vector, count) for name, vector in self.attributes.items()}
        return numbers, DeviceTable(self.schema, count, vectors, rank, by_rank, attributes, index)

    def find(self, tags: Mapping[str, Vector], row_count: int) -> Int32Array:
        """The device number of each row, or -1 where the table has no such device."""
        index = self._index
        if index is None or index.count < self.count:
            index = DeviceIndex(self.schema.tags, self.tags, self.count)
            self._index = index
        with index.lock:
            numbers = index.numbers(tags, row_count, add=False)
        numbers[numbers >= self.count] = -1
        return numbers

    def values(self, name: str) -> Vector:
        """A tag or attribute, one value per device; all NULL where the attribute was never set."""
        found = self.tags.get(name, self.attributes.get(name))
        return null_vector(self.schema.column(name).type, self.count) if found is None else found

    def with_attributes(self, numbers: Int32Array, values: Mapping[str, Vector]) -> DeviceTable:
        """The table after rows set attributes: per device and attribute the last value that is not NULL stays."""
        attributes = dict(self.attributes)
        for column in self.schema:
            vector = values.get(column.name)
            if column.role is not Role.ATTRIBUTE or vector is None:
                continue
            rows = np.arange(len(vector)) if vector.validity is None else np.flatnonzero(vector.validity)
            if not len(rows):
                continue
            old = attributes.get(column.name) or null_vector(column.type, self.count)
            newest = np.full(self.count, -1, np.int64)
            newest[numbers[rows]] = rows  # of repeated indices numpy keeps the last
            source = np.where(newest >= 0, newest + self.count, np.arange(self.count))
            attributes[column.name] = compacted(concat([old, vector]).take(source))
        return replace(self, attributes=attributes)


def _extended(vector: Vector, count: int) -> Vector:
    """The vector with NULLs appended up to ``count`` rows."""
    missing = count - len(vector)
    values = np.concatenate([vector.values, np.zeros((missing, *vector.values.shape[1:]), vector.values.dtype)])
    return Vector(vector.type, values, np.concatenate([vector.valid(), np.zeros(missing, np.bool_)]), vector.pool)


def compacted(vector: Vector) -> Vector:
    """The vector with a pool of only the strings it uses; codes under a NULL become 0."""
    if vector.pool is None:
        return vector
    valid = vector.valid()
    used, inverse = np.unique(vector.values[valid], return_inverse=True)
    if not len(used):
        return Vector(vector.type, np.zeros(len(vector), np.int32), vector.validity, Pool.of([b""]))
    codes = np.zeros(len(vector), np.int32)
    codes[valid] = inverse
    return Vector(vector.type, codes, vector.validity, take_strings(vector.pool, used))
