"""tsdb: an embedded time-series database that answers questions about the newest rows by reading almost nothing.

import tsdb
with tsdb.open("metrics.db") as db:
    db.sql("SELECT * FROM cpu ORDER BY time DESC LIMIT 10").fetchall()
"""

from tsdb.database import Database
from tsdb.database import open_database as open
from tsdb.result import Result
from tsdb.version import __version__
from tsdb_format.errors import Closed, Corruption, Error, InvalidInput, Locked, NotFound, ReadOnly, UnsupportedFormat

__all__ = [
    "Closed",
    "Corruption",
    "Database",
    "Error",
    "InvalidInput",
    "Locked",
    "NotFound",
    "ReadOnly",
    "Result",
    "UnsupportedFormat",
    "__version__",
    "open",
]
