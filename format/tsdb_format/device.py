"""The device table of a file: one row per device in tag order, as arrays in the footer.

A STRING tag is a pool of its distinct values in bytewise order and an int32 code per device, −1 for NULL, so that codes compare as
the strings do. Other tags are plain values with a validity array where there are NULLs. ``device.row_start`` cuts the file's rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.pool import order_strings, take_strings
from tsdb_format.schema import Column
from tsdb_format.section import Container
from tsdb_format.types import Kind
from tsdb_format.vector import IntArray, Pool, Vector

ROW_START = "device.row_start"


def tag_section(column: Column, part: str) -> str:
    """Name of one of a tag's sections."""
    return f"tag.{column.id}.{part}"


def sorted_pool(vector: Vector) -> tuple[Pool, NDArray[np.int32]]:
    """The distinct values of a pooled vector in bytewise order, and each row's code into them, −1 for NULL."""
    assert vector.pool is not None
    valid = vector.valid()
    codes = np.full(len(vector), -1, np.int32)
    if not valid.any():
        return Pool.of([]), codes
    used, inverse = np.unique(vector.values[valid].astype(np.int32), return_inverse=True)
    order, fresh = order_strings(vector.pool, used)
    position = np.empty(len(used), np.int32)
    position[order] = np.cumsum(fresh) - 1
    codes[valid] = position[inverse]
    return take_strings(vector.pool, used[order[fresh]]), codes


def device_sections(tags: tuple[Column, ...], values: dict[str, Vector], row_start: IntArray) -> dict[str, NDArray[Any]]:
    """The device table as named arrays."""
    arrays: dict[str, NDArray[Any]] = {ROW_START: np.ascontiguousarray(row_start, "<i8")}
    for column in tags:
        vector = values[column.name]
        if column.type.kind is Kind.STRING:
            pool, codes = sorted_pool(vector)
            parts: dict[str, NDArray[Any]] = {"codes": codes, "offsets": pool.offsets, "data": pool.data}
        else:
            parts = {"values": np.where(vector.valid(), vector.values, vector.type.physical.type(0))}
            if vector.validity is not None and not vector.validity.all():
                parts["validity"] = vector.validity
        arrays.update({tag_section(column, part): array for part, array in parts.items()})
    return arrays


def read_row_start(container: Container, row_count: int) -> IntArray:
    """First row of each device, and the row count at the end. Raises Corruption."""
    rows: IntArray = container.array(ROW_START, "<i8")
    if len(rows) < 2 or rows[0] != 0 or rows[-1] != row_count or not (rows[1:] > rows[:-1]).all():
        raise container.corrupt("the devices' first rows do not ascend over the file", container.extent(ROW_START)[0])
    return rows


def read_tag(container: Container, column: Column, device_count: int) -> Vector:
    """One tag's value per device. A NULL string has code −1. Raises Corruption."""
    if column.type.kind is Kind.STRING:
        return _read_text(container, column, device_count)
    name = tag_section(column, "values")
    values = container.array(name, column.type.physical.str)
    validity = None
    if tag_section(column, "validity") in container:
        validity = container.array(tag_section(column, "validity"), "?")
    if len(values) != device_count or (validity is not None and len(validity) != device_count):
        raise container.corrupt(f"tag {column.name!r} has another number of devices than the file", container.extent(name)[0])
    return Vector(column.type, values, validity)


def _read_text(container: Container, column: Column, device_count: int) -> Vector:
    name = tag_section(column, "codes")
    codes = container.array(name, "<i4")
    pool = Pool(container.array(tag_section(column, "offsets"), "<i8"), container.array(tag_section(column, "data"), "<u1"))
    offsets = pool.offsets
    if len(codes) != device_count or not len(offsets) or int(codes.min()) < -1 or int(codes.max()) >= len(pool):
        raise container.corrupt(f"tag {column.name!r} has codes beyond its values", container.extent(name)[0])
    if offsets[0] != 0 or offsets[-1] != len(pool.data) or not (offsets[1:] >= offsets[:-1]).all():
        at, _ = container.extent(tag_section(column, "offsets"))
        raise container.corrupt(f"the values of tag {column.name!r} do not ascend", at)
    valid = codes >= 0
    return Vector(column.type, codes, None if valid.all() else valid, pool)
