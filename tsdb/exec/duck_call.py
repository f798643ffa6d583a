"""Calls of DuckDB's that the main thread can be woken from.

DuckDB looks at no signals while it streams, and where it does it drops what their handlers raise for an error of its own. So the
main thread has another one run what may take a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tsdb_format.parallel import Task, submit

Out = TypeVar("Out")

#: Seconds after which a query that has not heard of an interrupt is told again.
_AGAIN_S = 0.05


def interruptible(act: Callable[[], Out], connection: Any) -> Out:
    """Run ``act``, which uses ``connection``, so that whatever a signal's handler raises stops it, and is raised."""
    if threading.current_thread() is not threading.main_thread():
        return act()
    task = Task(act)
    try:
        submit(task, 1)
        return task.result()
    except BaseException:  # not Ctrl-C alone, and nobody may use the connection meanwhile
        while not (task.cancel() or task.done):
            connection.interrupt()  # which is lost where the query is about to begin
            task.wait(_AGAIN_S)
        raise


def fetched(connection: Any, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    return interruptible(lambda: list(connection.execute(sql, list(parameters)).fetchall()), connection)
