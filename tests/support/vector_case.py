"""Tables of vectors, and their distances as DuckDB computes them, in numpy and one component after the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tsdb
from support.quiet import without_background

FUNCTIONS = (
    "array_distance", "array_cosine_distance", "array_cosine_similarity", "array_inner_product", "array_negative_inner_product",
)  # fmt: skip
#: Components that make ties and what is no ordinary number.
PLAIN = np.array([0, 1, -1, 0.5, 2], np.float32)
ODD = np.array([0, 1, -1, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-30, 1e-42], np.float32)
Matrix = NDArray[np.float32]


def fused(x: Matrix, y: Matrix, total: Matrix) -> Matrix:
    """``x * y + total``, rounded once."""
    return (x.astype(np.float64) * y.astype(np.float64) + total.astype(np.float64)).astype(np.float32)


def distances(function: str, vectors: Matrix, target: Matrix) -> Matrix:
    """The distance of every row; cosines of very long and very short vectors are not the same to the last bit."""
    product, own, apart = (np.zeros(len(vectors), np.float32) for _ in range(3))
    square = np.zeros(1, np.float32)
    with np.errstate(all="ignore"):
        for item, other in zip(vectors.T, target, strict=True):
            step = item - other
            apart = fused(step, step, apart)
            product = fused(item, other, product)
            own = fused(item, item, own)
            square = fused(other, other, square)
        if function == "array_distance":
            return np.sqrt(apart)
        if function == "array_inner_product":
            return product
        if function == "array_negative_inner_product":
            return -product
        found = np.clip(product / np.sqrt(own * square), np.float32(-1), np.float32(1))
        return np.float32(1) - found if function == "array_cosine_distance" else found


@dataclass
class VectorTable:
    """A table ``t`` of vectors in files, in memory or in both."""

    db: tsdb.Database
    width: int

    def rows(self) -> list[tuple[Any, ...]]:
        """(host, time, n, vector) of all rows, in the order of storage."""
        return sorted(self.db.sql("SELECT host, time, n, v FROM t").fetchall(), key=lambda row: row[:3])


def random_vectors(random: np.random.Generator, rows: int, width: int, kind: str) -> Matrix:
    """Vectors of one kind: 'plain' (many ties), 'odd', 'far' (clusters that follow each other) or 'anywhere'."""
    if kind in ("plain", "odd"):
        return random.choice(PLAIN if kind == "plain" else np.concatenate([PLAIN, ODD]), (rows, width))
    made = random.standard_normal((rows, width)).astype(np.float32)
    if kind == "far":
        made = made * np.float32(0.01) + (np.arange(rows, dtype=np.float32) // 50 * 3)[:, None]
    return made


def vector_table(path: Path, seed: int, *, page_rows: int, where: str, kind: str, mode: str = "table") -> VectorTable:
    """Three commits of rows that partly overlay each other, some with NULL for the vector; deletes between them."""
    random = np.random.default_rng(seed)
    width = int(random.integers(1, 9))
    db = without_background(tsdb.open(path))
    db.sql(
        f"CREATE TABLE t (time TIMESTAMP TIME, host STRING TAG, n INT64, v VECTOR({width}), note STRING) "
        f"WITH (page_rows = {page_rows}, mode = '{mode}')"
    )
    written = 0
    for commit in range(3):
        rows = int(random.integers(40, 160))
        vectors = random_vectors(random, rows, width, kind)
        given = [None if random.random() < 0.15 else vector for vector in vectors]
        host = np.sort(random.choice(["a", "b", "c"], rows))
        times = random.integers(0, 200, rows) * 10**6 if commit else np.arange(rows) * 10**6
        if mode == "table":  # one row of each host and time in a commit
            _, first = np.unique([f"{h} {t}" for h, t in zip(host, times, strict=True)], return_index=True)
            first.sort()
            host, times, given = host[first], times[first], [given[row] for row in first]
        db.write("t", {
            "time": times, "host": host, "n": np.arange(len(given)) + written, "v": given, "note": [f"r{row}" for row in times],
        })  # fmt: skip
        written += len(given)
        if where == "files" or (where == "both" and commit < 2):
            db.flush()
        if commit == 1:
            db.sql("DELETE FROM t WHERE host = 'b' AND time < '1970-01-01 00:00:20'")
    return VectorTable(db, width)
