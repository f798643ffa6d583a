"""What GROUP BY can name natively: tags and attributes, buckets of the time column, expressions of tags and attributes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from tsdb.plan.grouping import BucketKey, ColumnKey, ExpressionKey, GroupKey
from tsdb.plan.schema import duckdb_name
from tsdb.sql import bucket
from tsdb.sql.call import SYNTAX_WORDS, CallText, read_call
from tsdb.sql.nesting import Range, unwrapped
from tsdb.sql.table_text import TableText
from tsdb.sql.token import PARAMETER, QUOTED, STRING, WORD
from tsdb_format.errors import InvalidInput
from tsdb_format.types import DATE, TIMESTAMP_US, ColumnType, Kind, Role, parse_type

_DEVICE_ROLES = (Role.TAG, Role.ATTRIBUTE)
#: Words that make an expression more than one of a row.
_BEYOND_ROWS = frozenset({"SELECT", "OVER", "COLUMNS", "UNNEST", "UNPIVOT"})


@dataclass(frozen=True, slots=True)
class Group:
    """A key, the words of its expression, and whether the expression stays whole wherever it is put."""

    key: GroupKey
    words: tuple[str, ...]
    atomic: bool


def read_group(text: TableText, place: Range) -> Group | None:
    """The key of one expression; None where it is not native."""
    place = unwrapped(text.tokens, place)
    words = text.words(place)
    column = text.column(place)
    if column is not None:
        plain = column.role in _DEVICE_ROLES and column.type.kind not in (Kind.BLOB, Kind.VECTOR)
        return Group(ColumnKey(column.name, column.name), words, True) if plain else None
    call = read_call(text.tokens, place[0], place[1])
    whole = call is not None and call.stop == place[1]
    name = " ".join(text.text(place).split())
    found = _bucket(text, place, call if whole else None)
    if found is not None:
        return Group(BucketKey(name, *found), words, whole)
    key = _expression(text, place)
    return None if key is None else Group(replace(key, name=name), words, whole)


def _bucket(text: TableText, place: Range, call: CallText | None) -> tuple[bucket.Bucket, ColumnType] | None:
    """The bucket that an expression makes of the time column, and what it is shown as."""
    kind = text.reference.table.schema.time.type
    dated = _dated(text, place)
    if dated is not None:
        found = bucket.day_bucket(kind) if _is_time(text, dated) else None
        return None if found is None else (found, DATE)
    if call is None or not call.plain or call.condition is not None or not 2 <= len(call.arguments) <= 3:
        return None
    made = None
    if call.name in bucket.WIDTHS and _is_time(text, call.arguments[1]):
        width = text.interval(call.arguments[0])
        shift = text.constant(call.arguments[2]) if len(call.arguments) == 3 else None
        if width is not None and (shift is not None or len(call.arguments) == 2):
            made = bucket.width_bucket(kind, width, shift)
    elif call.name in bucket.TRUNCATIONS and len(call.arguments) == 2 and _is_time(text, call.arguments[1]):
        start, stop = unwrapped(text.tokens, call.arguments[0])
        if stop - start == 1 and text.tokens[start].kind == STRING:
            made = bucket.unit_bucket(kind, text.tokens[start].text)
    return None if made is None else (made, TIMESTAMP_US)


def _dated(text: TableText, place: Range) -> Range | None:
    """What ``CAST(… AS DATE)`` and ``…::DATE`` cast."""
    start, stop = place
    tokens = text.tokens
    if stop - start > 2 and tokens[stop - 1].upper == "DATE" and tokens[stop - 2].is_symbol("::"):
        return start, stop - 2
    call = read_call(tokens, start, stop)
    if call is None or call.stop != stop or call.name != "cast" or tokens[start].kind != WORD or len(call.arguments) != 1:
        return None
    inner, end = call.arguments[0]
    if end - inner > 2 and tokens[end - 1].upper == "DATE" and tokens[end - 2].upper == "AS":
        return inner, end - 2
    return None


def _is_time(text: TableText, place: Range) -> bool:
    column = text.column(place)
    return column is not None and column.role is Role.TIME


def _expression(text: TableText, place: Range) -> ExpressionKey | None:
    """An expression of tags and attributes that gives the same for every row of a device, whenever it is asked for."""
    from tsdb.exec.fold import lasting_functions
    from tsdb.exec.shown import shown_columns
    from tsdb.sql.moment_text import TIMES_OF_DAY, is_now

    known, columns, pieces = lasting_functions(), dict[str, str](), list[str]()
    at = place[0]
    while at < place[1]:
        at += 2 * text.is_qualifier(at, place[1])
        token = text.tokens[at]
        called = at + 1 < place[1] and text.tokens[at + 1].is_symbol("(")
        if token.kind == PARAMETER or token.upper in (_BEYOND_ROWS | TIMES_OF_DAY) or is_now(text.query, at):
            return None
        if called and token.is_name and token.upper not in SYNTAX_WORDS and token.text.lower() not in known:
            return None
        column = text.reference.column(token.text) if token.kind in (WORD, QUOTED) and not called else None
        if column is not None:
            if column.role not in _DEVICE_ROLES:
                return None
            columns[column.name] = duckdb_name(column.type)
        pieces.append(text.query.text[token.start : token.end])
        at += 1
    sql = " ".join(pieces)
    shown = shown_columns(f"SELECT {sql} FROM", tuple(columns.items()), "AS devices") if columns else None
    if shown is None or len(shown) != 1:
        return None
    with suppress(InvalidInput):
        return ExpressionKey(sql, sql, tuple(columns), parse_type(shown[0][1]))
    return None
