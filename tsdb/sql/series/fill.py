"""Rows for buckets that have none: the grouped SELECT, the missing buckets of each group, and values for them.

The SELECT becomes a common table with columns c1, c2 and so on. What it lacks is every bucket of the range for every combination of
the other keys, without the rows that there are (EXCEPT, to which NULLs are equal). Values come from the rows around a gap, by
window functions over each combination in the order of buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tsdb.quoting import quoted_name
from tsdb.sql.nesting import at_top, split
from tsdb.sql.series.aggregate import aggregates
from tsdb.sql.series.block import Block, Item
from tsdb.sql.series.draft import Draft, Edit, Part, joined
from tsdb.sql.series.zone import bucket as zone_bucket
from tsdb.sql.token import PARAMETER, Token

Parts = tuple[Part, ...]
_AFTER = ("ORDER", "LIMIT", "OFFSET", "FETCH")
_ORDER_ENDS = frozenset({"ASC", "DESC", "NULLS", "COLLATE"})
_CONSTANT_WORDS = frozenset({"NULL", "TRUE", "FALSE", "INTERVAL", "DATE", "TIMESTAMP"})
ROWS, PRESENT = "__series_rows", "__series_present"


@dataclass(frozen=True, slots=True)
class Bucket:
    """How a time is put into a bucket: its width, and a zone, an offset or an origin where there is one."""

    width: Parts
    zone: Part | None = None
    offset: Parts = ()
    origin: Parts = ()

    def of(self, time: Parts) -> Parts:
        """The bucket's start as text."""
        shifted: Parts = (*time, " - ", *self.offset) if self.offset else time
        if self.zone is not None:
            made = zone_bucket(self.width, shifted, self.zone)
        else:
            made = ("time_bucket(", *self.width, ", ", *shifted, *((", ", *self.origin) if self.origin else ()), ")")
        return ("(", *made, " + ", *self.offset, ")") if self.offset else made


@dataclass(frozen=True, slots=True)
class Spine:
    """The buckets of a range, from that of ``low`` to ``high``, which counts only if ``inclusive``."""

    bucket: Bucket
    low: Parts
    high: Parts
    inclusive: bool

    def text(self, name: str) -> Parts:
        """A SELECT of them. Across a change of the clock steps in local and in universal time together meet every bucket."""
        low, high = ("CAST(", *self.low, " AS TIMESTAMP)"), ("CAST(", *self.high, " AS TIMESTAMP)")
        series = "generate_series" if self.inclusive else "range"
        first, width = self.bucket.of(low), self.bucket.width
        plain: Parts = (f"SELECT unnest({series}(", *first, ", ", *high, ", ", *width, f")) AS {name}")
        if self.bucket.zone is None:
            return plain
        zone = self.bucket.zone
        local: Parts = (
            "SELECT timezone('UTC', timezone(", zone, f", unnest({series}(", *_local(first, zone), ", ", *_local(high, zone), ", ",
            *width, f")))) AS {name}",
        )  # fmt: skip
        return ("SELECT DISTINCT ", *self.bucket.of((name,)), f" AS {name} FROM (", *plain, " UNION ALL ", *local, ")")


def _local(time: Parts, zone: Part) -> Parts:
    return ("timezone(", zone, ", CAST(", *time, " AS TIMESTAMPTZ))")


