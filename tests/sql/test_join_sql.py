"""Joins of random tables: natively, not natively, with and without late materialization and key filters, and by DuckDB."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import tsdb
from support.quiet import without_background

KEY_TYPES = ("INT32", "INT64", "STRING", "DOUBLE", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP")
VALUES: dict[str, list[str]] = {
    "INT32": ["0", "1", "2", "-1", "2147483647", "NULL"],
    "INT64": ["0", "1", "2", "-1", "9223372036854775807", "NULL"],
    "STRING": ["''", "'a'", "'b'", "'ab'", "'a key of more than sixteen bytes'", "NULL"],
    "DOUBLE": ["0.0", "-0.0::DOUBLE", "1.5", "'nan'::DOUBLE", "'inf'::DOUBLE", "NULL"],
    "FLOAT": ["0.0::FLOAT", "-0.0::FLOAT", "1.5::FLOAT", "'nan'::FLOAT", "NULL"],
    "BOOLEAN": ["true", "false", "NULL"],
    "DATE": ["DATE '2024-01-01'", "DATE '1969-12-31'", "NULL"],
    "TIMESTAMP": ["TIMESTAMP '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00.000001'", "NULL"],
    "BLOB": ["''::BLOB", "'x'::BLOB", "'some bytes'::BLOB", "'a longer payload than most'::BLOB", "NULL"],
    "VECTOR(2)": ["[1.0, 2.0]::FLOAT[2]", "[0.5, -1.0]::FLOAT[2]", "NULL"],
}
ON = (
    "ON a.k = b.k", "ON b.k = a.k AND a.l = b.l", "USING (k)", "ON a.l = b.l AND a.n < b.n", "ON a.l = b.l AND b.n > 7",
    "ON a.k = b.k AND a.n > 5", "ON a.time = b.time", "ON a.k = b.k AND a.host <> b.host",
)  # fmt: skip
#: The ways to ask for the same rows.
WAYS: tuple[dict[str, object], ...] = (
    {},
    {"enable_join_late_materialization": False},
    {"enable_join_key_filter": False},
    {"enable_native_operators": False},
    {"threads": 2},
)


def plain(value: Any) -> Any:
    """A value that compares as text does: NaN is itself."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value + 0.0)
    return repr(tuple(value) if isinstance(value, list) else value)


class Tables:
    """Random tables a, b and c, in tsdb and in DuckDB."""

    def __init__(self, folder: Path, seed: int, *, page_rows: int, place: str) -> None:
        self.random = random.Random(seed)
        self.db = without_background(tsdb.open(folder / "db", threads=1))
        self.duck = duckdb.connect(config={"threads": 1})
        self.keys = [self.random.choice(KEY_TYPES) for _ in range(2)]
        for name in "abc":
            self._create(name, page_rows)
            for part in range(3):
                self._write(name, self.random.choice((0, 3, 12, 30)))
                if place == "files" or (place == "split" and part < 2):
                    self.db.flush()
            if self.random.random() < 0.6:
                self.db.sql(f"DELETE FROM {name} WHERE n % 5 = {self.random.randrange(5)}")
            self.duck.register("copied", self.db.sql(f"SELECT * FROM {name}", settings={"enable_native_operators": False}).arrow())
            self.duck.execute(f"CREATE TABLE {name} AS FROM copied")

    def _create(self, name: str, page_rows: int) -> None:
        tag = "TAG" if self.keys[0] in ("INT32", "INT64", "STRING", "BOOLEAN") and self.random.random() < 0.6 else "FIELD"
        self.db.sql(
            f"CREATE TABLE {name} (time TIMESTAMP TIME, host STRING TAG, k {self.keys[0]} {tag}, l {self.keys[1]}, n INT32, "
            f"x DOUBLE, image BLOB WITH (blob_inline_max = 5, blob_packed_max = 15), v VECTOR(2)) WITH (page_rows = {page_rows})"
        )

    def _write(self, name: str, count: int) -> None:
        rows = []
        for _ in range(count):
            cells = [
                f"TIMESTAMP '2024-01-01' + INTERVAL {self.random.randrange(12)} MINUTE", self.random.choice(("'a'", "'b'", "NULL")),
                *(self.random.choice(VALUES[kind]) for kind in self.keys), str(self.random.randrange(40)),
                self.random.choice(("0.5", "1.5", "NULL")), *(self.random.choice(VALUES[kind]) for kind in ("BLOB", "VECTOR(2)")),
            ]  # fmt: skip
            rows.append(f"({', '.join(cells)})")
        if rows:
            self.db.sql(f"INSERT INTO {name} VALUES {', '.join(rows)}")

    def query(self) -> str:
        """A random join."""
        pick = self.random.choice
        kind = pick(("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN", "ANTI JOIN"))
        on = pick(ON)
        left_only = kind in ("SEMI JOIN", "ANTI JOIN")
        items = ["a.n", "a.image", "a.time", "a.host", "a.l", "a.v"]
        items += [] if left_only else ["b.n", "b.image", "b.x", "b.v", "b.k AS bk"]
        if self.random.random() < 0.25:
            items += ["a.n * 2 + 1", "octet_length(a.image)", "upper(a.host) AS loud"] + ([] if left_only else ["a.n - b.n"])
        chosen = self.random.sample(items, self.random.randrange(1, len(items)))
        text = f"SELECT {pick(('*', ', '.join(chosen), ', '.join(chosen)))} FROM a {kind} b {on}"
        if not left_only and self.random.random() < 0.4:
            text = text.replace("SELECT *", "SELECT a.n, b.image, c.image AS third")
            text += pick((" JOIN c ON c.k = a.k", " LEFT JOIN c ON c.l = b.l", " JOIN c ON c.n = b.n AND c.host = a.host"))
        conditions = ["a.n > 10", "a.host = 'a'", "a.time >= '2024-01-01 00:05:00'", "a.image IS NOT NULL"]
        if not left_only:
            conditions += ["b.n < 30", "b.x IS NULL", "a.n <> b.n"]
        where = self.random.sample(conditions, self.random.randrange(0, 3))
        text += f" WHERE {' AND '.join(where)}" if where else ""
        if self.random.random() < 0.3:
            text = text.replace(" FROM a ", " FROM (SELECT * FROM a WHERE n <> 12) AS a ")
        if self.random.random() < 0.3:
            text = f"WITH chosen AS (SELECT x, k, l, time, host, image, v, n FROM b WHERE n < 35) {text}"
            text = text.replace("JOIN b ", "JOIN chosen b ")
        return text

    def close(self) -> None:
        self.db.close()
        self.duck.close()


