"""Tombstones: what deletes took away. Ranges of time, of one device or of all, each with the sequence number of its commit.

A tombstone hides the rows of its device and times whose own sequence number is not above it; what is written later it does not
touch. Conditions on tags and times become a few ranges, conditions on fields one range per row that satisfied them: there is no
other kind of delete. Nothing here says which files a tombstone still matters to; see ``least_unapplied``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.kernels import deleted
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Corruption
from tsdb_format.section import Container, write_container
from tsdb_format.vector import BoolArray, IntArray

Int32Array = NDArray[np.int32]

MAGIC = b"tsdbdel\n"
SUFFIX = ".del"
#: The device of a tombstone for every device.
EVERY_DEVICE = -1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Tombstones:
    """Deletes of one table: ``device`` (−1: every device), ``low`` and ``high`` (inclusive), ``sequence``. Never changed."""

    device: Int32Array
    low: IntArray
    high: IntArray
    sequence: IntArray
    _layers: tuple[_Layer, ...] = field(default=(), repr=False)  # of the first rows, found for an earlier version
    _index: DeletedIndex | None = field(default=None, repr=False)

    @classmethod
    def none(cls) -> Tombstones:
        """No deletes."""
        return _NONE

    def __len__(self) -> int:
        return len(self.device)

    def plus(self, device: Int32Array, low: IntArray, high: IntArray, sequence: int) -> Tombstones:
        """These and those of one more commit; ranges without an instant are left out."""
        some = low <= high
        if not some.any():
            return self
        return Tombstones(
            np.concatenate([self.device, device[some]], dtype=np.int32),
            np.concatenate([self.low, low[some]], dtype=np.int64),
            np.concatenate([self.high, high[some]], dtype=np.int64),
            np.concatenate([self.sequence, np.full(int(np.count_nonzero(some)), sequence, np.int64)]),
            self._layers if self._index is None else self._index.layers,
        )

    def select(self, mask: BoolArray) -> Tombstones:
        """Those whose mask is set, in order."""
        if mask.all():
            return self
        return Tombstones(self.device[mask], self.low[mask], self.high[mask], self.sequence[mask])

    def extends(self, older: Tombstones) -> bool:
        """Whether the first of these are all of the older ones, in the same order."""
        if self is older:
            return True
        count = len(older)
        return count <= len(self) and all(
            np.array_equal(getattr(self, name)[:count], getattr(older, name)) for name in ("device", "low", "high", "sequence")
        )

    def may_hide(self, file: Sequenced) -> bool:
        """Whether one of them is younger than some row of a file and not carried out in it."""
        return least_unapplied(file) <= self.index.last

    def hidden(self, file: Sequenced, device: Int32Array, time: IntArray, sequences: Callable[[BoolArray], IntArray]) -> BoolArray:
        """Which rows of a file, given by device and time, are gone: one of them covers the row and is not older than it.

        ``sequences`` gives the sequence numbers of the rows of a mask; it is asked only where the file's bounds do not decide.
        """
        least = least_unapplied(file)
        at = self.index.sequence_at(device, time)
        gone: BoolArray = at >= max(least, file.max_sequence)
        unsure = (at >= least) & ~gone
        if unsure.any():
            gone[unsure] = sequences(unsure) <= at[unsure]
        return gone

    def meet(self, low: int, high: int, least: int) -> bool:
        """Whether one of them with sequence ≥ ``least``, whatever its device, covers an instant of [low, high]."""
        return bool(((self.sequence >= least) & (self.low <= high) & (self.high >= low)).any())

    @property
    def index(self) -> DeletedIndex:
        """What answers for rows and runs. Made when first asked for, from that of the version before where it was made there."""
        found = self._index
        if found is None:
            found = DeletedIndex(_layers_of(self))
            object.__setattr__(self, "_index", found)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The tombstones start:stop as steps in time; see ``tsdb.exec.kernels.deleted``."""

    start: int
    stop: int
    numbers: Int32Array
    bounds: IntArray
    edges: IntArray
    sequence: IntArray


