"""Documents: a multi-query as JSON, or as a dict of the same form.

    {"queries": [
        {"table": "alarms", "filter": "level > 3", "result_sets": {"hosts": {"value": "host"}}, "result_set_only": true},
        {"name": "readings", "table": "cpu", "filter": "host IN RESULT SET hosts", "order_by": ["time"]}]}

A filter is a condition of SQL, or CQL2-JSON (``cql2``). ``request.schema.json`` is the whole form, as a JSON schema. A query
becomes SQL: one SELECT for its rows, and one for each set that it declares, which its order and limit do not restrict. Errors say
where in the document, such as ``queries[0].filter``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.resultset.cql2 import filter_text, moment_sql
from tsdb.resultset.deduplication import row_key
from tsdb.resultset.request import Declaration, Request, Step
from tsdb.sql.reader import read_query
from tsdb.sql.statement import Query
from tsdb.sql.token import PARAMETER, tokenize
from tsdb.suggestion import hint
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.types import Role

_REQUEST = ("queries", "settings", "deduplicate", "$schema", "description")
_QUERY = (
    "table", "filter", "time", "columns", "order_by", "limit", "offset", "name", "result_sets", "result_set_only", "description",
)  # fmt: skip


def read_document(document: Mapping[str, Any] | str, tables: Mapping[str, Table]) -> Request:
    """A request from a document over the tables, by lower-case name; raises InvalidInput and NotFound with the place in it."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"the document is no JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
        except RecursionError:
            raise InvalidInput("the document is nested too deeply") from None
    found = _object(document, "the document", _REQUEST)
    queries = found.get("queries")
    if not isinstance(queries, list) or not queries:
        _fail("queries", "a list of one query or more is wanted")
    settings = found.get("settings", {})
    if not isinstance(settings, Mapping):
        _fail("settings", "an object of settings by name is wanted")
    deduplicate = _flag(found, "deduplicate", "deduplicate")
    steps = [_Reader(query, f"queries[{at}]", tables).step(f"query_{at + 1}", deduplicate) for at, query in enumerate(queries)]
    names: dict[str, str] = {}
    for step in steps:
        if step.query is not None and step.name in names:
            _fail(f"{step.place}.name", f"{step.name!r} is the name of {names[step.name]}, too")
        names[step.name] = step.place
    return Request(tuple(steps), dict(settings))


