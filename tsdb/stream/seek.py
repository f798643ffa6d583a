"""Where a live query starts: the setting ``seek_to``."""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.catalog.table import Table
from tsdb.sql.moment import NS_PER_SECOND, parse_moment
from tsdb_format.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Seek:
    """``history``: what is there comes first, from time ``time_ns`` on where that is given. ``sequence``: from that commit on."""

    history: bool = False
    time_ns: int | None = None
    sequence: int | None = None

    @classmethod
    def of(cls, setting: str) -> Seek:
        """What the setting says. Raises InvalidInput."""
        if setting == "latest":
            return cls()
        if setting == "earliest":
            return cls(history=True)
        if setting.isascii() and setting.isdigit():
            return cls(sequence=max(int(setting), 1))
        text = setting.removesuffix("+00:00")
        moment, microseconds = parse_moment(text, NS_PER_SECOND), parse_moment(text, 10**6)
        if moment is None and microseconds is not None:  # before or after all nanoseconds of 64 bits
            moment = microseconds * 1_000
        if moment is None:
            raise InvalidInput(
                f"seek_to cannot be {setting!r}: it is 'latest', 'earliest', a timestamp such as '2024-05-01 12:00:00' (UTC), "
                "or the number of a commit"
            )
        return cls(history=True, time_ns=moment)

    def since(self, table: Table) -> int | None:
        """The first time of the history, in the unit of the table's time column."""
        if self.time_ns is None:
            return None
        step = NS_PER_SECOND // table.schema.time.type.units_per_second
        return min(max(-(-self.time_ns // step), -(2**63)), 2**63 - 1)
