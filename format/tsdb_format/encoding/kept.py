"""What page sets keep between reads, over all files of the process: beyond a budget the oldest is let go.

A scan of everything would otherwise leave every dictionary of every file in memory for as long as the files are open.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Protocol


class Owner(Protocol):
    """Who keeps things, each in a numbered slot of its own."""

    def let_go(self, slot: int) -> None:
        """Forget what is in a slot."""


class Kept:
    """Sizes by owner and slot, in the order in which they were noted. Owners are not kept alive by it."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._slots: OrderedDict[tuple[int, int], tuple[weakref.ref[Owner], int]] = OrderedDict()
        self._lock = threading.RLock()  # an owner may die, and say so, while a thread is in here

    def note(self, owner: Owner, slot: int, size: int, bytes_max: int | None = None) -> None:
        """Count what ``owner`` has just put into a slot, in place of what was there; ``bytes_max`` is the budget from now on."""
        key = id(owner), slot
        with self._lock:
            self.bytes_max = self.bytes_max if bytes_max is None else bytes_max
            self._forget(key)
            self._slots[key] = weakref.ref(owner, lambda _: self._forget(key)), size
            self.bytes += size
            while self.bytes > self.bytes_max:
                (_, oldest), (reference, size) = self._slots.popitem(last=False)
                self.bytes -= size
                found = reference()
                if found is not None:
                    found.let_go(oldest)

    def _forget(self, key: tuple[int, int]) -> None:
        with self._lock:
            held = self._slots.pop(key, None)
            if held is not None:
                self.bytes -= held[1]


#: Enough for what dashboards ask for again and again, little beside what a scan needs anyway.
KEPT = Kept(64 << 20)
