"""The stores of the comparison: each loads the same rows and answers the same SQL with Python tuples, or an Arrow table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tsdb_cli.fleet import COUNTER, CREATE_SQL, PERCENTAGES

_DUCK_COLUMNS = (
    {"time": "TIMESTAMP_NS", "host": "VARCHAR", "region": "VARCHAR"} | dict.fromkeys(PERCENTAGES, "DOUBLE") | {COUNTER: "BIGINT"}
)


class Store(Protocol):
    """One store with the fleet in it."""

    name: str

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of the answer, as Python values."""

    def arrow(self, sql: str) -> pa.Table:
        """All rows of the answer, as a table."""

    def size_bytes(self) -> int:
        """Bytes on disk."""

    def close(self) -> None:
        """Let go of the files."""


class Tsdb:
    """This project."""

    name = "tsdb"

    def __init__(self, folder: Path) -> None:
        import tsdb

        self._folder = folder
        self._db = tsdb.open(folder)

    @classmethod
    def load_csv(cls, path: Path, folder: Path) -> tuple[Tsdb, float]:
        """Make the table, read a CSV file, and return the store and the seconds that the reading took."""
        made = cls(folder)
        made._db.sql(CREATE_SQL.format(table="cpu")).fetchall()
        started = time.perf_counter()
        made._db.ingest("cpu", path)
        return made, time.perf_counter() - started

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of the answer."""
        rows: list[tuple[Any, ...]] = self._db.sql(sql).fetchall()
        return rows

    def arrow(self, sql: str) -> pa.Table:
        """All rows of the answer, as a table."""
        return self._db.sql(sql).arrow()

    def counters(self, sql: str) -> dict[str, Any]:
        """What the statement read and what it did not have to."""
        result = self._db.sql(sql)
        result.fetchall()
        counters: dict[str, Any] = dict(result.stats)
        return counters

    def size_bytes(self) -> int:
        """The database folder, all files."""
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def close(self) -> None:
        """Close the database."""
        self._db.close()


class Duck:
    """DuckDB: a native table in its own file, or a view over a Parquet file."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        import duckdb

        self.name = name
        self._path = path
        self._connection = duckdb.connect(str(path) if path.suffix == ".duckdb" else ":memory:")
        self._connection.execute(source)
        if path.suffix == ".duckdb":
            self._connection.execute("CHECKPOINT")

    @classmethod
    def native(cls, name: str, parquet: Path, path: Path) -> Duck:
        """A native table with the rows in the Parquet file's order."""
        return cls(name, path, f"CREATE TABLE cpu AS FROM read_parquet('{parquet}')")

    @classmethod
    def over_parquet(cls, name: str, parquet: Path) -> Duck:
        """A view over the Parquet file."""
        return cls(name, parquet, f"CREATE VIEW cpu AS FROM read_parquet('{parquet}')")

    @classmethod
    def load_csv(cls, csv: Path, path: Path) -> float:
        """Read a CSV file into a native table with declared types; the seconds until it is on disk."""
        columns = ", ".join(f"{name} {kind}" for name, kind in _DUCK_COLUMNS.items())
        loaded = cls("load", path, f"CREATE TABLE cpu ({columns})")
        started = time.perf_counter()
        declared = ", ".join(f"'{name}': '{kind}'" for name, kind in _DUCK_COLUMNS.items())
        loaded._connection.execute(f"INSERT INTO cpu FROM read_csv('{csv}', header = true, columns = {{{declared}}})")
        loaded._connection.execute("CHECKPOINT")
        seconds = time.perf_counter() - started
        loaded.close()
        return seconds

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of the answer."""
        rows: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        return rows

    def arrow(self, sql: str) -> pa.Table:
        """All rows of the answer, as a table."""
        return self._connection.sql(sql).to_arrow_table()

    def size_bytes(self) -> int:
        """The database file or the Parquet file."""
        return self._path.stat().st_size

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
