"""One materialized view while it is kept up: its live query, from where its last rows say it was.

Rows and the place that they reach are one commit, so that after any crash the view goes on behind just the rows that its table has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tsdb.ingest.arrow import columns_of
from tsdb.stream.feed import Feed
from tsdb.stream.live import result_of
from tsdb.stream.position import decoded, encoded
from tsdb.stream.view.definition import query_of, view_pipeline

if TYPE_CHECKING:
    from tsdb.settings import Settings
    from tsdb.storage.manifest import ViewEntry
    from tsdb.storage.store import Store

#: Rows after which a view commits what it has made, and goes on.
COMMIT_ROWS = 65_536


class _Glance(Feed):
    """A feed that never waits: ``in_vain`` says whether there was nothing new."""

    in_vain = False

    def wait(self, after: int, timeout: float | None = None) -> int:
        """See ``Feed``."""
        found = super().wait(after, 0)
        self.in_vain = found <= after
        return found


class ViewRun:
    """A view that is kept up, by one thread at a time."""

    def __init__(self, store: Store, view: ViewEntry, settings: Settings) -> None:
        """Raises InvalidInput and NotFound where its query means nothing any more."""
        self.view = view
        self._store = store
        self._settings = settings
        self._feed = _Glance(store)
        try:
            checkpoint = store.checkpoint(view)
            position = None if checkpoint is None else decoded(checkpoint)
            self._pipeline = view_pipeline(query_of(view.text), settings, self._feed, position)
        except BaseException:
            self._feed.close()
            raise
        self._outputs = self._pipeline.outputs()

    @property
    def seconds_left(self) -> float | None:
        """The time after which there may be rows though nothing was committed; None: there will be none."""
        return self._pipeline.seconds_left

    def step(self) -> int:
        """Make and write all rows that there can be now; how many."""
        made: list[Any] = []
        rows = written = 0
        for output in self._outputs:
            if output:
                made.append(result_of(self._pipeline.stage, output, self._settings).arrow())
                rows += made[-1].num_rows
            elif self._feed.in_vain:
                break
            if rows >= COMMIT_ROWS:
                written += self._write(made)
                made, rows = [], 0
        return written + self._write(made)

    def _write(self, made: list[Any]) -> int:
        """Commit rows with the place that is reached."""
        position = self._pipeline.position
        if not made or position is None:
            return 0
        rows = pa.concat_tables(made)
        columns = columns_of(rows, self._store.target(self.view).schema)
        self._store.write_view(self.view, columns, encoded(position))
        return int(rows.num_rows)

    def close(self) -> None:
        """Let go of everything."""
        self._feed.close()
        self._outputs.close()  # type: ignore[attr-defined]  # it is a generator
        self._pipeline.close()
