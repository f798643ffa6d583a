"""Counters of what a query read and what it did not have to: filled by scans, shown by EXPLAIN ANALYZE and ``Result.stats``.

A unit is read when any of its rows was, from statistics when these answered for rows of it and none was read, pruned by the filter
when the predicate excluded it before any read, and pruned by the TopK when it was wanted and its threshold spared it: ``total =
pruned_by_filter + pruned_by_topk + pruned_by_key_domain + from_statistics + read``, except that a LIMIT without an order may leave
units that nothing needed to decide.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

#: The levels at which units are counted, coarse to fine. A *resource* is the per-device time index of one file.
LEVELS = ("resources", "devices", "files", "chunks", "pages", "rows")
#: What can happen to a unit.
FATES = ("total", "pruned_by_filter", "pruned_by_topk", "pruned_by_key_domain", "from_statistics", "read")


_NOTHING = {f"{level}_{fate}": 0 for level in LEVELS for fate in FATES}


@dataclass(slots=True)
class ScanStats:
    """Counters of one table scan."""

    table: str
    topk_id: int | None = None
    counts: dict[str, int] = field(default_factory=_NOTHING.copy)
    bytes_read: int = 0
    #: Bytes of blobs that are outside of pages.
    blob_bytes_read: int = 0
    #: Of all such bytes of the table's files, where a blob is among the columns: those that were not read.
    blob_bytes_skipped: int = 0
    topk_first_threshold: str | None = None
    topk_threshold_updates: int = 0
    rows_returned: int = 0
    #: Stored rows among those read that are no rows of their own: a newer version overlays them, or a tombstone hides them.
    rows_merged: int = 0
    #: Values of rows that were not read: the last cache had them from an earlier query.
    values_from_cache: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add_bytes(self, size: int) -> None:
        """Count stored bytes read; safe from any thread."""
        with self._lock:
            self.bytes_read += size

    def add_blob_bytes(self, size: int) -> None:
        """Count bytes read of blobs outside of pages; safe from any thread."""
        with self._lock:
            self.blob_bytes_read += size

    def add_cached(self, count: int) -> None:
        """Count values that the last cache had; safe from any thread."""
        with self._lock:
            self.values_from_cache += count

    def add_rows(self, count: int) -> None:
        """Count rows examined; safe from any thread."""
        with self._lock:
            self.counts["rows_read"] += count

    def as_dict(self) -> dict[str, int | str | None]:
        """Counters by their public names (API: counters)."""
        out: dict[str, int | str | None] = dict(self.counts)
        out["bytes_read"] = self.bytes_read
        out["blob_bytes_read"] = self.blob_bytes_read
        out["blob_bytes_skipped"] = self.blob_bytes_skipped
        out["rows_returned"] = self.rows_returned
        out["rows_merged"] = self.rows_merged
        out["values_from_cache"] = self.values_from_cache
        if self.topk_id is not None:
            out["topk_first_threshold"] = self.topk_first_threshold
            out["topk_threshold_updates"] = self.topk_threshold_updates
        return out


@dataclass(slots=True)
class TakeStats(ScanStats):
    """Counters of one ``Take``: rows that its scan handed on, rows taken, how many different ones were read for them, in how many
    ranges of neighbours, and about how many bytes the late columns of all rows handed on would have been.
    """

    take_candidates: int = 0
    take_rows: int = 0
    take_rows_unique: int = 0
    take_ranges: int = 0
    take_bytes_naive: int = 0

    def as_dict(self) -> dict[str, int | str | None]:
        """Counters by their public names (API: counters)."""
        made = ScanStats.as_dict(self)
        names = ("take_candidates", "take_rows", "take_rows_unique", "take_ranges", "take_bytes_naive")
        return {**made, **{name: getattr(self, name) for name in names}}


class QueryStats:
    """The counters of one execution: one ``ScanStats`` per table scan, in plan order, and their sum."""

    def __init__(self) -> None:
        self.scans: list[ScanStats] = []
        self.nodes: dict[int, ScanStats] = {}
        self._unfinished: dict[int, Callable[[], None]] = {}
        self._lock = threading.Lock()

    def scan(self, node: object, table: str, topk_id: int | None) -> ScanStats:
        """Register a scan that starts for plan node ``node`` (by identity)."""
        made = ScanStats(table, topk_id)
        with self._lock:
            self.scans.append(made)
            self.nodes[id(node)] = made
        return made

    def take(self, node: object, table: str) -> TakeStats:
        """Register a Take that starts for plan node ``node`` (by identity)."""
        made = TakeStats(table)
        with self._lock:
            self.scans.append(made)
            self.nodes[id(node)] = made
        return made

    def when_asked(self, scan: ScanStats, finish: Callable[[], None]) -> None:
        """Have ``finish`` complete a scan's counters once somebody asks for them: for most queries nobody does.

        It is kept here and not in ``scan``, which it leads back to: a cycle would keep a snapshot until the next collection.
        """
        self._unfinished[id(scan)] = finish

    def of(self, node: object) -> ScanStats | None:
        """The counters of a plan node as far as they are, if it ran."""
        return self.nodes.get(id(node))

    def show(self, made: object, node: object) -> None:
        """Show the counters of a node made on the way as those of the plan's own ``node``."""
        found = self.of(made)
        if found is not None:
            self.nodes[id(node)] = found

    def counters_of(self, node: object) -> dict[str, int | str | None] | None:
        """The counters of a plan node by their public names, if it ran."""
        found = self.of(node)
        return None if found is None else self._counters(found)

    def _counters(self, scan: ScanStats) -> dict[str, int | str | None]:
        finish = self._unfinished.pop(id(scan), None)
        if finish is not None:
            finish()
        return scan.as_dict()

    def __iter__(self) -> Iterator[ScanStats]:
        return iter(self.scans)

    def as_dict(self) -> dict[str, int | str | None]:
        """Sums over all scans; the first threshold's origin is that of the first scan that had one."""
        out: dict[str, int | str | None] = {}
        for scan in self.scans:
            for name, value in self._counters(scan).items():
                before = out.get(name)
                if isinstance(value, int):
                    out[name] = value + (before if isinstance(before, int) else 0)
                else:
                    out[name] = before or value
        return out
