"""Questions at the corners of SQL: names that stand in each other's way, forms that look like others, and what is no question.

Some DuckDB refuses; the others have one answer, in order where they say ORDER BY outside of parentheses.
"""

from __future__ import annotations

_NUMBER = "row_number() OVER (PARTITION BY host ORDER BY time DESC)"
#: About groups, over the table of ``support.aggregate_sql``.
GROUPS = [
    'SELECT host AS "count(*)", count(*) FROM t GROUP BY host ORDER BY "count(*)"',
    'SELECT host AS "max(d)", max(d) - 1, "max(d)" || \'x\' FROM t GROUP BY host ORDER BY "max(d)"',
    'SELECT count(*) "order" FROM t',
    'SELECT max(d) AS "select", 1+max(d) FROM t',
    'SELECT "a b".host, max("a b".d) + 1 FROM t AS "a b" GROUP BY "a b".host ORDER BY 1',
    "SELECT host,count(*)+1FROM t GROUP BY host ORDER BY host",
    "SELECT max(d)+1 AS x FROM t WHERE d>0HAVING max(d)>1",
    "SELECT host, max(d)+1 FROM t WHERE d>0GROUP BY host HAVING(max(d)>1)ORDER BY host",
    "SELECT CASE WHEN host = 'a' THEN max(d) END AS c FROM t GROUP BY host ORDER BY 1",
    "SELECT (max(d), min(d)) FROM t",
    "SELECT [max(d), min(d)], {'a': max(d), 'd': 1} FROM t",
    "SELECT sum(d) FROM t GROUP BY ()",
    "SELECT host, count(*) FROM t GROUP BY host || ''",
    "SELECT upper(host), host FROM t GROUP BY upper(host), host ORDER BY ALL",
    "SELECT max(d) AS host, host AS h FROM t GROUP BY host ORDER BY host, h",
    "SELECT upper(host) AS host, count(*) + 0 FROM t GROUP BY host HAVING host = 'a'",
    "SELECT upper(host) AS host, count(*) FROM t GROUP BY host HAVING host = 'a'",
    "SELECT host FROM t GROUP BY host ORDER BY 1+1, host",
    "SELECT ALL max(d) FROM t",
    'SELECT time_bucket(\'1 hour\', "time") AS x, max("D") FROM t GROUP BY TIME_BUCKET(\'1 hour\', "TIME") ORDER BY x',
    "SELECT max(d) /* a */ - -- b\n min(d) FROM t",
    "SELECT host, max(d) FROM t GROUP BY host ORDER BY max(d) DESC NULLS FIRST, host LIMIT 50%",
    "SELECT max(d) m, m + 1 FROM t",
    "SELECT host, max(d) FROM t WHERE 1 = 1 GROUP BY host ORDER BY host;",
    'SELECT rack, max(d) AS "rack", min(d) FROM t GROUP BY 1 ORDER BY 1',
    "SELECT count(*) FILTER (WHERE i > 0), count(*) FILTER (i > 0) AS c FROM t",
    "SELECT sum(i) FROM t WHERE host IS NULL",
    "SELECT max(t.d), t.host FROM main.t GROUP BY t.host ORDER BY 2",
    "SELECT host h1, rack r, count(*) c FROM t GROUP BY h1, r HAVING c > 1 AND r = 1 ORDER BY c DESC, h1",
    "SELECT -count(*), -max(i) FROM t",
    "SELECT count(*)::INT, max(i)::VARCHAR || 'x', sum(l)::DOUBLE FROM t",
    "SELECT host IS NULL, count(*) FROM t GROUP BY host IS NULL ORDER BY 1",
    "SELECT host = 'a' AS isa, count(*) FROM t GROUP BY isa ORDER BY 1",
    "SELECT rack % 2 AS p, count(*), p + 1 FROM t GROUP BY p ORDER BY 1",
    "SELECT rack / 2 AS p, count(*) FROM t GROUP BY p ORDER BY 1",
    "SELECT rack::VARCHAR || host AS k, count(*) FROM t GROUP BY ALL ORDER BY 1",
    "SELECT length(host), count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT host IN ('a', 'b') AS q, avg(d) FROM t GROUP BY q ORDER BY q",
    "SELECT host, count(*) FROM t GROUP BY host HAVING host IN ('a', 'b') ORDER BY 1",
    "SELECT host, count(*) FROM t GROUP BY host HAVING upper(host) = 'A'",
    "SELECT host, count(*) FROM t GROUP BY host HAVING host LIKE 'a%' OR count(*) BETWEEN 1 AND 20 ORDER BY 1",
    "SELECT host, max(time) FROM t GROUP BY host HAVING max(time) > '2024-01-02' ORDER BY 1",
    "SELECT host, max(time) FROM t GROUP BY host HAVING max(time) > TIMESTAMP '2024-01-02' + INTERVAL 1 DAY ORDER BY 1",
    (
        "SELECT date_trunc('day', time) AS day, count(*) FROM t GROUP BY day HAVING date_trunc('day', time) >= '2024-01-02' "
        "ORDER BY 1"
    ),
    "SELECT date_trunc('day', time) AS day, count(*) FROM t GROUP BY day HAVING day >= DATE '2024-01-02' ORDER BY 1",
    "SELECT time::DATE AS day, count(*) FROM t GROUP BY day HAVING day >= '2024-01-02' ORDER BY 1",
    "SELECT host, sum(d) AS s FROM t GROUP BY host ORDER BY s / count(*), host",
    "SELECT (SELECT max(d) FROM t) - (SELECT min(d) FROM t) AS x",
    (
        "SELECT * FROM (SELECT rack, count(*) AS n FROM t GROUP BY rack) a JOIN (SELECT rack, max(d) AS m FROM t GROUP BY "
        "rack) b USING (rack) ORDER BY 1"
    ),
    "SELECT host, count(*) FROM t GROUP BY host INTERSECT SELECT host, count(*) FROM t GROUP BY host ORDER BY 1",
    "WITH a AS (SELECT host, avg(d) AS m FROM t GROUP BY host), b AS (SELECT max(m) AS x FROM a) SELECT * FROM b",
    'WITH a AS MATERIALIZED (SELECT host, avg(d) FROM t GROUP BY host) SELECT count(*), max("avg(d)") FROM a',
    (
        "SELECT host, row_number() OVER (PARTITION BY rack ORDER BY count(*) DESC, host) AS rn FROM t GROUP BY host, rack "
        "ORDER BY ALL"
    ),
    "SELECT host, lag(count(*)) OVER (ORDER BY host) FROM t GROUP BY host ORDER BY host",
    (
        "SELECT host, sum(count(*)) OVER (ORDER BY host ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t GROUP BY host "
        "ORDER BY host"
    ),
    "SELECT host, count(*) FILTER (WHERE i > 0) OVER () FROM t WHERE i > 3 ORDER BY ALL",
    "SELECT host, max(count(*)) OVER () FROM t GROUP BY host ORDER BY ALL",
    "SELECT DISTINCT host, rack + 1 FROM t ORDER BY ALL",
    "SELECT DISTINCT host, 1 FROM t ORDER BY ALL",
    "SELECT DISTINCT upper(host) AS u FROM t WHERE i > 0 ORDER BY u DESC LIMIT 2",
    "SELECT DISTINCT host FROM t ORDER BY upper(host)",
    "SELECT count(DISTINCT host) FROM t",
    "SELECT count(*) FROM (SELECT DISTINCT host, rack FROM t)",
    "SELECT host, string_agg(s, ',' ORDER BY id) FROM t GROUP BY host ORDER BY host",
    "SELECT grouping(host), count(*) FROM t GROUP BY host ORDER BY ALL",
    "SELECT host, count(*) FROM t GROUP BY CUBE (host) ORDER BY ALL",
    'SELECT "t"."host", MAX("t"."d") FROM "t" GROUP BY "t"."host" ORDER BY 1',
    "SELECT max(d) FROM t x, (SELECT 1) y",
    "SELECT count(*) FROM t AS t2 WHERE t2.i > (SELECT 0)",
    "SELECT max(i) FROM t HAVING false",
    "SELECT 1 FROM t HAVING count(*) > 1",
    "SELECT 'x' AS k, host, count(*) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT count(*) FROM t GROUP BY host ORDER BY host",
    "SELECT host AS time, max(time) FROM t GROUP BY host ORDER BY time",
    "SELECT avg(d) AS time FROM t GROUP BY date_trunc('day', time) ORDER BY time",
    "SELECT quantile_cont(d, 0.5), max(d) FROM t",
    "SELECT host, max(d) FROM t GROUP BY host ORDER BY host COLLATE NOCASE",
    "SELECT host COLLATE NOCASE, count(*) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT max(s COLLATE NOCASE) FROM t",
    "SELECT host, s FROM t WHERE host = 'H0' COLLATE NOCASE OR s < 'B' COLLATE NOCASE ORDER BY ALL",
    "SELECT count(*) FROM t WHERE host >= 'H0' COLLATE NOCASE",
    "SELECT max(columns(['d','i'])) FROM t",
    "SELECT max(#3) FROM t",
    "SELECT host, ANY_VALUE(region), count(*) FROM t GROUP BY host ORDER BY 1",
    "SELECT region, host, count(*) FROM t GROUP BY region, host ORDER BY region NULLS FIRST, host DESC",
    "SELECT host.upper(), count(*) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT host[1], count(*) FROM t GROUP BY 1 ORDER BY ALL",
    "SELECT host[1:1] AS z, count(*) FROM t GROUP BY z ORDER BY ALL",
    "SELECT i + count(*) FROM t GROUP BY i ORDER BY ALL",
    "SELECT time_bucket(INTERVAL (2) HOUR, time) AS x, count(*) FROM t GROUP BY x ORDER BY x",
    "SELECT time_bucket(to_hours(2), time) AS x, count(*) FROM t GROUP BY x ORDER BY x",
    "SELECT extract(hour FROM time) AS x, count(*) FROM t GROUP BY x ORDER BY x",
    "SELECT strftime(time, '%H') AS x, count(*) FROM t GROUP BY x ORDER BY x",
    "SELECT random() < 2 AS r, count(*) FROM t GROUP BY ALL",
    "SELECT host || random()::VARCHAR AS r FROM t GROUP BY ALL LIMIT 0",
    "SELECT ascii(host) AS a, min(time::DATE) FROM t GROUP BY a ORDER BY a",
    "SELECT min(time)::DATE, max(time)::DATE - min(time)::DATE FROM t",
]
#: About the newest rows, over that of ``sql.test_last_row_sql``.
NEWEST = [
    "SELECT DISTINCT ON (host) * FROM t ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host, host) id FROM t ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) id FROM t ORDER BY (host), time DESC",
    "SELECT DISTINCT ON (host) id AS host, rack FROM t ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) host AS h, id FROM t ORDER BY h, time DESC",
    "SELECT DISTINCT ON (h) host AS h, id FROM t ORDER BY h, time DESC",
    "SELECT DISTINCT ON (1) host, id FROM t ORDER BY 1, time DESC",
    "SELECT DISTINCT ON (upper(host)) host, id FROM t ORDER BY upper(host), time DESC",
    "SELECT DISTINCT ON (host) time, id FROM t ORDER BY host, 1 DESC",
    "SELECT DISTINCT ON (host) id, time AS when FROM t ORDER BY host, time DESC LIMIT 3",
    "SELECT DISTINCT ON (host) id FROM t WHERE rack IN (1, 2) AND i IS NOT NULL ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) id FROM t WHERE time < '2024-01-01 00:05:00' ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) id FROM t WHERE id IN (SELECT max(id) FROM t GROUP BY host) ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) id FROM t WHERE false ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) host, (SELECT max(d) FROM t x WHERE x.host = t.host) AS m FROM t ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) host, row_number() OVER (ORDER BY id) AS r FROM t ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) host, unnest([id, 1]) AS u FROM t ORDER BY host, time DESC",
    f"SELECT id FROM t QUALIFY {_NUMBER} = 1 AND {_NUMBER} <= 5 ORDER BY id",
    f"SELECT id FROM t QUALIFY {_NUMBER} = 2 ORDER BY id",
    f"SELECT id FROM t QUALIFY {_NUMBER} BETWEEN 1 AND 2 ORDER BY id",
    f"SELECT id FROM t QUALIFY {_NUMBER} IN (1, 2) ORDER BY id",
    f"SELECT id FROM t QUALIFY {_NUMBER} <= 0 ORDER BY id",
    f"SELECT id FROM t QUALIFY {_NUMBER} < 1.5 ORDER BY id",
    f"SELECT id FROM t QUALIFY NOT {_NUMBER} > 1 ORDER BY id",
    f"SELECT id FROM t QUALIFY {_NUMBER} <= 2 ORDER BY id LIMIT 3 OFFSET 1",
    f"SELECT id, {_NUMBER} FROM t QUALIFY {_NUMBER} <= 2 ORDER BY id",
    f"SELECT id, {_NUMBER} AS i FROM t QUALIFY i <= 2 ORDER BY id",
    f"SELECT id, count(*) OVER () AS c FROM t QUALIFY {_NUMBER} <= 2 ORDER BY id",
    (
        "SELECT max(id), host FROM t GROUP BY host QUALIFY row_number() OVER (PARTITION BY host ORDER BY max(time) DESC) = 1 "
        "ORDER BY 1"
    ),
    f"SELECT DISTINCT host FROM t QUALIFY {_NUMBER} = 1 ORDER BY host",
    "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC NULLS FIRST) = 1 ORDER BY id",
    ("SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC ROWS UNBOUNDED PRECEDING) = 1 ORDER BY id"),
    "SELECT id FROM t QUALIFY row_number() OVER w = 1 WINDOW w AS (PARTITION BY host ORDER BY time DESC) ORDER BY id",
    "SELECT id FROM t QUALIFY row_number() OVER (ORDER BY time DESC) <= 3 ORDER BY id",
    "SELECT id FROM t x QUALIFY row_number() OVER (PARTITION BY x.host, rack ORDER BY x.time) = 1 ORDER BY id",
    f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t) q WHERE rn = 1 AND d IS NOT NULL ORDER BY id",
    f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t WHERE d > 3) WHERE rn <= 2 ORDER BY id",
    f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t WHERE d > i) WHERE rn <= 2 ORDER BY id",
    f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t ORDER BY id) WHERE rn <= 2 ORDER BY id",
    f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t LIMIT 3) WHERE rn <= 2 ORDER BY id",
    f"SELECT id FROM (SELECT DISTINCT host, {_NUMBER} AS rn, id FROM t) WHERE rn <= 2 ORDER BY id",
    f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t QUALIFY rn <= 3) WHERE rn <= 2 ORDER BY id",
    f"SELECT count(*) FROM (SELECT *, {_NUMBER} AS rn FROM t) HAVING max(rn) = 1",
    f"SELECT id, (SELECT count(*) FROM (SELECT *, {_NUMBER} AS rn FROM t) WHERE rn = 1) AS c FROM t WHERE id = 3",
    f"SELECT q.id FROM (SELECT *, {_NUMBER} AS rn FROM t) AS q, (SELECT 1 AS rn) z WHERE q.rn = 1 ORDER BY 1",
    f"SELECT q.id FROM (SELECT *, {_NUMBER} AS rn FROM t) AS q POSITIONAL JOIN (SELECT 1 AS z) y WHERE q.rn = 1 ORDER BY 1",
    f"SELECT q.id FROM (SELECT 1 AS z) y LEFT JOIN (SELECT *, {_NUMBER} AS rn FROM t) AS q ON q.rn > 2 WHERE q.rn = 3 ORDER BY 1",
    f"SELECT q.id FROM (SELECT *, {_NUMBER} AS rn FROM t) AS q(time, host, rn2) WHERE rn = 1 ORDER BY 1",
    f"SELECT id FROM (SELECT *, {_NUMBER} AS rn FROM t) WHERE rn = 1 UNION ALL SELECT id FROM t WHERE id = 3 ORDER BY 1",
    f"WITH r AS (SELECT *, {_NUMBER} AS rn FROM t) SELECT id FROM r WHERE rn = 1 ORDER BY id",
    f"WITH r AS (SELECT *, {_NUMBER} AS rn FROM t), s AS (SELECT * FROM r WHERE rn <= 2) SELECT id FROM s ORDER BY id",
    (
        f"WITH r AS (SELECT *, {_NUMBER} AS rn FROM t) SELECT id FROM r WHERE rn = 1 AND id IN "
        "(SELECT id FROM r WHERE rn <= 3) ORDER BY id"
    ),
    f"WITH r AS (SELECT *, {_NUMBER} AS rn FROM t) SELECT id FROM r x WHERE x.rn = 1 ORDER BY id",
    f"WITH r(a, b) AS (SELECT id, {_NUMBER} AS rn FROM t) SELECT a FROM r WHERE b = 1 ORDER BY a",
    f"WITH RECURSIVE r AS (SELECT id, {_NUMBER} AS rn FROM t) SELECT id FROM r WHERE rn = 1 ORDER BY id",
    (
        "SELECT h, id FROM (SELECT DISTINCT host AS h FROM t) q, LATERAL (SELECT id FROM t WHERE host = h ORDER BY time DESC "
        "LIMIT 1) ORDER BY 1"
    ),
    (
        "SELECT h, id FROM (SELECT DISTINCT host AS h FROM t) q JOIN LATERAL (SELECT id FROM t WHERE host = q.h AND rack = 1 "
        "ORDER BY time DESC LIMIT 1 OFFSET 1) z ON true ORDER BY 1"
    ),
    (
        "SELECT h, id FROM (SELECT DISTINCT rack AS h FROM t) q, LATERAL (SELECT id FROM t WHERE rack = h OR host = 'a' ORDER "
        "BY time DESC LIMIT 1) ORDER BY 1"
    ),
    (
        "SELECT h, id FROM (SELECT DISTINCT host AS h FROM t) q, LATERAL (SELECT id FROM t WHERE host = h AND d > 3 AND i < id "
        "ORDER BY time DESC LIMIT 1) ORDER BY 1"
    ),
    (
        "SELECT h, id FROM (SELECT DISTINCT host AS h, rack AS r FROM t) q, LATERAL (SELECT id FROM t WHERE host = h AND rack "
        "= r ORDER BY host, time DESC LIMIT 2) ORDER BY ALL"
    ),
    (
        "SELECT h, id FROM (SELECT DISTINCT host AS h FROM t) q, LATERAL (SELECT id, time AS x FROM t WHERE host = h ORDER BY "
        "x DESC LIMIT 1) ORDER BY 1"
    ),
    (
        "SELECT h, id FROM (SELECT DISTINCT rack::VARCHAR AS h FROM t) q, LATERAL (SELECT id FROM t WHERE rack = h ORDER BY "
        "time DESC LIMIT 1) ORDER BY 1"
    ),
    (
        "SELECT h, n FROM (SELECT DISTINCT host AS h FROM t) q, LATERAL (SELECT count(*) AS n FROM t WHERE host = h ORDER BY "
        "max(time) DESC LIMIT 1) ORDER BY 1"
    ),
    (
        "SELECT h, n FROM (SELECT DISTINCT host AS h FROM t) q, LATERAL (SELECT list(id ORDER BY id) AS n FROM t WHERE host = "
        "h) ORDER BY 1"
    ),
    (
        "SELECT host, (SELECT id FROM t b WHERE b.host = a.host AND b.time < a.time ORDER BY b.time DESC LIMIT 1) AS p FROM t "
        "a ORDER BY id"
    ),
    "SELECT host, (SELECT id FROM t b WHERE b.host = a.host ORDER BY b.time DESC LIMIT 1) AS p, id FROM t a ORDER BY id",
    "SELECT id FROM t a WHERE id = (SELECT id FROM t b WHERE b.host = a.host ORDER BY time LIMIT 1) ORDER BY id",
    "SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.host = a.host ORDER BY time DESC LIMIT 1) ORDER BY id",
    "SELECT id FROM t a WHERE id IN (SELECT id FROM t b WHERE b.host = a.host ORDER BY time DESC LIMIT 2) ORDER BY id",
    "SELECT count(*), max(id) FROM (SELECT DISTINCT ON (rack) * FROM t ORDER BY rack, time) WHERE i > 0",
    "SELECT host, last(id) AS l FROM (SELECT * FROM t ORDER BY time) GROUP BY host ORDER BY host",
    (
        "SELECT a.id FROM (SELECT DISTINCT ON (host) * FROM t ORDER BY host, time DESC) a JOIN (SELECT DISTINCT ON (rack) * "
        "FROM t ORDER BY rack, time DESC) b USING (id) ORDER BY 1"
    ),
]
