-- Gaps in buckets, filled.

-- every hour, with NULLs
SELECT time_bucket_gapfill('1 hour', time) AS hour, avg(load) AS mean FROM device WHERE time >= '2024-03-30 20:00:00' AND time < '2024-03-31 10:00:00' GROUP BY hour ORDER BY hour;
-- DuckDB
SELECT g.hour, avg(d.load) AS mean FROM (SELECT unnest(generate_series(TIMESTAMP '2024-03-30 20:00:00', TIMESTAMP '2024-03-31 09:00:00', INTERVAL 1 HOUR)) AS hour) g LEFT JOIN device d ON time_bucket(INTERVAL 1 HOUR, d.time) = g.hour GROUP BY g.hour ORDER BY g.hour;

-- half minutes of a slower series, carried forward
SELECT time_bucket_gapfill('30 seconds', time) AS b, locf(max(c)) AS c FROM single WHERE time >= '2024-03-30 22:00:00' AND time < '2024-03-30 22:08:00' GROUP BY b ORDER BY b;
-- DuckDB
WITH s AS (SELECT time_bucket(INTERVAL 30 SECOND, time) AS b, max(c) AS c FROM single WHERE time < '2024-03-30 22:08:00' GROUP BY 1), g AS (SELECT unnest(generate_series(TIMESTAMP '2024-03-30 22:00:00', TIMESTAMP '2024-03-30 22:07:30', INTERVAL 30 SECOND)) AS b) SELECT g.b, s.c FROM g ASOF LEFT JOIN s ON g.b >= s.b ORDER BY g.b;

-- each host has all buckets
SELECT time_bucket_gapfill('15 minutes', time) AS b, host, avg(usage) AS mean FROM cpu WHERE time >= '2024-03-31' AND time < '2024-03-31 02:00:00' GROUP BY b, host ORDER BY host, b;
-- DuckDB
WITH s AS (SELECT time_bucket(INTERVAL 15 MINUTE, time) AS b, host, avg(usage) AS mean FROM cpu WHERE time >= '2024-03-31' AND time < '2024-03-31 02:00:00' GROUP BY ALL), g AS (SELECT host, unnest(generate_series(TIMESTAMP '2024-03-31', TIMESTAMP '2024-03-31 01:45:00', INTERVAL 15 MINUTE)) AS b FROM (SELECT DISTINCT host FROM s)) SELECT g.b, g.host, s.mean FROM g LEFT JOIN s ON g.b = s.b AND g.host = s.host ORDER BY g.host, g.b;

-- on the line between
SELECT time_bucket_gapfill('15 minutes', time) AS b, interpolate(max(requests)) AS r FROM cpu WHERE host = 'h1' AND time >= '2024-03-31' AND time < '2024-03-31 02:15:00' GROUP BY b ORDER BY b;
-- DuckDB
WITH s AS (SELECT time_bucket(INTERVAL 15 MINUTE, time) AS b, max(requests) AS r FROM cpu WHERE host = 'h1' AND time >= '2024-03-31' AND time < '2024-03-31 02:15:00' GROUP BY 1), g AS (SELECT unnest(generate_series(TIMESTAMP '2024-03-31', TIMESTAMP '2024-03-31 02:00:00', INTERVAL 15 MINUTE)) AS b) SELECT g.b, coalesce(s.r::DOUBLE, (p.r + n.r) / 2) AS r FROM g LEFT JOIN s USING (b) LEFT JOIN s p ON p.b = g.b - INTERVAL 15 MINUTE LEFT JOIN s n ON n.b = g.b + INTERVAL 15 MINUTE ORDER BY g.b;

-- date_bin_gapfill
SELECT date_bin_gapfill('20 minutes', time) AS b, count(*) AS n FROM mem WHERE host = 'h3' AND time >= '2024-03-30 22:00:00' AND time < '2024-03-31 00:00:00' GROUP BY b ORDER BY b;
-- DuckDB
SELECT g.b, nullif(count(m.time), 0) AS n FROM (SELECT unnest(generate_series(TIMESTAMP '2024-03-30 22:00:00', TIMESTAMP '2024-03-30 23:40:00', INTERVAL 20 MINUTE)) AS b) g LEFT JOIN mem m ON m.host = 'h3' AND time_bucket(INTERVAL 20 MINUTE, m.time) = g.b GROUP BY g.b ORDER BY g.b;

-- a range of its own
SELECT time_bucket_gapfill('12 hours', time, TIMESTAMP '2024-03-30', TIMESTAMP '2024-04-03') AS b, sum(requests) AS total FROM cpu GROUP BY b ORDER BY b;
-- DuckDB
SELECT g.b, sum(c.requests) AS total FROM (SELECT unnest(generate_series(TIMESTAMP '2024-03-30', TIMESTAMP '2024-04-02 12:00:00', INTERVAL 12 HOUR)) AS b) g LEFT JOIN cpu c ON time_bucket(INTERVAL 12 HOUR, c.time) = g.b GROUP BY g.b ORDER BY g.b;
