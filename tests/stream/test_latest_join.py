"""Live LATEST JOINs by kind: shapes of keys and sides, every fallback with history that matches, caps, and how one ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.quiet import without_background
from tsdb.stream.feed import Feed
from tsdb.stream.live import result_of
from tsdb_format.errors import InvalidInput

ON = {"seek_to": "earliest", "enable_streaming_join_key_domain_pushdown": True}
OFF = {"seek_to": "earliest"}
KEYS = 40
ROWS = 20
BUILT, PUSHED = "StreamingJoinKeyDomainBuilt", "StreamingJoinKeyDomainStorageFilterPushed"


@pytest.fixture(params=["files", "memory", "both"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tsdb.Database]:
    """Facts of 40 keys, and mappings of entity 7 to two of them."""
    opened = without_background(tsdb.open(tmp_path / "db", durability="off", threads=2))
    opened.sql(
        "CREATE TABLE facts (time TIMESTAMP_NS TIME, k INT64 TAG, s STRING, part INT32, d DOUBLE, at TIMESTAMP_NS, v INT64) "
        "WITH (mode = 'append', page_rows = 16)"
    )
    opened.sql(
        "CREATE TABLE mapping (time TIMESTAMP_NS TIME, entity INT64, k INT64, s STRING, part INT32, d DOUBLE, label STRING) "
        "WITH (mode = 'append')"
    )
    add_facts(opened, range(KEYS // 2), 0)
    if request.param == "both":
        opened.flush()
    add_facts(opened, range(KEYS // 2, KEYS), 1_000)
    add_mapping(opened, [(7, 3, "three"), (7, 30, "thirty"), (8, 5, "five")])
    if request.param == "files":
        opened.flush()
    yield opened
    opened.close()


def add_facts(db: tsdb.Database, keys: Any, at: int) -> None:
    rows = [(at + i * 7 + k, k, f"s{k}", k % 2, float(k), k, at * 100 + k * ROWS + i) for i in range(ROWS) for k in keys]
    columns = ("time", "k", "s", "part", "d", "at", "v")
    db.write("facts", {name: [row[i] for row in rows] for i, name in enumerate(columns)})


def add_mapping(db: tsdb.Database, rows: list[tuple[int, int | None, str]]) -> None:
    add_mapping.time += 10  # type: ignore[attr-defined]
    at = add_mapping.time  # type: ignore[attr-defined]
    db.write(
        "mapping",
        {
            "time": [at + i for i in range(len(rows))],
            "entity": [entity for entity, _, _ in rows],
            "k": [k for _, k, _ in rows],
            "s": [None if k is None else f"s{k}" for _, k, _ in rows],
            "part": [None if k is None else k % 2 for _, k, _ in rows],
            "d": [None if k is None else float(k) for _, k, _ in rows],
            "label": [label for _, _, label in rows],
        },
    )


add_mapping.time = 0  # type: ignore[attr-defined]


def history(db: tsdb.Database, sql: str, settings: dict[str, Any], parameters: Any = None) -> tuple[list[Any], dict[str, Any]]:
    """What a live query gives of what is there, up to where it begins to wait: of a bounded join as many rows as that has."""
    rows: list[Any] = []
    with db.stream(sql, parameters, settings=settings) as live:
        for made in live._outputs:
            rows += result_of(live._stage, made, live._settings).fetchall() if made else []
            position = live._pipeline.position
            assert position is not None
            if position["bound"] is None:
                break
        assert len(rows) == len(db.sql(sql, parameters).fetchall())
        return rows, live.stats


def take(live: Iterator[tsdb.Result], count: int) -> list[Any]:
    """The next ``count`` rows, which end with a batch."""
    rows: list[Any] = []
    while len(rows) < count:
        rows += next(live).fetchall()
    assert len(rows) == count
    return rows


def same(db: tsdb.Database, sql: str, parameters: Any = None, **settings: object) -> dict[str, Any]:
    """The counters with pushdown; the rows are those without it, in the same order, and those of the bounded query."""
    on, stats = history(db, sql, {**ON, **settings}, parameters)
    off, plain = history(db, sql, OFF, parameters)
    assert on == off
    assert sorted(map(repr, on)) == sorted(map(repr, db.sql(sql, parameters).fetchall()))
    assert plain[BUILT] == 0
    return stats


JOIN = "SELECT f.k, f.v, m.label FROM facts f INNER LATEST JOIN (SELECT k, label FROM mapping WHERE entity = 7) m ON f.k = m.k"


def test_keys_leave_devices_out(db: tsdb.Database) -> None:
    stats = same(db, JOIN)
    assert (stats[BUILT], stats[PUSHED], stats["stream_history_rows"]) == (1, 1, 2 * ROWS)
    assert stats["devices_pruned_by_key_domain"] == KEYS - 2
    assert stats["StreamingJoinKeyDomainPrimaryKeyPruned"] == 1
    assert stats["streaming_join_key_domain_pushdown"] == "pushed: 2 keys of k as points"


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.s = m.s", id="field"),
        pytest.param("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.k = m.k AND f.s = m.s", id="composite"),
        pytest.param("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON m.part = f.part AND f.k = m.k", id="other order"),
        pytest.param("SELECT f.v FROM facts f INNER LATEST JOIN mapping USING (k)", id="using"),
        pytest.param("SELECT x FROM (SELECT k AS kk, v AS x FROM facts) f INNER LATEST JOIN mapping m ON f.kk = m.k", id="renamed"),
        pytest.param(
            "SELECT f.v, n FROM facts f INNER LATEST JOIN (SELECT k AS n FROM mapping) m ON f.k = m.n", id="renamed on the right"
        ),
        pytest.param(
            "WITH m AS (SELECT k, label FROM mapping) SELECT v, label FROM facts f INNER LATEST JOIN m ON f.k = m.k", id="CTE"
        ),
        pytest.param(
            "WITH f AS (SELECT k, v FROM facts) SELECT v, label FROM f INNER LATEST JOIN mapping m ON f.k = m.k",
            id="CTE on the left",
        ),
        pytest.param("SELECT upper(m.label) || f.v AS t FROM facts f INNER LATEST JOIN mapping m ON f.k = m.k", id="expressions"),
        pytest.param("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.k = m.k WHERE m.label <> 'five'", id="right WHERE"),
    ],
)
def test_shapes_are_pushed(db: tsdb.Database, sql: str) -> None:
    stats = same(db, sql)
    assert stats[BUILT] == 1, stats["streaming_join_key_domain_pushdown"]
    assert stats["stream_history_rows"] == 3 * ROWS


def test_conditions_of_the_left_side(db: tsdb.Database) -> None:
    for sql in (
        "SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.k = m.k WHERE f.v > 70",
        "SELECT f.v FROM (SELECT k, v FROM facts WHERE v > 70) f INNER LATEST JOIN mapping m ON f.k = m.k",
    ):
        assert same(db, sql)[BUILT] == 1
        stats = same(db, sql, enable_streaming_join_key_domain_through_filters=False)
        assert stats[BUILT] == 0
        assert "condition" in stats["streaming_join_key_domain_pushdown"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        pytest.param("SELECT f.v FROM facts f LEFT LATEST JOIN mapping m ON f.k = m.k", "LEFT", id="left"),
        pytest.param("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.d = m.d", "float", id="float"),
        pytest.param("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.part = m.k", "INT32", id="types"),
        pytest.param(
            "SELECT f.v, upper(m.l) AS u FROM facts f INNER LATEST JOIN (SELECT k + 0 AS k, lower(label) AS l FROM mapping WHERE "
            "length(label) > 4) m ON f.k = m.k",
            "more than columns",
            id="computed",
        ),
        pytest.param(
            "SELECT f.v FROM facts f INNER LATEST JOIN (SELECT k, now() AS at FROM mapping) m ON f.k = m.k",
            "time at",
            id="process time",
        ),
        pytest.param(
            "SELECT f.v FROM facts f INNER LATEST JOIN (SELECT k FROM mapping WHERE time < now()) m ON f.k = m.k",
            "time at which",
            id="now",
        ),
    ],
)
def test_fallbacks_give_the_history(db: tsdb.Database, sql: str, reason: str) -> None:
    stats = same(db, sql)
    assert stats[BUILT] == stats["devices_pruned_by_key_domain"] == stats["pages_pruned_by_key_domain"] == 0
    assert reason in stats["streaming_join_key_domain_pushdown"]
    assert reason in "\n".join(line for (line,) in db.sql(f"EXPLAIN {sql}", settings=ON).fetchall())


def test_a_null_key_is_no_partner_and_no_domain(db: tsdb.Database) -> None:
    add_mapping(db, [(7, None, "nobody")])
    stats = same(db, JOIN)
    assert stats[BUILT] == 0
    assert "NULL" in stats["streaming_join_key_domain_pushdown"]


def test_caps_turn_all_of_it_off(db: tsdb.Database) -> None:
    for cap, value, built in (
        ("max_rows", 1, 0),
        ("max_rows", 2, 1),
        ("max_bytes", 15, 0),
        ("max_bytes", 16, 1),
        ("max_bytes", 0, 1),
    ):
        stats = same(db, JOIN, **{f"streaming_join_key_domain_pushdown_{cap}": value})
        assert (stats[BUILT], stats["stream_history_rows"]) == ((1, 2 * ROWS) if built else (0, KEYS * ROWS)), (cap, value)


def test_forms(db: tsdb.Database) -> None:
    for points_max, form in ((0, "set"), (1, "set"), (2, "points")):
        stats = same(db, JOIN, streaming_join_key_domain_pushdown_disjunctive_filter_max_rows=points_max)
        assert stats["streaming_join_key_domain_pushdown"].endswith(form)
        assert stats["stream_history_rows"] == 2 * ROWS
    stats = same(db, JOIN, streaming_join_key_domain_pushdown_max_rows=1, enable_streaming_join_key_domain_bloom_filter=True)
    assert stats["streaming_join_key_domain_pushdown"].endswith("bloom")
    assert stats["stream_history_rows"] < KEYS * ROWS


def test_history_from_a_time_on_tells_what_was_done(db: tsdb.Database) -> None:
    """ROWS come of key 3 and of key 30, some of them earlier than the time."""
    seek = {"seek_to": "1970-01-01 00:00:00.000001"}
    with db.stream(JOIN, settings={**ON, **seek}) as live, db.stream(JOIN, settings=seek) as plain:
        rows, stats = take(live, ROWS), live.stats
        assert (take(plain, ROWS), plain.stats[BUILT], {row[0] for row in rows}) == (rows, 0, {30})
    assert (stats[BUILT], stats[PUSHED]) == (1, 1)
    assert str(stats["streaming_join_key_domain_pushdown"]).startswith("pushed: 2 keys of k")


def test_an_empty_right_side_reads_no_history_and_serves_what_comes(db: tsdb.Database) -> None:
    sql = JOIN.replace("entity = 7", "entity = 9")
    for settings in (ON, OFF):
        with db.stream(sql, settings=settings) as live:
            add_mapping(db, [(9, 4, "four")])
            add_facts(db, [4], 5_000)
            add_mapping(db, [(9, 4, "newer")])
            assert {(k, label) for k, _, label in next(live).fetchall()} == {(4, "four")}
            if settings is ON:
                assert (live.stats[BUILT], live.stats["stream_history_rows"]) == (1, 0)
        db.sql("DELETE FROM mapping WHERE time >= make_timestamp_ns(0)")


def test_what_comes_is_never_filtered(db: tsdb.Database) -> None:
    with db.stream(JOIN, settings=ON) as live:
        take(live, 2 * ROWS)
        add_facts(db, [11, 12], 6_000)  # no partner yet
        add_mapping(db, [(7, 12, "twelve")])
        add_facts(db, [11, 12], 7_000)
        assert {(k, label) for k, _, label in next(live).fetchall()} == {(12, "twelve")}


def test_a_table_on_the_right_as_it_is_now(db: tsdb.Database) -> None:
    sql = JOIN.replace("FROM mapping", "FROM table(mapping)")
    assert same(db, sql)[BUILT] == 1
    with db.stream(sql, settings=ON) as live:
        take(live, 2 * ROWS)
        add_mapping(db, [(7, 5, "later")])
        add_facts(db, [3, 5], 8_000)
        assert {(k, label) for k, _, label in take(live, ROWS)} == {(3, "three")}


def test_deletes_take_the_key_and_no_older_row_comes_back(db: tsdb.Database) -> None:
    with db.stream(JOIN, settings={"seek_to": "latest"}) as live:
        add_facts(db, [3], 9_000)
        add_mapping(db, [(7, 3, "newer three")])
        assert len(take(live, ROWS)) == ROWS
        add_facts(db, [3], 10_000)
        db.sql(f"DELETE FROM mapping WHERE time = make_timestamp_ns({add_mapping.time})")  # type: ignore[attr-defined]
        add_facts(db, [3], 11_000)
        add_facts(db, [30], 11_000)
        labels = [label for _, _, label in take(live, 2 * ROWS)]
        assert labels == ["newer three"] * ROWS + ["thirty"] * ROWS


def test_joins_of_joins(db: tsdb.Database) -> None:
    db.sql("CREATE TABLE names (time TIMESTAMP_NS TIME, label STRING, name STRING) WITH (mode = 'append')")
    db.write("names", {"time": [1, 2, 3], "label": ["three", "five", "three"], "name": ["III", "V", "iii"]})
    joined = "facts f INNER LATEST JOIN mapping m ON f.k = m.k INNER LATEST JOIN names n ON m.label = n.label"
    sql = f"SELECT f.k, f.v, n.name FROM {joined}"
    on, stats = history(db, sql, ON)
    off, _ = history(db, sql, OFF)
    assert on == off
    assert len(on) == 2 * ROWS
    assert stats[BUILT] == 1, stats["streaming_join_key_domain_pushdown"]


def test_a_table_with_itself(db: tsdb.Database) -> None:
    sql = "SELECT a.v, b.v FROM facts a INNER LATEST JOIN facts b ON a.k = b.k"
    with db.stream(sql, settings={"seek_to": "latest"}) as live:
        add_facts(db, [3], 20_000)
        pairs = next(live).fetchall()
        assert len({right for _, right in pairs}) == 1, "right rows of a commit come before its left rows"
        assert {right for _, right in pairs} <= {left for left, _ in pairs}


@pytest.mark.parametrize("kind", ["INNER LATEST", "LEFT LATEST", "ASOF", "ASOF LEFT"])
@pytest.mark.parametrize("right", ["mapping", "(SELECT k, time, entity, upper(label) AS label FROM mapping)"])
def test_what_duckdb_computes_above_a_join(db: tsdb.Database, kind: str, right: str) -> None:
    later = " AND f.time >= m.time" if kind.startswith("ASOF") else ""
    for condition in ("f.v % 3 > 0", "m.entity + f.v > 20", "m.label IS NULL OR length(m.label) > 4"):
        sql = f"SELECT f.v, m.label FROM facts f {kind} JOIN {right} m ON f.k = m.k{later} WHERE {condition}"
        same(db, sql)
    with pytest.raises(InvalidInput, match="LEFT JOIN with the live table on its right side"):
        db.stream(f"SELECT g.v, j.v FROM table(facts) g LEFT JOIN ({sql}) j ON g.v = abs(j.v)")


@pytest.mark.parametrize("kind", ["INNER LATEST", "LEFT LATEST", "ASOF", "ASOF LEFT"])
def test_what_duckdb_computes_above_a_join_with_itself(db: tsdb.Database, kind: str) -> None:
    later = " AND a.time >= b.time" if kind.startswith("ASOF") else ""
    sql = f"SELECT a.v, b.v FROM facts a {kind} JOIN facts b ON a.k = b.k{later} WHERE (a.v + b.v) % 3 > 0"
    same(db, sql)
    assert history(db, sql, OFF)[0]
    with pytest.raises(InvalidInput, match="LEFT JOIN with the live table on its right side"):
        db.stream(f"SELECT g.v FROM table(facts) g LEFT JOIN (SELECT a.v FROM ({sql}) a) j ON g.v = abs(j.v)")


def test_refusals(db: tsdb.Database) -> None:
    for sql, message in (
        ("SELECT count(*) FROM facts f INNER LATEST JOIN mapping m ON f.k = m.k", "needs all rows"),
        ("SELECT f.v FROM table(facts) f INNER LATEST JOIN mapping m ON f.k = m.k", "left side is not live"),
        ("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.k = m.k OR f.s = m.s", "equalities"),
        ("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.k < m.k", "equalities"),
        ("SELECT f.v FROM facts f INNER LATEST JOIN mapping m ON f.k = m.s", "keys of one type: k and s"),
        ("SELECT f.v FROM facts f INNER LATEST JOIN (SELECT max(k) AS k FROM mapping) m ON f.k = m.k", "right side"),
        ("SELECT f.v FROM facts f INNER LATEST JOIN (SELECT DISTINCT k FROM mapping) m ON f.k = m.k", "right side"),
    ):
        with pytest.raises(InvalidInput, match=message):
            db.stream(sql)


def test_closing_ends_a_waiting_join(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, wait = threading.Event(), Feed.wait

    def seen(feed: Feed, *rest: Any) -> int:
        waits.set()
        return wait(feed, *rest)

    monkeypatch.setattr(Feed, "wait", seen)
    live = db.stream(JOIN, settings={"seek_to": "latest"})
    thread = threading.Thread(target=list, args=(live,))
    thread.start()
    assert waits.wait(timeout=30)
    live.close()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_closing_within_the_history(db: tsdb.Database) -> None:
    with db.stream(JOIN, settings={**ON, "stream_batch_rows": 1}) as live:
        assert len(next(live).fetchall()) == 1
    assert list(live) == []


def test_an_error_while_the_gate_is_closed(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from tsdb.stream.join_table import JoinTable

    def broken(*_: object) -> None:
        raise InvalidInput("the right side is damaged")

    monkeypatch.setattr(JoinTable, "load", broken)
    live = db.stream(JOIN, settings=ON)
    with pytest.raises(InvalidInput, match="damaged"):
        next(live)
    assert live.closed
    assert list(live) == []


def test_tokens_go_on_where_a_join_was_left(db: tsdb.Database) -> None:
    sql = "SELECT f.k, f.v, m.label FROM facts f INNER LATEST JOIN mapping m ON f.k = m.k"
    settings = {**ON, "stream_batch_rows": 7}
    whole, _ = history(db, sql, settings)
    parts: list[Any] = []
    token = None
    while len(parts) < len(whole):
        with db.stream(sql, settings=settings, resume=token) as live:
            parts += next(live).fetchall()
            token = live.token
    assert parts == whole
    add_facts(db, [3, 30], 12_000)
    add_mapping(db, [(7, 3, "newer")])
    add_facts(db, [3], 13_000)
    rest: list[Any] = []
    while len(rest) < 3 * ROWS:
        with db.stream(sql, settings=settings, resume=token) as live:
            rest += next(live).fetchall()
            token = live.token
    assert [label for _, _, label in rest] == ["three"] * ROWS + ["thirty"] * ROWS + ["newer"] * ROWS


def test_asof_leaves_out_history_before_every_version(db: tsdb.Database) -> None:
    db.sql("CREATE STREAM rates (time TIMESTAMP_NS TIME, k INT64, rate DOUBLE)")
    db.write("rates", {"time": [1_050, 1_100, 900, 1_200], "k": [30, 30, 31, 3], "rate": [1.0, 2.0, 3.0, 4.0]})
    sql = "SELECT f.k, f.v, r.rate FROM facts f ASOF JOIN rates r ON f.k = r.k AND f.time >= r.time"
    on, stats = history(db, sql, {**ON, "enable_streaming_join_asof_bound": True})
    off, plain = history(db, sql, OFF)
    assert (on, sorted(on)) == (off, sorted(db.sql(sql).fetchall()))
    assert stats["streaming_join_key_domain_pushdown"] == "pushed: 3 keys of k as points, time >= 900"
    assert stats["stream_history_rows"] == 2 * ROWS < plain["stream_history_rows"]


def test_asof_takes_what_has_come_and_keeps_as_many_as_it_is_told(db: tsdb.Database) -> None:
    db.sql("CREATE STREAM rates (time TIMESTAMP_NS TIME, k INT64, rate INT64)")
    sql = "SELECT f.time, r.rate FROM facts f ASOF LEFT JOIN rates r ON f.k = r.k AND f.time >= r.time"

    def fact(at: int) -> None:
        db.write("facts", {"time": [at], "k": [99], "v": [0]})

    for keep, last in ((0, 1), (1, None)):
        with db.stream(sql, settings={"keep_versions": keep}) as live:
            db.write("rates", {"time": [100], "k": [99], "rate": [1]})
            fact(150)
            fact(50)
            db.write("rates", {"time": [200], "k": [99], "rate": [2]})
            fact(250)
            fact(150)
            assert [rate for _, rate in take(live, 4)] == [1, None, 2, last]
        db.sql("DELETE FROM rates")


def test_queries_over_one_state_load_their_right_side_once(db: tsdb.Database) -> None:
    settings = {**ON, "enable_streaming_join_snapshot_reuse": True}
    rows, first = history(db, JOIN, settings)
    again, second = history(db, JOIN, settings)
    assert rows == again
    assert (first["StreamingJoinSnapshotReused"], second["StreamingJoinSnapshotReused"]) == (0, 1)
    assert history(db, JOIN.replace("entity = 7", "entity = 8"), settings)[1]["StreamingJoinSnapshotReused"] == 0
    with db.stream(JOIN, settings=settings) as one, db.stream(JOIN, settings=settings) as other:
        take(one, 2 * ROWS)
        add_mapping(db, [(7, 9, "nine")])
        add_facts(db, [9], 14_000)
        assert {label for _, _, label in take(one, ROWS)} == {"nine"}
        take(other, 2 * ROWS)
        assert {label for _, _, label in take(other, ROWS)} == {"nine"}
    assert len(history(db, JOIN, settings)[0]) == 4 * ROWS


def test_windows_over_a_join(db: tsdb.Database) -> None:
    sql = (
        "SELECT window_start, label, count(*) AS n, min(v) AS least FROM TUMBLE((SELECT f.time, f.v, m.label FROM facts f INNER "
        "LATEST JOIN mapping m ON f.k = m.k), time, INTERVAL 1 MILLISECOND) GROUP BY window_start, label"
    )
    add_facts(db, range(KEYS), 2_000_000)  # closes the windows before, whether or not a row comes live
    made = []
    for settings in (ON, OFF):
        with db.stream(sql, settings=settings) as live:
            made.append(sorted(take(live, 3)))
            assert live.stats[BUILT] == (settings is ON)
    assert made[0] == made[1]
    assert [n for _, _, n, _ in made[0]] == [ROWS] * 3


def test_a_reader_follows_both_sides(db: tsdb.Database) -> None:
    with tsdb.open(db.path, mode="r") as reader, reader.stream(JOIN, settings=ON) as live:
        assert {label for _, _, label in take(live, 2 * ROWS)} == {"three", "thirty"}
        add_mapping(db, [(7, 3, "newer three"), (7, 8, "eight")])
        add_facts(db, [3, 8, 9], 15_000)
        assert {(k, label) for k, _, label in take(live, 2 * ROWS)} == {(3, "newer three"), (8, "eight")}
        db.flush()
        add_mapping(db, [(7, 9, "nine")])
        add_facts(db, [9], 16_000)
        assert {(k, label) for k, _, label in take(live, ROWS)} == {(9, "nine")}


def test_versions_of_the_right_side_after_the_bound(db: tsdb.Database) -> None:
    db.sql("CREATE STREAM owners (id BIGINT, k BIGINT, name STRING) PRIMARY KEY id WITH (mode = 'versioned_kv')")
    db.write("owners", {"id": [1, 2], "k": [3, 30], "name": ["a", "b"]})
    sql = "SELECT f.k, o.name FROM facts f INNER LATEST JOIN owners o ON f.k = o.k"
    assert same(db, sql)[BUILT] == 1
    with db.stream(sql, settings={"seek_to": "latest"}) as live:
        db.write("owners", {"id": [1], "k": [5], "name": ["moved"]})  # key 3 has no row any more
        add_facts(db, [3, 5, 30], 17_000)
        assert set(take(live, 2 * ROWS)) == {(5, "moved"), (30, "b")}
        db.write("owners", {"id": [2], "k": [30], "name": ["newer b"]})
        db.sql("DELETE FROM owners WHERE id = 1")
        add_facts(db, [3, 5, 30], 18_000)
        assert set(take(live, ROWS)) == {(30, "newer b")}


def test_a_right_side_that_computes_goes_on_live(db: tsdb.Database) -> None:
    right = "SELECT k - 1 AS j, upper(label) AS u FROM mapping WHERE k % 2 = 0"
    sql = f"SELECT f.k, m.u FROM facts f INNER LATEST JOIN ({right}) m ON f.k = m.j"
    with db.stream(sql, settings={"seek_to": "latest"}) as live:
        add_facts(db, [29, 2], 30_000)
        add_mapping(db, [(7, 3, "odd"), (7, 4, "four"), (7, 4, "newer four")])
        add_facts(db, [29, 3], 31_000)
        assert set(take(live, 3 * ROWS)) == {(29, "THIRTY"), (3, "NEWER FOUR")}
        db.sql(f"DELETE FROM mapping WHERE time >= make_timestamp_ns({add_mapping.time})")  # type: ignore[attr-defined]
        add_facts(db, [29, 3], 32_000)
        assert set(take(live, ROWS)) == {(29, "THIRTY")}


def test_explain_says_what_will_be_done(db: tsdb.Database) -> None:
    def remarks(sql: str, **settings: object) -> list[str]:
        lines = db.sql(f"EXPLAIN {sql}", settings=settings).fetchall()
        return [line.removeprefix("-- key_domain_pushdown: ") for (line,) in lines if "key_domain_pushdown" in line]

    asof = "SELECT f.v FROM facts f ASOF JOIN mapping m ON f.k = m.k AND f.time >= m.time"
    on = {name: value for name, value in ON.items() if name != "seek_to"}
    assert remarks(JOIN) == ["facts with mapping: declined: enable_streaming_join_key_domain_pushdown is off"]
    assert remarks(JOIN, **on) == ["facts with mapping: history of facts by k: points up to 256 keys, a set up to 10,000"]
    assert remarks(asof, **on) == ["facts with mapping: history of facts by k: points up to 256 keys, a set up to 10,000"]
    assert remarks(asof) == []
    assert "cannot be followed live" in remarks(f"SELECT count(*) FROM ({JOIN})")[0]
