"""A live store beside its model: every change goes to both, crashes are survived, and queries of all kinds must agree.

The store runs on a simulated disk. After a crash it is opened again from what that disk may hold then, and must show the model as
it was after some commit that is not older than the last acknowledged one.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from support.live_condition import quoted
from support.live_model import LiveModel, LiveTable
from support.live_query import Observer
from support.storage import Crash, CrashStorage
from tsdb.catalog.table import Table
from tsdb.exec.deletion import without_ttl
from tsdb.session import Session
from tsdb.settings import Settings
from tsdb.storage.check import check
from tsdb.storage.snapshot import Snapshot, TableSnapshot
from tsdb.storage.store import Store
from tsdb_format.types import Role

_T = TypeVar("_T")
#: Times of the rows in milliseconds, and where the clock begins.
TIMES = (-20, 100)
CLOCK_MS = 60


@dataclass
class Held:
    """A snapshot that somebody keeps, as a store that queries can ask, and the model as it was then."""

    snapshot_held: Snapshot
    model: LiveModel
    mode: str = "r"

    def refresh(self) -> Snapshot:
        """The snapshot, whatever was committed since."""
        return self.snapshot_held

    snapshot = refresh

    def table(self, name: str) -> Table:
        """A table's definition then."""
        return self.snapshot_held.tables[name].table

    def views(self) -> dict[str, object]:
        """No materialized views."""
        return {}


