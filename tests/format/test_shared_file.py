"""Threads that share one open file: what is kept between reads never reaches another thread's rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from support.file_case import every_encoding_case, same_values
from tsdb_format.reader import TsFile

#: Three chunks of 1,024 rows, each with a dictionary of its own.
ROWS, ROWS_PER_PAGE = 3_072, 16


@pytest.mark.parametrize("name", ["words", "prose", "notes", "split", "blob"])
def test_threads_read_other_chunks_of_one_column(tmp_path: Path, name: str) -> None:
    case = every_encoding_case(ROWS, ROWS_PER_PAGE)
    case.write(tmp_path / "a.tsf")
    vector = case.columns[name]
    with TsFile(tmp_path / "a.tsf") as file:

        def read(turn: int) -> bool:
            start = turn % 12 * 256
            stop = min(start + 512 + turn % 3, ROWS)
            return same_values(file.read(name, np.array([start]), np.array([stop])), vector.take(slice(start, stop)))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(read, range(60)))
