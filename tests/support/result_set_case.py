"""Random multi-queries, and what they must answer: nested evaluation in plain Python, set by set and row by row.

Conditions are small trees that are written as SQL or as CQL2-JSON and evaluated here with three values. The database is three
tables with a column of every type, of few different values, so that sets of one table meet rows of another.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import tsdb
from tsdb.catalog.table import TableOptions, build_schema
from tsdb_format.types import Role

TABLES = ("a", "b", "c")
EPOCH = datetime.datetime(2024, 1, 1)
#: Column: type, role, values; every table has all of them.
COLUMNS: dict[str, tuple[str, Role, tuple[Any, ...]]] = {
    "host": ("STRING", Role.TAG, ("h0", "h1", "h2", "h'3", "a host of many bytes", "a host of many bytez", None)),
    "slot": ("INT32", Role.TAG, (0, 1, 2)),
    "n": ("INT64", Role.FIELD, (0, 1, 2, -5, 2**53 + 1, 2**62, None)),
    "i": ("INT32", Role.FIELD, (0, 1, 2, 7, None)),
    "f": ("DOUBLE", Role.FIELD, (0.0, -0.0, 1.5, math.nan, math.inf, 0.1, None)),
    "g": ("FLOAT", Role.FIELD, (0.0, -0.0, 1.5, math.nan, 0.1, None)),
    "s": ("STRING", Role.FIELD, ("h0", "h1", "", "x%", "ü", "a text of more than sixteen bytes", None)),
    "u": ("BOOLEAN", Role.FIELD, (True, False, None)),
    "d": ("DATE", Role.FIELD, (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), datetime.date(1969, 12, 31), None)),
    "m": ("TIMESTAMP_MS", Role.FIELD, (EPOCH, EPOCH + datetime.timedelta(seconds=1), EPOCH + datetime.timedelta(days=1), None)),
    "r": ("BLOB", Role.FIELD, (b"", b"\x00", b"abc", b"abd", b"x" * 40, None)),
    "v": ("VECTOR(2)", Role.FIELD, ((0.0, 1.0), (-0.0, 1.0), (math.nan, 0.0), (1.0, 2.0), None)),
    "owner": ("STRING", Role.ATTRIBUTE, ("ann", "bob", "h0", None)),
}  # fmt: skip
#: Columns whose values are compared with each other as they are.
GROUPS = (("host", "s", "owner"), ("n", "i", "slot"), ("f", "g"), ("u",), ("d",), ("m",), ("r",), ("v",), ("time",))
_TICKS = 12
#: Two levels of sets over the tables of tests/resultset/conftest.py.
SCRIPT = """
RESULT SET hosts AS (SELECT host FROM alarm WHERE level > 3);
RESULT SET racks AS (SELECT rack FROM machine WHERE host IN RESULT SET hosts);
SELECT time, rack, celsius FROM temperature WHERE rack IN RESULT SET racks ORDER BY celsius;
"""


# ---------------------------------------------------------------------------------------------- data


def make_database(path: Path, random: Random, rows: int = 40, **options: Any) -> tsdb.Database:
    """A database of the three tables: rows in files, in memory, or in both."""
    db = tsdb.open(path, threads=2)
    for table in TABLES:
        columns = [("time", "TIMESTAMP_US", Role.TIME), *((name, kind, role) for name, (kind, role, _) in COLUMNS.items())]
        db._store.create_table(table, build_schema(columns), TableOptions(rows_per_page=random.choice((4, 8192)), **options))
        for part in range(random.randint(1, 3)):
            db.write(table, _data(random, rows // 2))
            if random.random() < 0.5 and part == 0:
                db.flush()
    return db


def _data(random: Random, count: int) -> dict[str, Any]:
    made: dict[str, Any] = {"time": np.array([_tick(random) for _ in range(count)], "M8[us]")}
    for name, (kind, _, values) in COLUMNS.items():
        column = [random.choice(values) for _ in range(count)]
        types = {"STRING": pa.string(), "BLOB": pa.binary(), "VECTOR(2)": pa.list_(pa.float32(), 2), "FLOAT": pa.float32()}
        made[name] = pa.array(column, types.get(kind, None if any(v is not None for v in column) else pa.int32()))
    return pa.table(made)


def _tick(random: Random) -> datetime.datetime:
    return EPOCH + datetime.timedelta(seconds=random.randrange(_TICKS))


# ---------------------------------------------------------------------------------------------- conditions


@dataclass(frozen=True)
class Atom:
    """A comparison of a column with literals: ``op`` is one of = <> < > in null between."""

    column: str
    op: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class InSet:
    """Columns that are a member of a named set."""

    columns: tuple[str, ...]
    name: str


@dataclass(frozen=True)
class Junction:
    """AND, OR or NOT."""

    op: str
    parts: tuple[Any, ...]


def key_of(value: Any) -> Any:
    """A value so that equal keys are equal values, as a join has it."""
    if isinstance(value, float | np.floating):
        return "nan" if math.isnan(value) else float(value) + 0.0
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(key_of(float(each)) for each in value)
    return value


def evaluate(node: Any, row: Mapping[str, Any], sets: Mapping[str, set[Any]]) -> bool | None:
    """A condition over a row, with three values."""
    if isinstance(node, Junction):
        found = [evaluate(part, row, sets) for part in node.parts]
        if node.op == "not":
            return None if found[0] is None else not found[0]
        deciding = node.op == "or"
        return deciding if deciding in found else None if None in found else not deciding
    if isinstance(node, InSet):
        members = sets[node.name]
        if not members:
            return False
        values = [None if row[column] is None else key_of(row[column]) for column in node.columns]
        alike = (all(a in (None, b) for a, b in zip(values, member, strict=True)) for member in members)
        return tuple(values) in members if None not in values else None if any(alike) else False
    value = row[node.column]
    if node.op == "null":
        return value is None
    if value is None:
        return None
    match node.op:
        case "=":
            return value == node.values[0]
        case "<>":
            return value != node.values[0]
        case "<":
            return value < node.values[0]
        case ">":
            return value > node.values[0]
        case "between":
            return node.values[0] <= value <= node.values[1]
    return value in node.values


def truth(node: Any, empty: set[str]) -> bool | None:
    """What is known of a condition when all that is known is which sets are empty."""
    if isinstance(node, Junction):
        found = [truth(part, empty) for part in node.parts]
        if node.op == "not":
            return None if found[0] is None else not found[0]
        deciding = node.op == "or"
        return deciding if deciding in found else None if None in found else not deciding
    return False if isinstance(node, InSet) and node.name in empty else None


def sql(node: Any) -> str:
    """A condition as SQL."""
    match node:
        case Junction("not", (inner,)):
            return f"NOT ({sql(inner)})"
        case Junction(op, parts):
            return "(" + f" {op} ".join(sql(part) for part in parts) + ")"
        case InSet((column,), name):
            return f"{column} IN RESULT SET {name}"
        case InSet(columns, name):
            return f"({', '.join(columns)}) IN RESULT SET {name}"
        case Atom(column, "null"):
            return f"{column} IS NULL"
        case Atom(column, "in", values):
            return f"{column} IN ({', '.join(map(_literal, values))})"
        case Atom(column, "between", (low, high)):
            return f"{column} BETWEEN {_literal(low)} AND {_literal(high)}"
    return f"{node.column} {node.op} {_literal(node.values[0])}"


def cql2(node: Any) -> Any:
    """A condition as CQL2-JSON."""
    match node:
        case Junction(op, parts):
            return {"op": op, "args": [cql2(part) for part in parts]}
        case InSet((column,), name):
            return {"op": "inResultSet", "args": [{"property": column}, name]}
        case InSet(columns, name):
            return {"op": "inResultSet", "args": [[{"property": column} for column in columns], name]}
        case Atom(column, "null"):
            return {"op": "isNull", "args": [{"property": column}]}
        case Atom("time" | "m" as column, "<" | ">" as op, (value,)):
            return {
                "op": "t_before" if op == "<" else "t_after",
                "args": [{"property": column}, {"timestamp": f"{value.isoformat()}Z"}],
            }
        case Atom(column, "in", values):
            return {"op": "in", "args": [{"property": column}, [_json(value) for value in values]]}
        case Atom(column, "between", values):
            return {"op": "between", "args": [{"property": column}, *map(_json, values)]}
    return {"op": node.op, "args": [{"property": node.column}, _json(node.values[0])]}


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return "'" + value.replace("'", "''") + "'"


def _json(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return {"timestamp": f"{value.isoformat()}Z"}
    return {"date": value.isoformat()} if isinstance(value, datetime.date) else value


# ---------------------------------------------------------------------------------------------- documents


@dataclass
class Query:
    """One query: the sets that it declares are columns by name."""

    table: str
    condition: Any
    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    only: bool = False
    limit: int | None = None


@dataclass
class Model:
    """What a document must answer: members by set, rows by query, and what is run for it."""

    sets: dict[str, set[Any]]
    rows: list[list[tuple[Any, ...]]]
    referenced: set[str]
    skipped: set[str]
    statements: int


def random_document(random: Random, queries: int) -> list[Query]:
    """Queries, each after the first mostly over sets of those before."""
    made: list[Query] = []
    for at in range(queries):
        visible = {name: columns for query in made for name, columns in query.sets.items()}
        sets = {}
        for number in range(random.choice((1, 1, 2))):
            group = random.choice(GROUPS)
            several = random.random() < 0.25
            sets[f"s{at}_{number}"] = (
                (random.choice(group), random.choice(random.choice(GROUPS))) if several else (random.choice(group),)
            )
            if len(set(sets[f"s{at}_{number}"])) < len(sets[f"s{at}_{number}"]):
                sets[f"s{at}_{number}"] = sets[f"s{at}_{number}"][:1]
        limited = random.choice((None, None, 3))
        condition = random_condition(random, visible, 3)
        if random.random() < 0.2:
            condition = Junction("and", (condition, _NOTHING))
        elif visible and random.random() < 0.6:
            condition = Junction("and", (_in_set(random, visible), condition))
        made.append(Query(random.choice(TABLES), condition, sets, bool(sets) and random.random() < 0.5, limited))
    if all(query.only for query in made):
        made[-1].only = False
    return made


def random_condition(random: Random, visible: Mapping[str, tuple[str, ...]], depth: int) -> Any:
    """A condition; sets occur where there are any, and some conditions that nothing satisfies."""
    if depth and random.random() < 0.6:
        op = random.choice(("and", "and", "or", "not"))
        count = 1 if op == "not" else random.randint(1, 3)
        return Junction(op, tuple(random_condition(random, visible, depth - 1) for _ in range(count)))
    if visible and random.random() < 0.65:
        return _in_set(random, visible)
    return _NOTHING if random.random() < 0.25 else _atom(random)


def _in_set(random: Random, visible: Mapping[str, tuple[str, ...]]) -> InSet:
    name = random.choice(list(visible))
    columns = tuple(random.choice(next(group for group in GROUPS if column in group)) for column in visible[name])
    return InSet(columns, name)


_NOTHING = Atom("n", ">", (2**62,))


def _atom(random: Random) -> Atom:
    column = random.choice(("host", "slot", "n", "i", "s", "u", "d", "m", "time", "owner"))
    if random.random() < 0.2:
        return Atom(column, "null")
    values = [_tick(random) for _ in range(3)] if column == "time" else [v for v in COLUMNS[column][2] if v is not None]
    if column == "u":
        return Atom(column, "=", (random.choice(values),))
    op = random.choice(("=", "<>", "<", ">", "in", "between"))
    if op in ("<", ">", "between") and column in ("host", "s", "owner"):
        op = "="
    count = {"in": random.randint(1, 2), "between": 2}.get(op, 1)
    return Atom(column, op, tuple(random.choice(values) for _ in range(count)))


def document_of(queries: Iterable[Query], random: Random) -> dict[str, Any]:
    """The document, its filters in either language."""
    made = []
    for at, query in enumerate(queries):
        entry: dict[str, Any] = {"table": query.table, "name": f"q{at}"}
        entry["filter"] = sql(query.condition) if random.random() < 0.5 else cql2(query.condition)
        if query.sets:
            entry["result_sets"] = {
                name: {"value": columns[0] if len(columns) == 1 else list(columns)} for name, columns in query.sets.items()
            }
        if query.only:
            entry["result_set_only"] = True
        if query.limit is not None:
            entry |= {"limit": query.limit, "order_by": ["n", {"column": "time", "descending": True}]}
        made.append(entry)
    return {"queries": made}


def references(node: Any) -> set[str]:
    """The sets that a condition names."""
    if isinstance(node, Junction):
        return set().union(*(references(part) for part in node.parts))
    return {node.name} if isinstance(node, InSet) else set()


def expected(queries: list[Query], tables: Mapping[str, list[dict[str, Any]]], *, deduplicate: bool = False) -> Model:
    """Nested evaluation, and a model of what has to be run."""
    sets: dict[str, set[Any]] = {}
    seen: set[int] = set()
    rows = []
    for query in queries:
        chosen = [row for row in tables[query.table] if evaluate(query.condition, row, sets) is True]
        for name, columns in query.sets.items():
            tuples = (tuple(row[column] for column in columns) for row in chosen)
            sets[name] = {tuple(map(key_of, each)) for each in tuples if None not in each}
        if not query.only:
            rows.append([tuple(row.values()) for row in chosen if id(row) not in seen])
            seen |= {id(row) for row in chosen if deduplicate}
    declared = {name: query for query in queries for name in query.sets}
    referenced: set[str] = set()
    waiting = [name for query in queries if not query.only for name in references(query.condition)]
    while waiting:
        name = waiting.pop()
        if name not in referenced:
            referenced.add(name)
            waiting += references(declared[name].condition)
    empty: set[str] = set()
    skipped = set()
    for name, query in declared.items():
        if name in referenced:
            if truth(query.condition, empty) is False:
                skipped.add(name)
                empty.add(name)
            elif not sets[name]:
                empty.add(name)
    asked = sum(not query.only and truth(query.condition, empty) is not False for query in queries)
    return Model(sets, rows, referenced, skipped, len(referenced - skipped) + asked)


def rows_of(db: tsdb.Database) -> dict[str, list[dict[str, Any]]]:
    """The rows of every table, as they are now."""
    made = {}
    for table in TABLES:
        result = db.sql(f"SELECT * FROM {table}")
        made[table] = [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]
    return made


def comparable(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Rows in an order of their own, by their values."""
    return sorted(repr(tuple(map(key_of, row))) for row in rows)


def leftovers(db: tsdb.Database) -> list[str]:
    """What is in the folder of temporary files."""
    folder = Path(db.path) / "temporary"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
