"""Streams of Arrow tables as CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

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


def write_parquet(tables: Iterator[pa.Table], path: Path) -> int:
    """Write the tables, at least one, to a Parquet file; the number of rows."""
    import pyarrow.parquet as pq

    first = next(tables)
    count = int(first.num_rows)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for part in tables:
            writer.write_table(part)
            count += part.num_rows
    return count
