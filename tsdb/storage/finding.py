"""What a check finds: one thing about one file."""

from __future__ import annotations

from dataclasses import dataclass

from tsdb_format.errors import Corruption


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: the file, what is wrong with it, and the first damaged byte where that is known.

    ``table`` is empty for what belongs to no table. A ``note`` is nothing wrong, such as what a crash leaves for the next writer to
    remove.
    """

    table: str
    path: str
    message: str
    offset: int | None = None
    note: bool = False


def problem_of(table: str, path: str, error: Exception) -> Problem:
    """An error as a finding about ``path``, or about the file that the error names."""
    if isinstance(error, Corruption):
        return Problem(table, error.path, reason_of(error), error.offset)
    return Problem(table, path, str(error))


def reason_of(error: Exception) -> str:
    """What an error says, without the path and offset that it carries."""
    text = str(error)
    return text.removesuffix(f" ({error.path}, at byte {error.offset:,})") if isinstance(error, Corruption) else text