def rows(result: Any) -> list[tuple[Any, ...]]:
    return [tuple(map(plain, row)) for row in result.fetchall()]


@pytest.mark.parametrize("place", ["files", "memory", "split"])
@pytest.mark.parametrize("page_rows", [4, 8192])
@pytest.mark.parametrize("seed", range(2))
def test_random_joins(tmp_path: Path, seed: int, page_rows: int, place: str) -> None:
    tables = Tables(tmp_path, seed * 100 + page_rows + len(place), page_rows=page_rows, place=place)
    native = 0
    for _ in range(12):
        sql = tables.query()
        relation = tables.duck.sql(sql)
        expected = sorted(rows(relation))
        answers = [tables.db.sql(sql, settings=way) for way in WAYS]
        found = [rows(answer) for answer in answers]
        for way, answer, held in zip(WAYS, answers, found, strict=True):
            assert answer.columns == answers[3].columns, (sql, way)
            assert sorted(held) == expected, (sql, way)
        if not any("HashJoin" in line for (line,) in tables.db.sql(f"EXPLAIN {sql}").fetchall()):
            continue
        native += 1
        assert found[0] == found[1] == found[2] == found[4], sql  # the order, too
        ordered = f"{sql} ORDER BY {'a.n DESC, b.n' if 'b.n' in sql.partition(' FROM ')[0] else 'a.n'} LIMIT 5 OFFSET 1"
        limited = [rows(tables.db.sql(ordered, settings=way)) for way in WAYS if way.get("enable_native_operators", True)]
        assert all(some == limited[0] for some in limited), ordered
        assert set(limited[0]) <= set(expected)
        assert len(limited[0]) == max(min(len(expected) - 1, 5), 0)
    assert native >= 5
    tables.close()


def test_lists_that_compute_over_joins_with_frames(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db", threads=2) as db:
        db.sql("CREATE TABLE t (time TIMESTAMP TIME, k INT64, image BLOB)")
        db.sql("INSERT INTO t SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 SECOND, i, ('i' || i)::BLOB FROM range(5000) r(i)")
        mine = pd.DataFrame({"k": [5, 7, 7, -1], "w": [1.5, 2.5, 3.5, 4.5]})
        for sql in (
            "SELECT t.k + 1 AS next, octet_length(t.image), m.w * 2 FROM mine m JOIN t ON t.k = m.k",
            "SELECT coalesce(t.k, 0), m.w FROM mine m LEFT JOIN t ON t.k = m.k",
            "SELECT t.k, m.w AS weight, t.image || 'x'::BLOB FROM t JOIN mine m ON t.k = m.k ORDER BY m.w DESC LIMIT 2",
        ):
            found, expected = (db.sql(sql, settings={"enable_native_operators": native}) for native in (True, False))
            assert found.columns == expected.columns
            assert sorted(map(str, found.fetchall())) == sorted(map(str, expected.fetchall()))
            assert any("HashJoin" in line for (line,) in db.sql(f"EXPLAIN {sql}").fetchall())
        assert len(mine) == 4
