"""Taking rows by their place: random ones, neighbours, repeated ones, of 1 KiB and of 64 KiB; against Lance where that is there.

``python -m benchmarks.take --rows 20000`` writes images of both sizes into tsdb and, with ``pip install pylance``, into a Lance
dataset, compares what a take of 100 rows gives and prints medians of interleaved runs, warm. ``--directory`` says where.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import tsdb
from benchmarks.peers import interleaved_medians
from benchmarks.report import Table, milliseconds, ratio

if TYPE_CHECKING:
    import pyarrow as pa

Places = np.ndarray[Any, np.dtype[np.int64]]
#: Rows of one take, and bytes of a row.
TAKEN, SIZES = 100, (1_024, 65_536)
_PART_BYTES = 32 * 2**20
_KEY = "key"


def patterns(rows: int) -> dict[str, Places]:
    """What is taken of so many rows: scattered ones, neighbours, and few that repeat."""
    random = np.random.default_rng(5)
    few = random.integers(0, rows, TAKEN // 10)
    return {
        "random": random.permutation(rows)[:TAKEN],
        "neighbours": np.arange(rows // 2, rows // 2 + TAKEN),
        "repeated": random.choice(few, TAKEN),
    }


def parts(rows: int, size: int) -> Iterator[pa.Table]:
    """Images, some at a time."""
    import pyarrow as pa

    random = np.random.default_rng(7)
    step = max(_PART_BYTES // size, 1)
    for start in range(0, rows, step):
        places = np.arange(start, min(start + step, rows))
        raw = random.bytes(len(places) * size)
        images = pa.array([raw[at * size : (at + 1) * size] for at in range(len(places))], pa.large_binary())
        times = np.datetime64("2024-01-01", "us") + places * np.timedelta64(1, "s")
        yield pa.table({"time": times, "image": images})


def load(db: tsdb.Database, rows: int, size: int) -> None:
    """A table of images."""
    db.sql("CREATE TABLE image (time TIMESTAMP TIME, image BLOB)").fetchall()
    for part in parts(rows, size):
        db.write("image", part)
    db.flush()
    db.compact()


def taker(db: tsdb.Database) -> Callable[[Places], list[bytes]]:
    """What takes images by their place in time: the operator Take, over the row ids that a scan gave."""
    from tsdb.exec.batch import Batch, concat_batches
    from tsdb.exec.context import ExecContext
    from tsdb.exec.executor import execute
    from tsdb.exec.stats import TakeStats
    from tsdb.exec.take import RowIds, Taking
    from tsdb.plan.node import TableScan, Take

    snapshot = db._opened().snapshot()
    ids = RowIds(snapshot.tables["image"])
    scan = TableScan("image", ("time",), row_id=_KEY)
    node = Take(scan, "image", (("image", "image"),), _KEY)
    found = concat_batches(list(execute(scan, ExecContext(snapshot, db.settings, row_ids={_KEY: ids}))))

    def take(places: Places) -> list[bytes]:
        taking = Taking(node, snapshot.tables["image"], ids, TakeStats("image"), 1)
        batches = taking.run([Batch({_KEY: found.vectors[_KEY].take(places)}, len(places))])
        return [value for batch in batches for value in batch.vectors["image"].to_physical_list()]

    return take


@click.command()
@click.option("--rows", default=20_000, help="images of each size")
@click.option("--directory", type=click.Path(path_type=Path), help="where the data is made; removed at the end")
def main(rows: int, directory: Path | None) -> None:
    """Run the comparison."""
    table = Table(f"{TAKEN} of {rows:,} rows, warm", ("rows", "bytes each", "tsdb ms", "Lance ms", "Lance of ours"))
    for size in SIZES:
        with tempfile.TemporaryDirectory(dir=directory) as folder, tsdb.open(f"{folder}/db") as db:
            load(db, rows, size)
            ours, theirs = taker(db), _lance(f"{folder}/image.lance", rows, size)
            for name, places in patterns(rows).items():
                calls: list[tuple[Any, Any]] = [(ours, places), *([] if theirs is None else [(theirs, places)])]
                if theirs is not None and ours(places) != theirs(places):
                    raise click.ClickException("the answers differ")
                medians = interleaved_medians(calls)
                cells = [milliseconds(median) for median in medians] + ["" if theirs is None else ratio(medians[1] / medians[0])]
                table.rows.append((name, f"{size:,}", *cells, *[""] * (3 - len(cells))))
    click.echo(table.as_text())


def _lance(path: str, rows: int, size: int) -> Callable[[Places], list[bytes]] | None:
    """As ``taker``, of a Lance dataset; None where there is no Lance."""
    try:
        import lance
    except ImportError:
        return None
    dataset: Any = None
    for part in parts(rows, size):
        dataset = lance.write_dataset(part, path, mode="create" if dataset is None else "append")
    return lambda places: dataset.take(places, columns=["image"]).column("image").to_pylist()


if __name__ == "__main__":
    main()
