"""Documents: what is refused and where, what a query becomes, and that the published schema says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tsdb
from support.json_schema import violations
from support.result_set_case import document_of, random_document

SCHEMA = json.loads((Path(tsdb.__file__).parent / "resultset" / "request.schema.json").read_text(encoding="utf-8"))
HOSTS = {"table": "alarm", "filter": "level > 3", "result_sets": {"hosts": {"value": "host"}}}


def _query(**more: Any) -> dict[str, Any]:
    return {"queries": [{"table": "alarm", **more}]}


def _filter(node: Any) -> dict[str, Any]:
    return _query(filter=node)


#: A document, what is said of it, and whether the schema alone can say so.
REFUSED: list[tuple[Any, str, bool]] = [
    ("{", "the document is no JSON: .*line 1, column 2", True),
    ([], "the document: an object is wanted, not list", True),
    ({}, "queries: a list of one query or more", True),
    ({"queries": []}, "queries: a list of one query or more", True),
    ({"query": []}, "the document: no key 'query'; did you mean 'queries'", True),
    ({"queries": [7]}, r"queries\[0\]: an object is wanted, not int", True),
    (_query(filer="x"), r"queries\[0\]: no key 'filer'; did you mean 'filter'", True),
    ({"queries": [{}]}, r"queries\[0\].table: the name of a table", True),
    ({"queries": [{"table": "alarms"}]}, r"queries\[0\].table: no table 'alarms'; did you mean 'alarm'", False),
    (_query(columns=["host", "levl"]), r"queries\[0\].columns\[1\]: no column 'levl' in table 'alarm'; did you mean", False),
    (_query(columns=[]), r"queries\[0\].columns: a list of names", True),
    (_query(order_by=["nothing"]), r"queries\[0\].order_by\[0\]: no column 'nothing'", False),
    (_query(order_by="time"), r"queries\[0\].order_by: a list is wanted", True),
    (_query(order_by=[{"column": "time", "descending": "yes"}]), r"order_by\[0\].descending: true or false", True),
    (_query(limit=-1), r"queries\[0\].limit: a whole number from 0", True),
    (_query(limit=True), r"queries\[0\].limit: a whole number from 0", True),
    (_query(time={"from": "yesterday"}), r"queries\[0\].time.from: a time is wanted, such as", False),
    (_query(time={"since": "2024-01-01"}), r"queries\[0\].time: no key 'since'", True),
    (_query(name=""), r"queries\[0\].name: a text", True),
    ({"queries": [{"table": "alarm", "name": "a"}] * 2}, r"queries\[1\].name: 'a' is the name of queries\[0\]", False),
    (_query(result_sets={"a": "host"}), r"queries\[0\].result_sets.a: an object is wanted", True),
    (_query(result_sets={"a": {"value": []}}), r"result_sets.a.value: the name of a column", True),
    (_query(result_sets={"a": {"value": "hots"}}), r"queries\[0\].result_sets.a.value: no column 'hots'", False),
    (_query(result_sets={"a": {"value": ["host", "host"]}}), "result_sets.a.value: a column is named twice", True),
    (_query(result_set_only=True), r"queries\[0\].result_set_only: the query declares no result set", False),
    (_query(result_set_only="no"), r"queries\[0\].result_set_only: true or false", True),
    ({**_query(), "settings": {"result_set_materialisation_max_size": 1}}, "did you mean result_set_material", False),
    ({**_query(), "deduplicate": 1}, "deduplicate: true or false", True),
    (_filter(""), r"queries\[0\].filter: a condition is wanted", True),
    (_filter("level > 1) OR (1 = 1"), r"queries\[0\].filter: one condition of SQL .* '\)' ends it \(column 10\)", False),
    (_filter("host = '\ud800'"), r"queries\[0\].filter: half a character, '\\ud800', is no text \(line 1, column 9\)", False),
    (_filter({"op": "=", "args": [{"property": "host"}, "\ud800"]}), "half a character", False),
    ("[" * 100_000, "the document is nested too deeply", False),
    (_filter("(level > 1"), r"queries\[0\].filter: a parenthesis is not closed", False),
    (_filter("level > 1; DROP TABLE alarm"), r"queries\[0\].filter: .* ';' ends it", False),
    (_filter("level > ?"), r"queries\[0\].filter: a document has no parameters", False),
    (_filter("host = 'x"), r"queries\[0\].filter: the string that starts at line 1, column 8 does not end", False),
    (_filter("levl > 1"), r"queries\[0\]: no column 'levl' in table 'alarm' \(line 1, column 1\); did you mean 'level'", False),
    (_filter("true AND\n nothing(levl) > 1"), r"queries\[0\]: .*line 2", False),
    (_filter("host IN RESULT SET"), "IN RESULT SET takes the name of a result set", False),
    (_filter({"op": "=", "args": [{"property": "hots"}, 1]}), r"queries\[0\].filter.args\[0\]: no column 'hots'", False),
    (_filter({"op": "and", "args": [True, {"op": "eq", "args": []}]}), r"queries\[0\].filter.args\[1\].op: no operator 'eq'", True),
    (_filter({"op": "=", "args": [1]}), r"queries\[0\].filter.args: '=' takes 2 arguments, not 1", True),
    (_filter({"op": "=", "args": [{"property": "host"}, None]}), r"filter.args\[1\]: null equals nothing", True),
    (_filter({"op": "=", "args": [{"property": "host"}, [1]]}), r"filter.args\[1\]: a literal, a property", True),
    (_filter({"op": "not", "args": [7]}), r"filter.args\[0\]: a condition is wanted", True),
    (_filter({"op": "and", "args": []}), "filter.args: 'and' takes one condition or more", True),
    (_filter({"op": "in", "args": [{"property": "host"}, "a"]}), r"filter.args\[1\]: a list is wanted", True),
    (_filter({"op": "t_after", "args": [{"property": "time"}, "noon"]}), r"filter.args\[1\]: a time is wanted", False),
    (_filter({"op": "t_during", "args": [{"property": "time"}, {"interval": ["2024-01-01"]}]}), "an interval is wanted", True),
    (_filter({"op": "=", "args": [{"property": "host"}, {"date": "2024-13-01"}]}), r"args\[1\]: a date is wanted", False),
    (_filter({"op": "inResultSet", "args": [{"property": "host"}, 7]}), "the name of a result set is wanted", True),
    (_filter({"op": "inResultSet", "args": [[], "a"]}), "a property is wanted, or a list", True),
    (_filter({"op": "=", "args": [], "arguments": 1}), "an object with 'op' and a list 'args' and nothing else", True),
    (_filter("host IN RESULT SET hosts"), r"no result set 'hosts' \(queries\[0\], line 1, column 9\); no query before it", False),
    (
        {"queries": [HOSTS, {"table": "machine", "filter": "host IN RESULT SET hots"}]},
        r"no result set 'hots' \(queries\[1\], line 1, column 9\); did you mean 'hosts'",
        False,
    ),
    ({"queries": [HOSTS, HOSTS]}, r"'hosts' is declared twice: queries\[0\].result_sets.hosts and queries\[1\]", False),
    (
        {"queries": [{"table": "machine", "filter": "host IN RESULT SET hosts"}, HOSTS]},
        r"'hosts' \(queries\[0\], line 1, column 9\) is declared by a later query \(queries\[1\].result_sets.hosts\)",
        False,
    ),
    ({"queries": [{**HOSTS, "filter": "host IN RESULT SET hosts"}]}, "need each other: hosts → hosts", False),
    (
        {
            "queries": [
                {**HOSTS, "filter": "host IN RESULT SET b"},
                {"table": "machine", "filter": "host IN RESULT SET hosts", "result_sets": {"b": {"value": "host"}}},
            ]
        },
        r"result sets need each other: hosts → b → hosts \(queries\[0\]",
        False,
    ),
    (
        {"queries": [HOSTS, {"table": "machine", "filter": "(host, rack) IN RESULT SET hosts"}]},
        r"queries\[1\]: result set 'hosts' has 1 value, and 2 are compared with it",
        False,
    ),
    ({"queries": [HOSTS, {"table": "machine", "filter": "slot IN RESULT SET hosts"}]}, r"queries\[1\]: .*Cannot compare", False),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message", "by_schema"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_is_said_with_its_place(db: tsdb.Database, document: Any, message: str, by_schema: bool) -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(tsdb.Error, match=message) as raised:
        db.multi_query(text)
    assert isinstance(raised.value, tsdb.InvalidInput | tsdb.NotFound)
    if isinstance(document, dict):
        with pytest.raises(type(raised.value), match=re.escape(str(raised.value))):
            db.multi_query(document)
    if not isinstance(document, str):
        assert bool(violations(document, SCHEMA)) == by_schema


@pytest.mark.parametrize("seed", range(40))
def test_what_is_accepted_fits_the_schema(seed: int) -> None:
    random = Random(seed)
    document = json.loads(json.dumps(document_of(random_document(random, 4), random)))
    assert violations(document, SCHEMA) == []


def test_a_name_of_a_set_is_a_text(db: tsdb.Database) -> None:
    with pytest.raises(tsdb.InvalidInput, match="the name of a result set is a text, not 7"):
        db.multi_query({"queries": [{"table": "alarm", "result_sets": {7: {"value": "host"}}}]})


def test_every_key_of_a_query(db: tsdb.Database) -> None:
    document = {
        "$schema": "request.schema.json",
        "description": "every key",
        "settings": {"threads": 1},
        "queries": [
            {**HOSTS, "description": "limit and order do not restrict the set", "order_by": ["time"], "limit": 1, "name": "first"},
            {
                "table": "MACHINE", "name": "racks", "filter": "HOST in result set HOSTS", "columns": ["RACK", "host"],
                "order_by": [{"column": "host", "descending": True}, "rack"], "offset": 1, "limit": 5,
                "time": {"from": "1970-01-01", "to": "1970-01-01T00:00:00.000001Z"},
            },
            {"table": "machine", "time": {"from": "1970-01-01T01:00:00.000001+01:00", "to": None}},
        ],
    }  # fmt: skip
    assert violations(document, SCHEMA) == []
    with db.multi_query(document) as m:
        assert m.names == ["first", "racks", "query_3"]
        assert m["first"].fetchall() == db.sql("SELECT * FROM alarm WHERE level > 3 ORDER BY time LIMIT 1").fetchall()
        assert (m[1].columns, m[1].fetchall()) == (["rack", "host"], [("r4", "h24"), ("r3", "h13")])
        assert m[2].fetchall() == []
        assert [result.columns[0] for result in m] == ["time", "rack", "time"]
        with pytest.raises(tsdb.NotFound, match="no query is named 'other'; there are: first, racks, query_3"):
            m["other"]
        assert "result_sets_run=1" in repr(m)
        assert len(m) == 3


def test_rows_that_several_queries_select_come_once(db: tsdb.Database) -> None:
    queries = [
        {"table": "temperature", "filter": "celsius < 100", "columns": ["celsius"], "order_by": ["celsius"], "limit": 5},
        {"table": "temperature", "filter": "sin(celsius) < 2 AND celsius < 8", "columns": ["celsius"]},
        {"table": "machine", "filter": "slot = 0", "columns": ["host"]},
        {"table": "temperature", "filter": "celsius BETWEEN 3 AND 9", "columns": ["celsius"]},
    ]
    expected = [{0, 1, 2, 3, 4}, {5, 6, 7}, {f"h{n}" for n in range(10)}, {8, 9}]
    for order in ((3, 2, 1, 0), (0, 1, 2, 3), (1, 3, 0, 2)):
        with db.multi_query({"queries": queries, "deduplicate": True}) as m:
            for at in (*order, *order):
                rows = m[at].fetchall()
                assert (len(rows), {row[0] for row in rows}) == (len(expected[at]), expected[at])
            assert m[1].columns == ["celsius"]
    with db.multi_query({"queries": queries}) as m:
        assert [len(result.fetchall()) for result in m] == [5, 8, 10, 7]
