"""Distances as columns: what a scan computes of the vectors in one column and a vector that the query gives.

Such a column reads like any FLOAT of the file, row by row and exactly. For a TopK there are two ways around that: bounds of some
rows together, from the balls that a file keeps, and a quick look at rows, which leaves out those that cannot be as good as a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import distance as kernels
from tsdb.plan.node import Distance
from tsdb_format.ball import NO_VECTOR
from tsdb_format.schema import Column, Schema
from tsdb_format.statistics import HAS_BOUNDS, HAS_NAN, Statistics
from tsdb_format.types import FLOAT, Role
from tsdb_format.vector import BoolArray, IntArray, Vector, null_vector

if TYPE_CHECKING:
    from tsdb.exec.source import FileSource

#: DuckDB's functions by the number that kernels have for them.
METRICS = {
    "array_distance": kernels.DISTANCE, "array_cosine_distance": kernels.COSINE_DISTANCE,
    "array_cosine_similarity": kernels.COSINE_SIMILARITY, "array_inner_product": kernels.INNER_PRODUCT,
    "array_dot_product": kernels.INNER_PRODUCT, "array_negative_inner_product": kernels.NEGATIVE_INNER_PRODUCT,
    "array_negative_dot_product": kernels.NEGATIVE_INNER_PRODUCT,
}  # fmt: skip


class BallBounds(NamedTuple):
    """Of rows ``start[i]`` to ``start[i + 1]``: between which values their distances are, whether there are any, or some NULL."""

    start: IntArray
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    has_values: BoolArray
    has_nulls: BoolArray


@dataclass(frozen=True, eq=False)
class DistanceColumn(Column):
    """The column that a ``Distance`` is, of the VECTOR column ``of``."""

    of: Column
    metric: int
    target: NDArray[np.float32]

    def read(self, source: FileSource, starts: IntArray, stops: IntArray) -> Vector:
        """The distances of a file's rows."""
        name = source.stored_name(self.of)
        count = int((stops - starts).sum())
        if name is None:
            return null_vector(FLOAT, count)
        source.touch(name, starts, stops)
        found = source.file.vectors(name, starts, stops)
        values = np.empty(count, np.float32)
        kernels.distances(found.items, found.start, found.rows, self.target, self.metric, values)
        return Vector(FLOAT, values, found.validity)

    def may_reach(
        self, source: FileSource, starts: IntArray, stops: IntArray, limit: float, *, descending: bool, nulls: bool
    ) -> BoolArray:
        """Which of a file's rows may have a distance as good as ``limit``; of those with NULL all, or without ``nulls`` none."""
        name = source.stored_name(self.of)
        count = int((stops - starts).sum())
        if name is None:
            return np.full(count, nulls)
        source.touch(name, starts, stops)
        found = source.file.vectors(name, starts, stops)
        out = np.empty(count, np.bool_)
        kernels.may_reach(found.items, found.start, found.rows, self.target, self.metric, limit, descending, out)
        if found.validity is not None:
            out = out | ~found.validity if nulls else out & found.validity
        return out

    def bounds(self, source: FileSource) -> BallBounds:
        """Bounds of all balls of a file; of its pages, which bound nothing, where it does not say where its vectors are."""
        file, name = source.file, source.stored_name(self.of)
        pages = np.minimum(np.arange(file.page_count + 1) * file.rows_per_page, file.row_count)
        if name is None:
            nothing, every = np.zeros(file.page_count), np.ones(file.page_count, np.bool_)
            return BallBounds(pages, nothing, nothing, ~every, every)
        balls = file.balls(name)
        start = pages if balls is None else balls.start
        count = len(start) - 1
        low, high = np.full(count, -np.inf), np.full(count, np.inf)
        nulls = (file.statistics(name, "page").null_count > 0)[start[:-1] // file.rows_per_page]
        if balls is None:
            return BallBounds(start, low, high, np.ones(count, np.bool_), nulls)
        kernels.bounds_of_balls(balls.centroid.reshape(-1), balls.radius, self.target, self.metric, low, high)
        return BallBounds(start, low, high, balls.radius != NO_VECTOR, nulls)

    def statistics(self, source: FileSource) -> Statistics | None:
        """Bounds of every page; None in files that do not have the column."""
        file, name = source.file, source.stored_name(self.of)
        if name is None:
            return None
        nulls, bounds = file.statistics(name, "page"), self.bounds(source)
        first = np.searchsorted(bounds.start[:-1], np.arange(file.page_count) * file.rows_per_page)
        low = np.minimum.reduceat(np.where(bounds.has_values, bounds.low, np.inf), first)
        high = np.maximum.reduceat(np.where(bounds.has_values, bounds.high, -np.inf), first)
        has_values = np.logical_or.reduceat(bounds.has_values, first)
        unknown = np.isinf(low) & np.isinf(high)  # of NaN, too, nothing is known then
        flags = (has_values * HAS_BOUNDS + (has_values & unknown) * HAS_NAN).astype(np.uint8)
        return Statistics(nulls.row_count, nulls.null_count, flags, np.where(has_values, low, 0.0), np.where(has_values, high, 0.0))


def distance_columns(distances: Sequence[Distance], schema: Schema) -> Mapping[str, DistanceColumn]:
    """The columns by name that a scan of a table of that schema computes."""
    return {
        each.name: DistanceColumn(
            each.name, FLOAT, Role.FIELD, -1, schema.column(each.column), METRICS[each.function], np.frombuffer(each.target, "<f4")
        )
        for each in distances
    }
