"""``LATEST ON time PARTITION BY host`` (QuestDB): the newest row of each partition among those that WHERE leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.sql.series.aggregate import aggregates
from tsdb.sql.series.block import Block, block_at
from tsdb.sql.series.draft import Draft, Edit, Part
from tsdb.sql.series.source import no_source, source_of
from tsdb.sql.token import Cursor

WORDS = frozenset({"LATEST"})


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """LATEST ON and LATEST BY become QUALIFY, in a subquery where the SELECT aggregates what they leave."""
    tokens = draft.tokens
    for at in range(len(tokens) - 2, 0, -1):
        if tokens[at].upper != "LATEST" or tokens[at + 1].upper not in ("ON", "BY"):
            continue
        if _is_bare(draft, at):
            return [Edit(tokens[at - 1].start, tokens[at - 1].start, ("FROM ",))]
        block = block_at(draft, at)
        if block is None or block.clauses.get("LATEST", (-1,))[0] != at:
            continue
        if tokens[at + 1].upper == "ON" and not _is_clause(draft, at):
            continue
        return _edits(block, at, tables)
    return ()


def _is_bare(draft: Draft, at: int) -> bool:
    """Whether LATEST follows a table in parentheses without a SELECT: ``FROM (t LATEST ON time PARTITION BY host)``."""
    tokens = draft.tokens
    if at < 3 or not tokens[at - 1].is_name or not tokens[at - 2].is_symbol("("):
        return False
    before = tokens[at - 3]
    parted = any(token.upper == "PARTITION" for token in tokens[at + 2 : at + 6]) or tokens[at + 1].upper == "BY"
    return parted and (before.upper in ("FROM", "JOIN", "IN") or before.is_symbol(","))


def _is_clause(draft: Draft, at: int) -> bool:
    """Whether LATEST ON is the clause, and not the end of ``JOIN t latest ON …``."""
    tokens = draft.tokens
    named = at + 3 < len(tokens) and tokens[at + 2].is_name
    after = at + 5 if named and tokens[at + 3].is_symbol(".") else at + 3
    if after < len(tokens) and tokens[after].upper == "PARTITION":
        return True
    joined = any(token.upper == "JOIN" for token in tokens[:at])
    if not joined:
        draft.expected("PARTITION BY and the columns of which each keeps its newest row", after)
    return False


def _edits(block: Block, at: int, tables: Mapping[str, Table]) -> Sequence[Edit]:
    draft, clause = block.draft, block.clauses["LATEST"]
    tokens = draft.tokens
    block.precedes("WHERE", at)
    where = block.clauses.get("WHERE")
    if where is not None and where.start >= where.end:
        draft.fail(f"{draft.written(at, at + 2).upper()} is a clause of its own: leave WHERE before it out", where.keyword)
    if "QUALIFY" in block.clauses or ("HAVING" in block.clauses and "GROUP" not in block.clauses):
        draft.fail("QUALIFY and HAVING do not stand with LATEST: put the SELECT with LATEST in a subquery", at)
    if "GROUP" in block.clauses and block.clauses["GROUP"].keyword < at:
        draft.fail("LATEST comes before GROUP BY", at)
    if "SAMPLE" in block.clauses:
        draft.fail("LATEST and SAMPLE BY do not stand together: put one of them in a subquery", at)
    cursor = Cursor(draft.text, list(tokens))
    cursor.at = clause.start
    if tokens[at + 1].upper == "ON":
        cursor.at += 3 if tokens[clause.start + 1].is_symbol(".") else 1
        time: Part = draft.span(clause.start, cursor.at)
        cursor.at += 1
        if cursor.word() != "BY":
            draft.expected("BY", cursor.at)
        cursor.at += 1
    else:
        source = source_of(block, tables)
        if source is None:
            no_source(block, tables, "LATEST BY is for a table: which column is the time? Write LATEST ON time PARTITION BY …", at)
        time = source.time
    if cursor.at >= clause.end:
        draft.expected("the columns of which each keeps its newest row", cursor.at)
    keys = draft.span(cursor.at, clause.end)
    newest: tuple[Part, ...] = ("QUALIFY row_number() OVER (PARTITION BY ", keys, " ORDER BY ", time, " DESC) = 1")
    start, end = draft.span(at, clause.end)
    if "GROUP" not in block.clauses and not any(aggregates(draft, item.start, item.end) for item in block.items()):
        window = block.clauses.get("WINDOW")
        if window is None:
            return [Edit(start, end, newest)]
        behind = draft.tokens[window.end - 1].end
        return [Edit(start, end, ()), Edit(behind, behind, (" ", *newest))]
    source = source_of(block, tables)
    if source is None or not source.alone or not source.alias:
        draft.fail("LATEST stands with aggregates only over one table: put the SELECT with LATEST in a subquery", at)
    opening = tokens[block.clauses["FROM"].start].start
    return [Edit(opening, opening, ("(FROM ",)), Edit(start, end, (*newest, f") AS {quoted_name(source.alias)}"))]
