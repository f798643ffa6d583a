"""Scripts: what may be declared, where a set may be referred to, places in errors, parameters and settings, EXPLAIN."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tsdb
from support.result_set_case import SCRIPT
from tsdb.sql.token import is_whole, split_statements

HOSTS = "RESULT SET hosts AS (SELECT host FROM alarm WHERE level > 3);"
WAYS: tuple[dict[str, object], ...] = (
    {},
    {"result_set_materialization_max_size": 0},
    {"result_set_materialization_max_size": 0, "enable_result_set_tables": False},
    {"enable_result_set_materialization": False},
    {"enable_native_operators": False},
)


@pytest.mark.parametrize("settings", WAYS, ids=range(len(WAYS)))
@pytest.mark.parametrize(
    ("script", "plain"),
    [
        ("SELECT * FROM machine WHERE host IN RESULT SET hosts", "SELECT * FROM machine WHERE host IN (@)"),
        ("SELECT count(*) FROM machine WHERE NOT host IN RESULT SET hosts", "SELECT count(*) FROM machine WHERE host NOT IN (@)"),
        ("SELECT count(*) FROM machine WHERE host not in result set HOSTS", "SELECT count(*) FROM machine WHERE host NOT IN (@)"),
        (
            "SELECT host, CASE WHEN host IN RESULT SET hosts THEN 1 ELSE 0 END AS c FROM machine ORDER BY ALL",
            "SELECT host, CASE WHEN host IN (@) THEN 1 ELSE 0 END AS c FROM machine ORDER BY ALL",
        ),
        ("SELECT host IN RESULT SET hosts AS c FROM machine ORDER BY 1", "SELECT host IN (@) AS c FROM machine ORDER BY 1"),
        (
            "SELECT rack, count(*) FROM machine GROUP BY rack HAVING max(host) IN RESULT SET hosts ORDER BY ALL",
            "SELECT rack, count(*) FROM machine GROUP BY rack HAVING max(host) IN (@) ORDER BY ALL",
        ),
        (
            "SELECT rack, sum(slot) FROM machine WHERE host IN RESULT SET hosts GROUP BY rack ORDER BY ALL",
            "SELECT rack, sum(slot) FROM machine WHERE host IN (@) GROUP BY rack ORDER BY ALL",
        ),
        (
            "SELECT a.level, m.rack FROM alarm a JOIN machine m USING (host) WHERE a.host IN RESULT SET hosts ORDER BY ALL",
            "SELECT a.level, m.rack FROM alarm a JOIN machine m USING (host) WHERE a.host IN (@) ORDER BY ALL",
        ),
        (
            "SELECT a.host, m.rack FROM alarm a LEFT JOIN machine m ON a.host = m.host AND m.host IN RESULT SET hosts ORDER BY ALL",
            "SELECT a.host, m.rack FROM alarm a LEFT JOIN machine m ON a.host = m.host AND m.host IN (@) ORDER BY ALL",
        ),
        (
            "WITH w AS (SELECT rack FROM machine WHERE host IN RESULT SET hosts) SELECT 1 FROM machine WHERE rack IN (FROM w)",
            "WITH w AS (SELECT rack FROM machine WHERE host IN (@)) SELECT 1 FROM machine WHERE rack IN (FROM w)",
        ),
        (
            "SELECT host FROM machine WHERE lower(host) || '' IN RESULT SET hosts ORDER BY ALL",
            "SELECT host FROM machine WHERE lower(host) || '' IN (@) ORDER BY ALL",
        ),
        (
            "SELECT host FROM machine WHERE host IN RESULT SET hosts ORDER BY host LIMIT 2",
            "SELECT host FROM machine WHERE host IN (@) ORDER BY host LIMIT 2",
        ),
        (
            "FROM machine SELECT DISTINCT rack WHERE host IN RESULT SET hosts ORDER BY rack",
            "FROM machine SELECT DISTINCT rack WHERE host IN (@) ORDER BY rack",
        ),
        (
            "FROM alarm SELECT host WHERE host IN RESULT SET hosts UNION SELECT rack FROM machine WHERE host IN RESULT SET hosts",
            "FROM alarm SELECT host WHERE host IN (@) UNION SELECT rack FROM machine WHERE host IN (@)",
        ),
    ],
)  # fmt: skip
def test_a_set_may_be_used_wherever_a_condition_stands(
    db: tsdb.Database, settings: dict[str, object], script: str, plain: str
) -> None:
    expected = sorted(db.sql(plain.replace("@", "SELECT host FROM alarm WHERE level > 3")).fetchall(), key=repr)
    assert sorted(db.sql(f"{HOSTS}\n{script};", settings=settings).fetchall(), key=repr) == expected


@pytest.mark.parametrize("settings", WAYS, ids=range(len(WAYS)))
@pytest.mark.parametrize(
    ("declared", "operand"),
    [
        ("SELECT host FROM alarm ORDER BY time DESC LIMIT 3", "host"),
        ("SELECT max(host) FROM alarm", "host"),
        ("SELECT rack, max(slot) FROM machine GROUP BY rack", "(rack, slot)"),
        ("SELECT host AS a, host AS A FROM alarm WHERE level > 3", "(host, host)"),
        ("VALUES ('h1'), (NULL), ('h2')", "host"),
        ("SELECT 'h' || range FROM range(5)", "host"),
        ("SELECT NULL::VARCHAR", "host"),
        ("SELECT sum(slot) FROM machine WHERE slot < 2", "slot"),
        ("SELECT 1.5::DECIMAL(4, 1) UNION ALL SELECT 2.0", "slot"),
        ("SELECT 2::UTINYINT", "slot"),
        ("SELECT slot::DOUBLE FROM machine WHERE slot > 5", "slot"),
        ("SELECT time FROM machine LIMIT 1", "time::TIMESTAMP_NS"),
        ("SELECT time::TIMESTAMP_S FROM machine LIMIT 1", "time"),
        ("WITH w AS (FROM machine) SELECT host FROM w WHERE slot = 3", "host"),
        ("SELECT host FROM machine WHERE host IN RESULT SET before", "host"),
        ("SELECT DISTINCT host FROM machine WHERE host IN RESULT SET before", "host"),
        (
            "SELECT host FROM (SELECT host, count(*) AS n FROM machine WHERE host IN RESULT SET before GROUP BY host) WHERE n > 0",
            "host",
        ),
        ("FROM (SELECT host FROM machine WHERE host IN RESULT SET before ORDER BY time, host LIMIT 2)", "host"),
        ("SELECT max(host) FROM (SELECT * FROM machine WHERE host IN RESULT SET before ORDER BY time LIMIT 9)", "host"),
        ("FROM (SELECT host FROM machine WHERE host IN RESULT SET before GROUP BY host ORDER BY host LIMIT 1)", "host"),
        ("SELECT host FROM (SELECT DISTINCT ON (host) * FROM machine WHERE host IN RESULT SET before ORDER BY host, time)", "host"),
        ("SELECT a.host FROM alarm a JOIN machine m USING (host) WHERE m.host IN RESULT SET before", "host"),
    ],
)
def test_a_set_may_be_any_query(db: tsdb.Database, settings: dict[str, object], declared: str, operand: str) -> None:
    before = "SELECT host FROM alarm WHERE level > 3"
    plain = f"SELECT * FROM machine WHERE {operand} IN ({declared.replace('RESULT SET before', f'({before})')}) ORDER BY ALL"
    script = f"RESULT SET before AS ({before}); RESULT SET s AS ({declared});"
    script += f"SELECT * FROM machine WHERE {operand} IN RESULT SET s ORDER BY ALL"
    assert db.sql(script, settings=settings).fetchall() == db.sql(plain).fetchall()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "there is no statement to run"),
        ("RESULT SET", "expected the name of a result set"),
        ("RESULT SET a (SELECT 1)", r"expected AS, not '\(' \(line 1, column 14\)"),
        ("RESULT SET a AS SELECT 1; SELECT 1", "expected '\\('"),
        ("RESULT SET a AS (); SELECT 1", "takes a query in parentheses"),
        (
            "RESULT SET a AS (SELECT 1) LIMIT 3; SELECT 1",
            r"takes a query in parentheses and nothing behind it \(line 1, column 1\)",
        ),
        ("RESULT SET a AS (DELETE FROM alarm); SELECT 1", "a query is wanted, not DELETE"),
        ("SELECT 1;\nDROP TABLE alarm", r"a query is wanted, not DROP \(line 2, column 1\)"),
        ("SELECT 1;\n SELECT * FROM alarm WHERE host IN RESULT SET a", r"no result set 'a' \(line 2, column 36\)"),
        ("SELECT 1;\n SELECT * FROM alarm WHERE host IN RESULT SET (SELECT 1)", "IN RESULT SET takes the name"),
        (
            f"{HOSTS}\nSELECT * FROM alarm\nWHERE host IN RESULT SET host",
            r"no result set 'host' \(line 3, column 15\); did you mean 'hosts'",
        ),
        (f"{HOSTS}\n{HOSTS} SELECT 1", r"'hosts' is declared twice: line 1, column 1 and line 2, column 1"),
        (f"{HOSTS} SELECT * FROM alarm WHERE host IN RESULT SET hosts AND levl > 1", "(?s)levl.*line 1"),
        (
            f"{HOSTS}\nSELECT * FROM alarm WHERE (host, level) IN RESULT SET hosts",
            r"has 1 value, and 2 are compared .*line 2, column 44",
        ),
        ("SET nothing = 1; SELECT 1", "no setting 'nothing'"),
        ("RESET threads; SELECT 1", "a script sets a setting with SET name = value"),
    ],
)
def test_what_is_refused_is_said_with_line_and_column(db: tsdb.Database, script: str, message: str) -> None:
    with pytest.raises(tsdb.Error, match=message) as raised:
        db.multi_query(script)
    assert isinstance(raised.value, tsdb.InvalidInput | tsdb.NotFound)


def test_parameters_and_settings(db: tsdb.Database) -> None:
    script = "SET threads = 1; RESULT SET h AS (SELECT host FROM alarm WHERE level > $l);"
    script += "SELECT count(*), $n FROM machine WHERE host IN RESULT SET h"
    for settings in WAYS:
        with db.multi_query(script, {"l": 3, "n": "x"}, settings=settings) as m:
            assert m.results[0].fetchall() == [(3, "x")]
    with pytest.raises(tsdb.InvalidInput, match=r"without a value: \$n"):
        db.multi_query(script, {"l": 3})
    one = f"{HOSTS.replace('3', '$l')} SELECT count(*) FROM machine WHERE host IN RESULT SET hosts"
    assert db.sql(one, {"l": 0}).fetchall() == [(100,)]
    with pytest.raises(tsdb.InvalidInput, match="named"):
        db.sql(one, [3])
    with pytest.raises(tsdb.InvalidInput, match="named"):
        db.multi_query(script, [3, "x"])  # type: ignore[arg-type]
    with pytest.raises(tsdb.InvalidInput, match=r"not used: \$m"):
        db.multi_query(script, {"l": 3, "n": "x", "m": 1})
    with pytest.raises(tsdb.InvalidInput, match="a document has no parameters"):
        db.multi_query({"queries": [{"table": "alarm"}]}, {"l": 1})
    with pytest.raises(tsdb.InvalidInput, match="a dict, JSON text or a script of SQL, not int"):
        db.multi_query(7)


def test_a_script_as_a_statement(db: tsdb.Database) -> None:
    assert len(db.sql(SCRIPT).fetchall()) == 400
    with pytest.raises(tsdb.InvalidInput, match="there is none"):
        db.sql(HOSTS)
    with pytest.raises(tsdb.InvalidInput, match="the script has 2 queries"):
        db.sql(f"{HOSTS} SELECT 1; SELECT 2")
    for words in ("EXPLAIN", "EXPLAIN ANALYZE", "EXPLAIN (ANALYZE, TIMINGS)"):
        with pytest.raises(tsdb.InvalidInput, match="explain_multi_query"):
            db.sql(f"{words} {HOSTS} SELECT 1")
    assert [is_whole(text) for text in (HOSTS, f"SELECT 1; {HOSTS}", f"{HOSTS} SELECT 1;", "SELECT 1")] == [
        False,
        False,
        True,
        False,
    ]
    assert list(split_statements(f"SELECT 1; {HOSTS}\n{HOSTS} SELECT 2; -- nothing\n")) == [
        "SELECT 1",
        f"{HOSTS}\n{HOSTS} SELECT 2",
    ]


def test_sets_that_nothing_needs_never_run(db: tsdb.Database) -> None:
    script = f"""{HOSTS} RESULT SET needed AS (SELECT rack FROM machine WHERE host IN RESULT SET hosts);
    RESULT SET unused AS (SELECT error('it ran') FROM alarm);
    RESULT SET more AS (SELECT 1 FROM alarm WHERE host IN RESULT SET unused);
    SELECT count(*) FROM temperature WHERE rack IN RESULT SET needed"""
    with db.multi_query(script) as m:
        assert [each.name for each in m.sets] == ["hosts", "needed"]
        assert (m.stats["result_sets_run"], m.stats["statements"]) == (2, 3)
        assert m.results[0].fetchall() == [(400,)]
    plan = db.explain_multi_query(script).text or ""
    assert plan.splitlines()[-1] == "Never run: unused, more"


def test_skips_cascade_and_only_what_is_certain_is_skipped(db: tsdb.Database) -> None:
    empty = "RESULT SET e AS (SELECT host FROM alarm WHERE level > 100);"
    full = "RESULT SET f AS (SELECT host FROM alarm WHERE level > 3);"
    cases = {
        "host IN RESULT SET e": True,
        "host NOT IN RESULT SET e": False,
        "NOT (NOT (host IN RESULT SET e))": True,
        "host IN RESULT SET e AND host IN RESULT SET f": True,
        "host IN RESULT SET e OR host IN RESULT SET f": False,
        "(host IN RESULT SET e OR host IN RESULT SET e) AND slot > 100": True,
        "NOT (host NOT IN RESULT SET e OR slot = 1)": True,
        "NOT (host NOT IN RESULT SET e AND slot = 1)": False,
        "slot > 100": False,
        "(host IN RESULT SET e) IS NULL": False,
        "CASE WHEN host IN RESULT SET e THEN true ELSE false END": False,
    }
    for condition, certain in cases.items():
        script = f"""{empty}{full} RESULT SET a AS (SELECT rack FROM machine WHERE {condition});
        RESULT SET b AS (SELECT celsius FROM temperature WHERE rack IN RESULT SET a AND celsius >= 0);
        SELECT celsius FROM temperature WHERE celsius IN RESULT SET b;
        SELECT count(*) FROM temperature WHERE celsius IN RESULT SET b"""
        with db.multi_query(script) as m:
            fates = {each.name: each.fate for each in m.sets}
            assert (fates["a"] == "skipped") is certain, condition
            if certain:
                assert fates["b"] == "skipped"
                assert m.stats["statements"] == 1 + ("f" in fates) + 1  # the count has a row all the same
                assert (m[0].fetchall(), m[0].types, m[0].stats.get("rows_read", 0)) == ([], ["DOUBLE"], 0)
                assert m[1].fetchall() == [(0,)]
                assert m[1].stats.get("rows_read", 0) == 0
    aggregated = (
        f"{empty} RESULT SET n AS (SELECT count(*) FROM machine WHERE host IN RESULT SET e); SELECT 1 WHERE 0 IN RESULT SET n"
    )
    assert db.sql(aggregated).fetchall() == [(1,)]


def test_explain_shows_levels_and_what_became_of_sets(db: tsdb.Database) -> None:
    script = f"""{HOSTS} RESULT SET none AS (SELECT host FROM alarm WHERE level > 100);
    RESULT SET racks AS (SELECT rack FROM machine WHERE host IN RESULT SET hosts);
    RESULT SET skipped AS (SELECT rack FROM machine WHERE host IN RESULT SET none);
    SELECT * FROM temperature WHERE rack IN RESULT SET racks; SELECT rack FROM machine WHERE rack IN RESULT SET skipped"""
    text = db.explain_multi_query(script).text or ""
    assert text.splitlines() == [
        "Level 1",
        "  ResultSet hosts",
        "    SELECT host FROM alarm WHERE level > 3",
        "  ResultSet none",
        "    SELECT host FROM alarm WHERE level > 100",
        "Level 2",
        "  ResultSet racks (needs hosts)",
        "    SELECT rack FROM machine WHERE host IN RESULT SET hosts",
        "  ResultSet skipped (needs none)",
        "    SELECT rack FROM machine WHERE host IN RESULT SET none",
        "Queries",
        "  Query query_1",
        "    SELECT * FROM temperature WHERE rack IN RESULT SET racks",
        "  Query query_2",
        "    SELECT rack FROM machine WHERE rack IN RESULT SET skipped",
    ]
    done = db.explain_multi_query(script, analyze=True, settings={"result_set_materialization_max_size": 2}).text or ""
    shown = [line.strip() for line in done.splitlines() if "ResultSet" in line or "Query " in line]
    assert [line.partition(" bytes")[0].rstrip("0123456789,") for line in shown] == [
        "ResultSet hosts: run, 3 members, in a temporary table of ",
        "ResultSet none: run, 0 members, inlined",
        "ResultSet racks (needs hosts): run, 2 members, inlined",
        "ResultSet skipped (needs none): skipped, its filter is false",
        "Query query_",
        "Query query_2: empty, answered without a scan",
    ]
    assert "predicate=host IN RESULT SET hosts (3 members, table)" in done
    assert "result_sets_table_backed=1" in done


@pytest.mark.parametrize("seed", range(3))
def test_plans_are_never_kept(db: tsdb.Database, seed: int) -> None:
    """The same text after other rows: sets of one request are not those of the next."""
    script = f"{HOSTS} SELECT count(*) FROM machine WHERE host IN RESULT SET hosts"
    found: list[Any] = []
    for number, settings in zip(itertools.count(), WAYS, strict=False):
        found += db.sql(script, settings=settings).fetchall()
        db.sql(f"INSERT INTO alarm VALUES ('2024-01-01', 'h{50 + number + seed}', 9)")
    assert [count for (count,) in found] == [3, 4, 5, 6, 7]


def test_groups_of_devices_in_a_set_are_native(db: tsdb.Database) -> None:
    script = f"{HOSTS} SELECT host, count(*), max(slot) FROM machine WHERE host IN RESULT SET hosts GROUP BY host ORDER BY host"
    assert db.sql(script).fetchall() == [("h13", 1, 1), ("h24", 1, 2), ("h3", 1, 0)]
    plan = db.explain_multi_query(script, analyze=True).text or ""
    assert "Aggregate by=[host]" in plan
    assert "DuckQuery" not in plan
