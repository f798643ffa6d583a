"""Joins as people write them: native whatever the spelling and whatever stands above, with the keys of the small side pruning."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tsdb
from support.quiet import without_background

ROOMS = 50


@pytest.fixture(scope="module", params=[(4, "files"), (8192, "files"), (8192, "memory"), (8192, "both")])
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    """Readings of fifty rooms, with versions and deletes, and four devices."""
    page_rows, place = request.param
    opened = without_background(tsdb.open(tmp_path_factory.mktemp("rooms") / "db", threads=2))
    opened.sql(
        f"CREATE TABLE room (time TIMESTAMP_MS TIME, room STRING TAG, celsius DOUBLE, note STRING) WITH (page_rows = {page_rows})"
    )
    opened.sql("CREATE TABLE dev (time TIMESTAMP TIME, room STRING TAG, region STRING, n INT64, celsius INT32)")
    opened.sql("INSERT INTO dev SELECT TIMESTAMP '2024-01-01', 'r' || i, 'g' || i % 2, i, i FROM range(4) t(i)")
    for part in range(2):
        opened.sql(
            f"INSERT INTO room SELECT TIMESTAMP '2024-01-01' + i * INTERVAL 1 MINUTE, 'r' || (i % {ROOMS}), (i + {part}) % 37, "
            f"CASE WHEN i % 5 = 0 THEN 'n' || i END FROM range({part * 700}, {part * 700 + 1200}) t(i)"
        )
        if place == "files" or (place == "both" and part == 0):
            opened.flush()
    opened.sql("DELETE FROM room WHERE celsius = 11")
    yield opened
    opened.close()


def check(db: tsdb.Database, sql: str, parameters: list[object] | None = None) -> dict[str, Any]:
    """The counters; the rows and names are those with key filters off, with late materialization off, and DuckDB's."""
    found = db.sql(sql, parameters)
    rows, columns = found.fetchall(), found.columns
    assert rows
    ways: tuple[dict[str, object], ...] = (
        {"enable_join_key_filter": False}, {"enable_join_late_materialization": False}, {"enable_native_operators": False},
    )  # fmt: skip
    for way in ways:
        other = db.sql(sql, parameters, settings=way)
        assert sorted(map(repr, other.fetchall())) == sorted(map(repr, rows)), way
        assert other.columns == columns, way
    return found.stats


def plan(db: tsdb.Database, sql: str, parameters: list[object] | None = None) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN (VERBOSE) {sql}", parameters).fetchall())


