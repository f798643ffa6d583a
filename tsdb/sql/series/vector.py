"""Distances of vectors: a list or parameter beside a VECTOR column takes the column's type, as a text beside a number does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsdb.catalog.table import Table
from tsdb.exec.distance import METRICS
from tsdb.sql.nesting import Range, closing, unwrapped
from tsdb.sql.series.block import block_at
from tsdb.sql.series.call import Call, calls
from tsdb.sql.series.draft import Draft, Edit
from tsdb.sql.token import PARAMETER, STRING
from tsdb_format.types import Kind

WORDS = frozenset(name.upper() for name in METRICS)


def expand(draft: Draft, tables: Mapping[str, Table]) -> Sequence[Edit]:
    """A cast around each such argument."""
    found = [(call, edits) for call in calls(draft, WORDS) if (edits := _edits(call, tables))]
    made: dict[tuple[int, int], Edit] = {}
    for call, edits in found:
        block = block_at(draft, call.at)
        for edit in (*edits, *(block.keep_name(call.at) if block is not None else ())):
            made[edit.start, edit.end] = edit
    return list(made.values())


def _edits(call: Call, tables: Mapping[str, Table]) -> list[Edit]:
    if len(call.arguments) != 2 or call.named:
        return []
    widths = [_width(call.draft, argument, tables) for argument in call.arguments]
    made = []
    for argument, width in zip(call.arguments, reversed(widths), strict=True):
        if width is not None and _takes_type(call.draft, argument):
            start, end = call.text(argument)
            made += [Edit(start, start, ("CAST(",)), Edit(end, end, (f" AS FLOAT[{width}])",))]
    return made


def _width(draft: Draft, argument: Range, tables: Mapping[str, Table]) -> int | None:
    """How many components the column has that an argument names, if there is one such VECTOR in the statement's tables."""
    tokens = draft.tokens
    start, end = unwrapped(tokens, argument)
    names, dots = tokens[start:end:2], tokens[start + 1 : end : 2]
    if not names or not all(token.is_name for token in names) or not all(token.is_symbol(".") for token in dots):
        return None
    named = _tables_named(draft, names[-2].text.lower() if len(names) > 1 else None) & tables.keys()
    columns = (column for name in named for column in tables[name].schema)
    widths = {each.type.width for each in columns if each.type.kind is Kind.VECTOR and each.name.lower() == names[-1].text.lower()}
    return widths.pop() if len(widths) == 1 else None


def _tables_named(draft: Draft, qualifier: str | None) -> set[str]:
    """Lower-case names that may be of the tables that go by a qualifier, or of any where there is none."""
    tokens = draft.tokens
    found = set()
    for at, token in enumerate(tokens):
        alias = at + 1 + (at + 1 < len(tokens) and tokens[at + 1].upper == "AS")
        called = tokens[alias].text.lower() if alias < len(tokens) and tokens[alias].is_name else ""
        if token.is_name and qualifier in (None, token.text.lower(), called):
            found.add(token.text.lower())
    return found


def _takes_type(draft: Draft, argument: Range) -> bool:
    """Whether an argument is a parameter, a list in brackets or a text, and has no type of its own."""
    tokens = draft.tokens
    start, end = unwrapped(tokens, argument)
    if end - start == 1:
        return tokens[start].kind in (PARAMETER, STRING)
    return tokens[start].is_symbol("[") and closing(tokens, start) == end - 1
