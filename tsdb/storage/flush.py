"""Writing a commit's files, and taking them away again when the commit does not come about."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tsdb.catalog.device import DeviceTable, compacted
from tsdb.catalog.table import Table
from tsdb.storage.arrange import SortedRows, sequence_vector
from tsdb.storage.manifest import FileEntry
from tsdb_format.disk import PENDING_SUFFIX
from tsdb_format.schema import SEQUENCE_COLUMN, SEQUENCE_NAME, Schema
from tsdb_format.types import Role
from tsdb_format.writer import write_file

FILE_SUFFIX = ".tsf"
#: What belongs to a data file and shares its stem.
SIDECAR_SUFFIXES = (".res", ".blob")


def write_rows(
    root: Path, name: str, table: Table, devices: DeviceTable, rows: SortedRows, sequence: int, threads: int
) -> FileEntry:
    """Write one file of a commit and describe it; ``rows`` gives up its columns."""
    given = [column for column in table.schema if column.role in (Role.TIME, Role.TAG) or column.name in rows.columns]
    tags = {column.name: compacted(devices.tags[column.name].take(rows.numbers)) for column in table.schema.tags}
    columns = rows.columns
    columns[SEQUENCE_NAME] = sequence_vector(SEQUENCE_COLUMN.type, sequence, int(rows.row_start[-1]))
    facts = write_file(
        str(root / name),
        schema=Schema(tuple(given)),
        device_tags=tags,
        row_start=rows.row_start,
        columns=columns,
        rows_per_page=table.options.rows_per_page,
        table=table.name,
        device_number=rows.numbers,
        threads=threads,
    )
    times = facts.min_time, facts.max_time
    return FileEntry(name, facts.rows, facts.devices, facts.bytes, *times, facts.min_sequence, facts.max_sequence)


def remove_files(root: Path, names: Iterable[str]) -> None:
    """Delete files and their sidecars; what is not there or cannot be deleted is left to the next sweep."""
    for name in names:
        path = root / name
        for each in (path, *(path.with_suffix(suffix) for suffix in SIDECAR_SUFFIXES if path.suffix == FILE_SUFFIX)):
            remove(each)
            remove(each.with_name(each.name + PENDING_SUFFIX))


def remove(path: Path) -> None:
    """Delete a file if that is possible."""
    try:
        os.unlink(path)
    except OSError:
        return


def sweep(root: Path, folder: str, keep: frozenset[str]) -> list[str]:
    """Delete what a crash left in ``folder`` of the database: files that ``keep`` does not name. Returns the names removed."""
    removed: list[str] = []
    for path in sorted((root / folder).rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
            continue
        name = path.relative_to(root).as_posix()
        owner = path.with_suffix(FILE_SUFFIX).relative_to(root).as_posix() if path.suffix in SIDECAR_SUFFIXES else name
        if owner not in keep:
            remove(path)
            removed.append(name)
    return removed
