"""Large writes: a commit whose rows go to files of their own at once, without the log.

All that is in memory is flushed before, so that files hold every commit up to this one and the order of files is that of commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.device_file import SUFFIX, write_device_file
from tsdb.storage import manifest as manifests
from tsdb.storage.arrange import PARALLEL_ROWS_MIN, arrange, stamp
from tsdb.storage.batch import Pieces, RowBatch, check_batch
from tsdb.storage.existing import count_existing
from tsdb.storage.files import FILE_SUFFIX, write_rows
from tsdb.storage.handover import Handover
from tsdb.storage.manifest import FileEntry, SourceEntry, TableEntry, ViewEntry
from tsdb.storage.report import WriteReport
from tsdb.storage.sharding import by_shard
from tsdb.storage.view import check_writes
from tsdb_format.errors import Error
from tsdb_format.vector import Vector

if TYPE_CHECKING:
    from tsdb.storage.writer import Writer


def write_direct(
    writer: Writer,
    table: str,
    columns: Mapping[str, Vector | Pieces] | RowBatch,
    sources: Sequence[SourceEntry],
    checkpoint: tuple[ViewEntry, str] | None = None,
) -> WriteReport:
    """Commit rows, and how far sources were read, or the view that made them is.

    Called in the writer's turn, under ``writer.flushing`` and after a flush.
    """
    entry = manifests.require(writer.versions.manifest, table)
    if checkpoint is not None:
        check_writes(writer.versions.manifest, entry, checkpoint[0])
    batch = check_batch(entry.table.schema, columns) if not isinstance(columns, Mapping) or columns else None
    entry = replace(entry, sources={**entry.sources, **{source.path: source for source in sources}})
    if batch is None or not batch.row_count:
        if sources:
            writer.commit(writer.versions.manifest.with_table(entry))
        return WriteReport(0, 0, writer.sequence)
    sequence, names = writer.sequence + 1, list[str]()
    if checkpoint is not None:
        view, text = checkpoint
        entry = entry.with_checkpoints({view.id: (sequence, text)}, writer.versions.manifest.views.values())
    try:
        report, changed, devices = _write(writer, entry, batch, sequence, names)
        handover = Handover()
        if entry.device_file is not None and entry.device_file != changed.device_file:
            handover.obsolete.append(entry.device_file)
        memtable = writer.versions.memory.get(entry.table.id)
        if memtable is not None:
            handover.memory.append(partial(memtable.put_direct, devices, sequence))
        writer.commit(replace(writer.versions.manifest.with_table(changed), sequence=sequence), handover)
    except BaseException as error:
        writer.undo(names)
        if isinstance(error, OSError):
            raise Error(f"nothing was written to table {table!r}: {error}") from error
        raise
    return report


def _write(
    writer: Writer, entry: TableEntry, batch: RowBatch, sequence: int, names: list[str]
) -> tuple[WriteReport, TableEntry, DeviceTable]:
    """Write the files of a commit: (report, the table with them, its devices); ``names`` collects the files begun."""
    table, versions = entry.table, writer.versions
    threads = writer.threads if batch.row_count >= PARALLEL_ROWS_MIN else 1
    snapshot = versions.latest(writer.sequence).tables[table.name]
    known = snapshot.devices
    numbers, devices = known.resolve(batch.given(batch.schema.tags), batch.row_count)
    attributes = batch.given(batch.schema.attributes)
    if attributes:
        devices = devices.with_attributes(numbers, attributes)
    older = snapshot.files if table.options.overlays else ()
    files: list[FileEntry] = []
    overlaid = existing = 0
    for shard, part, own in by_shard(table, batch, numbers, devices):
        for rows in arrange(part, own, devices.rank, devices.by_rank, table.options, threads):
            names.append(writer.new_name(table, FILE_SUFFIX))
            overlaid += rows.overlaid
            existing += count_existing(older, devices.count, rows, table.schema.time.name, snapshot.tombstones)
            stamp(rows, sequence)
            file = write_rows(
                writer.root, names[-1], table, devices, rows, threads, applied=sequence, shard=shard, storage=writer.storage
            )
            files.append(file)
            writer.counters.count_flushed(file)
    changed = replace(entry, files=entry.files + tuple(files))
    if devices is not known or entry.device_file is None:
        names.append(writer.new_name(table, SUFFIX))
        write_device_file(str(writer.root / names[-1]), devices, writer.storage)
        changed = replace(changed, device_file=names[-1])
        versions.remember_devices(names[-1], devices)
    updated = overlaid + existing
    return WriteReport(batch.row_count - updated, updated, sequence), changed, devices
