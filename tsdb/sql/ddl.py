"""CREATE TABLE and CREATE STREAM: columns with types and roles, keys, options, partitions and shards.

A column is ``name TYPE [TIME | TAG | FIELD | ATTRIBUTE]``, and of a BLOB ``WITH (…)`` may say where it goes by its size. Without a
role it is a field, except that the first timestamp is the TIME column of a table that declares none; a stream that declares none
gets one, which is the moment of the commit. ``name TIME`` alone is a TIME column of type TIMESTAMP_NS. The columns of a stream's
PRIMARY KEY are its tags.
"""

from __future__ import annotations

from typing import Any

from tsdb.catalog.table import BLOB_OPTIONS, TableOptions, build_schema
from tsdb.settings import parse_bytes
from tsdb.sql.duration import parse_duration
from tsdb.sql.statement import CreateTable
from tsdb.sql.stream_ddl import DeclaredColumn, check_shards, read_primary_key, read_shard_by, stream_columns
from tsdb.sql.token import Cursor
from tsdb.suggestion import hint
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import Schema
from tsdb_format.types import Role, parse_type

_ROLES = {"TIME": Role.TIME, "TAG": Role.TAG, "FIELD": Role.FIELD, "ATTRIBUTE": Role.ATTRIBUTE}
_TYPE_WORDS = {
    ("DOUBLE", "PRECISION"): "DOUBLE",
    ("TIMESTAMP", "WITHOUT", "TIME", "ZONE"): "TIMESTAMP",
    ("CHARACTER", "VARYING"): "VARCHAR",
}
_TYPE_SYNONYMS = {
    "DATETIME": "TIMESTAMP", "INT4": "INTEGER", "INT8": "BIGINT", "SIGNED": "INTEGER", "LOGICAL": "BOOLEAN", "BINARY": "BLOB",
    "VARBINARY": "BLOB", "CHAR": "VARCHAR", "BPCHAR": "VARCHAR",
}  # fmt: skip
_ZONED = frozenset({"TIMESTAMPTZ"})
_OPTION_NAMES = {
    "ttl": "ttl_ns", "ttl_ns": "ttl_ns", "partition": "partition_ns", "partition_ns": "partition_ns", "mode": "mode",
    "page_rows": "rows_per_page", "rows_per_page": "rows_per_page", "file_rows": "file_rows_max", "file_rows_max": "file_rows_max",
    "shards": "shards", "blob_inline_max": "blob_inline_max", "blob_packed_max": "blob_packed_max",
}  # fmt: skip
_OPTIONS_SHOWN = ("ttl", "partition", "shards", "mode", "page_rows", "file_rows", "blob_inline_max", "blob_packed_max")
_CONSTRAINTS = frozenset(
    {"PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT", "REFERENCES", "DEFAULT", "GENERATED", "COLLATE", "AS"}
)


