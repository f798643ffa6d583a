"""The same rows in tsdb and in DuckDB, the same SQL on both, and answers compared to the bit.

DuckDB holds what the writes should have made of the table, overlaid in plain Python. Where rows tie, SQL leaves their order open
and tsdb does not: ``/*ties t*/`` after the keys of an ORDER BY marks a place where the order of the source ``t`` must be made
total. In a user's text it is a comment; for DuckDB, which has no order of ties, it is spelled out (tags, time, arrival).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import tsdb
from support.quiet import without_background
from support.snapshots import Row, overlay, tag_order
from tsdb.exec.arrow import arrow_type
from tsdb.plan.schema import duckdb_name
from tsdb_format.schema import SEQUENCE_NAME, Schema
from tsdb_format.types import Kind, Role

#: What every question is asked under; a page of four rows makes every table many pages.
SETTINGS: Mapping[str, dict[str, object]] = {
    "filter": {"threads": 1},
    "filter, two threads": {"threads": 2},
    "no filter": {"threads": 1, "enable_topk_runtime_filter": False},
    "no operators of ours": {"threads": 2, "enable_native_operators": False},
}
PAGES = (4, 8192)
LEVELS = ("resources", "devices", "files", "chunks", "pages", "rows")
_TIES = re.compile(r"/\*ties (\w+)(?: of (\w+))?\*/")

#: What DuckDB refuses because of a value that it came by, where we, who compare without casting the column, may well answer.
UNJUDGED = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.NotImplementedException)

Counters = dict[str, Any]


@dataclass(frozen=True)
class TableCase:
    """A table and the rows that were written to it, commit by commit; a commit may leave columns out."""

    name: str
    schema: Schema
    commits: Sequence[Sequence[Row]]
    mode: str = "table"
    options: str = ""

    def visible(self) -> list[Row]:
        """The rows as a reader sees them; those of an appending table in the order of arrival."""
        written = [{**row, SEQUENCE_NAME: number} for number, commit in enumerate(self.commits, 1) for row in commit]
        rows = overlay(self.schema, written, "table") if self.mode == "table" else written
        names = [column.name for column in self.schema if column.role is Role.ATTRIBUTE]
        device = tag_order(self.schema)
        newest: dict[Any, Row] = {}
        for row in written:
            newest.setdefault(device(row), {}).update({name: row[name] for name in names if row.get(name) is not None})
        return [{**row, **dict.fromkeys(names), **newest[device(row)]} for row in rows]

    def create_sql(self, rows_per_page: int) -> str:
        """The CREATE TABLE statement."""
        columns = ", ".join(f'"{c.name}" {c.type} {c.role.name}' for c in self.schema)
        return f"CREATE TABLE \"{self.name}\" ({columns}) WITH (mode = '{self.mode}', page_rows = {rows_per_page}{self.options})"


@dataclass(frozen=True)
class Question:
    """A SELECT. ``ordered``: its ORDER BY, with ties spelled out, is total. ``zeros``: −0.0 and 0.0 may stand for each other.

    ``close``: floats may differ by a relative 1e-12, since sums are taken in any order. ``theirs``: what DuckDB is asked instead.
    """

    text: str
    ordered: bool = False
    zeros: bool = False
    parameters: Any = None
    close: bool = False
    theirs: str = ""


@dataclass
class Answer:
    """What a question gave: names and types of its columns, and rows in a form that compares to the bit."""

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    counters: Counters = field(default_factory=dict)


#: Whether memory is flushed after a commit: by the numbers of the database and of the commit.
Flushed = Callable[[int, int], bool]


def _by_turns(at: int, number: int) -> bool:
    """Files of one commit or two, and the last one in memory here or there."""
    return (number + at) % 2 == 0


class Oracle:
    """Databases that hold the same tables, by rows per page, and DuckDB with the rows that readers should see."""

    def __init__(
        self, tables: Iterable[TableCase], duck: duckdb.DuckDBPyConnection, databases: Mapping[int, tsdb.Database]
    ) -> None:
        self.tables = {table.name: table for table in tables}
        self.duck = duck
        self.databases = databases

    @classmethod
    def build(cls, folder: Path, tables: Sequence[TableCase], pages: Sequence[int] = PAGES, flushed: Flushed = _by_turns) -> Oracle:
        """Write the tables to a database per page size, and to DuckDB. ``flushed`` says after which commits memory is flushed."""
        duck = duckdb.connect()
        duck.execute("SET TimeZone = 'UTC'")
        for table in tables:
            names = ", ".join(f'"{c.name}" {duckdb_name(c.type)}' for c in table.schema)
            duck.execute(f'CREATE TABLE "{table.name}" ({names})')
            duck.register("given", arrow_table(table.schema, table.visible()))
            duck.execute(f'INSERT INTO "{table.name}" SELECT * FROM given')
            duck.unregister("given")
        databases = {size: without_background(tsdb.open(folder / str(size))) for size in pages}
        for at, (size, database) in enumerate(databases.items()):
            for table in tables:
                database.sql(table.create_sql(size))
                for number, commit in enumerate(table.commits):
                    if commit:
                        database.write(table.name, arrow_table(table.schema, commit, only_given=True))
                    if flushed(at, number):
                        database.flush()
        return cls(tables, duck, databases)

    def close(self) -> None:
        """Close everything."""
        for database in self.databases.values():
            database.close()
        self.duck.close()

    # ---------------------------------------------------------------------------------------------- asking

    def check(self, question: Question, settings: Mapping[str, dict[str, object]] = SETTINGS) -> dict[tuple[int, str], Counters]:
        """Ask both, everywhere; the counters of each run by page size and settings. Raises AssertionError where answers differ."""
        expected = self.expected(question)
        if isinstance(expected, UNJUDGED):
            return {}
        counters: dict[tuple[int, str], Counters] = {}
        plans = self._plans(question, settings)
        for size, database in self.databases.items():
            for label, values in settings.items():
                where, plan = f"page of {size} rows, {label}", plans[label]
                text = question.text if self.ties_are_ours(plan, question) else self.spelled(question.text, "_sn")
                if isinstance(expected, duckdb.Error):
                    assert_refused(database, text, question, values, where, expected)
                    continue
                got = ask(database, text, question, values)
                difference = compare(got, expected, question)
                assert not difference, f"{where}\n{text}\n{question.parameters or ''}\n{difference}"
                counters[size, label] = got.counters
                if label == "filter" and size == next(iter(self.databases)):
                    self._check_python_values(database, text, question, values, where)
                check_counters(got.counters, f"{where}\n{text}", values, "DuckQuery" not in plan)
            one, two = (counters.get((size, label)) for label in ("filter", "filter, two threads"))
            assert one == two or two is None or "DuckQuery" in plan, f"counters depend on threads: {question.text}\n{one}\n{two}"
        return counters

    def _plans(self, question: Question, settings: Mapping[str, dict[str, object]]) -> dict[str, str]:
        """The plan under each setting; what does not shape plans gives none of its own."""
        database = next(iter(self.databases.values()))
        made: dict[tuple[object, ...], str] = {}
        plans = {}
        for label, values in settings.items():
            shape = tuple(values.get(name) for name in ("enable_native_operators", "enable_topk_runtime_filter"))
            if shape not in made:
                made[shape] = explained(database, question, values) if shape[0] is not False else "DuckQuery"
            plans[label] = made[shape]
        return plans

    def _check_python_values(
        self, database: tsdb.Database, text: str, question: Question, values: Mapping[str, object], where: str
    ) -> None:
        """``fetchall`` gives the Python values that DuckDB's does; it has none for some far times."""
        try:
            expected = self.duck.sql(self.spelled(question.theirs or question.text, "rowid"), params=question.parameters).fetchall()
        except duckdb.ConversionException:
            return
        found = database.sql(text, question.parameters, settings=values).fetchall()
        difference = _difference([_named(row) for row in found], [_named(row) for row in expected], question)
        assert not difference, f"{where}\n{text}\nfetchall: {difference}"

    def expected(self, question: Question) -> Answer | duckdb.Error:
        """DuckDB's answer, or its refusal."""
        text = self.spelled(question.theirs or question.text, "rowid")
        try:
            relation = self.duck.sql(text, params=question.parameters)
            return Answer(list(relation.columns), [str(kind) for kind in relation.types], rows_of(relation.to_arrow_table()))
        except duckdb.Error as error:
            return error

    def spelled(self, text: str, arrival: str) -> str:
        """The text with the order of ties in it; ``arrival`` is the column that tells rows of equal tags and time apart."""

        def keys(found: re.Match[str]) -> str:
            alias, table = found[1], self.tables[found[2] or found[1]]
            columns = [*table.schema.tags, table.schema.time]
            last = [arrival] if table.mode != "table" else []
            return "".join(f", {alias}.{name}" for name in [*(f'"{c.name}"' for c in columns), *last])

        return _TIES.sub(keys, text)

    def ties_are_ours(self, plan: str, question: Question) -> bool:
        """Whether every order that leaves ties open is one of our operators', whose order is total."""
        wanted = len(_TIES.findall(question.text))
        return len(re.findall(r"(?m)^\s*(?:\w+: )?(?:TopK|Sort|Limit|LastRow) ", plan)) >= wanted


