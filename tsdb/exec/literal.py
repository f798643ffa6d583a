"""Literal rows as a batch: what SHOW and DESCRIBE answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tsdb.exec.batch import Batch
from tsdb.plan.node import Rows
from tsdb_format.types import ColumnType
from tsdb_format.vector import Pool, Vector


def literal_batch(node: Rows) -> Batch:
    """The node's rows; values are Python values in the physical domain of their column."""
    columns = list(zip(*node.rows, strict=True)) or [()] * len(node.names)
    vectors = {name: literal_vector(kind, column) for name, kind, column in zip(node.names, node.types, columns, strict=True)}
    return Batch(vectors, len(node.rows))


def literal_vector(kind: ColumnType, values: tuple[Any, ...]) -> Vector:
    """Python values, None being NULL, as a vector."""
    validity = np.array([value is not None for value in values], np.bool_)
    pool = None
    if kind.is_pooled:
        texts = [b"" if value is None else value.encode() if isinstance(value, str) else value for value in values]
        pool = Pool.of(texts or [b""])
        array = np.arange(len(values), dtype=np.int32)
    else:
        array = np.array([0 if value is None else value for value in values], kind.physical)
    return Vector(kind, array, None if validity.all() else validity, pool)
