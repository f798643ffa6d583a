"""Verifying a database: every checksum of every file that the manifest names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tsdb.catalog.device_file import MAGIC
from tsdb.storage.snapshot import OpenFile
from tsdb.storage.store import Store
from tsdb_format.errors import Corruption, Error
from tsdb_format.section import Container


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: the file, what is wrong with it, and the first damaged byte where that is known."""

    table: str
    path: str
    message: str
    offset: int | None = None


def check(store: Store, table: str | None = None) -> Iterator[Problem]:
    """Read everything and yield what is damaged or missing; nothing is repaired."""
    names = [store.table(table).name] if table is not None else list(store.tables())
    for name in names:
        entry = store.entry(name)
        if entry.device_file is not None:
            path = str(store.root / entry.device_file)
            try:
                Container(path, MAGIC).verify()
            except (Error, OSError) as error:
                yield _problem(name, path, error)
        for each in entry.files:
            file = store.open_file(entry, each)
            try:
                file.file.verify()
            except (Error, OSError) as error:
                yield _problem(name, file.path, error)
            else:
                yield from _check_sidecar(name, file)


def _check_sidecar(table: str, file: OpenFile) -> Iterator[Problem]:
    reason = file.file.resource.verify()
    if reason:
        yield Problem(table, file.path, f"the sidecar is not used: {reason}")
    try:
        _ = file.device_number
    except (Error, OSError) as error:
        yield _problem(table, file.path, error)


def _problem(table: str, path: str, error: Exception) -> Problem:
    if isinstance(error, Corruption):
        return Problem(table, error.path, str(error), error.offset)
    return Problem(table, path, str(error))
