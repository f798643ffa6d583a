"""Salvage: what can be read of a damaged database, written to a new one, and a list of what could not.

The database itself is only read. Its newest manifest that can be read says what belongs to it, or, where there is none, the data
files do, which name their table, columns and devices themselves. Rows keep their commit numbers; what was deleted stays so as far
as the deletes can be read. Of a file with damaged pages the other pages are taken: a row whose time cannot be read is lost, a value
that cannot be read is NULL, and then an older value of that row may show again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from tsdb.catalog.table import FILES_FOLDER
from tsdb.storage import manifest as manifests
from tsdb.storage.finding import Problem
from tsdb.storage.lock import LOCK_NAME, WriterLock
from tsdb.storage.manifest import Manifest, TableEntry
from tsdb.storage.salvage_catalog import Catalog, find_catalog
from tsdb.storage.salvage_log import LogRemains, read_log
from tsdb.storage.salvage_table import TableSalvage
from tsdb.storage.versions import LOG_FOLDER
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Error, InvalidInput, Locked, NotFound


@dataclass(slots=True)
class SalvageReport:
    """What a salvage wrote to ``path``: rows by table. ``lost`` lists what could not be read; notes in it are no losses."""

    path: str
    rows: dict[str, int] = field(default_factory=dict)
    lost: list[Problem] = field(default_factory=list)


def salvage(path: str | Path, target: str | Path, storage: Storage = DISK) -> SalvageReport:
    """Write what can be read of the database at ``path`` to a new one at ``target``, which must be absent or empty.

    Raises NotFound where there is nothing of a database, Locked while one is open for writing, InvalidInput for another target,
    UnsupportedFormat for a later build's, Error where the disk refuses: then the target is no database, or a whole one.
    """
    root, out = (Path(os.path.abspath(os.path.expanduser(each))) for each in (path, target))
    if not root.is_dir():
        raise NotFound(f"no database {root}")
    if out == root or root in out.parents or out in root.parents:
        raise InvalidInput(f"{out} cannot hold what is salvaged from {root}: one lies in the other")
    if out.exists() and (not out.is_dir() or any(path.name != LOCK_NAME for path in out.iterdir())):
        raise InvalidInput(f"{out} is not empty")
    try:
        with _kept_from_writers(root):
            catalog = find_catalog(root, storage)
            out.mkdir(parents=True, exist_ok=True)
            lock = WriterLock(out)
            try:
                return _write(root, out, catalog, storage)
            finally:
                lock.release()
    except Error:  # Locked is an OSError too
        raise
    except OSError as error:
        raise Error(f"what was salvaged could not be written to {out}: {error.strerror}: {error.filename}") from error


def _write(root: Path, out: Path, catalog: Catalog, storage: Storage) -> SalvageReport:
    report = SalvageReport(str(out), lost=list(catalog.problems))
    known = catalog.manifest.version >= 0
    after = catalog.manifest.sequence if known else 0
    log = read_log(str(root / LOG_FOLDER), after, storage, complete=catalog.exact)
    report.lost += [*log.problems, *_orphans(catalog, log)]
    names = count(1)
    tables: dict[str, TableEntry] = {}
    for number, remains in sorted(catalog.tables.items()):
        salvaged = TableSalvage(root, out, remains, names, storage)
        entry = salvaged.run([change for change in log.changes if change[1].table == number])
        complete = catalog.exact and not salvaged.lost and not log.problems
        tables[entry.table.name] = replace(entry, sources=remains.sources) if complete else entry
        report.lost += salvaged.lost
        report.rows[entry.table.name] = sum(file.rows for file in entry.files)
    applied = [file.applied for entry in tables.values() for file in entry.files]
    written = [file.max_sequence for entry in tables.values() for file in entry.files]
    logged = [sequence for sequence, _, _ in log.changes[-1:]]
    sequence = max([catalog.manifest.sequence, *applied, *written, *logged])
    next_table = max([catalog.manifest.next_table, *(number + 1 for number in catalog.tables)])
    for folder in (FILES_FOLDER, manifests.FOLDER):
        (out / folder).mkdir(exist_ok=True)
    manifests.save(out, Manifest(1, sequence, next_table, next(names), tables), storage)
    return report


def _orphans(catalog: Catalog, log: LogRemains) -> Iterator[Problem]:
    """Rows in the log of tables that nothing else tells of; those of a table that was dropped are none, where that is known."""
    first_new = catalog.manifest.next_table if catalog.manifest.version >= 0 else 0
    rows: dict[tuple[int, str], int] = {}
    for _, change, path in log.changes:
        dropped = change.table < first_new
        if change.table not in catalog.tables and not dropped:
            key = change.table, path
            rows[key] = rows.get(key, 0) + change.row_count
    for (table, path), lost in rows.items():
        yield Problem("", path, f"nothing tells what the columns of table {table} are; {lost:,} rows are lost")


@contextmanager
def _kept_from_writers(root: Path) -> Iterator[None]:
    """Nobody opens the database for writing meanwhile. Raises Locked where somebody has."""
    try:
        handle = os.open(root / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # never opened, or not ours to lock
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 32, 0).strip()
        pid = int(text) if text.isdigit() else None
        os.close(handle)
        raise Locked(f"{root} is open for writing in process {pid or 'unknown'}: close it before salvaging", pid=pid) from None
    try:
        yield
    finally:
        os.close(handle)
