"""A live database as plain dictionaries: what any history of writes, deletes and schema changes must have made of it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from support.snapshots import vector_of
from tsdb_format.types import Role, parse_type
from tsdb_format.vector import Vector

Tags = tuple[Any, ...]
Key = tuple[Tags, int]
#: A row by column name, as queries show it.
Row = dict[str, Any]

EPOCH = datetime.datetime(1970, 1, 1)
_MS = datetime.timedelta(milliseconds=1)


@dataclass(frozen=True)
class Condition:
    """A condition as SQL, and as a function of a row: true, false or None for NULL. ``reads_fields`` tells what it may look at."""

    text: str
    holds: Callable[[Row], bool | None]
    reads_fields: bool = False


@dataclass(frozen=True)
class LiveColumn:
    """A column; ``id`` is never given twice, ``kind`` is the type's name."""

    id: int
    name: str
    kind: str
    role: Role


@dataclass
class LiveTable:
    """A table whose times are milliseconds. ``rows`` holds values by column id: one version per key, or all in append mode.

    ``hidden`` are keys that the TTL may have taken from the disk: with a longer TTL they may come back, whole or in part, or not.
    """

    columns: list[LiveColumn]
    mode: str = "table"
    ttl_ms: int | None = None
    rows: dict[Key, list[dict[int, Any]]] = field(default_factory=dict)
    attributes: dict[Tags, dict[int, Any]] = field(default_factory=dict)
    hidden: set[Key] = field(default_factory=set)

    def copy(self) -> LiveTable:
        """An independent copy."""
        rows = {key: [dict(version) for version in versions] for key, versions in self.rows.items()}
        attributes = {tags: dict(values) for tags, values in self.attributes.items()}
        return replace(self, columns=list(self.columns), rows=rows, attributes=attributes, hidden=set(self.hidden))

    def of(self, *roles: Role) -> list[LiveColumn]:
        """The columns of some roles."""
        return [column for column in self.columns if column.role in roles]

    @property
    def time(self) -> str:
        """The name of the TIME column."""
        return self.of(Role.TIME)[0].name

    # ------------------------------------------------------------------------------------------------ changes

    def write(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Apply a batch of rows with times in milliseconds; (inserted, updated)."""
        inserted = 0
        tags, given = self.of(Role.TAG), self.of(Role.FIELD)
        for row in rows:
            device = tuple(row.get(tag.name) for tag in tags)
            for column in self.of(Role.ATTRIBUTE):
                if row.get(column.name) is not None:
                    self.attributes.setdefault(device, {})[column.id] = row[column.name]
            values = {column.id: row[column.name] for column in given if row.get(column.name) is not None}
            versions = self.rows.setdefault((device, row[self.time]), [])
            if versions and self.mode == "table":
                versions[0].update(values)
            else:
                versions.append(values)
                inserted += 1
        return inserted, len(rows) - inserted

    def delete(self, condition: Condition) -> None:
        """Delete the rows, hidden or not, for which the condition is true."""
        for key, versions in list(self.rows.items()):
            if condition.reads_fields and key in self.hidden:
                continue  # nobody knows what is left of it for the condition to read
            kept = [version for version in versions if condition.holds(self._row(key, version)) is not True]
            self._set(key, kept)

    def delete_devices(self, condition: Condition) -> None:
        """Delete the devices, with rows and attributes, for which a condition on tags and attributes is true."""
        gone = {
            tags for tags in {tags for tags, _ in self.rows} | set(self.attributes) if condition.holds(self._device(tags)) is True
        }
        for key in list(self.rows):
            if key[0] in gone:
                self._set(key, [])
        for tags in gone:
            self.attributes.pop(tags, None)

    def update(self, condition: Condition, name: str, value: Any, now_ms: int) -> None:
        """Set an attribute of the devices with visible rows for which a condition on tags and attributes is true."""
        [column] = [column for column in self.columns if column.name == name]
        for tags in {tags for tags, time in self.rows if self._is_visible(time, now_ms)}:
            if condition.holds(self._device(tags)) is True:
                self.attributes.setdefault(tags, {})[column.id] = value

    def add_column(self, column: LiveColumn) -> None:
        """Add a column without values."""
        self.columns.append(column)

    def drop_column(self, name: str) -> None:
        """Drop a column with its values."""
        [column] = [column for column in self.columns if column.name == name]
        self.columns.remove(column)
        for version in self._versions():
            version.pop(column.id, None)

    def rename_column(self, name: str, new: str) -> None:
        """Give a column another name."""
        self.columns = [replace(column, name=new) if column.name == name else column for column in self.columns]

    def compacted(self, now_ms: int) -> None:
        """Note that rows which the TTL hides now may be gone from the disk."""
        self.hidden |= {key for key in self.rows if not self._is_visible(key[1], now_ms)}

    def _set(self, key: Key, versions: list[dict[int, Any]]) -> None:
        if versions:
            self.rows[key] = versions
        else:
            del self.rows[key]
            self.hidden.discard(key)

    def _versions(self) -> Iterator[dict[int, Any]]:
        for versions in self.rows.values():
            yield from versions
        yield from self.attributes.values()

    def _is_visible(self, time: int, now_ms: int) -> bool:
        return self.ttl_ms is None or time >= now_ms - self.ttl_ms

    # ------------------------------------------------------------------------------------------------ reading

    def known_attributes(self) -> dict[Tags, dict[str, Any]]:
        """The attributes of all devices, with rows or without, that are not NULL."""
        names = {column.id: column.name for column in self.columns}
        found = {
            tags: {names[number]: value for number, value in values.items() if value is not None}
            for tags, values in self.attributes.items()
        }
        return {tags: values for tags, values in found.items() if values}

    def visible(self, now_ms: int) -> list[Row]:
        """The rows that queries see, in order of tags (NULL last) and time."""
        keys = sorted((key for key in self.rows if self._is_visible(key[1], now_ms)), key=lambda key: (_order(key[0]), key[1]))
        return [self._row(key, version) for key in keys for version in self.rows[key]]

    def _device(self, tags: Tags) -> Row:
        row = dict(zip([column.name for column in self.of(Role.TAG)], tags, strict=True))
        values = self.attributes.get(tags, {})
        return row | {column.name: values.get(column.id) for column in self.of(Role.ATTRIBUTE)}

    def _row(self, key: Key, version: dict[int, Any]) -> Row:
        known = self._device(key[0]) | {self.time: EPOCH + key[1] * _MS}
        return {column.name: known[column.name] if column.name in known else version.get(column.id) for column in self.columns}

    def adopt(self, found: Sequence[Row], now_ms: int) -> None:
        """Take over what is left of rows that may be gone, after checking that it is no more than there was."""
        if not any(self._is_visible(key[1], now_ms) for key in self.hidden):
            return
        tags, fields = self.of(Role.TAG), self.of(Role.FIELD)
        left: dict[Key, list[dict[int, Any]]] = {}
        for row in found:
            key = tuple(row[tag.name] for tag in tags), (row[self.time] - EPOCH) // _MS
            if key in self.hidden:
                left.setdefault(key, []).append({c.id: row[c.name] for c in fields if row[c.name] is not None})
        for key in [key for key in self.hidden if self._is_visible(key[1], now_ms)]:
            versions = left.get(key, [])
            for version in versions:
                assert any(version.items() <= known.items() for known in self.rows[key]), (key, version, self.rows[key])
            assert len(versions) <= len(self.rows[key])
            self._set(key, versions)
            self.hidden.discard(key)


def _order(tags: Tags) -> tuple[Any, ...]:
    return tuple((value is None, 0 if value is None else value.encode() if isinstance(value, str) else value) for value in tags)


@dataclass
class LiveModel:
    """All tables by name."""

    tables: dict[str, LiveTable] = field(default_factory=dict)

    def copy(self) -> LiveModel:
        """An independent copy."""
        return LiveModel({name: table.copy() for name, table in self.tables.items()})


def batch_of(table: LiveTable, rows: Sequence[Row], names: Sequence[str] | None = None) -> dict[str, Vector]:
    """Rows as the vectors that ``Store.write_batch`` takes, of some columns or all."""
    given = [column for column in table.columns if names is None or column.name in names]
    return {column.name: vector_of(parse_type(column.kind), [row.get(column.name) for row in rows]) for column in given}


#: Values of fields and attributes by type: few, so that rows collide, and of sums that no order of adding changes.
VALUES: dict[str, tuple[Any, ...]] = {
    "DOUBLE": (None, 0.25, -2.0, 1e6, 0.0),
    "INT64": (None, 0, -7, 2**40, 3),
    "INT32": (None, 1, -1, 2**31 - 1, 0),
    "STRING": (None, "", "x", "null", "ä longer text than most"),
    "BOOLEAN": (None, True, False, True, None),
}
HOSTS = (None, "", "a", "b", "null")
RACKS = (None, 0, -5)


def rows_of(table: LiveTable, codes: Sequence[Sequence[int]]) -> list[Row]:
    """Rows from numbers: time, host, rack, and then one for each further column, of which any may be missing."""
    out: list[Row] = []
    hosts, racks = table.of(Role.TAG)
    others = table.of(Role.FIELD, Role.ATTRIBUTE)
    for time, host, rack, *rest in codes:
        row: Row = {table.time: time, hosts.name: HOSTS[host % len(HOSTS)], racks.name: RACKS[rack % len(RACKS)]}
        for column, code in zip(others, rest, strict=False):
            choices = VALUES[column.kind]
            row[column.name] = choices[code % len(choices)]
        out.append(row)
    return out
