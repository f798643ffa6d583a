"""When windows are emitted: the setting ``emit``."""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.sql.duration import parse_duration
from tsdb_format.errors import InvalidInput

_NS = 10**9


@dataclass(frozen=True, slots=True)
class Emission:
    """``open_too``: windows that are not over are emitted, too, as they are: ``every`` so many seconds, None with each change."""

    open_too: bool = False
    every: float | None = None

    @classmethod
    def of(cls, setting: str) -> Emission:
        """What the setting says. Raises InvalidInput."""
        words = setting.lower().split(maxsplit=1)
        if words == ["after", "close"]:
            return cls()
        if words == ["on", "update"]:
            return cls(open_too=True)
        if len(words) == 2 and words[0] == "periodic":
            return cls(open_too=True, every=parse_duration(words[1], "the period of emit") / _NS)
        raise InvalidInput(f"emit cannot be {setting!r}: it is 'after close', 'periodic 5s' or 'on update'")
