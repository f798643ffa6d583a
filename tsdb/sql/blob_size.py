"""Which blobs a statement asks for the sizes of, and nothing else: ``octet_length(b)``, ``count(b)``, ``b IS NULL``.

Scans then give blobs of these sizes without reading them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tsdb.catalog.table import Table
from tsdb.sql.token import Token
from tsdb_format.types import Kind

_ASKING = frozenset({"OCTET_LENGTH", "COUNT"})


def blob_sizes_asked(tokens: Sequence[Token], table: Table, columns: Iterable[str]) -> frozenset[str]:
    """Those of a table's columns that are blobs of which a statement without stars asks for the sizes alone."""
    blobs = (name for name in columns if name in table.schema and table.schema.column(name).type.kind is Kind.BLOB)
    return frozenset(name for name in blobs if _asked_for_size(tokens, name))


def _asked_for_size(tokens: Sequence[Token], name: str) -> bool:
    """Whether every place that may name a column of that name asks for its size, or whether it is NULL."""
    places = [at for at, token in enumerate(tokens) if token.is_name and token.text.lower() == name.lower()]
    return bool(places) and all(_asks_for_size(tokens, at) for at in places)


def _asks_for_size(tokens: Sequence[Token], at: int) -> bool:
    first = at - 2 if at >= 2 and tokens[at - 1].is_symbol(".") else at
    before, after = tokens[max(first - 2, 0) : first], tokens[at + 1 : at + 4]
    if len(after) > 1 and after[0].upper == "IS" and "NULL" in (after[1].upper, after[-1].upper if after[1].upper == "NOT" else ""):
        return True
    called = len(before) == 2 and before[0].upper in _ASKING and before[1].is_symbol("(")
    return called and bool(after) and after[0].is_symbol(")")
