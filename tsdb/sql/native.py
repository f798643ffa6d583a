"""What of a SELECT over one table is native, and the plan it makes. Both binders fill this in: the plain one and that of trees."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tsdb.catalog.table import Table
from tsdb.plan.node import Distance, LastRow, Limit, Plan, Project, Sort, SortKey, TableScan
from tsdb.plan.predicate import Predicate, conjunction
from tsdb_format.schema import SEQUENCE_COLUMN, Column
from tsdb_format.types import FLOAT, Kind, Role

#: Types that no native operator sorts by.
UNSORTABLE = frozenset({Kind.BLOB, Kind.VECTOR})
#: Limits and offsets up to this are native; larger ones are DuckDB's to refuse.
COUNT_MAX = 2**62


@dataclass
class TableReference:
    """A table in a FROM clause, under the name that columns are qualified by; ``node`` is its place in the tree."""

    table: Table
    alias: str
    node: Any = None

    def __post_init__(self) -> None:
        self._columns = {column.name.lower(): column for column in self.table.schema}
        self._columns[SEQUENCE_COLUMN.name] = SEQUENCE_COLUMN

    def column(self, name: str) -> Column | None:
        """The column of that name, in any case."""
        return self._columns.get(name.lower())


@dataclass(frozen=True, slots=True)
class Newest:
    """The rows that a SELECT asks for: of each group of ``tags`` (or attributes) the newest ``limit``, or the oldest."""

    tags: tuple[str, ...]
    limit: int
    oldest: bool

    def over(self, scan: TableScan) -> LastRow:
        """The node that gives them."""
        return LastRow(scan, self.tags, self.limit, self.oldest)

    def sorted_as(self, keys: tuple[SortKey, ...], time: str) -> bool:
        """Whether they come in this order by themselves."""
        tags = tuple(SortKey(tag) for tag in self.tags)
        return keys == (*tags, SortKey(time, descending=not self.oldest)) or (self.limit == 1 and keys == tags[: len(keys)])


@dataclass
class NativeSelect:
    """What of a SELECT over one table can be native.

    ``outputs`` are (name shown, column) where the select list is columns only, else None. ``keys`` is None where the order is not
    native. ``newest`` says which of its rows are asked for, None all; ``distances`` are what is computed of them. ``complete`` says
    that every conjunct of WHERE is in ``predicates``; ``core`` that all but the select list is native.
    """

    reference: TableReference
    predicates: list[Predicate] = field(default_factory=list)
    complete: bool = True
    outputs: list[tuple[str, str]] | None = None
    keys: tuple[SortKey, ...] | None = ()
    limit: int | None = None
    offset: int = 0
    countable: bool = True
    newest: Newest | None = None
    distances: tuple[Distance, ...] = ()

    @property
    def core(self) -> bool:
        """Whether filter, order and limit are native."""
        return self.complete and self.keys is not None and self.countable

    @property
    def native(self) -> bool:
        """Whether everything is."""
        return self.core and self.outputs is not None

    def column(self, name: str) -> Column | None:
        """What an output's column is: the table's, or a distance."""
        computed = any(each.name == name for each in self.distances)
        return Column(name, FLOAT, Role.FIELD, -1) if computed else self.reference.column(name)

    def predicate(self) -> Predicate | None:
        """The conjunction of what was bound."""
        return conjunction(*self.predicates)

    def scan(self) -> TableScan:
        """A scan of the table with the bound predicates and all columns."""
        columns = (*(column.name for column in self.reference.table.schema), *(each.name for each in self.distances))
        return TableScan(self.reference.table.name, columns, self.predicate(), distances=self.distances)

    def core_plan(self, *more: str) -> Plan:
        """Filter, order and limit over all columns, and ``more``."""
        scan = self.scan()
        scan = replace(scan, columns=(*scan.columns, *more)) if more else scan
        plan: Plan = scan if self.newest is None else self.newest.over(scan)
        sorted_already = self.newest is not None and self.newest.sorted_as(self.keys or (), self.reference.table.schema.time.name)
        if self.keys and not sorted_already:
            plan = Sort(plan, self.keys)
        if self.limit is not None or self.offset:
            plan = Limit(plan, self.limit, self.offset)
        return plan

    def plan(self) -> Plan:
        """The whole SELECT; output names are made unique by position where they repeat."""
        assert self.outputs is not None
        return Project(
            self.core_plan(),
            tuple(zip(unique_names([name for name, _ in self.outputs]), [c for _, c in self.outputs], strict=True)),
        )


def unique_names(names: list[str]) -> list[str]:
    """The names, with ``:2`` and so on where one repeats: batches hold a column once per name."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name}:{seen[name]}")
    return made
