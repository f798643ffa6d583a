"""Widths of buckets and windows: ``1h``, ``'1 hour'``, ``INTERVAL '1 hour'`` or any expression, as DuckDB writes intervals."""

from __future__ import annotations

import re

from tsdb.sql.series.draft import Draft, Part
from tsdb.sql.token import NUMBER, STRING

#: QuestDB's and IoTDB's letters; a minute is ``m`` and a month ``M`` or ``mo``.
UNITS = {
    "us": "microseconds", "U": "microseconds", "ms": "milliseconds", "T": "milliseconds", "s": "seconds", "m": "minutes",
    "h": "hours", "H": "hours", "d": "days", "D": "days", "w": "weeks", "W": "weeks", "M": "months", "mo": "months", "y": "years",
    "Y": "years",
}  # fmt: skip
#: Units as DuckDB has them behind INTERVAL and a number, and as people write them short, each with our letter.
_WORDS = {
    "us": "MICROSECOND MICROSECONDS USEC USECS", "ms": "MILLISECOND MILLISECONDS MSEC MSECS", "s": "SECOND SECONDS SEC SECS",
    "m": "MINUTE MINUTES MIN MINS", "h": "HOUR HOURS HR HRS", "d": "DAY DAYS", "w": "WEEK WEEKS", "M": "MONTH MONTHS MON MONS",
    "y": "YEAR YEARS YR YRS",
}  # fmt: skip
_LETTERS = {word: letter for letter, words in _WORDS.items() for word in words.split()}
UNIT_WORDS = frozenset(_LETTERS) | {"QUARTER", "QUARTERS", "DECADE", "DECADES", "CENTURY", "CENTURIES"}
UNIT_LETTERS = "U or us, T or ms, s, m, h, d, w, M and y"
_SHORT = re.compile(r"\s*([0-9]+)([A-Za-z]+)\s*")


def interval(draft: Draft, start: int, end: int) -> tuple[Part, ...]:
    """The interval that the tokens [start, end) say; an expression stays as it is."""
    tokens = draft.tokens
    first = tokens[start]
    if end - start == 1 and first.kind == STRING:
        found = _SHORT.fullmatch(first.text)
        if found is not None and found[2] in UNITS:
            return (f"INTERVAL '{found[1]} {UNITS[found[2]]}'",)
        return ("INTERVAL ", draft.span(start, end))
    if first.kind == NUMBER and end - start == 2 and tokens[end - 1].start == first.end:
        return (short_interval(draft, start),)
    return (draft.span(start, end),)


def short_interval(draft: Draft, at: int) -> str:
    """The interval that a number and a unit without a space between say."""
    tokens = draft.tokens
    if at + 1 >= len(tokens) or tokens[at].kind != NUMBER or tokens[at + 1].start != tokens[at].end:
        spaced = tokens[at + 1].text if at + 1 < len(tokens) and tokens[at].kind == NUMBER else ""
        letter = spaced if spaced in UNITS else _LETTERS.get(spaced.upper())
        if letter is not None:
            draft.fail(f"a width is a number and a letter without a space between: {tokens[at].text}{letter}", at)
        draft.expected("a width such as 10s, 5m, 1h, 1d or 1M", at)
    unit, count = tokens[at + 1].text, tokens[at].text
    if unit not in UNITS:
        if unit.upper() in _LETTERS:
            draft.fail(f"unknown unit {unit!r}: write {count}{_LETTERS[unit.upper()]}", at + 1)
        draft.fail(f"unknown unit {unit!r}: there are {UNIT_LETTERS}", at + 1)
    if not count.isdigit() or int(count) == 0:
        draft.fail(f"a width is a whole number of units, not {count}", at)
    return f"INTERVAL '{count} {UNITS[unit]}'"
