"""Rows that DuckDB computed, as the source of a result: an Arrow table, read again by DuckDB so that values are what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tsdb.exec.context import ExecContext
    from tsdb.plan.predicate import Predicate


class ArrowRows:
    """The rows of an Arrow table, with names and types as DuckDB shows them."""

    def __init__(self, table: Any, columns: Sequence[str], types: Sequence[str], context: ExecContext) -> None:
        self.columns, self.types = list(columns), list(types)
        self.context = context
        self._table = table

    def _read(self, read: Callable[[Any], Any]) -> Any:
        """What DuckDB reads of the table, by a connection of its own."""
        from tsdb.exec.duck_call import interruptible
        from tsdb.exec.duck_instance import cursor

        connection = cursor(self.context.settings)
        try:
            return interruptible(lambda: read(connection.from_arrow(self._table)), connection)
        finally:
            connection.close()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as Python values."""
        return list(self._read(lambda relation: relation.fetchall()))

    def rows(self, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """All rows, at most ``count`` at a time."""
        found = self.fetchall()
        for start in range(0, len(found), count):
            yield found[start : start + count]

    def df(self) -> Any:
        """All rows as a pandas frame."""
        return self._read(lambda relation: relation.df())

    def fetchnumpy(self) -> Any:
        """All rows as numpy columns."""
        return self._read(lambda relation: relation.fetchnumpy())

    def table(self) -> Any:
        """All rows as an Arrow table."""
        return self._table

    def reader(self) -> Any:
        """The rows as a stream of record batches."""
        return self._table.to_reader()

    def pushed(self) -> dict[int, list[Predicate]]:
        """Nothing: the table is there already."""
        return {}

    def settle(self) -> None:
        """The rows are there already."""

    def close(self) -> None:
        """Nothing is held but memory."""
