"""Statements: what a text asks for, as frozen values. Queries keep their text; only they are parsed further."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tsdb.catalog.table import TableOptions
from tsdb.sql.token import Token, place, tokenize
from tsdb_format.schema import Schema
from tsdb_format.types import ColumnType, Role

SettingValues: TypeAlias = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A statement that returns rows. ``text`` is all of it without SETTINGS; token offsets count from its start.

    It was read from ``source`` at ``source_start``, ``skipped`` tokens behind that; parameters may have been written otherwise
    there. Where the text was changed since, ``origins`` are, by token, which token of the one that was read it stands for.
    ``latest_joins`` are the places of what a LATEST JOIN joins (see ``latest_join``).
    """

    text: str
    tokens: tuple[Token, ...]
    settings: SettingValues = ()
    source: str = ""
    source_start: int = 0
    skipped: int = 0
    origins: tuple[int, ...] = ()
    latest_joins: frozenset[int] = frozenset()

    def has_word(self, word: str) -> bool:
        """Whether a word, in upper case, stands somewhere in the text."""
        return any(token.upper == word for token in self.tokens)

    def place(self, offset: int) -> str:
        """The place of the token at an offset, for people, in the statement as it was written."""
        at = sum(token.start < offset for token in self.tokens)
        if not self.source:
            return place(self.text, offset)
        written = tokenize(self.source[self.source_start :])
        number = self.skipped + (self.origins[min(at, len(self.origins) - 1)] if self.origins else at)
        return place(self.source, self.source_start + written[min(number, len(written) - 1)].start)


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query: ``analyze`` runs it, ``rules`` shows what each rule did, ``verbose`` why some did nothing.

    ``form`` is 'text' or 'json'.
    """

    query: Query
    analyze: bool = False
    timings: bool = False
    rules: bool = False
    form: str = "text"
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE."""

    name: str
    schema: Schema
    options: TableOptions
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE MATERIALIZED VIEW: ``text`` is that of its query, SETTINGS included; ``target`` None is a table of its own."""

    name: str
    target: str | None
    text: str
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropView:
    """DROP MATERIALIZED VIEW."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ShowViews:
    """SHOW MATERIALIZED VIEWS: what they write to, how far they are, and why one is stopped."""


@dataclass(frozen=True, slots=True)
class ShowCreateView:
    """SHOW CREATE MATERIALIZED VIEW: the statement that makes the view."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES: what is in the database."""


@dataclass(frozen=True, slots=True)
class ShowFiles:
    """SHOW FILES: the data files of a table, None for all."""

    table: str | None = None


@dataclass(frozen=True, slots=True)
class ShowQueries:
    """SHOW QUERIES: what is under way."""


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """SHOW CREATE TABLE: the statement that makes the table."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowSettings:
    """SHOW SETTINGS, or SHOW name for one of them."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE of a table: its columns."""

    name: str


@dataclass(frozen=True, slots=True)
class SetSetting:
    """SET name = value; value None is RESET."""

    name: str
    value: object | None


@dataclass(frozen=True, slots=True, eq=False)
class Insert:
    """INSERT: the whole statement, for DuckDB to evaluate; ``target`` is the span of the table's name in ``query.text``."""

    table: str
    target: tuple[int, int]
    query: Query


@dataclass(frozen=True, slots=True, eq=False)
class Delete:
    """DELETE FROM and TRUNCATE: ``condition`` is the text of WHERE, None for every row.

    ``query`` is the whole statement, with its parameters and settings; ``alias`` is what the condition may call the table.
    """

    table: str
    alias: str
    condition: str | None
    query: Query


@dataclass(frozen=True, slots=True, eq=False)
class DeleteDevices:
    """DELETE DEVICES FROM: parts as those of ``Delete``."""

    table: str
    alias: str
    condition: str | None
    query: Query


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """UPDATE: ``assignments`` are (column, text of an expression); the other parts as those of ``Delete``."""

    table: str
    alias: str
    assignments: tuple[tuple[str, str], ...]
    condition: str | None
    query: Query


@dataclass(frozen=True, slots=True, eq=False)
class ShowDevices:
    """SHOW DEVICES FROM: parts as those of ``Delete``, and at most ``limit`` devices after ``offset``."""

    table: str
    alias: str
    condition: str | None
    query: Query
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """CHECKPOINT: what is in memory goes to files."""


@dataclass(frozen=True, slots=True)
class Script:
    """RESULT SET definitions and the query that refers to them."""

    text: str


#: Statements about the devices or rows of one table that satisfy a condition.
Conditional: TypeAlias = Delete | DeleteDevices | Update | ShowDevices


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN."""

    name: str
    kind: ColumnType
    role: Role
    if_not_exists: bool
    blob_limits: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN name TO new."""

    name: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameTable:
    """RENAME TO."""

    new: str


@dataclass(frozen=True, slots=True)
class SetTtl:
    """SET TTL, or RESET TTL with None."""

    ttl_ns: int | None


TableChange: TypeAlias = AddColumn | DropColumn | RenameColumn | RenameTable | SetTtl


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE, which changes one thing at a time."""

    name: str
    if_exists: bool
    change: TableChange


Statement: TypeAlias = (
    Query | Explain | CreateTable | DropTable | AlterTable | CreateView | DropView | ShowViews | ShowCreateView | ShowTables
    | ShowFiles | ShowQueries | ShowCreateTable | ShowSettings | Describe | SetSetting | Insert | Checkpoint | Conditional | Script
)  # fmt: skip
