"""A dialect of SQLAlchemy: ``create_engine("tsdb:///metrics.db")``. Needs SQLAlchemy 2 (``pip install 'tsdb[sqlalchemy]'``).

Tables that SQLAlchemy makes need to know what a column is: ``Column("host", String, info={"role": "TAG"})``. Where no column says
that it is the TIME, the first one of a date and time is; the others are fields. A table none of whose columns names a role, as
pandas makes them, keeps every row (``mode = 'append'``), for nothing tells which are the same; ``Table(…, tsdb_mode="table")`` says
otherwise. There are no indexes, and to make one does nothing.

A relative path has three slashes, an absolute one four; what follows ``?`` is the mode and settings:
``tsdb:////data/metrics.db?mode=r&threads=2``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from sqlalchemy import Table, exc, types
from sqlalchemy.engine import reflection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql import compiler

from tsdb_format.errors import NotFound
from tsdb_format.schema import Schema
from tsdb_format.types import ColumnType, Kind, Role

_TYPES: dict[Kind, type[types.TypeEngine[Any]]] = {
    Kind.BOOLEAN: types.BOOLEAN, Kind.INT32: types.INTEGER, Kind.INT64: types.BIGINT, Kind.FLOAT: types.REAL,
    Kind.DOUBLE: types.DOUBLE, Kind.STRING: types.VARCHAR, Kind.DATE: types.DATE, Kind.TIMESTAMP_S: types.TIMESTAMP,
    Kind.TIMESTAMP_MS: types.TIMESTAMP, Kind.TIMESTAMP_US: types.TIMESTAMP, Kind.TIMESTAMP_NS: types.TIMESTAMP,
    Kind.BLOB: types.LargeBinary,
}  # fmt: skip


class TsdbCompiler(compiler.SQLCompiler):
    """Statements: as anywhere, except that OFFSET needs no LIMIT."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT and OFFSET."""
        text = ""
        if select._limit_clause is not None:
            text += "\n LIMIT " + self.process(select._limit_clause, **kw)
        if select._offset_clause is not None:
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)
        return text


class TsdbDDLCompiler(compiler.DDLCompiler):
    """CREATE TABLE with the roles of columns; there are no constraints, and no indexes."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        """Name, type and role."""
        kind = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        roles = {each: str(each.info["role"]).upper() for each in column.table.columns if "role" in each.info}
        if "TIME" not in roles.values():
            first = next(
                (each for each in column.table.columns if isinstance(each.type, types.DateTime) and each not in roles), None
            )
            if first is not None:
                roles[first] = "TIME"
        return f"{self.preparer.format_column(column)} {kind} {roles.get(column, 'FIELD')}"

    def create_table_constraints(self, table: Any, _include_foreign_key_constraints: Any = None, **kw: Any) -> str:
        """Rows are identified by tags and time, whatever a primary key says."""
        return ""

    def post_create_table(self, table: Any) -> str:
        """The mode that the table names; without one, and without a role, every row is kept."""
        mode = table.dialect_options["tsdb"]["mode"]
        if mode is None and not any("role" in each.info for each in table.columns):
            mode = "append"
        return "" if mode is None else f" WITH (mode = {self.sql_compiler.render_literal_value(mode, types.String())})"

    def visit_create_index(self, create: Any, *arguments: Any, **kw: Any) -> str:
        """Nothing: rows are found by tags and time, and by what pages tell of themselves."""
        return ""

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        """Nothing, as there are none."""
        return ""


class TsdbTypeCompiler(compiler.GenericTypeCompiler):
    """SQLAlchemy's types as those of columns."""


def _visitor(text: str | None) -> Callable[..., str]:
    """What a type is called in CREATE TABLE; None where there is no such column."""

    def visit(self: TsdbTypeCompiler, type_: Any, **kw: Any) -> str:
        if text is None:
            raise exc.CompileError(f"tsdb has no column of type {type(type_).__name__}")
        return text

    return visit


