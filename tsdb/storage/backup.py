"""Online backup: a directory that is a complete database as of one commit, made while others write, and brought up to date later.

    CURRENT  manifest/…  table/…   as in any database; what the database has only in its log is in files of the backup's own
    BACKUP                         whose backup this is, and the checksums of the manifests that backing up has put here

Data files never change, so the backup shares them with the database by hard links where the file system allows, and copies them
elsewhere; what is ever written in place is never shared. New files come first, then the manifest, then what it no longer names
goes. A backup that is interrupted leaves what was there before, or what has no manifest and is refused; repeating it goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from tsdb.catalog.table import FILES_FOLDER
from tsdb.storage import manifest as manifests
from tsdb.storage.backup_tail import Tail
from tsdb.storage.files import FILE_SUFFIX, SIDECAR_SUFFIXES, remove
from tsdb.storage.lease import FOLDER as LEASE_FOLDER
from tsdb.storage.lease import Lease, oldest_leased
from tsdb.storage.lock import LOCK_NAME, WriterLock
from tsdb.storage.log_replay import replay
from tsdb.storage.manifest import Manifest
from tsdb.storage.snapshot import Snapshot
from tsdb.storage.versions import LOG_FOLDER
from tsdb_format.disk import DISK, PENDING_SUFFIX, InputFile, NewFile, Storage
from tsdb_format.errors import Closed, Error, InvalidInput, Locked, NotFound
from tsdb_format.section import TAIL
from tsdb_format.vector import ByteArray

if TYPE_CHECKING:
    from tsdb.storage.store import Store

#: The file that makes a directory a backup.
MARKER_NAME = "BACKUP"
_HARMLESS = frozenset({LOCK_NAME, LEASE_FOLDER, ".DS_Store", ".gitkeep", "lost+found"})
#: Bytes of a file that are in memory while it is copied.
_COPY_BYTES = 4 << 20
#: Times that a writer may take files away from under a reader without a lease.
_TRIES = 8


@dataclass(slots=True)
class BackupReport:
    """What a backup did: ``sequence`` is the last commit in it. Files count with their sidecars singly."""

    path: str
    sequence: int = 0
    files_linked: int = 0
    files_copied: int = 0
    files_kept: int = 0
    files_removed: int = 0
    bytes_linked: int = 0
    bytes_copied: int = 0


def backup(store: Store, path: str | Path, *, link: bool = True, storage: Storage = DISK) -> BackupReport:
    """Bring the backup at ``path`` up to date with what the handle sees now, or make one in a folder that is new or empty.

    A writer's handle flushes first, if it can. Without ``link`` files are copied also where they could be shared. Raises
    InvalidInput for a place that is no backup of this database, Locked where somebody writes to it, Corruption and NotFound for
    what cannot be read, Error where the disk refuses.
    """
    target = Path(os.path.abspath(os.path.expanduser(path)))
    if target == store.root or store.root in target.parents or target in store.root.parents:
        raise InvalidInput(f"{target} cannot hold a backup of {store.root}: one lies in the other")
    try:
        known = _Known.read(target, storage)
        target.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(target)
        try:
            return _Backup(store, target, known, link, storage).run()
        finally:
            lock.release()
    except Error:  # Locked is an OSError too
        raise
    except OSError as error:
        raise Error(f"the backup to {target} failed: {error.strerror}{f': {error.filename}' if error.filename else ''}") from error


@dataclass(frozen=True, slots=True)
class _Known:
    """What is at the target: a backup of ``source``, whose manifest there is none of while it is not finished; or nothing."""

    source: str | None = None
    manifest: Manifest | None = None
    digest: str = ""

    @classmethod
    def read(cls, target: Path, storage: Storage) -> _Known:
        """Look at a directory. Raises InvalidInput where it is something else than a backup, or more."""
        if not target.is_dir():
            if target.exists():
                raise InvalidInput(f"{target} is a file, not a directory")
            return cls()
        others = sorted({path.name for path in target.iterdir()} - _HARMLESS)
        try:
            body = manifests.unsealed(storage.read(str(target / MARKER_NAME)).tobytes())
        except NotFound:
            if others not in ([], [MARKER_NAME + PENDING_SUFFIX]):
                raise InvalidInput(f"{target} is neither empty nor a backup: it holds {others[0]!r}") from None
            return cls()
        if body is None:
            raise InvalidInput(f"{target} cannot be brought up to date: {MARKER_NAME} in it is damaged")
        marker = json.loads(body)
        try:
            manifest = manifests.load(target, storage)
        except NotFound:
            return cls(marker["source"])
        digest = _digest(manifests.unsealed(storage.read(str(target / manifest.name)).tobytes()) or "")
        if digest not in marker["manifests"] or storage.list(str(target / LOG_FOLDER)):
            raise InvalidInput(f"{target} was written to since it was a backup; name another directory")
        return cls(marker["source"], manifest, digest)


class _Backup:
    """One backup, under the target's lock."""

    def __init__(self, store: Store, target: Path, known: _Known, link: bool, storage: Storage) -> None:
        self._store = store
        self._target = target
        self._known = known
        self._link = link
        self._storage = storage
        self._report = BackupReport(str(target))
        self._touched: set[Path] = set()

    def run(self) -> BackupReport:
        """Do all of it."""
        for last in (False,) * (_TRIES - 1) + (True,):
            with self._state() as (snapshot, manifest):
                try:
                    return self._copy(snapshot, manifest)
                except NotFound:  # without a lease a writer may take files away; then there is a newer state to back up
                    if last or self._store.refresh().version == snapshot.version:
                        raise
        raise AssertionError

    @contextmanager
    def _state(self) -> Iterator[tuple[Snapshot, Manifest]]:
        """The newest state of the handle, whose files stay as long as it is held."""
        store, storage = self._store, self._storage
        if store.mode == "rw":
            _flush(store)
            snapshot = store.snapshot()
            yield snapshot, manifests.read(store.root, Manifest(snapshot.version).name, storage)
            return
        lease = Lease(store.root)
        try:
            snapshot = store.refresh()
            lease.renew(snapshot.version)
            manifest = manifests.read(store.root, Manifest(snapshot.version).name, storage)
            self._check_log(manifest)
            yield snapshot, manifest
        finally:
            lease.release()

    def _check_log(self, manifest: Manifest) -> None:
        """Refuse a log that is damaged, which a reader takes for one that ends there."""
        with suppress(NotFound):  # the writer has flushed
            found = replay(str(self._store.root / LOG_FOLDER), manifest.sequence, lambda _sequence, _change: None, self._storage)
            if found.problem is not None and manifests.current_name(self._store.root, self._storage) == manifest.name:
                raise found.problem

    def _copy(self, snapshot: Snapshot, manifest: Manifest) -> BackupReport:
        before, report = self._known.manifest, self._report
        if before is not None and before.sequence > snapshot.sequence:
            raise InvalidInput(
                f"{self._target} has commit {before.sequence:,}, and {self._store.root} ends with {snapshot.sequence:,}: "
                "it is a backup of a later state, or of another database"
            )
        self._check_source(manifest)
        version = 1 if before is None else before.version + 1
        self._mark(None)
        tail = Tail(self._store.root, self._target, snapshot, manifest, version, self._storage)
        made = tail.write(self._store.threads)
        for name in sorted(manifest.names & made.names):
            self._place(name)
            for suffix in SIDECAR_SUFFIXES if name.endswith(FILE_SUFFIX) else ():
                with suppress(NotFound):
                    self._place(name.removesuffix(FILE_SUFFIX) + suffix)
        for folder in sorted(self._touched):
            _sync_folder(folder)
        self._mark(made)
        manifests.save(self._target, made, self._storage)
        self._known = _Known(str(self._store.root), made, _digest(manifests.text_of(made)))
        self._mark(None)
        self._remove_obsolete(made)
        report.sequence = made.sequence
        return report

    def _check_source(self, manifest: Manifest) -> None:
        """Refuse to overwrite another database's backup: it has a file that differs, or comes from elsewhere and shares none."""
        before = self._known.manifest
        if before is None:
            return
        shared = sorted(before.names & manifest.names)
        for name in shared:
            if not self._is_same(name):
                raise InvalidInput(f"{self._target} is a backup of another database: {name} in it is another file")
        if not shared and before.names and self._known.source != str(self._store.root):
            raise InvalidInput(f"{self._target} is a backup of {self._known.source}")

    def _mark(self, coming: Manifest | None) -> None:
        """Say whose backup this is, and which manifests may be found in it from now on."""
        digests = [self._known.digest] if self._known.digest else []
        digests += [_digest(manifests.text_of(coming))] if coming is not None else []
        text = json.dumps({"source": str(self._store.root), "manifests": digests}, ensure_ascii=False)
        manifests.write_whole(self._target / MARKER_NAME, manifests.sealed(text), self._storage)

    def _place(self, name: str) -> None:
        """See to it that a file of the database is in the backup. Raises NotFound where the database does not have it."""
        source, target = str(self._store.root / name), str(self._target / name)
        found, report = self._storage.open(source), self._report
        if self._is_same(name) and (self._link or not os.path.samefile(source, target)):
            report.files_kept += 1
            return
        if self._link and _linked(source, target):
            self._touched |= {Path(target).parent, self._target / FILES_FOLDER}
            report.files_linked += 1
            report.bytes_linked += found.size
            return
        with NewFile(target, self._storage) as file:
            for part in _parts(found):
                file.write(part)
            file.commit()
        report.files_copied += 1
        report.bytes_copied += found.size

    def _is_same(self, name: str) -> bool:
        """Whether the backup has that very file: its end has the checksum of all that is in it."""
        try:
            mine = self._storage.open(str(self._target / name))
        except NotFound:
            return False
        theirs = self._storage.open(str(self._store.root / name))
        return mine.size == theirs.size and _end(mine) == _end(theirs)

    def _remove_obsolete(self, made: Manifest) -> None:
        """Take away what the backup's manifest does not name, unless somebody reads an older state of it."""
        leased = oldest_leased(self._target)
        if leased is not None and leased < made.version:
            return
        for name in manifests.versions(self._target):
            if name != made.name:
                remove(self._target / name, self._storage)
        for path in sorted((self._target / FILES_FOLDER).rglob("*"), reverse=True):
            if path.is_dir():
                if not any(path.iterdir()):
                    path.rmdir()
                continue
            owner = path.with_suffix(FILE_SUFFIX) if path.suffix in SIDECAR_SUFFIXES else path
            if owner.relative_to(self._target).as_posix() not in made.names:
                remove(path, self._storage)
                self._report.files_removed += 1


def _flush(store: Store) -> None:
    """Write to files what can be shared then. Where the disk refuses that, the backup gets files of its own all the same."""
    try:
        store.flush()
    except (Closed, Locked):
        raise
    except Error:
        return


def _digest(text: str) -> str:
    """Stands for all that a manifest says."""
    return xxhash.xxh3_64_hexdigest(text.encode())


def _end(file: InputFile) -> bytes:
    """The last bytes of a file."""
    end = np.empty(min(file.size, TAIL.size), np.uint8)
    file.read(file.size - len(end), [end])
    return end.tobytes()


def _parts(file: InputFile) -> Iterator[ByteArray]:
    """A file piece by piece."""
    buffer = np.empty(min(file.size, _COPY_BYTES), np.uint8)
    for at in range(0, file.size, _COPY_BYTES):
        part = buffer[: min(_COPY_BYTES, file.size - at)]
        file.read(at, [part])
        yield part


def _linked(source: str, target: str) -> bool:
    """Give a file a second name; False where the file system does not allow that. Raises OSError where it allows nothing."""
    pending = target + PENDING_SUFFIX
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(pending)
    try:
        os.link(source, pending)
    except OSError:
        return False
    os.rename(pending, target)
    return True


def _sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
