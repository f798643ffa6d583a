"""What a damaged database consists of, as far as that can be told: by its newest manifest that can be read, or its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tsdb.catalog.device_file import SUFFIX as DEVICE_SUFFIX
from tsdb.catalog.table import FILES_FOLDER, Mode, Table, TableOptions
from tsdb.storage import manifest as manifests
from tsdb.storage.files import FILE_SUFFIX
from tsdb.storage.finding import Problem, problem_of
from tsdb.storage.manifest import FileEntry, Manifest, SourceEntry
from tsdb.storage.tombstone import SUFFIX as TOMBSTONE_SUFFIX
from tsdb_format.disk import Storage
from tsdb_format.errors import Error, NotFound, UnsupportedFormat
from tsdb_format.reader import TsFile
from tsdb_format.schema import Schema
from tsdb_format.types import Role


@dataclass(slots=True)
class Remains:
    """What there is of one table. ``files`` by name, with what a manifest says of each, None where none does.

    Of ``device_files`` the first that can be read is to be taken; deletes in ``tombstone_files`` count together.
    """

    table: Table
    files: dict[str, FileEntry | None] = field(default_factory=dict)
    device_files: list[str] = field(default_factory=list)
    tombstone_files: list[str] = field(default_factory=list)
    sources: dict[str, SourceEntry] = field(default_factory=dict)


@dataclass(slots=True)
class Catalog:
    """What there is of a database. ``exact``: as its newest manifest has it, so that every file is accounted for.

    Files hold every commit up to ``sequence``, as far as a manifest tells; ``problems`` says what could not be read.
    """

    manifest: Manifest
    exact: bool
    tables: dict[int, Remains] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def find_catalog(root: Path, storage: Storage) -> Catalog:
    """Look for the tables of a database. Raises NotFound where there is nothing of one, UnsupportedFormat for a later build's."""
    stored = {number: storage.list(str(root / FILES_FOLDER / str(number))) for number in _folders(root)}
    catalog, older = _read_manifests(root, storage)
    if catalog.manifest.version < 0 and not any(name.endswith(FILE_SUFFIX) for names in stored.values() for name in names):
        raise NotFound(f"{root} holds nothing of a database: neither a manifest nor a data file can be read")
    for entry in catalog.manifest.tables.values():
        names = _Names(entry.table.folder, stored.get(entry.table.id, []))
        files: dict[str, FileEntry | None] = {file.name: file for file in entry.files}
        devices, tombstones = names.having(DEVICE_SUFFIX), [entry.tombstones] if entry.tombstones is not None else []
        if not catalog.exact:
            retired = older - catalog.manifest.names
            files |= {name: None for name in names.having(FILE_SUFFIX) if name not in files and name not in retired}
            tombstones = names.having(TOMBSTONE_SUFFIX)
        elif entry.device_file is not None:
            devices = [entry.device_file, *(name for name in devices if name != entry.device_file)]
        catalog.tables[entry.table.id] = Remains(entry.table, files, devices, tombstones, entry.sources)
    if not catalog.exact:
        for number in sorted(stored.keys() - catalog.tables.keys()):
            names = _Names(f"{FILES_FOLDER}/{number}", stored[number])
            found = _scan_table(root, number, names.having(FILE_SUFFIX), storage)
            if found is not None:
                devices, tombstones = names.having(DEVICE_SUFFIX), names.having(TOMBSTONE_SUFFIX)
                catalog.tables[number] = Remains(found, dict.fromkeys(names.having(FILE_SUFFIX)), devices, tombstones)
        _name_apart(catalog)
    return catalog


class _Names:
    """The files of one table's folder."""

    def __init__(self, folder: str, names: list[str]) -> None:
        self._folder = folder
        self._names = sorted(names, key=lambda name: (Path(name).stem.isdigit(), name), reverse=True)

    def having(self, suffix: str) -> list[str]:
        """Those of one kind, the newest first."""
        return [f"{self._folder}/{name}" for name in self._names if name.endswith(suffix)]


