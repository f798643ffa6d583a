"""TUMBLE and HOP over live rows: windows as a plain model has them, and as db.sql has them over the same rows."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tsdb
from support.window_case import Consumer, Groups, Model, Row
from tsdb.stream.window import held, paced, pipeline

DAY = datetime.datetime(2024, 1, 1)
#: Seconds of ``DAY`` since DuckDB's origin of buckets, so that the model's windows start where DuckDB's do for these widths.
_COUNTED = "window_start, window_end, host, count(*), sum(x), min(x), max(x)"


def moment(second: int) -> datetime.datetime:
    return DAY + datetime.timedelta(seconds=second)


def second(value: datetime.datetime) -> int:
    return int((value - DAY).total_seconds())


def insert(db: tsdb.Database, table: str, rows: list[Row]) -> None:
    db.write(table, [{"time": moment(time), "host": host, "x": x} for time, host, x in rows])


def shown(groups: Groups) -> list[tuple[Any, ...]]:
    return sorted((s, e, host, len(xs), sum(xs), min(xs), max(xs)) for (s, e, host), xs in groups.items())


def seconds(batch: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((second(start), second(end), *rest) for start, end, *rest in batch)


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with tsdb.open(tmp_path / "db", threads=1) as made:
        made.sql("CREATE TABLE s (time TIMESTAMP TIME, host VARCHAR TAG, x DOUBLE FIELD, y DOUBLE FIELD) WITH (mode = 'append')")
        made.sql("CREATE TABLE kept (time TIMESTAMP TIME, host VARCHAR TAG, x DOUBLE FIELD, y DOUBLE FIELD) WITH (mode = 'append')")
        made.sql("CREATE TABLE other (time TIMESTAMP TIME, x DOUBLE FIELD) WITH (mode = 'append')")
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """What lets the wall's clock go on."""
    now = [100.0]
    monkeypatch.setattr(pipeline, "wall_clock", lambda: now[0])

    def go_on(by: float) -> None:
        now[0] += by

    return go_on


def wake(db: tsdb.Database) -> None:
    """A commit of no row that is followed."""
    db.sql("INSERT INTO other VALUES (now(), 1)")


FORMS = {
    "tumble": ("TUMBLE(s, time, INTERVAL '10 seconds')", 10, 10),
    "hop": ("HOP(s, time, INTERVAL '5 seconds', INTERVAL '15 seconds')", 15, 5),
    "gaps": ("HOP(s, time, 20s, 5s)", 5, 20),
    "filtered": ("TUMBLE((SELECT * FROM s WHERE x > 3), time, 10s)", 10, 10),
    "renamed": ("TUMBLE((SELECT x, time AS moment, host FROM s WHERE x > 3), moment, 10s)", 10, 10),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(8))
