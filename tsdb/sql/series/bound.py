"""The range of times that a WHERE leaves, as text: the constants that its conjuncts compare the time with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tsdb.catalog.table import Table
from tsdb.sql.nesting import at_top, closing
from tsdb.sql.series.block import Block
from tsdb.sql.series.draft import joined
from tsdb.sql.series.fill import Parts
from tsdb.sql.series.source import source_of
from tsdb.sql.token import Token

_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "==": "="}
_TICK = " + INTERVAL '1 microsecond'"


class Bounds(NamedTuple):
    """The earliest and the latest time as text, None where there is none; the latest counts only if ``inclusive``."""

    low: Parts | None
    high: Parts | None
    inclusive: bool


def time_bounds(block: Block, time: tuple[int, int], tables: Mapping[str, Table]) -> Bounds:
    """The bounds of the column that the tokens ``time`` name; of several the tightest, if they can be put into one text."""
    clause = block.clauses.get("WHERE")
    if clause is None:
        return Bounds(None, None, False)
    reader = _Reader(block, time, tables)
    lows: list[Parts] = []
    highs: list[tuple[Parts, bool]] = []
    for operator, value in reader.comparisons(clause.start, clause.end):
        moment: Parts = ("CAST(", value, " AS TIMESTAMP)")
        if operator in (">", ">=", "="):
            lows.append((*moment, _TICK) if operator == ">" else moment)
        if operator in ("<", "<=", "="):
            highs.append((moment, operator != "<"))
    inclusive = any(counts for _, counts in highs)
    ends = [moment if counts or not inclusive else (*moment, " - INTERVAL '1 microsecond'") for moment, counts in highs]
    return Bounds(_of("greatest", lows), _of("least", ends), inclusive)


def _of(function: str, values: list[Parts]) -> Parts | None:
    if len(values) < 2:
        return values[0] if values else None
    return (f"{function}(", *joined(values), ")")


class _Reader:
    def __init__(self, block: Block, time: tuple[int, int], tables: Mapping[str, Table]) -> None:
        self._draft = block.draft
        self._tokens = block.draft.tokens
        self._time = self._tokens[time[1] - 1].text.lower()
        source = source_of(block, tables)
        table = None if source is None else source.table
        columns = () if table is None else (column.name for column in table.schema)
        aliases = (item.alias for item in block.items() if item.alias is not None)
        self._varying = {self._time, *(name.lower() for name in (*columns, *aliases))}

    def comparisons(self, start: int, end: int) -> Iterator[tuple[str, tuple[int, int]]]:
        """(operator, text of the constant) of the conjuncts in a range of tokens that compare the time."""
        while self._tokens[start].is_symbol("(") and closing(self._tokens, start) == end - 1:
            start, end = start + 1, end - 1
        if any(self._tokens[at].upper == "OR" for at in at_top(self._tokens, start, end)):
            return
        for first, last in self._conjuncts(start, end):
            wrapped = self._tokens[first].is_symbol("(") and closing(self._tokens, first) == last - 1
            yield from self.comparisons(first, last) if wrapped else self._comparison(first, last)

    def _conjuncts(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        first, between = start, False
        for at in at_top(self._tokens, start, end):
            word = self._tokens[at].upper
            if word == "BETWEEN":
                between = True
            elif word == "AND" and between:
                between = False
            elif word == "AND":
                yield first, at
                first = at + 1
        yield first, end

    def _comparison(self, start: int, end: int) -> Iterator[tuple[str, tuple[int, int]]]:
        tops = list(at_top(self._tokens, start, end))
        between = next((at for at in tops if self._tokens[at].upper == "BETWEEN"), None)
        if between is not None:
            middle = next((at for at in tops if at > between and self._tokens[at].upper == "AND"), None)
            if middle is not None and self._is_time(start, between):
                yield from self._constant(">=", between + 1, middle)
                yield from self._constant("<=", middle + 1, end)
            return
        at = next((at for at in tops if self._tokens[at].is_symbol(*_TURNED)), None)
        if at is None:
            return
        operator = self._tokens[at].text
        if self._is_time(start, at):
            yield from self._constant("=" if operator == "==" else operator, at + 1, end)
        elif self._is_time(at + 1, end):
            yield from self._constant(_TURNED[operator], start, at)

    def _is_time(self, start: int, end: int) -> bool:
        named = end - start == 1 or (end - start == 3 and self._tokens[start + 1].is_symbol("."))
        return named and self._tokens[end - 1].is_name and self._tokens[end - 1].text.lower() == self._time

    def _constant(self, operator: str, start: int, end: int) -> Iterator[tuple[str, tuple[int, int]]]:
        if start < end and not any(self._varies(token) for token in self._tokens[start:end]):
            yield operator, self._draft.span(start, end)

    def _varies(self, token: Token) -> bool:
        return token.is_name and (token.text.lower() in self._varying or token.upper in ("SELECT", "FROM"))
