"""A database that has one of everything, what it says, and ways to damage it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from support.table_model import vectors_of
from tsdb.catalog.table import TableOptions, build_schema
from tsdb.storage.snapshot import TableSnapshot
from tsdb.storage.store import Store
from tsdb_format.schema import SEQUENCE_NAME
from tsdb_format.types import Role

Row = dict[str, Any]

SCHEMA = build_schema(
    [
        ("time", "TIMESTAMP_S", Role.TIME),
        ("host", "STRING", Role.TAG),
        ("slot", "INT32", Role.TAG),
        ("v", "DOUBLE", Role.FIELD),
        ("note", "STRING", Role.FIELD),
        ("owner", "STRING", Role.ATTRIBUTE),
        ("floor", "INT64", Role.ATTRIBUTE),
    ]
)
#: Rows of a page, so that small tables have several.
PAGE_ROWS = 4


def build(path: Path, *, flushed: bool = False) -> Path:
    """A database of three tables: ``t`` has overlapping files, deletes and a log, ``every`` keeps every row, ``empty`` has none."""
    with Store.open(path, background=False) as store:
        for name, mode in (("t", "table"), ("every", "append"), ("empty", "table")):
            store.create_table(name, SCHEMA, TableOptions(rows_per_page=PAGE_ROWS, mode=mode))  # type: ignore[arg-type]
        write(store, range(20), "abc", v=1.5)
        write(store, range(5), "ab", v=2.5, table="every")
        store.flush()
        write(store, range(10, 30), "bcd", note="late")
        write(store, (3, 3, 4), "a", v=3.5, table="every")
        store.flush()
        delete(store, 12, 14)
        write(store, (13, 40), "c", v=9.0)
        store.flush()
        write(store, (41, 42), "ce", v=8.0, owner="eve")
        delete(store, 0, 2)
        write(store, (4, 4), "b", v=7.5, table="every")
        if flushed:
            store.flush()
    return path


def write(store: Store, times: Any, hosts: str, table: str = "t", **values: Any) -> None:
    """One commit: a row of each host at each time; odd slots are NULL."""
    rows = [
        {"time": time, "host": host, "slot": None if host in "bd" else 7, "floor": ord(host), **values}
        for host in hosts
        for time in times
    ]
    store.write_batch(table, vectors_of(SCHEMA, rows, [n for n in SCHEMA.by_name if n in rows[0]]))


def delete(store: Store, low: int, high: int, table: str = "t") -> None:
    """Delete what every device has from ``low`` to ``high``."""
    store.delete(table, lambda _: (np.array([-1], np.int32), np.array([low]), np.array([high])))


def content(path: Path) -> dict[str, list[Row]]:
    """All tables of a database, row by row, as a query sees them."""
    with Store.open(path, "r") as store:
        return contents(store)


def contents(store: Store) -> dict[str, list[Row]]:
    """All tables of an open database."""
    return {name: rows_of(table) for name, table in store.refresh().tables.items()}


def rows_of(snapshot: TableSnapshot) -> list[Row]:
    """The rows by brute force: every version that no delete hit, overlaid, in the order of tags and time; with attributes."""
    schema, deleted = snapshot.table.schema, snapshot.tombstones
    versions = []
    for each in snapshot.files:
        file = each.file
        names = {column.id: column.name for column in file.schema}
        every = np.zeros(1, np.int64), np.array([file.row_count], np.int64)
        columns = {SEQUENCE_NAME: file.read(SEQUENCE_NAME, *every).to_physical_list()}
        for column in schema:
            if column.role in (Role.TIME, Role.FIELD):
                stored = column.id in names
                columns[column.name] = file.read(names[column.id], *every).to_physical_list() if stored else [None] * file.row_count
        devices = np.repeat(each.device_number, np.diff(file.row_start)).tolist()
        for device, *values in zip(devices, *columns.values(), strict=True):
            versions.append({"device": device, **dict(zip(columns, values, strict=True))})
    for device, low, high, sequence in zip(
        deleted.device.tolist(), deleted.low.tolist(), deleted.high.tolist(), deleted.sequence.tolist(), strict=True
    ):
        versions = [
            row
            for row in versions
            if not (device in (-1, row["device"]) and low <= row[schema.time.name] <= high and row[SEQUENCE_NAME] <= sequence)
        ]
    versions.sort(key=lambda row: row[SEQUENCE_NAME])
    if snapshot.table.options.mode == "table":
        merged: dict[tuple[int, int], Row] = {}
        for row in versions:
            known = merged.setdefault((row["device"], row[schema.time.name]), row)
            known.update({name: value for name, value in row.items() if value is not None and name != SEQUENCE_NAME})
        versions = list(merged.values())
    by_device = {c.name: snapshot.devices.values(c.name).to_physical_list() for c in schema if c.role in (Role.TAG, Role.ATTRIBUTE)}
    for row in versions:
        number = row.pop("device")
        row.update({name: values[number] for name, values in by_device.items()})
        row.pop(SEQUENCE_NAME)
    rank = snapshot.devices.rank
    assert len(rank) == snapshot.devices.count
    key = [str(column.name) for column in schema.tags]
    return sorted(versions, key=lambda row: ([(row[name] is None, str(row[name])) for name in key], row[schema.time.name]))


def flip(path: Path, offset: int, bits: int = 0x10) -> None:
    """Change one byte of a file."""
    raw = bytearray(path.read_bytes())
    raw[offset] ^= bits
    rewrite(path, bytes(raw))


def rewrite(path: Path, raw: bytes) -> None:
    """Replace a file, so that copies of it that share its bytes by links stay as they are."""
    path.unlink()
    path.write_bytes(raw)


def copy(path: Path, target: Path) -> Path:
    """A copy of a database to damage; what was there before goes."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(path, target)
    return target


def files(path: Path, pattern: str) -> list[Path]:
    """The files of a database of one kind."""
    return sorted(each for each in path.rglob(pattern) if each.is_file())


def image(path: Path) -> dict[str, bytes]:
    """All files below a folder, byte for byte."""
    return {each.relative_to(path).as_posix(): each.read_bytes() for each in files(path, "*")}