def explained(database: tsdb.Database, question: Question, values: Mapping[str, object]) -> str:
    """The plan of a question; empty where it is refused."""
    try:
        lines = database.sql("EXPLAIN " + question.text, question.parameters, settings=values).fetchall()
    except tsdb.Error:
        return ""
    return "\n".join(line for (line,) in lines)


def ask(database: tsdb.Database, text: str, question: Question, values: Mapping[str, object]) -> Answer:
    """tsdb's answer, read as Arrow, with the counters of the run that gave it."""
    result = database.sql(text, question.parameters, settings=values)
    table = result.arrow()
    answer = Answer(result.columns, result.types, rows_of(table), result.stats)
    result.close()
    return answer


def assert_refused(
    database: tsdb.Database, text: str, question: Question, values: Mapping[str, object], where: str, error: Exception
) -> None:
    """What DuckDB refuses is refused, as one of our errors."""
    try:
        got = ask(database, text, question, values)
    except tsdb.Error:
        return
    raise AssertionError(f"{where}\n{text}\nDuckDB refuses: {error}\ntsdb answers: {got.rows[:5]}")


# -------------------------------------------------------------------------------------------------- comparing


def compare(got: Answer, expected: Answer, question: Question) -> str:
    """How two answers differ; empty where they do not."""
    if got.columns != expected.columns:
        return f"columns {got.columns} instead of {expected.columns}"
    if got.types != expected.types:
        return f"types {got.types} instead of {expected.types}"
    return _difference(got.rows, expected.rows, question)


