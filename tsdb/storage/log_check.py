"""Verifying the log: every segment's records, that they follow on the manifest, and that what they say fits the tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tsdb.catalog.table import Table
from tsdb.storage.blob_intake import payload_names
from tsdb.storage.finding import Problem, problem_of
from tsdb.storage.log_record import Change, decode
from tsdb.storage.log_replay import DAMAGED_SUFFIX, replay
from tsdb.storage.log_scan import Gap, scan
from tsdb.storage.log_segment import CHANGE, SUFFIX, list_segments
from tsdb.storage.manifest import Manifest, TableEntry
from tsdb_format.disk import PENDING_SUFFIX, Storage
from tsdb_format.errors import Error, NotFound
from tsdb_format.payload import PayloadFiles, verify_payloads
from tsdb_format.types import ColumnType, Role


class LogCheck:
    """The log that belongs to a manifest, read in full. ``last_sequence`` is the last commit of the database that can be read,
    ``payloads`` are the files that commits in the log have blobs in.

    ``devices``: by table id how many devices its device file has; None where that cannot be read. Raises NotFound where a segment
    vanishes meanwhile, as it does when a writer flushes.
    """

    def __init__(self, folder: str, manifest: Manifest, devices: dict[int, int | None], storage: Storage) -> None:
        self._folder = folder
        self._manifest = manifest
        self._storage = storage
        self._tables = {entry.table.id: entry for entry in manifest.tables.values()}
        self._devices = dict(devices)
        self._segments = list_segments(folder, storage)
        self.last_sequence = manifest.sequence
        self.problems: list[Problem] = []
        self.payloads: set[str] = set()
        self._replay()
        self._look_at_obsolete()
        self._look_at_others()

    def _replay(self) -> None:
        try:
            found = replay(self._folder, self._manifest.sequence, self._apply, self._storage)
        except NotFound:
            raise
        except Error as error:  # of a later format, or refused by the disk
            self.problems.append(problem_of("", self._folder, error))
            return
        self.last_sequence = found.last_sequence
        if found.problem is not None:
            self.problems.append(problem_of("", self._folder, found.problem))
            bad = found.problem.path
            later = [f"{self._folder}/{name}" for name in found.damaged]
            self.problems += [Problem("", path, "is not used: commits before it are lost", 0) for path in later if path != bad]
        elif found.unfinished_bytes:
            path = f"{self._folder}/{self._segments[-1][0]}"
            raw = self._storage.read(path)
            begin = max(len(raw) - found.unfinished_bytes, 0)
            if raw[begin:].any():  # what is ahead of the end is zeros
                text = "what follows is no whole record: it is being written, or a crash left it"
                self.problems.append(Problem("", path, text, begin, note=True))

    def _apply(self, sequence: int, change: Change) -> None:
        """See whether a commit fits its table."""
        entry = self._tables.get(change.table)
        if entry is None:
            if change.table >= self._manifest.next_table:
                self._wrong("", sequence, f"is to table {change.table}, which there never was")
            return
        for what in self._misfits(entry, change):
            self._wrong(entry.table.name, sequence, what)
        self._verify_payloads(entry.table, sequence, change)

    def _misfits(self, entry: TableEntry, change: Change) -> Iterator[str]:
        known = self._devices.get(entry.table.id, 0)
        if known is not None:
            if change.new_devices:
                if change.first_device > known:
                    yield f"adds devices from number {change.first_device:,} on where there are {known:,}"
                known = self._devices[entry.table.id] = max(known, change.first_device + change.new_devices)
            for numbers in (change.numbers, change.attribute_devices, change.deleted_device):
                if len(numbers) and int(numbers.max()) >= known:
                    yield f"names device {int(numbers.max()):,} where there are {known:,}"
        for vectors, *roles in (
            (change.device_tags, Role.TAG), (change.attributes, Role.ATTRIBUTE), (change.columns, Role.TIME, Role.FIELD),
        ):  # fmt: skip
            for number, vector in vectors.items():
                if not _fits(entry.table, number, vector.type, roles):
                    yield f"gives column {number} as {vector.type}, which it is not"
        if change.row_count and entry.table.schema.time.id not in change.columns:
            yield "has rows without a time"

    def _verify_payloads(self, table: Table, sequence: int, change: Change) -> None:
        """Read the blobs of a commit that are not in the log itself."""
        self.payloads |= payload_names(table, change.columns.values())
        files = PayloadFiles(f"{Path(self._folder).parent}/{table.folder}", self._storage)
        for vector in change.columns.values():
            for rows, error in verify_payloads(vector, files):
                found = problem_of(table.name, files.folder, error)
                text = f"{found.message}: {len(rows):,} row{'s' * (len(rows) > 1)} of commit {sequence:,}, which the log has"
                self.problems.append(replace(found, message=text))

    def _wrong(self, table: str, sequence: int, what: str) -> None:
        place = bisect_right([first for _, first in self._segments], sequence) - 1
        path = f"{self._folder}/{self._segments[max(place, 0)][0]}"
        self.problems.append(Problem(table, path, f"commit {sequence:,} {what}"))

    def _look_at_obsolete(self) -> None:
        """Segments before those that a replay reads: every commit in them is in files."""
        after = self._manifest.sequence + 1
        begin = max((place for place, (_, first) in enumerate(self._segments) if first <= after), default=0)
        for name, _ in self._segments[:begin]:
            path = f"{self._folder}/{name}"
            for each in scan(self._storage.read(path), path):
                if isinstance(each, Gap):
                    text = f"{each.stop - each.start:,} bytes cannot be read, of commits that files have"
                    self.problems.append(Problem("", path, text, each.start, note=True))

    def _look_at_others(self) -> None:
        for name in self._storage.list(self._folder):
            path = f"{self._folder}/{name}"
            if DAMAGED_SUFFIX in name:
                text = f"was set aside when the database was opened: {self._content(path)}"
                self.problems.append(Problem("", path, text, note=True))
            elif name.endswith(SUFFIX + PENDING_SUFFIX):
                self.problems.append(Problem("", path, "was not finished; the next writer removes it", note=True))

    def _content(self, path: str) -> str:
        """What is in a segment that nobody reads."""
        try:
            raw = self._storage.read(path)
            found = [each for each in scan(raw, path) if not isinstance(each, Gap) and each.kind == CHANGE]
            rows = sum(decode(raw[each.start : each.stop], path=path, offset=each.start).row_count for each in found)
        except Error as error:
            return str(error)
        if not found:
            return "no commit in it can be read"
        return f"{len(found):,} commits in it, {found[0].sequence:,} to {found[-1].sequence:,}, can be read, of {rows:,} rows"


def _fits(table: Table, number: int, kind: ColumnType, roles: Sequence[Role]) -> bool:
    """Whether the table has, or had, a column of that number that can be given so."""
    column = next((column for column in table.schema if column.id == number), None)
    return number < table.next_column_id if column is None else column.type == kind and column.role in roles
