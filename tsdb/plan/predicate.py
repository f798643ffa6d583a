"""Predicates that scans evaluate: a small closed algebra over one table's columns, three-valued as SQL is.

Literals are already in the column's physical domain (timestamps as integers of the column's unit, strings as str, blobs as bytes).
The binder only builds a predicate when it means exactly what DuckDB means by the text; anything else stays in a ``DuckQuery``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tsdb.resultset.member_set import MemberSet

Literal: TypeAlias = int | float | bool | str | bytes


@dataclass(frozen=True, slots=True)
class Compare:
    """``column op literal`` with op one of ``= != < <= > >=``; NULL for a NULL column. NaN equals itself and is the greatest."""

    column: str
    op: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class InSet:
    """``column IN (literals)``; the literals hold no NULL and are distinct. NULL where the column is NULL."""

    column: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """``(columns) IN RESULT SET name``; NULL where the column is. The set is not empty, and no other is equal to it.

    Several columns of which one is NULL are no member, or NULL, which is not told apart: such a condition stands under no ``Not``.
    """

    columns: tuple[str, ...]
    members: MemberSet


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``; never NULL itself."""

    column: str


@dataclass(frozen=True, slots=True)
class Like:
    """``column LIKE pattern`` on a STRING, with ``%`` and ``_`` and no escape; ILIKE when ``fold_case``."""

    column: str
    pattern: str
    fold_case: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """Three-valued negation."""

    inner: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """Three-valued conjunction of one or more."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Three-valued disjunction of one or more."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL whatever the row."""

    value: bool | None


Predicate: TypeAlias = Compare | InSet | Member | IsNull | Like | Not | And | Or | Constant


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The names of the columns a predicate reads."""
    match predicate:
        case Compare(column=name) | InSet(column=name) | IsNull(column=name) | Like(column=name):
            return frozenset({name})
        case Member(columns):
            return frozenset(columns)
        case Not(inner):
            return columns_of(inner)
        case And(parts) | Or(parts):
            return frozenset().union(*(columns_of(part) for part in parts))
        case Constant():
            return frozenset()


def compared_columns(predicate: Predicate) -> frozenset[str]:
    """The names of the columns whose values a predicate reads, and not only whether they are NULL."""
    match predicate:
        case IsNull():
            return frozenset()
        case Not(inner):
            return compared_columns(inner)
        case And(parts) | Or(parts):
            return frozenset().union(*(compared_columns(part) for part in parts))
        case _:
            return columns_of(predicate)


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """The parts that must all be true, flattened; empty for None."""
    if predicate is None:
        return ()
    if isinstance(predicate, And):
        return tuple(leaf for part in predicate.parts for leaf in conjuncts(part))
    return (predicate,)


def conjunction(*parts: Predicate | None) -> Predicate | None:
    """What is true where all parts are; None, which is also a part that asks nothing, where nothing is asked."""
    given = tuple(part for part in parts if part is not None)
    return And(given) if len(given) > 1 else given[0] if given else None


def members_in(predicate: Predicate) -> Iterator[Member]:
    """The conditions on result sets in a predicate, wherever they stand."""
    match predicate:
        case Member():
            yield predicate
        case Not(inner):
            yield from members_in(inner)
        case And(parts) | Or(parts):
            for part in parts:
                yield from members_in(part)