#: Joins of the readings with four rooms or fewer.
SPELLINGS = [
    "SELECT owner, max(celsius) FROM room JOIN owners USING (room) GROUP BY owner",
    "SELECT owner, max(celsius) FROM room JOIN '{folder}/owners.parquet' USING (room) GROUP BY owner",
    "SELECT owner, max(celsius) FROM '{folder}/owners.csv' o JOIN room USING (room) GROUP BY owner",
    "SELECT p.owner, count(*) FROM room r JOIN read_parquet('{folder}/owners.parquet') AS p ON p.room = r.room GROUP BY ALL",
    "SELECT room.*, o.owner FROM room JOIN owners o ON o.room = room.room",
    "SELECT room.*, owner FROM room JOIN owners o USING (room)",
    "SELECT o.*, room.time, room.* FROM room JOIN owners o USING (room)",
    "SELECT * FROM room NATURAL JOIN owners",
    "SELECT * EXCLUDE (note, room) FROM owners NATURAL JOIN room",
    "SELECT o.* EXCLUDE (room), room.* EXCLUDE (note) FROM owners o JOIN room USING (room)",
    "SELECT t.* , celsius + 1, upper(owner) FROM room t JOIN owners USING (room)",
    "SELECT region, avg(t.celsius) FROM room t JOIN dev d ON t.room = d.room GROUP BY region",
    "SELECT region, avg(t.celsius) FROM room t CROSS JOIN dev d WHERE t.room = d.room GROUP BY region",
    (
        "SELECT region, avg(t.celsius) AS mean, count(*) AS c FROM room t JOIN dev d ON d.room = t.room WHERE d.n > 1 GROUP BY ALL "
        "HAVING count(*) > 3 ORDER BY mean DESC LIMIT 3"
    ),
    "SELECT region, avg(t.celsius) FROM room t, dev d WHERE t.room = d.room AND t.celsius + n > 4 GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM room t JOIN dev d USING (room)",
    "SELECT count(*) FROM room t JOIN dev d ON t.room = d.room AND t.celsius + d.n > 20",
    (
        "SELECT count(DISTINCT t.room), max(d.celsius) FROM room t JOIN dev d USING (room) WHERE t.time "
        "BETWEEN '2024-01-01' AND '2024-01-02'"
    ),
    "SELECT count(*) FROM room t JOIN (VALUES ('r1'), ('r7')) v(room) USING (room)",
    (
        "SELECT v.label, max(celsius) FROM (VALUES ('r1', 'one'), (NULL, 'none')) AS v(r, label), room WHERE "
        "room.room = v.r GROUP BY v.label"
    ),
    "SELECT count(*) FROM room t JOIN (SELECT room FROM dev WHERE n > 2 UNION ALL SELECT 'r9') v ON t.room = v.room",
    "SELECT m, count(*) FROM room t JOIN (SELECT room, max(n) * 2 FROM dev GROUP BY room) v(r, m) ON t.room = v.r GROUP BY m",
    "SELECT count(*) FROM room t JOIN (SELECT room, n % 2 AS odd FROM dev) v USING (room) WHERE v.odd = 1 AND t.celsius > 3",
    "WITH c AS (SELECT room, count(*) c FROM dev GROUP BY room) SELECT t.time, c FROM room t JOIN c USING (room)",
    (
        "WITH c AS (SELECT room, n * 2 AS m FROM dev), d AS (SELECT * FROM c WHERE m > 2) SELECT m, max(celsius) FROM room JOIN d "
        "USING (room) GROUP BY m"
    ),
    "WITH c AS (SELECT room FROM dev WHERE n = 1) SELECT count(*) FROM room t JOIN (SELECT room FROM c) q ON q.room = t.room",
    "SELECT last(t.celsius), first(note) FROM room t JOIN dev d ON t.room = d.room",
    "SELECT region, last(t.celsius) FROM room t JOIN dev d ON t.room = d.room GROUP BY region HAVING last(t.celsius) >= 0",
    (
        "SELECT t.room, row_number() OVER (PARTITION BY region ORDER BY t.time, t.room) AS rn FROM room t JOIN dev d "
        "ON t.room = d.room QUALIFY rn <= 2"
    ),
    (
        "SELECT region, sum(t.celsius) OVER w FROM room t JOIN dev d USING (room) WINDOW w AS (PARTITION BY "
        "d.region ORDER BY t.time, room)"
    ),
    "SELECT DISTINCT region FROM room t JOIN dev d ON t.room = d.room ORDER BY region",
    "SELECT DISTINCT ON (region) region, t.time FROM room t JOIN dev d ON t.room = d.room ORDER BY region, t.time DESC, t.room",
    "SELECT x.region, x.a FROM (SELECT region, avg(t.celsius) a FROM room t JOIN dev d USING (room) GROUP BY region) x WHERE a > 0",
    (
        "SELECT region FROM dev JOIN room USING (room) GROUP BY region UNION ALL SELECT owner FROM owners JOIN room USING (room) "
        "WHERE time < '2024-01-01 03:00:00'"
    ),
    (
        "SELECT date_trunc('hour', t.time) AS h, region, max(t.celsius) FROM room t JOIN dev d USING (room) GROUP BY h, region "
        "ORDER BY h, region LIMIT 4"
    ),
    "SELECT t.room || '!', max(t.celsius) FROM room t JOIN dev d USING (room) GROUP BY t.room",
    "SELECT upper(room), max(t.celsius) + 1 FROM room t JOIN dev d USING (room) GROUP BY room",
    (
        "SELECT max(t.celsius) FILTER (d.n > 1), coalesce(count(*), 0) FROM room t JOIN dev d USING (room) "
        "JOIN owners o ON o.room = d.room"
    ),
    "SELECT d.region, max(t.celsius) FROM dev d LEFT JOIN room t ON t.room = d.room AND t.celsius > 30 GROUP BY d.region",
    "SELECT avg(t.celsius) FROM room t JOIN dev d ON t.room = d.room WHERE t.room IN (SELECT room FROM owners)",
    "SELECT t.time, d.n FROM room t JOIN dev d ON t.room = d.room WHERE t.room IN (SELECT room FROM owners WHERE owner = 'ann')",
    "SELECT avg(t.celsius) FROM room t JOIN dev d ON t.room = d.room WHERE t.celsius > (SELECT avg(celsius) FROM room)",
    "SELECT count(*) FROM room t SEMI JOIN dev d ON t.room = d.room WHERE t.celsius > 1",
]  # fmt: skip


