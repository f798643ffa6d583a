"""The text that DuckDB gets: the user's, with splices, and with parameters numbered anew."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from tsdb.plan.node import DuckQuery, Plan
from tsdb.sql.constant import duckdb_text, for_duckdb
from tsdb.sql.environment import Environment, parameter_names
from tsdb.sql.moment_text import now_splices
from tsdb.sql.statement import Query

Splice = tuple[int, int, str]


def assemble(query: Query, splices: list[Splice], inputs: tuple[tuple[str, Plan], ...], environment: Environment) -> DuckQuery:
    """The text with its splices, now() fixed where it is compared, and parameters numbered in the order of their use."""
    replaced = _Ranges(splices)
    splices = [*splices, *(each for each in now_splices(query, environment) if not replaced.hold(each))]
    replaced = _Ranges(splices)
    numbers: dict[str, int] = {}
    values: list[object] = []
    for token, name in parameter_names(query.tokens):
        if replaced.hold((token.start, token.end, "")):
            continue
        value = environment.values[name]
        text = duckdb_text(value)
        if text is None:
            if name not in numbers:
                numbers[name] = len(numbers) + 1
                values.append(_parameter(value, environment))
            text = f"${numbers[name]}"
        splices.append((token.start, token.end, text))
    pieces, at = [], 0
    for start, end, replacement in sorted(splices):
        pieces += [query.text[at:start], replacement]
        at = end
    spoken = _Place(query, tuple(sorted(splices))) if query.source else None
    return DuckQuery("".join(pieces) + query.text[at:], inputs, tuple(values), place=spoken)


@dataclass(frozen=True)
class _Place:
    """Where something at an offset of the text with its splices stands in the statement as it was written."""

    query: Query
    splices: tuple[Splice, ...]

    def __call__(self, offset: int) -> str:
        at, made = 0, 0  # the same place in both texts
        for start, end, replacement in self.splices:
            if offset < made + start - at:
                break
            made += start - at + len(replacement)
            at = end
            if offset < made:
                return self.query.place(start)
        return self.query.place(min(at + max(offset - made, 0), len(self.query.text)))


def _parameter(value: object, environment: Environment) -> object:
    """A moment with a zone loses it where it is compared with a timestamp of nanoseconds, which DuckDB does not do by itself."""
    if environment.compared_zone and isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return for_duckdb(value)


class _Ranges:
    """What some splices take away of the text, asked for each of thousands of parameters."""

    def __init__(self, splices: Iterable[Splice]) -> None:
        ranges = sorted((start, end) for start, end, _ in splices if start < end)
        self._starts = [start for start, _ in ranges]
        self._ends = list(accumulate((end for _, end in ranges), max))

    def hold(self, place: Splice) -> bool:
        """Whether one of them holds all of a place."""
        before = bisect_right(self._starts, place[0])
        return before > 0 and place[1] <= self._ends[before - 1]