for _text, _names in {
    "STRING": ("VARCHAR", "NVARCHAR", "CHAR", "NCHAR", "TEXT", "CLOB"), "INTEGER": ("SMALLINT", "INTEGER"), "FLOAT": ("REAL",),
    "DOUBLE": ("FLOAT", "DOUBLE", "DOUBLE_PRECISION"), "TIMESTAMP": ("DATETIME", "TIMESTAMP"),
    "BLOB": ("BINARY", "VARBINARY", "BLOB", "large_binary"),
    None: ("NUMERIC", "DECIMAL", "TIME", "JSON", "ARRAY", "UUID", "interval"),
}.items():  # fmt: skip
    for _name in _names:
        setattr(TsdbTypeCompiler, f"visit_{_name}", _visitor(_text))


class TsdbDialect(DefaultDialect):
    """The dialect ``tsdb``, over the driver ``tsdb.dbapi``."""

    name = "tsdb"
    driver = "tsdb"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_multivalues_insert = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    supports_default_values = False
    postfetch_lastrowid = False
    supports_alter = False
    statement_compiler = TsdbCompiler
    ddl_compiler = TsdbDDLCompiler
    type_compiler_cls = TsdbTypeCompiler
    construct_arguments = [(Table, {"mode": None})]  # noqa: RUF012  that of the base class is an instance's

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The driver."""
        from tsdb import dbapi

        return dbapi

    def create_connect_args(self, url: Any) -> tuple[list[Any], dict[str, Any]]:
        """The path, and from the query the mode and settings."""
        if not url.database:
            raise exc.ArgumentError("a tsdb URL names a directory: tsdb:///metrics.db, or tsdb:////absolute/path/metrics.db")
        settings = {name: _value(text) for name, text in url.query.items()}
        return [url.database], settings

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Run a statement; that of an index, which there is none of, is empty."""
        if statement:
            cursor.execute(statement, parameters)

    def _get_default_schema_name(self, connection: Any) -> str:
        return "main"

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """There is one schema."""
        return ["main"]

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The tables."""
        return list(_database(connection).tables()) if schema in (None, "main") else []

    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """There are none."""
        return []

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Whether a table is there."""
        known = {name.lower() for name in self.get_table_names(connection, schema)}
        return table_name.lower() in known

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """Columns, with their roles as comments, and as the ``info`` from which a table is made."""
        described = _schema(connection, table_name)
        return [
            {
                "name": column.name,
                "type": _type(column.type),
                "nullable": column.role is not Role.TIME,
                "default": None,
                "autoincrement": False,
                "comment": column.role.name,
                "info": {"role": column.role.name},
            }
            for column in described
        ]

    def get_table_options(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> dict[str, Any]:
        """The mode, from which a table is made."""
        _schema(connection, table_name)
        return {"tsdb_mode": _database(connection).options(table_name).mode}

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """What tells rows apart: tags and time."""
        described = _schema(connection, table_name)
        return {"name": None, "constrained_columns": [column.name for column in (*described.tags, described.time)]}

    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """There are none."""
        return []

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """There are none."""
        return []

    def get_unique_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """There are none."""
        return []

    def get_check_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """There are none."""
        return []

    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """There are none."""
        return reflection.ReflectionDefaults.table_comment()


def _database(connection: Any) -> Any:
    """The database behind a connection of SQLAlchemy's."""
    return connection.connection.driver_connection.database


def _schema(connection: Any, table: str) -> Schema:
    try:
        found: Schema = _database(connection).schema(table)
    except NotFound:
        raise exc.NoSuchTableError(table) from None
    return found


def _type(kind: ColumnType) -> types.TypeEngine[Any]:
    return types.ARRAY(types.REAL) if kind.kind is Kind.VECTOR else _TYPES[kind.kind]()


def _value(text: str | Iterable[str]) -> object:
    """A setting's value from a URL: an integer where it reads as one."""
    shown = text if isinstance(text, str) else next(iter(text))
    return int(shown) if shown.isdigit() else shown
