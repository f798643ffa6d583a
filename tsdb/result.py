"""Results: rows as Python values, numpy, pandas, polars or Arrow, by DuckDB's names.

A result pins its snapshot and can be read in any of these ways, more than once: columns always come whole, and rows come through
one cursor that ``fetchone``, ``fetchmany``, iteration and ``fetchall`` share. Small native results are kept; others run again when
they are read again, over the same snapshot. Nothing here imports pyarrow, DuckDB or pandas before it is asked for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tsdb.exec.batch import Batch, concat_batches
from tsdb.plan.schema import duckdb_name
from tsdb_format.errors import Closed, InvalidInput, NotFound
from tsdb_format.types import ColumnType, Kind

if TYPE_CHECKING:
    from tsdb.blob import BlobFile
    from tsdb.exec.arrow import Converter
    from tsdb.exec.context import ExecContext
    from tsdb.exec.duck import DuckRun
    from tsdb.plan.predicate import Predicate
    from tsdb.storage.snapshot import TableSnapshot
    from tsdb.stream.arrow_rows import ArrowRows

#: Rows fetched at a time while iterating.
_FETCH_ROWS = 4_096
#: Rows, and bytes, up to which a native result is kept once it was read.
KEPT_ROWS, KEPT_BYTES = 100_000, 256 * 2**20
#: Why there are no handles.
NO_HANDLES = (
    "blobs have handles where a query selects them from a table, in any order or number, without computing with them: "
    "SELECT the column and the keys, and take the handles of those rows"
)
#: Rows that ``repr`` shows.
_SHOWN_ROWS = 10
_SHOWN_WIDTH = 32


class NativeSource:
    """Rows of native operators. ``keys`` name the columns in batches, ``columns`` as they are shown."""

    def __init__(
        self,
        columns: Sequence[str],
        schema: Sequence[tuple[str, ColumnType]],
        run: Callable[[], tuple[ExecContext, Iterator[Batch]]],
        cells: Callable[[str], tuple[TableSnapshot, Iterator[Batch]] | None] | None = None,
    ) -> None:
        self.columns = list(columns)
        self.keys = [key for key, _ in schema]
        self.kinds = [kind for _, kind in schema]
        self._run = run
        #: Runs the plan once more, for handles of the blobs of a column; gives None where there cannot be any.
        self._cells = cells
        self._kept: list[Batch] | None = None
        self._running: Iterator[Batch] | None
        self.context, self._running = run()
        #: Whether ``context`` is that of a run that came to its end.
        self._whole = False

    @property
    def types(self) -> list[str]:
        """DuckDB's names of the types."""
        return [duckdb_name(kind) for kind in self.kinds]

    def batches(self) -> Iterator[Batch]:
        """The batches of one run: the first, the one that is kept, or a new one."""
        if self._kept is not None:
            yield from self._kept
            return
        running, self._running = self._running, None
        if running is None:
            self.context, running = self._run()
            self._whole = False
        context = self.context
        kept: list[Batch] | None = []
        count = size = 0
        with context.under_way():
            for batch in running:
                count, size = count + batch.row_count, size + batch.nbytes
                if kept is not None and count <= KEPT_ROWS and size <= KEPT_BYTES:
                    kept.append(batch)
                else:
                    kept = None
                yield batch
        self._kept = kept
        self.context, self._whole = context, True

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows."""
        from tsdb.exec.python_value import rows_of

        rows: list[tuple[Any, ...]] = []
        for batch in self.batches():
            rows += rows_of(batch, self.keys)
        return rows

    def rows(self, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """All rows, at most ``count`` at a time."""
        from tsdb.exec.python_value import rows_of

        for batch in self.batches():
            for start in range(0, batch.row_count, count):
                yield rows_of(batch.slice(start, start + count), self.keys)

    def whole(self) -> Batch:
        """All rows as one batch."""
        batches = list(self.batches())
        if batches:
            return concat_batches(batches)
        from tsdb.exec.literal import literal_vector

        return Batch({key: literal_vector(kind, ()) for key, kind in zip(self.keys, self.kinds, strict=True)}, 0)

    def fetchnumpy(self) -> dict[str, Any]:
        """All rows as arrays by name; a repeated name gets a number."""
        from tsdb.exec.python_value import numpy_column

        batch = self.whole()
        return {name: numpy_column(batch.vectors[key]) for name, key in zip(distinct(self.columns), self.keys, strict=True)}

    def blobs(self, name: str) -> list[BlobFile | None]:
        """A handle for each row's blob."""
        from tsdb.blob import handles

        place = self.columns.index(name)
        if self.kinds[place].kind is not Kind.BLOB:
            raise InvalidInput(f"column {name!r} is {self.kinds[place]}, and only blobs have handles")
        run = None if self._cells is None else self._cells(self.keys[place])
        if run is None:
            raise InvalidInput(NO_HANDLES)
        table, batches = run
        found: list[BlobFile | None] = []
        for batch in batches:
            found += handles(batch.vectors[self.keys[place]], table)
        return found

    def df(self) -> Any:
        """All rows as a pandas frame."""
        import pandas as pd

        from tsdb.exec.python_value import frame_column

        batch = self.whole()
        columns = {name: frame_column(batch.vectors[key]) for name, key in zip(distinct(self.columns), self.keys, strict=True)}
        return pd.DataFrame(columns, index=pd.RangeIndex(batch.row_count))

    def reader(self) -> Any:
        """The rows as a stream of record batches."""
        return self._converter().reader(self.batches())

    def table(self) -> Any:
        """All rows as an Arrow table."""
        return self._converter().table(self.batches(), self.context.threads)

    def _converter(self) -> Converter:
        from tsdb.exec.arrow import Converter

        return Converter(list(zip(self.columns, self.kinds, strict=True)), self.keys)

    def pushed(self) -> dict[int, list[Predicate]]:
        """What scans apply besides their own predicates: nothing, the plan says it all."""
        return {}

    def settle(self) -> None:
        """Run to the end if no run has come there yet: counters are those of a whole run."""
        if not self._whole:
            for _ in self.batches():
                pass

    def close(self) -> None:
        """Let go of the snapshot: what would run again from now on raises Closed."""
        self._kept = self._running = self._cells = None
        self._run = _closed
        self._whole = True


