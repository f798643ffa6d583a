"""Candidates of a TopK: the best rows so far, in the total order that makes every answer the only one.

The order is the ORDER BY keys, then that of storage: tags ascending, time ascending, sequence number. The buffer plays the
heap: rows arrive in batches as integer keys, the best ``k`` stay, and once there are ``k`` the worst of them is the threshold.
Only keys and addresses are held; the other columns of the final rows are read at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.batch import Batch
from tsdb.exec.gather import BY_ADDRESS, gather
from tsdb.exec.order import VALUE, ClassArray, ascending, device_ranks, null_class, prefix_keys, text_ranks
from tsdb.exec.rows import MergedRows, RowSet
from tsdb.exec.runtime_filter import ANY_TIE, Threshold, TopKFilter
from tsdb.exec.source import ScanSources
from tsdb.plan.node import SortKey
from tsdb_format.pool import own_pool
from tsdb_format.types import Role
from tsdb_format.vector import IntArray, Vector, null_vector

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableSnapshot


@dataclass(slots=True)
class Prepared:
    """Rows that may be among the best, with their sort keys by name."""

    rows: RowSet
    arrays: dict[str, NDArray[Any]]


class Candidates:
    """The best ``k`` rows of a table in the order of ``keys``."""

    def __init__(
        self, table: TableSnapshot, keys: tuple[SortKey, ...], k: int, topk_filter: TopKFilter, sources: ScanSources
    ) -> None:
        self.keys = keys
        self.k = k
        self.filter = topk_filter
        self._table = table
        self._sources = sources
        self._with_time = all(key.column != table.table.schema.time.name for key in keys)
        #: What orders rows of equal first keys, as far as units know it: the device's rank, the time, or something else (None).
        self.tie = _tie_of(table, keys)
        #: By number; those of which no row is left among the best are let go.
        self._merged: dict[int, MergedRows] = {}
        self._merged_seen = 0
        self._arrived: list[dict[str, NDArray[Any]]] = []
        self._rows = 0

    # ------------------------------------------------------------------------------------------------ intake

    def prepare(self, rows: RowSet, threshold: Threshold | None) -> Prepared | None:
        """Read the sort keys of rows that satisfy the predicate, leaving out what ``threshold`` excludes. Safe from any thread."""
        if rows.count == 0 or self.k == 0:
            return None
        key_class, key, text = key_of_rows(self._sources, rows, self.keys[0])
        if threshold is not None:
            keep = threshold.admits(key_class, key)
        else:
            keep = _best_by_first_key(key_class, key, self.k)
        if not keep.all():
            rows = rows.select(keep)
            if rows.count == 0:
                return None
            key_class, key = None if key_class is None else key_class[keep], key[keep]
            text = None if text is None else text.take(keep)
        arrays = _key_arrays(0, key_class, key, text)
        for index in range(1, len(self.keys)):
            arrays.update(_key_arrays(index, *key_of_rows(self._sources, rows, self.keys[index])))
        if self._with_time:
            arrays["time"] = rows.time()
        arrays["rank"] = self._table.devices.rank[rows.device()].astype(np.int64)
        arrays["address"] = rows.addresses()
        return Prepared(rows, arrays)

    def accept(self, prepared: Prepared | None) -> None:
        """Take prepared rows in; tightens the filter once ``k`` rows are held. One thread, one order: counters never vary."""
        if prepared is None:
            return
        rows, arrays = prepared.rows, prepared.arrays
        origin = BY_ADDRESS
        if isinstance(rows, MergedRows):
            origin = np.int64(self._merged_seen)
            self._merged[self._merged_seen] = rows
            self._merged_seen += 1
        arrays["origin"], arrays["ordinal"] = np.full(rows.count, origin), np.arange(rows.count, dtype=np.int64)
        self._arrived.append(arrays)
        self._rows += rows.count
        if self._rows >= self.k + self.k // 4 or (self._rows >= self.k and self.filter.threshold is None):
            self._compact()

    def _compact(self) -> None:
        """Keep the best ``k`` of what has arrived, in order; the last of them is the new threshold."""
        if len(self._arrived) > 1:
            sizes = [len(part["address"]) for part in self._arrived]
            names = set().union(*self._arrived)
            joined = {
                name: np.concatenate([_column(p, name, n) for p, n in zip(self._arrived, sizes, strict=True)]) for name in names
            }
        else:
            joined = self._arrived[0]
        order = self._order(joined)[: self.k]
        kept = {name: values[order] for name, values in joined.items()}
        self._arrived, self._rows = [kept], len(order)
        if self._merged:
            named = np.unique(kept["origin"]).tolist()
            self._merged = {number: self._merged[number] for number in named if number >= 0}
        if len(order) == self.k:
            last = {name: values[-1] for name, values in kept.items()}
            tie = ANY_TIE
            if self.tie is not None:
                tie = int(last["rank" if self.tie == "rank" else "key1"])
            self.filter.offer(Threshold(int(last.get("class0", VALUE)), int(last["key0"]), tie), "heap")

    def _order(self, rows: dict[str, NDArray[Any]]) -> IntArray:
        columns: list[NDArray[Any]] = []
        for index, key in enumerate(self.keys):
            if f"class{index}" in rows:
                columns.append(rows[f"class{index}"])
            columns.append(rows[f"key{index}"])
            if f"text{index}" in rows:
                ranks = text_ranks(rows[f"text{index}"])
                columns.append(~ranks if key.descending else ranks)
        columns += [rows["rank"], rows["time"], rows["address"]] if self._with_time else [rows["rank"], rows["address"]]
        order: IntArray = np.lexsort(columns[::-1])
        return order

    # ------------------------------------------------------------------------------------------------ result

    def batch(self, names: tuple[str, ...], offset: int) -> Batch:
        """The held rows from ``offset`` on, in order, with the named columns read now."""
        if self._rows <= offset:
            return empty_batch(self._sources, names)
        self._compact()
        held = {name: values[offset:] for name, values in self._arrived[0].items()}
        found = gather(self._sources, self._merged, held["address"], held["origin"], held["ordinal"], names)
        return Batch(found, len(held["address"]))


def key_of_rows(sources: ScanSources, rows: RowSet, key: SortKey) -> tuple[ClassArray | None, IntArray, Vector | None]:
    """One sort key of every row, best-first: class (None: no NULLs), key, and the strings themselves where the key is a prefix."""
    column = sources.column(key.column)
    if column.role in (Role.TAG, Role.ATTRIBUTE):
        return None, device_keys(sources.table, key)[rows.device()], None
    if column.role is Role.TIME:
        values = rows.time()
        return None, ~values if key.descending else values, None
    vector = rows.read(key.column)
    text = None if vector.pool is None else vector
    keys = ascending(vector.values) if text is None else prefix_keys(own_pool(text))
    keys = ~keys if key.descending else keys
    if vector.validity is None:
        return None, keys, text
    return np.where(vector.validity, VALUE, null_class(key)), np.where(vector.validity, keys, 0), text


def _key_arrays(index: int, key_class: ClassArray | None, key: IntArray, text: Vector | None) -> dict[str, NDArray[Any]]:
    """One sort key's arrays by name: class (only where some value is NULL), key, and for strings their bytes as objects."""
    arrays: dict[str, NDArray[Any]] = {f"key{index}": key}
    if key_class is not None:
        arrays[f"class{index}"] = key_class
    if text is not None:
        strings = np.empty(len(text), object)
        strings[:] = own_pool(text).tolist()
        if text.validity is not None:
            strings[~text.validity] = b""
        arrays[f"text{index}"] = strings
    return arrays


