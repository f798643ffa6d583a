"""``SAMPLE BY 1h [FROM … TO …] [FILL(…)] [ALIGN TO CALENDAR …]`` (QuestDB): a row for each bucket and combination of other keys.

The items that aggregate nothing are the keys, and the time column among them shows the bucket. Rows come in the order of buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.sql.nesting import closing, split
from tsdb.sql.series.aggregate import aggregates, is_over_aggregates, passed_on
from tsdb.sql.series.block import Block, Item, block_at
from tsdb.sql.series.draft import Draft, Edit, Part, joined
from tsdb.sql.series.fill import ROWS, Bucket, Filling, Parts, Spine, is_constant, shown_name
from tsdb.sql.series.source import Source, no_source, source_of
from tsdb.sql.series.width import UNIT_WORDS, interval, short_interval
from tsdb.sql.token import PARAMETER, STRING, Cursor

WORDS = frozenset({"SAMPLE"})
NOT_FIRST = "SAMPLE BY aligns to the calendar, not to the first observation: leave ALIGN TO FIRST OBSERVATION out"
_METHODS = {"PREV": "PREV", "PREVIOUS": "PREV", "LINEAR": "LINEAR", "NULL": "NULL", "NONE": "NONE"}


@dataclass(slots=True)
class _Clause:
    """What stands after SAMPLE BY. ``fills`` are words of ``_METHODS`` or constants as ranges of text."""

    bucket: Bucket
    low: Parts | None = None
    high: Parts | None = None
    fills: list[str | tuple[int, int]] = field(default_factory=list)
    fill_at: int = 0

    @property
    def fills_gaps(self) -> bool:
        """Whether buckets without rows appear."""
        return any(fill != "NONE" for fill in self.fills)


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """GROUP BY the bucket and the keys; over all buckets where gaps are filled."""
    tokens = draft.tokens
    for at in range(len(tokens) - 2, 0, -1):
        if tokens[at].upper == "SAMPLE" and tokens[at + 1].upper == "BY":
            block = block_at(draft, at)
            if block is not None and "SAMPLE" in block.clauses and block.clauses["SAMPLE"].keyword == at:
                return _Sample(block, at, tables).edits()
    return ()


class _Sample:
    def __init__(self, block: Block, at: int, tables: Mapping[str, Table]) -> None:
        self.block = block
        self.draft = block.draft
        self.at = at
        source = source_of(block, tables)
        if source is None:
            no_source(block, tables, "SAMPLE BY is for a table or a query over one: which column is the time cannot be told", at)
        if "GROUP" in block.clauses:
            self.draft.fail(
                "SAMPLE BY groups by the items that aggregate nothing: it takes no GROUP BY", block.clauses["GROUP"].keyword
            )
        block.precedes("WHERE", at)
        self.source: Source = source
        self.items = block.items()
        if not self.items:
            self.draft.fail("SAMPLE BY needs a select list", at)
        self.clause = _read(block, source)

    def edits(self) -> list[Edit]:
        clause, draft = self.clause, self.draft
        own = clause.bucket.of((self.source.time,))
        keyed = [item for item in self.items if self._is_key(item)]
        texts: list[Parts] = [own, *(draft.replaced(*draft.span(i.start, i.end), self._times(i.start, i.end, own)) for i in keyed)]
        listed = joined(texts)
        start, end = draft.span(self.at, self.block.clauses["SAMPLE"].end)
        having = self.block.clauses.get("HAVING")
        grouping = [*self._range(), Edit(start, end, ("GROUP BY ", *listed)), *(self._times(*having[1:], own) if having else ())]
        sort = self.block.outermost and "ORDER" not in self.block.clauses
        if clause.fills_gaps:
            return self._filled(grouping, own, sort=sort)
        edits = [*grouping]
        for item in self.items:
            edits += self._shown(item, own)
        edits += self._order(own)
        if sort:
            after = self.block.clauses.get("LIMIT") or self.block.clauses.get("OFFSET") or self.block.clauses.get("FETCH")
            place = draft.tokens[(after.keyword if after else self.block.end) - 1].end
            edits.append(Edit(place, place, (" ORDER BY ", *listed)))
        return edits

    def _filled(self, grouping: list[Edit], own: Parts, *, sort: bool) -> list[Edit]:
        clause, draft = self.clause, self.draft
        filling = Filling(self.block, self.items, list(grouping))
        time = next((number for number, item in enumerate(self.items) if self._shows_time(item)), None)
        filling.bucket = filling.column(time) if time is not None else filling.extra(own)
        valued = [item for item in self.items if aggregates(draft, item.start, item.end)]
        if len(clause.fills) not in (1, len(valued)):
            draft.fail(f"FILL takes one value, or one for each of the {len(valued)} aggregates", clause.fill_at)
        fills = clause.fills * len(valued) if len(clause.fills) == 1 else clause.fills
        for number, item in enumerate(self.items):
            column = filling.column(number)
            if self._is_derived(item):
                draft.fail("with FILL an item does not name another: compute it in a query around", item.start)
            if item in valued:
                part = passed_on(draft, item.start, item.end)
                if part is not None and fills[valued.index(item)] == "LINEAR":
                    self.source.no_text(draft, part, "FILL(LINEAR)")
                fill = fills[valued.index(item)]
                later = fill == "NULL" and is_over_aggregates(draft, item.start, item.end)
                text = filling.over_aggregates(item) if later else _value(filling, column, fill)
            elif is_constant(draft, item.start, item.end):
                text = (draft.span(item.start, item.end),)
            elif times := self._times(item.start, item.end, (filling.bucket,)):
                text = draft.replaced(*draft.span(item.start, item.end), times)
                filling.edits += self._times(item.start, item.end, own)
            else:
                text = (column,)
                filling.keys.append(column)
            filling.outputs.append((text, shown_name(draft, item)))
        low = clause.low or (f"(SELECT min({filling.bucket}) FROM {ROWS})",)
        high = clause.high or (f"(SELECT max({filling.bucket}) FROM {ROWS})",)
        spine = Spine(clause.bucket, low, high, clause.high is None)
        return filling.written(spine, filling.ordering(self._order((filling.bucket,))), sort=sort)

    def _order(self, text: Parts) -> list[Edit]:
        """The edits of an ORDER BY whose time is the name of no item."""
        order, name = self.block.clauses.get("ORDER"), self.source.time_name.lower()
        hidden = not any(shown_name(self.draft, item).lower() == name for item in self.items)
        return self._times(*order[1:], text) if order is not None and hidden else []

    def _is_key(self, item: Item) -> bool:
        """Whether an item is a key beside the bucket."""
        draft = self.draft
        if draft.tokens[item.end - 1].is_symbol("*") and not aggregates(draft, item.start, item.end):
            draft.fail("SAMPLE BY needs its columns by name", item.end - 1)
        if self._shows_time(item) or is_constant(draft, item.start, item.end) or self._is_derived(item):
            return False
        return not aggregates(draft, item.start, item.end)

    def _is_derived(self, item: Item) -> bool:
        """Whether an item names another by its alias, and is what that makes it."""
        table, tokens = self.source.table, self.draft.tokens
        columns = {self.source.time_name.lower()} if table is None else {column.name.lower() for column in table.schema}
        others = {other.alias.lower() for other in self.items if other.alias is not None and other is not item} - columns
        named = [at for at in range(item.start, item.end) if tokens[at].is_name and tokens[at].text.lower() in others]
        return any(not tokens[at - 1].is_symbol(".") and not tokens[min(at + 1, item.end - 1)].is_symbol("(") for at in named)

    def _shows_time(self, item: Item) -> bool:
        return self._is_time(item.start, item.end)

    def _is_time(self, start: int, end: int) -> bool:
        before = self.draft.tokens[start - 1]
        if before.is_symbol("::") or before.upper in ("AS", "WITH", "WITHOUT"):  # the type TIME
            return False
        tokens = self.draft.tokens[start:end]
        qualified = len(tokens) == 3 and tokens[1].is_symbol(".") and tokens[0].text.lower() == self.source.alias.lower()
        named = qualified or len(tokens) == 1
        return named and tokens[-1].is_name and tokens[-1].text.lower() == self.source.time_name.lower()

    def _times(self, start: int, end: int, text: Parts) -> list[Edit]:
        """The edits that put the bucket in place of the time column in a range of tokens that aggregates nothing."""
        tokens, edits = self.draft.tokens, list[Edit]()
        inside = aggregates(self.draft, start, end)
        at = start
        while at < end:
            length = 3 if at + 3 <= end and tokens[at + 1].is_symbol(".") else 1
            after = at + length
            called = after < len(tokens) and (tokens[after].is_symbol("(") or tokens[after].is_symbol("."))
            if self._is_time(at, after) and not called and not any(at in call for call in inside):
                edits.append(Edit(*self.draft.span(at, after), text))
            at += length
        return edits

    def _shown(self, item: Item, own: Parts) -> list[Edit]:
        """An item of the list with the bucket in place of the time, under the name that it has."""
        edits = self._times(item.start, item.end, own)
        if not edits or item.alias is not None:
            return edits
        end = self.draft.tokens[item.end - 1].end
        return [*edits, Edit(end, end, (f" AS {quoted_name(shown_name(self.draft, item))}",))]

    def _range(self) -> list[Edit]:
        """FROM and TO as conditions of WHERE."""
        clause, draft, time = self.clause, self.draft, self.source.time
        said = [(" >= ", clause.low), (" < ", clause.high)]
        conditions = joined(((time, operator, *text) for operator, text in said if text is not None), " AND ")
        where = self.block.clauses.get("WHERE")
        if not conditions:
            return []
        if where is None:
            end = draft.tokens[self.block.clauses["FROM"].end - 1].end
            return [Edit(end, end, (" WHERE ", *conditions))]
        start, end = draft.span(where.start, where.end)
        return [Edit(start, start, ("(",)), Edit(end, end, (") AND ", *conditions))]


def _value(filling: Filling, column: str, fill: str | tuple[int, int]) -> Parts:
    match fill:
        case "PREV":
            return filling.carried(column)
        case "LINEAR":
            return filling.interpolated(column)
        case "NULL" | "NONE":
            return (column,)
    return filling.otherwise(column, fill)


def _read(block: Block, source: Source) -> _Clause:
    """What stands after SAMPLE BY."""
    draft, (_, start, end) = block.draft, block.clauses["SAMPLE"]
    cursor = Cursor(draft.text, list(draft.tokens[:end]))
    cursor.at = start
    if start >= end:
        draft.expected("a width such as 10s, 5m, 1h, 1d or 1M", start)
    made = _Clause(Bucket(_width(draft, cursor)))
    if cursor.word() == "FROM":
        made.low = _moment(draft, cursor)
    if cursor.word() == "TO":
        made.high = _moment(draft, cursor)
    if cursor.word() == "FILL":
        made.fill_at = cursor.at
        made.fills = _fills(draft, cursor)
    if cursor.word() == "ALIGN":
        made.bucket = _aligned(draft, cursor, made.bucket)
    if not cursor.done:
        draft.expected("FROM, TO, FILL, ALIGN TO or the end of SAMPLE BY", cursor.at)
    return made


def _width(draft: Draft, cursor: Cursor) -> Parts:
    at = cursor.at
    if draft.tokens[at].kind == STRING:
        cursor.at += 1
        return interval(draft, at, at + 1)
    if cursor.word() == "INTERVAL":
        cursor.at += 1
        if cursor.done:
            draft.expected("a width such as INTERVAL '1 hour'", cursor.at)
        opened = cursor.symbol() == "("
        cursor.at = min(closing(cursor.tokens, cursor.at) + 1 if opened else cursor.at + 1, len(cursor.tokens))
        cursor.at += cursor.word() in UNIT_WORDS
        return (draft.span(at, cursor.at),)
    text = short_interval(draft, at)
    cursor.at += 2
    return (text,)


def _moment(draft: Draft, cursor: Cursor) -> Parts:
    """The expression after FROM or TO."""
    cursor.at += 1
    start, depth = cursor.at, 0
    while not cursor.done and (depth or cursor.word() not in ("TO", "FILL", "ALIGN")):
        depth += (cursor.symbol() == "(") - (cursor.symbol() == ")")
        cursor.at += 1
    if cursor.at == start:
        draft.expected("a time", start)
    literal = cursor.at - start == 1 and draft.tokens[start].kind == STRING
    return ("TIMESTAMP ", draft.span(start, cursor.at)) if literal else (draft.span(start, cursor.at),)


def _fills(draft: Draft, cursor: Cursor) -> list[str | tuple[int, int]]:
    cursor.at += 1
    if cursor.symbol() != "(":
        draft.expected("'(' after FILL", cursor.at)
    close = closing(draft.tokens, cursor.at)
    fills: list[str | tuple[int, int]] = []
    for start, end in split(draft.tokens, (cursor.at + 1, close)):
        word = draft.tokens[start].upper if end - start == 1 else ""
        if word in _METHODS:
            fills.append(_METHODS[word])
        elif start < end and is_constant(draft, start, end):
            fills.append(draft.span(start, end))
        else:
            draft.expected("PREV, LINEAR, NULL, NONE or a constant", start)
    if not fills:
        draft.expected("PREV, LINEAR, NULL, NONE or a constant", close)
    cursor.at = close + 1
    return fills


def _aligned(draft: Draft, cursor: Cursor, bucket: Bucket) -> Bucket:
    """ALIGN TO CALENDAR [TIME ZONE z] [WITH OFFSET o]."""
    at = cursor.at
    if cursor.accept("ALIGN", "TO", "FIRST", "OBSERVATION"):
        draft.fail(NOT_FIRST, at)
    if not cursor.accept("ALIGN", "TO", "CALENDAR"):
        draft.fail("expected ALIGN TO CALENDAR", at)
    zone: Part | None = None
    offset: Parts = ()
    if cursor.accept("TIME", "ZONE"):
        zone = _operand(draft, cursor, "a time zone such as 'Europe/Berlin'")
    if cursor.accept("WITH", "OFFSET"):
        offset = ("CAST(", _operand(draft, cursor, "an offset such as '00:15'"), " AS INTERVAL)")
    return Bucket(bucket.width, zone, offset)


def _operand(draft: Draft, cursor: Cursor, wanted: str) -> tuple[int, int]:
    if cursor.done or draft.tokens[cursor.at].kind not in (STRING, PARAMETER):
        draft.expected(wanted, cursor.at)
    cursor.at += 1
    return draft.span(cursor.at - 1, cursor.at)
