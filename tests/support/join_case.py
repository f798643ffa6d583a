"""Random tables for joins, in tsdb and in DuckDB, and random questions about them."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import duckdb

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


#: Joins, whatever stands above them: kinds, conditions, sides, and what is made of the rows.
KINDS = ("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN")
MORE_ON = (*ON, "ON a.k = b.k AND a.n + b.n > 20", "ON a.k = b.k AND (a.n > 3 OR b.n < 30)")
_COLUMNS = "host, k, l, n, x, time, image, v"
SIDES = (
    "b",
    "(SELECT * FROM b WHERE n < 35) b",
    f"(SELECT {_COLUMNS} FROM b UNION ALL SELECT {_COLUMNS} FROM c) b",
    (
        "(SELECT k, l, host, max(n) AS n, max(x) AS x, min(time) AS time, max(image) AS image, NULL::FLOAT[2] AS v FROM b "
        "GROUP BY k, l, host) b"
    ),
)
LEFT_CONDITIONS = (
    "a.n > 10", "a.host = 'a'", "a.time >= '2024-01-01 00:05:00'", "a.image IS NOT NULL", "a.n % 3 = 1", "a.n BETWEEN 5 AND 30",
    "a.k IN (SELECT k FROM c WHERE n < 20)", "a.n > (SELECT avg(n) FROM c)",
)  # fmt: skip
CONDITIONS = (*LEFT_CONDITIONS, "b.n < 30", "b.x IS NULL", "a.n <> b.n", "b.l IN (SELECT l FROM c)", "a.n + b.n > 10")
LEFT_CALLS = ("count(*)", "max(a.n)", "sum(a.n)", "count(DISTINCT a.host)", "min(a.image)", "avg(a.x)", "count(a.image)")
CALLS = (*LEFT_CALLS, "max(b.n)", "count(b.x)", "sum(a.n * b.n)", "first(b.n ORDER BY b.n)")
LEFT_GROUPS = ("a.host", "a.n % 3", "a.l")
LEFT_STARS = ("a.*", "*", "a.* EXCLUDE (time)")
STARS = (*LEFT_STARS, "a.*, b.n", "b.*", "* EXCLUDE (x)", "b.*, a.host", "a.* EXCLUDE (k), b.v")


def joined_below(choose: random.Random) -> str:
    """A random SELECT over a join."""
    kind, on = choose.choice(KINDS), choose.choice(MORE_ON)
    left_only = kind in ("SEMI JOIN", "ANTI JOIN")
    where = choose.sample(LEFT_CONDITIONS if left_only else CONDITIONS, choose.randrange(3))
    if kind == "CROSS JOIN":
        on = ""
        where.append(choose.choice(("a.k = b.k", "a.l = b.l AND a.host = b.host")))
    items, tail = _above(choose, left_only)
    text = f"SELECT {items} FROM a {kind} {choose.choice(SIDES)} {on}"
    if not left_only and choose.random() < 0.25:
        text += choose.choice((" JOIN c ON c.k = a.k", " LEFT JOIN c ON c.l = b.l"))
    text += f" WHERE {' AND '.join(where)}" if where else ""
    text += tail
    if choose.random() < 0.2 and "*" not in items:
        text = f"SELECT count(*), max(q) FROM (SELECT 1 AS q, z.* FROM ({text}) z)"
    if choose.random() < 0.15:
        text = f"WITH w AS (SELECT * FROM b WHERE n > 3) {text.replace(' b ON', ' w b ON')}"
    return text


def _above(choose: random.Random, left_only: bool) -> tuple[str, str]:
    """A select list, and what follows the conditions."""
    other = "a.host" if left_only else "b.n"
    match choose.choice(("group", "total", "window", "distinct", "plain", "star")):
        case "group":
            groups = choose.sample(LEFT_GROUPS if left_only else (*LEFT_GROUPS, "b.host", "b.n"), choose.randrange(1, 3))
            by = choose.choice((", ".join(groups), "ALL"))
            items = [*groups, *choose.sample(LEFT_CALLS if left_only else CALLS, 2)]
            return ", ".join(items), f" GROUP BY {by}{choose.choice(('', ' HAVING count(*) > 1'))}"
        case "total":
            return ", ".join(choose.sample(LEFT_CALLS if left_only else CALLS, 3)), ""
        case "window":
            return f"a.n, {other}, count(*) OVER (PARTITION BY a.host), max(a.n) OVER w AS most", " WINDOW w AS (PARTITION BY a.l)"
        case "distinct":
            return "DISTINCT a.host, a.n % 4 AS m", ""
        case "star":
            return choose.choice(LEFT_STARS if left_only else STARS), ""
    return f"a.n + 1, upper(a.host), {other} AS other", ""
