"""Connections of PEP 249: a database handle, shared by the connections of a process to the same directory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsdb.database import Database, open_database
from tsdb.dbapi import error
from tsdb.dbapi.cursor import Cursor
from tsdb_format.errors import Error

if TYPE_CHECKING:
    from tsdb.result import Result
    from tsdb.sql.environment import Parameters


class _Shared:
    """One open database, under which key it is known, and how many connections use it."""

    def __init__(self, database: Database, key: tuple[str, str]) -> None:
        self.database = database
        self.key = key
        self.users = 0


_OPEN: dict[tuple[str, str], _Shared] = {}
_LOCK = threading.Lock()


class Connection:
    """A connection. Every statement is a commit of its own, so ``commit`` and ``rollback`` have nothing to do.

    Threads may share it; each should have cursors of its own. Its settings hold for its statements.
    """

    Warning = error.Warning
    Error = Error
    InterfaceError = error.InterfaceError
    DatabaseError = error.DatabaseError
    DataError = error.DataError
    OperationalError = error.OperationalError
    IntegrityError = error.IntegrityError
    InternalError = error.InternalError
    ProgrammingError = error.ProgrammingError
    NotSupportedError = error.NotSupportedError

    def __init__(self, database: Database, settings: Mapping[str, object], shared: _Shared | None) -> None:
        self._database: Database | None = database
        self._settings = dict(settings)
        self._shared = shared

    @property
    def database(self) -> Database:
        """The database behind it, for what PEP 249 does not know: writing frames, ingest, backup."""
        if self._database is None:
            raise error.InterfaceError("the connection was closed")
        return self._database

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.database  # noqa: B018
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """A new cursor that has run a statement."""
        return self.cursor().execute(operation, parameters)

    def executemany(self, operation: str, parameters: Any) -> Cursor:
        """A new cursor that has run a statement once for every set of parameters."""
        return self.cursor().executemany(operation, parameters)

    def run(self, operation: str, parameters: Parameters) -> Result:
        """Run a statement; the errors are those of PEP 249."""
        with error.translated():
            return self.database.sql(operation, parameters, settings=self._settings or None)

    def commit(self) -> None:
        """Nothing is pending: what a statement wrote was committed when it returned."""
        self.database  # noqa: B018

    def rollback(self) -> None:
        """Nothing is pending that could be taken back."""
        self.database  # noqa: B018

    def close(self) -> None:
        """Let go of the database, which closes with its last connection. What was fetched stays."""
        database, self._database = self._database, None
        if database is not None and self._shared is not None:
            _release(self._shared)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Connection({'closed' if self._database is None else self._database.path!r})"


def connect(database: str | Path | Database, mode: str = "rw", **settings: object) -> Connection:
    """A connection to the database directory at a path, or to one that is open.

    ``mode`` and ``settings`` are those of ``tsdb.open``. Raises the exceptions of PEP 249.
    """
    if isinstance(database, Database):
        return Connection(database, settings, None)
    key = (str(Path(database).resolve()), mode)
    with error.translated(), _LOCK:
        shared = _OPEN.get(key)
        if shared is None or shared.database.closed:
            shared = _OPEN[key] = _Shared(open_database(database, mode, **settings), key)
        shared.users += 1
        return Connection(shared.database, settings, shared)


def _release(shared: _Shared) -> None:
    with _LOCK:
        shared.users -= 1
        if shared.users == 0:
            if _OPEN.get(shared.key) is shared:  # else it was closed, and opened anew
                del _OPEN[shared.key]
            shared.database.close()
