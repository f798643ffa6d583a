"""The same predicate over columns of other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tsdb.plan.predicate import And, Compare, Constant, InSet, IsNull, Like, Member, Not, Or, Predicate


def renamed(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """A predicate whose columns go by ``names``."""
    match predicate:
        case Compare(column=name) | InSet(column=name) | IsNull(column=name) | Like(column=name):
            return replace(predicate, column=names[name])
        case Member(columns):
            return replace(predicate, columns=tuple(names[name] for name in columns))
        case Not(inner):
            return Not(renamed(inner, names))
        case And(parts):
            return And(tuple(renamed(part, names) for part in parts))
        case Or(parts):
            return Or(tuple(renamed(part, names) for part in parts))
        case Constant():
            return predicate
