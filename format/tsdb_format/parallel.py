"""Threads for kernels that release the interpreter lock: one shared pool, ordered results, bounded look-ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

In = TypeVar("In")
Out = TypeVar("Out")


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """The pool of that size of a process: a forked child has its parent's pools, but none of their threads."""
    from concurrent.futures import ThreadPoolExecutor

    del process
    return ThreadPoolExecutor(threads, thread_name_prefix="tsdb")


def pool(threads: int) -> ThreadPoolExecutor:
    """This process's pool of that size. Its threads start when first needed (0.2 ms) and wait idle after."""
    return _pool(threads, os.getpid())


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
    waiting: deque[Future[Out]] = deque()
    try:
        for item in source:
            waiting.append(pool(threads).submit(function, item))
            if len(waiting) >= (ahead or 2 * threads):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        for future in waiting:
            if not future.cancelled():
                future.exception()
