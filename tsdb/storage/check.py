"""Verifying a database: every checksum of every file, and everything that one file says about another.

Reads what is on the disk and changes nothing. Beside a writer it looks at one version, whose files its lease keeps, and at nothing
newer. Where the database cannot be opened that is a finding, and whatever can be read without its manifest is read.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tsdb.catalog.device_file import MAGIC as DEVICE_MAGIC
from tsdb.catalog.device_file import SUFFIX as DEVICE_SUFFIX
from tsdb.catalog.table import FILES_FOLDER
from tsdb.storage import lease as leases
from tsdb.storage import manifest as manifests
from tsdb.storage.files import FILE_SUFFIX, SIDECAR_SUFFIXES
from tsdb.storage.finding import Problem, problem_of
from tsdb.storage.lease import Lease
from tsdb.storage.log_check import LogCheck
from tsdb.storage.log_scan import Gap, scan
from tsdb.storage.log_segment import list_segments, read_head
from tsdb.storage.manifest import CURRENT_NAME, Manifest
from tsdb.storage.table_check import TableCheck, check_container, check_data, check_entries, check_sidecar
from tsdb.storage.tombstone import MAGIC as TOMBSTONE_MAGIC
from tsdb.storage.tombstone import SUFFIX as TOMBSTONE_SUFFIX
from tsdb.storage.versions import LOG_FOLDER
from tsdb_format.disk import DISK, PENDING_SUFFIX, Storage
from tsdb_format.errors import Corruption, Error, NotFound
from tsdb_format.reader import TsFile

if TYPE_CHECKING:
    from tsdb.storage.store import Store

__all__ = ["Problem", "check", "examine"]

#: Times that commits may overtake a check before it has read the log.
_TRIES = 64
_MAGICS = {DEVICE_SUFFIX: DEVICE_MAGIC, TOMBSTONE_SUFFIX: TOMBSTONE_MAGIC}


def check(store: Store, table: str | None = None) -> Iterator[Problem]:
    """Read everything, or all of one table, and yield what is damaged, missing or contradictory. Raises NotFound for no table."""
    name = None if table is None else store.table(table).name
    return (found for found in examine(store.root, name) if not found.note)


def examine(path: str | Path, table: str | None = None, storage: Storage = DISK) -> Iterator[Problem]:
    """As ``check``, of the database at ``path`` whatever state it is in; yields notes too.

    Raises NotFound where there is no database, UnsupportedFormat for a later build's.
    """
    root = Path(os.path.abspath(os.path.expanduser(path)))
    if not root.is_dir():
        raise NotFound(f"no database {root}")
    if table is None:
        yield from _check_leases(root)
    if not any((root / name).exists() for name in (CURRENT_NAME, manifests.FOLDER, FILES_FOLDER)):
        raise NotFound(f"{root} holds no database")
    lease = Lease(root)
    try:
        yield from _Check(root, lease, storage).run(table)
    finally:
        lease.release()


class _Check:
    """A check of one version of a database."""

    def __init__(self, root: Path, lease: Lease, storage: Storage) -> None:
        self._root = root
        self._lease = lease
        self._storage = storage
        self._problems: list[Problem] = []
        self._tables: list[TableCheck] = []
        self._log: LogCheck | None = None

    def run(self, table: str | None) -> Iterator[Problem]:
        """All findings."""
        manifest = self._load(table)
        yield from self._problems
        if manifest is None:
            yield from self._check_unnamed()
            yield from self._check_segments()
            return
        for entry, tables in zip(self._chosen(manifest, table), self._tables, strict=True):
            yield from tables.problems
            for file in entry.files:
                try:
                    yield from tables.check_file(file)
                except NotFound as error:
                    if self._is_named(file.name):
                        yield Problem(entry.table.name, str(self._root / file.name), str(error))
                if self._log is not None and file.applied > (last := self._log.last_sequence):
                    text = f"deletes up to commit {file.applied:,} are carried out in it, and the last one is {last:,}"
                    yield Problem(entry.table.name, str(self._root / file.name), text)
        if table is None:
            yield from self._check_others(manifest)

    def _load(self, table: str | None) -> Manifest | None:
        """Read the newest manifest, and what vanishes when a writer goes on: devices, deletes, and the log."""
        for last in (False,) * (_TRIES - 1) + (True,):
            self._problems, self._tables, self._log = [], [], None
            manifest = self._read_manifest()
            if manifest is None:
                return None
            self._lease.renew(manifest.version)
            try:
                self._read_rest(manifest, table)
            except NotFound:
                if last:
                    raise
                continue
            clean = not any((self._problems, *(each.problems for each in self._tables)))
            if clean or not self._is_overtaken(manifest):
                break
        return manifest

    def _read_rest(self, manifest: Manifest, table: str | None) -> None:
        path = str(self._root / manifest.name)
        for entry in self._chosen(manifest, table):
            self._problems += [Problem(entry.table.name, path, text) for text in check_entries(entry, manifest)]
            self._tables.append(TableCheck(self._root, entry, manifest, self._storage))
        if table is None:
            chosen = self._chosen(manifest, None)
            counts = {entry.table.id: each.device_count for entry, each in zip(chosen, self._tables, strict=True)}
            self._log = LogCheck(str(self._root / LOG_FOLDER), manifest, counts, self._storage)
            self._problems += self._log.problems

    @staticmethod
    def _chosen(manifest: Manifest, table: str | None) -> list[manifests.TableEntry]:
        return [entry for name, entry in sorted(manifest.tables.items()) if table in (None, name)]

    def _read_manifest(self) -> Manifest | None:
        """The newest manifest; None where it cannot be read, and then ``problems`` says why."""
        root, current = self._root, str(self._root / CURRENT_NAME)
        try:
            manifest = manifests.load(root, self._storage)
        except Corruption as error:
            self._problems.append(problem_of("", current, error))
            return None
        except NotFound:
            if not (root / FILES_FOLDER).is_dir() or not any((root / FILES_FOLDER).rglob(f"*{FILE_SUFFIX}")):
                raise
            self._problems.append(Problem("", current, f"there are neither {CURRENT_NAME} nor manifests"))
            return None
        if manifests.current_name(root, self._storage) is None:
            begun = manifest.version <= 1 and not (root / CURRENT_NAME).exists()  # a first manifest comes before it
            text = f"is missing or damaged, and the newest manifest is taken, {manifest.name}"
            self._problems.append(Problem("", current, text, note=begun))
        path = str(root / manifest.name)
        numbers = [entry.table.id for entry in manifest.tables.values()]
        if manifest.version != int(Path(manifest.name).stem) or len(set(numbers)) < len(numbers):
            self._problems.append(Problem("", path, "two tables have one number"))
        return manifest

    def _is_named(self, name: str) -> bool:
        """Whether a file that is missing is missed: where there is no lease, a writer may have taken it away."""
        try:
            return self._lease.held or name in manifests.load(self._root, self._storage).names
        except Error:
            return True

    # ------------------------------------------------------------------------------------------------ beside the manifest

    def _check_others(self, manifest: Manifest) -> Iterator[Problem]:
        """Older manifests, and files that no manifest names."""
        named = set(manifest.names) | (set() if self._log is None else self._log.payloads)
        for name in manifests.versions(self._root):
            if name == manifest.name:
                continue
            try:
                other = manifests.read(self._root, name, self._storage)
            except NotFound:
                continue
            except Error as error:
                yield problem_of("", str(self._root / name), error)
                continue
            named |= other.names
            if other.version > manifest.version and not self._is_overtaken(manifest):
                yield self._note(name, "is newer than the current one: its commit did not come about, or is about to")
        for path in self._stored():
            name = path.relative_to(self._root).as_posix()
            stem = path.with_suffix(FILE_SUFFIX) if path.suffix in SIDECAR_SUFFIXES else path
            if name.endswith(PENDING_SUFFIX):
                yield self._note(name, "is being written, or a crash left it and the next writer removes it")
            elif stem.relative_to(self._root).as_posix() not in named and not self._is_overtaken(manifest):
                yield self._note(name, "no version names it: being written, or a crash left it and the next writer removes it")

    def _is_overtaken(self, manifest: Manifest) -> bool:
        """Whether a writer has gone on meanwhile."""
        return manifests.current_name(self._root, self._storage) not in (manifest.name, None)

    def _check_unnamed(self) -> Iterator[Problem]:
        """Every file by itself."""
        for path in self._stored():
            if path.suffix in _MAGICS:
                yield from check_container("", str(path), _MAGICS[path.suffix], self._storage)
            elif path.suffix == FILE_SUFFIX:
                try:
                    file = TsFile(path, self._storage)
                except Error as error:
                    yield problem_of("", str(path), error)
                    continue
                found = list(check_data(file.table, file))
                yield from found
                yield from check_sidecar(file.table, file, self._storage, whole=not found)

    def _check_segments(self) -> Iterator[Problem]:
        """Every segment of the log by itself."""
        folder = str(self._root / LOG_FOLDER)
        for name, _ in list_segments(folder, self._storage):
            path = f"{folder}/{name}"
            try:
                raw = self._storage.read(path)
                if read_head(raw.data, path) is None:
                    yield Problem("", path, "its head is damaged", 0)
                for each in scan(raw, path):
                    if isinstance(each, Gap):
                        text = f"{each.stop - each.start:,} bytes are no records"
                        yield Problem("", path, text, each.start)
            except Error as error:
                yield problem_of("", path, error)

    def _stored(self) -> list[Path]:
        return sorted(path for path in (self._root / FILES_FOLDER).rglob("*") if path.is_file())

    def _note(self, name: str, text: str) -> Problem:
        return Problem("", str(self._root / name), text, note=True)


def _check_leases(root: Path) -> Iterator[Problem]:
    """Leases that nobody holds any more, and held ones that say nothing, which keep every file."""
    folder = root / leases.FOLDER
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if not os.pread(handle, 32, 0).strip().isdigit():
                    yield Problem("", str(path), "a reader holds it that does not say which version it reads", 0, note=True)
            else:
                yield Problem("", str(path), "a reader that has died left it; the next writer removes it", note=True)
            finally:
                os.close(handle)
