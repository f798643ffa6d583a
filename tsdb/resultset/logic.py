"""Three-valued logic over what is known of result sets: whether a query can only be empty, before it is run.

``x IN RESULT SET name`` is FALSE where the set has no member, whatever x is, NULL too; its negation is TRUE. Every other condition
is unknown. A query whose WHERE comes out FALSE has no rows, so it need not be run; a set that it declares is empty, so that more
may follow from it.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from tsdb.sql.condition import operands, result_set_of
from tsdb.sql.literal import only
from tsdb.sql.statement import Query
from tsdb.sql.tree import parse_query

#: What a SELECT may have besides its list that cannot make a row where WHERE leaves none.
_PARTS = ("expressions", "from_", "joins", "where", "order", "limit", "offset", "distinct", "with_")


def gives_no_rows(query: Query, empty: Collection[str]) -> bool:
    """Whether a query surely gives no rows, as the sets whose tables are named in ``empty`` have no members."""
    if not any(token.is_name and token.text in empty for token in query.tokens):
        return False
    tree = parse_query(query.text)
    if not isinstance(tree, exp.Select) or not only(tree, *_PARTS) or tree.args.get("where") is None:
        return False
    if any(isinstance(node, exp.Func | exp.Query) for item in tree.expressions for node in item.walk()):  # may aggregate
        return False
    return truth(tree.args["where"].this, empty) is False


def truth(condition: exp.Expr, empty: Collection[str]) -> bool | None:
    """TRUE or FALSE where a condition surely is that for every row, else None."""
    match condition:
        case exp.Paren() if only(condition, "this"):
            return truth(condition.this, empty)
        case exp.Not() if only(condition, "this"):
            inner = truth(condition.this, empty)
            return None if inner is None else not inner
        case exp.And() | exp.Or() if only(condition, "this", "expression"):
            deciding = isinstance(condition, exp.Or)
            found = [truth(part, empty) for part in operands(condition, type(condition))]
            if deciding in found:
                return deciding
            return None if None in found else not deciding
        case exp.In() if only(condition, "this", "query") and result_set_of(condition) in empty:
            return False
    return None
