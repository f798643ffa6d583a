"""The shards that a join's keys are in: files of others are left out without being opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tsdb.catalog.shard import shards_of
from tsdb.plan.predicate import Member, Predicate, conjuncts
from tsdb_format.types import Role

if TYPE_CHECKING:
    from tsdb.catalog.table import Table
    from tsdb.exec.stats import ScanStats
    from tsdb.storage.snapshot import TableSnapshot
    from tsdb_format.vector import Vector


def shards_with(table: Table, values: Mapping[str, Vector]) -> ShardDomain | None:
    """The shards of rows with some of the values, by column; None where that is not known.

    A row's shard is known where it is a hash of these columns, and that of all its versions the same.
    """
    options = table.options
    known = options.shard_by and not options.shard_text and values.keys() >= set(options.shard_by)
    if not known or (options.mode != "append" and any(table.schema.column(name).role is not Role.TAG for name in options.shard_by)):
        return None
    return ShardDomain(frozenset(shards_of([values[name] for name in options.shard_by], options.shards).tolist()))


def shards_of_members(table: Table, predicate: Predicate | None) -> ShardDomain | None:
    """The shards of rows that a predicate wants, by the result sets whose members they must be."""
    for part in conjuncts(predicate):
        if isinstance(part, Member) and part.members.values is not None:
            found = shards_with(table, dict(zip(part.columns, part.members.values, strict=True)))
            if found is not None:
                return found
    return None


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
