"""Plans as text and as JSON: one node a line, its verb, then what it needs as k=v; counters below where a plan has run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tsdb.catalog.table import Table
from tsdb.plan.grouping import BucketKey, Calendar, Call, ColumnKey, ExpressionKey, GroupKey
from tsdb.plan.node import (
    Aggregate,
    Comparison,
    DuckQuery,
    Filter,
    Frame,
    Given,
    HashJoin,
    LastArrived,
    LastRow,
    Limit,
    Plan,
    Project,
    Rows,
    Sort,
    SortKey,
    TableScan,
    Take,
    TopK,
    children,
)  # fmt: skip
from tsdb.plan.predicate import And, Compare, Constant, InSet, IsNull, Like, Literal, Member, Not, Or, Predicate
from tsdb.quoting import quoted_text
from tsdb_format.schema import Schema
from tsdb_format.types import INT64, STRING, ColumnType

if TYPE_CHECKING:
    from tsdb.exec.stats import QueryStats

#: Members of an IN list that are printed; more are counted.
_MEMBERS_SHOWN = 8


Tables = Mapping[str, Table]
#: Predicates by the identity of the scan that applies them.
Pushed = Mapping[int, Sequence[Predicate]]


def lines(plan: Plan, tables: Tables, stats: QueryStats | None = None, pushed: Pushed | None = None) -> list[str]:
    """The plan, indented by depth; with ``stats``, each scan's counters that are not zero, indented below it.

    ``pushed`` is what scans apply besides their own predicates.
    """
    return list(_lines(plan, _About(tables, stats, pushed or {}), 0, ""))


def document(plan: Plan, about: _About) -> dict[str, Any]:
    """The plan as plain JSON values: operator, its details, counters, children."""
    made: dict[str, Any] = {"operator": type(plan).__name__, **about.details(plan)}
    counters = _counters(plan, about.stats)
    if counters:
        made["counters"] = counters
    inputs = _inputs(plan)
    if inputs:
        made["children"] = [{**({"input": name} if name else {}), **document(child, about)} for name, child in inputs]
    return made


def json_text(
    plan: Plan,
    tables: Tables,
    stats: QueryStats | None = None,
    more: Mapping[str, Any] | None = None,
    pushed: Pushed | None = None,
) -> str:
    """``document`` as text, with further top-level values."""
    about = _About(tables, stats, pushed or {})
    return json.dumps({**document(plan, about), **(more or {})}, indent=2, ensure_ascii=False, default=str)


class _About(NamedTuple):
    """What is known of a plan besides the plan."""

    tables: Tables
    stats: QueryStats | None
    pushed: Pushed

    def details(self, plan: Plan) -> dict[str, Any]:
        """What a node needs, and what is pushed into it."""
        more = self.pushed.get(id(plan))
        made = _details(plan, self.tables)
        if more and isinstance(plan, TableScan):
            made["pushed"] = predicate_text(And(tuple(more)), self.tables[plan.table].schema)
        return made


def _lines(plan: Plan, about: _About, depth: int, name: str) -> Iterator[str]:
    indent = "  " * depth
    details = " ".join(f"{key}={_shown(value)}" for key, value in about.details(plan).items() if key != "topk_id")
    label = f"{name}: " if name else ""
    yield f"{indent}{label}{type(plan).__name__} {details}".rstrip() + _mark(plan)
    for key, value in (_counters(plan, about.stats) or {}).items():
        yield f"{indent}    {key}={value}"
    for child_name, child in _inputs(plan):
        yield from _lines(child, about, depth + 1, child_name)


def _inputs(plan: Plan) -> list[tuple[str, Plan]]:
    if isinstance(plan, DuckQuery):
        return [*plan.inputs, *((f"keys of {keys.target}.{keys.column}", keys.child) for keys in plan.keys)]
    return [("", child) for child in children(plan)]


def _mark(plan: Plan) -> str:
    """A marked TopK, and the scan it feeds."""
    if isinstance(plan, TopK) and plan.topk_id is not None:
        return " TOPN OPT"
    if isinstance(plan, TableScan) and plan.topk_id is not None:
        return f" TOPN OPT: {plan.topk_id}"
    return ""


def _details(plan: Plan, tables: Tables) -> dict[str, Any]:
    match plan:
        case TableScan(table=table, columns=columns, predicate=predicate, topk_id=topk_id, row_id=row_id):
            made: dict[str, Any] = {"table": table, "columns": list(columns)}
            if row_id is not None:
                made["row_id"] = row_id
            if predicate is not None:
                made["predicate"] = predicate_text(predicate, tables[table].schema)
            return {**made, "topk_id": topk_id} if topk_id is not None else made
        case TopK(keys=keys, limit=limit, offset=offset, topk_id=topk_id):
            made = {"keys": [key_text(key) for key in keys], "limit": limit}
            if offset:
                made["offset"] = offset
            return {**made, "topk_id": topk_id} if topk_id is not None else made
        case Sort(keys=keys):
            return {"keys": [key_text(key) for key in keys]}
        case Filter(predicate=predicate):
            return {"predicate": predicate_text(predicate, None)}
        case Aggregate(child=scan, keys=groups, calls=calls):
            schema = tables[scan.table].schema
            by = {"by": [_group_text(key) for key in groups]} if groups else {}
            return {**by, "calls": [_call_text(call, schema) for call in calls]}
        case LastRow(keys=names, limit=limit, oldest=oldest):
            return {"by": list(names), "oldest" if oldest else "newest": limit}
        case LastArrived(keys=names):
            return {"by": list(names)}
        case HashJoin(kind=kind, keys=pairs, condition=condition, build=build, outputs=columns):
            made = {"kind": kind, "on": [f"{left} = {right}" for left, right in pairs]}
            if condition:
                made["condition"] = [_condition_text(part) for part in condition]
            return {**made, "build": build, "columns": [name for name, _, _ in columns]}
        case Take(table=table, columns=columns, key=key):
            return {"table": table, "columns": [key, *(f"{column} AS {name}" for name, column in columns)]}
        case Limit(limit=limit, offset=offset):
            return {**({} if limit is None else {"limit": limit}), **({"offset": offset} if offset else {})}
        case Project(outputs=outputs):
            return {"columns": [name if name == column else f"{column} AS {name}" for name, column in outputs]}
        case DuckQuery(sql=sql, parameters=parameters):
            made = {"sql": " ".join(sql.split())}
            return {**made, "parameters": [repr(value) for value in parameters]} if parameters else made
        case Frame(name=name, value=value):
            return {"variable": name, "type": f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"}
        case Rows(names=names, rows=rows):
            return {"columns": list(names), "rows": len(rows)}
        case Given(name=name, columns=given):
            return {"name": name, "columns": [column for column, _ in given]}


def _counters(plan: Plan, stats: QueryStats | None) -> dict[str, int | str | None] | None:
    """A scan's counters, those that are zero left out: what did not happen needs no line."""
    found = None if stats is None else stats.counters_of(plan)
    if found is None:
        return None
    return {key: value for key, value in found.items() if value not in (0, None)}