class DeletedIndex:
    """Tombstones by device and time. Each layer answers for some of them; together they are few."""

    __slots__ = ("last", "layers")

    def __init__(self, layers: tuple[_Layer, ...]) -> None:
        self.layers = layers
        #: The highest sequence of all; 0 where there is none.
        self.last = max((int(layer.sequence.max()) for layer in layers), default=0)

    def sequence_at(self, device: Int32Array, time: IntArray) -> IntArray:
        """The highest sequence of the tombstones that cover each row (device i32[n], time i64[n]); 0 where none does."""
        out = np.zeros(len(device), np.int64)
        for layer in self.layers:
            deleted.raise_to_deleted(layer.numbers, layer.bounds, layer.edges, layer.sequence, device, time, out)
        return out

    def touches(self, device: Int32Array, min_time: IntArray, max_time: IntArray, least: int) -> BoolArray:
        """Whether a tombstone with sequence ≥ ``least`` (at least 1) covers an instant of each run's time range."""
        out = np.zeros(len(device), np.bool_)
        if least <= self.last:
            for layer in self.layers:
                deleted.mark_touched(
                    layer.numbers, layer.bounds, layer.edges, layer.sequence, device, min_time, max_time, least, out
                )
        return out


class Sequenced(Protocol):
    """What tells of a file which tombstones can matter to it."""

    @property
    def min_sequence(self) -> int:
        """The lowest sequence number of its rows."""

    @property
    def max_sequence(self) -> int:
        """The highest one."""

    @property
    def applied(self) -> int:
        """Every delete up to this one was carried out when it was written."""


def least_unapplied(file: Sequenced) -> int:
    """The least sequence of a tombstone that can hide a row of the file."""
    return max(file.applied + 1, file.min_sequence)


def _layers_of(tombstones: Tombstones) -> tuple[_Layer, ...]:
    """The known layers and one for what was added since; a layer is joined with the one before unless that is much larger.

    So deletes that come one by one cost little each, and there are never more layers than the logarithm of their number.
    """
    layers = list(tombstones._layers)
    start = layers[-1].stop if layers else 0
    while layers and 2 * (len(tombstones) - start) >= start - layers[-1].start:
        start = layers.pop().start
    if start < len(tombstones):
        layers.append(_layer(tombstones, start, len(tombstones)))
    return tuple(layers)


def _layer(tombstones: Tombstones, start: int, stop: int) -> _Layer:
    device, low = tombstones.device[start:stop], tombstones.low[start:stop]
    high, sequence = tombstones.high[start:stop], tombstones.sequence[start:stop]
    ends = high < _INT64_MAX  # the others reach beyond the last edge
    edge_device, edge_time = np.concatenate([device, device[ends]]), np.concatenate([low, high[ends] + 1])
    order = np.lexsort((edge_time, edge_device))
    edge_device, edge_time = edge_device[order], edge_time[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (edge_device[1:] != edge_device[:-1]) | (edge_time[1:] != edge_time[:-1])
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(new) - 1
    edge_device, edge_time = edge_device[new], edge_time[new]
    numbers, first = np.unique(edge_device, return_index=True)
    bounds = np.append(first, len(edge_time)).astype(np.int64)
    begin, end = place[: len(device)], np.empty(len(device), np.int64)
    end[ends] = place[len(device) :]
    end[~ends] = bounds[np.searchsorted(numbers, device[~ends]) + 1]
    newest = np.argsort(-sequence, kind="stable")
    painted = np.zeros(len(edge_time), np.int64)
    deleted.paint(begin[newest], end[newest], sequence[newest], np.arange(len(edge_time) + 1, dtype=np.int64), painted)
    return _Layer(start, stop, numbers, bounds, edge_time, painted)


_NO_TIMES = np.empty(0, np.int64)
_NONE = Tombstones(np.empty(0, np.int32), _NO_TIMES, _NO_TIMES, _NO_TIMES)


def write_tombstones(path: str, tombstones: Tombstones, storage: Storage = DISK) -> None:
    """Write all of them to one file, durably. Raises OSError."""
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(tombstones, name), dtype) for name, dtype in _SECTIONS.items()
    }
    write_container(path, MAGIC, arrays, {"count": len(tombstones)}, storage=storage)


def read_tombstones(path: str, storage: Storage = DISK) -> Tombstones:
    """What ``write_tombstones`` wrote. Raises NotFound, Corruption, UnsupportedFormat."""
    container = Container(path, MAGIC, storage)
    found = [container.array(name, dtype) for name, dtype in _SECTIONS.items()]
    if {len(array) for array in found} != {container.attributes.get("count")}:
        raise container.corrupt("the sections differ in length", container.directory_offset)
    made = Tombstones(found[0], found[1], found[2], found[3])
    if (made.low > made.high).any() or (made.device < EVERY_DEVICE).any() or (made.sequence <= 0).any():
        raise Corruption("a tombstone that no delete makes", path=path, offset=container.extent("device")[0])
    return made


_SECTIONS = {"device": "<i4", "low": "<i8", "high": "<i8", "sequence": "<i8"}
