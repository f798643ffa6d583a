"""Right sides that were loaded before: queries that start over the same state, columns and conditions share one read of it.

What is kept goes with the table's snapshot that it was read from, which nothing holds once there is a newer one; so a commit, a
table that was made anew, other conditions or parameters never meet it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tsdb.storage.snapshot import TableSnapshot
    from tsdb.stream.join_table import JoinTable

#: Keys up to which a join table is kept, and tables for each snapshot.
_KEYS_MAX = 1_000_000
_TABLES_MAX = 16
_KEPT: WeakKeyDictionary[TableSnapshot, dict[Hashable, JoinTable]] = WeakKeyDictionary()


def kept(table: TableSnapshot, what: Hashable) -> JoinTable | None:
    """A join table of one's own, as it was loaded from a snapshot by another query; None where there is none."""
    found = _KEPT.get(table, {}).get(what)
    return None if found is None else found.copy()


def keep(table: TableSnapshot, what: Hashable, loaded: JoinTable) -> None:
    """Keep a copy of a join table that was just loaded from a snapshot."""
    tables = _KEPT.setdefault(table, {})
    if len(loaded) <= _KEYS_MAX and len(tables) < _TABLES_MAX:
        tables[what] = loaded.copy()
