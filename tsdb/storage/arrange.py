"""From rows as they arrived to rows as files hold them: split by time, sorted by (tags, time), duplicates overlaid.

Rows that already are in order are passed on as they came. See ``tsdb.exec.kernels.sorting`` for what the rest costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable, Int32Array, compacted
from tsdb.catalog.table import Mode, TableOptions
from tsdb.exec.kernels import sorting
from tsdb.storage.batch import Pieces, RowBatch
from tsdb_format.parallel import ordered_map
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME
from tsdb_format.vector import BoolArray, IntArray, Pool, Vector, concat, concat_pools

#: Below this many rows columns are sorted one after the other: a thread costs more than it saves.
PARALLEL_ROWS_MIN = 262_144
#: Rows of a batch whose times are looked at to place the cuts between its files.
CUT_SAMPLE = 65_536
_ONE_ROW = np.array([0, 1], np.int64)


@dataclass(slots=True)
class SortedRows:
    """The rows of one file: ``numbers`` are its devices (table-wide) in tag order, device i has rows row_start[i]:row_start[i+1].

    ``columns`` holds the time column and the given fields; ``overlaid`` counts the rows that vanished into a later one.
    """

    numbers: Int32Array
    row_start: IntArray
    columns: dict[str, Vector]
    overlaid: int


@dataclass(slots=True)
class _Order:
    """``position`` of each row (None: as they are), the ranks present, where each one's rows start, and their times in order."""

    position: Int32Array | None
    ranks: IntArray
    bounds: IntArray
    times: IntArray
    duplicates: bool


