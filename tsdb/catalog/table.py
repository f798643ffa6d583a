"""What a table is: its schema and options, as kept in the manifest.

Tables are immutable values. ``id`` names the table's folder and is never reused: a dropped and re-created table shares nothing
with the old one. Column ids work the same way within a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from tsdb.quoting import quoted_name, quoted_text
from tsdb_format.encoding import check_rows_per_page
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.types import TAG_KINDS, Role, parse_type

Mode = Literal["table", "append", "versioned_kv"]

#: Names that every table has without declaring them.
HIDDEN_NAMES = frozenset({SEQUENCE_NAME, "_rowid"})
#: Rows after which a write starts the next file: large enough that a file is worth opening, small enough to merge in memory.
FILE_ROWS_MAX = 16 * 2**20
#: Folder of a database that holds a folder of files per table.
FILES_FOLDER = "table"
#: Columns of one table; each costs a footer entry in every file.
COLUMNS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What ``CREATE TABLE … WITH (…)`` can say.

    ``ttl_ns`` hides rows whose time is older than that, whatever the unit of the time column; ``partition_ns`` is the length of
    PARTITION BY INTERVAL, which no file crosses. ``mode`` 'table' keeps one row per (tags, time), 'append' every row,
    'versioned_kv' every version, of which queries show the newest per ``primary_key``.
    """

    ttl_ns: int | None = None
    partition_ns: int | None = None
    shards: int = 1
    mode: Mode = "table"
    rows_per_page: int = 8192
    file_rows_max: int = FILE_ROWS_MAX
    primary_key: tuple[str, ...] = ()

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
        if bool(self.primary_key) != (self.mode == "versioned_kv"):
            raise InvalidInput("PRIMARY KEY and mode 'versioned_kv' go together")


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

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Table:
        """The inverse of ``to_json``."""
        columns = tuple(Column(name, parse_type(kind), Role[role], number) for number, name, kind, role in document["columns"])
        options = dict(document["options"])
        options["primary_key"] = tuple(options.get("primary_key", ()))
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


def create_table_text(table: Table) -> str:
    """The CREATE TABLE statement that declares this table."""
    width = max(len(_quoted(column.name)) for column in table.schema)
    kinds = max(len(str(column.type)) for column in table.schema)
    lines = [f"    {_quoted(c.name):<{width}} {c.type!s:<{kinds}} {c.role.name}" for c in table.schema]
    options = table.to_json()["options"]
    text = f"CREATE TABLE {_quoted(table.name)} (\n" + ",\n".join(lines) + "\n)"
    shown = {name: value for name, value in options.items() if name in ("shards", "mode", "rows_per_page", "file_rows_max")}
    if table.options.ttl_ns is not None:
        shown["ttl"] = f"{table.options.ttl_ns} ns"
    if table.options.partition_ns is not None:
        shown["partition"] = f"{table.options.partition_ns} ns"
    if shown:
        text += " WITH (" + ", ".join(f"{name} = {_literal(value)}" for name, value in shown.items()) + ")"
    return text + ";"


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