def _shown(value: Any) -> str:
    return "[" + ", ".join(str(item) for item in value) + "]" if isinstance(value, list) else str(value)


def _condition_text(part: Comparison | Predicate) -> str:
    return f"{part.left} {part.op} {part.right}" if isinstance(part, Comparison) else predicate_text(part, None)


def key_text(key: SortKey) -> str:
    """One sort key as SQL says it; NULLS LAST goes without saying."""
    return key.column + (" DESC" if key.descending else "") + (" NULLS FIRST" if key.nulls_first else "")


def _group_text(key: GroupKey) -> str:
    match key:
        case ColumnKey(column=column):
            return column
        case BucketKey(bucket=bucket):
            return f"every {bucket.months} months" if isinstance(bucket, Calendar) else f"every {bucket.width} ticks"
        case ExpressionKey(sql=sql):
            return " ".join(sql.split())


def _call_text(call: Call, schema: Schema) -> str:
    arguments = ", ".join(name for name in (call.column, call.by) if name is not None)
    condition = "" if call.condition is None else f" WHERE {predicate_text(call.condition, schema)}"
    return f"{call.function}({arguments or '*'}{condition})"


def predicate_text(predicate: Predicate, schema: Schema | None) -> str:
    """A predicate as SQL would say it."""

    def text(inner: Predicate) -> str:
        return predicate_text(inner, schema)

    match predicate:
        case Compare(column, op, literal):
            return f"{column} {op} {literal_text(literal, _kind(column, schema))}"
        case InSet(column, literals):
            shown = [literal_text(literal, _kind(column, schema)) for literal in literals[:_MEMBERS_SHOWN]]
            more = len(literals) - len(shown)
            return f"{column} IN ({', '.join(shown)}{f', … {more:,} more' if more else ''})"
        case Member(columns, members):
            listed = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
            return f"{listed} IN RESULT SET {members.name} ({members.size_text})"
        case IsNull(column):
            return f"{column} IS NULL"
        case Like(column, pattern, fold_case):
            return f"{column} {'ILIKE' if fold_case else 'LIKE'} {literal_text(pattern, STRING)}"
        case Not(IsNull(column)):
            return f"{column} IS NOT NULL"
        case Not(inner):
            return f"NOT ({text(inner)})"
        case And(parts):
            return " AND ".join(f"({text(part)})" if isinstance(part, Or) else text(part) for part in parts)
        case Or(parts):
            return " OR ".join(f"({text(part)})" if isinstance(part, And) else text(part) for part in parts)
        case Constant(value):
            return "NULL" if value is None else str(value).upper()


def _kind(column: str, schema: Schema | None) -> ColumnType:
    found = None if schema is None else schema.by_name.get(column)
    return INT64 if found is None else found.type  # the hidden sequence number, or what an operator computed


def literal_text(value: Literal, kind: ColumnType) -> str:
    """A literal of a column's physical domain, as one would write it."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return quoted_text(value)
    if isinstance(value, bytes):
        return "x'" + value.hex() + "'"
    unit = kind.numpy_unit
    if unit is None or not abs(value) < 2**62:
        return repr(value)
    moment = str(np.array(int(value), f"M8[{unit}]")).replace("T", " ")
    moment = moment.rstrip("0").rstrip(".") if "." in moment else moment
    return f"'{moment.removesuffix(' 00:00:00')}'"