def _folders(root: Path) -> Iterator[int]:
    folder = root / FILES_FOLDER
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and path.name.isdigit():
            yield int(path.name)


def _read_manifests(root: Path, storage: Storage) -> tuple[Catalog, frozenset[str]]:
    """The newest manifest that can be read, and the names of all files in older ones. Version −1 stands for none at all."""
    current = manifests.current_name(root, storage)
    names = manifests.versions(root)
    if current is not None:
        names = [current, *(name for name in names if name != current)]
    found: list[Manifest] = []
    problems: list[Problem] = []
    for name in names:
        try:
            found.append(manifests.read(root, name, storage))
        except UnsupportedFormat:
            raise
        except Error as error:
            problems.append(problem_of("", str(root / name), error))
    exact = bool(found) and (found[0].name == current or (current is None and found[0].name == names[0]))
    catalog = Catalog(found[0] if found else Manifest(version=-1), exact, problems=[] if exact else problems)
    if not exact:
        text = f"the tables are as of version {found[0].version}" if found else "the tables are as their files tell"
        text += ", and rows that were deleted later may be back" if found else ", without views and deletes of old"
        catalog.problems.append(Problem("", str(root / (current or manifests.CURRENT_NAME)), f"no newest manifest: {text}"))
    older: frozenset[str] = frozenset().union(*(each.names for each in found[1:]))
    return catalog, older


def _scan_table(root: Path, number: int, names: list[str], storage: Storage) -> Table | None:
    """A table as its data files tell, of which the newest is named first; None where none of them can be read."""
    files: list[TsFile] = []
    for name in names:
        try:
            files.append(TsFile(root / name, storage))
        except UnsupportedFormat:
            raise
        except Error:
            continue
    if not files:
        return None
    defined = next((table for table in map(_definition, files) if table is not None), None)
    files.sort(key=lambda file: file.max_sequence, reverse=True)
    known = {} if defined is None else {column.id: column for column in defined.schema}
    for file in files:
        for column in file.schema:
            later = defined is None or column.id >= defined.next_column_id
            if later and (column.role is not Role.TIME or not any(each.role is Role.TIME for each in known.values())):
                known.setdefault(column.id, column)
    taken: set[str] = set()
    for column in known.values():
        name = column.name if column.name.lower() not in taken else f"{column.name}_{column.id}"
        taken.add(name.lower())
        known[column.id] = replace(column, name=name)
    schema = Schema(tuple(known.values()))
    if defined is not None:
        return replace(defined, id=number, schema=schema, next_column_id=max(defined.next_column_id, max(known) + 1))
    mode: Mode = "append" if any(_has_twins(file) for file in files) else "table"
    options = TableOptions(rows_per_page=files[0].rows_per_page, mode=mode)
    return Table(number, files[0].table or f"table_{number}", schema, options, max(known) + 1)


def _definition(file: TsFile) -> Table | None:
    """The table as a file's writer knew it; None where the file does not say it, or what it says cannot be read."""
    try:
        return Table.from_bytes(file.definition)
    except Error:
        return None


def _has_twins(file: TsFile) -> bool:
    """Whether a device has two rows of one time, as it has only where every row is kept."""
    try:
        time = file.read(file.schema.time.name, np.zeros(1, np.int64), np.array([file.row_count])).values
        same = time[1:] == time[:-1]
        same[file.row_start[1:-1] - 1] = False
    except Error:
        return False
    return bool(same.any())


def _name_apart(catalog: Catalog) -> None:
    """Give tables of one name different ones: of some nobody knows any more that they were dropped."""
    taken: set[str] = set()
    for number, remains in catalog.tables.items():
        table = remains.table
        if table.name.lower() in taken:
            remains.table = replace(table, name=f"{table.name}_{number}")
        taken.add(remains.table.name.lower())
