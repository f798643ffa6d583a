"""Databases that nothing happens to between two questions."""

from __future__ import annotations

import tsdb


def without_background(database: tsdb.Database) -> tsdb.Database:
    """The database without its background work: no files are merged between two questions, so that counters stay the same."""
    store = database._store
    assert store is not None
    if store._maintenance is not None:
        store._maintenance.stop()
    return database
