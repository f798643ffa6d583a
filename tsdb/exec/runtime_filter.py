"""Runtime filters: what one operator learns while it runs, consulted by the scans beneath it.

A filter is made for one producer and one execution, only ever tightens, and answers for units and rows: can they still matter?
Before it knows anything it prunes nothing; there is no sentinel value that could be mistaken for a threshold.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.order import VALUE, ClassArray
from tsdb_format.vector import IntArray


@dataclass(frozen=True, slots=True, order=True)
class Threshold:
    """A row at least as good as the k-th result, as (class, key, tie) in best-first order. ``tie`` orders rows of equal keys."""

    key_class: int
    key: int
    tie: int

    def admits(self, key_class: ClassArray | None, key: IntArray, tie: IntArray | None = None) -> NDArray[np.bool_]:
        """Rows or units, by their (best) class (None: all are values), key and tie, that may still be among the results."""
        equal: NDArray[np.bool_] = key == self.key
        admitted: NDArray[np.bool_] = (key < self.key) | (equal if tie is None else equal & (tie <= self.tie))
        if key_class is not None:
            admitted = (key_class < self.key_class) | ((key_class == self.key_class) & admitted)
        elif self.key_class != VALUE:
            admitted = np.full(len(key), self.key_class > VALUE)
        return admitted


#: The tie of a threshold that says nothing about rows of equal keys: they all may still matter.
ANY_TIE = 2**63 - 1


class TopKFilter:
    """The shared threshold of one TopK: inclusive, monotone, safe to read from any thread at any time.

    ``first_source`` tells who set it first ('statistics' or 'heap'), ``generation`` counts tightenings.
    """

    __slots__ = ("_lock", "_threshold", "enabled", "first_source", "generation")

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.generation = 0
        self.first_source: str | None = None
        self._threshold: Threshold | None = None
        self._lock = threading.Lock()

    @property
    def threshold(self) -> Threshold | None:
        """The current bound, or None before there is one. One atomic read."""
        return self._threshold

    def offer(self, threshold: Threshold, source: str) -> bool:
        """Tighten to ``threshold`` if it is better than the current one; whether it was."""
        if not self.enabled:
            return False
        with self._lock:
            if self._threshold is not None and threshold >= self._threshold:
                return False
            self._threshold = threshold
            self.generation += 1
            self.first_source = self.first_source or source
            return True
