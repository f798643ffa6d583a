"""Columns and schemas: names, types and roles, in declaration order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tsdb_format.errors import NotFound
from tsdb_format.types import INT64, ColumnType, Role

#: Name of the hidden column that holds each row's commit sequence number.
SEQUENCE_NAME = "_sn"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``id`` is unique within its table for ever: a dropped and re-added name gets a new id."""

    name: str
    type: ColumnType
    role: Role
    id: int


SEQUENCE_COLUMN = Column(SEQUENCE_NAME, INT64, Role.SEQUENCE, 0)


@dataclass(frozen=True)
class Schema:
    """An ordered set of columns with exactly one TIME column."""

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.columns)

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def time(self) -> Column:
        """The TIME column."""
        return next(column for column in self.columns if column.role is Role.TIME)

    @cached_property
    def tags(self) -> tuple[Column, ...]:
        """TAG columns in declaration order: together they name the device."""
        return tuple(column for column in self.columns if column.role is Role.TAG)

    @cached_property
    def fields(self) -> tuple[Column, ...]:
        """FIELD columns in declaration order."""
        return tuple(column for column in self.columns if column.role is Role.FIELD)

    @cached_property
    def attributes(self) -> tuple[Column, ...]:
        """ATTRIBUTE columns in declaration order."""
        return tuple(column for column in self.columns if column.role is Role.ATTRIBUTE)

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """Names of the columns that rows store: TIME and FIELDs in declaration order, then ``_sn``."""
        return (*(column.name for column in self.columns if column.role in (Role.TIME, Role.FIELD)), SEQUENCE_NAME)

    def column(self, name: str) -> Column:
        """The column of that name; raises NotFound."""
        try:
            return self.by_name[name]
        except KeyError:
            raise NotFound(f"no column {name!r}; there are: {', '.join(self.by_name)}") from None
