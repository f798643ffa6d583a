"""Arrow arrays as vectors of a column's type.

Values arrive exactly or are refused with their row: integers that do not fit, times finer than the column's unit, numbers that are
not whole. Two conversions do round, since that is what their declared type means: DOUBLE into FLOAT, and DECIMAL into DOUBLE.
Arrays are used in place wherever their layout allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.ingest.instant import (
    BLANK,
    FINER,
    INEXACT,
    MALFORMED,
    OUTSIDE,
    SKIPPED,
    UNITS,
    StatusArray,
    TimeReading,
    rescale,
)
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import Column
from tsdb_format.types import Kind
from tsdb_format.vector import BoolArray, ByteArray, IntArray, Pool, Vector, null_vector


@dataclass(slots=True)
class Converted:
    """A column's values, and per row a status (0: fine, else why it was refused), or None where all are fine."""

    vector: Vector
    status: StatusArray | None = None

    def refused(self) -> BoolArray | None:
        """Which rows were refused; None where none was."""
        return None if self.status is None else self.status != 0


def reason(status: int, column: Column, value: Any = None) -> str:
    """Why a value was refused, for people."""
    shown = _shown(value)
    kind = column.type
    article = "an" if kind.kind in (Kind.INT32, Kind.INT64) else "a"
    what = "a time" if kind.is_time else "a date" if kind.kind is Kind.DATE else f"{article} {kind}"
    texts = {
        BLANK: "there is no time",
        MALFORMED: f"{shown}is not {what}",
        FINER: f"{shown}is finer than {kind}" if kind.is_time or kind.kind is Kind.DATE else f"{shown}is not a whole number",
        INEXACT: f"{shown}is not exactly {what}",
        OUTSIDE: f"{shown}is outside of the range of {kind}",
        SKIPPED: f"{shown}is a time that clocks in that zone skipped",
    }
    return texts[int(status)]


def refuse_missing(converted: Converted) -> None:
    """Turn NULLs into refusals, in a time column: a row without a time is neither NULL nor at the time before."""
    validity = converted.vector.validity
    if validity is not None:
        status = converted.status if converted.status is not None else np.zeros(len(validity), np.uint8)
        status[~validity] = BLANK
        converted.status = status
        converted.vector.validity = None


def _shown(value: Any) -> str:
    try:
        return "" if value is None else f"{str(value)[:60]!r} "
    except (OverflowError, ValueError):  # pyarrow cannot spell every timestamp
        return ""


def convert(array: Any, column: Column, reading: TimeReading, *, numbers: bool = False) -> Converted:
    """An Arrow array as a vector of the column's type. ``numbers``: texts in a time column are epoch numbers.

    Raises InvalidInput where the array's type has nothing to do with the column's.
    """
    import pyarrow as pa

    array = _plain(array)
    valid = validity_of(array)
    if pa.types.is_null(array.type):
        return Converted(null_vector(column.type, len(array)))
    work = _BY_KIND.get(column.type.kind, _to_time if column.type.is_time else None)
    assert work is not None
    found = work(array, valid, column, reading, numbers)
    if found is None:
        raise InvalidInput(f"column {column.name!r} is {column.type}; the data has {array.type}")
    if found.status is not None:
        if found.vector.validity is not None:
            found.status[~found.vector.validity] = 0
        if not found.status.any():
            found.status = None
    return found


def _plain(array: Any) -> Any:
    """The array without layers that do not change its values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type) and (array.dictionary.null_count or not is_text(array.type.value_type)):
        array = array.dictionary_decode()  # a NULL among the values is then counted as one
    for view, plain in ((pa.string_view(), pa.large_string()), (pa.binary_view(), pa.large_binary())):
        if array.type == view:
            array = array.cast(plain)
    return array


def validity_of(array: Any) -> BoolArray | None:
    """The validity as booleans, or None where there is no NULL."""
    if not array.null_count:
        return None
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.zeros(len(array), np.bool_)
    return _bits(bitmap, array.offset, len(array))


def _bits(buffer: Any, offset: int, count: int) -> BoolArray:
    first = offset // 8
    raw = np.frombuffer(buffer, np.uint8)[first : (offset + count + 7) // 8]
    return np.unpackbits(raw, bitorder="little")[offset - 8 * first :][:count].view(np.bool_)


def values_of(array: Any, dtype: Any) -> NDArray[Any]:
    """The values of a fixed-width array in place."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    values = np.frombuffer(buffer, dtype, array.offset + len(array))[array.offset :]
    return values if values.flags.aligned else values.copy()


