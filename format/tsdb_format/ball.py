"""Where the vectors of a file lie: for every few rows a centroid and a radius, so that a search can pass rows over.

A ball says that each vector of its rows that is not NULL is at most ``radius`` (Euclidean) from ``centroid``. It is a bound, not
a measure: readers may ignore it, and files without balls are read whole. What distances follow from it is the query engine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb_format.kernels.ball import NO_BOUND, NO_VECTOR, cut, enclose
from tsdb_format.section import Container
from tsdb_format.types import ColumnType
from tsdb_format.vector import IntArray, Vector

__all__ = ["NO_BOUND", "NO_VECTOR", "Balls", "ball_sections", "cut_balls", "new_balls", "read_balls"]

#: Section that says where the balls of a file's VECTOR columns begin.
BALL_START = "ball.row_start"
#: Rows of a ball at most, and those of a device in a page that are put together with no other's: few, so that what is far apart is
#: rarely in one ball, and enough for balls to be small beside their vectors.
_ROWS_MAX, _ROWS_MIN = 128, 32
_ALL_VALID = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class Balls:
    """Ball i is of rows ``start[i]`` to ``start[i + 1]``, all of one page. ``centroid`` is (balls, width), ``radius`` (balls,) and
    may be NO_VECTOR or NO_BOUND.
    """

    start: IntArray
    centroid: NDArray[np.float32]
    radius: NDArray[np.float64]

    def enclose(self, first_row: int, rows: Vector) -> None:
        """Fill in the balls of some rows, which begin and end with balls. Threads may do so, each for other rows."""
        first, last = np.searchsorted(self.start, (first_row, first_row + len(rows))).tolist()
        validity = _ALL_VALID if rows.validity is None else np.ascontiguousarray(rows.validity)
        items = np.require(rows.values, np.float32, ["C", "A"]).reshape(-1)
        start = self.start[first : last + 1] - first_row
        enclose(items, validity, rows.type.width, start, self.centroid[first:last].reshape(-1), self.radius[first:last])


def cut_balls(row_start: IntArray, rows_per_page: int) -> IntArray:
    """Where the balls of a file begin, and its row count at the end."""
    rows = int(row_start[-1])
    out = np.empty(2 * (rows // _ROWS_MIN + -(-rows // rows_per_page)) + 2, np.int64)
    return out[: cut(row_start, rows_per_page, _ROWS_MIN, _ROWS_MAX, out)]


def new_balls(start: IntArray, kind: ColumnType) -> Balls:
    """The balls of a VECTOR column, to be filled in."""
    count = len(start) - 1
    return Balls(start, np.empty((count, kind.width), np.float32), np.empty(count, np.float64))


def ball_sections(columns: Mapping[int, Balls]) -> dict[str, NDArray[Any]]:
    """The sections of a file, by column id."""
    made: dict[str, NDArray[Any]] = {}
    for number, balls in columns.items():
        made |= {BALL_START: balls.start, f"centroid.{number}": balls.centroid.reshape(-1), f"radius.{number}": balls.radius}
    return made


def read_balls(container: Container, number: int, kind: ColumnType, row_count: int, rows_per_page: int) -> Balls | None:
    """The balls of a VECTOR column, in place; None in files that have none. Raises Corruption."""
    names = BALL_START, f"centroid.{number}", f"radius.{number}"
    if not all(name in container for name in names):
        return None
    start, centroid, radius = (container.array(name, dtype) for name, dtype in zip(names, ("<i8", "<f4", "<f8"), strict=True))
    count = len(start) - 1
    ends = count > 0 and start[0] == 0 and start[-1] == row_count and bool((start[1:] > start[:-1]).all())
    if not ends or bool((start[:-1] // rows_per_page != (start[1:] - 1) // rows_per_page).any()):
        raise container.corrupt(f"section {names[0]!r} does not part the rows", container.extent(names[0])[0])
    if len(centroid) != count * kind.width or len(radius) != count:
        raise container.corrupt(f"section {names[1]!r} is not of the column's shape", container.extent(names[1])[0])
    if not ((radius >= 0.0) | (radius == NO_VECTOR)).all():
        raise container.corrupt(f"section {names[2]!r} has what is no radius", container.extent(names[2])[0])
    return Balls(start, centroid.reshape(count, kind.width), radius)
