"""Cursors of PEP 249."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tsdb.dbapi import error
from tsdb.dbapi.statement import first_word, for_rows, with_named
from tsdb.result import Result

if TYPE_CHECKING:
    from tsdb.dbapi.connection import Connection
    from tsdb.sql.environment import Parameters

#: First words of statements that answer how much they changed: that is ``rowcount``, and there is nothing to fetch.
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "TRUNCATE"})
#: Rows that ``fetchall`` takes at a time.
_FETCHED_AT_ONCE = 65_536
#: Rows that ``executemany`` writes in one commit.
_ROWS_AT_ONCE = 500

Description = list[tuple[Any, ...]]


class Cursor:
    """Runs statements and gives their rows. ``arraysize`` is how many ``fetchmany`` takes by itself."""

    def __init__(self, connection: Connection) -> None:
        self.arraysize = 1
        self.description: Description | None = None
        self.rowcount = -1
        self.lastrowid = None
        self._connection: Connection | None = connection
        self._result: Result | None = None

    @property
    def connection(self) -> Connection:
        """The connection that made it."""
        if self._connection is None:
            raise error.InterfaceError("the cursor was closed")
        return self._connection

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Run a statement. Parameters are a sequence for ``?``, or a mapping for ``:name`` and ``$name``; returns the cursor."""
        self._forget()
        if isinstance(parameters, Mapping):
            operation = with_named(operation, parameters)
        result = self.connection.run(operation, parameters)
        if not result.columns:
            return self
        if first_word(operation) in _CHANGES:
            self.rowcount = int(result.fetchall()[0][0])
            return self
        self._result = result
        self.description = result.description
        return self

    def executemany(self, operation: str, parameters: Iterable[Any]) -> Cursor:
        """Run a statement once for each set of parameters; ``INSERT … VALUES (?, …)`` writes hundreds of rows in one commit."""
        sets = list(parameters)
        total = 0
        for text, values in self._batches(operation, sets):
            self.execute(text, values)
            total += max(self.rowcount, 0)
        self._forget()
        self.rowcount = total
        return self

    def _batches(self, operation: str, sets: list[Any]) -> Iterator[tuple[str, Any]]:
        rows = [values for values in sets if isinstance(values, Sequence) and not isinstance(values, str | bytes)]
        at = 0
        while len(rows) == len(sets) and at < len(rows):
            part = rows[at : at + _ROWS_AT_ONCE]
            text = for_rows(operation, len(part[0]), len(part))
            if text is None or any(len(values) != len(part[0]) for values in part):
                break
            yield text, [value for values in part for value in values]
            at += len(part)
        for values in sets[at:]:
            yield operation, values

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None at the end."""
        with error.translated():
            return self._rows().fetchone()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, ``arraysize`` if not told how many; none at the end."""
        with error.translated():
            return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        result = self._rows()
        with error.translated():
            rows: list[tuple[Any, ...]] = []
            while part := result.fetchmany(_FETCHED_AT_ONCE):
                rows += part
        return rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def _rows(self) -> Result:
        self.connection  # noqa: B018
        if self._result is None:
            raise error.InterfaceError("there is nothing to fetch: the last statement gave no rows, or none was run")
        return self._result

    def setinputsizes(self, sizes: object) -> None:
        """Nothing needs to know."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing needs to know."""

    def close(self) -> None:
        """Let go of the result."""
        count = self.rowcount
        self._forget()
        self.rowcount, self._connection = count, None

    def _forget(self) -> None:
        result, self._result = self._result, None
        self.description, self.rowcount = None, -1
        if result is not None:
            result.close()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
