"""What a DELETE takes away: a predicate over a table snapshot as ranges of time per device, and how many rows see it.

A predicate over tags, attributes and time is a union of device sets × time ranges, and becomes just these. Any other is decided
row by row; its ranges are the rows that satisfy it, one range for neighbours. Either way they cover exactly the stored rows for
which the predicate is true, also those that the TTL hides now: what was deleted does not come back with another TTL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.table import with_ttl
from tsdb.exec.evaluate import evaluate, normalize
from tsdb.exec.rows import FileRows, RowSet
from tsdb.exec.selection import INT64_MAX, INT64_MIN, Selection
from tsdb.exec.stats import ScanStats
from tsdb.plan.predicate import And, Compare, Constant, InSet, IsNull, Literal, Not, Or, Predicate, columns_of
from tsdb_format.parallel import ordered_map
from tsdb_format.types import Role
from tsdb_format.vector import BoolArray, IntArray

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableSnapshot

Int32Array = NDArray[np.int32]

#: Device of a range that is every device's.
EVERY_DEVICE = -1
#: Terms of a union up to which it is taken apart; each may cost a look at every device.
_TERMS_MAX = 64


@dataclass(frozen=True, slots=True, eq=False)
class Deletion:
    """Ranges [low, high] of time, each of one device or of every one (−1), and the number of visible rows in them."""

    device: Int32Array
    low: IntArray
    high: IntArray
    row_count: int

    @classmethod
    def of(cls, parts: Iterable[tuple[Int32Array, IntArray, IntArray]], row_count: int) -> Deletion:
        """The ranges of all parts, by device and time."""
        joined = list(parts)
        if not joined:
            return cls(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64), row_count)
        device, low, high = (np.concatenate(arrays) for arrays in zip(*joined, strict=True))
        order = np.lexsort((low, device))
        return cls(device[order].astype(np.int32, copy=False), low[order], high[order], row_count)


@dataclass(frozen=True, slots=True)
class _Term:
    """Devices for which every one of ``tags`` is true, at times in [low, high]."""

    tags: tuple[Predicate, ...]
    low: int = INT64_MIN
    high: int = INT64_MAX


def deletion_ranges(table: TableSnapshot, predicate: Predicate | None, threads: int = 1) -> Deletion:
    """The rows of a snapshot for which ``predicate`` is true (None: all of them), as ranges."""
    terms = [_Term(())] if predicate is None else _terms(normalize(predicate), table)
    if terms is not None:
        return _ranges_of_terms(table, terms)
    assert predicate is not None
    return _ranges_of_rows(table, predicate, threads)


def deletion_of_devices(table: TableSnapshot, numbers: Int32Array) -> Deletion:
    """All rows of some devices, as ranges."""
    wanted = np.zeros(table.devices.count, np.bool_)
    wanted[numbers] = True
    devices = _stored_devices(table, wanted, INT64_MIN, INT64_MAX)
    if not len(devices):
        return Deletion.of((), 0)
    selection = Selection(table, None, ScanStats(table.table.name))
    selection.device_mask = wanted
    ranges = devices, np.full(len(devices), INT64_MIN), np.full(len(devices), INT64_MAX)
    return Deletion.of([ranges], sum(rows.count for rows in selection.row_sets()))


def deletion_of_rows(table: TableSnapshot, device: Int32Array, time: IntArray) -> Deletion:
    """Rows that somebody else found, by device and time, as ranges. In append mode several may be alike."""
    visible = int(np.count_nonzero(time >= _oldest(table)))
    return Deletion.of([_points(device, time)] if len(device) else [], visible)


def without_ttl(table: TableSnapshot) -> TableSnapshot:
    """The snapshot with the rows that its TTL hides."""
    return table if table.table.options.ttl_ns is None else replace(table, table=with_ttl(table.table, None))


def present_devices(table: TableSnapshot) -> BoolArray:
    """Which devices have a row that is visible."""
    present = np.zeros(table.devices.count, np.bool_)
    selection = Selection(table, None, ScanStats(table.table.name))
    for lane in selection.lanes():
        if lane.certain:
            seen = lane.max_time >= selection.time_low
            present[lane.device[seen if lane.merged is None else seen & ~lane.merged]] = True
            continue
        for rows in selection.rows_of_lane(lane):
            present[rows.device()] = True
    return present


def _oldest(table: TableSnapshot) -> int:
    """The first time that the TTL lets be seen."""
    return Selection(table, None, ScanStats(table.table.name)).time_low


# ---------------------------------------------------------------------------------------------- device sets × time ranges


def _terms(predicate: Predicate, table: TableSnapshot) -> list[_Term] | None:
    """A normalized predicate as a union of terms; None where it reads fields, or the terms are too many."""
    schema = table.table.schema
    names = columns_of(predicate)
    if names and all(name in schema and schema.column(name).role in (Role.TAG, Role.ATTRIBUTE) for name in names):
        return [_Term((predicate,))]
    match predicate:
        case Constant(value):
            return [_Term(())] if value is True else []
        case Or(parts):
            found = [_terms(part, table) for part in parts]
            union = [term for terms in found for term in terms or ()]
            return None if None in found or len(union) > _TERMS_MAX else union
        case And(parts):
            product = [_Term(())]
            for part in parts:
                terms = _terms(part, table)
                if terms is None or len(product) * len(terms) > _TERMS_MAX:
                    return None
                product = [made for a in product for b in terms if (made := _both(a, b)) is not None]
            return product
    if names != {schema.time.name}:
        return None
    spans = _time_spans(predicate)
    return None if spans is None or len(spans) > _TERMS_MAX else [_Term((), low, high) for low, high in spans]


def _both(a: _Term, b: _Term) -> _Term | None:
    low, high = max(a.low, b.low), min(a.high, b.high)
    return _Term((*a.tags, *b.tags), low, high) if low <= high else None


def _time_spans(part: Predicate) -> list[tuple[int, int]] | None:
    """The times, as inclusive ranges, for which a normalized leaf on the time column is true. A time is never NULL."""
    match part:
        case IsNull():
            return []
        case Not(IsNull()):
            return [(INT64_MIN, INT64_MAX)]
        case Compare(_, "!=", literal):
            return _gaps([literal])
        case Not(InSet(_, literals)):
            return _gaps(literals)
        case InSet(_, literals):
            return [(int(at), int(at)) for at in literals if INT64_MIN <= int(at) <= INT64_MAX]
        case Compare(_, op, literal):
            at = int(literal)
            low, high = {
                "=": (at, at), "<": (INT64_MIN, at - 1), "<=": (INT64_MIN, at), ">": (at + 1, INT64_MAX), ">=": (at, INT64_MAX),
            }[op]  # fmt: skip
            low, high = max(low, INT64_MIN), min(high, INT64_MAX)
            return [(low, high)] if low <= high else []
    return None


def _gaps(literals: Iterable[Literal]) -> list[tuple[int, int]]:
    """The times between the given ones."""
    edges = [INT64_MIN - 1, *sorted({int(at) for at in literals if INT64_MIN <= int(at) <= INT64_MAX}), INT64_MAX + 1]
    return [(a + 1, b - 1) for a, b in zip(edges, edges[1:], strict=False) if a + 1 <= b - 1]


def _ranges_of_terms(table: TableSnapshot, terms: list[_Term]) -> Deletion:
    """The union of the terms, cut at their ends into stretches of time, in each of which one set of devices goes."""
    time = table.table.schema.time.name
    parts = []
    row_count = 0
    for low, high, tags in _stretches(terms):
        wanted = None if tags is None else evaluate(tags, table.devices.values, table.devices.count)
        devices = _stored_devices(table, wanted, low, high)
        if len(devices):
            parts.append((devices, np.full(len(devices), low), np.full(len(devices), high)))
            bounds = (Compare(time, ">=", low), Compare(time, "<=", high))
            row_count += _count(table, And(bounds if tags is None else (*bounds, tags)))
    return Deletion.of(parts, row_count)


def _stretches(terms: list[_Term]) -> Iterator[tuple[int, int, Predicate | None]]:
    """Disjoint [low, high] that together are the terms', longest possible, each with the devices that go in it; None: all."""
    cuts = sorted({term.low for term in terms} | {term.high + 1 for term in terms})
    pieces = [
        (low, beyond - 1, frozenset(term.tags for term in terms if term.low <= low <= term.high))
        for low, beyond in zip(cuts, cuts[1:], strict=False)
    ]
    for covering, group in groupby(pieces, key=lambda piece: piece[2]):
        if covering:
            stretch = list(group)
            sets = tuple(And(tags) for tags in sorted(covering, key=repr) if tags)
            yield stretch[0][0], stretch[-1][1], Or(sets) if len(sets) == len(covering) else None