def arrange(
    batch: RowBatch, numbers: Int32Array, rank: Int32Array, by_rank: Int32Array, options: TableOptions, threads: int = 1,
    cuts: Sequence[int] = (),
) -> Iterator[SortedRows]:  # fmt: skip
    """The files that a batch becomes, one at a time, ascending in time.

    ``numbers`` are the rows' devices; ``rank`` and ``by_rank`` map a device to its place in tag order and back. No file spans one
    of the ``cuts`` (ascending): it has rows before it, or from it on.
    """
    time = batch.schema.time
    ticks = None
    if options.partition_ns is not None:
        ticks = max(1, options.partition_ns * time.type.units_per_second // 10**9)
    names = _stored_names(batch)
    times = batch.whole(time.name).values
    parts = list(split_rows(times, options.file_rows_max, ticks, cuts))
    wholes = {name: batch.whole(name) for name in names} if len(parts) > 1 else {}
    for rows in parts:
        pieces: dict[str, Pieces]
        if rows is None:
            pieces, part_numbers, part_times = {name: batch.columns[name] for name in names}, numbers, times
        else:
            pieces = {name: (vector.take(rows),) for name, vector in wholes.items()}
            part_numbers, part_times = numbers[rows], times[rows]
        yield _sorted(time.name, pieces, rank[part_numbers], part_times, by_rank, options.overlays, threads)


def arrange_whole(batch: RowBatch, numbers: Int32Array, devices: DeviceTable, mode: Mode, threads: int = 1) -> SortedRows:
    """The batch as the rows of one file, whatever their times and number."""
    time = batch.schema.time.name
    pieces = {name: batch.columns[name] for name in _stored_names(batch)}
    one = _one_device(batch, numbers, pieces, time)
    if one is not None:
        return one
    rank, by_rank = devices.ranks_of(numbers)
    return _sorted(time, pieces, rank, batch.whole(time).values, by_rank, mode == "table", threads)


def detached(rows: SortedRows, batch: RowBatch) -> SortedRows:
    """The rows without a share in the memory that the batch came in, which its owner may use again, nor in pools much too large."""
    for name, vector in rows.columns.items():
        shared = any(np.may_share_memory(vector.values, piece.values) for piece in batch.columns[name])
        values = vector.values.copy() if shared else vector.values
        validity = None if vector.validity is None else vector.validity.copy()
        made = Vector(vector.type, values, validity, vector.pool)
        pool = vector.pool
        if pool is not None and (len(pool) > 2 * len(values) or len(pool.data) != pool.offsets[-1] - pool.offsets[0]):
            made = compacted(made)
        rows.columns[name] = made
    return rows


def _one_device(batch: RowBatch, numbers: Int32Array, pieces: dict[str, Pieces], time: str) -> SortedRows | None:
    """A batch of one row, as it is; None for others."""
    if batch.row_count != 1 or any(len(each) != 1 for each in pieces.values()):
        return None
    return SortedRows(numbers, _ONE_ROW, {name: each[0] for name, each in pieces.items()}, 0)


def _stored_names(batch: RowBatch) -> list[str]:
    """The columns of a batch that files store."""
    return [name for name in batch.schema.stored if name in batch.columns]


def split_rows(
    times: IntArray, rows_max: int, partition_ticks: int | None, cuts: Sequence[int] = ()
) -> Iterator[NDArray[Any] | slice | None]:
    """The rows of each file, in time order: None for all of them, a slice where they came so, else indices in order of arrival.

    Files never cross a partition, nor one of the ``cuts`` (ascending, where a next file may begin), and hold about ``rows_max``
    rows at most; rows of one time stay together.
    """
    if not len(times):
        return
    bucket = np.zeros(len(times), np.int64)
    low, high = int(times.min()), int(times.max())
    if partition_ticks is not None and low // partition_ticks != high // partition_ticks:
        bucket = times // partition_ticks
        bucket -= bucket.min()
    if len(times) > rows_max and low < high:
        step = max(1, len(times) // CUT_SAMPLE)
        sample = np.sort(times[::step])
        files = -(-len(times) // rows_max)
        cuts = np.unique([*cuts, *sample[np.arange(1, files) * len(sample) // files].tolist()]).tolist()
    if len(cuts):
        bucket = bucket * (len(cuts) + 1) + np.searchsorted(np.array(cuts, np.int64), times, side="right")
    if not (bucket != bucket[0]).any():
        yield None
        return
    if (bucket[1:] >= bucket[:-1]).all():
        edges = np.flatnonzero(bucket[1:] != bucket[:-1]) + 1
        for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(times)], strict=True):
            yield slice(start, stop)
        return
    order = np.argsort(bucket, kind="stable")
    edges = np.flatnonzero(np.diff(bucket[order])) + 1
    yield from np.split(order, edges)


def _sorted(
    time: str, pieces: dict[str, Pieces], rank: Int32Array, times: IntArray, by_rank: Int32Array, overlay: bool, threads: int
) -> SortedRows:
    order = _order(rank, times, len(by_rank))
    count = len(times)
    last: BoolArray | None = None
    row_start = order.bounds
    if overlay and order.duplicates:
        last = np.empty(count, np.bool_)
        if sorting.mark_last(order.times, order.bounds, last) == count:
            last = None
        else:
            row_start = np.concatenate([[0], np.cumsum(np.add.reduceat(last, order.bounds[:-1], dtype=np.int64))])

    def one(name: str) -> Vector:
        if name == time:
            return Vector(pieces[name][0].type, order.times if last is None else order.times[last])
        placed = _placed(pieces[name], order.position, count)
        return placed if last is None else _overlaid(placed, last, int(row_start[-1]))

    columns = dict(zip(pieces, ordered_map(one, pieces, threads if count >= PARALLEL_ROWS_MIN else 1), strict=True))
    return SortedRows(by_rank[order.ranks], row_start, columns, count - int(row_start[-1]))


def _order(rank: Int32Array, times: IntArray, device_count: int) -> _Order:
    """Where each row goes."""
    rank, times = np.ascontiguousarray(rank), np.ascontiguousarray(times)
    state = sorting.order_state(rank, times)
    if state:
        edges = np.flatnonzero(rank[1:] != rank[:-1]) + 1
        bounds = np.concatenate([[0], edges, [len(rank)]]).astype(np.int64)
        return _Order(None, rank[bounds[:-1]].astype(np.int64), bounds, times, state == 1)
    ranks: IntArray | None = None
    if device_count > 4 * len(rank) + 1024:  # few rows of a large table: count only the devices they name
        found, inverse = np.unique(rank, return_inverse=True)
        ranks, rank = found.astype(np.int64), inverse.astype(np.int32)
        device_count = len(ranks)
    counts = np.zeros(device_count, np.int64)
    sorting.count_ranks(rank, counts)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    position = np.empty(len(rank), np.int32)
    state = sorting.place_rows(rank, times, start, start.copy(), np.zeros(device_count + 1, np.int64), position)
    ordered = np.empty_like(times)
    sorting.scatter(times, position, ordered)
    present = np.flatnonzero(counts)
    bounds = np.append(start[present], len(rank))
    if state == 0:
        order = np.empty_like(position)
        sorting.invert(position, order)
        sorting.sort_runs(ordered, order, bounds, np.empty_like(ordered), np.empty_like(order))
        sorting.invert(order, position)
    return _Order(position, present if ranks is None else ranks[present], bounds, ordered, state != 2)


def _placed(pieces: Pieces, position: Int32Array | None, count: int) -> Vector:
    """The pieces as one vector in storage order."""
    if position is None:
        return concat(pieces)
    kind = pieces[0].type
    pool, shifts = _joined_pools(pieces)
    shape = (count, kind.width) if kind.width else (count,)
    values = np.empty(shape, kind.physical)
    validity = np.ones(count, np.bool_) if any(piece.validity is not None for piece in pieces) else None
    start = 0
    for piece, shift in zip(pieces, shifts, strict=True):
        at = position[start : start + len(piece)]
        sorting.scatter(piece.values + np.int32(shift) if shift else piece.values, at, values)
        if validity is not None and piece.validity is not None:
            sorting.scatter(piece.validity, at, validity)
        start += len(piece)
    return Vector(kind, values, validity, pool)


def _joined_pools(pieces: Pieces) -> tuple[Pool | None, list[int]]:
    first = pieces[0].pool
    if all(piece.pool is first for piece in pieces):
        return first, [0] * len(pieces)
    pool, shifts = concat_pools([piece.pool for piece in pieces if piece.pool is not None])
    return pool, shifts.tolist()


def _overlaid(vector: Vector, last: BoolArray, groups: int) -> Vector:
    """One row per group that ``last`` ends: the newest that is not NULL, or NULL where all are."""
    if vector.validity is None:
        return vector.take(last)
    source = np.empty(groups, np.int32)
    sorting.newest_valid(last, vector.validity, source)
    return vector.take(source)


def stamp(rows: SortedRows, sequence: int) -> SortedRows:
    """Give every row its commit's number, as the hidden column."""
    rows.columns[SEQUENCE_NAME] = Vector(SEQUENCE_COLUMN.type, np.full(int(rows.row_start[-1]), sequence, np.int64))
    return rows