class Live:
    """A store, its disk and its model."""

    def __init__(self, folder: Path, *, durability: str = "commit", memory_limit: int = 2**30, seed: int = 0) -> None:
        self.folder = folder
        self.durability = durability
        self.memory_limit = memory_limit
        self.rng = np.random.default_rng(seed)
        self.clock_ms = CLOCK_MS
        self.model = LiveModel()
        #: What a crash may go back to, the oldest first: the states since the last one that is surely durable.
        self.older: list[LiveModel] = []
        self.crashes = 0
        self.readers: list[tuple[Store, Observer]] = []
        self.held: list[Held] = []
        self.root = folder / "db0"
        self.root.mkdir(parents=True)
        self.storage = CrashStorage(self.root)
        self.sequence = 0
        gc.collect()
        gc.freeze()  # so that collecting what a step leaves is cheap
        gc.disable()  # and happens between steps only
        self._open()

    def now_ns(self) -> int:
        """The clock that TTL is measured by."""
        return self.clock_ms * 1_000_000

    def _open(self) -> None:
        self.store = Store.open(
            self.root,
            threads=1,
            clock_ns=self.now_ns,
            durability=self.durability,
            memory_limit=self.memory_limit,
            background=False,
            storage=self.storage,
        )
        self.session = Session(self.store, Settings(threads=1))
        self.observer = Observer(self.session)

    # ------------------------------------------------------------------------------------------------ changes

    def commit(self, act: Callable[[], _T], *changes: Callable[[LiveModel], object]) -> _T | None:
        """Do something that ends in the given commits one after the other; what it returned, or None where the machine crashed."""
        gc.collect()  # whether a snapshot is still held decides what is removed from the disk, and so when a crash comes
        before, states = self.model, list[LiveModel]()
        for change in changes:
            states.append((states[-1] if states else before).copy())
            change(states[-1])
        try:
            found = act()
        except Crash:
            self.recover([*self.older, before, *states])
            return None
        self.older = [] if self.durability == "commit" else [*self.older, before, *states[:-1]]
        self.model = states[-1] if states else before
        self._note_hidden()
        sequence = self.store.snapshot().sequence
        assert sequence >= self.sequence
        self.sequence = sequence
        return found

    def durable(self, act: Callable[[], _T]) -> _T | None:
        """Do something that changes no answer and makes everything durable."""
        found = self.commit(act)
        self.older = []
        return found

    def _note_hidden(self) -> None:
        for table in self.model.tables.values():
            table.compacted(self.clock_ms)

    def pass_time(self, ms: int) -> None:
        """Let the clock go on."""
        self.clock_ms += ms
        self._note_hidden()

    def reopen(self) -> None:
        """Close in peace and open again."""
        self._drop_readers()
        try:
            self.store.close()
            self.older = []
            self._open()
        except Crash:
            self.recover([*self.older, self.model])

    # ------------------------------------------------------------------------------------------------ crashes

    def crash_in(self, operations: int) -> None:
        """Let the machine stop in its that many-th operation from now."""
        self.storage.crash_at = self.storage.operations + operations

    def recover(self, candidates: Sequence[LiveModel], again_in: int = 0) -> None:
        """Open what is left after a crash; it must be one of the candidates, which becomes the model."""
        self._drop_readers()
        with suppress(Crash):
            self.store.close()
        while True:
            self._next_disk(again_in)
            again_in = 0
            try:
                self._open()
            except Crash:
                continue
            break
        shown = [candidate for candidate in reversed(candidates) if self._shows(candidate)]
        if not shown:
            self.observer.check(candidates[-1], self.clock_ms)  # tells what differs
        assert shown, f"not a state of after a commit; {len(candidates)} were possible"
        self.model, self.older = shown[0], []
        self._note_hidden()
        self.sequence = self.store.snapshot().sequence
        self.verify()

    def _next_disk(self, again_in: int) -> None:
        self.crashes += 1
        target = self.folder / f"db{self.crashes}"
        kind = self.rng.choice(["least", "any", "any", "kill"])
        if kind == "kill" and self.storage.crashed:
            self.storage.after_kill(target)
        else:
            self.storage.after_crash(target, None if kind == "least" else self.rng)
        target.mkdir(exist_ok=True)
        shutil.rmtree(self.root)
        self.root = target
        self.storage = CrashStorage(target)
        self.storage.crash_at = again_in

    def _shows(self, candidate: LiveModel) -> bool:
        """Whether the store holds just what the candidate does, also what no query shows now; takes over what the TTL has left."""
        snapshot, whole = self.store.snapshot(), candidate.copy()
        for table in whole.tables.values():
            table.ttl_ms = None
        everything = Held(_without_ttl(snapshot), whole)
        try:
            Observer(Session(everything, Settings(threads=1))).check(whole, self.clock_ms)  # type: ignore[arg-type]
            for name, table in candidate.tables.items():
                table.rows, table.hidden = whole.tables[name].rows, set()
            self.observer.check(candidate, self.clock_ms)
            for name, table in candidate.tables.items():
                stored = snapshot.tables[name]
                assert _attributes(stored) == table.known_attributes()
                assert stored.table.options.ttl_ns == (None if table.ttl_ms is None else table.ttl_ms * 1_000_000)
        except AssertionError:
            return False
        return True

    # ------------------------------------------------------------------------------------------------ readers

    def open_reader(self) -> None:
        """Open the database for reading, beside the writer and those that read already."""
        reader = Store.open(self.root, "r", threads=1, clock_ns=self.now_ns)
        self.readers.append((reader, Observer(Session(reader, Settings(threads=1)))))

    def hold(self, reader: int | None = None) -> None:
        """Keep the present snapshot, of the writer or of a reader (which is refreshed)."""
        snapshot = self.store.snapshot() if reader is None else self.readers[reader][0].refresh()
        self.held.append(Held(snapshot, self.model.copy()))

    def check_held(self) -> None:
        """Snapshots that were kept still show what they showed."""
        for held in self.held:
            Observer(Session(held, Settings(threads=1))).check(held.model, self.clock_ms)  # type: ignore[arg-type]

    def _drop_readers(self) -> None:
        for reader, _ in self.readers:
            reader.close()
        self.readers.clear()
        self.held.clear()

    # ------------------------------------------------------------------------------------------------ checks

    def observe(self, most: int | None = None) -> None:
        """Ask the writer and the readers; of each table at most so many of the kinds of questions, others in every turn."""
        self.observer.check(self.model, self.clock_ms)
        self.observer.ask(self.model, self.clock_ms, most)
        for _, observer in self.readers:
            observer.check(self.model, self.clock_ms)
            observer.ask(self.model, self.clock_ms, most)

    def verify(self) -> None:
        """Every checksum and cross-reference is right."""
        problems = list(check(self.store))
        assert not problems, problems

    def close(self) -> None:
        """End: what was closed opens again and shows the same."""
        try:
            self.storage.crash_at = 0
            if self.storage.crashed:
                self.recover([*self.older, self.model])
            self.reopen()
            self.observe()
            self.verify()
            self._drop_readers()
            self.store.close()
        finally:
            gc.enable()
            gc.unfreeze()


def _without_ttl(snapshot: Snapshot) -> Snapshot:
    """The snapshot with everything that is stored and not deleted."""
    tables = {name: without_ttl(table) for name, table in snapshot.tables.items()}
    return replace(snapshot, tables=tables, definitions={name.lower(): table.table for name, table in tables.items()})


def _attributes(table: TableSnapshot) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What is known of devices, with rows or without: per tags the values that are not NULL."""
    devices, schema = table.devices, table.table.schema
    tags = list(zip(*(devices.values(column.name).to_physical_list() for column in schema.tags), strict=True))
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for column in schema:
        if column.role is Role.ATTRIBUTE:
            for device, value in zip(tags, devices.values(column.name).to_physical_list(), strict=True):
                if value is not None:
                    found.setdefault(device, {})[column.name] = value
    return found


def table_sql(name: str, table: LiveTable, options: str) -> str:
    """CREATE TABLE as text."""
    columns = ", ".join(f"{quoted(column.name)} {column.kind} {column.role.name}" for column in table.columns)
    return f"CREATE TABLE {quoted(name)} ({columns}) WITH ({options})"