def _tie_of(table: TableSnapshot, keys: tuple[SortKey, ...]) -> Literal["rank", "time"] | None:
    """What orders rows of equal first keys: the device's rank (storage order, or keys that agree with it), the time, else None."""
    schema = table.table.schema
    names = [key.column for key in keys]
    tags = [tag.name for tag in schema.tags]
    if all(not key.descending and not key.nulls_first for key in keys[1:]) and (
        names[1:] == tags[: len(names) - 1] or (names == tags[: len(names)] and not keys[0].descending and not keys[0].nulls_first)
    ):
        return "rank"
    return "time" if names[1:2] == [schema.time.name] else None


def device_keys(table: TableSnapshot, key: SortKey) -> IntArray:
    """The best-first key of a TAG or ATTRIBUTE per table-wide device; NULLs included, so that it needs no class."""
    ranks = device_ranks(table.devices, key.column)
    keys = ~ranks if key.descending else ranks
    nulls = ranks < 0
    if nulls.any():
        keys = keys.copy()
        keys[nulls] = np.iinfo(np.int64).min if key.nulls_first else np.iinfo(np.int64).max
    return keys


def _column(rows: dict[str, NDArray[Any]], name: str, count: int) -> NDArray[Any]:
    """A key column; a class column that a batch left out is all values."""
    found = rows.get(name)
    return np.full(count, VALUE) if found is None else found


def _best_by_first_key(key_class: ClassArray | None, key: IntArray, k: int) -> NDArray[np.bool_]:
    """Rows that the first key alone does not exclude from the best ``k``."""
    if key_class is not None or len(key) <= k:
        return np.ones(len(key), np.bool_)
    keep: NDArray[np.bool_] = key <= np.partition(key, k - 1)[k - 1]
    return keep


def empty_batch(sources: ScanSources, names: tuple[str, ...]) -> Batch:
    """No rows of the named columns."""
    return Batch({name: null_vector(sources.column(name).type, 0) for name in names}, 0)
