"""What an ``Aggregate`` groups by and computes: buckets of time, expressions of tags, functions. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tsdb.plan.predicate import Predicate
from tsdb_format.types import ColumnType


@dataclass(frozen=True, slots=True)
class FixedWidth:
    """Buckets of ``width`` ticks of the time column, one of which starts at tick ``origin``."""

    width: int
    origin: int


@dataclass(frozen=True, slots=True)
class Calendar:
    """Buckets of ``months`` calendar months, one of which starts at the beginning of month ``origin`` (0 is January 1970)."""

    months: int
    origin: int


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """Group by a tag or attribute."""

    name: str
    column: str


@dataclass(frozen=True, slots=True)
class BucketKey:
    """Group by the start of the time column's bucket, shown as a value of ``type`` (a timestamp or DATE)."""

    name: str
    bucket: FixedWidth | Calendar
    type: ColumnType


@dataclass(frozen=True, slots=True)
class ExpressionKey:
    """Group by ``sql``, DuckDB's text of an expression of tags and attributes alone, which is computed once per device.

    ``columns`` are those it names. Its values are of ``type``.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    type: ColumnType


GroupKey: TypeAlias = ColumnKey | BucketKey | ExpressionKey


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate function of ``column`` (None: of rows), over the rows that satisfy ``condition``.

    Functions are count, sum, avg, min, max, first, last, arg_min, arg_max, var_samp, var_pop, stddev_samp and stddev_pop. ``first``
    and ``last`` are the value at the least or greatest ``by`` (None: the time), NULL where that row's value is; ``arg_min`` and
    ``arg_max`` leave rows out whose value is NULL. Of tags and attributes alone there are any_value
    and count_distinct. ``type`` is DuckDB's type of the result.
    """

    name: str
    function: str
    column: str | None
    type: ColumnType
    by: str | None = None
    condition: Predicate | None = None
