"""The devices of a table: every distinct tuple of tags, numbered in order of first appearance.

On query paths a device is its number. The table-wide numbers are dense int32 and never change; ``rank`` gives each device's
position in tag order. Tags by number, ranks and attributes are arrays, from one memory-mapped file per version or worked out when
they are first asked for: a write that brings a new device costs no sorting of all devices.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device_index import DeviceIndex
from tsdb.catalog.tag_order import tag_ranks
from tsdb_format.pool import take_strings
from tsdb_format.schema import Schema
from tsdb_format.vector import Pool, Vector, concat, null_vector

Int32Array = NDArray[np.int32]
Ranks = tuple[Int32Array, Int32Array]
#: Rows whose attributes are compared with those that are there: devices that report them again and again change nothing.
_COMPARED_MAX = 1_024


class DeviceTable:
    """Devices 0..count-1 of one table version.

    ``tags`` and ``attributes`` hold one value per device number; ``rank[number]`` is the device's position in tag order (ascending,
    strings bytewise, NULL last) and ``by_rank`` its inverse. Never changed once made.
    """

    __slots__ = ("__weakref__", "_attributes", "_index", "_ranks", "_tags", "count", "schema")

    def __init__(
        self, schema: Schema, count: int, tags: dict[str, Vector] | None, ranks: Ranks | None,
        attributes: dict[str, Vector] | None = None, index: DeviceIndex | None = None,
    ) -> None:  # fmt: skip
        """``tags`` None: the index knows them. ``attributes`` may be shorter than ``count``: later devices have none."""
        self.schema = schema
        self.count = count
        self._tags = tags
        self._ranks = ranks
        self._attributes = attributes or {}
        self._index = index

    @classmethod
    def empty(cls, schema: Schema) -> DeviceTable:
        """The table before its first device."""
        none = np.empty(0, np.int32)
        return cls(schema, 0, {column.name: null_vector(column.type, 0) for column in schema.tags}, (none, none))

    @property
    def tags(self) -> dict[str, Vector]:
        """Each tag's value per device."""
        if self._tags is None:
            assert self._index is not None
            self._tags = self._index.vectors(self.count)
        return self._tags

    @property
    def attributes(self) -> dict[str, Vector]:
        """Each attribute's value per device, for the attributes that were ever set."""
        for name, vector in self._attributes.items():
            if len(vector) != self.count:
                self._attributes = {**self._attributes, name: _extended(vector, self.count)}
        return self._attributes

    @property
    def rank(self) -> Int32Array:
        """Each device's position in tag order."""
        return self._ranked()[0]

    @property
    def by_rank(self) -> Int32Array:
        """The devices in tag order."""
        return self._ranked()[1]

    def _ranked(self) -> Ranks:
        if self._ranks is None:
            tags = self.tags
            self._ranks = tag_ranks([tags[column.name] for column in self.schema.tags], self.count)
        return self._ranks

    def ranks_of(self, numbers: Int32Array) -> Ranks:
        """(rank, by_rank) of just the devices in ``numbers``: each row's place among them, and the devices in tag order."""
        if self._ranks is not None or len(numbers) > self.count // 4:
            return self.rank[numbers], self.by_rank
        present, place = np.unique(numbers, return_inverse=True)
        tags = self.tags
        rank, by_rank = tag_ranks([compacted(tags[column.name].take(present)) for column in self.schema.tags], len(present))
        return rank[place], present[by_rank]

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
            return numbers, DeviceTable(self.schema, index.count, None, None, self._attributes, index)

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
        found = self.tags.get(name) or self.attributes.get(name)
        return null_vector(self.schema.column(name).type, self.count) if found is None else found

    def with_attributes(self, numbers: Int32Array, values: Mapping[str, Vector], *, nulls: bool = False) -> DeviceTable:
        """The table after rows set attributes (itself where nothing changes): per device and attribute the last value stays.

        NULL sets a value only with ``nulls``.
        """
        attributes = dict(self.attributes)
        changed = False
        for column in self.schema.attributes:
            vector = values.get(column.name)
            if vector is None:
                continue
            rows = np.arange(len(vector)) if nulls or vector.validity is None else np.flatnonzero(vector.validity)
            if not len(rows):
                continue
            old = attributes.get(column.name) or null_vector(column.type, self.count)
            if len(rows) <= _COMPARED_MAX and _equal(old.take(numbers[rows]), vector.take(rows)):
                continue
            changed = True
            newest = np.full(self.count, -1, np.int64)
            newest[numbers[rows]] = rows  # of repeated indices numpy keeps the last
            source = np.where(newest >= 0, newest + self.count, np.arange(self.count))
            attributes[column.name] = compacted(concat([old, vector]).take(source))
        if not changed:
            return self
        return DeviceTable(self.schema, self.count, self._tags, self._ranks, attributes, self._index)

    def under(self, schema: Schema) -> DeviceTable:
        """The same devices under a later schema of the table: columns keep their ids, whatever their names are now."""
        if schema is self.schema:
            return self
        names = {column.id: column.name for column in schema}
        moved = [
            {names[self.schema.column(name).id]: vector for name, vector in vectors.items() if self.schema.column(name).id in names}
            for vectors in (self.tags, self.attributes)
        ]
        return DeviceTable(schema, self.count, moved[0], self._ranks, moved[1])


def _equal(one: Vector, other: Vector) -> bool:
    """Whether two short vectors of a type have the same values."""
    return one.to_physical_list() == other.to_physical_list()


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
