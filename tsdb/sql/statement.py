"""Statements: what a text asks for, as frozen values. Queries keep their text; only they are parsed further."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tsdb.catalog.table import TableOptions
from tsdb.sql.token import Token
from tsdb_format.schema import Schema

SettingValues: TypeAlias = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A statement that returns rows. ``text`` is all of it without SETTINGS; token offsets count from its start."""

    text: str
    tokens: tuple[Token, ...]
    settings: SettingValues = ()


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query: ``analyze`` runs it, ``rules`` shows what each rule did, ``form`` is 'text' or 'json'."""

    query: Query
    analyze: bool = False
    timings: bool = False
    rules: bool = False
    form: str = "text"


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
class ShowTables:
    """SHOW TABLES: what is in the database."""


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


Statement: TypeAlias = (
    Query | Explain | CreateTable | DropTable | ShowTables | ShowCreateTable | ShowSettings | Describe | SetSetting | Insert
)
