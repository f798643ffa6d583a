"""Where the vectors of a file lie: for every block of rows a centroid and a radius, so that a search can pass blocks over.

A ball says that each vector of its block that is not NULL is at most ``radius`` (Euclidean) from ``centroid``. It is a bound, not
a measure: readers may ignore it, and files without balls are read whole. What distances follow from it is the query engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.encoding.page_set import BLOCK_ROWS
from tsdb_format.kernels.ball import NO_BOUND, NO_VECTOR, enclose
from tsdb_format.section import Container
from tsdb_format.types import ColumnType
from tsdb_format.vector import Vector

__all__ = ["NO_BOUND", "NO_VECTOR", "Balls", "ball_sections", "balls_of", "block_rows", "read_balls"]

_ALL_VALID = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class Balls:
    """``centroid`` (blocks, width) and ``radius`` (blocks,), which may be NO_VECTOR or NO_BOUND, by ``block_rows`` rows."""

    centroid: NDArray[np.float32]
    radius: NDArray[np.float64]
    block_rows: int


def block_rows(rows_per_page: int) -> int:
    """Rows of a ball: a block, or a page where that is less. Pages are whole balls."""
    return min(rows_per_page, BLOCK_ROWS)


def balls_of(vector: Vector, rows_per_page: int) -> Balls:
    """The balls of a VECTOR column's rows, the first of which begins a page."""
    size, width = block_rows(rows_per_page), vector.type.width
    count = -(-len(vector) // size)
    centroid, radius = np.empty(count * width, np.float32), np.empty(count, np.float64)
    validity = _ALL_VALID if vector.validity is None else np.ascontiguousarray(vector.validity)
    items = np.require(vector.values, np.float32, ["C", "A"]).reshape(-1)
    enclose(items, validity, width, size, centroid, radius)
    return Balls(centroid.reshape(count, width), radius, size)


def ball_sections(number: int, balls: Balls) -> dict[str, NDArray[Any]]:
    """The sections of a column of that id."""
    return {f"centroid.{number}": balls.centroid.reshape(-1), f"radius.{number}": balls.radius}


def read_balls(container: Container, number: int, kind: ColumnType, row_count: int, rows_per_page: int) -> Balls | None:
    """The balls of a VECTOR column, in place; None in files that have none. Raises Corruption."""
    centroid_name, radius_name = f"centroid.{number}", f"radius.{number}"
    if centroid_name not in container or radius_name not in container:
        return None
    size = block_rows(rows_per_page)
    count = -(-row_count // size)
    if container.shape(centroid_name) != (count * kind.width,) or container.shape(radius_name) != (count,):
        raise container.corrupt(f"section {centroid_name!r} is not of the column's shape", container.extent(centroid_name)[0])
    centroid, radius = container.array(centroid_name, "<f4"), container.array(radius_name, "<f8")
    if not ((radius >= 0.0) | (radius == NO_VECTOR)).all():
        raise container.corrupt(f"section {radius_name!r} has what is no radius", container.extent(radius_name)[0])
    return Balls(centroid.reshape(count, kind.width), radius, size)