@dataclass(slots=True)
class Filling:
    """A grouped SELECT that is to have all buckets.

    ``edits`` change it, ``extras`` are columns that it gets behind its own. ``outputs`` are, by item, what is shown over all
    buckets. ``bucket`` is the column of the bucket, ``keys`` those of the other keys.
    """

    block: Block
    items: list[Item]
    edits: list[Edit] = field(default_factory=list)
    extras: list[Parts] = field(default_factory=list)
    outputs: list[tuple[Parts, str]] = field(default_factory=list)
    bucket: str = ""
    keys: list[str] = field(default_factory=list)

    def column(self, number: int) -> str:
        """The column of an item, counted from 0."""
        return f"c{number + 1}"

    def extra(self, text: Parts) -> str:
        """The column of one more expression."""
        self.extras.append(text)
        return self.column(len(self.items) + len(self.extras) - 1)

    def over_aggregates(self, item: Item) -> Parts:
        """An item computed over all buckets from its aggregates, each of which becomes a column."""
        draft = self.block.draft
        found = aggregates(draft, item.start, item.end)
        outer = [call for call in found if not any(call.at in other for other in found if other.at != call.at)]
        edits = [Edit(*call.span, (self.extra((call.span,)),)) for call in outer]
        return draft.replaced(*draft.span(item.start, item.end), edits)

    def carried(self, column: str, *, over_nulls: bool = False) -> Parts:
        """The value where there is a row, else that of the last row before; of the last that is not NULL with ``over_nulls``."""
        if over_nulls:
            return (f"last_value({column} IGNORE NULLS) OVER __series_before",)
        boxed = f"CASE WHEN {PRESENT} THEN {{'v': {column}}} END"
        return (f"CASE WHEN {PRESENT} THEN {column} ELSE (last_value({boxed} IGNORE NULLS) OVER __series_before).v END",)

    def otherwise(self, column: str, constant: Part) -> Parts:
        """The value where there is a row, else a constant."""
        return (f"CASE WHEN {PRESENT} THEN {column} ELSE ", constant, " END")

    def interpolated(self, column: str) -> Parts:
        """The value where there is a row, else on the line between those of the rows before and after."""
        point = f"CASE WHEN {PRESENT} THEN {{'t': epoch_us({self.bucket}), 'v': {column}}} END IGNORE NULLS"
        before, after = f"(last_value({point}) OVER __series_before)", f"(first_value({point}) OVER __series_after)"
        part = f"(epoch_us({self.bucket}) - {before}.t) / ({after}.t - {before}.t)"
        return (
            f"CASE WHEN {PRESENT} THEN {column} ELSE {before}.v + (CAST({after}.v AS DOUBLE) - {before}.v) * {part} END",
        )  # fmt: skip

    def ordering(self, inside: Sequence[Edit]) -> list[Edit]:
        """The edits of ORDER BY over all buckets: what is an item's expression is that item, another aggregate a column.

        ``inside`` are those of the bucket in it.
        """
        order, draft = self.block.clauses.get("ORDER"), self.block.draft
        if order is None:
            return []
        names = {name.lower() for _, name in self.outputs}
        items = {comparable(draft, (item.start, item.end)): number for number, item in reversed([*enumerate(self.items, 1)])}
        edits: list[Edit] = []
        for start, end in split(draft.tokens, (order.start, order.end)):
            stop = next((at for at in at_top(draft.tokens, start, end) if draft.tokens[at].upper in _ORDER_ENDS), end)
            if stop <= start or (stop - start == 1 and draft.tokens[start].text.lower() in names):
                continue
            low, high = draft.span(start, stop)
            number = items.get(comparable(draft, (start, stop)))
            if number is not None and not is_constant(draft, start, stop):
                edits.append(Edit(low, high, (str(number),)))
                continue
            edits += [edit for edit in inside if low <= edit.start < high]
            found = aggregates(draft, start, stop)
            for call in found:
                if any(call.at in other for other in found if other.at != call.at):
                    continue
                number = items.get(comparable(draft, (call.at, call.close + 1)))
                text = self.outputs[number - 1][0] if number is not None else (self.extra((call.span,)),)
                edits.append(Edit(*call.span, ("(", *text, ")")))
        return edits

    def written(self, spine: Spine, order: Sequence[Edit] = (), *, sort: bool = False) -> list[Edit]:
        """The edits that put the SELECT over all buckets in its place; ``order`` are those behind it."""
        draft, block = self.block.draft, self.block
        behind = [block.clauses[name].keyword for name in _AFTER if name in block.clauses]
        start, end = draft.span(block.start, min(behind, default=block.end))
        listed = draft.tokens[self.items[-1].stop - 1].end
        appended = [Edit(listed, listed, tuple(part for text in self.extras for part in (", ", *text)))] if self.extras else []
        inner = draft.replaced(start, end, [*self.edits, *appended])
        columns = [self.column(number) for number in range(len(self.items) + len(self.extras))]
        shown = joined((*text, f" AS {quoted_name(name)}") for text, name in self.outputs)
        partition = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
        over = f"{partition}ORDER BY {self.bucket} ROWS BETWEEN"
        before, after = f"({over} UNBOUNDED PRECEDING AND CURRENT ROW)", f"({over} CURRENT ROW AND UNBOUNDED FOLLOWING)"
        parts: Parts = (
            "SELECT ", *shown, f" FROM (WITH {ROWS}({', '.join(columns)}) AS MATERIALIZED (", *inner,
            f") SELECT *, TRUE AS {PRESENT} FROM {ROWS} UNION ALL BY NAME (", *self._missing(spine), ")) AS __series_filled",
            f" WINDOW __series_before AS {before}, __series_after AS {after}",
            f" ORDER BY {', '.join([self.bucket, *self.keys])}" if sort else "",
        )  # fmt: skip
        return [Edit(start, end, parts), *order]

    def _missing(self, spine: Spine) -> Parts:
        keys = ", ".join(self.keys)
        buckets: Parts = ("(", *spine.text(self.bucket), ") AS __series_buckets")
        if not keys:
            return (f"SELECT {self.bucket} FROM ", *buckets, f" EXCEPT SELECT {self.bucket} FROM {ROWS}")
        groups = f"(SELECT DISTINCT {keys} FROM {ROWS}) AS __series_groups"
        listed = f"{self.bucket}, {keys}"
        return (f"SELECT {listed} FROM {groups} CROSS JOIN ", *buckets, f" EXCEPT SELECT {listed} FROM {ROWS}")


def comparable(draft: Draft, part: tuple[int, int]) -> tuple[str, ...]:
    """The tokens of a range in a form that compares: words in one case, no qualifier."""
    tokens = draft.tokens[slice(*part)]
    if len(tokens) == 3 and tokens[1].is_symbol("."):
        tokens = tokens[2:]
    return tuple(token.text.lower() if token.is_name else f"{token.kind}:{token.text}" for token in tokens)


def is_constant(draft: Draft, start: int, end: int) -> bool:
    """Whether the tokens [start, end) name nothing."""
    return all(_says_nothing(token) for token in draft.tokens[start:end])


def _says_nothing(token: Token) -> bool:
    return not token.is_name or token.upper in _CONSTANT_WORDS or token.kind == PARAMETER


def shown_name(draft: Draft, item: Item) -> str:
    """The name of an item: its alias, that of a column, or the text; a count of rows has a name of its own in DuckDB."""
    if item.alias is not None:
        return item.alias
    if draft.written(item.start, item.end).replace(" ", "").lower() in ("count(*)", "count()"):
        return "count_star()"
    tokens = draft.tokens[item.start : item.end]
    plain = len(tokens) == 1 or (len(tokens) == 3 and tokens[1].is_symbol("."))
    return tokens[-1].text if plain and tokens[-1].is_name else draft.written(item.start, item.end)
