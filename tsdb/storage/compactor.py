"""Compaction, carried out: tasks that the plan names, one at a time, each one commit of the manifest.

A task reads its inputs through a snapshot that pins them and writes new files beside them; only then, under the writer's lock, the
manifest goes over from the ones to the others. What was written or deleted meanwhile has higher sequence numbers and stays above.
A task that is interrupted or fails leaves nothing behind, and the finished ones before it stay: that is what resuming means here,
since tasks are bounded. Queries and commits never wait for a task.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tsdb.storage.compaction import Task, expired, moved_payloads, plan, ttl_bound
from tsdb.storage.files import FILE_SUFFIX, write_rows
from tsdb.storage.handover import Handover
from tsdb.storage.manifest import FileEntry, TableEntry
from tsdb.storage.rewrite import UnreadableInput, rewrite
from tsdb.storage.snapshot import TableSnapshot
from tsdb.storage.tombstone import Tombstones
from tsdb.storage.writer import Writer
from tsdb_format.errors import Corruption, Error, NotFound

#: Rows that a rewrite holds at a time, at least and at most, and the bytes that one takes while it is moved, at least.
_ROWS_MIN, _ROWS_MAX, _ROW_BYTES = 2**16, 2**22, 128
#: Seconds after a failure until the next attempt, at first and at most.
_PAUSE_MIN, _PAUSE_MAX = 2.0, 600.0


class Compactor:
    """Compacts one writer's tables."""

    def __init__(self, writer: Writer, memory_bytes: int) -> None:
        """``memory_bytes``: about what one rewrite may take."""
        self._writer = writer
        self._memory_bytes = memory_bytes
        self._compacting = threading.Lock()
        self._damaged: frozenset[str] = frozenset()
        #: Why the last task failed; None where it did not.
        self.problem: str | None = None
        self._looked_at = -1
        self._retry_at, self._pause = 0.0, _PAUSE_MIN

    def _rows_max(self, entry: TableEntry) -> int:
        """Rows of a table that a rewrite holds at a time; those with blobs in their pages are the fewer the larger these are."""
        rows, stored = sum(file.rows for file in entry.files), sum(file.bytes for file in entry.files)
        fits = self._memory_bytes // max(_ROW_BYTES, 2 * stored // max(rows, 1))
        return min(max(fits, min(_ROWS_MIN, entry.table.options.rows_per_page)), _ROWS_MAX)

    @property
    def is_due(self) -> bool:
        """Whether files came or went since compaction was last looked at."""
        return self._writer.versions.manifest.version != self._looked_at

    def run_due(self, interrupted: Callable[[], bool]) -> None:
        """Do what is worth it, until nothing is or ``interrupted`` says to stop. What fails is tried again once files change."""
        more = time.monotonic() >= self._retry_at
        while more and not interrupted():
            looked_at = self._writer.versions.manifest.version
            try:
                more = self._run_one(None, everything=False, interrupted=interrupted)
            except Exception as error:  # noqa: BLE001 (nobody waits for this work, and nothing may end it)
                self.problem, more = f"{type(error).__name__}: {error}", False
                self._pause = min(2 * self._pause, _PAUSE_MAX)
                self._retry_at = time.monotonic() + self._pause
            else:
                self._pause = _PAUSE_MIN
            self._looked_at = looked_at

    def run_all(self, table: str | None = None) -> int:
        """Compact fully; how many tasks that took. Files that cannot be read are left as they are (``problem``). Raises Error."""
        tasks, now_ns = 0, self._writer.versions.clock_ns()  # one for all: with a later one more has expired
        while self._run_one(table, everything=True, interrupted=lambda: False, now_ns=now_ns):
            tasks += 1
        return tasks

    def _run_one(self, table: str | None, *, everything: bool, interrupted: Callable[[], bool], now_ns: int | None = None) -> bool:
        """Carry out the most urgent task of the tables; whether there was one."""
        writer = self._writer
        with self._compacting:
            manifest, snapshot = writer.versions.current()
            now = writer.versions.clock_ns() if now_ns is None else now_ns
            for entry in manifest.tables.values():
                if table is not None and entry.table.name.lower() != table.lower():
                    continue
                try:
                    found = snapshot.tables[entry.table.name]
                except (Corruption, NotFound) as error:  # the other tables need it no less
                    if everything:
                        raise
                    self.problem = str(error)
                    continue
                tombstones = _durable(found.tombstones, manifest.sequence)
                found = replace(found, tombstones=tombstones, now_ns=lambda: now)
                bound = ttl_bound(entry.table.options, entry.table.schema.time.type, now)
                gone = expired(entry, now, found.tombstones)
                if gone and self._replace(entry, gone, (), bound):
                    return True
                tasks = plan(
                    entry, found.tombstones, now, everything=everything, damaged=self._damaged, rows_max=self._rows_max(entry)
                )  # fmt: skip
                if tasks:
                    return self._rewrite(entry, tasks[0], found, bound, interrupted)
        return False

    def _rewrite(
        self, entry: TableEntry, task: Task, snapshot: TableSnapshot, bound: int | None, interrupted: Callable[[], bool]
    ) -> bool:
        """Carry out one task; whether it was done. Rows before ``bound`` have expired."""
        writer = self._writer
        inputs = replace(snapshot, files=tuple(writer.versions.open_file(entry, file) for file in task.inputs))
        applied = int(snapshot.tombstones.sequence[-1]) if len(snapshot.tombstones) else 0
        applied = max(applied, *(file.applied for file in task.inputs))
        outputs, moved = list[FileEntry](), moved_payloads(entry)
        names: list[str] = []
        try:
            rows_max = min(self._rows_max(entry), entry.table.options.file_rows_max)
            for rows in rewrite(inputs, rows_max=rows_max, cuts=task.cuts):
                if interrupted():
                    writer.undo(names)
                    return False
                names.append(writer.new_name(entry.table, FILE_SUFFIX))
                made = write_rows(
                    writer.root, names[-1], entry.table, snapshot.devices, rows, 1,
                    applied=applied, shard=task.inputs[0].shard, moved=moved, storage=writer.storage,
                )  # fmt: skip
                outputs.append(made)
                writer.counters.count_compacted(made)
            if not self._replace(entry, task.inputs, outputs, bound):
                writer.undo(names)
        except UnreadableInput as error:
            writer.undo(names)
            self._damaged |= {error.name}  # it is left where it is, and so is what cannot be merged without it
            self.problem = str(error)
        except (Corruption, NotFound) as error:  # of a payload file: what is read of the data files is said above
            writer.undo(names)
            self._damaged |= {file.name for file in task.inputs if file.payloads}
            self.problem = str(error)
        except BaseException as error:
            writer.undo(names)
            if isinstance(error, OSError):
                raise Error(f"the compaction of table {entry.table.name!r} failed, and changed nothing: {error}") from error
            raise
        return True

    def _replace(self, entry: TableEntry, old: Sequence[FileEntry], new: Sequence[FileEntry], bound: int | None) -> bool:
        """Let the manifest name the new files instead of the old ones; False where the old ones are not there any more.

        The manifest keeps in mind up to where expired rows are gone for good (see ``Writer.alter_table``).
        """
        writer = self._writer
        with writer.writing():
            current = writer.versions.manifest.tables.get(entry.table.name)
            gone = {file.name for file in old}
            if current is None or current.table.id != entry.table.id or not gone <= {file.name for file in current.files}:
                return False
            if current.table.options != entry.table.options:  # the TTL is another one by now
                return False
            if bound is not None and any(file.min_time < bound for file in old):
                current = replace(current, expired=bound if current.expired is None else max(bound, current.expired))
            files = tuple(file for file in current.files if file.name not in gone) + tuple(new)
            manifest = writer.versions.manifest
            handover = Handover(sorted(gone))
            memtable = writer.versions.memory.get(entry.table.id)
            changed = writer.with_files(current, files, memtable, manifest.sequence, handover)
            writer.commit(manifest.with_table(changed), handover)
            writer.counters.compactions += 1
        return True


def _durable(tombstones: Tombstones, sequence: int) -> Tombstones:
    """The deletes that files know of: a later one may still be lost, with its number, and what it took away must not be."""
    return tombstones.select(tombstones.sequence <= sequence) if len(tombstones) else tombstones
