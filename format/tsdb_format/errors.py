"""Every error that tsdb raises on purpose: one base, and kinds split by who must act.

Each kind also derives from the builtin that a caller already catches, and carries positions as attributes rather than in prose.
"""

from __future__ import annotations


class Error(Exception):
    """Base of all tsdb errors."""


class InvalidInput(Error, ValueError):
    """The statement, argument or data given cannot be accepted; nothing was changed."""


class NotFound(Error, LookupError):
    """A table, column, file or setting of that name does not exist."""


class Corruption(Error):
    """Stored bytes are damaged. ``path`` is the file and ``offset`` the first byte of the damaged part."""

    def __init__(self, message: str, *, path: str, offset: int) -> None:
        super().__init__(f"{message} ({path}, at byte {offset:,})")
        self.path = path
        self.offset = offset


class UnsupportedFormat(Error):
    """The file is of a version, encoding or type that this build does not know."""


class Locked(Error, BlockingIOError):
    """Another process writes this database; ``pid`` is the holder's where it is known."""

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class Closed(Error, RuntimeError):
    """The database, file or stream was closed before this call."""


class ReadOnly(Error, PermissionError):
    """The database was opened for reading."""
