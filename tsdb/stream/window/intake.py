"""Rows on their way into windows: the columns that are held, and the times that windows go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tsdb.exec.batch import Batch
from tsdb.exec.evaluate import evaluate, normalize
from tsdb.stream.stage import NativeStage
from tsdb.stream.window.span import microseconds
from tsdb_format.errors import InvalidInput
from tsdb_format.types import HUGEINT, ColumnType, parse_type
from tsdb_format.vector import Vector

if TYPE_CHECKING:
    from tsdb.plan.predicate import Predicate
    from tsdb.stream.stage import Stage
    from tsdb.stream.window.query import WindowedQuery


class Intake:
    """What becomes of the data's rows: the columns that are held, the times that windows go by, and which rows the text can use."""

    def __init__(self, data: Stage, columns: dict[str, ColumnType], time: str, wanted: Predicate | None) -> None:
        """``columns`` are the held ones by their shown names."""
        self.kind = columns[time]
        self._columns = columns
        self._time = time
        self._wanted = None if wanted is None else normalize(wanted)
        self._named = (
            dict(zip(data.columns, (name for name, _ in data.schema), strict=True)) if isinstance(data, NativeStage) else {}
        )

    def rows(self, part: Any) -> tuple[Batch, Any, Any]:
        """The rows of a batch or an Arrow table, their times in microseconds, and a mask, None for all. Those without time go."""
        vectors = {name: self._vector(part, name, kind) for name, kind in self._columns.items()}
        batch = Batch(vectors, len(vectors[self._time]))
        valid = vectors[self._time].valid()
        if not valid.all():
            batch = batch.take(np.flatnonzero(valid))
        mask = None
        if self._wanted is not None and batch.row_count:
            mask = evaluate(self._wanted, batch.vectors.__getitem__, batch.row_count)
        return batch, microseconds(batch.vectors[self._time].values.astype(np.int64), self.kind), mask

    def _vector(self, part: Any, name: str, kind: ColumnType) -> Vector:
        if isinstance(part, Batch):
            return part.vectors[self._named[name]]
        from tsdb.exec.arrow import vector_of

        return vector_of(part.column(name).combine_chunks(), kind)


def held_columns(query: WindowedQuery, data: Stage) -> dict[str, ColumnType]:
    """The data's columns that are held. Raises InvalidInput for what cannot be."""
    if isinstance(data, NativeStage):
        kinds: list[Any] = [kind for _, kind in data.schema]
    else:
        kinds = list(data.types)
    made: dict[str, ColumnType] = {}
    for name, kind in zip(data.columns, kinds, strict=True):
        if name in made:
            raise InvalidInput(f"the data of live windows has two columns {name!r}: give one another name")
        if query.wanted is None or name.lower() in query.wanted or name.lower() == query.time.lower():
            made[name] = _parsed(name, kind) if isinstance(kind, str) else kind
    if not made[column_named(made, query.time)].is_time:
        raise InvalidInput(f"live windows go by a timestamp, and {query.time!r} is {made[column_named(made, query.time)]}")
    return made


def held_type(kind: str) -> ColumnType:
    """The type of ours that DuckDB's of that name is; raises InvalidInput where there is none."""
    return HUGEINT if kind == "HUGEINT" else parse_type(kind)


def _parsed(name: str, kind: str) -> ColumnType:
    try:
        return held_type(kind)
    except InvalidInput:
        raise InvalidInput(
            f"column {name!r} of the data of live windows is {kind}, which cannot be held: cast it, or leave it out"
        ) from None


def column_named(columns: dict[str, ColumnType], name: str) -> str:
    """The column of a name, in any case."""
    found = next((column for column in columns if column.lower() == name.lower()), None)
    if found is None:
        raise InvalidInput(f"the data of live windows has no column {name!r}")
    return found
