"""The boundary gate of a join of live sides: what the join table holds when a left row meets it.

The right answer is one order: the right side's rows up to the bound, then the left side's up to it, then all later rows of both by
their commits, right before left. So right rows that come wait until the left history is over, left rows that come do, too, and of
both none is passed over: windows follow each other without a gap from the bound on. All of a live query runs in its
consumer's thread, as one chain of generators that wait for one another, and closing it ends whatever waits; the gate keeps account
of the order, and an order that is not kept is an error and no result.
"""

from __future__ import annotations


class BoundaryGate:
    """Where a join stands: before its bound, at it (the right side is loaded), or ``at`` a later commit."""

    def __init__(self) -> None:
        #: The commit up to which the right side is in the join table; None before it was loaded.
        self.at: int | None = None
        self._left_ended = False

    def right_loaded(self, bound: int) -> None:
        """The join table holds the right side up to ``bound``, and nothing later."""
        assert self.at is None, "the right side is loaded once"
        self.at = bound

    def left_begins(self, bound: int) -> None:
        """Left history up to ``bound`` is about to meet the table."""
        assert self.at == bound, "left history meets the right side of the same bound"
        assert not self._left_ended, "history comes once, before any later row"

    def opened(self, after: int, upto: int) -> None:
        """Rows of both sides of commits ``after`` < number ≤ ``upto`` are let through; left history is over."""
        assert self.at == after <= upto, "windows follow each other without a gap"
        self._left_ended = True
        self.at = upto
