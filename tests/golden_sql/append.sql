-- A table that appends: several rows of one device at one instant.

-- everything in order
SELECT * FROM log ORDER BY seq;

-- newest
SELECT time, host, seq FROM log ORDER BY time DESC, host, seq DESC LIMIT 10;

-- levels
SELECT level, count(*) AS n, avg(took) AS mean FROM log GROUP BY level ORDER BY level;

-- minutes
SELECT date_trunc('minute', time) AS m, count(*) AS n, sum(took) AS total FROM log GROUP BY m ORDER BY m;

-- minutes and hosts with errors
SELECT time_bucket(INTERVAL '2 minutes', time) AS m, host, count_if(level = 'error') AS errors FROM log GROUP BY m, host ORDER BY m, host;

-- parts of a message
SELECT regexp_extract(message, '/(\w)', 1) AS page, count(*) AS n, max(seq) AS last FROM log GROUP BY page ORDER BY page;

-- numbers within text
SELECT seq, regexp_extract(message, 'took (\d+)', 1)::INT AS took FROM log WHERE level = 'warn' ORDER BY seq;

-- instants with several rows
SELECT time, host, count(*) AS n FROM log GROUP BY time, host HAVING count(*) > 1 ORDER BY time, host;

-- slowest
SELECT seq, took FROM log ORDER BY took DESC NULLS LAST, seq LIMIT 8;

-- quantiles by host
SELECT host, quantile_cont(took, 0.5) AS p50, quantile_cont(took, 0.95) AS p95, count(took) AS n FROM log GROUP BY host ORDER BY host;