def read_create_table(cursor: Cursor) -> CreateTable:
    """The rest of a statement after CREATE TABLE or CREATE STREAM, of which the second word is still to be read."""
    stream = cursor.word() == "STREAM"
    cursor.expect("STREAM" if stream else "TABLE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.relation("a name")
    if cursor.word() == "AS":
        raise InvalidInput("CREATE TABLE … AS is not known: create the table with its roles, then INSERT INTO it")
    cursor.expect_symbol("(")
    options: dict[str, Any] = {}
    columns: list[DeclaredColumn] = []
    while True:
        if stream and cursor.word() == "PRIMARY" and cursor.word(1) == "KEY":
            read_primary_key(cursor, options)
        else:
            columns.append(read_column(cursor))
            _read_default(cursor, columns[-1], options)
            limits = read_blob_limits(cursor)
            if limits is not None:
                options.setdefault("blob_columns", {})[columns[-1][0]] = limits
        if not cursor.accept_symbol(",") or cursor.symbol() == ")":
            break
    cursor.expect_symbol(")")
    _read_options(cursor, options, stream)
    cursor.end()
    if stream:
        columns = stream_columns(columns, options)
    schema = _schema(columns)
    check_shards(schema, options)
    if "blob_columns" in options:  # what a column does not say, the table does
        inline, packed = (options.get(name, getattr(TableOptions(), name)) for name in BLOB_OPTIONS)
        options["blob_columns"] = tuple(
            (name, limits.get("blob_inline_max", inline), limits.get("blob_packed_max", packed))
            for name, limits in options["blob_columns"].items()
        )
    return CreateTable(name, schema, TableOptions(**options), if_not_exists)


def _read_default(cursor: Cursor, column: DeclaredColumn, options: dict[str, Any]) -> None:
    """``DEFAULT now()`` of a TIME column."""
    if column[2] is Role.TIME and cursor.accept("DEFAULT"):
        if not cursor.accept("CURRENT_TIMESTAMP"):
            cursor.expect("NOW")
            cursor.expect_symbol("(")
            cursor.expect_symbol(")")
        options["time_is_now"] = True


def _schema(columns: list[DeclaredColumn]) -> Schema:
    """Give roles to plain columns and build the schema."""
    if not any(role is Role.TIME for _, _, role in columns):
        first = next((i for i, (_, kind, role) in enumerate(columns) if role is None and parse_type(kind).is_time), None)
        if first is None:
            raise InvalidInput("the table has no time column: declare one as name TIMESTAMP_NS TIME (or TIMESTAMP_S, _MS, _US)")
        columns[first] = (columns[first][0], columns[first][1], Role.TIME)
    return build_schema((name, kind, role or Role.FIELD) for name, kind, role in columns)


def read_column(cursor: Cursor) -> DeclaredColumn:
    """The name, type and role of a column, which a comma, a parenthesis or the end of the statement follows."""
    if cursor.word() in _CONSTRAINTS and (cursor.word(1) == "KEY" or cursor.symbol(1) == "("):
        raise InvalidInput(f"{cursor.word()} is not known here: a table's rows are unique by its tags and time")
    name = cursor.name("a column name")
    if cursor.word() == "TIME" and cursor.word(1) != "TIME":
        cursor.expect("TIME")
        return name, "TIMESTAMP_NS", Role.TIME
    kind, role = _read_type(cursor, name), _read_role(cursor)
    not_null = cursor.accept("NOT", "NULL")
    role = role or _read_role(cursor)
    if not_null and role is not Role.TIME:
        raise InvalidInput(f"column {name!r} cannot be NOT NULL: only the TIME column never is NULL")
    more = (role is Role.TIME and cursor.word() == "DEFAULT") or (kind == "BLOB" and cursor.word() == "WITH")
    if not cursor.done and cursor.symbol() not in (",", ")") and not more:
        if cursor.word() in _CONSTRAINTS:
            raise InvalidInput(f"column {name!r}: {cursor.word()} is not known here; a column has a name, a type and a role")
        cursor.fail(f"TIME, TAG, FIELD, ATTRIBUTE, ',' or ')' after column {name!r}")
    return name, kind, role


def read_blob_limits(cursor: Cursor) -> dict[str, int] | None:
    """``WITH (blob_inline_max = …, blob_packed_max = …)`` of a column; None where nothing is said."""
    if not cursor.accept("WITH"):
        return None
    given: dict[str, Any] = {}
    read_option_list(cursor, given)
    for field in given:
        if field not in BLOB_OPTIONS:
            raise InvalidInput(f"{field} is an option of the table; a column has {' and '.join(BLOB_OPTIONS)}")
    return given


def _read_role(cursor: Cursor) -> Role | None:
    role = _ROLES.get(cursor.word())
    if role is not None:
        cursor.at += 1
    return role


def _read_type(cursor: Cursor, column: str) -> str:
    for words, kind in _TYPE_WORDS.items():
        if cursor.accept(*words):
            return kind
    kind = cursor.name(f"a type for column {column!r}")
    if kind.upper() in _ZONED or (cursor.word() == "WITH" and cursor.word(1) == "TIME"):
        raise InvalidInput(f"column {column!r}: timestamps are stored in UTC without a zone; use TIMESTAMP_NS (or _US, _MS, _S)")
    kind = _TYPE_SYNONYMS.get(kind.upper(), kind)
    if cursor.symbol() in ("(", "["):
        closing = ")" if cursor.symbol() == "(" else "]"
        cursor.at += 1
        size = cursor.literal("a number of elements")
        cursor.expect_symbol(closing)
        if kind.upper() in ("VARCHAR", "STRING", "TEXT"):
            return kind  # a length is accepted and ignored, as in DuckDB
        kind = f"{kind}[{size}]" if closing == "]" else f"{kind}({size})"
    try:
        return str(parse_type(kind))
    except InvalidInput as error:
        raise InvalidInput(f"column {column!r}: {error}") from None


def _read_options(cursor: Cursor, options: dict[str, Any], stream: bool) -> None:
    while not cursor.done:
        if cursor.accept("WITH"):
            read_option_list(cursor, options)
        elif cursor.accept("PARTITION", "BY", "INTERVAL"):
            _put_option(options, "partition", _read_interval(cursor))
        elif cursor.accept("TTL"):
            read_ttl(cursor, options)
        elif cursor.accept("SHARDS"):
            _put_option(options, "shards", cursor.literal("a number of shards"))
            if cursor.accept("BY"):
                read_shard_by(cursor, options)
        elif stream and cursor.word() == "PRIMARY" and cursor.word(1) == "KEY":
            read_primary_key(cursor, options)
        else:
            cursor.fail("WITH, PARTITION BY INTERVAL, TTL or SHARDS" + (" or PRIMARY KEY" if stream else ""))


def read_option_list(cursor: Cursor, options: dict[str, Any]) -> None:
    """``(name = value, …)``, added to the fields of ``TableOptions``."""
    cursor.expect_symbol("(")
    while True:
        name = cursor.name("an option's name")
        cursor.expect_symbol("=")
        _put_option(options, name, cursor.literal(f"a value for {name}"))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")


def read_ttl(cursor: Cursor, options: dict[str, Any]) -> None:
    """What follows TTL: ``[INTERVAL] '30d'``, or ``INTERVAL 30 DAYS``."""
    cursor.accept("INTERVAL")
    _put_option(options, "ttl", _read_interval(cursor))


def option_field(name: str) -> str:
    """The field of ``TableOptions`` that an option sets. Raises InvalidInput for an unknown one."""
    field = _OPTION_NAMES.get(name.lower())
    if field is None:
        raise InvalidInput(f"no table option {name!r}; {hint(name, _OPTIONS_SHOWN)}")
    return field


def _put_option(options: dict[str, Any], name: str, value: object) -> None:
    field = option_field(name)
    if field in options:
        raise InvalidInput(f"table option {name!r} is given twice")
    options[field] = _option_value(name, field, value)


def _read_interval(cursor: Cursor) -> str:
    """``'1 day'``, or ``1 DAY``."""
    value = cursor.literal("a length of time")
    return value if isinstance(value, str) else f"{value} {cursor.name('a unit of time')}"


def _option_value(name: str, field: str, value: object) -> object:
    if field in ("ttl_ns", "partition_ns"):
        if isinstance(value, str) and not value.strip().isdigit():
            return parse_duration(value, name)
        if not name.endswith("_ns"):
            raise InvalidInput(f"{name} needs a unit: write for example {name} = '30d'")
    if field == "mode":
        if not isinstance(value, str):
            raise InvalidInput("mode is a word: 'table', 'append' or 'versioned_kv'")
        return value.lower()
    if isinstance(value, str) and field in BLOB_OPTIONS:
        try:
            value = parse_bytes(value)
        except ValueError as error:
            raise InvalidInput(f"{name} cannot be {value!r}: {error}") from None
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int):
        raise InvalidInput(f"{name} takes a whole number, not {value!r}")
    return value
