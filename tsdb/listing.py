"""What SHOW lists: tables, files, queries under way, settings. Each is names, types and rows of values in the physical domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from tsdb.exec.arrangement import arrangement_of
from tsdb.exec.selection import Selection
from tsdb.exec.stats import ScanStats
from tsdb.exec.under_way import UnderWay
from tsdb.settings import SETTINGS, Settings, find, show
from tsdb.storage.snapshot import OpenFile, Snapshot, TableSnapshot
from tsdb_format.errors import Corruption, NotFound
from tsdb_format.payload_table import NOT_OWNED
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_NS, ColumnType

if TYPE_CHECKING:
    from tsdb.storage.store import Store

_INT64_MAX = 2**63 - 1


class Listing(NamedTuple):
    """Rows that no table holds."""

    names: tuple[str, ...]
    types: tuple[ColumnType, ...]
    rows: Sequence[tuple[object, ...]]


def tables(snapshot: Snapshot) -> Listing:
    """What each table holds, in files and in memory: ``rows`` that a query sees, NULL where only reading them would tell.

    ``stored_rows`` count every version that is stored, also those overwritten, deleted or expired. ``mode`` is 'table' or a
    stream's.
    """
    names = ("name", "rows", "devices", "files", "columns", "stored_rows", "mode")
    made: list[tuple[object, ...]] = []
    for name in sorted(snapshot.tables):
        seen = snapshot.tables[name]
        table = seen.stored or seen
        files = sum(isinstance(file, OpenFile) for file in table.files)
        stored = sum(file.row_count for file in table.files)
        rows = _visible_rows(seen, sum(file.row_count for file in seen.files))
        made.append((name, rows, table.devices.count, files, len(table.table.schema), stored, table.table.options.mode))
    return Listing(names, (STRING, *(INT64,) * 5, STRING), made)


def views(store: Store) -> Listing:
    """Every materialized view: the table that it writes to, how far it is, and why it is stopped, NULL where it is not.

    ``phase`` is 'history' or 'live', and ``sequence`` the commit up to which its rows are made, as its last rows say.
    """
    from tsdb.stream.position import decoded

    names = ("name", "target", "phase", "sequence", "problem", "query")
    made: list[tuple[object, ...]] = []
    tables = {table.id: table.name for table in store.tables().values()}
    for view in sorted(store.views().values(), key=lambda view: view.name):
        target = tables.get(view.target)
        text = None if target is None else store.checkpoint(view)
        place = {} if text is None else decoded(text)
        place = place.get("data", place)
        live = bool(place) and place["bound"] is None
        made.append((view.name, target, "live" if live else "history", place["after"] if live else None, view.problem, view.text))
    return Listing(names, (STRING, STRING, STRING, INT64, STRING, STRING), made)


def _visible_rows(table: TableSnapshot, stored: int) -> int | None:
    """The rows that a query sees: all that are stored, where none is merged, deleted or expired."""
    oldest = Selection(table, None, ScanStats(table.table.name)).time_low
    if any(file.min_time < oldest for file in table.files):
        return None
    with suppress(Corruption, NotFound):  # what is damaged is named by whoever reads it
        known = arrangement_of(table)
        return None if known.bundles else stored
    return None


def files(snapshot: Snapshot, name: str | None) -> Listing:
    """Every data file of a table, or of all: what the manifest knows of it, and its pages; NULL where it cannot be opened.

    ``bytes`` are those of the file and of its resource. ``blob_files`` are the files that hold large blobs of its rows,
    ``blob_bytes`` these blobs, and ``blob_file_bytes`` all that is in those files: blobs of other data files' rows, and of rows
    that are gone.
    """
    names = (
        "table", "path", "rows", "devices", "first_time", "last_time", "bytes", "pages", "first_sequence", "last_sequence",
        "blob_files", "blob_bytes", "blob_file_bytes",
    )  # fmt: skip
    kinds = (STRING, STRING, INT64, INT64, TIMESTAMP_NS, TIMESTAMP_NS, *(INT64,) * 7)
    return Listing(names, kinds, list(_file_rows(snapshot, name)))


def _file_rows(snapshot: Snapshot, name: str | None) -> Iterator[tuple[object, ...]]:
    for each in sorted(snapshot.tables) if name is None else [name]:
        table = snapshot.tables[each].stored or snapshot.tables[each]
        scale = 10**9 // table.table.schema.time.type.units_per_second
        for file in table.files:
            if isinstance(file, OpenFile):
                times = _nanoseconds(file.min_time, scale), _nanoseconds(file.max_time, scale)
                counts = file.row_count, file.device_count
                sequences = file.min_sequence, file.max_sequence
                yield (each, file.name, *counts, *times, file.bytes, _pages(file), *sequences, *_blobs(file))


def _blobs(file: OpenFile) -> tuple[int, int, int]:
    """The files that hold blobs of a file's rows, the blobs' bytes, and those of the database's own among these files."""
    found = file.payloads
    return len(found), sum(each.live_bytes for each in found), sum(each.bytes for each in found if each.bytes != NOT_OWNED)


def _nanoseconds(ticks: int, scale: int) -> int | None:
    return ticks * scale if abs(ticks * scale) <= _INT64_MAX else None


def _pages(file: OpenFile) -> int | None:
    with suppress(Corruption, NotFound):
        return int(file.file.page_count)
    return None


def queries(under_way: UnderWay, newest: int) -> Listing:
    """The queries of this handle that are under way: how long, and how many rows their scans, or live ones, have given.

    Of live ones also the phase ('history' or 'live'), and how many commits they are behind ``newest``, where that is known.
    """
    names = ("id", "query", "seconds", "rows", "phase", "sequence", "behind")
    made = [(*each, None if each[-1] is None else max(newest - each[-1], 0)) for each in under_way.rows()]
    return Listing(names, (INT64, STRING, DOUBLE, INT64, STRING, INT64, INT64), made)


def settings(current: Settings, name: str | None, snapshot: Snapshot) -> Listing:
    """Settings, all or one, with their defaults and meanings."""
    defaults = Settings()
    if name is not None and name.lower() not in SETTINGS and name.lower() in snapshot.definitions:
        raise NotFound(
            f"no setting {name!r}; DESCRIBE lists the columns of the table, SHOW CREATE TABLE the statement that makes it"
        )
    infos = [find(name)] if name is not None else list(SETTINGS.values())
    rows = [(info.name, show(getattr(current, info.name)), show(getattr(defaults, info.name)), info.meaning) for info in infos]
    return Listing(("name", "value", "default", "meaning"), (STRING,) * 4, rows)
