"""Where a consumer of a live query is, as a value that can be kept and gone on from: in another process, after any time.

A position names rows by what they are, never by where they are stored, so that flushes, compaction and other rows change nothing.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from tsdb.catalog.device import DeviceTable
from tsdb.sql.constant import of_python
from tsdb.sql.environment import bind_parameters
from tsdb.storage.one_row import plain_vector
from tsdb.stream.arrivals import Arrivals, Places
from tsdb_format.errors import InvalidInput
from tsdb_format.vector import BoolArray

if TYPE_CHECKING:
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.sql.statement import Query
    from tsdb.stream.ordered_rows import OrderedRows

#: Places of earlier rows that one which nobody has looked up may need, and which hold these rows.
_BEHIND_MAX = 16
#: Forms of a position's text: the document alone, and one with the mark of its query that a checksum follows.
_PLAIN, _SEALED = 1, 2
_SEAL_BYTES = 8
#: How the text of a later form may begin.
_NEWER = re.compile(rb'\{"version":(?:[3-9]|[1-9][0-9]+),')
_NO_TOKEN = "this is no resume token, or a part of it was lost or changed: pass the text that a live query gave as its token"
_UNKNOWN_FORM = "the resume token is of a form that this build does not know"


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
    def of_last(cls, rows: Places | OrderedRows, count: int, devices: DeviceTable, before: Place | LastPlace | None) -> Place:
        """The place of the last of ``count`` rows, one or more; ``before`` is that of the last row before them."""
        two = rows.slice(max(count - 2, 0), count)  # of the others nothing is read, unless these are alike
        device, time, sequence = int(two.device[-1]), int(two.time[-1]), int(two.sequence[-1])
        alike_count = 1
        if count > 1 and (two.device[0], two.time[0], two.sequence[0]) == (device, time, sequence):
            alike = (rows.device == device) & (rows.time == time) & (rows.sequence == sequence)
            alike_count = count if alike.all() else int(np.argmin(alike[::-1]))
        tags = tuple(_tag(devices, column.name, device) for column in devices.schema.tags)
        if alike_count == count and before is not None:
            last = before.found() if isinstance(before, LastPlace) else before
            alike_count += last.count if (last.tags, last.time, last.sequence) == (tags, time, sequence) else 0
        return cls(tags, time, sequence, alike_count)

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


class LastPlace:
    """The place of the last of some rows, which is looked up once somebody asks: few of those who follow a query keep tokens.

    Any thread may ask, for as long as the files of the rows are open, and a handler that interrupted one.
    """

    def __init__(self, rows: Arrivals, devices: DeviceTable, before: Place | LastPlace | None) -> None:
        """As for ``Place.of_last``."""
        if not rows.places.is_of_one_device:  # else all of them may be alike, and those before them, too
            before = None
        behind: int = before.behind + 1 if isinstance(before, LastPlace) else 0
        if isinstance(before, LastPlace) and behind > _BEHIND_MAX:
            before, behind = before.found(), 0
        #: How many earlier ones it may need.
        self.behind: int = behind
        self._waiting: tuple[Places | OrderedRows, int, DeviceTable, Place | LastPlace | None] | None
        self._waiting = rows.places, rows.count, devices, before
        self._found: Place | None = None

    def found(self) -> Place:
        """The place. Raises Corruption, and Closed."""
        waiting = self._waiting
        if waiting is not None:
            rows, count, devices, before = waiting
            self._found = Place.of_last(rows.uncounted(), count, devices, before)
            self._waiting = None
        assert self._found is not None, "it is found before the rows are let go"
        return self._found

    def to_json(self) -> list[Any]:
        """As for ``Place``."""
        return self.found().to_json()


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
    """A position as text, to be kept where a checksum guards it already."""
    return _base64(_text(_PLAIN, document))


def decoded(text: str) -> dict[str, Any]:
    """What ``encoded`` was given. Raises InvalidInput."""
    return _plain(_bytes(text))


def token_of(document: dict[str, Any], query: str) -> str:
    """A position as text for anybody to keep, with the mark of its query and a checksum; only ``read_token`` knows what it says."""
    body = _text(_SEALED, {"query": query, **document})
    return _base64(body + xxhash.xxh3_64_digest(body))


def read_token(token: str) -> tuple[dict[str, Any], str | None]:
    """What ``token_of`` was given; the mark is None in tokens of builds that wrote none. Raises InvalidInput."""
    raw = _bytes(token)
    body, seal = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
    if xxhash.xxh3_64_digest(body) != seal:
        return _plain(raw), None
    document = json.loads(body)
    if document.pop("version") != _SEALED:
        raise InvalidInput(_UNKNOWN_FORM)
    return document, str(document.pop("query"))


def mark_of(query: Query, parameters: Parameters, settings: Settings) -> str:
    """What tells a query from others: its words, the values of its parameters and, where windows go by them, settings.

    White space, comments and the SETTINGS clause may be others.
    """
    values = {name: of_python(value) or value for name, value in bind_parameters(query.tokens, parameters).items()}
    words: list[Any] = [(token.kind, token.text) for token in query.tokens] + sorted(map(repr, values.items()))
    if query.has_word("TUMBLE") or query.has_word("HOP"):
        words += [settings.emit, settings.watermark_delay, settings.allowed_lateness]
    return xxhash.xxh3_64_hexdigest(repr(words).encode())


def _text(version: int, document: dict[str, Any]) -> bytes:
    return json.dumps({"version": version, **document}, separators=(",", ":"), default=LastPlace.to_json).encode()


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        given = text.strip().rstrip("=")
        raw = base64.b64decode(given + "=" * (-len(given) % 4), b"-_", validate=True)
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(_NO_TOKEN) from None
    if _base64(raw) != given:  # bits that say nothing were changed
        raise InvalidInput(_NO_TOKEN)
    return raw


def _plain(raw: bytes) -> dict[str, Any]:
    """The document of a text without a checksum. Raises InvalidInput."""
    try:
        document = json.loads(raw)
    except ValueError:
        raise InvalidInput(_UNKNOWN_FORM if _NEWER.match(raw) else _NO_TOKEN) from None
    if not isinstance(document, dict) or document.pop("version", None) != _PLAIN:
        raise InvalidInput(_UNKNOWN_FORM)
    return document
