"""A disk that is full, or fails, at any one operation: nothing acknowledged is lost, the error is clear, and reads go on."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import tsdb.storage.writer
from support.live_model import LiveModel
from support.sample_case import LATER, Change, build, creates, deletes, observer, shows, sql, updates, writes
from support.soak import SOAK
from support.storage import GROWING, CrashStorage, FailingStorage
from tsdb.storage import manifest as manifests
from tsdb.storage.check import check
from tsdb.storage.store import Store
from tsdb_format.errors import Error

_NOTHING: Callable[[LiveModel], object] = lambda model: None  # noqa: E731
CHANGES: dict[str, Change] = {
    "write": writes("t", 20, 4),
    "write to a new device": writes("u", 21, 30, 500, 900),
    "write directly": writes("t", 22, 60),
    "delete": deletes("t", 0, 100),
    "update": updates("t", "nobody"),
    "create": creates("v"),
    "drop": (sql("DROP TABLE t"), lambda model: model.tables.pop("t")),
    "alter": (sql("ALTER TABLE t DROP COLUMN note"), lambda model: model.tables["t"].drop_column("note")),
    "flush": (lambda store: store.flush(), _NOTHING),
    "compact": (lambda store: store.compact(), _NOTHING),
    "close": (lambda store: store.close(), _NOTHING),
}
#: Bytes of memory that make every commit flush.
TINY = 16
#: About how many of the operations of a change fail in `make test`.
_SAMPLE = 6


@dataclass(frozen=True)
class Disk:
    """A way to fail: with which error, once or from then on, and whether in anything or only in what needs room."""

    error: int
    sticky: bool
    kinds: frozenset[str] | None

    def storage(self, path: Path) -> FailingStorage:
        """A disk that does not fail yet; nothing is really synced."""
        return FailingStorage(error=self.error, sticky=self.sticky, kinds=self.kinds, storage=CrashStorage(path))

    def told(self, error: Error) -> bool:
        """Whether an error says what is wrong with the disk."""
        return os.strerror(self.error) in str(error)


FULL = Disk(errno.ENOSPC, True, GROWING)
FULL_FOR_A_MOMENT = Disk(errno.ENOSPC, False, GROWING)
BROKEN = Disk(errno.EIO, True, None)
BROKEN_FOR_A_MOMENT = Disk(errno.EIO, False, None)
DISKS = {"full": FULL, "full once": FULL_FOR_A_MOMENT, "broken": BROKEN, "broken once": BROKEN_FOR_A_MOMENT}


def _places(operations: int) -> Iterable[int]:
    """The operations that fail, one in each run: all of them, or a sample where they are many and time is short."""
    step = 1 if SOAK else 1 + operations // _SAMPLE
    return range(1, operations + 1, step)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LiveModel]:
    path = tmp_path_factory.mktemp("disk") / "db"
    return path, build(path)[-1]


#: In `make test` each change meets two disks, and memory is tiny for some.
_CASES = [
    pytest.param(name, disk, memory_limit, id=f"{name}, {disk}, {'tiny' if memory_limit == TINY else 'roomy'}")
    for name in CHANGES
    for disk in DISKS
    for memory_limit in (2**30, TINY)
    if SOAK or (disk in ("full", "broken once") and (memory_limit != TINY or name in ("write", "delete")))
]


@pytest.mark.parametrize(("name", "disk", "memory_limit"), _CASES)
def test_a_failing_disk_loses_nothing_acknowledged(
    sample: tuple[Path, LiveModel], tmp_path: Path, name: str, disk: str, memory_limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsdb.storage.writer, "DIRECT_ROWS", 50)
    path = tmp_path / "counted"
    shutil.copytree(sample[0], path)
    storage = DISKS[disk].storage(path)
    with Store.open(path, threads=1, background=False, memory_limit=memory_limit, storage=storage) as store:
        before = storage.operations
        CHANGES[name][0](store)
        operations = storage.operations - before
    for at in _places(operations):
        case = Case(tmp_path / f"{at}", sample, DISKS[disk])
        try:
            case.run(at, CHANGES[name], memory_limit)
        except BaseException as error:
            error.add_note(f"{name}, {disk} at operation {at} of {operations}, failed: {case.storage.failed}")
            raise
        shutil.rmtree(case.path)


class Case:
    """One change on a disk that fails in it."""

    def __init__(self, path: Path, sample: tuple[Path, LiveModel], disk: Disk) -> None:
        self.path = path
        self.disk = disk
        shutil.copytree(sample[0], path)
        self.storage = disk.storage(path)
        self.states = [sample[1].copy()]

    def run(self, at: int, change: Change, memory_limit: int) -> None:
        """The change, reads and another write on the same handle, and what is there when it is opened again."""
        storage = self.storage
        store = Store.open(self.path, threads=1, background=False, memory_limit=memory_limit, storage=storage)
        storage.fail_at = storage.operations + at
        self._try(store, change)
        if not store._closed:
            self._read(store)
            self._try(store, LATER)
            storage.fail_at = 0
            self._try(store, LATER)
            self._read(store)
        storage.fail_at = 0
        with suppress(Error):
            store.close()
        with Store.open(self.path, threads=1, background=False, storage=CrashStorage(self.path)) as again:
            if not any(shows(again, state) for state in self.states):
                observer(again).check(self.states[-1], 0)  # tells what is lost
                raise AssertionError("what was acknowledged is not there")
            assert not list(check(again))
            LATER[0](again)
            again.flush()
        self._assert_tidy()

    def _read(self, store: Store) -> None:
        """Reads go on, unless it is them that fail."""
        at, storage = self.storage.fail_at, self.storage
        if not self.disk.sticky:
            storage.fail_at = 0
        try:
            if not any(shows(store, state) for state in self.states):
                observer(store).check(self.states[0], 0)
                raise AssertionError("the handle shows what was never committed")
        except Error as error:
            if self.disk is not BROKEN or not storage.fail_at or not self.disk.told(error):
                raise
        storage.fail_at = at

    def _try(self, store: Store, change: Change) -> None:
        """Do it. If it is not acknowledged it may have happened all the same."""
        act, apply = change
        changed = [state.copy() for state in self.states]
        for state in changed:
            apply(state)
        try:
            act(store)
        except Error as error:
            if "no more writes" not in str(error) and not self.disk.told(error):
                raise
            self.states += changed
        else:
            self.states = changed

    def _assert_tidy(self) -> None:
        """Nothing is left that no manifest names."""
        root = self.path
        named = manifests.load(root).names
        for path in (root / "table").rglob("*"):
            if path.is_file():
                assert path.with_suffix(".tsf").relative_to(root).as_posix() in named or path.relative_to(root).as_posix() in named
        assert len(list((root / manifests.FOLDER).iterdir())) == 1


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("mode", ["rw", "r"])
def test_a_failing_disk_while_opening(sample: tuple[Path, LiveModel], tmp_path: Path, mode: str, disk: str) -> None:
    path = tmp_path / "counted"
    shutil.copytree(sample[0], path)
    storage = DISKS[disk].storage(path)
    Store.open(path, mode, threads=1, background=False, storage=storage).close()
    for at in _places(storage.operations):
        path = tmp_path / f"{at}"
        shutil.copytree(sample[0], path)
        storage = DISKS[disk].storage(path)
        storage.fail_at = at
        try:
            with Store.open(path, mode, threads=1, background=False, storage=storage) as store:
                storage.fail_at = 0
                assert shows(store, sample[1])
        except Error as error:
            if not DISKS[disk].told(error):
                raise
        with Store.open(path, threads=1, background=False, storage=CrashStorage(path)) as store:
            assert shows(store, sample[1]), storage.failed
        shutil.rmtree(path)