def _stored_devices(table: TableSnapshot, wanted: BoolArray | None, low: int, high: int) -> Int32Array:
    """The wanted devices that rows in [low, high] are stored of, deleted ones or not; −1 alone where every device is wanted."""
    stored = np.zeros(table.devices.count, np.bool_)
    for held in table.files:
        if held.max_time >= low and held.min_time <= high:
            index = held.file.resource
            stored[held.device_number[(index.min_time <= high) & (index.max_time >= low)]] = True
    if wanted is not None and not wanted.all():
        return np.flatnonzero(stored & wanted).astype(np.int32)
    return np.full(int(stored.any()), EVERY_DEVICE, np.int32)


def _count(table: TableSnapshot, predicate: Predicate) -> int:
    """Visible rows that satisfy a predicate."""
    selection = Selection(table, predicate, ScanStats(table.table.name))
    return sum(selection.filtered(rows).count for rows in selection.row_sets())


# ---------------------------------------------------------------------------------------------- row by row


def _ranges_of_rows(table: TableSnapshot, predicate: Predicate, threads: int) -> Deletion:
    selection = Selection(without_ttl(table), predicate, ScanStats(table.table.name))
    oldest = _oldest(table)
    unique = table.table.options.overlays

    def find(rows: RowSet) -> tuple[tuple[Int32Array, IntArray, IntArray], int]:
        rows = selection.filtered(rows)
        if not rows.count:
            return _points(np.empty(0, np.int32), np.empty(0, np.int64)), 0
        device, time = rows.device(), rows.time()
        visible = int(np.count_nonzero(time >= oldest))
        return (_neighbours(rows, device, time) if unique and isinstance(rows, FileRows) else _points(device, time)), visible

    found = list(ordered_map(find, selection.row_sets(), threads, first_alone=True))
    return Deletion.of([ranges for ranges, _ in found if len(ranges[0])], sum(visible for _, visible in found))


def _neighbours(rows: FileRows, device: Int32Array, time: IntArray) -> tuple[Int32Array, IntArray, IntArray]:
    """Rows of one file as ranges: rows of a device that follow each other there have no other row of it between them.

    That is so where rows are unique: a run of a file that shares a time with another file's is not read as rows of a file.
    """
    position = rows.positions()
    first = np.ones(len(time), np.bool_)
    first[1:] = (position[1:] != position[:-1] + 1) | (device[1:] != device[:-1])
    starts = np.flatnonzero(first)
    return device[starts], time[starts], time[np.append(starts[1:], len(time)) - 1]


def _points(device: Int32Array, time: IntArray) -> tuple[Int32Array, IntArray, IntArray]:
    """Each device and time once."""
    order = np.lexsort((time, device))
    device, time = device[order], time[order]
    new = np.ones(len(time), np.bool_)
    new[1:] = (device[1:] != device[:-1]) | (time[1:] != time[:-1])
    return device[new], time[new], time[new]
