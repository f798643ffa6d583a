"""Where a consumer of a live query is, as a value that can be kept and gone on from: in another process, after any time.

A position names rows by what they are, never by where they are stored, so that flushes, compaction and other rows change nothing.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsdb.catalog.device import DeviceTable
from tsdb.storage.one_row import plain_vector
from tsdb.stream.arrivals import Arrivals
from tsdb_format.errors import InvalidInput
from tsdb_format.vector import BoolArray

#: Form of the text that a token is.
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Place:
    """One row of a table: its device's tags, its time and commit, and how many alike in all that came up to it (itself counted)."""

    tags: tuple[Any, ...]
    time: int
    sequence: int
    count: int

    def to_json(self) -> list[Any]:
        """The place as plain JSON values."""
        return [list(self.tags), self.time, self.sequence, self.count]

    @classmethod
    def from_json(cls, value: list[Any]) -> Place:
        """The inverse of ``to_json``."""
        tags, time, sequence, count = value
        return cls(tuple(tags), int(time), int(sequence), int(count))

    @classmethod
    def of_last(cls, rows: Arrivals, devices: DeviceTable, before: Place | None) -> Place:
        """The place of the last of some rows; ``before`` is that of the last row before them."""
        two = rows.places.slice(max(rows.count - 2, 0), rows.count)  # of the others nothing is read, unless these are alike
        device, time, sequence = int(two.device[-1]), int(two.time[-1]), int(two.sequence[-1])
        count = 1
        if rows.count > 1 and (two.device[0], two.time[0], two.sequence[0]) == (device, time, sequence):
            alike = (rows.device == device) & (rows.time == time) & (rows.sequence == sequence)
            count = rows.count if alike.all() else int(np.argmin(alike[::-1]))
        tags = tuple(_tag(devices, column.name, device) for column in devices.schema.tags)
        if count == rows.count and before is not None and (before.tags, before.time, before.sequence) == (tags, time, sequence):
            count += before.count
        return cls(tags, time, sequence, count)

    def rank_in(self, devices: DeviceTable) -> int:
        """The device's rank in tag order. Raises InvalidInput where the table has no such device."""
        tags = [tag.encode() if isinstance(tag, str) else tag for tag in self.tags]
        number = -1
        if len(tags) == len(devices.schema.tags):
            given = {column.name: plain_vector(column.type, [tag]) for column, tag in zip(devices.schema.tags, tags, strict=True)}
            number = int(devices.find(given, 1)[0])
        if number < 0:
            raise InvalidInput("the resume token is of another table: this one has no such device")
        return int(devices.rank[number])


class Skipper:
    """Leaves out the rows up to a place: of a history in the order of storage, or of changes in the order of commits."""

    def __init__(self, place: Place, devices: DeviceTable, *, by_commit: bool) -> None:
        self._place = place
        self.rank = place.rank_in(devices)
        self._by_commit = by_commit
        self._seen = 0
        self._passed = False

    def rest(self, rows: Arrivals, devices: DeviceTable) -> Arrivals:
        """Those of some rows that come after the place; asked in their order."""
        if self._passed:
            return rows
        row = [(devices.rank[rows.device].astype(np.int64), self.rank), (rows.time, self._place.time)]
        commit = [(rows.sequence, self._place.sequence)]
        later, same = np.zeros(rows.count, np.bool_), np.ones(rows.count, np.bool_)
        for values, mine in [*commit, *row] if self._by_commit else [*row, *commit]:
            later |= same & (values > mine)
            same &= values == mine
        number = self._seen + np.cumsum(same)
        self._seen = int(number[-1]) if len(number) else self._seen
        kept: BoolArray = later | (same & (number > self._place.count))
        self._passed = bool(later.any())
        return rows.select(kept)


def _tag(devices: DeviceTable, name: str, device: int) -> Any:
    """A device's tag as a plain value."""
    return devices.values(name).take(slice(device, device + 1)).to_physical_list()[0]


def encoded(document: dict[str, Any]) -> str:
    """A token, which says nothing to anybody but ``decoded``."""
    text = json.dumps({"version": _VERSION, **document}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decoded(token: str) -> dict[str, Any]:
    """What a token was made of. Raises InvalidInput."""
    try:
        document = json.loads(base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4)))
    except (ValueError, AttributeError, UnicodeError):
        raise InvalidInput("this is no resume token: pass the text that a live query gave as its token") from None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise InvalidInput("the resume token is of a form that this build does not know")
    return document
