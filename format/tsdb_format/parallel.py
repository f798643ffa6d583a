"""Threads for kernels that release the interpreter lock: one shared pool, ordered results, bounded look-ahead.

A signal's handler may raise between any two steps of the main thread. Locks written in Python, those of ``concurrent.futures`` and
of ``threading.Condition`` among them, are left locked where that happens as they are entered, and whoever needs them next waits for
ever. Here whoever hands work over meets queues alone, each of whose steps is done or not.
"""

from __future__ import annotations

import _thread
import atexit
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Generic, TypeVar

#: Seconds after which a wait looks up: a signal that comes just before it begins does not end it, and its handler runs then.
LOOK_UP_S = 0.5

In = TypeVar("In")
Out = TypeVar("Out")


class Task(Generic[Out]):
    """A call that a thread of a pool makes. One thread waits for it."""

    def __init__(self, call: Callable[[], Out]) -> None:
        self._call: Callable[[], Out] | None = call
        self._claims = deque((None,))
        self._told: SimpleQueue[None] = SimpleQueue()
        self._result: Out | None = None
        self._error: BaseException | None = None
        #: Whether it was made, or never will be.
        self.done = False

    def run(self) -> None:
        """Make the call, unless it was cancelled."""
        call = self._call
        if call is None or not self._claim():
            return
        try:
            self._result = call()
        except BaseException as error:  # noqa: BLE001 (whoever waits hears of it, whatever it is)
            self._error = error
        del call
        self._end()

    def cancel(self) -> bool:
        """Have it not made; whether that was possible."""
        if self._claim():
            self._end()
            return True
        return False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done, or so many seconds; whether it is."""
        if not self.done:
            with suppress(Empty):
                self._told.get(timeout=timeout)
        return self.done

    def result(self) -> Out:
        """What the call returned; raises what it raised."""
        while not self.wait(LOOK_UP_S):
            pass
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        return self._result  # type: ignore[return-value]  # it was made

    def _claim(self) -> bool:
        """Whether the caller is the first to decide what becomes of it."""
        try:
            self._claims.pop()
        except IndexError:
            return False
        return True

    def _end(self) -> None:
        self._call = None
        self.done = True
        self._told.put(None)


class Threads:
    """At most so many threads, which start when first needed (0.1 ms) and wait idle after, until the process ends."""

    def __init__(self, count: int) -> None:
        self._waiting: SimpleQueue[Task[object] | None] = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._to_start = deque(range(count))
        self._count = count
        self._process = os.getpid()
        self._over = False
        atexit.register(self._end)

    def submit(self, task: Task[Out]) -> None:
        """Have a thread run a task; tasks begin in the order in which they came. As the process ends, the caller runs it."""
        if self._over:  # who else closes a database at exit, or asks it, gets a turn after the threads
            task.run()
            return
        self._waiting.put(task)  # type: ignore[arg-type]  # what it returns is nothing to the thread
        with suppress(IndexError):
            self._to_start.pop()
            _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        while (task := self._waiting.get()) is not None:
            task.run()
            del task
        self._ended.put(None)

    def _end(self) -> None:
        """Wait for what the threads are at: nothing of it may be under way when the interpreter goes."""
        if self._process != os.getpid():
            return  # a forked child has none of these threads
        self._over = True
        started = self._count - len(self._to_start)
        for _ in range(started):
            self._waiting.put(None)
        for _ in range(started):
            self._ended.get()


@cache
def _threads(count: int, process: int) -> Threads:
    """The threads of that number of a process: a forked child has its parent's pools, but none of their threads."""
    del process
    return Threads(count)


def submit(task: Task[Out], threads: int) -> None:
    """Have a task run by one of ``threads`` threads, which this process shares."""
    _threads(threads, os.getpid()).submit(task)


def ordered_map(
    function: Callable[[In], Out], items: Iterable[In], threads: int, *, ahead: int = 0, first_alone: bool = False
) -> Iterator[Out]:
    """``map`` on ``threads`` threads, at most ``ahead`` items (0: twice the threads) before the consumer needs them.

    With ``first_alone`` the first item runs in the caller before a second one is looked at: whoever needs no more pays for no
    thread. Closing the iterator early waits for what has started and drops it. ``function`` must not use this pool itself.
    """
    source = iter(items)
    if first_alone:
        for first in source:
            yield function(first)
            break
    if threads <= 1:
        yield from map(function, source)
        return
    waiting: deque[Task[Out]] = deque()
    try:
        for item in source:
            waiting.append(_begun(partial(function, item), threads))
            if len(waiting) >= (ahead or 2 * threads):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        _end(waiting)


def shared_map(function: Callable[[In], Out], items: Iterable[In], threads: int) -> Iterator[Out]:
    """``map`` for a consumer of so many threads of its own, which compute on what they got while others of them ask for more.

    Who asks makes the result: nothing passes from thread to thread. Only where the consumer is back in less than a quarter of the
    time that making one takes, so that some of it waits for that, one more is made ahead by ``threads`` threads, at most twice as
    many as these; and one less where it is away for longer. ``function`` must not use this pool itself.
    """
    source = iter(items)
    if threads <= 1:
        yield from map(function, source)
        return
    waiting: deque[Task[Out]] = deque()
    made: list[Out] = []  # no longer than it takes: its memory is used again
    ahead, shortest_s, gave = 0, float("inf"), float("-inf")
    try:
        while True:
            away_s = perf_counter() - gave
            if 4 * away_s < shortest_s:
                ahead = min(ahead + 1, 2 * threads)
            elif away_s > shortest_s:
                ahead = max(ahead - 1, 0)
            own = [] if waiting else list(islice(source, 1))
            if not (own or waiting):
                return
            for item in islice(source, max(ahead + (not own) - len(waiting), 0)):
                waiting.append(_begun(partial(function, item), threads))
            if own:
                begin = perf_counter()
                made.append(function(own.pop()))
                shortest_s = min(shortest_s, perf_counter() - begin)
            else:
                made.append(waiting.popleft().result())
            gave = perf_counter()
            yield made.pop()
    finally:
        _end(waiting)


def _begun(call: Callable[[], Out], threads: int) -> Task[Out]:
    task = Task(call)
    submit(task, threads)
    return task


def _end(waiting: Iterable[Task[Out]]) -> None:
    """Wait for what has started, and have the rest not made."""
    for task in waiting:
        task.cancel()
    for task in waiting:
        task.wait()
