"""What a table is: its schema and options, as kept in the manifest.

Tables are immutable values. ``id`` names the table's folder and is never reused: a dropped and re-created table shares nothing
with the old one. Column ids work the same way within a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from tsdb.quoting import quoted_name, quoted_text
from tsdb.suggestion import hint
from tsdb_format.blob import INLINE_BYTES_MAX, PACKED_BYTES_MAX, BlobLimits
from tsdb_format.encoding import check_rows_per_page
from tsdb_format.errors import Error, InvalidInput, NotFound
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.types import TAG_KINDS, ColumnType, Role, parse_type

Mode = Literal["table", "append", "versioned_kv"]

#: Names that every table has without declaring them.
HIDDEN_NAMES = frozenset({SEQUENCE_NAME, "_rowid"})
#: Rows after which a write starts the next file: large enough that a file is worth opening, small enough to merge in memory.
FILE_ROWS_MAX = 16 * 2**20
#: Folder of a database that holds a folder of files per table.
FILES_FOLDER = "table"
#: What a page, or a write, holds of one blob at most.
BLOB_LIMIT_MAX = 2**30
#: The options of where blobs go.
BLOB_OPTIONS = ("blob_inline_max", "blob_packed_max")
#: Columns of one table; each costs a footer entry in every file.
COLUMNS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What ``CREATE TABLE … WITH (…)`` can say.

    ``ttl_ns`` hides rows whose time is older than that, whatever the unit of the time column; ``partition_ns`` is the length of
    PARTITION BY INTERVAL, which no file crosses. ``mode`` 'table' keeps one row per (tags, time), 'append' every row,
    'versioned_kv' every version, of which queries show the newest per ``primary_key``. Blobs up to ``blob_inline_max`` bytes are in
    the pages of their rows, up to ``blob_packed_max`` in files with others, and above each in a file of its own; ``blob_columns``
    are columns with other limits (name, inline, packed). Rows are parted over ``shards`` by a hash of the columns ``shard_by``;
    ``shard_text`` is the expression that was written for it, "" where it is that hash. With ``time_is_now``, rows that come without
    a time get the moment of their commit.
    """

    ttl_ns: int | None = None
    partition_ns: int | None = None
    shards: int = 1
    mode: Mode = "table"
    rows_per_page: int = 8192
    file_rows_max: int = FILE_ROWS_MAX
    primary_key: tuple[str, ...] = ()
    blob_inline_max: int = INLINE_BYTES_MAX
    blob_packed_max: int = PACKED_BYTES_MAX
    shard_by: tuple[str, ...] = ()
    shard_text: str = ""
    time_is_now: bool = False
    blob_columns: tuple[tuple[str, int, int], ...] = ()

    @property
    def overlays(self) -> bool:
        """Whether a row takes the place of an earlier one with its tags and time, field by field."""
        return self.mode == "table"

    def __post_init__(self) -> None:
        for name in ("ttl_ns", "partition_ns"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInput(f"{name} must be positive, not {value:,}")
        if self.mode not in get_args(Mode):
            raise InvalidInput(f"unknown mode {self.mode!r}; known: {', '.join(get_args(Mode))}")
        if self.shards < 1:
            raise InvalidInput(f"shards must be at least 1, not {self.shards}")
        check_rows_per_page(self.rows_per_page)
        if self.file_rows_max < 1:
            raise InvalidInput(f"file_rows_max must be at least 1, not {self.file_rows_max:,}")
        for column, *limits in (("", self.blob_inline_max, self.blob_packed_max), *self.blob_columns):
            for name, value in zip(BLOB_OPTIONS, limits, strict=True):
                if not 0 <= value <= BLOB_LIMIT_MAX:
                    of = f" of column {column!r}" if column else ""
                    raise InvalidInput(f"{name}{of} must be 0 to {BLOB_LIMIT_MAX:,}, not {value:,}")
        if self.mode == "versioned_kv" and not self.primary_key:
            raise InvalidInput("mode 'versioned_kv' needs a PRIMARY KEY: the newest version of each key is what queries show")
        if self.mode == "table" and self.primary_key:
            raise InvalidInput("PRIMARY KEY is for streams: the rows of a table are unique by its tags and time")

    def blob_limits(self, column: str) -> BlobLimits:
        """Where blobs of a column go by their size."""
        own = next((limits for name, *limits in self.blob_columns if name == column), None)
        return BlobLimits(self.blob_inline_max, self.blob_packed_max) if own is None else BlobLimits(*own)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the catalog. ``next_column_id`` is the id that the next added column gets."""

    id: int
    name: str
    schema: Schema
    options: TableOptions = field(default_factory=TableOptions)
    next_column_id: int = 0

    @property
    def folder(self) -> str:
        """The folder of the table's files, relative to the database."""
        return f"{FILES_FOLDER}/{self.id}"

    def to_json(self) -> dict[str, Any]:
        """The table as plain JSON values."""
        columns = [[column.id, column.name, str(column.type), column.role.name] for column in self.schema]
        options = {name: value for name, value in asdict(self.options).items() if value != _DEFAULTS[name]}
        return {"id": self.id, "name": self.name, "columns": columns, "options": options, "next_column_id": self.next_column_id}

    def to_bytes(self) -> bytes:
        """``to_json`` as text, for files of the table."""
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Table | None:
        """The inverse of ``to_bytes``; None where the text is no table, or one of a later build."""
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, Error):
            return None

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Table:
        """The inverse of ``to_json``."""
        columns = tuple(Column(name, parse_type(kind), Role[role], number) for number, name, kind, role in document["columns"])
        options = dict(document["options"])
        for name in ("primary_key", "shard_by"):
            options[name] = tuple(options.get(name, ()))
        options["blob_columns"] = tuple((name, inline, packed) for name, inline, packed in options.get("blob_columns", ()))
        schema = Schema(columns)
        return cls(document["id"], document["name"], schema, TableOptions(**options), document["next_column_id"])


