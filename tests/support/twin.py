"""A table in tsdb and the same rows in DuckDB, to ask both the same question."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb

import tsdb
from support.quiet import without_background

#: A table with a column of every type; ``id`` tells rows apart.
DDL = (
    "time TIMESTAMP_NS TIME, host STRING TAG, rack INT32 TAG, up BOOLEAN TAG, id INT64, i INT32, l INT64, f FLOAT, d DOUBLE, "
    "s STRING, b BOOLEAN, dt DATE, ts TIMESTAMP_S, tm TIMESTAMP_MS, tu TIMESTAMP_US, blob BLOB, v VECTOR(2)"
)


class Twin:
    """``rows`` (dicts of DuckDB literals by column) in table ``t`` of both; the later files of tsdb get the later rows.

    The last ``memory`` of the files are not written: their rows stay in memory.
    """

    def __init__(
        self, folder: Path, rows: list[dict[str, str]], *, ddl: str = DDL, page_rows: int = 8192, files: int = 1, memory: int = 0
    ) -> None:
        self.db = without_background(tsdb.open(folder / "db", threads=1))
        self.db.sql(f"CREATE TABLE t ({ddl}) WITH (page_rows = {page_rows})")
        self.duck = duckdb.connect(config={"python_enable_replacements": False, "threads": 1})
        self.duck.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f'"{name}" {kind}' for name, kind, _ in self.db.sql("DESCRIBE t").fetchall())
        self.duck.execute(f"CREATE TABLE t ({columns})")
        for row in rows:
            names = ", ".join(f'"{name}"' for name in row)
            self.duck.execute(f"INSERT INTO t ({names}) VALUES ({', '.join(row.values())})")
        table = self.duck.sql("FROM t").to_arrow_table()
        for at in range(files):
            part = table.slice(len(table) * at // files, len(table) * (at + 1) // files - len(table) * at // files)
            if len(part):
                self.db.write("t", part)
                if at < files - memory:
                    self.db.flush()

    def close(self) -> None:
        """Close both."""
        self.db.close()
        self.duck.close()

    def duck_rows(self, sql: str, params: Any = None) -> list[tuple[Any, ...]]:
        """DuckDB's answer."""
        return [plain(row) for row in self.duck.execute(sql, params or []).fetchall()]

    def rows(self, sql: str, params: Any = None, **settings: object) -> list[tuple[Any, ...]]:
        """tsdb's answer."""
        return [plain(row) for row in self.db.sql(sql, params, settings=settings).fetchall()]

    def check(self, sql: str, params: Any = None, *, ordered: bool = False) -> list[tuple[Any, ...]]:
        """Assert that both answer the same, in the same order if ``ordered``; with native operators and without."""
        wanted = self.duck_rows(sql, params)
        for native in (True, False):
            found = self.rows(sql, params, enable_native_operators=native)
            if ordered:
                assert found == wanted, f"{sql} {params} native={native}"
            else:
                assert sorted(map(repr, found)) == sorted(map(repr, wanted)), f"{sql} {params} native={native}"
        return wanted

    def plan(self, sql: str, params: Any = None) -> str:
        """The plan as text."""
        return "\n".join(line for (line,) in self.db.sql("EXPLAIN " + sql, params).fetchall())


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row whose NaN equals itself and whose −0.0 is told from 0.0."""
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else repr(v) if isinstance(v, float) else v for v in row)
