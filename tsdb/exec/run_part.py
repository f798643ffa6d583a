"""Parting device runs by time: the better end, which is read now, and the rest, which may never be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tsdb.exec.kernels import runs as run_kernels
from tsdb.exec.lane import Ranges
from tsdb.exec.selection import INT64_MAX, INT64_MIN, Selection
from tsdb_format.vector import BoolArray, IntArray


class Parted(NamedTuple):
    """Runs in two parts. ``worse`` (None: not asked for) holds those of the runs, marked in ``some``, of which anything is left.

    No row of a run's rest is better than its ``edge``, a time.
    """

    better: Ranges
    worse: Ranges | None
    some: BoolArray
    edge: IntArray


def part(selection: Selection, held: Ranges, piece_rows: int, newest: bool, *, rest: bool) -> Parted:
    """Part runs so that the better end (the later, if ``newest``) has at most ``piece_rows`` rows of each file.

    Where runs span files, all of one run are parted at one time, so that no row's versions are; it lies in the better end.
    """
    files, starts, stops = held
    split = np.maximum(starts, stops - piece_rows) if newest else np.minimum(stops, starts + piece_rows)
    edge = np.empty(0, np.int64)
    parted = (split > starts) if newest else (split < stops)
    if len(files) > 1 or rest:
        edge = _edge_times(selection, files, split, parted, newest)
    if len(files) > 1:
        split = _part_at(selection, held, split, edge, newest)
    better = Ranges(files, split, stops) if newest else Ranges(files, starts, split)
    some: BoolArray = np.logical_or.reduce(parted, axis=1)
    if not rest:
        return Parted(better, None, some, edge)
    worse = Ranges(files, starts[some], split[some]) if newest else Ranges(files, split[some], stops[some])
    return Parted(better, worse, some, edge)


def _edge_times(selection: Selection, files: tuple[int, ...], split: IntArray, parted: BoolArray, newest: bool) -> IntArray:
    """Per run the time at which all its files can be parted: the best of the better ends' worst rows."""
    edge = np.full(split.shape, INT64_MIN if newest else INT64_MAX)
    for column, index in enumerate(files):
        at = np.flatnonzero(parted[:, column])
        if len(at):
            rows = np.ascontiguousarray(split[at, column] if newest else split[at, column] - 1)
            edge[at, column] = selection.sources[index].read(selection.table.table.schema.time, rows, rows + 1).values
    best: IntArray = edge.max(axis=1) if newest else edge.min(axis=1)
    return best


def _part_at(selection: Selection, held: Ranges, split: IntArray, edge: IntArray, newest: bool) -> IntArray:
    """Every file's split moved to its run's edge."""
    files, starts, stops = held
    moved = split.copy()
    time = selection.table.table.schema.time
    for column, index in enumerate(files):
        first, last = (split[:, column], stops[:, column]) if newest else (starts[:, column], split[:, column])
        some = np.flatnonzero(first < last)
        if len(some):
            first, last = np.ascontiguousarray(first[some]), np.ascontiguousarray(last[some])
            found = np.empty(len(some), np.int64)
            times = selection.sources[index].read(time, first, last).values
            run_kernels.search(times, first, last, edge[some], int(not newest), found)
            moved[some, column] = found
    return moved
