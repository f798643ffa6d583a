"""A scan's predicate, its conjuncts split by what answers them. Known from the columns alone, and kept with the plan."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from tsdb.exec.evaluate import normalize
from tsdb.exec.source import ROW_ID_NAME, column_of
from tsdb.plan.predicate import Compare, InSet, Member, Predicate, columns_of, conjuncts, members_in
from tsdb_format.types import Role

if TYPE_CHECKING:
    from tsdb_format.schema import Schema

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1


class Conditions:
    """Conjuncts by what answers them: ``of_tags`` devices, the time bounds (inclusive) times, ``of_rows`` each row's values.

    ``of_members`` are those of the latter that name tuples of columns, which bound each of these.
    """

    def __init__(self, predicate: Predicate | None, schema: Schema, computed: Container[str] = ()) -> None:
        """``computed`` are the names of the columns that the scan computes."""
        self.time_low, self.time_high = _INT64_MIN, _INT64_MAX
        of_tags: list[Predicate] = []
        of_rows: list[Predicate] = []
        for part in conjuncts(None if predicate is None else normalize(predicate)):
            names = columns_of(part)
            if names and all(_is_of_device(schema, computed, name) for name in names):
                of_tags.append(part)
                continue
            if names == {schema.time.name}:
                low, high, exact = _time_bounds(part)
                self.time_low, self.time_high = max(self.time_low, low), min(self.time_high, high)
                if exact:
                    continue
            of_rows.append(part)

        def cost(part: Predicate) -> tuple[bool, int]:
            """Few columns first, what looks up each value after what compares it, what is computed last."""
            names = columns_of(part)
            return any(name in computed for name in names), 2 * len(names) + any(True for _ in members_in(part))

        self.of_members = tuple(part for part in of_rows if isinstance(part, Member) and len(columns_of(part)) > 1)
        self.of_rows = tuple(sorted(of_rows, key=cost))
        self.of_tags = tuple(of_tags)


def _is_of_device(schema: Schema, computed: Container[str], name: str) -> bool:
    """Whether all rows of a device have one value of a column."""
    return name not in computed and name != ROW_ID_NAME and column_of(schema, name).role in (Role.TAG, Role.ATTRIBUTE)


def _time_bounds(part: Predicate) -> tuple[int, int, bool]:
    """Inclusive bounds that a conjunct on the time column implies, and whether they say all that it says."""
    match part:
        case Compare(_, op, literal) if isinstance(literal, int):
            match op:
                case "=":
                    return literal, literal, True
                case "<":
                    return _INT64_MIN, literal - 1, True
                case "<=":
                    return _INT64_MIN, literal, True
                case ">":
                    return literal + 1, _INT64_MAX, True
                case ">=":
                    return literal, _INT64_MAX, True
        case InSet(_, literals) if literals:
            wanted = [literal for literal in literals if isinstance(literal, int)]
            return min(wanted), max(wanted), False
        case Member(members=members):
            return *members.bounds(), False
    return _INT64_MIN, _INT64_MAX, False
