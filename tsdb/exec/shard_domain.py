"""The shards that wanted rows are in: files of others are left out without being opened.

A row's shard is known where it is a hash of the row's own columns, and that of all its versions the same. Then the values that
these columns must have, by the keys of a join or by a predicate's equalities, tell the shards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from tsdb.catalog.shard import shards_of
from tsdb.exec.join_key import are_comparable
from tsdb.exec.literal import literal_vector
from tsdb.plan.predicate import Compare, InSet, Literal, Member, Predicate, conjuncts
from tsdb_format.types import ColumnType, Kind, Role
from tsdb_format.vector import IntArray, Vector

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.exec.stats import ScanStats
    from tsdb.storage.snapshot import TableSnapshot

Shards = frozenset[int]

#: Tuples of values that equalities of several columns may make together.
_TUPLES_MAX = 4_096
#: Parts of a table kept with its snapshot: dashboards ask for the same few keys again and again.
_PARTS_MAX = 64
_WHOLE = frozenset({Kind.INT32, Kind.INT64, Kind.DATE, Kind.TIMESTAMP_S, Kind.TIMESTAMP_MS, Kind.TIMESTAMP_US, Kind.TIMESTAMP_NS})

_PARTS: WeakKeyDictionary[TableSnapshot, OrderedDict[Shards, TableSnapshot]] = WeakKeyDictionary()


def shards_with(table: Table, values: Mapping[str, Vector]) -> Shards | None:
    """The shards of rows that have some of these tuples, given by column; None where that is not known."""
    by = table.options.shard_by
    if not is_known(table) or not values.keys() >= set(by):
        return None
    if not all(are_comparable(table.schema.column(name).type, values[name].type) for name in by):
        return None
    return frozenset(shards_of([values[name] for name in by], table.options.shards).tolist())


def is_known(table: Table) -> bool:
    """Whether a row's shard follows from what it has in the columns ``shard_by``, now and in all its versions."""
    options = table.options
    if not options.shard_by or options.shard_text:
        return False
    return options.mode == "append" or all(table.schema.column(name).role is Role.TAG for name in options.shard_by)


def shards_wanted(table: Table, predicate: Predicate | None) -> Shards | None:
    """The shards of rows that may satisfy a predicate, by what they have to be equal to; None where it does not tell."""
    if predicate is None or not is_known(table):
        return None
    found: list[Shards] = []
    single: dict[str, Vector] = {}
    for columns, vectors in _equalities(table, predicate):
        shards = shards_with(table, dict(zip(columns, vectors, strict=True)))
        if shards is not None:
            found.append(shards)
        elif len(columns) == 1:
            single.setdefault(columns[0], vectors[0])
    tuples = _tuples({name: single[name] for name in table.options.shard_by if name in single})
    shards = shards_with(table, tuples)
    found += [] if shards is None else [shards]
    return frozenset.intersection(*found) if found else None


def in_shards(table: TableSnapshot, shards: Shards | None, stats: ScanStats, fate: str) -> TableSnapshot:
    """The table with the files alone that may hold rows of these shards (None: all); what is left out is counted as ``fate``."""
    if shards is None:
        return table
    from tsdb.storage.snapshot import OpenFile

    out = [isinstance(file, OpenFile) and file.shard is not None and file.shard not in shards for file in table.files]
    if not any(out):
        return table
    gone = [file for file, left in zip(table.files, out, strict=True) if left]
    for level, count in (("files", len(gone)), ("resources", len(gone)), ("rows", sum(file.row_count for file in gone))):
        stats.counts[f"{level}_total"] += count
        stats.counts[f"{level}_{fate}"] += count
    parts = _PARTS.setdefault(table, OrderedDict())
    part = parts.get(shards)
    if part is None:
        files = tuple(file for file, left in zip(table.files, out, strict=True) if not left)
        part = parts[shards] = replace(table, files=files)
        while len(parts) > _PARTS_MAX:
            parts.popitem(last=False)
    return part


def _equalities(table: Table, predicate: Predicate) -> Iterator[tuple[tuple[str, ...], Sequence[Vector]]]:
    """What rows have to be equal to: columns, and vectors of the values that they may have there."""
    for part in conjuncts(predicate):
        match part:
            case Member(columns, members) if members.values is not None:
                yield columns, members.values
            case Compare(column, "=", literal):
                vector = _vector(table, column, (literal,))
            case InSet(column, literals):
                vector = _vector(table, column, literals)
            case _:
                continue
        if not isinstance(part, Member) and vector is not None:
            yield (column,), (vector,)


def _vector(table: Table, column: str, literals: Sequence[Literal]) -> Vector | None:
    """Literals as values of a column that shards go by; None where one is not exactly of its type."""
    if column not in table.options.shard_by:
        return None
    kind = table.schema.column(column).type
    exact = literals and all(_is_exactly(literal, kind) for literal in literals)
    return literal_vector(kind, tuple(literals)) if exact else None


def _is_exactly(literal: Literal, kind: ColumnType) -> bool:
    """Whether a literal is a value of a type, so that what is stored is equal to it where it is the same."""
    if kind.kind is Kind.STRING:
        return isinstance(literal, str)
    if kind.kind is Kind.BOOLEAN or isinstance(literal, bool):
        return kind.kind is Kind.BOOLEAN and isinstance(literal, bool)
    if kind.kind in _WHOLE:
        bits = 8 * kind.physical.itemsize - 1
        return isinstance(literal, int) and -(1 << bits) <= literal < 1 << bits
    if kind.kind in (Kind.FLOAT, Kind.DOUBLE) and isinstance(literal, float):
        return literal != literal or float(kind.physical.type(literal)) == literal
    return False


def _tuples(values: Mapping[str, Vector]) -> dict[str, Vector]:
    """All tuples of some values of each column; none where they are too many."""
    sizes = [len(vector) for vector in values.values()]
    count = int(np.prod(sizes, dtype=np.float64)) if sizes else 0
    if not 0 < count <= _TUPLES_MAX:
        return {}
    places: list[IntArray] = list(np.indices(sizes, np.int64).reshape(len(sizes), -1))
    return {name: vector.take(at) for (name, vector), at in zip(values.items(), places, strict=True)}
