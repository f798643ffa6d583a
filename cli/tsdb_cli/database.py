"""Opening a database for a command, and asking it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tsdb.quoting import quoted_name
from tsdb_format.errors import NotFound

if TYPE_CHECKING:
    from tsdb.database import Database

#: First words of statements that change something; all others are run on a reader, beside whoever writes.
WRITING = frozenset({"alter", "create", "delete", "drop", "insert", "truncate", "update"})


@contextmanager
def opened(path: Path, mode: str = "r", settings: Mapping[str, object] | None = None) -> Iterator[Database]:
    """The database at ``path``. Mode 'r' needs it to exist, 'rw' creates it."""
    import tsdb

    with tsdb.open(path, mode=mode, **dict(settings or {})) as database:
        yield database


def mode_for(sql: str) -> str:
    """'rw' where some statement of ``sql`` writes, else 'r'."""
    return "rw" if any(first_word(statement) in WRITING for statement in statements(sql)) else "r"


def first_word(statement: str) -> str:
    """The lower-case first word, after comments; ``EXPLAIN ANALYZE INSERT`` counts as what it runs."""
    text = re.sub(r"^(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)+", "", statement, flags=re.DOTALL)
    words = re.findall(r"[A-Za-z]+", text[:200].lower())
    return next((word for word in words if word not in ("explain", "analyze")), "")


def statements(sql: str) -> Iterator[str]:
    """Split at semicolons that stand outside quotes and comments; empty statements are left out."""
    part: list[str] = []
    for token in re.findall(r"'(?:[^']|'')*'?|\"(?:[^\"]|\"\")*\"?|--[^\n]*|/\*.*?(?:\*/|$)|[^'\";/-]+|.", sql, flags=re.DOTALL):
        if token == ";":
            if "".join(part).strip():
                yield "".join(part).strip()
            part = []
        else:
            part.append(token)
    rest = "".join(part).strip()
    if re.sub(r"--[^\n]*|/\*.*?\*/", "", rest, flags=re.DOTALL).strip():
        yield rest


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
