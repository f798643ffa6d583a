"""The device file: one version of a table's devices as a container of arrays, memory-mapped by whoever reads it.

Sections: ``rank``, ``by_rank`` (int32 per device), and for each tag and attribute ``c<column id>.values``, ``.valid`` (only where
there are NULLs), ``.offsets`` and ``.data`` (its strings, only where it has such). Values of a string column are codes into its own
strings, which hold no duplicates for tags.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Corruption
from tsdb_format.schema import Column, Schema
from tsdb_format.section import Container, write_container
from tsdb_format.types import Role
from tsdb_format.vector import Pool, Vector, null_vector

#: First bytes of a device file.
MAGIC = b"TSDBDEV1"
SUFFIX = ".dev"


def write_device_file(path: str, devices: DeviceTable, storage: Storage = DISK) -> None:
    """Write a version durably. Raises OSError."""
    arrays: dict[str, NDArray[Any]] = {"rank": devices.rank, "by_rank": devices.by_rank}
    for column in _columns(devices.schema):
        vector = devices.tags.get(column.name) or devices.attributes.get(column.name)
        if vector is not None:
            _put(arrays, f"c{column.id}", vector)
    write_container(path, MAGIC, arrays, {"count": devices.count}, storage=storage)


def read_device_file(path: str, schema: Schema, storage: Storage = DISK) -> DeviceTable:
    """Map a version. Raises NotFound, Corruption, UnsupportedFormat."""
    container = Container(path, MAGIC, storage)
    count = container.attributes.get("count")
    if not isinstance(count, int) or count < 0:
        raise Corruption("a device file without its count", path=path, offset=container.directory_offset)
    rank, by_rank = container.array("rank", "<i4"), container.array("by_rank", "<i4")
    _check(container, "rank", len(rank) == count and _below(rank, count))
    _check(container, "by_rank", len(by_rank) == count and _below(by_rank, count))
    tags = {column.name: read_values(container, column, count) or null_vector(column.type, count) for column in schema.tags}
    attributes: dict[str, Vector] = {}
    for column in schema:
        if column.role is Role.ATTRIBUTE:
            vector = read_values(container, column, count)
            if vector is not None:
                attributes[column.name] = vector
    return DeviceTable(schema, count, tags, (rank, by_rank), attributes)


def _columns(schema: Schema) -> list[Column]:
    return [column for column in schema if column.role in (Role.TAG, Role.ATTRIBUTE)]


def _put(arrays: dict[str, NDArray[Any]], prefix: str, vector: Vector) -> None:
    arrays[f"{prefix}.values"] = vector.values
    if vector.validity is not None:
        arrays[f"{prefix}.valid"] = vector.validity
    if vector.pool is not None:
        arrays[f"{prefix}.offsets"] = vector.pool.offsets
        arrays[f"{prefix}.data"] = vector.pool.data


def read_values(container: Container, column: Column, count: int) -> Vector | None:
    """A tag or attribute, one value per device; None where the file has none of it. Raises Corruption."""
    name = f"c{column.id}"
    if f"{name}.values" not in container:
        return None
    values = container.array(f"{name}.values", column.type.physical.newbyteorder("<").str.replace("|b1", "?"), column.type.width)
    _check(container, f"{name}.values", len(values) == count)
    validity = container.array(f"{name}.valid", "?") if f"{name}.valid" in container else None
    _check(container, f"{name}.values", validity is None or len(validity) == count)
    pool = None
    if column.type.is_pooled:
        offsets, data = container.array(f"{name}.offsets", "<i8"), container.array(f"{name}.data", "|u1")
        ordered = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(data) and bool((np.diff(offsets) >= 0).all())
        _check(container, f"{name}.offsets", ordered)
        pool = Pool(offsets, data)
        _check(container, f"{name}.values", _below(values, len(pool)))
    return Vector(column.type, values, validity, pool)


def _below(array: NDArray[Any], limit: int) -> bool:
    """Whether all values are in 0..limit-1."""
    return not len(array) or (int(array.min()) >= 0 and int(array.max()) < limit)


def _check(container: Container, section: str, sound: bool) -> None:
    if not sound:
        raise container.corrupt(f"section {section!r} of the device file disagrees with the rest", container.extent(section)[0])
