"""What CREATE STREAM has beyond CREATE TABLE: a mode, a PRIMARY KEY, a time by itself; and how rows are spread over shards."""

from __future__ import annotations

from typing import Any, TypeAlias

from tsdb.catalog.shard import UNHASHED
from tsdb.sql.changing import changing_token
from tsdb.sql.token import SYMBOL, Cursor
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import Schema
from tsdb_format.types import TAG_KINDS, Role, parse_type

#: The name, type and role of a column.
DeclaredColumn: TypeAlias = tuple[str, str, Role | None]
#: Functions that are a hash of their arguments: rows are spread by ours.
_HASHES = frozenset({"HASH", "CITY_HASH64", "CITYHASH64", "SIPHASH64", "XXHASH64", "MURMUR_HASH", "INTHASH64"})


def read_primary_key(cursor: Cursor, options: dict[str, Any]) -> None:
    """``PRIMARY KEY (a, b)``, or of one column without parentheses, added to the fields of ``TableOptions``."""
    cursor.expect("PRIMARY", "KEY")
    if "primary_key" in options:
        raise InvalidInput("PRIMARY KEY is given twice")
    if not cursor.accept_symbol("("):
        options["primary_key"] = (cursor.name("a column of the PRIMARY KEY"),)
        return
    names = [cursor.name("a column of the PRIMARY KEY")]
    while cursor.accept_symbol(","):
        names.append(cursor.name("a column of the PRIMARY KEY"))
    cursor.expect_symbol(")")
    options["primary_key"] = tuple(names)


def read_shard_by(cursor: Cursor, options: dict[str, Any]) -> None:
    """What follows SHARDS n BY: columns or a hash of them, in parentheses, or another expression of columns."""
    start = cursor.at
    cursor.expect_symbol("(")
    depth = 1
    while depth:
        if cursor.done:
            cursor.fail("')'")
        depth += {"(": 1, ")": -1}.get(cursor.symbol(), 0)
        cursor.at += 1
    tokens = cursor.tokens[start + 1 : cursor.at - 1]
    if not tokens:
        raise InvalidInput("SHARDS … BY needs a column or a hash of columns")
    changing = changing_token(tokens)
    if changing is not None:
        raise InvalidInput(f"SHARDS … BY takes what is the same for equal rows, and {changing.text} is not")
    called = {at for at in range(len(tokens) - 1) if tokens[at].is_name and tokens[at + 1].is_symbol("(")}
    names = tuple(dict.fromkeys(token.text for at, token in enumerate(tokens) if token.is_name and at not in called))
    plain = all(token.is_name or (token.kind == SYMBOL and token.text in ("(", ")", ",")) for token in tokens)
    hashed = plain and all(tokens[at].upper in _HASHES for at in called) and len(called) <= 1
    options["shard_by"] = names
    if not hashed:
        options["shard_text"] = cursor.text[tokens[0].start : tokens[-1].end]


def stream_columns(columns: list[DeclaredColumn], options: dict[str, Any]) -> list[DeclaredColumn]:
    """The columns of a stream with the roles that its key gives them, and a time where none is declared."""
    options.setdefault("mode", "append")
    if options["mode"] == "table":
        raise InvalidInput("the mode of a stream is 'append' or 'versioned_kv'; CREATE TABLE keeps one row for each tags and time")
    by_name = {name.lower(): name for name, _, _ in columns}
    missing = [name for name in options.get("primary_key", ()) if name.lower() not in by_name]
    if missing:
        raise InvalidInput(f"PRIMARY KEY names {missing[0]!r}, which is no column")
    key = tuple(by_name[name.lower()] for name in options.get("primary_key", ()))
    made = [_keyed(column, key) for column in columns]
    if key:
        options["primary_key"] = key
        tags = tuple(name for name, _, role in made if role is Role.TAG)
        if tags != key:
            raise InvalidInput(
                f"PRIMARY KEY ({', '.join(key)}) and the tags ({', '.join(tags)}) differ: rows are sorted by the tags as they are "
                "declared, and a stream with a PRIMARY KEY has no others"
            )
    if not any(role is Role.TIME for _, _, role in made):
        if "time" in by_name:
            raise InvalidInput("a stream without a TIME column gets one named time: declare one, or give that column another name")
        made.append(("time", "TIMESTAMP_NS", Role.TIME))
        options["time_is_now"] = True
    return made


def check_shards(schema: Schema, options: dict[str, Any]) -> None:
    """Resolve the columns that rows are spread by. Raises InvalidInput for those that cannot be hashed."""
    if options.get("shards", 1) > 1 and not options.get("shard_by"):
        options["shard_by"] = tuple(tag.name for tag in schema.tags)
        if not options["shard_by"]:
            raise InvalidInput("SHARDS needs BY (columns): there are no tags to spread rows by")
    by_name = {column.name.lower(): column for column in schema}
    found = []
    for name in options.get("shard_by", ()):
        column = by_name.get(name.lower())
        if column is None:
            raise InvalidInput(f"SHARDS … BY names {name!r}, which is no column")
        if column.role is Role.ATTRIBUTE or column.type.kind in UNHASHED:
            raise InvalidInput(f"rows cannot be spread over shards by {column.name!r}: it is {column.type}, {column.role.name}")
        if column.role is Role.FIELD and options.get("mode", "table") == "table":
            raise InvalidInput(f"a table's rows are spread by tags and time, a stream's by any column: {column.name!r} is a field")
        found.append(column.name)
    if found:
        options["shard_by"] = tuple(found)


def _keyed(column: DeclaredColumn, key: tuple[str, ...]) -> DeclaredColumn:
    name, kind, role = column
    if name not in key:
        return column
    if role not in (None, Role.TAG):
        raise InvalidInput(f"column {name!r} of the PRIMARY KEY is {role.name}, and must be TAG or nothing")
    if parse_type(kind).kind not in TAG_KINDS:
        kinds = ", ".join(sorted(each.name for each in TAG_KINDS))
        raise InvalidInput(f"column {name!r} of the PRIMARY KEY must be one of {kinds}, not {kind}")
    return name, kind, Role.TAG