@pytest.mark.parametrize("sql", SPELLINGS)
def test_the_keys_of_the_small_side_prune_the_other(db: tsdb.Database, tmp_path: Path, sql: str) -> None:
    owners = pd.DataFrame({"room": ["r1", "r2", None], "owner": ["ann", "bob", "cid"]})
    owners.to_parquet(tmp_path / "owners.parquet")
    owners.to_csv(tmp_path / "owners.csv", index=False)
    sql = sql.format(folder=tmp_path)
    assert "HashJoin" in plan(db, sql)
    stats = check(db, sql)
    assert stats["devices_pruned_by_key_domain"] >= ROOMS - 4
    if stats["pages_total"] > 100:
        assert stats["pages_read"] < stats["pages_total"] // 2


def test_parameters_and_the_readme(db: tsdb.Database) -> None:
    owners = pd.DataFrame({"room": ["r1", "r2"], "owner": ["ann", "bob"]})
    since = datetime.datetime(2024, 1, 1, 5)
    for sql, parameters in (
        ("SELECT owner, max(celsius) FROM room JOIN owners USING (room) WHERE room.time > ? GROUP BY owner", [since]),
        (
            "SELECT owner, count(*) FROM room JOIN owners USING (room) WHERE celsius + $1 > $2 GROUP BY owner HAVING count(*) > $1",
            [1, 5],
        ),
        ("SELECT v.k, count(*) FROM room JOIN (VALUES ($1), ($2)) v(k) ON v.k = room.room GROUP BY v.k", ["r3", "r4"]),
    ):
        assert check(db, sql, parameters)["devices_pruned_by_key_domain"] >= ROOMS - 2
    assert len(owners) == 2


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT count(*) FROM room t FULL JOIN dev d USING (room)", "FULL joins are DuckDB's"),
        ("SELECT count(*) FROM room t ASOF JOIN dev d ON t.room = d.room AND t.time >= d.time", "ASOF joins are DuckDB's"),
        ("SELECT count(*) FROM dev a JOIN dev b ON a.n < b.n", "a side has no equality"),
        # a, which has the room too, is no side of the NATURAL join
        ("SELECT count(*) FROM dev a, (FROM dev SELECT n) b NATURAL JOIN (FROM dev SELECT n, room) v WHERE a.n = b.n", "a comma"),
        ("SELECT count(*) FROM dev a, dev b JOIN room v USING (room) WHERE a.n = b.n", "behind a comma"),
        ("SELECT count(*) FROM dev a JOIN room b ON a.n = b.celsius", "n and celsius are compared after a cast"),
        ("SELECT max(COLUMNS('n')) FROM dev a JOIN room b USING (room)", "gives names to what is no column"),
        ("SELECT a.room AS n, count(*) FROM dev a JOIN room b USING (room) GROUP BY a.room ORDER BY n", "n may mean"),
        ("SELECT count(*) FROM dev a JOIN room b USING (room) WHERE EXISTS (FROM dev c WHERE c.n = a.n)", "a subquery"),
        ("WITH r AS (SELECT 'r' || (random() * 3)::INT r) SELECT 1 FROM room JOIN r ON r.r = room WHERE room IN (FROM r)", "r"),
    ],
)  # fmt: skip
def test_what_is_left_to_duckdb_and_why(db: tsdb.Database, sql: str, reason: str) -> None:
    shown = plan(db, sql)
    assert "HashJoin" not in shown
    assert any(line.startswith("-- hash_join: ") and reason in line for line in shown.splitlines()), shown
    if "random" not in sql:
        check(db, sql)


