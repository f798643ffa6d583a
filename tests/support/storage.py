"""Storages that misbehave: ``CrashStorage`` stops the world at one operation, ``FailingStorage`` lets one fail.

``CrashStorage`` keeps, besides the real files, what a disk has promised: bytes up to each file's last sync, names up to each
folder's. Anything beyond may be there or not after a crash, each part for itself, as far as renaming stays one step.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tsdb_format.disk import DISK, InputFile, Names, OutputFile, Storage, Writable
from tsdb_format.errors import Error
from tsdb_format.vector import ByteArray

#: What a disk writes at once: a torn write may have lost any of these.
SECTOR_BYTES = 512
#: The operations that a full disk refuses.
GROWING = frozenset({"create", "write", "sync", "folder", "rename"})


class Crash(BaseException):
    """The machine stopped. No handler for errors catches it."""


@dataclass(eq=False)
class _Bytes:
    """A file's bytes, whatever its name."""

    written: bytearray = field(default_factory=bytearray)
    #: That many of them are durable.
    synced: int = 0
    #: The durable bytes that it had when it was made empty, until the next sync.
    before: bytes | None = None


@dataclass(frozen=True)
class _Naming:
    """One change of names: ``gone`` no longer is one, ``name`` (if any) is that of ``file``; happens whole or not at all."""

    gone: str = ""
    name: str = ""
    file: _Bytes | None = None

    def apply(self, names: dict[str, _Bytes]) -> None:
        names.pop(self.gone, None)
        if self.file is not None:
            names[self.name] = self.file


class CrashStorage:
    """The disk below ``root``, until operation number ``crash_at`` (from 1; 0 is never): it raises Crash, and so do all later ones.

    Operations are create, write, sync, rename and remove; reading counts for nothing. The one that crashes may have happened, in
    part or not at all. Files that ``root`` has when this is made are durable, nothing is really synced, and what is changed there
    by other means is not known.
    """

    def __init__(self, root: Path | str, crash_at: int = 0) -> None:
        self.root = os.path.abspath(root)
        self.crash_at = crash_at
        self.crashed = False
        #: What was done so far: "write a.tsf.tmp", with the path below the root.
        self.calls: list[str] = []
        self._lock = threading.RLock()
        self._names: dict[str, _Bytes] = {}
        for path in sorted(Path(self.root).rglob("*")):
            if path.is_file():
                found = path.read_bytes()
                self._names[self._name(str(path))] = _Bytes(bytearray(found), len(found))
        self._durable = dict(self._names)
        self._pending: defaultdict[str, list[_Naming]] = defaultdict(list)

    @property
    def operations(self) -> int:
        """How many there were."""
        return len(self.calls)

    def read(self, path: str) -> ByteArray:
        self._check()
        return DISK.read(path)

    def open(self, path: str) -> InputFile:
        self._check()
        return DISK.open(path)

    def list(self, folder: str) -> Names:
        self._check()
        return DISK.list(folder)

    def create(self, path: str, *, ahead: int = 0) -> OutputFile:
        name = self._name(path)
        with self._lock:
            stops = self._step("create", name)
            file = self._names.get(name)
            if file is None:
                file = _Bytes()
                self._rename(_Naming(name=name, file=file))
            else:
                file.before = bytes(file.written[: file.synced]) if file.before is None else file.before
                file.written, file.synced = bytearray(), 0
            if stops:
                raise Crash
            return _CrashFile(self, name, file, DISK.create(path))

    def rename(self, source: str, target: str, *, sync: bool = True) -> None:
        old, new = self._name(source), self._name(target)
        with self._lock:
            stops = self._step("rename", new)
            if not stops:
                DISK.rename(source, target, sync=False)
            if old in self._names:
                self._rename(_Naming(old, new, self._names[old]))
            if stops:
                raise Crash
            if sync:
                self._sync_folder(new)

    def remove(self, path: str) -> None:
        name = self._name(path)
        with self._lock:
            stops = self._step("remove", name)
            if name in self._names:
                self._rename(_Naming(gone=name))
            if stops:
                raise Crash
            DISK.remove(path)

    def after_crash(self, target: Path, rng: np.random.Generator | None = None) -> None:
        """Make in ``target`` what the disk may hold after a crash of the machine now: with ``rng`` a random one of all
        possibilities, without it the least, which is what was synced. Folders without files are not there.
        """
        with self._lock:
            names = dict(self._durable)
            if rng is not None:
                for changes in self._pending.values():
                    share = rng.choice([0.0, 0.5, 1.0])
                    for change in changes:
                        if rng.random() < share:
                            change.apply(names)
            _materialise(target, {name: _survived(file, rng) for name, file in names.items()})

    def after_kill(self, target: Path) -> None:
        """Make in ``target`` what is there when only this process stops now: everything."""
        with self._lock:
            _materialise(target, {name: bytes(file.written) for name, file in self._names.items()})

    def _name(self, path: str) -> str:
        """The path below the root."""
        return Path(os.path.abspath(path)).relative_to(self.root).as_posix()

    def _check(self) -> None:
        if self.crashed:
            raise Crash

    def _step(self, kind: str, name: str) -> bool:
        """Count an operation; whether the world stops in it."""
        self._check()
        self.calls.append(f"{kind} {name}")
        self.crashed = len(self.calls) == self.crash_at
        return self.crashed

    def _rename(self, change: _Naming) -> None:
        change.apply(self._names)
        self._pending[os.path.dirname(change.name or change.gone)].append(change)

    def _sync_folder(self, name: str) -> None:
        for change in self._pending.pop(os.path.dirname(name), ()):
            change.apply(self._durable)


