"""The nearest vectors of many: tsdb, with and without leaving blocks out, DuckDB over its own table, and numpy over an array.

``python -m benchmarks.vector --rows 1000000`` writes vectors of 128 floats into tsdb and into DuckDB's native tables, once
clustered (each sensor has a place of its own that it drifts from slowly) and once random (every vector anywhere), compares the
answers and prints medians of interleaved runs. Needs about three times the bytes of all vectors; ``--directory`` says where.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

import tsdb
from benchmarks.peers import interleaved_medians
from benchmarks.report import Table, machine_text, milliseconds, ratio

if TYPE_CHECKING:
    import pyarrow as pa

    Matrix = NDArray[np.float32]

_PART = 50_000
_QUERIES = 16
_OFF: dict[str, object] = {"enable_topk_runtime_filter": False}
_FUNCTIONS = {"array_distance": "", "array_cosine_distance": "", "array_inner_product": " DESC"}


@click.command()
@click.option("--rows", default=1_000_000, help="vectors in all, at least 1,000")
@click.option("--width", default=128, help="components of a vector")
@click.option("--sensors", default=1_000, help="devices that the rows are of")
@click.option("--limit", "k", default=10, help="how many of the nearest are wanted")
@click.option("--functions", default="array_distance", help="of " + ", ".join(_FUNCTIONS) + ", with commas between")
@click.option("--markdown", is_flag=True, help="print tables for the documentation")
@click.option("--directory", type=click.Path(path_type=Path), help="where the data is made; removed at the end")
def main(rows: int, width: int, sensors: int, k: int, functions: str, markdown: bool, directory: Path | None) -> None:
    """Run the comparison."""
    click.echo(machine_text())
    for kind, make in (("clustered", _clustered), ("random", _random)):
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            vectors = make(rows, width, sensors)
            table = _Comparison(folder, vectors, sensors, k).table(kind, functions.split(","))
        click.echo(table.as_markdown() if markdown else table.as_text())


class _Comparison:
    """One set of vectors in every store."""

    def __init__(self, folder: str, vectors: Matrix, sensors: int, k: int) -> None:
        import duckdb

        width = vectors.shape[1]
        self.k = k
        self.vectors = vectors
        places = np.random.default_rng(5).integers(0, len(vectors), _QUERIES)
        noise = np.random.default_rng(6).standard_normal((_QUERIES, width)).astype(np.float32)
        self.targets = vectors[places] + np.float32(0.1) * noise
        self.db = tsdb.open(f"{folder}/db")
        self.db.sql(f"CREATE TABLE seen (time TIMESTAMP TIME, sensor INT64 TAG, frame INT64, embedding VECTOR({width}))")
        self.duck = duckdb.connect(f"{folder}/duck.db")
        self.duck.execute(f"CREATE TABLE seen (time TIMESTAMP, sensor BIGINT, frame BIGINT, embedding FLOAT[{width}])")
        for part in _parts(vectors, sensors):
            self.db.write("seen", part)
            self.duck.execute("INSERT INTO seen FROM part")
        self.db.compact()
        self.duck.execute("CHECKPOINT")

    def table(self, kind: str, functions: list[str]) -> Table:
        """Medians of all ways for each function."""
        rows, width = self.vectors.shape
        table = Table(
            f"{rows:,} {kind} vectors of {width}", ("the nearest 10 of all", "median ms", "of ours", "pages read", "pages")
        )
        for function in functions:
            ways = self._ways(function)
            self._require_same(function, [way for _, way, _ in ways])
            medians = interleaved_medians([(_turns(way, self.targets), "") for _, way, _ in ways])
            for (name, _, settings), median in zip(ways, medians, strict=True):
                counted = ("", "") if settings is None else self._pages(function, settings)
                table.rows.append((f"{function}, {name}", milliseconds(median), ratio(median / medians[0]), *counted))
        self.db.close()
        self.duck.close()
        return table

    def _ways(self, function: str) -> list[tuple[str, Callable[[Matrix], Any], dict[str, object] | None]]:
        ours = self._query(function)
        theirs = ours.replace("?", f"CAST(? AS FLOAT[{self.vectors.shape[1]}])")
        return [
            ("tsdb", lambda target: self.db.sql(ours, [target]).fetchall(), {}),
            ("tsdb, filter off", lambda target: self.db.sql(ours, [target], settings=_OFF).fetchall(), _OFF),
            ("DuckDB", lambda target: self.duck.execute(theirs, [target.tolist()]).fetchall(), None),
            ("numpy", lambda target: _by_numpy(self.vectors, target, function, self.k), None),
        ]

    def _query(self, function: str) -> str:
        return f"SELECT frame, {function}(embedding, ?) AS d FROM seen ORDER BY d{_FUNCTIONS[function]} LIMIT {self.k}"

    def _pages(self, function: str, settings: dict[str, object]) -> tuple[str, str]:
        """Pages read and pages in all, of all queries."""
        found = [self.db.sql(self._query(function), [target], settings=settings) for target in self.targets]
        for each in found:
            each.fetchall()
        return (
            f"{sum(int(each.stats['pages_read'] or 0) for each in found) / _QUERIES:,.1f}",
            f"{int(found[0].stats['pages_total'] or 0):,}",
        )

    def _require_same(self, function: str, ways: list[Callable[[Matrix], Any]]) -> None:
        for target in self.targets:
            first, *others = (sorted(way(target), key=lambda row: row[1]) for way in ways)
            for other in others:
                if not np.allclose([row[1] for row in first], [row[1] for row in other], rtol=1e-3, atol=1e-4):
                    raise click.ClickException(f"{function}: the answers differ")


def _turns(way: Callable[[Matrix], Any], targets: Matrix) -> Callable[[str], Any]:
    """A call that asks for another target each time."""
    following = cycle(targets)
    return lambda _: way(next(following))


def _by_numpy(vectors: Matrix, target: Matrix, function: str, k: int) -> list[tuple[int, float]]:
    """All distances, then the best, as one writes it in numpy."""
    if function == "array_distance":
        found = np.linalg.norm(vectors - target, axis=1)
    else:
        found = vectors @ target
        if function == "array_cosine_distance":
            found = 1 - found / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(target))
    order = -found if _FUNCTIONS[function] else found
    best = np.argpartition(order, k)[:k]
    return [(int(row), float(found[row])) for row in best[np.argsort(order[best])]]


def _clustered(rows: int, width: int, sensors: int) -> Matrix:
    """Rows by sensor: each walks slowly from a place of its own."""
    random = np.random.default_rng(7)
    each = -(-rows // sensors)
    made = np.empty((sensors * each, width), np.float32)
    for sensor in range(sensors):
        steps = random.standard_normal((each, width)).astype(np.float32) * np.float32(0.02)
        made[sensor * each : (sensor + 1) * each] = random.standard_normal(width).astype(np.float32) + np.cumsum(steps, axis=0)
    return made[:rows]


def _random(rows: int, width: int, sensors: int) -> Matrix:
    del sensors
    return np.random.default_rng(7).standard_normal((rows, width), np.float32)


def _parts(vectors: Matrix, sensors: int) -> Iterator[pa.Table]:
    """Some rows at a time, sensor by sensor."""
    import pyarrow as pa

    rows, width = vectors.shape
    each = -(-rows // sensors)
    for start in range(0, rows, _PART):
        places = np.arange(start, min(start + _PART, rows))
        flat = pa.array(vectors[start : start + _PART].reshape(-1))
        yield pa.table(
            {
                "time": np.datetime64("2024-01-01", "us") + (places % each) * np.timedelta64(1, "s"),
                "sensor": places // each,
                "frame": places,
                "embedding": pa.FixedSizeListArray.from_arrays(flat, width),
            }
        )


if __name__ == "__main__":
    main()
