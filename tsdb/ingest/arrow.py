"""From what people have to the vectors of a table's columns: data frames, Arrow, dicts of arrays, lists of dicts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tsdb.ingest.convert import convert, reason
from tsdb.ingest.instant import TimeReading
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import Column, Schema
from tsdb_format.vector import Vector

#: What pandas calls an index without a name in Arrow: the place of a row in a frame, which is no data.
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")


def columns_of(data: Any, schema: Schema) -> dict[str, Vector]:
    """The vectors that ``Store.write_batch`` takes, from what people have: anything with ``__arrow_c_stream__`` (pandas, polars,
    pyarrow, DuckDB), an Arrow batch, a dict of arrays or lists, a list of dicts.

    Raises InvalidInput naming column and row, NotFound for a column the table does not have.
    """
    arrays = arrow_columns(data)
    named = match_columns(schema, list(arrays))
    reading = TimeReading()
    out: dict[str, Vector] = {}
    for given, array in arrays.items():
        column = named[given]
        converted = convert(array, column, reading)
        if converted.status is not None and converted.status.any():
            row = int(np.argmax(converted.status != 0))
            raise InvalidInput(f"column {column.name!r}, row {row:,}: {reason(converted.status[row], column, array[row])}")
        out[column.name] = converted.vector
    return out


def match_columns(schema: Schema, names: Sequence[str]) -> dict[str, Column]:
    """The column that each given name means: the exact one, or the one that differs by case only."""
    folded = {column.name.lower(): column for column in schema}
    out: dict[str, Column] = {}
    for name in names:
        column = schema.by_name.get(name) or folded.get(name.lower())
        if column is None:
            raise NotFound(f"the table has no column {name!r}; it has: {', '.join(schema.by_name)}")
        if column in out.values():
            raise InvalidInput(f"column {column.name!r} is given twice")
        out[name] = column
    return out


def arrow_columns(data: Any) -> dict[str, Any]:
    """The data as Arrow arrays by name."""
    import pyarrow as pa

    if isinstance(data, Mapping):
        return {str(name): _array(str(name), values) for name, values in data.items()}
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, Sequence) and not hasattr(data, "__arrow_c_stream__"):
        return _from_rows(data)
    elif hasattr(data, "__arrow_c_stream__"):
        data = pa.RecordBatchReader.from_stream(data).read_all()
    elif hasattr(data, "__arrow_c_array__"):
        data = pa.Table.from_batches([pa.record_batch(data)])
    else:
        raise InvalidInput(
            f"cannot take rows from a {type(data).__name__}: give a data frame, Arrow data, a dict of arrays or a list of dicts"
        )
    if len(set(data.column_names)) != len(data.column_names):
        raise InvalidInput("two columns of the data have the same name")
    return {
        name: _whole(column)
        for name, column in zip(data.column_names, data.columns, strict=True)
        if not (_UNNAMED_INDEX.fullmatch(name) and b"pandas" in (data.schema.metadata or {}))
    }


def _from_rows(rows: Sequence[Any]) -> dict[str, Any]:
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidInput(f"row {number:,} is a {type(row).__name__}, not a dict")
        names.update(dict.fromkeys(row))
    return {str(name): _array(str(name), [row.get(name) for row in rows]) for name in names}


def _array(name: str, values: Any) -> Any:
    """One column of whatever kind as an Arrow array."""
    import pyarrow as pa

    try:
        if isinstance(values, pa.Array):
            return values
        if isinstance(values, pa.ChunkedArray):
            return _whole(values)
        if isinstance(values, np.ma.MaskedArray):
            return pa.array(values.data, mask=np.ma.getmaskarray(values))
        if isinstance(values, np.ndarray) and values.ndim == 2:
            flat = pa.array(np.ascontiguousarray(values).reshape(-1))
            return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        if hasattr(values, "__arrow_c_stream__"):
            return _whole(pa.chunked_array(values))
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise InvalidInput(
                f"column {name!r} is a {type(values).__name__}, not an array or a list; one row is a list of one dict"
            )
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidInput(f"column {name!r}: {str(error).splitlines()[0]}") from None


def _whole(column: Any) -> Any:
    """A chunked array as one array."""
    import pyarrow as pa

    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
