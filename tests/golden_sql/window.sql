-- Window functions.

-- row numbers
SELECT host, time, row_number() OVER (PARTITION BY host ORDER BY time DESC) AS n FROM cpu WHERE time > '2024-03-31 20:00:00' ORDER BY host, time;

-- lag and lead
SELECT host, time, usage - lag(usage) OVER w AS change, lead(time, 2) OVER w AS later FROM cpu WINDOW w AS (PARTITION BY host ORDER BY time) ORDER BY host, time;

-- a running total
SELECT host, time, sum(requests) OVER (PARTITION BY host ORDER BY time) AS total FROM cpu WHERE host < 'h2' ORDER BY host, time;

-- a moving average
SELECT host, time, avg(usage) OVER (PARTITION BY host ORDER BY time ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS mean FROM cpu ORDER BY host, time;

-- a range of time
SELECT time, count(*) OVER (ORDER BY time RANGE BETWEEN INTERVAL 5 MINUTE PRECEDING AND CURRENT ROW) AS n, max(v) OVER (ORDER BY time RANGE INTERVAL 3 MINUTE PRECEDING) AS top FROM single ORDER BY time;

-- ranks
SELECT host, requests, rank() OVER (ORDER BY requests) AS a, dense_rank() OVER (ORDER BY requests) AS b, percent_rank() OVER (ORDER BY requests) AS c FROM cpu WHERE requests < 0 ORDER BY requests, host, time;

-- quartiles
SELECT host, q, count(*) AS n FROM (SELECT host, ntile(4) OVER (PARTITION BY host ORDER BY usage, time) AS q FROM cpu) GROUP BY ALL ORDER BY ALL;

-- first and last value
SELECT DISTINCT host, first_value(usage) OVER w AS a, last_value(usage) OVER w AS b, nth_value(usage, 3) OVER w AS c FROM cpu WINDOW w AS (PARTITION BY host ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) ORDER BY host;

-- IGNORE NULLS
SELECT time, last_value(v IGNORE NULLS) OVER (ORDER BY time) AS filled FROM single ORDER BY time;

-- QUALIFY: the newest of each host
SELECT * FROM cpu QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC) = 1 ORDER BY host;

-- QUALIFY: the newest three
SELECT host, time, usage FROM cpu QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC) <= 3 ORDER BY host, time;

-- QUALIFY: the oldest two of one region
SELECT host, time FROM cpu WHERE region = 'eu' QUALIFY row_number() OVER (PARTITION BY host ORDER BY time) <= 2 ORDER BY host, time;

-- QUALIFY by value
SELECT host, time, usage FROM cpu WHERE usage IS NOT NULL QUALIFY rank() OVER (PARTITION BY host ORDER BY usage DESC) = 1 ORDER BY host, time;

-- a share of a total
SELECT host, sum(requests) AS part, sum(requests) / sum(sum(requests)) OVER () AS share FROM cpu GROUP BY host ORDER BY host;

-- changes of state
SELECT host, time, status FROM (SELECT *, lag(status) OVER (PARTITION BY host ORDER BY time) AS before FROM device) WHERE status IS DISTINCT FROM before ORDER BY host, time;

-- EXCLUDE
SELECT time, sum(c) OVER (ORDER BY time ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS s FROM single ORDER BY time;

-- over buckets
SELECT b, n, sum(n) OVER (ORDER BY b) AS total FROM (SELECT time_bucket(INTERVAL 4 HOUR, time) AS b, count(*) AS n FROM cpu GROUP BY b) ORDER BY b;
