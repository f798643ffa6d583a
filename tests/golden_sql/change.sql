-- Changes from row to row: diff, delta, increase, rate, moving windows.

-- diff
SELECT host, time, diff(requests) AS d FROM cpu ORDER BY host, time;
-- DuckDB
SELECT host, time, requests - lag(requests) OVER (PARTITION BY host, region ORDER BY time) AS d FROM cpu ORDER BY host, time;

-- delta over NULLs
SELECT host, time, delta(usage) AS d FROM cpu WHERE usage IS NOT NULL ORDER BY host, time;
-- DuckDB
SELECT host, time, usage - lag(usage) OVER (PARTITION BY host ORDER BY time) AS d FROM cpu WHERE usage IS NOT NULL ORDER BY host, time;

-- increase of a counter that is reset
SELECT host, time, increase(used) AS i FROM mem WHERE used IS NOT NULL ORDER BY host, time;
-- DuckDB
SELECT host, time, CASE WHEN used < p THEN used ELSE used - p END AS i FROM (SELECT *, lag(used) OVER (PARTITION BY host ORDER BY time) AS p FROM mem WHERE used IS NOT NULL) ORDER BY host, time;

-- rate
SELECT time, rate(c) AS r FROM single ORDER BY time;
-- DuckDB
SELECT time, (c - lag(c) OVER (ORDER BY time)) / epoch(time - lag(time) OVER (ORDER BY time)) AS r FROM single ORDER BY time;

-- derivative, with OVER
SELECT host, time, derivative(load) OVER (PARTITION BY host ORDER BY time) AS r FROM device ORDER BY host, time;
-- DuckDB
SELECT host, time, (load - lag(load) OVER w) / epoch(time - lag(time) OVER w) AS r FROM device WINDOW w AS (PARTITION BY host ORDER BY time) ORDER BY host, time;

-- moving averages by rows
SELECT time, moving_avg(c, 4) AS m FROM single ORDER BY time;
-- DuckDB
SELECT time, avg(c) OVER (ORDER BY time ROWS 3 PRECEDING) AS m FROM single ORDER BY time;

-- moving maxima by time
SELECT host, time, moving_max(requests, 2h) AS m FROM cpu WHERE host IN ('h0', 'h5') ORDER BY host, time;
-- DuckDB
SELECT host, time, max(requests) OVER (PARTITION BY host ORDER BY time::TIMESTAMP RANGE INTERVAL 2 HOUR PRECEDING) AS m FROM cpu WHERE host IN ('h0', 'h5') ORDER BY host, time;

-- a rate by the hour
SELECT time, max(r) AS top FROM (SELECT time, host, diff(requests) AS r FROM cpu) SAMPLE BY 4h;
-- DuckDB
SELECT time_bucket(INTERVAL 4 HOUR, time) AS time, max(r) AS top FROM (SELECT time, requests - lag(requests) OVER (PARTITION BY host ORDER BY time) AS r FROM cpu) GROUP BY 1 ORDER BY 1;
