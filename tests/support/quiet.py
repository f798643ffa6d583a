"""Databases that nothing happens to between two questions."""

from __future__ import annotations

import tsdb


def without_background(database: tsdb.Database) -> tsdb.Database:
    """The database without its background work: counters of the same question stay the same, since no files are merged meanwhile."""
    store = database._store
    assert store is not None
    if store._maintenance is not None:
        store._maintenance.stop()
    return database
