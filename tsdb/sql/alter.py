"""ALTER TABLE: one column added, dropped or renamed, another name for the table, another TTL. Rows are not rewritten."""

from __future__ import annotations

from typing import Any

from tsdb.catalog.table import (
    BLOB_OPTIONS,
    Table,
    renamed,
    require_column,
    with_column,
    with_column_renamed,
    with_ttl,
    without_column,
)
from tsdb.sql.ddl import option_field, read_blob_limits, read_column, read_option_list, read_ttl
from tsdb.sql.statement import AddColumn, AlterTable, DropColumn, RenameColumn, RenameTable, SetTtl, TableChange
from tsdb.sql.token import Cursor
from tsdb_format.blob import BlobLimits
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.types import Role, parse_type


def read_alter_table(cursor: Cursor) -> AlterTable:
    """The rest of a statement after ALTER TABLE."""
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.relation("a table name")
    change = _read_change(cursor)
    if cursor.symbol() == ",":
        raise InvalidInput("ALTER TABLE changes one thing at a time")
    cursor.end()
    return AlterTable(name, if_exists, change)


def changed(table: Table, change: TableChange) -> Table:
    """The table after a change; the very table where it changes nothing. Raises InvalidInput and NotFound."""
    match change:
        case AddColumn(name, kind, role, if_not_exists, limits):
            if if_not_exists and _has(table, name):
                return table
            of_table = {each: getattr(table.options, each) for each in BLOB_OPTIONS}
            blobs = None if limits is None else BlobLimits(*{**of_table, **dict(limits)}.values())
            return with_column(table, name, kind, role, blobs)
        case DropColumn(name, if_exists):
            return table if if_exists and not _has(table, name) else without_column(table, name)
        case RenameColumn(name, new):
            return with_column_renamed(table, name, new)
        case RenameTable(new):
            return renamed(table, new)
        case SetTtl(ttl_ns):
            return with_ttl(table, ttl_ns)


def _has(table: Table, name: str) -> bool:
    try:
        require_column(table, name)
    except NotFound:
        return False
    return True


def _read_change(cursor: Cursor) -> TableChange:
    if cursor.accept("ADD"):
        cursor.accept("COLUMN")
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        name, kind, role = read_column(cursor)
        limits = read_blob_limits(cursor)
        given = None if limits is None else tuple(limits.items())
        return AddColumn(name, parse_type(kind), role or Role.FIELD, if_not_exists, given)
    if cursor.accept("DROP"):
        cursor.accept("COLUMN")
        if_exists = cursor.accept("IF", "EXISTS")
        dropped = DropColumn(cursor.name("a column name"), if_exists)
        if not cursor.accept("CASCADE"):
            cursor.accept("RESTRICT")
        return dropped
    if cursor.accept("RENAME"):
        if cursor.accept("TO"):
            return RenameTable(cursor.name("a table name"))
        cursor.accept("COLUMN")
        name = cursor.name("a column name")
        cursor.expect("TO")
        return RenameColumn(name, cursor.name("a column name"))
    if cursor.accept("SET"):
        return SetTtl(_read_set(cursor))
    if cursor.accept("RESET"):
        _read_reset(cursor)
        return SetTtl(None)
    if cursor.word() not in ("ALTER", "MODIFY"):
        cursor.fail("ADD, DROP, RENAME, SET or RESET")
    raise InvalidInput("the type of a column cannot be changed: add a column of the other type and INSERT INTO it")


def _read_set(cursor: Cursor) -> int:
    options: dict[str, Any] = {}
    if cursor.symbol() == "(":
        read_option_list(cursor, options)
        for field in options:
            _refuse_fixed(field)
    else:
        if cursor.word() != "TTL":
            cursor.fail("TTL")
        cursor.expect("TTL")
        if not cursor.accept_symbol("="):
            cursor.accept("TO")
        read_ttl(cursor, options)
    ttl_ns: int = options["ttl_ns"]
    if ttl_ns <= 0:
        raise InvalidInput(f"ttl must be positive, not {ttl_ns:,}")
    return ttl_ns


def _read_reset(cursor: Cursor) -> None:
    if not cursor.accept_symbol("("):
        cursor.expect("TTL")
        return
    _refuse_fixed(option_field(cursor.name("an option's name")))
    cursor.expect_symbol(")")


def _refuse_fixed(field: str) -> None:
    if field != "ttl_ns":
        raise InvalidInput(f"only ttl can be changed: {field} stays as CREATE TABLE said")