class _CrashFile:
    def __init__(self, storage: CrashStorage, name: str, file: _Bytes, real: OutputFile) -> None:
        self._storage, self._name, self._file, self._real = storage, name, file, real

    @property
    def position(self) -> int:
        return self._real.position

    def write(self, data: Writable) -> None:
        with self._storage._lock:
            stops = self._storage._step("write", self._name)
            self._file.written += data.tobytes() if isinstance(data, np.ndarray) else data
            if stops:
                raise Crash
            self._real.write(data)

    def sync(self, *, name: bool = False) -> None:
        with self._storage._lock:
            if self._storage._step("sync", self._name):
                raise Crash
            self._file.synced, self._file.before = len(self._file.written), None
            if name:
                self._storage._sync_folder(self._name)

    def close(self) -> None:
        self._real.close()


def _survived(file: _Bytes, rng: np.random.Generator | None) -> bytes:
    """What of a file the disk may hold: at least the synced bytes, at most the written ones, a torn tail between."""
    synced, written = file.synced, len(file.written)
    if rng is None:
        return bytes(file.written[:synced]) if file.before is None else file.before
    if file.before is not None and rng.random() < 0.5:
        return file.before
    kind = rng.choice(["synced", "written", "cut", "torn"])
    if kind == "synced":
        return bytes(file.written[:synced])
    if kind == "written":
        return bytes(file.written)
    found = file.written[: int(rng.integers(synced, written + 1))]
    if kind == "torn":  # the length reached the disk before all of the bytes did
        for start in range(synced - synced % SECTOR_BYTES, len(found), SECTOR_BYTES):
            if rng.random() < 0.5:
                lost = slice(max(start, synced), min(start + SECTOR_BYTES, len(found)))
                found[lost] = bytes(lost.stop - lost.start)
    return bytes(found)


def _materialise(target: Path, files: dict[str, bytes]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class FailingStorage:
    """A storage of which operation number ``fail_at`` (from 1; 0 is never) fails, and with ``sticky`` all later ones too.

    Every operation has a kind: read, list, create, write, sync (of bytes), folder (the sync of names), rename, remove. With
    ``kinds`` only those count and fail. A write that fails has written its first half. Reads fail with Error, as the disk's do,
    the rest with an OSError of that number. ``fail_at`` and ``sticky`` may be changed at any time; with 0 this only counts.
    """

    def __init__(
        self,
        fail_at: int = 0,
        error: int = errno.ENOSPC,
        *,
        sticky: bool = False,
        kinds: Collection[str] | None = None,
        storage: Storage = DISK,
    ) -> None:
        self.fail_at, self.error, self.sticky, self.kinds, self.storage = fail_at, error, sticky, kinds, storage
        #: What was done so far, of the kinds that count: "write a.tsf.tmp", with the path's last part.
        self.calls: list[str] = []
        #: The calls that failed.
        self.failed: list[str] = []
        self._lock = threading.Lock()

    @property
    def operations(self) -> int:
        """How many there were, of the kinds that count."""
        return len(self.calls)

    def count(self, kind: str) -> int:
        """How many there were of one kind."""
        return sum(call.startswith(f"{kind} ") for call in self.calls)

    def read(self, path: str) -> ByteArray:
        if self._fails("read", path):
            raise Error(f"{path} cannot be read: {os.strerror(self.error)}")
        return self.storage.read(path)

    def open(self, path: str) -> InputFile:
        if self._fails("read", path):
            raise Error(f"{path} cannot be read: {os.strerror(self.error)}")
        return self.storage.open(path)

    def list(self, folder: str) -> Names:
        self._step("list", folder)
        return self.storage.list(folder)

    def create(self, path: str, *, ahead: int = 0) -> OutputFile:
        self._step("create", path)
        return _FailingFile(self, path, self.storage.create(path))

    def rename(self, source: str, target: str, *, sync: bool = True) -> None:
        self._step("rename", target)
        if sync and self._fails("folder", os.path.dirname(target)):
            self.storage.rename(source, target, sync=False)
            raise self._failure(target)
        self.storage.rename(source, target, sync=sync)

    def remove(self, path: str) -> None:
        self._step("remove", path)
        self.storage.remove(path)

    def _fails(self, kind: str, path: str) -> bool:
        if self.kinds is not None and kind not in self.kinds:
            return False
        with self._lock:
            call = f"{kind} {os.path.basename(path)}"
            self.calls.append(call)
            fails = 0 < self.fail_at <= len(self.calls) if self.sticky else self.fail_at == len(self.calls)
            if fails:
                self.failed.append(call)
            return fails

    def _step(self, kind: str, path: str) -> None:
        if self._fails(kind, path):
            raise self._failure(path)

    def _failure(self, path: str) -> OSError:
        return OSError(self.error, os.strerror(self.error), path)


class _FailingFile:
    def __init__(self, storage: FailingStorage, path: str, file: OutputFile) -> None:
        self._storage, self._path, self._file = storage, path, file

    @property
    def position(self) -> int:
        return self._file.position

    def write(self, data: Writable) -> None:
        if self._storage._fails("write", self._path):
            raw = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
            self._file.write(raw[: len(raw) // 2])
            raise self._storage._failure(self._path)
        self._file.write(data)

    def sync(self, *, name: bool = False) -> None:
        self._storage._step("sync", self._path)
        if name and self._storage._fails("folder", os.path.dirname(self._path)):
            self._file.sync()
            raise self._storage._failure(self._path)
        self._file.sync(name=name)

    def close(self) -> None:
        self._file.close()
