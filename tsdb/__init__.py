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
    from tsdb.database import Database
    from tsdb.database import open_database as open
    from tsdb.ingest.ingest import IngestReport
    from tsdb.result import Result
    from tsdb.storage.store import WriteReport

__all__ = [
    "Closed",
    "Corruption",
    "Database",
    "Error",
    "IngestReport",
    "InvalidInput",
    "Locked",
    "NotFound",
    "ReadOnly",
    "Result",
    "UnsupportedFormat",
    "WriteReport",
    "__version__",
    "open",
]

_LAZY = {
    "Database": ("tsdb.database", "Database"),
    "IngestReport": ("tsdb.ingest.ingest", "IngestReport"),
    "Result": ("tsdb.result", "Result"),
    "WriteReport": ("tsdb.storage.store", "WriteReport"),
    "open": ("tsdb.database", "open_database"),
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'tsdb' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LAZY[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