class _Reader:
    """Reads one query of a document."""

    def __init__(self, query: Any, place: str, tables: Mapping[str, Table]) -> None:
        self.place = place
        self.query = _object(query, place, _QUERY)
        name = self.query.get("table")
        if not isinstance(name, str):
            self.fail("table", "the name of a table is wanted")
        if name.lower() not in tables:
            known = hint(name, [table.name for table in tables.values()], "the database has no tables")
            raise NotFound(f"{place}.table: no table {name!r}; {known}")
        self.table = tables[name.lower()]

    def fail(self, key: str, message: str) -> NoReturn:
        """Raise InvalidInput about one of the query's keys."""
        _fail(f"{self.place}.{key}", message)

    def step(self, name: str, keyed: bool) -> Step:
        """The query as a step, called ``name`` where it has no name of its own; ``keyed``, with the keys of its rows."""
        own = self.query.get("name", name)
        if not isinstance(own, str) or not own:
            self.fail("name", "a text is wanted")
        declares = tuple(self._declarations())
        only_sets = _flag(self.query, "result_set_only", f"{self.place}.result_set_only")
        if only_sets and not declares:
            self.fail("result_set_only", "the query declares no result set")
        if only_sets:
            return Step(own, self.place, None, declares, self.table.name)
        key = row_key(self.table.schema) if keyed else ()
        listed = ", ".join([self._columns(), *map(quoted_name, key)])
        rows = self._select(f"SELECT {listed}", self._order() + self._counts())
        return Step(own, self.place, rows, declares, self.table.name, len(key))

    def _declarations(self) -> list[Declaration]:
        sets = self.query.get("result_sets", {})
        if not isinstance(sets, Mapping):
            self.fail("result_sets", "an object is wanted, such as {'hosts': {'value': 'host'}}")
        made = []
        for name, declared in sets.items():
            key = f"result_sets.{name}"
            if not isinstance(name, str):
                self.fail(key, f"the name of a result set is a text, not {name!r}")
            found = _object(declared, f"{self.place}.{key}", ("value",))
            values = found.get("value")
            several = values if isinstance(values, list) else [values]
            if not name or not several or not all(isinstance(value, str) for value in several):
                self.fail(f"{key}.value", "the name of a column is wanted, or a list of names")
            columns = [self.column(value, f"{self.place}.{key}.value") for value in several]
            if len(set(columns)) < len(columns):
                self.fail(f"{key}.value", "a column is named twice")
            of_devices = all(self.table.schema.column(each).role in (Role.TAG, Role.ATTRIBUTE) for each in columns)
            listed = ", ".join(map(quoted_name, columns))
            query = self._select(f"SELECT {'DISTINCT ' if of_devices else ''}{listed}", "")
            made.append(Declaration(name, query, f"{self.place}.{key}"))
        return made

    def _select(self, begin: str, end: str) -> Query:
        """A query over the table's rows that satisfy the filter; places in errors are those of the filter's own text."""
        begin += f" FROM {quoted_name(self.table.name)} WHERE {self._time()}"
        given = self.query.get("filter", True)
        text = self._sql(given) if isinstance(given, str) else filter_text(given, f"{self.place}.filter", self.column)
        query = self._read(f"{begin}({text}\n){end}")
        before, count = len(tokenize(begin)) + 1, len(tokenize(text))
        origins = tuple(min(max(at - before, 0), count - 1) for at in range(len(query.tokens)))
        return replace(query, source=text, source_start=0, skipped=0, origins=origins)

    def _read(self, text: str) -> Query:
        try:
            return read_query(text, tokenize(text))
        except InvalidInput as error:
            self.fail("filter", str(error))

    def _sql(self, text: str) -> str:
        """A condition of SQL that is one, and nothing besides."""
        try:
            tokens = tokenize(text)
        except InvalidInput as error:
            self.fail("filter", str(error))
        depth = 0
        for token in tokens:
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth < 0 or token.is_symbol(";"):
                self.fail("filter", f"one condition of SQL is wanted, and {token.text!r} ends it (column {token.start + 1})")
            if token.kind == PARAMETER:
                self.fail("filter", f"a document has no parameters: write the value of {token.text} (column {token.start + 1})")
        if not tokens or depth:
            self.fail("filter", "a parenthesis is not closed" if depth else "a condition is wanted")
        return text

    def column(self, name: Any, path: str) -> str:
        """The table's column of that name, in any case; raises NotFound at a path."""
        found = {column.name.lower(): column.name for column in self.table.schema}
        if not isinstance(name, str):
            _fail(path, f"the name of a column is wanted, not {name!r}")
        if name.lower() not in found:
            raise NotFound(f"{path}: no column {name!r} in table {self.table.name!r}; {hint(name, found.values())}")
        return found[name.lower()]

    def _columns(self) -> str:
        columns = self.query.get("columns", ["*"])
        if not isinstance(columns, list) or not columns:
            self.fail("columns", "a list of names is wanted")
        if columns == ["*"]:
            return "*"
        return ", ".join(quoted_name(self.column(each, f"{self.place}.columns[{at}]")) for at, each in enumerate(columns))

    def _time(self) -> str:
        """The range of time: its start belongs to it, its end does not."""
        given = self.query.get("time")
        if given is None:
            return ""
        found = _object(given, f"{self.place}.time", ("from", "to"))
        column = quoted_name(self.table.schema.time.name)
        parts = [
            f"{column} {op} {moment_sql(found[key], f'{self.place}.time.{key}')} AND "
            for key, op in (("from", ">="), ("to", "<"))
            if found.get(key) is not None
        ]
        return "".join(parts)

    def _order(self) -> str:
        given = self.query.get("order_by", [])
        if not isinstance(given, list):
            self.fail("order_by", "a list is wanted, such as ['host', {'column': 'time', 'descending': true}]")
        keys = []
        for at, each in enumerate(given):
            path = f"{self.place}.order_by[{at}]"
            key = {"column": each} if isinstance(each, str) else _object(each, path, ("column", "descending"))
            descending = " DESC" if _flag(key, "descending", f"{path}.descending") else ""
            keys.append(quoted_name(self.column(key.get("column"), path)) + descending)
        return f" ORDER BY {', '.join(keys)}" if keys else ""

    def _counts(self) -> str:
        made = ""
        for key in ("limit", "offset"):
            count = self.query.get(key)
            if count is None:
                continue
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                self.fail(key, f"a whole number from 0 is wanted, not {count!r}")
            made += f" {key.upper()} {count}"
        return made


def _object(value: Any, path: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """An object with none but some keys."""
    if not isinstance(value, Mapping):
        _fail(path, f"an object is wanted, not {type(value).__name__}")
    for key in value:
        if key not in keys:
            _fail(path, f"no key {key!r}; {hint(str(key), keys)}")
    return value


def _flag(found: Mapping[str, Any], key: str, path: str) -> bool:
    value = found.get(key, False)
    if not isinstance(value, bool):
        _fail(path, f"true or false is wanted, not {value!r}")
    return value


def _fail(path: str, message: str) -> NoReturn:
    raise InvalidInput(f"{path}: {message}")
