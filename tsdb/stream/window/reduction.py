"""Partial aggregates of windows: a text over rows in two, one that reduces rows to groups, and one that goes on from these.

That is possible where the whole text is one SELECT over the windows, grouped by columns, and all it computes of rows is count, sum,
min, max and avg: ``avg(x)`` becomes ``sum(x)`` and ``count(x)`` of some rows, and from those of all rows it is computed at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tsdb.exec.arrow import vector_of
from tsdb.exec.batch import Batch
from tsdb.quoting import quoted_name
from tsdb.sql.nesting import closing
from tsdb.sql.series.aggregate import AGGREGATES
from tsdb.sql.series.block import block_at
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.statement import Query
from tsdb.sql.token import tokenize
from tsdb.stream.window.held import HELD
from tsdb_format.types import ColumnType, Kind

if TYPE_CHECKING:
    from tsdb.stream.stage import DuckStage

_KNOWN = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG"})
#: Types of sums that are the same whatever is added up first.
_SUMS = frozenset({Kind.HUGEINT, Kind.DOUBLE})
_NOT_ALONE = frozenset({"JOIN", "UNION", "EXCEPT", "INTERSECT", "OVER", "WITH", "ROLLUP", "CUBE", "GROUPING"})


@dataclass(frozen=True, slots=True)
class _Partial:
    """One computed column of groups: its name, how it is computed of rows, and how of groups."""

    name: str
    text: str
    function: str


@dataclass(frozen=True, slots=True)
class ReducedText:
    """``partial`` gives ``keys`` and ``computed`` columns of rows; ``final`` is the text over such rows, with the same output."""

    partial: Query
    final: Query
    keys: tuple[str, ...]
    computed: tuple[_Partial, ...]

    def combining(self, kinds: dict[str, ColumnType]) -> Query:
        """Groups of some rows to groups of all, of the same types."""
        made = [quoted_name(key) for key in self.keys]
        for each in self.computed:
            name = quoted_name(each.name)
            made.append(f"CAST({each.function}({name}) AS {kinds[each.name]}) AS {name}")
        return _query(self.partial, f"SELECT {', '.join(made)} FROM {quoted_name(HELD)} GROUP BY {_listed(self.keys)}")


def reduced_text(query: Query, columns: list[str], keys: tuple[str, ...]) -> ReducedText | None:
    """The two parts of a text whose output has these ``columns`` and whose groups these ``keys``; None where it has none."""
    draft = Draft.of(query)
    words = [token.upper for token in draft.tokens]
    if words.count("SELECT") != 1 or words.count("FROM") != 1 or not _NOT_ALONE.isdisjoint(words):
        return None
    block = block_at(draft, words.index("FROM"))
    if block is None or "SELECT" not in block.clauses or "GROUP" not in block.clauses:
        return None
    where = block.clauses.get("WHERE")
    found = [call for call in calls(draft, AGGREGATES) if where is None or not where.keyword <= call.at < where.end]
    items = block.items()
    if len(items) != len(columns) or not all(map(_is_simple, found)) or _nested(found):
        return None
    computed: list[_Partial] = []
    edits = [_final(draft, call, computed) for call in found]
    for item, column in zip(items, columns, strict=True):
        if item.alias is None:
            end = draft.tokens[item.end - 1].end
            edits.append(Edit(end, end, (f" AS {quoted_name(column)}",)))
    partial = [*map(quoted_name, keys), *(f"{each.text} AS {quoted_name(each.name)}" for each in computed)]
    source, condition = draft.written(*block.clauses["FROM"][1:]), ""
    if where is not None:
        condition = f" WHERE {draft.written(where.start, where.end)}"
        edits.append(Edit(*draft.span(where.keyword, where.end), ()))
    return ReducedText(
        _query(query, f"SELECT {', '.join(partial)} FROM {source}{condition} GROUP BY {_listed(keys)}"),
        _query(query, draft.edited(edits).text),
        keys,
        tuple(computed),
    )


def _is_simple(call: Call) -> bool:
    first = call.draft.tokens[call.at + 2]
    plain = call.name in _KNOWN and first.upper != "DISTINCT" and not call.ordered and not call.named
    return plain and len(call.arguments) <= 1


def _nested(found: list[Call]) -> bool:
    return any(other.at in call for call in found for other in found if other is not call)


def _final(draft: Draft, call: Call, computed: list[_Partial]) -> Edit:
    """What stands for a call over groups, whose parts are added to what is computed."""
    tokens, end = draft.tokens, call.close + 1
    if end + 1 < len(tokens) and tokens[end].upper == "FILTER" and tokens[end + 1].is_symbol("("):
        end = closing(tokens, end + 1) + 1
    behind = draft.written(call.close + 1, end) if end > call.close + 1 else ""
    inside = draft.text[tokens[call.at + 1].start : tokens[call.close].end]

    def part(function: str, over: str) -> str:
        name = f"__tsdb_part_{len(computed)}"
        computed.append(_Partial(name, f"{function}{inside} {behind}", over))
        return quoted_name(name)

    match call.name:
        case "COUNT":
            text = f"CAST(sum({part('count', 'sum')}) AS BIGINT)"
        case "AVG":
            text = f"(CAST(sum({part('sum', 'sum')}) AS DOUBLE) / sum({part('count', 'sum')}))"
        case "SUM":
            name = part("sum", "sum")
            text = f"CAST(sum({name}) AS __tsdb_type_{len(computed) - 1})"
        case _:
            text = f"{call.name.lower()}({part(call.name.lower(), call.name.lower())})"
    return Edit(*draft.span(call.at, end), (text,))


def with_types(reduced: ReducedText, kinds: dict[str, ColumnType]) -> ReducedText | None:
    """The final text with the types of sums, as the partial one shows them; None where a sum of sums has another."""
    text = reduced.final.text
    for number, each in enumerate(reduced.computed):
        if each.function == "sum" and not each.text.startswith("count"):
            if kinds[each.name].kind not in _SUMS:
                return None
            text = text.replace(f"__tsdb_type_{number})", f"{kinds[each.name]})")
    return replace(reduced, final=_query(reduced.final, text))


def _listed(keys: tuple[str, ...]) -> str:
    return ", ".join(map(quoted_name, keys))


def _query(query: Query, text: str) -> Query:
    tokens = tuple(tokenize(text))
    return replace(query, text=text, tokens=tokens, origins=(0,) * len(tokens))


@dataclass(frozen=True, slots=True)
class Reduction:
    """See ``Reducer``. ``columns`` are those of reduced rows; ``final`` makes the output of them."""

    partial: DuckStage
    combining: DuckStage
    final: DuckStage
    columns: dict[str, ColumnType]

    def reduce(self, rows: Batch) -> Batch:
        """See ``Reducer``."""
        return self._run(self.partial, rows)

    def combine(self, rows: Batch) -> Batch:
        """See ``Reducer``."""
        return self._run(self.combining, rows)

    def _run(self, stage: DuckStage, rows: Batch) -> Batch:
        table: Any = next(stage.run(rows), None)
        if table is None:
            return Batch({}, 0)
        vectors = {name: vector_of(table.column(name).combine_chunks(), kind) for name, kind in self.columns.items()}
        return Batch(vectors, table.num_rows)

    def close(self) -> None:
        """Give DuckDB's connections back."""
        for stage in (self.partial, self.combining, self.final):
            stage.close()