_DEFAULTS = asdict(TableOptions())


def build_schema(columns: Iterable[tuple[str, str, Role]]) -> Schema:
    """A schema from (name, type name, role) in declaration order, numbered from 1; raises as ``check_columns`` does."""
    made = tuple(Column(name, parse_type(kind), role, number) for number, (name, kind, role) in enumerate(columns, 1))
    check_columns(made)
    return Schema(made)


def check_columns(columns: Sequence[Column]) -> None:
    """Refuse what no table can have: no TIME column, two of one name, a tag or time of another type, a reserved name."""
    if len(columns) > COLUMNS_MAX:
        raise InvalidInput(f"a table takes at most {COLUMNS_MAX:,} columns, not {len(columns):,}")
    times = [column.name for column in columns if column.role is Role.TIME]
    if len(times) != 1:
        raise InvalidInput(f"a table has exactly one TIME column; declared: {', '.join(times) or 'none'}")
    seen: dict[str, str] = {}
    for column in columns:
        folded = column.name.lower()
        if folded in seen:
            raise InvalidInput(f"column {column.name!r} is declared twice (names differ by case at most)")
        seen[folded] = column.name
        if not column.name or folded in HIDDEN_NAMES:
            raise InvalidInput(f"a column cannot be named {column.name!r}")
        if column.role is Role.TIME and not column.type.is_time:
            raise InvalidInput(f"the TIME column {column.name!r} must be a TIMESTAMP_S, _MS, _US or _NS, not {column.type}")
        if column.role is Role.TAG and column.type.kind not in TAG_KINDS:
            kinds = ", ".join(sorted(kind.name for kind in TAG_KINDS))
            raise InvalidInput(f"the tag {column.name!r} must be one of {kinds}, not {column.type}")


# ---------------------------------------------------------------------------------------------- changes


def require_column(table: Table, name: str) -> Column:
    """A column by its exact name or, failing that, whatever the case. Raises NotFound with the nearest name."""
    found = table.schema.by_name.get(name)
    if found is None:
        found = next((column for column in table.schema if column.name.lower() == name.lower()), None)
    if found is None:
        raise NotFound(f"no column {name!r} in table {table.name!r}; {hint(name, table.schema.by_name)}")
    return found


def with_column(table: Table, name: str, kind: ColumnType, role: Role, blobs: BlobLimits | None = None) -> Table:
    """The table with one more FIELD or ATTRIBUTE, NULL in every row there is. Its id is new, whatever the name was before.

    ``blobs`` are limits of its own.
    """
    if role is Role.TAG:
        raise InvalidInput(
            f"the tag {name!r} cannot be added: tags say which device a row belongs to, and the rows of {table.name!r} have their "
            "device; create a table with the tag and INSERT INTO it"
        )
    if role is not Role.FIELD and role is not Role.ATTRIBUTE:
        raise InvalidInput(f"the {role.name} column {name!r} cannot be added: a table has exactly one, {table.schema.time.name!r}")
    _check_free(table, name)
    column = Column(name, kind, role, table.next_column_id)
    options = table.options
    if blobs is not None:
        options = replace(options, blob_columns=(*options.blob_columns, (name, blobs.inline_max, blobs.packed_max)))
    made = replace(table, schema=Schema((*table.schema, column)), options=options, next_column_id=column.id + 1)
    check_columns(made.schema.columns)
    return made


