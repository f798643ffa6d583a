"""Golden scripts: text files of statements and what they answer.

A script is a sequence of blocks with an empty line between them. A block is one statement, a line ``---``, and the expected
output: a line of column names and a line per row, ``ok`` for a statement that returns no rows, or ``error`` with kind and message.
Lines that start with ``#`` are comments. Two steer the block below: ``# not duckdb`` (DuckDB cannot run this, or orders ties
otherwise) and ``# only default`` (the output depends on the page size).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

import tsdb
from support.quiet import without_background

NOT_DUCKDB = "# not duckdb"
ONLY_DEFAULT = "# only default"


@dataclass
class Block:
    """One statement with its comments and expected output."""

    comments: list[str] = field(default_factory=list)
    statement: str = ""
    expected: str = ""


def read_blocks(text: str) -> Iterator[Block]:
    """The blocks of a script; a block of comments alone has no statement."""
    for part in re.split(r"\n{2,}", text.strip("\n")):
        lines = part.split("\n")
        end = lines.index("---") if "---" in lines else len(lines)
        comments = [line for line in lines[:end] if line.startswith("#")]
        statement = "\n".join(line for line in lines[:end] if not line.startswith("#"))
        yield Block(comments, statement, "\n".join(lines[end + 1 :]))


def write_blocks(blocks: list[Block]) -> str:
    """The text of a script."""
    parts = []
    for block in blocks:
        lines = [*block.comments, *([block.statement, "---", block.expected] if block.statement else [])]
        parts.append("\n".join(line for line in lines if line))
    return "\n\n".join(parts) + "\n"


def shown(value: Any) -> str:
    """A value as a script shows it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, str):
        return value if value and value == value.strip() and "|" not in value and value != "NULL" else repr(value)
    return str(value)


def table_text(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    """Names and rows, a line each."""
    return "\n".join(" | ".join(line) for line in [names, *([shown(value) for value in row] for row in rows)])


class ScriptRun:
    """Runs scripts on a new database, with pages of a given size, and asks DuckDB over the same data where it can."""

    def __init__(self, folder: Path, page_rows: int | None) -> None:
        self.db = without_background(tsdb.open(folder / "db", threads=1))
        self.page_rows = page_rows
        self.duck: duckdb.DuckDBPyConnection | None = None

    def run(self, block: Block) -> str:
        """The output of a block's statement."""
        sql = block.statement
        if self.page_rows is not None and sql.upper().startswith("CREATE TABLE") and "WITH (" not in sql:
            sql = f"{sql.rstrip().rstrip(';')} WITH (page_rows = {self.page_rows})"
        if not is_query(sql):
            self.duck = None
        try:
            result = self.db.sql(sql)
            rows = result.fetchall()
        except tsdb.Error as error:
            return f"error {type(error).__name__}: {error}"
        if sql.upper().startswith(("EXPLAIN", "SHOW CREATE")):
            return "\n".join(str(line) for (line,) in rows)
        return table_text(result.columns, rows) if result.columns else "ok"

    def duckdb_output(self, sql: str) -> str:
        """DuckDB's answer to a query over what the tables hold now."""
        if self.duck is None:
            self.duck = duckdb.connect(config={"python_enable_replacements": False, "threads": 1})
            self.duck.execute("SET TimeZone = 'UTC'")
            for name in self.db.tables():
                columns = ", ".join(f'"{row[0]}" {row[1]}' for row in self.db.sql(f'DESCRIBE "{name}"').fetchall())
                self.duck.execute(f'CREATE TABLE "{name}" ({columns})')
                rows = self.db.sql(f'SELECT * FROM "{name}"').arrow()
                self.duck.register("__rows", rows)
                self.duck.execute(f'INSERT INTO "{name}" FROM __rows')
        found = self.duck.execute(sql)
        return table_text([column[0] for column in found.description], found.fetchall())

    def close(self) -> None:
        """Close the database."""
        self.db.close()


def is_query(sql: str) -> bool:
    """Whether DuckDB can be asked the same."""
    return sql.upper().startswith(("SELECT", "WITH", "FROM", "VALUES", "(", "TABLE"))
