"""Streams of Arrow tables as CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tsdb.quoting import quoted_text

if TYPE_CHECKING:
    import pyarrow as pa


def write_csv(tables: Iterator[pa.Table], path: Path) -> int:
    """Write the tables, at least one, to a CSV file with a header line, through DuckDB's parallel writer; the number of rows."""
    import duckdb
    import pyarrow as pa

    first = next(tables)
    count = int(first.num_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal count
        yield from first.to_batches()
        for part in tables:
            count += part.num_rows
            yield from part.to_batches()

    with duckdb.connect() as connection:
        connection.register("fleet", pa.RecordBatchReader.from_batches(first.schema, batches()))
        connection.execute(f"COPY (FROM fleet) TO {quoted_text(str(path))} (FORMAT csv, HEADER)")
    return count


def write_parquet(parts: Iterable[pa.Table | pa.RecordBatch], where: Path | BinaryIO, schema: pa.Schema | None = None) -> int:
    """Write tables or record batches to a Parquet file, at least one where no schema is given; the number of rows."""
    import pyarrow.parquet as pq

    remaining = iter(parts)
    begun = [] if schema is not None else [next(remaining)]
    count = 0
    with pq.ParquetWriter(where, schema or begun[0].schema, compression="zstd") as writer:
        for part in chain(begun, remaining):
            writer.write(part)
            count += int(part.num_rows)
    return count