def _difference(mine: list[tuple[Any, ...]], other: list[tuple[Any, ...]], question: Question) -> str:
    if question.zeros:
        mine, other = [[_without_sign(row) for row in rows] for rows in (mine, other)]
    if not question.ordered:
        mine, other = sorted(mine, key=_rounded), sorted(other, key=_rounded)
    if mine == other or (question.close and len(mine) == len(other) and all(map(_is_close, mine, other))):
        return ""
    pairs = enumerate(zip(mine, other, strict=False))
    at = next((i for i, (a, b) in pairs if not (_is_close(a, b) if question.close else a == b)), min(len(mine), len(other)))
    return (
        f"{len(mine)} rows instead of {len(other)}; the first that differs is number {at}:\n"
        f"  got      {mine[at : at + 3]}\n  expected {other[at : at + 3]}"
    )


def _rounded(value: Any) -> str:
    """What rows are sorted by: as text, with floats to nine digits."""
    if isinstance(value, tuple):
        return f"{float.fromhex(value[1]):.8e}" if value[:1] == ("float",) else "(" + ", ".join(map(_rounded, value)) + ")"
    return repr(value)


def _is_close(mine: Any, other: Any) -> bool:
    """Whether values are equal but for floats that differ by a relative 1e-12; the signs of zeros count."""
    if isinstance(mine, tuple) and isinstance(other, tuple):
        if mine[:1] == other[:1] == ("float",):
            one, two = float.fromhex(mine[1]), float.fromhex(other[1])
            return mine == other or (one != 0 and math.isclose(one, two, rel_tol=1e-12))
        return len(mine) == len(other) and all(map(_is_close, mine, other))
    return bool(mine == other)


