"""Which conjuncts of a SELECT's WHERE may be applied by the scan of one of its tables, before any join.

The WHERE stays in DuckDB's text, so a pushed predicate only has to be implied: it may remove no row that could reach the result.
That holds for a table whose rows the joins pass on unchanged — not for the side that an outer join fills with NULLs, nor for the
right side of an ASOF join, whose best match would change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from tsdb.catalog.table import Table
from tsdb.plan.predicate import Predicate
from tsdb.sql.condition import ConditionBinder, Resolve, conjuncts
from tsdb.sql.environment import Environment
from tsdb.sql.literal import only
from tsdb.sql.native import TableReference
from tsdb.sql.select import plain_table, refer
from tsdb_format.schema import Column

_SELECT_PARTS = (
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "qualify", "windows",
    "with_",
)  # fmt: skip
INNER, LEFT_KEEPING, OTHER = "inner", "left-keeping", "other"


def join_effect(join: exp.Join) -> str:
    """What a join passes on unchanged: INNER both sides, LEFT_KEEPING (left, semi, anti, asof) what came before, OTHER nothing."""
    method, side, kind = (str(join.args.get(name) or "").upper() for name in ("method", "side", "kind"))
    if not only(join, "this", "method", "side", "kind", "on", "using"):
        return OTHER
    if method == "" and side == "" and kind in ("", "INNER", "CROSS"):
        return INNER
    if method in ("", "ASOF") and side in ("", "LEFT") and kind in ("", "INNER", "OUTER", "SEMI", "ANTI"):
        return LEFT_KEEPING
    return OTHER


@dataclass
class _Source:
    """One item of a FROM clause: a table of the catalog, or (reference None) something whose columns are not known here."""

    alias: str
    reference: TableReference | None
    pushable: bool


def pushed_predicates(select: exp.Select, tables: Mapping[str, Table], environment: Environment) -> dict[int, list[Predicate]]:
    """Predicates by ``id`` of the table node that may apply them."""
    where = select.args.get("where")
    if where is None or not only(select, *_SELECT_PARTS):
        return {}
    pushed: dict[int, list[Predicate]] = {}
    for reference, resolve in _pushable(select, tables):
        binder = ConditionBinder(resolve, environment)
        for part in conjuncts(where.this):
            if next(part.find_all(exp.Column), None) is None:
                continue
            predicate = binder.bind(part) or binder.implied(part)
            if predicate is not None:
                pushed.setdefault(id(reference.node), []).append(predicate)
    return pushed


def key_subqueries(select: exp.Select, tables: Mapping[str, Table]) -> Iterator[tuple[exp.Table, Column, exp.Select]]:
    """The conjuncts ``column IN (SELECT …)`` of a WHERE: the table that may leave other keys out, its column, and the subquery."""
    where = select.args.get("where")
    if where is None or not only(select, *_SELECT_PARTS):
        return
    for reference, resolve in _pushable(select, tables):
        for part in conjuncts(where.this):
            inner = part.args.get("query") if isinstance(part, exp.In) and only(part, "this", "query") else None
            inner = inner.this if isinstance(inner, exp.Subquery) and only(inner, "this") else inner
            column = resolve(part.this) if isinstance(inner, exp.Select) and isinstance(part.this, exp.Column) else None
            if column is not None and isinstance(inner, exp.Select):
                yield reference.node, column, inner


def _pushable(select: exp.Select, tables: Mapping[str, Table]) -> Iterator[tuple[TableReference, Resolve]]:
    """The tables whose rows the joins of a SELECT pass on unchanged, and what resolves columns to each."""
    sources = _sources(select, tables)
    merged = {
        name.name.lower()
        for join in select.args.get("joins") or ()
        for name in join.args.get("using") or ()
        if isinstance(name, exp.Expr)
    }
    natural = any(str(join.args.get("method") or "").upper() == "NATURAL" for join in select.args.get("joins") or ())
    for source in sources:
        if source.reference is not None and source.pushable:
            yield source.reference, _Resolver(source, sources, merged, natural).resolve


def _sources(select: exp.Select, tables: Mapping[str, Table]) -> list[_Source]:
    from_ = select.args.get("from_")
    items = [from_.this] if from_ is not None else []
    joins = select.args.get("joins") or []
    effects = [join_effect(join) for join in joins]
    items += [join.this for join in joins]
    sources = []
    for at, item in enumerate(items):
        node = plain_table(item)
        reference = None if node is None else refer(node, tables)
        own = at == 0 or effects[at - 1] == INNER
        kept = own and OTHER not in effects and from_ is not None and only(from_, "this")
        sources.append(_Source(item.alias_or_name if isinstance(item, exp.Expr) else "", reference, kept))
    return sources


class _Resolver:
    """Resolves columns to one source; anything that might be another's is not resolved."""

    def __init__(self, source: _Source, sources: list[_Source], merged: set[str], natural: bool) -> None:
        self._source = source
        self._others = [other for other in sources if other is not source]
        self._merged = merged
        self._natural = natural

    def resolve(self, node: exp.Column) -> Column | None:
        reference = self._source.reference
        if reference is None or not isinstance(node.this, exp.Identifier) or not only(node, "this", "table"):
            return None
        name, qualifier = node.this.name.lower(), node.args.get("table")
        if qualifier is not None:
            same = [other for other in self._others if other.alias.lower() == qualifier.name.lower()]
            return reference.column(name) if qualifier.name.lower() == reference.alias.lower() and not same else None
        if name in self._merged or (self._natural and self._others):
            return None
        if any(other.reference is not None and other.reference.column(name) is not None for other in self._others):
            return None
        return reference.column(name)
