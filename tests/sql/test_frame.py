"""Results as pandas and polars frames: the same values, and NULL where there is none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import tsdb

CREATE = (
    "CREATE TABLE t (time TIMESTAMP_MS TIME, host STRING TAG, "
    "s STRING FIELD, i INT64 FIELD, f DOUBLE FIELD, b BOOLEAN FIELD, d DATE FIELD)"
)


def test_nulls_of_every_type_in_frames(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "x.db") as db:
        db.sql(CREATE)
        db.sql("INSERT INTO t VALUES ('2026-01-01', 'a', 'x', 1, 1.5, true, DATE '2026-01-01')")
        db.sql("INSERT INTO t (time, host) VALUES ('2026-01-02', 'a')")
        frame = db.sql("SELECT s, i, f, b, d FROM t ORDER BY time").df()
        assert frame.isna().to_numpy().tolist() == [[False] * 5, [True] * 5]
        assert frame.iloc[0].tolist() == ["x", 1, 1.5, True, pd.Timestamp("2026-01-01")]
        assert db.sql("SELECT s, i, f, b, d FROM t ORDER BY time").pl().null_count().row(0) == (1, 1, 1, 1, 1)
        whole = db.sql("SELECT s, i FROM t WHERE s IS NOT NULL ORDER BY time").df()
        assert whole.to_dict("list") == {"s": ["x"], "i": [1]}
