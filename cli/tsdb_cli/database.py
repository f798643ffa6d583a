"""Opening a database for a command, and asking it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tsdb.quoting import quoted_name
from tsdb.sql.token import read_tokens
from tsdb_format.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tsdb.database import Database

#: First words of statements that change something; all others are run on a reader, beside whoever writes.
WRITING = frozenset({"alter", "checkpoint", "create", "delete", "drop", "insert", "truncate", "update"})


@contextmanager
def opened(path: Path, mode: str = "r", settings: Mapping[str, object] | None = None, *, create: bool = True) -> Iterator[Database]:
    """The database at ``path``. Mode 'r' needs it to exist, 'rw' creates it unless ``create`` is off: then it needs it too."""
    import tsdb

    if not create:
        from tsdb.storage import manifest

        if manifest.current_name(path) is None and not manifest.versions(path):
            raise NotFound(f"no database {path}")
    with tsdb.open(path, mode=mode, **dict(settings or {})) as database:
        yield database


def mode_for(statements: Iterable[str]) -> str:
    """'rw' where some statement writes, else 'r'."""
    return "rw" if any(first_word(statement) in WRITING for statement in statements) else "r"


def first_word(statement: str) -> str:
    """The lower-case first word; ``EXPLAIN ANALYZE INSERT`` counts as what it runs."""
    words = (token.upper.lower() for token in read_tokens(statement))
    with suppress(InvalidInput):  # a quote that does not end is the database's to name
        return next((word for word in words if word not in ("", "explain", "analyze")), "")
    return ""


def stored(path: Path, table: str | None) -> tuple[int, int]:
    """How many data files a database consists of, or one table of it, and their bytes."""
    from tsdb.storage import manifest

    tables = manifest.load(path).tables.values()
    files = [
        file
        for entry in tables
        if table in (None, entry.table.name) or entry.table.name.lower() == table.lower()
        for file in entry.files
    ]
    return len(files), sum(file.bytes for file in files)


def create_statement(database: Database, table: str) -> str:
    """The CREATE TABLE statement of a table."""
    [(text,)] = database.sql(f"SHOW CREATE TABLE {quoted_name(table)}").fetchall()
    return str(text)


def require_table(database: Database, name: str) -> None:
    """Raise NotFound with the nearest name where there is no table ``name``."""
    names = list(database.tables())
    if name.lower() not in {each.lower() for each in names}:
        from tsdb.suggestion import hint

        raise NotFound(f"no table {name!r}; {hint(name, names)}")
