"""``time_bucket_gapfill(width, time[, zone][, start, finish])``, ``locf``, ``interpolate`` (TimescaleDB): all buckets of a range.

The range is that of WHERE, or ``start`` and ``finish``; every combination of the other keys that occurs gets every bucket in it.
``date_bin_gapfill(width, time[, origin])`` (IoTDB) is the same with an origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.sql.nesting import split
from tsdb.sql.series.aggregate import aggregates, is_over_aggregates, passed_on
from tsdb.sql.series.block import Block, Item, block_at
from tsdb.sql.series.bound import time_bounds
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.series.fill import Bucket, Filling, Parts, Spine, comparable, is_constant, shown_name
from tsdb.sql.series.source import source_of
from tsdb.sql.series.width import interval
from tsdb.sql.series.zone import is_zone
from tsdb.sql.token import NUMBER, STRING

_GAPFILLS = frozenset({"TIME_BUCKET_GAPFILL", "DATE_BIN_GAPFILL"})
_FILLS = frozenset({"LOCF", "INTERPOLATE"})
WORDS = _GAPFILLS | _FILLS
_FORMS = {
    "TIME_BUCKET_GAPFILL": "time_bucket_gapfill(width, time[, zone][, start, finish])",
    "DATE_BIN_GAPFILL": "date_bin_gapfill(width, time[, origin])",
}


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """The SELECT over all buckets."""
    found = list(calls(draft, _GAPFILLS))
    if not found:
        lost = next(calls(draft, _FILLS), None)
        if lost is not None:
            draft.fail(f"{draft.tokens[lost.at].text} fills the gaps that time_bucket_gapfill leaves: there is none", lost.at)
        return ()
    block = block_at(draft, found[-1].at)
    if block is None or "FROM" not in block.clauses:
        draft.fail(f"{draft.tokens[found[-1].at].text} stands in a SELECT over a table", found[-1].at)
    if "GROUP" not in block.clauses:
        draft.fail(f"{draft.tokens[found[-1].at].text} needs a GROUP BY", found[-1].at)
    return _Gapfill(block, [call for call in found if block.start <= call.at < block.end and _is_in(block, call)], tables).edits()


def _is_in(block: Block, call: Call) -> bool:
    found = block_at(block.draft, call.at)
    return found is not None and found.start == block.start


class _Gapfill:
    def __init__(self, block: Block, found: list[Call], tables: Mapping[str, Table]) -> None:
        self.block = block
        self.draft = block.draft
        self.calls = found
        self.call = found[0]
        self.tables = tables
        self.items = block.items()
        self.filling = Filling(block, self.items)
        self.bucket, self.spine = self._read()
        for call in found[1:]:
            if comparable(self.draft, (call.at, call.close + 1)) != comparable(self.draft, (self.call.at, self.call.close + 1)):
                self.draft.fail("every gapfill of a SELECT is over the same buckets", call.at)

    def edits(self) -> list[Edit]:
        filling, draft = self.filling, self.draft
        order = self.block.clauses.get("ORDER")
        own = self.bucket.of((self.draft.span(*self._time()),))
        exact = next((i for i, item in enumerate(self.items) if (item.start, item.end) == self._whole(item.start)), None)
        filling.bucket = filling.column(exact) if exact is not None else filling.extra(own)
        behind = [call for call in self.calls if order is not None and call.at > order.keyword]
        for number, item in enumerate(self.items):
            filling.outputs.append((self._output(number, item), shown_name(draft, item)))
        self._keys()
        mixed = {item.start for item in self.items if self._is_mixed(item)}
        inside = [(item.start, item.end) for item in self.items if item.start in mixed]
        before = [call for call in self.calls if call not in behind]
        filling.edits += [Edit(*call.span, own) for call in before if not any(start <= call.at < end for start, end in inside)]
        for item in self.items:
            if item.start in mixed:
                filling.edits.append(Edit(*draft.span(item.start, item.end), ("NULL",)))
        order_edits = filling.ordering([Edit(*call.span, (filling.bucket,)) for call in behind])
        return filling.written(self.spine, order_edits)

    # ------------------------------------------------------------------------------------------ what is asked

    def _time(self) -> tuple[int, int]:
        found = self.call.argument(1, "time")
        assert found is not None
        return found

    def _read(self) -> tuple[Bucket, Spine]:
        """The bucket and the range that the call and WHERE say."""
        call, draft, form = self.call, self.draft, _FORMS[self.call.name]
        call.require(2, 5, form)
        call.only(("timezone", "start", "finish", "origin"), form)
        if len(call.arguments) < 2:
            draft.fail(f"{draft.tokens[call.at].text} is written {form}", call.at)
        width, named = interval(draft, *call.arguments[0]), dict(call.named)
        rest = list(call.arguments[2:])
        if call.name == "DATE_BIN_GAPFILL":
            names = ["origin"]
        else:
            names = ["timezone", "start", "finish"] if rest and is_zone(draft, *rest[0]) else ["start", "finish"]
        if len(rest) > len(names):
            draft.fail(f"{draft.tokens[call.at].text} is written {form}", call.at)
        named |= dict(zip(names, rest, strict=False))
        zone = call.text(named["timezone"]) if "timezone" in named else None
        bucket = Bucket(width, zone, origin=self._moment(named, "origin") or ())
        if zone is not None and bucket.origin:
            draft.fail("buckets have a zone or an origin, not both", call.at)
        return bucket, self._spine(bucket, self._moment(named, "start"), self._moment(named, "finish"))

    def _moment(self, named: dict[str, tuple[int, int]], name: str) -> Parts | None:
        part = named.get(name)
        if part is None or (part[1] - part[0] == 1 and self.draft.tokens[part[0]].upper == "NULL"):
            return None
        literal = self.draft.tokens[part[0]].kind == STRING and part[1] - part[0] == 1
        return ("TIMESTAMP " if literal else "", self.call.text(part))

    def _spine(self, bucket: Bucket, start: Parts | None, finish: Parts | None) -> Spine:
        found = time_bounds(self.block, self._time(), self.tables)
        low, high = start or found.low, finish or found.high
        if low is None or high is None:
            time = self.draft.written(*self._time())
            lacking = f"{time} >= …" if low is None else f"{time} < …"
            self.draft.fail(
                f"{self.draft.tokens[self.call.at].text} must know its range: WHERE lacks {lacking}, a constant beside AND",
                self.call.at,
            )
        return Spine(bucket, low, high, finish is None and found.inclusive)

    # ------------------------------------------------------------------------------------------ the select list

    def _whole(self, start: int) -> tuple[int, int] | None:
        return next(((call.at, call.close + 1) for call in self.calls if call.at == start), None)

    def _is_mixed(self, item: Item) -> bool:
        """Whether an item is computed over all buckets: from filled values, or from the bucket."""
        if (item.start, item.end) == self._whole(item.start):
            return False
        bucketed = any(item.start <= call.at < item.end for call in self.calls)
        filled = next(calls(self.draft, _FILLS, item.start, item.end), None) is not None
        return bucketed or filled or is_over_aggregates(self.draft, item.start, item.end)

    def _output(self, number: int, item: Item) -> Parts:
        draft, filling = self.draft, self.filling
        if draft.tokens[item.end - 1].is_symbol("*"):
            draft.fail("a SELECT with a gapfill names its columns", item.end - 1)
        if is_constant(draft, item.start, item.end):
            return (draft.span(item.start, item.end),)
        if not self._is_mixed(item):
            return (filling.column(number),)
        edits: list[Edit] = []
        filled = list(calls(draft, _FILLS, item.start, item.end))
        for call in filled:
            if any(call.at in other for other in filled if other.at != call.at):
                draft.fail(f"{draft.tokens[call.at].text} stands in no other", call.at)
            edits.append(Edit(*call.span, ("(", *self._fill(call), ")")))
        edits += [Edit(*call.span, (filling.bucket,)) for call in self.calls if item.start <= call.at < item.end]
        found = aggregates(draft, item.start, item.end)
        outer = [call for call in found if not any(call.at in other for other in (*filled, *found) if other.at != call.at)]
        edits += [Edit(*call.span, (filling.extra((call.span,)),)) for call in outer]
        return draft.replaced(*draft.span(item.start, item.end), edits)

    def _fill(self, call: Call) -> Parts:
        """The value of ``locf`` or ``interpolate``, whose argument becomes a column of its own."""
        draft, name = self.draft, self.draft.tokens[call.at].text
        if call.name == "INTERPOLATE":
            call.require(1, 1, f"{name}(value)")
            call.only((), f"{name}(value)")
            source, part = source_of(self.block, self.tables), passed_on(draft, *call.arguments[0])
            if source is not None and part is not None:
                source.no_text(draft, part, name)
            return self.filling.interpolated(self.filling.extra((call.text(call.arguments[0]),)))
        form = f"{name}(value[, treat_null_as_missing => true])"
        call.require(1, 2, form)
        call.only(("treat_null_as_missing",), form)
        if len(call.arguments) != 1:
            draft.fail(f"{name} is written {form}", call.at)
        flag = call.named.get("treat_null_as_missing")
        over_nulls = flag is not None and draft.tokens[flag[0]].upper == "TRUE"
        return self.filling.carried(self.filling.extra((call.text(call.arguments[0]),)), over_nulls=over_nulls)

    # ------------------------------------------------------------------------------------------ keys

    def _keys(self) -> None:
        """The columns of the keys beside the bucket: items that aggregate nothing, and what GROUP BY names beyond them."""
        draft, filling = self.draft, self.filling
        for number, item in enumerate(self.items):
            whole = (item.start, item.end) == self._whole(item.start)
            constant = is_constant(draft, item.start, item.end)
            if not whole and not constant and not self._is_mixed(item) and not aggregates(draft, item.start, item.end):
                filling.keys.append(filling.column(number))
        clause = self.block.clauses["GROUP"]
        if draft.tokens[clause.start].upper == "ALL":
            return
        aliases = {item.alias.lower() for item in self.items if item.alias is not None}
        texts = [comparable(draft, (item.start, item.end)) for item in self.items]
        for start, end in split(draft.tokens, (clause.start, clause.end)):
            token, single = draft.tokens[start], end - start == 1
            listed = single and (token.kind == NUMBER or token.text.lower() in aliases)
            bucketed = any(start <= call.at < end for call in self.calls)
            if not listed and not bucketed and comparable(draft, (start, end)) not in texts:
                filling.keys.append(filling.extra((draft.span(start, end),)))
