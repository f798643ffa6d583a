"""tsdb: an embedded time-series database that answers questions about the newest rows by reading almost nothing.

    import tsdb
    with tsdb.open("metrics.db") as db:
        db.sql("SELECT * FROM cpu ORDER BY time DESC LIMIT 10").fetchall()

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from tsdb.version import __version__
from tsdb_format.errors import Closed, Corruption, Error, InvalidInput, Locked, NotFound, ReadOnly, UnsupportedFormat

if TYPE_CHECKING:
    from tsdb.blob import BlobFile, ExternalBlob
    from tsdb.database import Database
    from tsdb.database import open_database as open
    from tsdb.dbapi import apilevel, connect, paramstyle, threadsafety
    from tsdb.ingest.ingest import IngestReport
    from tsdb.result import Result
    from tsdb.resultset.multi_result import MultiResult
    from tsdb.storage.report import WriteReport
    from tsdb.stream.live import LiveQuery

__all__ = [
    "BlobFile",
    "Closed",
    "Corruption",
    "Database",
    "Error",
    "ExternalBlob",
    "IngestReport",
    "InvalidInput",
    "LiveQuery",
    "Locked",
    "MultiResult",
    "NotFound",
    "ReadOnly",
    "Result",
    "UnsupportedFormat",
    "WriteReport",
    "__version__",
    "apilevel",
    "connect",
    "open",
    "paramstyle",
    "threadsafety",
]

_LAZY = {
    "BlobFile": ("tsdb.blob", "BlobFile"),
    "Database": ("tsdb.database", "Database"),
    "ExternalBlob": ("tsdb.blob", "ExternalBlob"),
    "IngestReport": ("tsdb.ingest.ingest", "IngestReport"),
    "LiveQuery": ("tsdb.stream.live", "LiveQuery"),
    "MultiResult": ("tsdb.resultset.multi_result", "MultiResult"),
    "Result": ("tsdb.result", "Result"),
    "WriteReport": ("tsdb.storage.report", "WriteReport"),
    "apilevel": ("tsdb.dbapi", "apilevel"),
    "connect": ("tsdb.dbapi", "connect"),
    "open": ("tsdb.database", "open_database"),
    "paramstyle": ("tsdb.dbapi", "paramstyle"),
    "threadsafety": ("tsdb.dbapi", "threadsafety"),
}


#: What PEP 249 has in a module beside these.
_DBAPI = frozenset({
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "DataError", "DatabaseError", "Date", "DateFromTicks",
    "IntegrityError", "InterfaceError", "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError", "Time",
    "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning",
})  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _LAZY and name not in _DBAPI:
        raise AttributeError(f"module 'tsdb' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LAZY.get(name, ("tsdb.dbapi", name))
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
