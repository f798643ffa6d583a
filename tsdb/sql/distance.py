"""Distances in a SELECT over one table: calls of DuckDB's ``array_…`` functions that scans compute as columns.

One argument is a VECTOR column and the other a constant of its width. Everything else about vectors is DuckDB's, errors included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain, count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from tsdb.plan.node import Distance
from tsdb.sql.constant import ConstantKind
from tsdb.sql.environment import Environment
from tsdb.sql.literal import fold, only, parameter_name
from tsdb_format.schema import Column
from tsdb_format.types import FLOAT, Kind, Role

_NUMBERS = frozenset({ConstantKind.INTEGER, ConstantKind.DECIMAL, ConstantKind.DOUBLE})
#: Whole numbers up to this are doubles without loss, as DuckDB's path to a float may not be for larger ones.
_EXACT_MAX = 2**53
#: Components of a vector that are shown.
_SHOWN = 3


class Distances:
    """The distances that one SELECT names, each a column of its own."""

    def __init__(
        self, resolve: Callable[[exp.Column], Column | None], environment: Environment, reserved: Collection[str] = ()
    ) -> None:
        """``reserved`` are names that no distance may have: those of the table's columns."""
        self._resolve = resolve
        self._reserved = reserved
        self._environment = environment
        self._found: dict[tuple[str, str, bytes], Distance] = {}

    @property
    def found(self) -> tuple[Distance, ...]:
        """All that were bound."""
        return tuple(self._found.values())

    def column(self, node: exp.Expr) -> Column | None:
        """The column that a call is; None where it is none that a scan computes."""
        while isinstance(node, exp.Paren) and only(node, "this"):
            node = node.this
        if not isinstance(node, exp.Anonymous) or len(node.expressions) != 2 or not only(node, "this", "expressions"):
            return None
        from tsdb.exec.distance import METRICS

        function = str(node.this).lower()
        if function not in METRICS:
            return None
        for left, right in (node.expressions, node.expressions[::-1]):
            column = self._resolve(left) if isinstance(left, exp.Column) else None
            if column is not None and column.role is Role.FIELD and column.type.kind is Kind.VECTOR:
                target = self._target(right, column.type.width)
                return None if target is None else self._computed(function, column, target)
        return None

    def _computed(self, function: str, column: Column, target: NDArray[np.float32]) -> Column:
        key = function, column.name, target.tobytes()
        if key not in self._found:
            shown = ", ".join(f"{item:.6g}" for item in target[:_SHOWN].tolist())
            more = f", … {len(target) - _SHOWN} more" if len(target) > _SHOWN else ""
            name = f"{function}({column.name}, [{shown}{more}])"
            taken = {*self._reserved, *(each.name for each in self._found.values())}
            numbered = (f"{name}:{number}" for number in count(2))
            self._found[key] = Distance(next(each for each in chain((name,), numbered) if each not in taken), *key)
        return Column(self._found[key].name, FLOAT, Role.FIELD, -1)

    def _target(self, node: exp.Expr, width: int) -> NDArray[np.float32] | None:
        """The vector that an argument is, cast to as many floats as the column has."""
        while isinstance(node, exp.Paren) and only(node, "this"):
            node = node.this
        if type(node) is not exp.Cast or not only(node, "this", "to") or not _is_vector_type(node.args["to"], width):
            return None
        inner = node.this
        if isinstance(inner, exp.Placeholder | exp.Parameter):
            return vector_of(self._environment.values.get(parameter_name(inner)), width)
        if not isinstance(inner, exp.Array) or len(inner.expressions) != width:
            return None
        constants = [fold(each, self._environment) for each in inner.expressions]
        if any(each is None or each.kind not in _NUMBERS for each in constants):
            return None
        return vector_of([float(each.value) for each in constants if each is not None and abs(each.value) <= _EXACT_MAX], width)


def vector_of(value: Any, width: int) -> NDArray[np.float32] | None:
    """A list or an array of so many numbers as floats; None where it is none, or only DuckDB can say."""
    if not isinstance(value, np.ndarray | list | tuple) or len(value) != width:
        return None
    if isinstance(value, Sequence) and not all(isinstance(each, int | float | np.number) for each in value):
        return None
    array = np.asarray(value)
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        return None
    if array.dtype.kind != "f" and int(np.abs(array.astype(object)).max()) > _EXACT_MAX:
        return None
    with np.errstate(over="ignore"):
        made = array.astype(np.float32)
    return made if bool((np.isfinite(made) == np.isfinite(array)).all()) else None


def _is_vector_type(node: exp.Expr, width: int) -> bool:
    """Whether a type is FLOAT[width]."""
    if not isinstance(node, exp.DataType) or node.this is not exp.DType.ARRAY:
        return False
    inner, sizes = list(node.expressions), list(node.args.get("values") or ())
    if len(inner) != 1 or len(sizes) != 1 or not only(node, "this", "expressions", "values", "nested"):
        return False
    item, size = inner[0], sizes[0]
    floats = isinstance(item, exp.DataType) and item.this is exp.DType.FLOAT and only(item, "this", "nested")
    return floats and isinstance(size, exp.Literal) and str(size.this) == str(width)
