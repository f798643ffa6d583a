"""The exceptions of PEP 249. Its ``Error`` is tsdb's, so that one ``except`` catches both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tsdb_format import errors
from tsdb_format.errors import Error


class Warning(Exception):
    """What PEP 249 has for important warnings; there are none."""


class InterfaceError(Error):
    """The connection or cursor was not used as it can be: closed, or nothing to fetch."""


class DatabaseError(Error):
    """The database did not do what it was asked."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """The database cannot be used, through no fault of the statement: locked, only readable, a disk that fails."""


class IntegrityError(DatabaseError):
    """What PEP 249 has for constraints; there are none."""


class InternalError(DatabaseError):
    """Stored bytes are damaged."""


class ProgrammingError(DatabaseError):
    """The statement is wrong, or names what is not there."""


class NotSupportedError(DatabaseError):
    """The database has no such thing."""


def of(error: Error) -> Error:
    """An error of tsdb's as one of PEP 249's; the message stays."""
    kinds: tuple[tuple[type[Error], type[Error]], ...] = (
        (errors.NotFound, ProgrammingError),
        (errors.InvalidInput, DataError if str(error).startswith(("Conversion Error", "Out of Range Error")) else ProgrammingError),
        (errors.Corruption, InternalError),
        (errors.UnsupportedFormat, NotSupportedError),
        (errors.Closed, InterfaceError),
    )
    if isinstance(error, InterfaceError | DatabaseError):
        return error
    return next((made for kind, made in kinds if isinstance(error, kind)), OperationalError)(str(error))


@contextmanager
def translated() -> Iterator[None]:
    """A block whose errors are those of PEP 249."""
    try:
        yield
    except Error as error:
        made = of(error)
        if made is error:
            raise
        raise made from error
