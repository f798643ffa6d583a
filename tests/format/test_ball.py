"""Balls and vectors in place: how rows are parted, that every vector is inside, and that what lies in pages is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.file_case import random_case
from support.page_case import MODES, page_set, ranges, rows_of, run
from tsdb_format import ball
from tsdb_format.ball import NO_BOUND, NO_VECTOR, cut_balls, new_balls
from tsdb_format.encoding import dense, encode_chunk, open_vectors
from tsdb_format.reader import TsFile
from tsdb_format.types import ColumnType, Kind
from tsdb_format.vector import Vector


def column(random: np.random.Generator, rows: int, width: int, null_share: float, kind: str = "any") -> Vector:
    values = random.standard_normal((rows, width)).astype(np.float32)
    if kind == "alike":  # is stored byte by byte, compressed
        values = np.repeat(values[:1], rows, axis=0)
    validity = None if null_share == 0 else random.random(rows) >= null_share
    return Vector(ColumnType(Kind.VECTOR, width), values, validity)


@pytest.mark.parametrize("mode", MODES)
def test_balls_part_the_rows(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ball, "cut", run(ball.cut, mode))
    random = np.random.default_rng(0)
    for number in range(200):
        sizes = random.choice([1, 2, 5, 31, 32, 33, 64, 127, 128, 129, 133, 300], random.integers(1, 20))
        if number % 3 == 0:
            sizes[:] = random.integers(1, 200)
        row_start = np.concatenate([[0], np.cumsum(sizes)])
        rows, page_rows = int(row_start[-1]), int(random.choice([1, 2, 7, 100, 1024]))
        start = cut_balls(row_start, page_rows).tolist()
        assert (start[0], start[-1]) == (0, rows)
        assert set(range(0, rows, page_rows)) <= set(start)
        for first, stop in zip(start, start[1:], strict=False):
            assert 0 < stop - first <= 128
            inside = row_start[(row_start > first) & (row_start < stop)]
            if len(inside):  # several devices: none has as many rows as would be a ball of its own
                assert max(np.diff([first, *inside, stop])) < 32
                assert inside[-1] - first < 32
    assert cut_balls(np.array([0, 133, 266]), 8192).tolist() == [0, 67, 133, 200, 266]


@pytest.mark.parametrize("mode", MODES)
def test_every_vector_is_in_its_ball(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ball, "enclose", run(ball.enclose, mode))
    random = np.random.default_rng(1)
    for width, null_share in ((1, 0.0), (3, 0.3), (8, 0.95)):
        rows = column(random, 150, width, null_share)
        rows.values[70:75] *= np.float32(1e38)  # some beyond the range of a float
        rows.values[20, 0] = np.nan
        made = new_balls(cut_balls(np.array([0, 40, 150]), 64), rows.type)
        made.enclose(0, rows.take(slice(0, 64)))
        made.enclose(64, rows.take(slice(64, 150)))
        valid = rows.valid()
        for at, (first, stop) in enumerate(zip(made.start, made.start[1:], strict=False)):
            held = rows.values[first:stop][valid[first:stop]].astype(np.float64)
            if len(held) == 0:
                assert made.radius[at] == NO_VECTOR
            elif not np.isfinite(held).all():
                assert made.radius[at] == NO_BOUND
                assert not made.centroid[at].any()
            else:
                apart = np.sqrt(((held - made.centroid[at]) ** 2).sum(axis=1)).max()
                assert apart <= made.radius[at] <= apart * 1.001 + 1e-12


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["any", "alike"])
def test_vectors_in_place_are_those_that_were_written(mode: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("locate_dense", "read_dense"):
        monkeypatch.setattr(dense, name, run(getattr(dense, name), mode))
    random = np.random.default_rng(2)
    for page_rows in (4, 100, 1024):
        for null_share in (0.0, 0.3, 1.0):
            rows = column(random, 130 if mode == "python" else 2_100, 3, null_share, kind)
            pages = page_set(rows, page_rows)
            for starts, stops in ((np.array([0]), np.array([len(rows)])), ranges(random, len(rows))):
                found = open_vectors(pages, starts, stops)
                spans: list[Any] = [
                    np.zeros((count, 3), np.float32) if at < 0 else found.items[at : at + 3 * count].reshape(count, 3)
                    for at, count in zip(found.start.tolist(), found.rows.tolist(), strict=True)
                ]
                wanted = rows.take(rows_of(starts, stops))
                valid = wanted.valid()
                assert (np.concatenate(spans)[valid] == wanted.values[valid]).all()
                assert (np.ones(len(valid), np.bool_) if found.validity is None else found.validity).tolist() == valid.tolist()
    assert encode_chunk(column(random, 2_000, 3, 0.0, "alike"), 1024).page_compression.any()


def test_files_keep_balls_for_every_vector_column(tmp_path: Path) -> None:
    case = random_case(1, rows=700, fields=("VECTOR(2)", "DOUBLE", "VECTOR(5)"), rows_per_page=128)
    case.write(tmp_path / "a.tsf", threads=2)
    with TsFile(tmp_path / "a.tsf") as file:
        found = {field.name: file.balls(field.name) for field in file.schema.fields if field.type.kind is Kind.VECTOR}
        assert [balls.centroid.shape[1] for balls in found.values() if balls is not None] == [2, 5]
        for name, balls in found.items():
            assert balls is not None
            assert balls.start.tolist() == cut_balls(case.row_start, 128).tolist()
            whole = new_balls(cut_balls(case.row_start, 128), case.columns[name].type)
            whole.enclose(0, case.columns[name])
            assert balls.radius.tolist() == whole.radius.tolist()
