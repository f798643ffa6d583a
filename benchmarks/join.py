"""A join that shows wide columns of few rows: frames of large images, of which a list names some, in tsdb and elsewhere.

``python -m benchmarks.join --frames 20000 --bytes 65536`` writes frames with an image and a vector of 512 each into tsdb, DuckDB's
native tables and, where these are installed, Lance and chDB, compares the answers of the join with 50 selected frames and prints
medians of interleaved runs, of ours with and without late materialization. Needs the bytes of all images on disk for each;
``--directory`` says where.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import tsdb
from benchmarks.join_peer import Ask, peers
from benchmarks.peers import interleaved_medians
from benchmarks.report import Table, milliseconds, ratio

if TYPE_CHECKING:
    import pyarrow as pa

QUERY = "SELECT s.frame_id, f.image, f.embedding FROM selected AS s JOIN frames AS f ON f.frame_id = s.frame_id"
_WIDTH = 512
_PART = 500
_OFF: dict[str, object] = {"enable_join_late_materialization": False}


@click.command()
@click.option("--frames", default=20_000, help="frames in all, at least 1,000")
@click.option("--selected", default=50, help="frames that the list names")
@click.option("--bytes", "size", default=65_536, help="bytes of an image")
@click.option("--directory", type=click.Path(path_type=Path), help="where the data is made; removed at the end")
def main(frames: int, selected: int, size: int, directory: Path | None) -> None:
    """Run the comparison."""
    import duckdb

    with tempfile.TemporaryDirectory(dir=directory) as folder:
        duck = duckdb.connect(f"{folder}/frames.duckdb")
        with tsdb.open(f"{folder}/db") as db:
            db.sql(f"CREATE TABLE frames (time TIMESTAMP TIME, frame_id INT64, image BLOB, embedding VECTOR({_WIDTH}))")
            db.sql("CREATE TABLE selected (time TIMESTAMP TIME, frame_id INT64)")
            duck.execute(f"CREATE TABLE frames (time TIMESTAMP, frame_id BIGINT, image BLOB, embedding FLOAT[{_WIDTH}])")
            keys = np.arange(selected) * (frames // selected)
            others = peers(folder, keys)
            for part in _parts(frames, size):
                db.write("frames", part)
                duck.execute("INSERT INTO frames FROM part")
                for other in others:
                    other.add(part)
            chosen = _times(np.arange(selected)) | {"frame_id": keys}
            db.write("selected", chosen)
            db.flush()
            duck.execute(f"CREATE TABLE selected AS SELECT range * {frames // selected} AS frame_id FROM range({selected})")
            duck.execute("CHECKPOINT")
            _compare(db, duck, [way for other in others for way in other.ways()])
        duck.close()


def _compare(db: tsdb.Database, duck: Any, ways: list[tuple[str, Ask]]) -> None:
    calls: list[tuple[str, Callable[[str], Any], dict[str, object] | None]] = [
        ("tsdb", lambda sql: db.sql(sql).arrow(), {}),
        ("tsdb, late materialization off", lambda sql: db.sql(sql, settings=_OFF).arrow(), _OFF),
        ("DuckDB", lambda sql: duck.sql(sql).to_arrow_table(), None),
        *((name, ask, None) for name, ask in ways),
    ]
    first, *others = (sorted(map(_plain, call(QUERY).to_pylist())) for _, call, _ in calls)
    if any(answer != first for answer in others):
        raise click.ClickException("the answers differ")
    medians = interleaved_medians([(call, QUERY) for _, call, _ in calls])
    table = Table("50 frames of many, with image and embedding", ("way", "median ms", "of ours", "bytes of blobs read"))
    for (name, _, settings), median in zip(calls, medians, strict=True):
        read = "" if settings is None else f"{db.sql(QUERY, settings=settings).stats['blob_bytes_read']:,}"
        table.rows.append((name, milliseconds(median), ratio(median / medians[0]), read))
    click.echo(table.as_text())
    for (line,) in db.sql(f"EXPLAIN ANALYZE {QUERY}").fetchall():
        click.echo(line)


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    key, image, embedding = row.values()
    return int(key), bytes(image), [float(value) for value in embedding]


def _times(places: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"time": np.datetime64("2024-01-01", "us") + places * np.timedelta64(1, "s")}


def _parts(frames: int, size: int) -> Iterator[pa.Table]:
    """Frames, some at a time; their numbers are in no order."""
    import pyarrow as pa

    random = np.random.default_rng(7)
    for start in range(0, frames, _PART):
        places = np.arange(start, min(start + _PART, frames))
        raw = random.bytes(len(places) * size)
        vectors = pa.array(random.random(len(places) * _WIDTH).astype(np.float32))
        yield pa.table(
            _times(places)
            | {
                "frame_id": places * 7919 % frames,
                "image": [raw[at * size : (at + 1) * size] for at in range(len(places))],
                "embedding": pa.FixedSizeListArray.from_arrays(vectors, _WIDTH),
            }
        )


if __name__ == "__main__":
    main()