def _closed() -> tuple[ExecContext, Iterator[Batch]]:
    raise Closed("the result was closed")


#: Where rows come from; all have the same methods.
Source: TypeAlias = "NativeSource | DuckRun | ArrowRows"


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with ``_1`` and so on where one repeats, as DuckDB gives them to numpy and pandas."""
    made: list[str] = []
    for name in names:
        unique, number = name, 0
        while unique in made:
            number += 1
            unique = f"{name}_{number}"
        made.append(unique)
    return made


class Result:
    """What a statement returned. A statement that returns no rows gives an empty result without columns.

    ``shown`` says what ``repr`` shows: the first rows, all of a listing, or a text that has one line or more a row, such as a plan.
    """

    def __init__(self, source: Source | None, shown: Literal["first", "all", "text"] = "first") -> None:
        self._source = source
        self._shown = shown
        self._parts: Iterator[list[tuple[Any, ...]]] | None = None
        self._waiting: deque[tuple[Any, ...]] = deque()

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return [] if self._source is None else list(self._source.columns)

    @property
    def types(self) -> list[str]:
        """The columns' types, as DuckDB names them."""
        return [] if self._source is None else list(self._source.types)

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """Names and types in the form of the Python database API."""
        return [(name, kind, None, None, None, None, None) for name, kind in zip(self.columns, self.types, strict=True)]

    @property
    def text(self) -> str | None:
        """The lines of a result that is a text, a plan or the statement that makes a table; None for any other."""
        if self._source is None or self._shown != "text":
            return None
        return "\n".join(str(row[0]) for row in self._source.fetchall())

    @property
    def stats(self) -> dict[str, Any]:
        """What was read and what was not, summed over the scans; runs the query if that has not happened."""
        if self._source is None:
            return {}
        self._source.settle()
        return dict(self._source.context.stats.as_dict())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows, or those that ``fetchone`` and ``fetchmany`` have left; the cursor is then at the start again."""
        if self._source is None:
            return []
        if self._parts is None:
            return self._source.fetchall()
        rows = list(self._waiting)
        for part in self._parts:
            rows += part
        self._parts = None
        self._waiting.clear()
        return rows

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Up to ``size`` next rows; none at the end."""
        if size < 0:
            raise InvalidInput(f"fetchmany takes a number of rows, not {size}")
        rows: list[tuple[Any, ...]] = []
        while len(rows) < size and self._pull():
            rows.append(self._waiting.popleft())
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None at the end."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while self._pull():
            yield self._waiting.popleft()
        self._parts = None

    def _pull(self) -> bool:
        """Have rows waiting, if there are more."""
        if self._waiting:
            return True
        if self._source is None:
            return False
        if self._parts is None:
            self._parts = self._source.rows(_FETCH_ROWS)
        self._waiting.extend(next(self._parts, ()))
        return bool(self._waiting)

    def batches(self) -> Iterator[Any]:
        """The rows as Arrow record batches, streaming."""
        return iter(self._reader())

    def arrow(self) -> Any:
        """All rows as a pyarrow table."""
        if self._source is None:
            import pyarrow as pa

            return pa.table({})
        return self._source.table()

    def blobs(self, name: str) -> list[BlobFile | None]:
        """The blobs of a column as files to read from, None for NULL, in the order of the rows; none of their bytes is read yet.

        Raises NotFound for no such column, InvalidInput where the query computes with blobs or does not take them from a table.
        """
        if self._source is None or name not in self._source.columns:
            raise NotFound(f"the result has no column {name!r}; it has: {', '.join(self.columns)}")
        if not isinstance(self._source, NativeSource):
            raise InvalidInput(NO_HANDLES)
        return self._source.blobs(name)

    def df(self) -> Any:
        """All rows as a pandas frame."""
        if self._source is None:
            import pandas as pd

            return pd.DataFrame()
        return self._source.df()

    def pl(self) -> Any:
        """All rows as a polars frame; a repeated name gets a number."""
        import polars

        table = self.arrow().rename_columns(distinct(self.columns))
        try:
            return polars.from_arrow(table)
        except polars.exceptions.PolarsError as error:  # intervals and unions
            raise InvalidInput(f"polars takes not all of these types, {', '.join(dict.fromkeys(self.types))}: {error}") from error

    def fetchnumpy(self) -> dict[str, Any]:
        """All rows as numpy arrays by name, masked where there are NULLs."""
        return {} if self._source is None else dict(self._source.fetchnumpy())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._reader().__arrow_c_stream__(requested_schema)

    def _reader(self) -> Any:
        import pyarrow as pa

        if self._source is None:
            return pa.RecordBatchReader.from_batches(pa.schema([]), [])
        return self._source.reader()

    def close(self) -> None:
        """Let go of the snapshot and of DuckDB's connection."""
        if self._source is not None:
            self._source.close()

    def __repr__(self) -> str:
        if self._source is None:
            return "Result without rows"
        text = self.text
        if text is not None:
            return text
        whole = self._shown == "all"
        shown: list[tuple[Any, ...]] = []
        more = False
        for part in self._source.rows(_SHOWN_ROWS + 1):
            shown += part
            if len(shown) > _SHOWN_ROWS and not whole:
                more = True
                break
        return _text_table(self.columns, self.types, shown if whole else shown[:_SHOWN_ROWS], more, whole)


def _text_table(names: list[str], types: list[str], rows: list[tuple[Any, ...]], more: bool, whole: bool) -> str:
    """A small table for people. Long values are cut, except in a listing, and where a text is all that there is."""
    cells = [names, types, *([_cell(value) for value in row] for row in rows)]
    if not whole and types != ["VARCHAR"]:
        cells = [[text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 1] + "…" for text in line] for line in cells]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    lines.insert(2, "  ".join("─" * width for width in widths))
    if more:
        lines.append("…")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(str(value).split())
