-- SAMPLE BY, and what it stands for.

-- hours
SELECT time, avg(usage) AS mean, count(*) AS n FROM cpu SAMPLE BY 1h;
-- DuckDB
SELECT time_bucket(INTERVAL 1 HOUR, time) AS time, avg(usage) AS mean, count(*) AS n FROM cpu GROUP BY 1 ORDER BY 1;

-- hours and hosts
SELECT time, host, max(usage) AS top FROM cpu WHERE region = 'eu' SAMPLE BY 3h ORDER BY time, host;
-- DuckDB
SELECT time_bucket(INTERVAL 3 HOUR, time) AS time, host, max(usage) AS top FROM cpu WHERE region = 'eu' GROUP BY 1, 2 ORDER BY 1, 2;

-- days
SELECT time, sum(requests) AS total FROM cpu SAMPLE BY 1d;
-- DuckDB
SELECT time_bucket(INTERVAL 1 DAY, time) AS time, sum(requests) AS total FROM cpu GROUP BY 1 ORDER BY 1;

-- months
SELECT time, count(*) AS n, last(usage) AS last FROM cpu WHERE host = 'h0' SAMPLE BY 1M;
-- DuckDB
SELECT time_bucket(INTERVAL 1 MONTH, time) AS time, count(*) AS n, last(usage ORDER BY cpu.time) AS last FROM cpu WHERE host = 'h0' GROUP BY 1 ORDER BY 1;

-- minutes, filled with the value before
SELECT time, avg(v) AS v FROM single WHERE time < '2024-03-30 22:10:00' SAMPLE BY 30s FILL(PREV);
-- DuckDB
WITH b AS (SELECT time_bucket(INTERVAL 30 SECOND, time) AS time, avg(v) AS v FROM single WHERE time < '2024-03-30 22:10:00' GROUP BY 1), g AS (SELECT unnest(generate_series((SELECT min(time) FROM b), (SELECT max(time) FROM b), INTERVAL 30 SECOND)) AS time) SELECT g.time, a.v FROM g ASOF JOIN b a ON g.time >= a.time ORDER BY g.time;

-- filled with a constant
SELECT time, count(*) AS n FROM single SAMPLE BY 30s FILL(0);
-- DuckDB
WITH b AS (SELECT time_bucket(INTERVAL 30 SECOND, time) AS time, count(*) AS n FROM single GROUP BY 1), g AS (SELECT unnest(generate_series((SELECT min(time) FROM b), (SELECT max(time) FROM b), INTERVAL 30 SECOND)) AS time) SELECT time, coalesce(n, 0) AS n FROM g LEFT JOIN b USING (time) ORDER BY time;

-- filled with NULL, in a range
SELECT time, sum(c) AS total FROM single SAMPLE BY 20m FROM '2024-03-30 21:00:00' TO '2024-03-31 00:00:00' FILL(NULL);
-- DuckDB
SELECT g.time, sum(c) AS total FROM (SELECT unnest(generate_series(TIMESTAMP '2024-03-30 21:00:00', TIMESTAMP '2024-03-30 23:40:00', INTERVAL 20 MINUTE)) AS time) g LEFT JOIN single s ON time_bucket(INTERVAL 20 MINUTE, s.time) = g.time GROUP BY g.time ORDER BY g.time;

-- days of Berlin
SELECT time, count(*) AS n FROM mem SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin';
-- DuckDB
SELECT timezone('UTC', time_bucket(INTERVAL 1 DAY, time AT TIME ZONE 'UTC', 'Europe/Berlin')) AS time, count(*) AS n FROM mem GROUP BY 1 ORDER BY 1;

-- an offset
SELECT time, count(*) AS n FROM cpu SAMPLE BY 1d ALIGN TO CALENDAR WITH OFFSET '06:00';
-- DuckDB
SELECT time_bucket(INTERVAL 1 DAY, time, INTERVAL 6 HOUR) AS time, count(*) AS n FROM cpu GROUP BY 1 ORDER BY 1;

-- then limited
SELECT time, region, avg(usage) AS mean FROM cpu WHERE region IS NOT NULL SAMPLE BY 6h ORDER BY time DESC, region LIMIT 5;
-- DuckDB
SELECT time_bucket(INTERVAL 6 HOUR, time) AS time, region, avg(usage) AS mean FROM cpu WHERE region IS NOT NULL GROUP BY 1, 2 ORDER BY 1 DESC, 2 LIMIT 5;

-- in a subquery
SELECT max(n) AS most FROM (SELECT time, count(*) AS n FROM log SAMPLE BY 5m);
-- DuckDB
SELECT max(n) AS most FROM (SELECT time_bucket(INTERVAL 5 MINUTE, time) AS time, count(*) AS n FROM log GROUP BY 1);
