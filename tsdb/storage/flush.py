"""A flush: what memory holds becomes data files, in one commit of the manifest for the whole database.

The log goes on in a new segment, so that the older ones hold just what is flushed. The memtables are frozen up to there; commits
and queries go on meanwhile. Once the manifest that names the new files is durable, the rows leave the memory and their segments go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tsdb.catalog.device_file import SUFFIX, write_device_file
from tsdb.storage.arrange import CUT_SAMPLE, PARALLEL_ROWS_MIN, arrange
from tsdb.storage.cuts import Cuts, free_times
from tsdb.storage.files import FILE_SUFFIX, write_rows
from tsdb.storage.handover import Handover
from tsdb.storage.manifest import FileEntry, TableEntry
from tsdb.storage.memtable import Memtable, gather
from tsdb.storage.sharding import by_shard
from tsdb_format.errors import Error
from tsdb_format.vector import IntArray

if TYPE_CHECKING:
    from tsdb.storage.writer import Writer


class _Frozen:
    """One table's share: what is to be written, and what was."""

    def __init__(self, entry: TableEntry, memtable: Memtable, boundary: int) -> None:
        self.table = entry.table
        self.older = entry.files
        self.memtable = memtable
        self.runs = memtable.freeze(boundary)
        self.devices = memtable.devices
        self.saved = memtable.saved_devices
        self.tombstones = memtable.tombstones
        self.checkpoints = memtable.checkpoints(boundary)
        self.files: list[FileEntry] = []
        self.device_file: str | None = None

    def has_news(self, sequence: int) -> bool:
        """Whether there is something that files of commits up to ``sequence`` do not have."""
        deletes = self.tombstones.sequence
        if any(commit > sequence for commit, _ in self.checkpoints.values()):
            return True
        return bool(self.runs) or self.devices is not self.saved or (len(deletes) > 0 and int(deletes[-1]) > sequence)

    @property
    def names(self) -> list[str]:
        """The files written."""
        return [file.name for file in self.files] + ([self.device_file] if self.device_file is not None else [])


def flush(writer: Writer) -> bool:
    """Write all that is in memory to files; whether there was anything. Called under ``writer.flushing``.

    Raises Error where the disk refuses; then everything is still in the log and in memory, and the writer takes no more.
    """
    writer.log.sync(writer.log.position)  # before the writer's turn: what is left to sync in it is little
    with writer.writing():
        boundary = writer.sequence
        if boundary == writer.versions.manifest.sequence:
            return False
        writer.log.rotate(boundary + 1)
        by_id = {entry.table.id: entry for entry in writer.versions.manifest.tables.values()}
        frozen = [_Frozen(by_id[key], each, boundary) for key, each in writer.versions.memory.items() if key in by_id]
        frozen = [each for each in frozen if each.has_news(writer.versions.manifest.sequence)]
    names: list[str] = []
    try:
        for each in frozen:
            _write(writer, each, names)
        with writer.writing():
            _commit(writer, boundary, frozen)
    except BaseException as error:
        writer.failure = writer.failure or f"a flush failed ({error}); what was written is in the log"
        writer.undo(names)
        if isinstance(error, OSError):
            raise Error(f"the flush failed: {error}; what was written is in the log, the handle takes no more writes") from error
        raise
    return True


def _write(writer: Writer, frozen: _Frozen, names: list[str]) -> None:
    """Write a table's frozen rows and devices; ``names`` collects the files begun."""
    table, devices = frozen.table, frozen.devices
    found = gather(table, frozen.runs, frozen.tombstones)
    if found is not None:
        batch, numbers = found
        applied = int(frozen.tombstones.sequence[-1]) if len(frozen.tombstones) else 0
        threads = writer.threads if batch.row_count >= PARALLEL_ROWS_MIN else 1
        for shard, part, own in by_shard(table, batch, numbers, devices):
            older = [file for file in frozen.older if file.shard == shard]
            cuts = _cuts(part.whole(table.schema.time.name).values, older)
            for rows in arrange(part, own, devices.rank, devices.by_rank, table.options, threads, cuts):
                names.append(writer.new_name(table, FILE_SUFFIX))
                file = write_rows(
                    writer.root, names[-1], table, devices, rows, threads, applied=applied, shard=shard, storage=writer.storage
                )
                frozen.files.append(file)
                writer.counters.count_flushed(file)
    if devices is not frozen.saved:
        frozen.device_file = writer.new_name(table, SUFFIX)
        names.append(frozen.device_file)
        write_device_file(str(writer.root / frozen.device_file), devices, writer.storage)


def _cuts(times: IntArray, older: Sequence[FileEntry]) -> list[int]:
    """Where files end so that late rows, if others come with them, do not stretch these over the times of older files."""
    taken = [(file.min_time, file.max_time) for file in older]
    low, high = int(times.min()), int(times.max())
    if all(last < low or first > high for first, last in taken):
        return []
    step = max(1, len(times) // CUT_SAMPLE)
    cuts = Cuts(free=free_times(taken, low, high))
    return cuts.place(np.sort(times[::step]), float(step), 2 * len(times))


def _commit(writer: Writer, boundary: int, frozen: Sequence[_Frozen]) -> None:
    manifest = writer.versions.manifest
    by_id = {entry.table.id: entry for entry in manifest.tables.values()}
    handover = Handover()
    for each in frozen:
        entry = by_id.get(each.table.id)
        if entry is None:  # dropped meanwhile
            handover.obsolete += each.names
            continue
        if each.device_file is not None:
            handover.obsolete += [entry.device_file] if entry.device_file is not None else []
            writer.versions.remember_devices(each.device_file, each.devices)
            each.memtable.saved_devices = each.devices.under(entry.table.schema)
            entry = replace(entry, device_file=each.device_file)
        entry = entry.with_checkpoints(each.checkpoints, manifest.views.values())
        entry = writer.with_files(entry, entry.files + tuple(each.files), each.memtable, boundary, handover)
        manifest = manifest.with_table(entry)
    manifest = replace(manifest, sequence=boundary)
    handover.obsolete += writer.let_go_loose(manifest)
    writer.commit(manifest, handover)
    writer.counters.flushes += 1
