-- A table whose rows were deleted, written again and given other columns: nothing may be answered from what is gone.

-- what is left
SELECT * FROM changed ORDER BY host, time;

-- counts
SELECT host, count(*) AS n, count(a) AS a, count(b) AS b, count(c) AS c, count(s) AS s FROM changed GROUP BY host ORDER BY host;

-- all of it
SELECT count(*) AS n, min(time) AS first, max(time) AS last, sum(a) AS a, sum(b) AS b, avg(c) AS c, max(s) AS s FROM changed;

-- of the host that lost its beginning
SELECT count(*) AS n, min(time) AS first, max(a) AS top, first(a) AS f, last(b) AS l FROM changed WHERE host = 'h1';
-- DuckDB
SELECT count(*) AS n, min(time) AS first, max(a) AS top, first(a ORDER BY time) AS f, last(b ORDER BY time) AS l FROM changed WHERE host = 'h1';

-- buckets
SELECT time_bucket(INTERVAL 5 MINUTE, time) AS bucket, count(*) AS n, min(a) AS low, max(a) AS high, sum(b) AS total FROM changed GROUP BY bucket ORDER BY bucket;

-- buckets and hosts
SELECT time_bucket(INTERVAL 20 MINUTE, time) AS bucket, host, avg(a) AS mean, count(c) AS c FROM changed GROUP BY bucket, host ORDER BY bucket, host;

-- newest
SELECT * FROM changed ORDER BY time DESC, host LIMIT 6;

-- newest of each
SELECT DISTINCT ON (host) host, time, a, b, c, s FROM changed ORDER BY host, time DESC;

-- newest before the hole
SELECT DISTINCT ON (host) host, time, a FROM changed WHERE time <= '2024-03-30 22:33:30' ORDER BY host, time DESC;

-- the largest
SELECT host, time, a FROM changed ORDER BY a DESC NULLS LAST, host, time LIMIT 6;

-- the column that came later
SELECT host, c, s FROM changed WHERE c IS NOT NULL OR s IS NOT NULL ORDER BY host, time;

-- a column that is not what it was
SELECT typeof(s) AS kind, count(s) AS n, sum(s) AS total FROM changed GROUP BY kind;

-- what was deleted by value
SELECT count(*) AS n FROM changed WHERE a = 7 OR host = 'h3' OR b = 2;

-- devices that are left
SELECT DISTINCT host FROM changed ORDER BY host;

-- the hole
SELECT count(*) AS n, max(host) AS host FROM changed WHERE time BETWEEN '2024-03-30 22:30:00' AND '2024-03-30 22:34:00';

-- joined to itself
SELECT a.host, count(*) AS n FROM changed a JOIN changed b ON a.host = b.host AND b.time = a.time + INTERVAL 1 MINUTE GROUP BY a.host ORDER BY a.host;
