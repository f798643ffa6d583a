"""The process's DuckDB: one instance, in memory, without access to Python's variables; every statement has a connection of its own.

Time zone is UTC, as everywhere in tsdb.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from tsdb.settings import Settings

_NUMBERS = itertools.count(1)


def instance(**config: object) -> Any:
    """A connection to a new instance in memory, in UTC, without access to Python's variables.

    What its memory does not hold goes to a folder of its own among the system's temporary files: by itself DuckDB would make one in
    the current directory.
    """
    folder = os.path.join(tempfile.gettempdir(), f"tsdb-duckdb-{os.getpid()}-{next(_NUMBERS)}")
    made = duckdb.connect(":memory:", config={"python_enable_replacements": False, "temp_directory": folder, **config})
    made.execute("SET GLOBAL TimeZone = 'UTC'")
    return made


class _Instance:
    """Made when first used, and anew in a forked child, whose copy has no threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Any = None
        self.applied: tuple[int, int] | None = None
        self.process = 0

    def cursor(self, settings: Settings | None) -> Any:
        return self.applied_to(settings).cursor()

    def applied_to(self, settings: Settings | None) -> Any:
        with self.lock:
            if self.connection is None or self.process != os.getpid():
                self.connection = instance()
                self.applied, self.process = None, os.getpid()
            changes = settings is not None and self.applied != (settings.threads, settings.memory_limit)
            if changes and settings is not None and not _CALLED.back:
                self.connection.execute(f"SET GLOBAL threads = {settings.threads}")
                self.connection.execute(f"SET GLOBAL memory_limit = '{max(settings.memory_limit, 2**26)}B'")
                self.applied = (settings.threads, settings.memory_limit)
            return self.connection


_INSTANCE = _Instance()


class _Called(threading.local):
    """What is known of a thread that DuckDB calls back in."""

    #: Whether DuckDB runs a statement in it, and waits for rows: its threads cannot be changed then.
    back = False
    known: _Known | None = None


class _Known:
    """One of the threads that Python does not forget; who ends properly leaves its place to another."""

    __slots__ = ("__weakref__",)

    def __init__(self) -> None:
        weakref.finalize(self, _PLACES.append, None).atexit = False


#: Places for threads that Python does not forget: DuckDB's end without a word to it, and what it has of each is never freed.
_PLACES = deque([None] * 256)
_CALLED = _Called()


def _stay_known() -> None:
    """Have Python go on knowing a thread of DuckDB's: else it makes memory for it, and returns that to the system, at each call."""
    with suppress(IndexError):
        _PLACES.pop()
        _CALLED.known = _Known()
        ctypes.pythonapi.PyGILState_Ensure()  # what the thread has ensured itself is then not the last


class CalledBack:
    """A block that DuckDB waits for: statements in it run under the settings of the one that waits."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        if _CALLED.known is None:
            _stay_known()
        self._before = _CALLED.back
        _CALLED.back = True

    def __exit__(self, *_: object) -> None:
        _CALLED.back = self._before


def cursor(settings: Settings | None = None) -> Any:
    """A connection for one statement; close it when done."""
    return _INSTANCE.cursor(settings)


def applied(settings: Settings) -> None:
    """Have all connections run under these settings."""
    _INSTANCE.applied_to(settings)


def catalog_cursor(definitions: Sequence[str]) -> Any:
    """A connection to an instance of its own, whose catalog ``tsdb`` has empty tables made by these statements."""
    connection = instance()
    connection.execute("ATTACH ':memory:' AS tsdb; USE tsdb; DETACH memory")
    for definition in definitions:
        connection.execute(definition)
    return connection
