"""The Python database API 2.0 (PEP 249): ``tsdb.connect``, and this module as libraries want a driver to be."""

from tsdb.dbapi.connection import Connection, connect
from tsdb.dbapi.cursor import Cursor
from tsdb.dbapi.error import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from tsdb.dbapi.type_object import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from tsdb_format.errors import Error

apilevel = "2.0"
#: Threads may share the module and connections, but not cursors.
threadsafety = 2
#: ``?``; mappings fill ``:name`` and ``$name`` as well.
paramstyle = "qmark"

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Connection", "Cursor", "DataError", "DatabaseError", "Date",
    "DateFromTicks", "Error", "IntegrityError", "InterfaceError", "InternalError", "NotSupportedError", "OperationalError",
    "ProgrammingError", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning", "apilevel", "connect",
    "paramstyle", "threadsafety",
]  # fmt: skip