def test_windows_are_those_of_the_model_and_of_a_bounded_query(
    db: tsdb.Database, form: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order of arrival, how many commits a step has, where it is resumed, and what is in files."""
    rng = random.Random(f"{form} {seed}")
    monkeypatch.setattr(held, "HELD_ROWS_MAX", rng.choice((0, 5, 262_144)))
    monkeypatch.setattr(paced, "AHEAD_ROWS_MAX", rng.choice((0, 9, 262_144)))
    source, size, slide = FORMS[form]
    delay = rng.choice((0, 4, 12))
    outside = " WHERE x > 3" if rng.random() < 0.5 else ""
    text = f"SELECT {_COUNTED} FROM {source}{outside} GROUP BY window_start, window_end, host"
    settings = {"seek_to": "earliest", "watermark_delay": f"{delay}s", "watermark_idle_timeout": "never"}
    settings["stream_batch_rows"] = rng.choice((1, 3, 65_536))
    filters = "x > 3" in text

    def seen_by(rows: list[Row]) -> list[Row]:
        return [row for row in rows if not filters or row[2] > 3]

    model = Model(size, slide, delay)
    history = [row for _ in range(rng.randrange(4)) for row in commit_of(rng, db, 0)]
    expected = [groups for groups in [committed(model, history, seen_by)] if groups]
    consumer = Consumer(db, text, **settings)
    found: list[Any] = []
    token = consumer.token
    for step in range(1, 25):
        if rng.random() < 0.15:
            db.flush()
        groups = committed(model, commit_of(rng, db, step * 4), seen_by)
        if groups:
            expected.append(groups)
        if rng.random() < 0.4:
            for batch in consumer.batches():
                found.append(seconds(batch))
                token = consumer.token
                if rng.random() < 0.3:
                    break
            if rng.random() < 0.4:
                consumer.close()
                consumer = Consumer(db, text, token, **settings)
    found += map(seconds, consumer.take())
    assert found == [shown(groups) for groups in expected]
    consumer.close()
    bounded(db, model, text, [row for batch in found for row in batch])


def commit_of(rng: random.Random, db: tsdb.Database, about: int) -> list[Row]:
    rows = [(about + rng.randrange(-25, 8), rng.choice("abc"), float(rng.randrange(8))) for _ in range(rng.randrange(1, 6))]
    insert(db, "s", rows)
    return rows


def committed(model: Model, rows: list[Row], seen_by: Callable[[list[Row]], list[Row]]) -> Groups:
    """The model's groups: its windows take the rows that are seen, its watermark goes by all of them."""
    late = model.late
    groups = model.commit(seen_by(rows))
    if not rows:
        return groups
    newest = max(time for time, _, _ in rows)
    if model.seen is None or newest > model.seen:
        model.seen = newest
        groups |= model.commit([])
    assert model.late >= late
    return groups


def bounded(db: tsdb.Database, model: Model, text: str, found: list[tuple[Any, ...]]) -> None:
    """What was given is what db.sql gives over the rows that were not late, of windows that are over."""
    if model.kept:
        insert(db, "kept", model.kept)
    rows = db.sql(text.replace("(s,", "(kept,").replace("FROM s ", "FROM kept ")).fetchall()
    assert model.seen is not None
    over = [row for row in rows if second(row[1]) <= model.seen - model.delay]
    if model.size == model.slide or not model.late:  # a late row may still be in a later one of several windows
        assert sorted(found) == seconds(over)


def test_rows_that_the_data_leaves_out_move_the_watermark(db: tsdb.Database) -> None:
    consumer = Consumer(db, f"SELECT {_COUNTED} FROM TUMBLE((SELECT * FROM s WHERE host = 'a'), time, 10s) GROUP BY ALL")
    insert(db, "s", [(1, "a", 1.0)])
    assert consumer.take() == []
    insert(db, "s", [(10, "b", 1.0)])
    assert [seconds(batch) for batch in consumer.take()] == [[(0, 10, "a", 1, 1, 1, 1)]]


@pytest.mark.parametrize(
    "data",
    [
        "(SELECT time, x * 2 AS x, host FROM s WHERE host = 'a')",
        "(SELECT *, x + 1 AS z FROM s WHERE host || '' = 'a')",
        "(SELECT s.time AS time, upper(s.host) AS host, s.x FROM s JOIN table(kept) AS kept ON s.host = kept.host)",
        "(SELECT s.*, 1 + kept.x AS more FROM s JOIN table(kept) AS kept ON s.host = kept.host)",
    ],
)
def test_so_do_rows_that_duckdb_leaves_out(db: tsdb.Database, data: str) -> None:
    insert(db, "kept", [(0, "a", 1.0)])
    consumer = Consumer(db, f"SELECT window_end, count(*) FROM TUMBLE({data}, time, 10s) GROUP BY window_end")
    insert(db, "s", [(1, "a", 1.0)])
    assert consumer.take() == []
    insert(db, "s", [(10, "b", 1.0)])
    assert consumer.take() == [[(moment(10), 1)]]
    consumer.close()


@pytest.mark.parametrize(
    "data", ["(SELECT time + INTERVAL 1 HOUR AS time, x FROM s)", "(SELECT CAST(time AS TIMESTAMP) AS time FROM s)"]
)
def test_computed_times_make_a_watermark_of_their_own(db: tsdb.Database, data: str) -> None:
    consumer = Consumer(db, f"SELECT window_end, count(*) FROM TUMBLE({data}, time, 10s) GROUP BY window_end")
    for second_of, expected in ((1, 0), (9, 0), (12, 1)):
        insert(db, "s", [(second_of, "a", 1.0)])
        assert len(consumer.take()) == expected
    consumer.close()


def test_a_reader_in_another_handle_sees_the_same_windows(db: tsdb.Database) -> None:
    text = f"SELECT {_COUNTED} FROM TUMBLE(s, time, 10s) GROUP BY ALL"
    with tsdb.open(db.path, "r") as reader:
        here, there = (Consumer(each, text, watermark_idle_timeout="never") for each in (db, reader))
        for number in range(0, 60, 7):
            insert(db, "s", [(number, "a", 1.0), (number - 3, "b", 2.0)])
            assert list(map(sorted, here.take())) == list(map(sorted, there.take()))
        assert here.query.stats["windows_emitted"] == there.query.stats["windows_emitted"] == 6
        here.close()
        there.close()


def test_windows_over_a_latest_join_with_no_rows(db: tsdb.Database) -> None:
    """Rows without a partner give nothing, and yet time passes; a window of no rows that joined is none."""
    db.sql("CREATE TABLE m (time TIMESTAMP TIME, host VARCHAR TAG, site VARCHAR FIELD) WITH (mode = 'append')")
    db.sql("INSERT INTO m VALUES ('2024-01-01', 'a', 'north')")
    insert(db, "s", [(1, "a", 1.0), (2, "b", 1.0)])
    for pushdown in (False, True):
        settings = {"seek_to": "earliest", "enable_streaming_join_key_domain_pushdown": pushdown}
        data = "(SELECT s.time, s.host, s.x, m.site FROM s INNER LATEST JOIN m ON s.host = m.host)"
        text = f"SELECT window_start, window_end, site, count(*) FROM TUMBLE({data}, time, 10s) GROUP BY ALL"
        consumer = Consumer(db, text, **settings)
        base = 0 if not pushdown else 100
        insert(db, "s", [(base + 13, "b", 1.0)])
        first = [seconds(batch) for batch in consumer.take()]
        assert first[0][0] == (0, 10, "north", 1)
        insert(db, "s", [(base + 15, "a", 1.0), (base + 20, "b", 1.0)])
        assert [seconds(batch) for batch in consumer.take()] == [[(base + 10, base + 20, "north", 1)]]
        insert(db, "s", [(base + 31, "b", 1.0)])
        assert consumer.take() == []
        insert(db, "s", [(base + 22, "a", 1.0)])
        assert consumer.take() == []
        assert consumer.query.stats["late_rows"] == 1
        consumer.close()


@pytest.mark.parametrize("seek", ["earliest", "latest"])
def test_silence_ends_windows(db: tsdb.Database, clock: Callable[[float], None], seek: str) -> None:
    """The last window is given though no later row comes: at the end of the history, and of what came after it."""
    insert(db, "s", [(1, "a", 1.0)])
    text = f"SELECT {_COUNTED} FROM TUMBLE(s, time, 10s) GROUP BY ALL"
    consumer = Consumer(db, text, seek_to=seek)
    if seek == "latest":
        insert(db, "s", [(1, "a", 1.0)])
    assert consumer.take() == []
    for seconds_past, expected in ((9.5, []), (1, [[(0, 10, "a", 1, 1, 1, 1)]]), (60, [])):
        clock(seconds_past)
        wake(db)
        assert [seconds(batch) for batch in consumer.take()] == expected
    insert(db, "s", [(2, "a", 1.0), (12, "a", 2.0)])  # the first comes too late
    clock(9)
    wake(db)
    assert consumer.take() == []
    assert consumer.query.stats["late_rows"] == 1
    token = consumer.token
    consumer.close()
    consumer = Consumer(db, text, token, watermark_idle_timeout="3s")
    wake(db)
    assert consumer.take() == []
    clock(3)
    wake(db)
    assert [seconds(batch) for batch in consumer.take()] == [[(10, 20, "a", 1, 2, 2, 2)]]
    insert(db, "s", [(13, "a", 1.0)])
    assert consumer.take() == []
    assert consumer.query.stats["late_rows"] == 1
    consumer.close()


def test_silence_wakes_whoever_waits(db: tsdb.Database) -> None:
    insert(db, "s", [(1, "a", 1.0)])
    with db.stream(
        "SELECT window_end, count(*) FROM TUMBLE(s, time, 10s) GROUP BY window_end",
        settings={"seek_to": "earliest", "watermark_idle_timeout": "50ms"},
    ) as rows:
        assert next(rows).fetchall() == [(moment(10), 1)]


def test_windows_are_given_with_each_change(db: tsdb.Database) -> None:
    text = f"SELECT {_COUNTED} FROM TUMBLE(s, time, 10s) GROUP BY ALL"
    consumer = Consumer(db, text, emit="on update", watermark_idle_timeout="never")
    for rows, expected in (
        ([(1, "a", 1.0)], [(0, 10, "a", 1, 1, 1, 1)]),
        ([(2, "a", 2.0)], [(0, 10, "a", 2, 3, 1, 2)]),
        ([(11, "b", 2.0)], [(10, 20, "b", 1, 2, 2, 2)]),
    ):
        insert(db, "s", rows)
        assert [seconds(batch) for batch in consumer.take()] == [expected]
    insert(db, "s", [(3, "a", 1.0)])
    assert consumer.take() == []
    consumer.close()


def test_windows_are_given_every_so_often(db: tsdb.Database, clock: Callable[[float], None]) -> None:
    text = f"SELECT {_COUNTED} FROM TUMBLE(s, time, 10s) GROUP BY ALL"
    consumer = Consumer(db, text, emit="periodic 2s", watermark_idle_timeout="never")
    insert(db, "s", [(1, "a", 1.0)])
    assert consumer.take() == []
    clock(2)
    wake(db)
    assert [seconds(batch) for batch in consumer.take()] == [[(0, 10, "a", 1, 1, 1, 1)]]
    clock(2)
    wake(db)
    assert consumer.take() == []  # nothing changed
    insert(db, "s", [(2, "a", 1.0), (12, "a", 1.0)])  # what is over is given at once
    assert [seconds(batch) for batch in consumer.take()][-1][0] == (0, 10, "a", 2, 2, 1, 1)
    consumer.close()


def test_windows_that_are_over_take_rows_within_the_allowed_lateness(db: tsdb.Database) -> None:
    text = f"SELECT {_COUNTED} FROM TUMBLE(s, time, 10s) GROUP BY ALL"
    consumer = Consumer(db, text, allowed_lateness="5s", watermark_idle_timeout="never")
    for rows, expected in (
        ([(1, "a", 1.0)], []),
        ([(12, "a", 1.0)], [[(0, 10, "a", 1, 1, 1, 1)]]),
        ([(2, "a", 3.0)], [[(0, 10, "a", 2, 4, 1, 3)]]),
        ([(15, "a", 1.0)], []),
        ([(3, "a", 3.0)], []),
    ):
        insert(db, "s", rows)
        assert [seconds(batch) for batch in consumer.take()] == expected
    assert consumer.query.stats["late_rows"] == 1
    consumer.close()


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS"])
@pytest.mark.parametrize(
    "source",
    [
        "TUMBLE(t, time, 7 m)", "TUMBLE(t, time, 1M)", "TUMBLE(t, time, INTERVAL '3 months', '2023-02-01')", "TUMBLE(t, time, 1w)",
        "TUMBLE(t, time, 1d, '2020-05-05 03:00:00')", "HOP(t, time, 2d, 5d)", "HOP(t, time, 7h, 1h)", "TUMBLE(t, time, 1y)",
        "HOP(DATA => t, TIMECOL => 'time', SLIDE => 1w, SIZE => 2w)",
    ],
)  # fmt: skip
def test_windows_of_all_lengths_are_those_of_a_bounded_query(db: tsdb.Database, kind: str, source: str) -> None:
    source = source.replace("7 m", "7m")
    db.sql(f"CREATE TABLE t (time {kind} TIME, x DOUBLE FIELD) WITH (mode = 'append')")
    db.sql(
        "INSERT INTO t SELECT TIMESTAMP '1968-11-05 00:00:00' + INTERVAL (i * 86399 * 37) SECOND + INTERVAL (i) MICROSECOND, i "
        "FROM range(600) r(i)"
    )
    text = f"SELECT window_start, window_end, count(*), sum(x) FROM {source} GROUP BY ALL"
    consumer = Consumer(db, text, seek_to="earliest", watermark_idle_timeout="never")
    db.sql("INSERT INTO t VALUES ('2200-01-01', 1)")
    found = [row for batch in consumer.take() for row in batch]
    over = [row for row in db.sql(text).fetchall() if row[1] <= datetime.datetime(2200, 1, 1)]
    assert sorted(found) == sorted(over)
    assert len(found) > 5
    consumer.close()


def test_a_query_around_windows_goes_by_windows(db: tsdb.Database) -> None:
    db.sql("CREATE TABLE names (time TIMESTAMP TIME, host VARCHAR TAG, name VARCHAR FIELD)")
    db.sql("INSERT INTO names VALUES ('2024-01-01', 'a', 'Anna'), ('2024-01-01', 'b', 'Bert')")
    text = (
        "WITH w AS (SELECT window_end AS moment, t.host, name, count(DISTINCT x) AS n, median(x) FROM TUMBLE(s, time, 10s) AS t "
        "JOIN table(names) AS names ON t.host = names.host WHERE x < $most GROUP BY moment, t.host, name HAVING count(*) > 1) "
        "SELECT *, n * 2 FROM w WHERE n > 0"
    )
    query = db.stream(text, {"most": 9}, settings={"watermark_idle_timeout": "50ms"})
    insert(db, "s", [(1, "a", 1.0), (2, "a", 1.0), (3, "a", 10.0), (4, "b", 1.0)])
    assert next(query).fetchall() == [(moment(10), "a", "Anna", 1, 1.0, 2)]
    assert query.stats["held_rows"] == 0
    query.close()


CALLS = (
    "count(*)", "count(i)", "sum(i)", "sum(x)", "avg(i)", "avg(x) AS mean", "min(t)", "max(t)", "min(time)", "max(x + i)",
    "sum(i) FILTER (WHERE x > 3)", "round(avg(CAST(i AS FLOAT)), 2) + count(*) AS more", "upper(host) AS name", "max(b)",
)  # fmt: skip


@pytest.mark.parametrize("source", ["TUMBLE(t, time, 10s)", "HOP(t, time, 5s, 15s)"])
@pytest.mark.parametrize("emit", ["after close", "on update"])
def test_many_rows_are_reduced_to_groups(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch, source: str, emit: str) -> None:
    """What aggregates have come to is held instead of rows, and they come to the same."""
    monkeypatch.setattr(held, "HELD_ROWS_MAX", 200)
    db.sql("CREATE STREAM t (time TIMESTAMP TIME, host VARCHAR TAG, x DOUBLE, i BIGINT, t VARCHAR, b BOOLEAN)")
    text = (
        f"SELECT window_start, host, {', '.join(CALLS)} FROM {source} AS w WHERE x < 9 AND w.host <> 'c' "
        "GROUP BY window_start, w.host, window_end HAVING sum(x) > 1 ORDER BY window_start, host"
    )
    fill = (
        "INSERT INTO t SELECT TIMESTAMP '2024-01-01' + INTERVAL (i % 30) SECOND, chr(CAST(97 + i % 3 AS INTEGER)), i % 11, "
        "CASE WHEN i % 5 > 0 THEN 9000000000000000000 - i END, CASE WHEN i % 7 > 0 THEN 'text ' || i % 13 END, i % 2 = 0 "
        "FROM range({}, {}) AS r(i)"
    )
    consumer = Consumer(db, text, seek_to="earliest", watermark_idle_timeout="never", watermark_delay="1m", emit=emit)
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for start in range(0, 2_000, 500):
        db.sql(fill.format(start, start + 500))
        found |= {row[:2]: row for batch in consumer.batches() for row in batch}
        assert consumer.query.stats["held_rows"] < 200
    db.sql("INSERT INTO t (time, host, x) VALUES ('2024-01-01 01:00:00', 'c', 1)")
    found |= {row[:2]: row for batch in consumer.batches() for row in batch}
    bounded_rows = db.sql(text).fetchall()
    assert list(consumer.query.columns) == list(db.sql(text).columns)
    assert consumer.query.types == db.sql(text).types
    for row in bounded_rows:
        for one, other in zip(found[row[:2]], row, strict=True):
            assert one == (pytest.approx(other, rel=1e-12) if isinstance(other, float) else other)
    assert len(found) == len(bounded_rows)
    consumer.close()


@pytest.mark.parametrize(
    "call", ["median(x)", "count(DISTINCT x)", "string_agg(host, ',' ORDER BY x, host)", "max(x, 2)", "stddev(x)"]
)
def test_rows_of_other_aggregates_are_held_as_they_came(db: tsdb.Database, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(held, "HELD_ROWS_MAX", 3)
    text = f"SELECT window_end, {call} FROM TUMBLE(s, time, 10s) GROUP BY window_end"
    consumer = Consumer(db, text, watermark_idle_timeout="never")
    for number in range(9):
        insert(db, "s", [(number, "abc"[number % 3], float(number % 4))])
        assert consumer.take() == []
    assert consumer.query.stats["held_rows"] == 9
    insert(db, "s", [(10, "a", 1.0)])
    assert consumer.take() == [[row for row in db.sql(text).fetchall() if row[0] == moment(10)]]
    consumer.close()


def test_a_position_goes_on_with_the_windows(db: tsdb.Database) -> None:
    """What a token reads again is what is held, however long the query has run."""
    text = "SELECT window_end, count(*) FROM TUMBLE(s, time, 10s) GROUP BY window_end"
    consumer = Consumer(db, text, seek_to="earliest", watermark_idle_timeout="never")
    for number in range(300):
        insert(db, "s", [(number, "a", 1.0)])
    consumer.take()
    token = consumer.token
    consumer.close()
    consumer = Consumer(db, text, token, watermark_idle_timeout="never")
    assert consumer.take() == []
    assert 10 <= consumer.query.stats["stream_live_rows"] < 20
    insert(db, "s", [(300, "a", 1.0)])
    assert consumer.take() == [[(moment(300), 10)]]
    consumer.close()


def test_rows_that_the_text_cannot_use_are_not_held(db: tsdb.Database) -> None:
    consumer = Consumer(db, "SELECT window_end, max(x) FROM TUMBLE(s, time, 10s) WHERE x > 3 AND host = 'a' GROUP BY window_end")
    insert(db, "s", [(1, "a", 1.0), (1, "a", 4.0), (1, "b", 4.0)])
    assert consumer.take() == []
    assert consumer.query.stats["held_rows"] == 1
    (part,) = consumer.query._pipeline._held._parts  # type: ignore[attr-defined]
    assert set(part.rows.vectors) == {"time", "host", "x"}
    consumer.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT host, count(*) FROM TUMBLE(s, time, 10s) GROUP BY host", "groups by window_start or window_end"),
        ("SELECT count(*) FROM TUMBLE(s, time, 10s)", "groups by window_start or window_end"),
        ("SELECT window_end, count(*) FROM SESSION(s, time, 10s) GROUP BY ALL", "TUMBLE and HOP"),
        ("SELECT window_end, count(*) FROM TUMBLE(s, time, 10s) GROUP BY ALL LIMIT 3", "LIMIT"),
        ("SELECT max(n) FROM (SELECT window_end, count(*) AS n FROM TUMBLE(s, time, 10s) GROUP BY ALL)", "needs all rows"),
        ("SELECT window_end, count(*) FROM TUMBLE(s, time, 10s) JOIN kept ON true GROUP BY ALL", "follows one table"),
        ("SELECT window_end, count(*) FROM TUMBLE(s, x, 10s) GROUP BY ALL", "go by a timestamp"),
        ("SELECT window_end, count(*) FROM TUMBLE(s, wrong, 10s) GROUP BY ALL", "no column 'wrong'"),
        ("SELECT window_end, count(*) FROM HOP(s, time, 1M, 2M) GROUP BY ALL", "fixed length"),
        ("SELECT window_end, count(*) FROM TUMBLE(wrong, time, 1M) GROUP BY ALL", "wrong"),
        (
            "SELECT window_end, max(wrong) FROM TUMBLE(s, time, 1M) GROUP BY ALL",
            "in table .rows of windows. .line 1,",
        ),
        ("WITH w AS (FROM s) SELECT window_end, max(x) FROM TUMBLE(w, time, 1M) GROUP BY ALL", "not one of WITH"),
    ],
)
def test_what_cannot_be_followed_is_refused(db: tsdb.Database, text: str, message: str) -> None:
    with pytest.raises((tsdb.InvalidInput, tsdb.NotFound), match=message):
        db.stream(text)


def test_rows_with_windows_but_no_groups_come_at_once(db: tsdb.Database) -> None:
    with db.stream("SELECT window_end, x FROM TUMBLE(s, time, 10s)") as rows:
        insert(db, "s", [(1, "a", 1.0)])
        assert next(rows).fetchall() == [(moment(10), 1.0)]


def test_settings_are_checked(db: tsdb.Database) -> None:
    for name, value in (
        ("emit", "sometimes"),
        ("watermark_delay", "soon"),
        ("watermark_idle_timeout", "x"),
        ("allowed_lateness", "-1s"),
    ):
        with pytest.raises(tsdb.InvalidInput):
            db.stream("SELECT window_end, count(*) FROM TUMBLE(s, time, 10s) GROUP BY ALL", settings={name: value})
