-- TUMBLE, HOP, SESSION and downsample; buckets by other names.

-- TUMBLE
SELECT window_start, window_end, host, avg(usage) AS mean FROM TUMBLE(cpu, time, INTERVAL '6 hours') GROUP BY ALL ORDER BY ALL;
-- DuckDB
SELECT time_bucket(INTERVAL 6 HOUR, time) AS window_start, window_start + INTERVAL 6 HOUR AS window_end, host, avg(usage) AS mean FROM cpu GROUP BY ALL ORDER BY ALL;

-- HOP
SELECT window_start, window_end, count(*) AS n FROM HOP(mem, time, INTERVAL '1 hour', INTERVAL '2 hours') GROUP BY ALL ORDER BY ALL;
-- DuckDB
SELECT w AS window_start, w + INTERVAL 2 HOUR AS window_end, count(*) AS n FROM (SELECT unnest([time_bucket(INTERVAL 1 HOUR, time), time_bucket(INTERVAL 1 HOUR, time) - INTERVAL 1 HOUR]) AS w FROM mem) GROUP BY ALL ORDER BY ALL;

-- SESSION
SELECT host, window_start, window_end, count(*) AS n FROM SESSION((SELECT * FROM mem WHERE swapping), time, INTERVAL '40 minutes', PARTITION BY host) GROUP BY ALL ORDER BY ALL;
-- DuckDB
SELECT host, min(time) AS window_start, max(time) + INTERVAL 40 MINUTE AS window_end, count(*) AS n FROM (SELECT host, time, sum(new) OVER (PARTITION BY host ORDER BY time) AS session FROM (SELECT host, time, (time - lag(time) OVER (PARTITION BY host ORDER BY time) > INTERVAL 40 MINUTE)::INT AS new FROM mem WHERE swapping)) GROUP BY host, session ORDER BY ALL;

-- downsample to the largest triangles
SELECT host, downsample(time, used, 5) AS points FROM mem WHERE used IS NOT NULL GROUP BY host ORDER BY host;
-- DuckDB
SELECT host, list_transform(lttb(time, used, 5), lambda p: {'time': p.x, 'value': p.y}) AS points FROM mem WHERE used IS NOT NULL GROUP BY host ORDER BY host;

-- date_bin
SELECT date_bin(INTERVAL '2 hours', time) AS b, count(*) AS n FROM cpu GROUP BY b ORDER BY b;
-- DuckDB
SELECT time_bucket(INTERVAL '2 hours', time) AS b, count(*) AS n FROM cpu GROUP BY b ORDER BY b;

-- date_bin with an origin
SELECT date_bin(INTERVAL '7 hours', time, TIMESTAMP '2024-03-30 01:00:00') AS b, host, max(usage) AS top FROM cpu WHERE region = 'us' GROUP BY b, host ORDER BY b, host;
-- DuckDB
SELECT time_bucket(INTERVAL '7 hours', time, TIMESTAMP '2024-03-30 01:00:00') AS b, host, max(usage) AS top FROM cpu WHERE region = 'us' GROUP BY b, host ORDER BY b, host;

-- days of a zone, natively
SELECT time_bucket(INTERVAL '1 day', time, 'Europe/Berlin') AS day, host, avg(usage) AS mean FROM cpu GROUP BY day, host ORDER BY day, host;
-- DuckDB
SELECT timezone('UTC', time_bucket(INTERVAL 1 DAY, time::TIMESTAMP AT TIME ZONE 'UTC', 'Europe/Berlin')) AS day, host, avg(usage) AS mean FROM cpu GROUP BY day, host ORDER BY day, host;

-- months of Auckland
SELECT date_trunc('month', time, 'Pacific/Auckland') AS month, count(*) AS n FROM cpu GROUP BY month ORDER BY month;
-- DuckDB
SELECT timezone('UTC', time_bucket(INTERVAL 1 MONTH, time::TIMESTAMP AT TIME ZONE 'UTC', 'Pacific/Auckland')) AS month, count(*) AS n FROM cpu GROUP BY month ORDER BY month;