def _named(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python values in a form that compares to the bit and tells types apart."""
    return tuple(_plain(value) if isinstance(value, float | list | dict) else repr(value) for value in row)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples that compare to the bit: times as ticks, floats with the sign of their zero, NaN equal to NaN."""
    columns = [_values(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return [None if tick is None else (str(kind), tick) for tick in _ticks(column)]
    if pa.types.is_date32(kind):
        return [None if day is None else ("date", day) for day in column.cast(pa.int32()).to_pylist()]
    return [_plain(value) for value in column.to_pylist()]


def _ticks(column: pa.ChunkedArray) -> list[int | None]:
    return [tick for chunk in column.chunks for tick in chunk.view(pa.int64()).to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value.hex())
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _plain(item)) for name, item in value.items())
    return value


def _without_sign(value: Any) -> Any:
    if isinstance(value, tuple):
        return ("float", "0x0.0p+0") if value == ("float", "-0x0.0p+0") else tuple(map(_without_sign, value))
    return value


def check_counters(counters: Counters, where: str, values: Mapping[str, object], native: bool) -> None:
    """What must hold of the counters of any query, whatever was pruned; ``native``: nothing but our operators ran."""
    if not counters:
        return
    pruning = values.get("enable_topk_runtime_filter", True) and values.get("enable_native_operators", True)
    for level in LEVELS:
        fates = ("pruned_by_filter", "pruned_by_topk", "pruned_by_key_domain", "from_statistics", "read")
        parts = [counters[f"{level}_{fate}"] for fate in fates]
        place = f"{where}\n{level}: {dict(zip(fates, parts, strict=True))} of {counters[f'{level}_total']}"
        assert min(parts) >= 0, place
        assert sum(parts) <= counters[f"{level}_total"], place
        if native and counters.get("topk_first_threshold"):
            assert sum(parts) == counters[f"{level}_total"], place
        assert pruning or not counters[f"{level}_pruned_by_topk"], place
    first, updates = counters.get("topk_first_threshold"), counters.get("topk_threshold_updates", 0)
    assert first in ((None, "statistics", "heap") if pruning else (None,)), where
    assert bool(first) == bool(updates), where


# -------------------------------------------------------------------------------------------------- rows


def arrow_table(schema: Schema, rows: Sequence[Row], *, only_given: bool = False) -> pa.Table:
    """Rows as an Arrow table of exactly the schema's types; ``only_given`` leaves out columns that no row has."""
    given = {name for row in rows for name in row}
    names = [column.name for column in schema if column.role is not Role.SEQUENCE and (not only_given or column.name in given)]
    return pa.table({name: _arrow_column(schema.column(name).type, [row.get(name) for row in rows]) for name in names})


def _arrow_column(kind: Any, values: list[Any]) -> pa.Array:
    target = arrow_type(kind)
    if kind.is_time:
        return pa.array(values, pa.int64()).view(target)
    if kind.kind is Kind.DATE:
        return pa.array(values, pa.int32()).view(target)
    return pa.array(values, target)


def nan_with(payload: int) -> float:
    """A NaN that carries something."""
    found: float = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0000 | payload))[0]
    return found