def strings_of(array: Any) -> tuple[IntArray, ByteArray]:
    """(offsets, data) of a string or binary array; ``offsets`` is one longer and need not start at 0."""
    import pyarrow as pa

    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int64), np.empty(0, np.uint8)
    dtype = np.int64 if large else np.int32
    found = np.frombuffer(offsets, dtype, array.offset + len(array) + 1)[array.offset :].astype(np.int64, copy=False)
    return found, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def cells_of(array: Any, valid: BoolArray | None) -> tuple[IntArray, IntArray, ByteArray]:
    """(starts, stops, data) of a string array, with start -1 for NULL."""
    offsets, data = strings_of(array)
    return offsets[:-1] if valid is None else np.where(valid, offsets[:-1], -1), offsets[1:], data


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is a plain string type."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _to_boolean(array: Any, valid: BoolArray | None, column: Column, reading: TimeReading, numbers: bool) -> Converted | None:
    import pyarrow as pa

    if not pa.types.is_boolean(array.type):
        return None
    return Converted(Vector(column.type, _bits(array.buffers()[1], array.offset, len(array)), valid))


def _to_integer(array: Any, valid: BoolArray | None, column: Column, reading: TimeReading, numbers: bool) -> Converted | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = column.type.physical
    status: StatusArray | None = None
    if pa.types.is_integer(array.type):
        values = values_of(array, array.type.to_pandas_dtype())
    elif pa.types.is_floating(array.type):
        if array.type == pa.float16():
            array = pc.cast(array, pa.float32())
        real = values_of(array, array.type.to_pandas_dtype())
        whole = np.isfinite(real) & (np.rint(real) == real)
        inside = whole & (np.abs(real) < 2.0**63)
        status = np.where(inside, 0, np.where(whole | ~np.isfinite(real), OUTSIDE, FINER)).astype(np.uint8)
        values = np.where(inside, real, 0).astype(np.int64)
    elif pa.types.is_decimal(array.type):
        return _to_integer(pc.cast(array, pa.float64()), valid, column, reading, numbers) if array.type.precision <= 15 else None
    else:
        return None
    if values.dtype != wanted:
        bounds = np.iinfo(np.int32 if wanted == np.int32 else np.int64)
        if values.dtype.itemsize > wanted.itemsize or values.dtype.kind == "u":
            wild = (values > bounds.max) | (values < bounds.min) if values.dtype.kind == "i" else values > np.uint64(bounds.max)
            if wild.any():
                status = np.zeros(len(values), np.uint8) if status is None else status
                status[wild & (status == 0)] = OUTSIDE
                values = np.where(wild, 0, values)
        values = values.astype(wanted)
    return Converted(Vector(column.type, values, valid), status)


def without_blanks(valid: BoolArray | None, status: StatusArray) -> BoolArray | None:
    """The validity with blank texts as NULL."""
    blank = status == BLANK
    if not blank.any():
        return valid
    status[blank] = 0
    filled: BoolArray = ~blank
    return filled if valid is None else valid & filled


def _to_real(array: Any, valid: BoolArray | None, column: Column, reading: TimeReading, numbers: bool) -> Converted | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = column.type.physical
    status: StatusArray | None = None
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        if array.type not in (pa.float32(), pa.float64()):
            array = pc.cast(array, pa.float64(), safe=False)
        values = values_of(array, np.float32 if array.type == pa.float32() else np.float64)
        if values.dtype != wanted:
            with np.errstate(over="ignore"):
                rounded = values.astype(wanted)
            wild = np.isinf(rounded) & np.isfinite(values)
            status = np.where(wild, OUTSIDE, 0).astype(np.uint8) if wild.any() else None
            values = rounded
    elif pa.types.is_integer(array.type):
        whole = values_of(array, array.type.to_pandas_dtype())
        values = whole.astype(wanted)
        limit = 2**53 if wanted == np.float64 else 2**24
        if whole.dtype.itemsize >= 4:
            wild = (whole > limit) | (whole < -limit) if whole.dtype.kind == "i" else whole > limit
            if wild.any():  # large, but perhaps a multiple of a power of two
                wild[wild] = [int(real) != int(exact) for real, exact in zip(values[wild], whole[wild], strict=True)]
                status = np.where(wild, INEXACT, 0).astype(np.uint8)
    else:
        return None
    return Converted(Vector(column.type, values, valid), status)


