"""Row sets through the predicate into the candidates of a TopK."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tsdb.exec.candidates import Candidates, Prepared
from tsdb.exec.rows import RowSet
from tsdb.exec.selection import Selection
from tsdb_format.parallel import ordered_map

if TYPE_CHECKING:
    from tsdb.exec.page_queue import PageQueue


class Intake:
    """Row sets through the predicate into the candidates, on several threads where there are several row sets.

    A step's row sets all see the threshold of its beginning, and are accepted in order: what is read does not depend on timing.
    """

    def __init__(self, selection: Selection, candidates: Candidates, threads: int) -> None:
        self._selection = selection
        self._candidates = candidates
        self._threads = threads

    def take(self, row_sets: Iterable[RowSet], queue: PageQueue | None = None) -> None:
        """Filter, read sort keys, accept; rows of a queue lose what its leading key excludes, first unless that is wide."""
        threshold = self._candidates.filter.threshold

        def prepare(rows: RowSet) -> Prepared | None:
            self._selection.stats.add_rows(rows.stored_rows)
            if rows.count == 0:
                return None
            if queue is not None and not queue.key_is_wide:
                rows = queue.qualifying(rows, threshold)
            rows = self._selection.filtered(rows)
            if queue is not None and queue.key_is_wide:
                rows = queue.qualifying(rows, threshold)
            return self._candidates.prepare(rows, threshold)

        for prepared in ordered_map(prepare, row_sets, self._threads, first_alone=True):
            self._candidates.accept(prepared)
