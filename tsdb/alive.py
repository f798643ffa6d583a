"""Objects as long as somebody else keeps them.

What ``weakref.WeakSet`` and ``weakref.finalize`` do when an object goes is Python code, which the collector of garbage may run
within any step of any thread: where that holds a lock, another one for it waits for ever, and what a signal's handler raises
there goes nowhere. Here nothing of Python's runs then, and no lock is taken.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Alive(Generic[Item]):
    """A set of objects, by identity, that keeps none of them alive. Threads and signal handlers may use it at any time."""

    def __init__(self) -> None:
        self._references: set[weakref.ref[Item]] = set()

    def add(self, item: Item) -> None:
        """Have an object in the set until it goes."""
        self._references.add(weakref.ref(item, self._references.discard))

    def discard(self, item: Item) -> None:
        """Have it in the set no more."""
        self._references.discard(weakref.ref(item))

    def __iter__(self) -> Iterator[Item]:
        found = (reference() for reference in self._references.copy())
        return iter([item for item in found if item is not None])

    def __len__(self) -> int:
        return len(self._references)