def _to_string(array: Any, valid: BoolArray | None, column: Column, reading: TimeReading, numbers: bool) -> Converted | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        offsets, data = strings_of(array.dictionary)
        codes = pc.cast(array.indices, pa.int32())
        return Converted(Vector(column.type, values_of(codes, np.int32), valid, Pool(offsets, data)))
    binary = pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
    if pa.types.is_fixed_size_binary(array.type) and column.type.kind is Kind.BLOB:
        array, binary = pc.cast(array, pa.large_binary()), True
    if not (is_text(array.type) or (binary and column.type.kind is Kind.BLOB)):
        return None
    offsets, data = strings_of(array)
    return Converted(Vector(column.type, np.arange(len(array), dtype=np.int32), valid, Pool(offsets, data)))


def _to_date(array: Any, valid: BoolArray | None, column: Column, reading: TimeReading, numbers: bool) -> Converted | None:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_date32(kind):
        return Converted(Vector(column.type, values_of(array, np.int32), valid))
    if is_text(kind):
        days, status = reading.text(column.type, *cells_of(array, valid), numbers=False)
        valid = without_blanks(valid, status)
    elif pa.types.is_date64(kind) or pa.types.is_timestamp(kind):
        ticks = values_of(array, np.int64)
        per_day = 86_400 * (10**3 if pa.types.is_date64(kind) else UNITS[kind.unit])
        days, status = ticks // per_day, np.where(ticks % per_day != 0, FINER, 0).astype(np.uint8)
    else:
        return None
    return Converted(Vector(column.type, days.astype(np.int32), valid), status)


def _to_time(array: Any, valid: BoolArray | None, column: Column, reading: TimeReading, numbers: bool) -> Converted | None:
    import pyarrow as pa

    kind, per_second = array.type, column.type.units_per_second
    if is_text(kind):
        ticks, status = reading.text(column.type, *cells_of(array, valid), numbers=numbers)
        return Converted(Vector(column.type, ticks, without_blanks(valid, status)), status)
    if pa.types.is_timestamp(kind):
        ticks, status = rescale(values_of(array, np.int64), UNITS[kind.unit], per_second)
        if kind.tz is None and reading.zone is not None:
            ticks, skipped = reading.naive(column.type, ticks)
            status = np.maximum(status, skipped)
    elif pa.types.is_date32(kind):
        ticks, status = rescale(86_400 * values_of(array, np.int32).astype(np.int64), 1, per_second)
    elif pa.types.is_date64(kind):
        ticks, status = rescale(values_of(array, np.int64), 10**3, per_second)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        ticks, status = reading.counts(column.type, values_of(array, kind.to_pandas_dtype()))
    else:
        return None
    return Converted(Vector(column.type, ticks, valid), status)


def _to_vector(array: Any, valid: BoolArray | None, column: Column, reading: TimeReading, numbers: bool) -> Converted | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    width = column.type.width
    lists = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    if not (pa.types.is_fixed_size_list(array.type) or lists):
        return None
    status = np.zeros(len(array), np.uint8)
    status[pc.fill_null(pc.list_value_length(array), width).to_numpy() != width] = MALFORMED
    values = np.zeros((len(array), width), np.float32)
    sound = np.flatnonzero((status == 0) & (np.ones(len(array), np.bool_) if valid is None else valid))
    inner = pc.list_flatten(array.take(pa.array(sound)))
    if inner.null_count:
        inside = ~_bits(inner.buffers()[0], inner.offset, len(inner))
        status[sound[np.flatnonzero(inside) // width]] = MALFORMED
        inner = pc.fill_null(inner, 0)
    if not (pa.types.is_floating(inner.type) or pa.types.is_integer(inner.type)):
        return None
    values[sound] = pc.cast(inner, pa.float32(), safe=False).to_numpy(zero_copy_only=False).reshape(-1, width)
    if inner.type == pa.float64():
        wild = np.isinf(values[sound]) & np.isfinite(inner.to_numpy(zero_copy_only=False).reshape(-1, width))
        status[sound[np.logical_or.reduce(wild, axis=1)]] = OUTSIDE
    return Converted(Vector(column.type, values, valid), status)


_Work = Callable[[Any, "BoolArray | None", Column, TimeReading, bool], "Converted | None"]
_BY_KIND: dict[Kind, _Work] = {
    Kind.BOOLEAN: _to_boolean, Kind.INT32: _to_integer, Kind.INT64: _to_integer, Kind.FLOAT: _to_real, Kind.DOUBLE: _to_real,
    Kind.STRING: _to_string, Kind.BLOB: _to_string, Kind.DATE: _to_date, Kind.VECTOR: _to_vector,
}  # fmt: skip
