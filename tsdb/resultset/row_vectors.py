"""The rows of any query as vectors of types that tables have, whoever computes them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from tsdb.result import NativeSource
from tsdb_format.errors import InvalidInput
from tsdb_format.types import STORED_KINDS, ColumnType, parse_type

if TYPE_CHECKING:
    from tsdb.result import Source
    from tsdb_format.vector import Vector


def types_of(source: Source) -> tuple[ColumnType, ...] | None:
    """The types of a query's columns; None where a table could not have one of them."""
    if isinstance(source, NativeSource):
        return tuple(source.kinds) if all(each.kind in STORED_KINDS for each in source.kinds) else None
    try:
        return tuple(parse_type(kind) for kind in source.types)
    except InvalidInput:
        return None


def vectors_of(source: Source, types: Sequence[ColumnType]) -> Generator[list[Vector], None, None]:
    """The columns of a query's rows, some rows at a time."""
    if isinstance(source, NativeSource):
        for batch in source.batches():
            yield [batch.vectors[key] for key in source.keys]
        return
    from tsdb.exec.arrow import vectors_of as of_arrow

    for batch in of_arrow(source.reader(), [(str(at), kind) for at, kind in enumerate(types)]):
        yield list(batch.vectors.values())
