"""Constants: the values that a statement's text or its parameters give, typed as DuckDB types them.

A constant is exact — integers are unbounded, decimals are decimals, times are ticks of a stated unit — so that comparing it with a
column can be decided exactly (``tsdb.sql.comparison``).
"""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np

from tsdb.sql import moment
from tsdb.sql.token import refuse_surrogates

_MICROS = 10**6


class ConstantKind(Enum):
    """What a constant is. TEXT takes the type it is compared with, as a string literal does; VARCHAR stays a string."""

    NULL = auto()
    BOOLEAN = auto()
    INTEGER = auto()
    DECIMAL = auto()
    DOUBLE = auto()
    TEXT = auto()
    VARCHAR = auto()
    BLOB = auto()
    DATE = auto()
    TIMESTAMP = auto()
    INTERVAL = auto()


@dataclass(frozen=True, slots=True)
class Constant:
    """A typed value: int, Decimal, float, str, bytes, bool, None, days, ticks, or (months, days, microseconds).

    ``units_per_second`` is a TIMESTAMP's unit; ``zoned`` says that it is one with time zone, in UTC.
    """

    kind: ConstantKind
    value: Any = None
    units_per_second: int = 0
    zoned: bool = False


NULL = Constant(ConstantKind.NULL)
#: Digits of DuckDB's widest DECIMAL and whole number; longer numbers are left to DuckDB.
DIGITS_MAX = 38


def integer(value: int) -> Constant:
    """A whole number."""
    return Constant(ConstantKind.INTEGER, value)


def timestamp(ticks: int, units_per_second: int = _MICROS, *, zoned: bool = False) -> Constant:
    """A point in time."""
    return Constant(ConstantKind.TIMESTAMP, ticks, units_per_second, zoned)


def number(text: str) -> Constant | None:
    """A numeric literal: whole numbers and decimals are exact, an exponent makes a DOUBLE."""
    text = text.replace("_", "")
    if text[:2] in ("0x", "0X"):
        return None
    if "e" in text.lower():
        return Constant(ConstantKind.DOUBLE, float(text))
    digits = text.replace(".", "")
    if not digits.isdigit() or len(digits) > DIGITS_MAX:
        return None
    return Constant(ConstantKind.DECIMAL, decimal.Decimal(text)) if "." in text else integer(int(text))


def of_python(value: object) -> Constant | None:
    """A parameter's value; None where only DuckDB can say what it is. Raises InvalidInput for text that cannot be UTF-8."""
    if isinstance(value, np.generic):
        return _of_numpy(value)
    match value:
        case None:
            return NULL
        case bool():
            return Constant(ConstantKind.BOOLEAN, value)
        case int():
            return integer(value) if abs(value) < 2**63 else None
        case float():
            return Constant(ConstantKind.DOUBLE, value)
        case str():
            refuse_surrogates(value)
            return Constant(ConstantKind.TEXT, value)
        case bytes() | bytearray() | memoryview():
            return Constant(ConstantKind.BLOB, bytes(value))
        case decimal.Decimal():
            return Constant(ConstantKind.DECIMAL, value) if value.is_finite() and len(value.as_tuple().digits) <= 18 else None
        case datetime.datetime():
            return _of_datetime(value)
        case datetime.date():
            return Constant(ConstantKind.DATE, moment.days_of(value))
    return None


def _of_datetime(value: datetime.datetime) -> Constant | None:
    nanosecond = getattr(value, "nanosecond", None)
    if nanosecond is None:
        return timestamp(moment.micros_of(value), zoned=value.tzinfo is not None)
    if value != value:  # pandas.NaT
        return NULL
    nanoseconds = int(getattr(value, "value"))  # noqa: B009 - a pandas.Timestamp, in UTC
    return timestamp(nanoseconds, 10**9, zoned=value.tzinfo is not None)


def _of_numpy(value: np.generic) -> Constant | None:
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return NULL
        unit, step = np.datetime_data(value.dtype)
        if step == 1 and unit == "D":
            return Constant(ConstantKind.DATE, int(value.astype(np.int64)))
        units_per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.get(unit)
        return timestamp(int(value.astype(np.int64)), units_per_second) if step == 1 and units_per_second else None
    if isinstance(value, np.timedelta64):
        return None
    return of_python(value.item())


def for_duckdb(value: object) -> object:
    """A parameter's value as one that DuckDB's client takes; a nanosecond timestamp cannot be one (see ``duckdb_text``)."""
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value.tolist()
    if isinstance(value, list | tuple):
        return [for_duckdb(each) for each in value]
    if isinstance(value, dict):
        return {key: for_duckdb(each) for key, each in value.items()}
    return value


def duckdb_text(value: object) -> str | None:
    """SQL for a parameter that DuckDB's client would get wrong: numpy and pandas timestamps. None for all others."""
    if not isinstance(value, np.datetime64) and not hasattr(value, "nanosecond"):
        return None
    made = of_python(value)
    if made is None:
        return None
    if made.kind is ConstantKind.TIMESTAMP and not made.zoned:
        nanoseconds = made.value * (10**9 // made.units_per_second)
        return f"make_timestamp_ns({nanoseconds})" if abs(nanoseconds) < 2**63 else None
    if made.kind is ConstantKind.DATE:
        return f"(DATE '1970-01-01' + {made.value})"
    return "NULL" if made.kind is ConstantKind.NULL else None
