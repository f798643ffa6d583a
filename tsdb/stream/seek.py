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
        if setting.isdigit():
            return cls(sequence=max(int(setting), 1))
        moment = parse_moment(setting.removesuffix("+00:00"), NS_PER_SECOND)
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
        return -(-self.time_ns // step)