def test_a_side_that_differs_each_time_is_computed_once(db: tsdb.Database) -> None:
    """A table of a WITH that two ask for is DuckDB's, unless both get the same rows anyway."""
    chosen = (
        "WITH r AS (SELECT room, {what} AS x FROM dev) SELECT count(*) FROM room JOIN r USING (room) WHERE x IN (SELECT x FROM r)"
    )
    (many,) = db.sql(chosen.format(what="random()")).fetchall()[0]
    assert many == db.sql("SELECT count(*) FROM room JOIN dev USING (room)").fetchall()[0][0]
    assert "HashJoin" in plan(db, chosen.format(what="n + 1"))
    once = "SELECT count(*) FROM room t JOIN (SELECT room, random() AS x FROM dev) r USING (room) WHERE r.x >= 0"
    assert db.sql(once).fetchall() == [(many,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM dev a LEFT JOIN owners o USING (room) LEFT JOIN room c ON c.celsius = a.n + 0.0 AND c.room = a.room",
        "SELECT * FROM dev a LEFT JOIN owners o USING (room) LEFT JOIN dev c ON c.n = a.n",
        "SELECT * FROM dev a JOIN owners o USING (room) JOIN dev c USING (room)",
        "SELECT room, count(*) FROM dev a JOIN owners o USING (room) JOIN room c USING (room) GROUP BY room",
        "SELECT upper(a.room), o.* FROM dev a JOIN owners o USING (room) JOIN dev c ON c.n = a.n",
        "SELECT o.*, n FROM dev RIGHT JOIN owners o USING (room)",
        "SELECT * FROM dev a RIGHT JOIN owners o ON o.room = a.room AND a.n < 2",
        "SELECT owner, count(n) FROM dev RIGHT JOIN owners USING (room) GROUP BY owner",
    ],
)
def test_columns_that_using_makes_one(db: tsdb.Database, sql: str) -> None:
    owners = pd.DataFrame({"room": ["r1", "r2", None, "r9"], "owner": ["ann", "bob", "cid", "dot"]})
    check(db, sql)
    assert len(owners) == 4


def test_a_statement_keeps_its_threads_while_it_runs(db: tsdb.Database) -> None:
    """DuckDB waits for a join that asks DuckDB for the rows of a frame, after another statement has chosen other threads."""
    owners = pd.DataFrame({"room": ["r1", "r2"], "owner": ["ann", "bob"]})
    sql = "SELECT owner, count(*) FROM room JOIN owners USING (room) GROUP BY owner ORDER BY owner"
    results = [db.sql(sql, settings={"threads": threads}) for threads in (1, 2, 1, 2)]
    first = results[0].fetchall()
    assert all(result.fetchall() == first for result in results[1:])
    assert len(first) == len(owners)


def test_a_reader_is_read_once(db: tsdb.Database) -> None:
    import pyarrow as pa

    reader = pa.table({"room": ["r1", "r2"], "w": [1.5, 2.5]}).to_reader()
    found = db.sql("SELECT w, count(*) FROM room JOIN reader USING (room) GROUP BY w ORDER BY w").fetchall()
    assert [w for w, _ in found] == [1.5, 2.5]
    assert reader is not None
