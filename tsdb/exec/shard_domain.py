"""The shards that a join's keys are in: files of others are left out without being opened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tsdb.exec.stats import ScanStats
    from tsdb.storage.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class ShardDomain:
    """Rows with one of the keys are in these shards, or in a file of no shard in particular."""

    shards: frozenset[int]

    def kept(self, table: TableSnapshot, stats: ScanStats) -> TableSnapshot:
        """The table with the files alone that may hold such rows; what is left out is counted."""
        from tsdb.storage.snapshot import OpenFile

        shards = [file.shard if isinstance(file, OpenFile) else None for file in table.files]
        files = tuple(file for file, shard in zip(table.files, shards, strict=True) if shard is None or shard in self.shards)
        rows = sum(file.row_count for file in table.files) - sum(file.row_count for file in files)
        for level, count in (
            ("files", len(table.files) - len(files)),
            ("resources", len(table.files) - len(files)),
            ("rows", rows),
        ):
            stats.counts[f"{level}_total"] += count
            stats.counts[f"{level}_pruned_by_key_domain"] += count
        return replace(table, files=files)