def without_column(table: Table, name: str) -> Table:
    """The table without a FIELD or an ATTRIBUTE; a column that gets the name later has none of its values."""
    column = require_column(table, name)
    if column.role is Role.TAG:
        raise InvalidInput(f"the tag {column.name!r} cannot be dropped: it says which device a row of {table.name!r} belongs to")
    if column.role is Role.TIME:
        raise InvalidInput(f"the TIME column {column.name!r} cannot be dropped: every row of {table.name!r} has its time")
    for names, what in ((table.options.primary_key, "the primary key"), (table.options.shard_by, "what rows are sharded by")):
        if column.name in names:
            raise InvalidInput(f"column {column.name!r} cannot be dropped: it is part of {what}")
    limits = tuple(each for each in table.options.blob_columns if each[0] != column.name)
    left = Schema(tuple(other for other in table.schema if other is not column))
    return replace(table, schema=left, options=replace(table.options, blob_columns=limits))


def with_column_renamed(table: Table, name: str, new: str) -> Table:
    """The table with a column, of any role, under another name."""
    column = require_column(table, name)
    if column.name == new:
        return table
    if column.name.lower() != new.lower():
        _check_free(table, new)
    made = Schema(tuple(replace(other, name=new) if other is column else other for other in table.schema))
    check_columns(made.columns)
    options = table.options
    if options.shard_text and column.name in options.shard_by:
        raise InvalidInput(f"column {column.name!r} cannot be renamed: rows are sharded by {options.shard_text}")
    key, shard_by = (tuple(new if p == column.name else p for p in names) for names in (options.primary_key, options.shard_by))
    limits = tuple((new if name == column.name else name, inline, packed) for name, inline, packed in options.blob_columns)
    return replace(table, schema=made, options=replace(options, primary_key=key, shard_by=shard_by, blob_columns=limits))


def _check_free(table: Table, name: str) -> None:
    taken = next((column.name for column in table.schema if column.name.lower() == name.lower()), None)
    if taken is not None:
        raise InvalidInput(f"table {table.name!r} has a column {taken!r} already")


def renamed(table: Table, name: str) -> Table:
    """The table under another name, which whoever keeps the tables must find free."""
    return table if table.name == name else replace(table, name=name)


def with_ttl(table: Table, ttl_ns: int | None) -> Table:
    """The table with another TTL; None keeps rows for ever."""
    return table if table.options.ttl_ns == ttl_ns else replace(table, options=replace(table.options, ttl_ns=ttl_ns))


# ---------------------------------------------------------------------------------------------- text


def create_table_text(table: Table) -> str:
    """The CREATE TABLE or CREATE STREAM statement that declares this table."""
    width = max(len(_quoted(column.name)) for column in table.schema)
    kinds = max(len(str(column.type)) for column in table.schema)
    lines = [f"    {_quoted(c.name):<{width}} {c.type!s:<{kinds}} {_role_text(c, table.options)}" for c in table.schema]
    options = table.to_json()["options"]
    word = "TABLE" if table.options.overlays else "STREAM"
    text = f"CREATE {word} {_quoted(table.name)} (\n" + ",\n".join(lines) + "\n)"
    if table.options.primary_key:
        text += f" PRIMARY KEY ({', '.join(map(_quoted, table.options.primary_key))})"
    if table.options.shard_by:
        by = table.options.shard_text or ", ".join(map(_quoted, table.options.shard_by))
        text += f" SHARDS {options.pop('shards', 1)} BY ({by})"
    shown = {name: value for name, value in options.items() if name in _SHOWN}
    if table.options.ttl_ns is not None:
        shown["ttl"] = f"{table.options.ttl_ns} ns"
    if table.options.partition_ns is not None:
        shown["partition"] = f"{table.options.partition_ns} ns"
    if shown:
        text += " WITH (" + ", ".join(f"{name} = {_literal(value)}" for name, value in shown.items()) + ")"
    return text + ";"


_SHOWN = frozenset({"shards", "mode", "rows_per_page", "file_rows_max", "blob_inline_max", "blob_packed_max"})


def _role_text(column: Column, options: TableOptions) -> str:
    if column.role is Role.TIME and options.time_is_now:
        return f"{column.role.name} DEFAULT now()"
    limits = options.blob_limits(column.name)
    if not any(name == column.name for name, *_ in options.blob_columns):
        return column.role.name
    return f"{column.role.name} WITH (blob_inline_max = {limits.inline_max}, blob_packed_max = {limits.packed_max})"


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name.islower() and name not in _RESERVED
    return name if plain else quoted_name(name)


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else quoted_text(str(value))


#: Words that a generated statement quotes when they are column names.
_RESERVED = frozenset({
    "all", "and", "any", "as", "asc", "between", "by", "case", "cast", "check", "column", "create", "cross", "current",
    "desc", "distinct", "else", "end", "except", "exists", "false", "for", "from", "full", "group", "having", "in", "inner",
    "intersect", "into", "is", "join", "left", "like", "limit", "natural", "not", "null", "offset", "on", "or", "order",
    "outer", "primary", "references", "right", "select", "settings", "table", "then", "to", "true", "union", "unique",
    "using", "when", "where", "with",
})  # fmt: skip
