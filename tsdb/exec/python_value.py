"""Vectors as Python values and numpy columns, with DuckDB's conventions, without DuckDB or pyarrow.

Timestamps of any unit become datetimes, cut to microseconds towards zero; infinities become the first and last datetime; a moment
outside of what Python can say becomes text. Vectors become tuples.
"""

from __future__ import annotations

import datetime
import gc
from typing import Any

import numpy as np

from tsdb.exec.batch import Batch
from tsdb_format.types import Kind
from tsdb_format.vector import Vector

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROS_MIN = (datetime.datetime.min - _EPOCH) // datetime.timedelta(microseconds=1)
_MICROS_MAX = (datetime.datetime.max - _EPOCH) // datetime.timedelta(microseconds=1)
_DAYS_MIN, _DAYS_MAX = _MICROS_MIN // 86_400_000_000, _MICROS_MAX // 86_400_000_000
#: Rows from which making their tuples would set off collections that walk everything the process has.
_COLLECTED_ROWS_MIN = 4_096


def rows_of(batch: Batch, keys: list[str]) -> list[tuple[Any, ...]]:
    """The rows of a batch as tuples, columns in the order of ``keys``."""
    if not keys:
        return [()] * batch.row_count
    columns = [values_of(batch.vectors[key]) for key in keys]
    if batch.row_count < _COLLECTED_ROWS_MIN or not gc.isenabled():
        return list(zip(*columns, strict=True))
    try:
        gc.disable()  # for one call, in which no other thread of Python runs; tuples of values are no garbage yet
        return list(zip(*columns, strict=True))
    finally:
        gc.enable()


def values_of(vector: Vector) -> list[Any]:
    """One Python value per row."""
    kind = vector.type.kind
    if vector.type.is_time:
        values = _moments(vector)
    elif kind is Kind.DATE:
        values = _dates(vector)
    elif kind is Kind.VECTOR:
        values = [tuple(row) for row in vector.values.tolist()]
    else:
        return vector.to_physical_list()
    if vector.validity is not None:
        return [value if valid else None for value, valid in zip(values, vector.validity.tolist(), strict=True)]
    return values


def _moments(vector: Vector) -> list[Any]:
    ticks = vector.values if vector.validity is None else np.where(vector.validity, vector.values, 0)
    units = vector.type.units_per_second
    if units == 10**9:
        micros = ticks // 1_000
        micros += (ticks < 0) & (micros * 1_000 != ticks)
    else:
        step = 10**6 // units
        if len(ticks) and (ticks.max() > _MICROS_MAX // step or ticks.min() < -(-_MICROS_MIN // step)):
            return [_moment(tick, step) for tick in ticks.tolist()]
        micros = ticks * step
    found: list[Any] = micros.view("M8[us]").tolist()
    if units == 10**9 and len(ticks) and (ticks.max() == 2**63 - 1 or ticks.min() <= -(2**63) + 1):
        return [_infinite(tick) or value for tick, value in zip(ticks.tolist(), found, strict=True)]
    return found


def _infinite(tick: int) -> datetime.datetime | None:
    if tick == 2**63 - 1:
        return datetime.datetime.max
    return datetime.datetime.min if tick <= -(2**63) + 1 else None


def _moment(tick: int, step: int) -> datetime.datetime | str:
    edge = _infinite(tick)
    if edge is not None:
        return edge
    micros = tick * step
    if _MICROS_MIN <= micros <= _MICROS_MAX:
        return _EPOCH + datetime.timedelta(microseconds=micros)
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 10**6)
    clock = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    text, era = _far_date(days)
    return f"{text}{era} {clock}" + (f".{fraction:06}".rstrip("0") if fraction else "")


def _dates(vector: Vector) -> list[Any]:
    days = vector.values if vector.validity is None else np.where(vector.validity, vector.values, 0)
    if len(days) and (days.max() > _DAYS_MAX or days.min() < _DAYS_MIN):
        return [_date(day) for day in days.tolist()]
    found: list[Any] = days.astype("M8[D]").tolist()
    return found


def _date(day: int) -> datetime.date | str:
    if day == 2**31 - 1:
        return datetime.date.max
    if day <= -(2**31) + 1:
        return datetime.date.min
    if _DAYS_MIN <= day <= _DAYS_MAX:
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
    return "".join(_far_date(day))


def _far_date(days: int) -> tuple[str, str]:
    """Year, month and day outside of Python's years, in the proleptic Gregorian calendar, and the era where it is BC."""
    cycle, rest = divmod(days + 719_162, 146_097)  # 400 years; day 0 is 0001-01-01
    near = datetime.date.min + datetime.timedelta(days=rest)
    year = near.year + 400 * cycle
    era = "" if year > 0 else " (BC)"
    return f"{year if year > 0 else 1 - year:04}-{near.month:02}-{near.day:02}", era


def numpy_column(vector: Vector) -> Any:
    """The column as an array as DuckDB's ``fetchnumpy`` gives it: masked where there are NULLs, objects for strings and bytes."""
    kind = vector.type.kind
    if vector.type.is_time:
        array = vector.values.view(f"M8[{vector.type.numpy_unit}]")
    elif kind is Kind.DATE:
        array = vector.values.astype("M8[D]").astype("M8[us]")
    elif vector.pool is not None or kind is Kind.VECTOR:
        if kind is Kind.STRING:
            array = vector.to_objects()
        else:
            array = np.empty(len(vector), object)
            rows = list(vector.values) if kind is Kind.VECTOR else vector.to_physical_list()
            array[:] = rows if kind is Kind.VECTOR else [None if value is None else bytearray(value) for value in rows]
    else:
        array = vector.values.astype(np.float64) if kind is Kind.HUGEINT else vector.values
    if vector.validity is None or bool(vector.validity.all()):
        return array
    return np.ma.masked_array(array, mask=~vector.validity)


def frame_column(vector: Vector) -> Any:
    """The column as a pandas series with DuckDB's types: nullable integers and booleans where there are NULLs, NaN for floats."""
    import pandas as pd

    column = numpy_column(vector)
    kind = vector.type.kind
    if not isinstance(column, np.ma.MaskedArray):
        return pd.Series(column, dtype="str") if kind is Kind.STRING and len(column) else pd.Series(column)
    mask = np.ma.getmaskarray(column)
    if kind is Kind.BOOLEAN:
        return pd.Series(pd.arrays.BooleanArray(column.data.copy(), mask))
    if kind in (Kind.INT32, Kind.INT64):
        return pd.Series(pd.arrays.IntegerArray(column.data.copy(), mask))
    if vector.type.is_float or kind is Kind.HUGEINT:
        return pd.Series(np.where(mask, np.nan, column.data).astype(column.dtype))
    if vector.type.numpy_unit is not None:
        return pd.Series(np.where(mask, np.datetime64("NaT"), column.data).astype(column.dtype))
    if kind is Kind.STRING:
        texts = column.data.astype(object)
        texts[mask] = None
        return pd.Series(texts, dtype="str")
    return pd.Series(column.filled(pd.NA), dtype=object)
