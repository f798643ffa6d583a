-- Queries that DuckDB runs over tables of tsdb, one a line; t is the table of support/twin.py.
WITH t AS (SELECT * FROM t WHERE i > 0) SELECT count(*), max(i) FROM t
WITH t AS (SELECT host, max(i) AS m FROM t GROUP BY host) SELECT * FROM t ORDER BY ALL
WITH a AS (SELECT * FROM t), t AS (SELECT * FROM a WHERE i > 0) SELECT count(*) FROM t, a WHERE t.id = a.id
SELECT (WITH t AS (SELECT 1 AS x) SELECT x FROM t) + count(*) FROM t
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT * FROM t ORDER BY 1
WITH RECURSIVE r AS (SELECT id, i FROM t WHERE id = 0 UNION ALL SELECT t.id, t.i FROM t JOIN r ON t.id = r.id + 1 WHERE t.id < 9) SELECT * FROM r ORDER BY 1
WITH RECURSIVE r(id) USING KEY (id) AS (SELECT id FROM t WHERE id = 0 UNION SELECT t.id FROM t JOIN r ON t.id = r.id + 1 WHERE t.id < 9) SELECT * FROM r ORDER BY 1
WITH x AS MATERIALIZED (SELECT host, i FROM t) SELECT count(*) FROM x a JOIN x b USING (host) WHERE a.i > 0
WITH x AS NOT MATERIALIZED (SELECT host, i FROM t) SELECT count(*) FROM x WHERE i > 0
SELECT id, (SELECT max(b.i) FROM t b WHERE b.host = a.host AND b.id < a.id) FROM t a ORDER BY id
SELECT id FROM t a WHERE i > ALL (SELECT i FROM t b WHERE b.host = a.host AND b.id <> a.id) ORDER BY id
SELECT id FROM t a WHERE i = ANY (SELECT i FROM t b WHERE b.id < 20) ORDER BY id
SELECT id FROM t a WHERE NOT EXISTS (FROM t b WHERE b.id = a.id + 1 AND b.i > 0) ORDER BY id
SELECT id FROM t WHERE (host, i) IN (SELECT host, i FROM t WHERE id < 10) ORDER BY id
SELECT id FROM t WHERE id IN (SELECT unnest([1, 2, 3])) ORDER BY id
SELECT id FROM t WHERE host NOT IN (SELECT host FROM t WHERE i = 5 AND host IS NOT NULL) ORDER BY id
SELECT id, rank() OVER w, dense_rank() OVER w, ntile(3) OVER w, percent_rank() OVER w FROM t WINDOW w AS (PARTITION BY host ORDER BY i, id) ORDER BY id
SELECT id, sum(i) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) FROM t ORDER BY id
SELECT id, avg(i) OVER (ORDER BY time RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW) FROM t ORDER BY id
SELECT id, first_value(i IGNORE NULLS) OVER (PARTITION BY host ORDER BY id) FROM t ORDER BY id
SELECT id, nth_value(i, 2) OVER (PARTITION BY host ORDER BY id) FROM t ORDER BY id
SELECT id, lead(i, 2, -1) OVER (ORDER BY id) FROM t ORDER BY id
SELECT host FROM t UNION SELECT s FROM t ORDER BY 1
SELECT host FROM t UNION BY NAME SELECT s, host FROM t ORDER BY ALL
SELECT host FROM t INTERSECT SELECT s FROM t ORDER BY 1
SELECT host FROM t INTERSECT ALL SELECT s FROM t ORDER BY 1
SELECT i FROM t EXCEPT ALL SELECT i FROM t WHERE b ORDER BY 1
SELECT DISTINCT ON (host, rack) host, rack, id FROM t ORDER BY host, rack, id DESC
SELECT DISTINCT host, b FROM t ORDER BY ALL
SELECT a.id, b.time FROM t a ASOF JOIN t b ON a.host = b.host AND a.time >= b.time AND a.id <> 0 ORDER BY ALL
SELECT a.id, time FROM t a ASOF JOIN (SELECT * FROM t WHERE b) b USING (host, time) ORDER BY ALL
SELECT a.id, b.tu FROM t a ASOF LEFT JOIN (SELECT host, id, tu FROM t WHERE b) b ON a.host = b.host AND a.tu > b.tu WHERE a.i > 0 ORDER BY ALL
FROM (SELECT host, rack, i FROM t) PIVOT (sum(i) FOR rack IN (1, 2)) ORDER BY ALL
FROM t PIVOT (count(*) FOR rack IN (1, 2) GROUP BY host) ORDER BY ALL
PIVOT t ON rack USING count(*) GROUP BY host ORDER BY ALL
PIVOT t ON rack, up USING max(i), min(id) GROUP BY host ORDER BY ALL
PIVOT (SELECT host, rack, i FROM t) ON rack IN (1, 2) USING sum(i) GROUP BY host ORDER BY ALL
WITH p AS (PIVOT t ON rack USING count(*) GROUP BY host) SELECT * FROM p ORDER BY ALL
UNPIVOT (SELECT id, i, l FROM t) ON i, l INTO NAME k VALUE v ORDER BY ALL
UNPIVOT (SELECT id, i::BIGINT AS i, l FROM t) ON COLUMNS(* EXCLUDE (id)) INTO NAME k VALUE v ORDER BY ALL
FROM (SELECT id, d, f::DOUBLE AS f FROM t) UNPIVOT INCLUDE NULLS (v FOR k IN (d, f)) ORDER BY ALL
SELECT id, x FROM t, LATERAL (SELECT i + 1 AS x WHERE i < 10) q ORDER BY ALL
SELECT a.id, q.c FROM t a LEFT JOIN LATERAL (SELECT count(*) AS c FROM t b WHERE b.host = a.host AND b.id < a.id) q ON true ORDER BY ALL
SELECT h.host, q.id FROM (SELECT DISTINCT host FROM t) h, LATERAL (SELECT id FROM t WHERE t.host = h.host ORDER BY id DESC LIMIT 1) q ORDER BY ALL
SELECT h.host, q.* FROM (SELECT DISTINCT host FROM t) h CROSS JOIN LATERAL (SELECT id, i FROM t WHERE t.host = h.host ORDER BY id DESC LIMIT 2) q ORDER BY ALL
SELECT host, list(i ORDER BY id), list_distinct(list(i)).len() FROM t GROUP BY host ORDER BY host
SELECT id, list_transform([i, l], lambda x: x + 1) FROM t WHERE i < 100 AND l < 100 ORDER BY id
SELECT id, list_filter([1, 2, 3], lambda x: x > rack) FROM t ORDER BY id
SELECT id, [x * 2 FOR x IN [rack, 5] IF x > 1] FROM t ORDER BY id
SELECT id, list_reduce([1, 2, rack], lambda a, b: a + b) FROM t WHERE rack IS NOT NULL ORDER BY id
SELECT id, {'a': i, 'b': {'c': s}} AS q FROM t ORDER BY id
SELECT id, struct_pack(a := i, b := s).a FROM t ORDER BY id
SELECT id, MAP {'k': i}['k'] FROM t ORDER BY id
SELECT id, map_from_entries([(s, i)]) FROM t WHERE s IS NOT NULL ORDER BY id
SELECT id, row(i, s), (i, s) FROM t ORDER BY id
SELECT unnest({'a': i, 'b': l}) FROM t ORDER BY ALL
SELECT id, unnest([i, l]), generate_subscripts([i, l], 1) FROM t ORDER BY ALL
SELECT id, regexp_extract(s, '^(.)', 1), regexp_replace(s, 'a', 'X', 'g') FROM t ORDER BY id
SELECT id FROM t WHERE regexp_matches(s, '^a') ORDER BY id
SELECT id FROM t WHERE s SIMILAR TO '(a|b).*' ORDER BY id
SELECT id FROM t WHERE s ~ '^a.*' ORDER BY id
SELECT id FROM t WHERE s !~ 'a' OR s ^@ 'b' ORDER BY id
SELECT id FROM t WHERE s GLOB 'a*' ORDER BY id
SELECT id FROM t WHERE s LIKE 'a$_%' ESCAPE '$' ORDER BY id
SELECT id, i FROM t QUALIFY rank() OVER (PARTITION BY host ORDER BY i DESC, id) <= 2 ORDER BY id
SELECT host, id FROM t QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC, id) = 1 ORDER BY ALL
SELECT host, rack, count(*), grouping(host, rack) FROM t GROUP BY GROUPING SETS ((host, rack), (host), ()) ORDER BY ALL
SELECT host, rack, count(*) FROM t GROUP BY ROLLUP (host, rack) ORDER BY ALL
SELECT host, rack, up, count(*) FROM t GROUP BY CUBE (host, rack, up) ORDER BY ALL
SELECT host, count(*) FROM t GROUP BY ALL HAVING count(*) > 3 ORDER BY ALL
DESCRIBE SELECT * FROM t
DESC SELECT time, host FROM t
SELECT column_name FROM (DESCRIBE t)
SELECT * FROM (DESCRIBE SELECT i, s FROM t)
SELECT count(*) FROM (SELECT * FROM t USING SAMPLE 10 ROWS)
SELECT count(*) FROM t USING SAMPLE 100%
SELECT count(*) FROM t TABLESAMPLE 100%
SELECT count(*) FROM t TABLESAMPLE reservoir(10 ROWS)
SELECT count(*) FROM t AS x TABLESAMPLE reservoir(10 ROWS)
SELECT count(*) FROM main.t TABLESAMPLE reservoir(10 ROWS)
SELECT count(*), count(b.id) FROM t a POSITIONAL JOIN (SELECT id FROM t LIMIT 5) b
SELECT COLUMNS('^[il]$') FROM t ORDER BY id
SELECT max(COLUMNS(* EXCLUDE (blob, v))) FROM t
SELECT * EXCLUDE (v, blob) REPLACE (i + 1::BIGINT AS i) FROM t ORDER BY id
SELECT * RENAME (id AS number) FROM t ORDER BY number
SELECT * LIKE 'i%' FROM t ORDER BY id
SELECT t.* EXCLUDE (v) FROM t ORDER BY id
SELECT #1, #2 FROM t ORDER BY id LIMIT 5
SELECT id AS a, a + 1 AS b FROM t WHERE a < 10 ORDER BY b
SELECT id % 3 AS g, count(*) FROM t GROUP BY g HAVING g > 0 ORDER BY g
SELECT host, string_agg(s, ',' ORDER BY id) FROM t GROUP BY host ORDER BY host
SELECT host, array_agg(id ORDER BY id DESC)[1:3] FROM t GROUP BY host ORDER BY host
SELECT quantile_cont(i, [0.1, 0.5]), median(l), mode(rack), quantile_disc(i, 0.5) FROM t
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i) FROM t
SELECT approx_count_distinct(host) FROM t
SELECT histogram(rack) FROM t
SELECT bit_and(rack), bit_or(rack), bool_and(up), bool_or(up), product(rack) FROM t
SELECT count(DISTINCT host), count(DISTINCT (host, rack)), sum(DISTINCT rack) FROM t
SELECT time_bucket(INTERVAL '1 day', tu) AS bucket, count(*) FROM t GROUP BY bucket ORDER BY bucket
SELECT time_bucket(INTERVAL '1 day', time) AS bucket, count(*) FROM t GROUP BY bucket ORDER BY bucket
SELECT date_trunc('hour', time) AS h, count(*) FROM t GROUP BY h ORDER BY h
SELECT extract(year FROM time), date_part('month', tu), strftime(tu, '%Y-%m') FROM t ORDER BY id
SELECT id, time - INTERVAL 1 DAY, time - TIMESTAMP_NS '2024-01-01' FROM t ORDER BY id
SELECT id, epoch_ns(time), epoch(tu), to_timestamp(1) FROM t ORDER BY id
SELECT id, age(tu, TIMESTAMP '2024-01-01') FROM t WHERE tu IS NOT NULL ORDER BY id
SELECT CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE 'z' END AS k, count(*) FROM t GROUP BY k ORDER BY k
SELECT id, greatest(i, l), least(i, l), coalesce(i, l, 0), nullif(i, 0), ifnull(i, 7) FROM t ORDER BY id
SELECT id, hash(host), md5(s), sha256(s) FROM t ORDER BY id
SELECT id, v, list_cosine_similarity(v::FLOAT[], [1, 2]::FLOAT[]), array_distance(v, [1, 2]::FLOAT[2]) FROM t ORDER BY id
SELECT id, blob, octet_length(blob), hex(blob) FROM t ORDER BY id
SELECT to_json(t) FROM t ORDER BY id LIMIT 3
SELECT json_object('a', i, 'b', s) FROM t ORDER BY id
SELECT typeof(time), typeof(i), typeof(v), typeof(s) FROM t LIMIT 1
SELECT * FROM t ORDER BY ALL LIMIT 5
SELECT id FROM t ORDER BY i DESC NULLS LAST, id LIMIT 10 OFFSET 3
SELECT id FROM t ORDER BY id LIMIT 10%
SELECT id FROM t ORDER BY id LIMIT (SELECT 3)
SELECT id, i FROM t ORDER BY s COLLATE NOCASE, id
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(id, x) JOIN t USING (id) ORDER BY ALL
SELECT * FROM generate_series(1, 3) g(n) JOIN t ON t.id = g.n ORDER BY ALL
SELECT g.n, count(t.id) FROM range(5) g(n) LEFT JOIN t ON t.rack = g.n GROUP BY g.n ORDER BY g.n
SELECT a.id FROM t a JOIN t b ON a.id = b.id AND a.time BETWEEN b.time - INTERVAL 1 DAY AND b.time ORDER BY 1
SELECT a.id, b.id FROM t a JOIN t b ON a.time < b.time AND a.time > b.time - INTERVAL 1 SECOND ORDER BY ALL
SELECT count(*) FROM t a CROSS JOIN t b
SELECT count(*) FROM t a NATURAL JOIN t b
SELECT count(*) FROM t a FULL OUTER JOIN t b USING (host, rack)
SELECT count(*) FROM t GLOBAL JOIN t b ON true
SELECT id FROM t WHERE i IS DISTINCT FROM l ORDER BY id
FROM t
FROM t SELECT count(*)
FROM t a JOIN t b USING (id) SELECT a.id ORDER BY 1
SELECT x: id, y: i FROM t ORDER BY id
SELECT id FROM x: t ORDER BY id
SELECT 'a'.upper(), s.lower().upper() FROM t ORDER BY id
SELECT id, s[1], s[1:2], host[-1] FROM t ORDER BY id
SELECT id, printf('%d', i), format('{}', s), s || '_' || host, concat_ws('-', s, host) FROM t ORDER BY id
SELECT * FROM query('SELECT 42 AS x')
SELECT * FROM query_table('t') ORDER BY id
SELECT count(*) FROM query_table(['t', 't'])
SELECT i, count(*) FILTER (b) FROM t GROUP BY i ORDER BY i
SELECT host, first(i ORDER BY id), last(i ORDER BY id), any_value(host) FROM t GROUP BY host ORDER BY host
SELECT sum(i) OVER (), count(*) OVER (PARTITION BY host) FROM t ORDER BY id
SELECT "t"."id", "T"."I" FROM "t" ORDER BY "id"
SELECT id FROM (SELECT * FROM (SELECT * FROM t WHERE i > 0) WHERE b) WHERE time > '2000-01-01' ORDER BY id
SELECT id FROM t WHERE time > (SELECT min(time) FROM t) AND time < (SELECT max(time) FROM t) ORDER BY id
SELECT * FROM t WHERE id = 3 UNION ALL SELECT * FROM t WHERE id = 4 ORDER BY id
(SELECT id FROM t WHERE i > 0) EXCEPT (SELECT id FROM t WHERE b) ORDER BY id
(FROM t ORDER BY id LIMIT 3) UNION ALL (FROM t ORDER BY id DESC LIMIT 3) ORDER BY id
SELECT DISTINCT ON (host) * FROM t ORDER BY host, time DESC, id
SELECT host, max(time) FROM t GROUP BY host ORDER BY max(time) DESC, host LIMIT 3
SELECT * FROM (SELECT host, max(i) m FROM t GROUP BY host) WHERE m > 0 ORDER BY ALL
SELECT x.host FROM t x WHERE x.i = (SELECT max(i) FROM t WHERE host = x.host) ORDER BY x.id
VALUES ((SELECT count(*) FROM t)), (1)
SELECT (SELECT count(*) FROM t), (SELECT max(id) FROM t)
SELECT EXISTS (FROM t WHERE id = 3), 3 IN (SELECT id FROM t)
SELECT array(SELECT id FROM t WHERE id < 5 ORDER BY id)
SELECT a.id, a.time - b.time FROM t a ASOF JOIN t b ON a.id > b.id ORDER BY ALL
SELECT t1.id FROM t AS t1, t AS t2, t AS t3 WHERE t1.id = t2.id AND t2.id = t3.id AND t3.i > 0 ORDER BY 1
SELECT "time", "host" FROM t WHERE "time" >= TIMESTAMP '2024-01-01' ORDER BY id
SELECT count(*) FROM t WHERE time::DATE = '2024-01-01'
SELECT id FROM t WHERE year(time) = 2024 AND dayofweek(time) = 1 ORDER BY id
SELECT id, count(*) OVER (PARTITION BY host ORDER BY tu RANGE INTERVAL 1 DAY PRECEDING) FROM t WHERE tu IS NOT NULL ORDER BY id
SELECT grouping_id(host), host, count(*) FROM t GROUP BY ROLLUP (host) ORDER BY ALL
SELECT t.id, u.x FROM t, unnest([1, 2]) u(x) WHERE t.id < 3 ORDER BY ALL
SELECT id, (SELECT list(x) FROM unnest([i, l]) q(x)) FROM t ORDER BY id
SELECT id, json_extract('{"a": 1}', '$.a'), '{"a": 1}'::JSON->>'a' FROM t ORDER BY id
SELECT id, i::DECIMAL(18, 3) / 7 FROM t ORDER BY id
SELECT id, uuid() IS NOT NULL, random() < 2 FROM t ORDER BY id
SELECT id, enum_range(NULL::ENUM('a', 'b')) FROM t ORDER BY id
SELECT id, i::UNION(num INTEGER, str VARCHAR) FROM t ORDER BY id
SELECT id::UBIGINT, rack::UTINYINT, d::FLOAT FROM t WHERE isfinite(d) AND d < 1e30 ORDER BY id
SELECT id, INTERVAL (rack) DAY FROM t ORDER BY id
SELECT current_schema(), current_database() IS NOT NULL, version() IS NOT NULL
SELECT count(*) FROM t WHERE host IN ('a', 'b') AND rack IN (SELECT rack FROM t WHERE up)
SELECT * FROM t SEMI JOIN (SELECT host FROM t WHERE i = 5) q USING (host) ORDER BY id
SELECT id FROM t ANTI JOIN (SELECT host FROM t WHERE i = 5) q USING (host) ORDER BY id
SELECT x.y FROM (SELECT {'y': id} AS x FROM t) ORDER BY 1
SELECT 1 FROM t LIMIT 3
SELECT count(*) FROM t, t AS t2 WHERE t.id = t2.id
WITH a AS (SELECT id FROM t), b AS (SELECT id FROM a WHERE id > 5), c AS (SELECT a.id FROM a, b WHERE a.id = b.id) SELECT count(*) FROM c
WITH a(x, y) AS (SELECT id, i FROM t) SELECT y FROM a WHERE x = 3
WITH q AS (SELECT id, time, host FROM t ORDER BY time DESC, id LIMIT 5) SELECT q.host, count(*) FROM q JOIN t USING (host) GROUP BY 1 ORDER BY ALL
SELECT * FROM (SELECT id, i FROM t WHERE i > 0 LIMIT 1000) a JOIN (SELECT id, l FROM t LIMIT 1000) b USING (id) ORDER BY ALL
SELECT column_name, column_type, min, max, count FROM (SUMMARIZE t) ORDER BY ALL
SELECT id, @i, abs(i % 5), d // 2, i ** 2, i & 1 FROM t WHERE i BETWEEN 0 AND 1000 ORDER BY id
SELECT max(i, 3), arg_max(id, l) FROM t WHERE i IS NOT NULL AND id < 20
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT host FROM t ORDER BY host, id LIMIT 3) q WHERE q.host = t.host) ORDER BY id
SELECT * FROM query('SELECT id FROM t WHERE i > 0') ORDER BY id
SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM (SELECT host, max(id) AS m FROM t GROUP BY host) q WHERE q.m = a.id) ORDER BY id
SELECT id, (SELECT list(x ORDER BY x) FROM (SELECT b.id AS x FROM t b WHERE b.host = a.host ORDER BY b.id LIMIT 2)) FROM t a ORDER BY id
SELECT host, (SELECT id FROM t b WHERE b.host = a.host ORDER BY time DESC, id LIMIT 1) FROM (SELECT DISTINCT host FROM t) a ORDER BY ALL
SELECT * FROM (SELECT id, i FROM t ORDER BY id LIMIT 5) UNION ALL SELECT * FROM (SELECT id, rack FROM t ORDER BY id DESC LIMIT 5) ORDER BY ALL
SELECT count(*) FROM t WHERE host IN (SELECT host FROM t WHERE i > 0 INTERSECT SELECT host FROM t WHERE b)
SELECT a.host, b.c FROM (SELECT host FROM t GROUP BY host) a JOIN (SELECT host, count(*) c FROM t GROUP BY host) b ON a.host = b.host OR a.host IS NULL ORDER BY ALL
SELECT id FROM t WHERE (i, l) > (0, 0) ORDER BY id
SELECT id FROM t WHERE (host = 'a') = (rack = 1) ORDER BY id
SELECT id FROM t WHERE host IN ('a', s) ORDER BY id
SELECT id FROM t WHERE id = ANY([1, 2, 3]) ORDER BY id
SELECT id FROM t WHERE CASE WHEN b THEN i > 0 ELSE i < 0 END ORDER BY id
SELECT id FROM t WHERE i BETWEEN rack AND 1000 ORDER BY id
SELECT id FROM t WHERE coalesce(host, 'a') = 'a' ORDER BY id
SELECT id FROM t WHERE NOT (host = 'a' AND i > 0) ORDER BY id
SELECT id FROM (SELECT id, i AS host FROM t) WHERE host = 5 ORDER BY id
SELECT id FROM (SELECT id, host, row_number() OVER (PARTITION BY host ORDER BY id) AS n FROM t) WHERE n = 1 AND host = 'a' ORDER BY id
SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM t) WHERE n < 5 ORDER BY id
SELECT * FROM (SELECT host, count(*) AS c FROM t GROUP BY host) WHERE c > 3 AND host > 'a' ORDER BY ALL
SELECT id FROM (SELECT * FROM t ORDER BY id LIMIT 20) WHERE host = 'a' ORDER BY id
SELECT id FROM (SELECT DISTINCT ON (host) * FROM t ORDER BY host, id) WHERE i > 0 ORDER BY id
SELECT a.id FROM t a LEFT JOIN (SELECT * FROM t WHERE host = 'a') b ON a.id = b.id WHERE b.host IS NULL ORDER BY 1
SELECT a.id, b.i FROM t a LEFT JOIN t b ON a.id = b.id AND b.host = 'a' ORDER BY 1
SELECT a.id FROM t a FULL JOIN (SELECT id + 100 AS id, host FROM t) b ON a.id = b.id WHERE coalesce(a.host, b.host) = 'a' ORDER BY ALL
SELECT count(*) FROM (SELECT * FROM t WHERE d > 0.5) WHERE d = 'nan'::DOUBLE
SELECT count(*) FROM (SELECT * FROM t) WHERE d <> 0.5
SELECT count(*) FROM (SELECT * FROM t) WHERE f >= 0.1
SELECT count(*) FROM (SELECT * FROM t) WHERE d = -0.0
SELECT count(*) FROM (SELECT * FROM t) WHERE d IN (0.0, 'nan'::DOUBLE, 1.5)
SELECT count(*) FROM (SELECT * FROM t) WHERE f = 'inf'::FLOAT OR f < -1e30
SELECT count(*) FROM (SELECT * FROM t) WHERE blob > 'a'::BLOB
SELECT count(*) FROM (SELECT * FROM t) WHERE ts = TIMESTAMP_S '2024-01-01' OR tm < TIMESTAMP_MS '1970-01-01' OR tu >= TIMESTAMP '2024-01-01 00:00:00.123456'
SELECT count(*) FROM (SELECT * FROM t) WHERE dt > DATE '1969-12-31' AND dt <= DATE '2024-02-29'
SELECT count(*) FROM (SELECT * FROM t) WHERE tu > 'infinity'::TIMESTAMP OR dt < '-infinity'::DATE
SELECT count(*) FROM (SELECT * FROM t) WHERE s < 'b' AND s IS NOT NULL OR s = 'ÿ'
SELECT count(*) FROM (SELECT * FROM t) WHERE l > 9007199254740992 AND l <> 9223372036854775807
SELECT count(*) FROM (SELECT * FROM t) WHERE up OR NOT b
SELECT count(*) FROM (SELECT * FROM t) WHERE up = true AND b = false
SELECT count(*) FROM (SELECT * FROM t) WHERE i NOT IN (0, 1, NULL)
SELECT count(*) FROM (SELECT * FROM t) WHERE host NOT IN ('a', 'b')
SELECT count(*) FROM (SELECT * FROM t) WHERE host IS DISTINCT FROM 'a' AND rack IS NOT DISTINCT FROM NULL
SELECT count(*) FROM (SELECT * FROM t) WHERE time >= TIMESTAMP_NS '2024-01-01' AND time < make_timestamp_ns(1704067200123456790)
SELECT v, count(*) FROM t GROUP BY v ORDER BY v LIMIT 3
SELECT v[1], list_sum(v::FLOAT[]) FROM t ORDER BY id
SELECT count(*) FROM t WHERE v = [1, 0.5]::FLOAT[2]
WITH t AS (SELECT * FROM t WHERE host = 'a'), u AS (SELECT * FROM t) SELECT count(*) FROM u, t WHERE u.id = t.id
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3), u AS (SELECT * FROM t) SELECT * FROM u ORDER BY 1
SELECT (WITH t AS (SELECT max(id) AS m FROM t) SELECT m FROM t), count(*) FROM t
SELECT * FROM (WITH t AS (SELECT 5 AS x) SELECT x FROM t) q, (SELECT count(*) AS c FROM t) r
SELECT id FROM t, (SELECT 5 AS i) q WHERE t.i = q.i ORDER BY id
SELECT t.id FROM (t JOIN (SELECT id FROM t WHERE b) u USING (id)) WHERE t.host = 'a' ORDER BY 1
SELECT id FROM t ORDER BY host NULLS FIRST, id DESC LIMIT 7 OFFSET 2
SELECT id AS "order", host AS "select" FROM t ORDER BY "order" LIMIT 3
SELECT "T".id FROM T AS "T" ORDER BY 1 LIMIT 3
