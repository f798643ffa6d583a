"""Group commit: of the threads that wait for the same kind of work, one works at a time, and for all who came before it began."""

from __future__ import annotations

import threading
from typing import Final

#: Further than any position: who waits for it gets a turn of their own.
EVERYTHING: Final = 2**63


class _Waiter:
    __slots__ = ("position", "thread", "woken")

    def __init__(self, position: int, thread: int) -> None:
        self.position = position
        self.thread = thread
        self.woken = threading.Lock()
        self.woken.acquire()


class Group:
    """Threads that want something done up to a position each, such as making a log durable.

    A finished turn wakes those whom it served and one more, who takes the next turn; nobody is woken for nothing.
    """

    def __init__(self) -> None:
        self.reached = 0
        self._lock = threading.Lock()
        self._waiting: list[_Waiter] = []
        self._leader = 0  # the thread whose turn it is, 0 for none

    def take_turn(self, position: int) -> bool:
        """Whether it is the caller's turn, who then has to ``end_turn``, whatever happens; if not, others reached the position."""
        me = threading.get_ident()
        with self._lock:
            if self.reached >= position:
                return False
            if not self._leader:
                self._leader = me
                return True
            waiter = _Waiter(position, me)
            self._waiting.append(waiter)
        try:
            waiter.woken.acquire()
        except BaseException:  # interrupted; if it was given the turn meanwhile, the caller's end_turn passes it on
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
            raise
        return self._leader == me

    def end_turn(self, reached: int) -> None:
        """Tell how far everything is done now, and let others go on. Does nothing where it is not the caller's turn."""
        if self._leader != threading.get_ident():
            return
        with self._lock:
            if reached > self.reached:
                self.reached = reached
            if not self._waiting:
                self._leader = 0
                return
            left = []
            for waiter in self._waiting:
                if waiter.position <= self.reached:
                    waiter.woken.release()
                else:
                    left.append(waiter)
            self._leader = left[0].thread if left else 0
            self._waiting = left[1:]
            if left:
                left[0].woken.release()
