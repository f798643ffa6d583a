"""The store: one database directory, its manifest, its lock, and the way that batches become files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tsdb.catalog.table import Table, TableOptions
from tsdb.storage.snapshot import Snapshot
from tsdb_format.schema import Schema
from tsdb_format.vector import Vector


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a write did: rows new to the table, rows that overlaid another one, and the commit's sequence number."""

    inserted: int
    updated: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of ``check``: the file, what is wrong, and the byte where it is known."""

    path: str
    message: str
    offset: int | None = None


class Store:
    """An open database directory. Thread-safe: writes take turns, snapshots are free."""

    path: str
    mode: str

    @classmethod
    def open(
        cls, path: str | Path, mode: str = "rw", *, threads: int = 1, clock_ns: Callable[[], int] = time.time_ns
    ) -> Store:
        """Open for writing ('rw', created if absent, one process at a time) or reading ('r').

        Raises Locked, NotFound, Corruption, UnsupportedFormat, InvalidInput.
        """
        raise NotImplementedError

    def snapshot(self) -> Snapshot:
        """The newest committed state this handle knows; readers see other processes' commits after ``refresh``."""
        raise NotImplementedError

    def refresh(self) -> Snapshot:
        """Pick up what other processes committed since; cheap where there is nothing new."""
        raise NotImplementedError

    def tables(self) -> Mapping[str, Table]:
        """The tables by name, opening no file."""
        raise NotImplementedError

    def create_table(self, name: str, schema: Schema, options: TableOptions | None = None, *, if_not_exists: bool = False) -> Table:
        """Add an empty table; raises InvalidInput where the name is taken, unless ``if_not_exists``."""
        raise NotImplementedError

    def drop_table(self, name: str, *, if_exists: bool = False) -> bool:
        """Remove a table and its files; whether there was one. Raises NotFound unless ``if_exists``."""
        raise NotImplementedError

    def write_batch(self, table: str, columns: Mapping[str, Vector]) -> WriteReport:
        """Commit rows, unsorted and with duplicates as they come. Columns left out are NULL; types must match exactly.

        Raises InvalidInput (nothing was changed), NotFound, ReadOnly, Closed.
        """
        raise NotImplementedError

    def check(self, table: str | None = None) -> Iterable[Problem]:
        """Verify every checksum of every file; yields what is wrong, the newest table last."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the lock and forget open files. Snapshots still held stay readable."""
        raise NotImplementedError
