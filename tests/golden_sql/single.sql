-- A table without tags.

-- newest
SELECT * FROM single ORDER BY time DESC LIMIT 7;

-- aggregates
SELECT count(*) AS n, sum(c) AS total, avg(v) AS mean, min(v) AS low, max(v) AS high FROM single;

-- buckets
SELECT time_bucket(INTERVAL '10 minutes', time) AS b, avg(v) AS mean, count(v) AS n, count(*) AS m FROM single GROUP BY b ORDER BY b;

-- last
SELECT arg_max(v, time) AS last, max(time) AS at FROM single;

-- filled
SELECT time, coalesce(v, lag(v) OVER (ORDER BY time)) AS v FROM single ORDER BY time;

-- gaps
SELECT b, count(s.time) AS n FROM generate_series(TIMESTAMP '2024-03-30 22:00:00', TIMESTAMP '2024-03-30 23:10:00', INTERVAL 30 SECOND) g(b) LEFT JOIN single s ON s.time >= g.b AND s.time < g.b + INTERVAL 30 SECOND GROUP BY b ORDER BY b;

-- differences
SELECT time, c - lag(c) OVER (ORDER BY time) AS d, epoch(time - lag(time) OVER (ORDER BY time)) AS s FROM single ORDER BY time;

-- local maxima
SELECT time, v FROM (SELECT *, lag(v) OVER w AS a, lead(v) OVER w AS b FROM single WINDOW w AS (ORDER BY time)) WHERE v > a AND v > b ORDER BY time;

-- even and odd
SELECT c % 2 AS odd, count(*) AS n, sum(v) AS total FROM single GROUP BY odd ORDER BY odd;

-- a constant key
SELECT 'all' AS what, max(c) AS top FROM single GROUP BY what;
