"""Lengths of time as people write them: ``30d``, ``1 hour``, ``90 min``, ``1h30m``."""

from __future__ import annotations

import re
from fractions import Fraction

from tsdb_format.errors import InvalidInput

_SECOND = 10**9
_NS_BY_UNIT = {
    unit: ns
    for ns, units in (
        (1, "ns nanosecond nanoseconds"),
        (10**3, "us µs microsecond microseconds"),
        (10**6, "ms millisecond milliseconds"),
        (_SECOND, "s sec secs second seconds"),
        (60 * _SECOND, "m min mins minute minutes"),
        (3_600 * _SECOND, "h hr hrs hour hours"),
        (86_400 * _SECOND, "d day days"),
        (7 * 86_400 * _SECOND, "w week weeks"),
    )
    for unit in units.split()
}
_CALENDAR = frozenset({"mon", "month", "months", "y", "yr", "year", "years", "quarter", "quarters", "decade", "decades"})
_PART = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-zµ]+)\s*")


def parse_duration(text: str, what: str = "a duration") -> int:
    """Nanoseconds; raises InvalidInput, also for months and years, which have no fixed length."""
    total = Fraction(0)
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        unit = found[2].lower() if found else ""
        if unit in _CALENDAR:
            raise InvalidInput(f"{what} cannot be {text!r}: months and years differ in length; give days")
        if found is None or unit not in _NS_BY_UNIT:
            break
        total += Fraction(found[1].replace("_", "")) * _NS_BY_UNIT[unit]
        at = found.end()
    if at < len(text) or not text.strip():
        raise InvalidInput(f"{what} cannot be {text!r}: write a number and a unit, such as '30d', '12h' or '15 min'")
    if total <= 0 or total.denominator != 1 or total >= 2**63:
        raise InvalidInput(f"{what} cannot be {text!r}: it must be a whole, positive number of nanoseconds below 292 years")
    return int(total)
