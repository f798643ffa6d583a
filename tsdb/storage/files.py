"""Writing data files, and taking them away again when their commit does not come about."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tsdb.catalog.device import DeviceTable, compacted
from tsdb.catalog.table import Table
from tsdb.storage.arrange import SortedRows
from tsdb.storage.manifest import FileEntry
from tsdb_format.blob import PAYLOAD_SUFFIX
from tsdb_format.disk import DISK, PENDING_SUFFIX, Storage
from tsdb_format.schema import Schema
from tsdb_format.types import Kind, Role
from tsdb_format.writer import write_file

FILE_SUFFIX = ".tsf"
#: What belongs to a data file and shares its stem.
SIDECAR_SUFFIXES = (".res",)


def write_rows(
    root: Path, name: str, table: Table, devices: DeviceTable, rows: SortedRows, threads: int,
    *, applied: int = 0, shard: int | None = None, moved: frozenset[str] = frozenset(), storage: Storage = DISK,
) -> FileEntry:  # fmt: skip
    """Write rows, ``_sn`` among their columns, as one file and describe it; deletes up to ``applied`` are carried out in them.

    All of them are of ``shard``.

    Blobs in payload files stay there, but for those in files named in ``moved``, which are copied.
    """
    given = [column for column in table.schema if column.role in (Role.TIME, Role.TAG) or column.name in rows.columns]
    tags = {column.name: compacted(devices.tags[column.name].take(rows.numbers)) for column in table.schema.tags}
    facts = write_file(
        str(root / name),
        schema=Schema(tuple(given)),
        device_tags=tags,
        row_start=rows.row_start,
        columns=rows.columns,
        rows_per_page=table.options.rows_per_page,
        table=table.name,
        device_number=rows.numbers,
        threads=threads,
        storage=storage,
        blobs={each.name: table.options.blob_limits(each.name) for each in table.schema.fields if each.type.kind is Kind.BLOB},
        moved=moved,
        definition=table.to_bytes(),
    )
    times = facts.min_time, facts.max_time
    sequences = facts.min_sequence, facts.max_sequence
    return FileEntry(name, facts.rows, facts.devices, facts.bytes, *times, *sequences, applied, facts.payloads, shard)


def remove_files(root: Path, names: Iterable[str], storage: Storage = DISK) -> None:
    """Delete files and their sidecars; what is not there or cannot be deleted is left to the next sweep."""
    for name in names:
        path = root / name
        for each in (path, *(path.with_suffix(suffix) for suffix in SIDECAR_SUFFIXES if path.suffix == FILE_SUFFIX)):
            remove(each, storage)
            remove(each.with_name(each.name + PENDING_SUFFIX), storage)


def own_payloads(root: Path, name: str, storage: Storage = DISK) -> list[str]:
    """The payload files that were written together with a data file."""
    folder, _, last = name.rpartition("/")
    stem = last.removesuffix(FILE_SUFFIX) + "."
    found = (each.removesuffix(PENDING_SUFFIX) for each in storage.list(str(root / folder)) if each.startswith(stem))
    return [f"{folder}/{each}" for each in found if each.endswith(PAYLOAD_SUFFIX)]


def payload_paths(folder: Path, storage: Storage = DISK) -> frozenset[str]:
    """The paths of a folder's payload files."""
    return frozenset(f"{folder}/{name}" for name in storage.list(str(folder)) if name.endswith(PAYLOAD_SUFFIX))


def remove(path: Path, storage: Storage = DISK) -> None:
    """Delete a file if that is possible."""
    try:
        storage.remove(str(path))
    except OSError:
        return


def remove_pending(root: Path, folders: Iterable[str], storage: Storage = DISK) -> None:
    """Delete what was being written in some folders (not those below them) when a process died."""
    for folder in folders:
        for name in storage.list(str(root / folder)):
            if name.endswith(PENDING_SUFFIX):
                remove(root / folder / name, storage)


def highest_number(folder: Path) -> int:
    """The highest number that a file below a folder is named by; what a crash left counts, since somebody may have it in mind."""
    numbers = (path.name.partition(".")[0] for path in folder.rglob("*.*"))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def sweep(root: Path, folder: str, keep: frozenset[str], storage: Storage = DISK) -> list[str]:
    """What a crash left in ``folder`` of the database: the files that ``keep`` does not name. Pending ones are deleted at once."""
    left: list[str] = []
    for path in sorted((root / folder).rglob("*"), reverse=True):
        name = path.relative_to(root).as_posix()
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif name.endswith(PENDING_SUFFIX):
            remove(path, storage)
        elif path.suffix not in SIDECAR_SUFFIXES:
            if name not in keep:
                left.append(name)
        elif path.with_suffix(FILE_SUFFIX).relative_to(root).as_posix() not in keep and not path.with_suffix(FILE_SUFFIX).exists():
            left.append(name)
    return left
