"""CQL2-JSON: every operator against what it means in plain Python, on rows with NULLs; open and closed periods."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tsdb

DAY = datetime.datetime(2024, 1, 1)
Period = tuple[float, float]
#: What a temporal predicate says of two periods, as the standard has it.
TEMPORAL: dict[str, Callable[[Period, Period], bool]] = {
    "t_after": lambda a, b: a[0] > b[1],
    "t_before": lambda a, b: a[1] < b[0],
    "t_contains": lambda a, b: a[0] < b[0] and a[1] > b[1],
    "t_disjoint": lambda a, b: a[1] < b[0] or a[0] > b[1],
    "t_during": lambda a, b: a[0] > b[0] and a[1] < b[1],
    "t_equals": lambda a, b: a == b,
    "t_finishedBy": lambda a, b: a[0] < b[0] and a[1] == b[1],
    "t_finishes": lambda a, b: a[0] > b[0] and a[1] == b[1],
    "t_intersects": lambda a, b: not (a[1] < b[0] or a[0] > b[1]),
    "t_meets": lambda a, b: a[1] == b[0],
    "t_metBy": lambda a, b: a[0] == b[1],
    "t_overlappedBy": lambda a, b: b[0] < a[0] < b[1] < a[1],
    "t_overlaps": lambda a, b: a[0] < b[0] < a[1] < b[1],
    "t_startedBy": lambda a, b: a[0] == b[0] and a[1] > b[1],
    "t_starts": lambda a, b: a[0] == b[0] and a[1] < b[1],
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tsdb.Database]:
    """Rows with a period each, some open at an end by NULL, and a few values."""
    with tsdb.open(tmp_path_factory.mktemp("cql2") / "db") as made:
        made.sql("CREATE TABLE t (time TIMESTAMP TIME, ending TIMESTAMP_MS, host STRING, n INT64, f DOUBLE, d DATE, ok BOOLEAN)")
        made.sql(
            """INSERT INTO t SELECT TIMESTAMP '2024-01-01' + INTERVAL (a) DAY + INTERVAL (b) SECOND,
            CASE WHEN b < 5 THEN TIMESTAMP '2024-01-01' + INTERVAL (b) DAY END,
            CASE WHEN b < 5 THEN chr(97 + b) || '_%' || b END, CASE WHEN b < 5 THEN a - 2 END, b / 2,
            DATE '2024-01-01' + b, a % 2 = 0
            FROM (SELECT range::INTEGER AS a FROM range(5)), (SELECT range::INTEGER AS b FROM range(6))"""
        )
        yield made


def _matching(db: tsdb.Database, node: Any) -> list[Any]:
    with db.multi_query({"queries": [{"table": "t", "filter": node, "order_by": ["time"]}]}) as m:
        return m.results[0].fetchall()


def _expected(db: tsdb.Database, condition: str) -> list[Any]:
    return db.sql(f"SELECT * FROM t WHERE {condition} ORDER BY time").fetchall()


def _property(name: str) -> dict[str, str]:
    return {"property": name}


N, F, D, HOST = _property("n"), _property("f"), _property("d"), _property("host")


@pytest.mark.parametrize(
    ("node", "condition"),
    [
        (True, "true"),
        (_property("ok"), "ok"),
        ({"op": "=", "args": [_property("OK"), True]}, "ok"),
        ({"op": "not", "args": [_property("ok")]}, "NOT ok"),
        ({"op": "=", "args": [N, 1]}, "n = 1"),
        ({"op": "<>", "args": [N, 1]}, "n <> 1"),
        ({"op": "<", "args": [N, 1.5]}, "n < 1.5"),
        ({"op": ">=", "args": [1, N]}, "1 >= n"),
        ({"op": "<=", "args": [N, F]}, "n <= f"),
        ({"op": ">", "args": [{"op": "+", "args": [N, {"op": "*", "args": [2, F]}]}, 3]}, "n + 2 * f > 3"),
        ({"op": "=", "args": [{"op": "%", "args": [N, 2]}, {"op": "div", "args": [N, 2]}]}, "n % 2 = n // 2"),
        ({"op": "between", "args": [N, -1, 1]}, "n BETWEEN -1 AND 1"),
        ({"op": "between", "args": [D, {"date": "2024-01-02"}, {"date": "2024-01-03"}]}, "d BETWEEN '2024-01-02' AND '2024-01-03'"),
        ({"op": "in", "args": [HOST, ["a_%0", "it's", "c_%2"]]}, "host IN ('a_%0', 'c_%2')"),
        ({"op": "in", "args": [N, []]}, "false"),
        ({"op": "not", "args": [{"op": "in", "args": [N, [1, 2]]}]}, "n NOT IN (1, 2)"),
        ({"op": "like", "args": [HOST, "a%"]}, "host LIKE 'a%'"),
        ({"op": "like", "args": [HOST, "__%"]}, "host LIKE '__%'"),
        ({"op": "like", "args": [HOST, "_\\_\\%1"]}, "host = 'b_%1'"),
        ({"op": "like", "args": [{"op": "casei", "args": [HOST]}, {"op": "casei", "args": ["B%"]}]}, "host LIKE 'b%'"),
        ({"op": "isNull", "args": [N]}, "n IS NULL"),
        ({"op": "not", "args": [{"op": "isNull", "args": [N]}]}, "n IS NOT NULL"),
        ({"op": "and", "args": [_property("ok"), {"op": "=", "args": [N, 0]}, {"op": ">", "args": [F, 0]}]}, "ok AND n=0 AND f>0"),
        ({"op": "or", "args": [{"op": "=", "args": [N, 0]}, {"op": "and", "args": [_property("ok")]}]}, "n = 0 OR ok"),
        ({"op": "=", "args": [_property("time"), {"timestamp": "2024-01-02T00:00:01Z"}]}, "time = '2024-01-02 00:00:01'"),
        ({"op": ">", "args": [_property("time"), {"timestamp": "2024-01-02T02:00:01+02:00"}]}, "time > '2024-01-02 00:00:01'"),
        ({"op": "=", "args": [HOST, "' OR 1 = 1 --"]}, "false"),
    ],
)  # fmt: skip
def test_every_operator(db: tsdb.Database, node: Any, condition: str) -> None:
    found = _matching(db, node)
    assert found == _expected(db, condition)
    assert found != _expected(db, f"({condition}) IS NOT TRUE")


def _moments() -> Iterator[tuple[Any, Period]]:
    """Literals of instants and periods, with what they are in days."""
    for day in (0, 2, 4):
        text = f"{(DAY + datetime.timedelta(days=day)).isoformat()}Z"
        yield {"timestamp": text}, (day, day)
        yield {"date": text[:10]}, (day, day)
        yield text, (day, day)
    for start, stop in itertools.product(("..", 0, 1, 3), ("..", 1, 3, 4)):
        ends = [".." if day == ".." else f"2024-01-0{day + 1}" for day in (start, stop)]
        if start == ".." or stop == ".." or start <= stop:
            yield {"interval": ends}, (float("-inf") if start == ".." else start, float("inf") if stop == ".." else stop)


@pytest.mark.parametrize("op", TEMPORAL)
def test_temporal_predicates(db: tsdb.Database, op: str) -> None:
    rows = db.sql("SELECT * FROM t ORDER BY time").fetchall()

    def days(moment: datetime.datetime) -> float:
        return (moment - DAY) / datetime.timedelta(days=1)

    own = [
        (_property("time"), lambda row: (days(row[0]), days(row[0]))),
        (_property("ending"), lambda row: None if row[1] is None else (days(row[1]), days(row[1]))),
        (
            {"interval": [_property("time"), _property("ending")]},
            lambda row: None if row[1] is None else (days(row[0]), days(row[1])),
        ),
        ({"interval": ["..", _property("ending")]}, lambda row: None if row[1] is None else (float("-inf"), days(row[1]))),
    ]
    for node, of_row in own:
        for literal, period in _moments():
            for args, swapped in (([node, literal], False), ([literal, node], True)):
                found = _matching(db, {"op": op, "args": args})
                expected = []
                for row in rows:
                    mine = of_row(row)
                    if mine is not None and TEMPORAL[op](*((period, mine) if swapped else (mine, period))):
                        expected.append(row)
                left = [row for row in found if of_row(row) is not None]
                assert left == expected, (op, args)


@pytest.mark.parametrize("unit", ["S", "MS", "US", "NS"])
def test_moments_finer_than_a_column(tmp_path: Path, unit: str) -> None:
    with tsdb.open(tmp_path / "db") as made:
        made.sql(f"CREATE TABLE t (time TIMESTAMP_{unit} TIME, d DATE)")
        made.sql("INSERT INTO t VALUES ('2024-01-01 00:00:00', '2024-01-01'), ('2024-01-01 00:00:01', '2024-01-02')")
        moment = "2024-01-01T00:00:00.5Z"
        for node in (
            {"op": "t_before", "args": [_property("time"), moment]},
            {"op": "<", "args": [_property("d"), {"timestamp": moment}]},
        ):
            assert len(_matching(made, node)) == 1
            assert len(_matching(made, {"op": "not", "args": [node]})) == 1
        with made.multi_query({"queries": [{"table": "t", "time": {"from": moment}}, {"table": "t", "time": {"to": moment}}]}) as m:
            assert [len(result.fetchall()) for result in m] == [1, 1]
        text = made.explain_multi_query({"queries": [{"table": "t", "time": {"from": moment}}]}, analyze=True).text
        assert "DuckQuery" not in text


def test_two_literals(db: tsdb.Database) -> None:
    early, late = {"timestamp": "2024-01-01T00:00:00Z"}, "2024-01-01T00:00:00.5Z"
    assert len(_matching(db, {"op": "t_before", "args": [early, late]})) == 30
    assert _matching(db, {"op": "t_after", "args": [early, late]}) == []


def test_a_filter_as_deep_as_can_be(db: tsdb.Database, tmp_path: Path) -> None:
    node: Any = {"op": "=", "args": [N, 0]}
    for _ in range(90):
        node = {"op": "not", "args": [node]}
    assert _matching(db, node) == _expected(db, "n = 0")
    for _ in range(20):
        node = {"op": "not", "args": [node]}
    with pytest.raises(tsdb.InvalidInput, match="more than 100 operators deep"):
        _matching(db, node)
