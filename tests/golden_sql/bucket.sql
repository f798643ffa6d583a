-- Buckets of time: time_bucket and date_trunc.

-- hours over TIMESTAMP_NS are TIMESTAMP
SELECT time_bucket(INTERVAL '1 hour', time) AS bucket, typeof(bucket) AS kind, count(*) AS n FROM cpu GROUP BY bucket ORDER BY bucket;

-- hours by region
SELECT time_bucket(INTERVAL 1 HOUR, time) AS bucket, region, avg(usage) AS mean, max(usage) AS top FROM cpu GROUP BY ALL ORDER BY ALL;

-- hours by host of one region
SELECT time_bucket(INTERVAL '3 hours', time) AS b, host, sum(requests) AS total, count(usage) AS n FROM cpu WHERE region = 'us' GROUP BY b, host ORDER BY b, host;

-- days
SELECT time_bucket(INTERVAL '1 day', time) AS day, min(usage) AS low, max(usage) AS high FROM cpu GROUP BY day ORDER BY day;

-- months
SELECT time_bucket(INTERVAL '1 month', time) AS month, count(*) AS n, sum(usage) AS total FROM cpu GROUP BY month ORDER BY month;

-- two months and a year
SELECT time_bucket(INTERVAL '2 months', time) AS m, time_bucket(INTERVAL 1 YEAR, time) AS y, count(*) AS n FROM cpu GROUP BY ALL ORDER BY ALL;

-- weeks start on Monday
SELECT time_bucket(INTERVAL '1 week', time) AS week, count(*) AS n FROM cpu GROUP BY week ORDER BY week;

-- a width that no day holds evenly
SELECT time_bucket(INTERVAL '7 hours 13 minutes', time) AS b, count(*) AS n, max(time) AS last FROM cpu GROUP BY b ORDER BY b;

-- an offset
SELECT time_bucket(INTERVAL '1 hour', time, INTERVAL '15 minutes') AS b, count(*) AS n FROM cpu GROUP BY b ORDER BY b;

-- an origin
SELECT time_bucket(INTERVAL '5 hours', time, TIMESTAMP '2024-03-30 23:30:00') AS b, count(*) AS n FROM cpu GROUP BY b ORDER BY b;

-- date_trunc
SELECT date_trunc('hour', time) AS h, host, avg(usage) AS mean FROM cpu WHERE host IN ('h0', 'h4') GROUP BY h, host ORDER BY h, host;

-- every unit of date_trunc
SELECT date_trunc('year', time) AS y, date_trunc('quarter', time) AS q, date_trunc('month', time) AS m, date_trunc('week', time) AS w, date_trunc('day', time) AS d, count(*) AS n FROM cpu GROUP BY ALL ORDER BY ALL;

-- a time cast to a date
SELECT time::DATE AS day, region, count(*) AS n FROM cpu GROUP BY day, region ORDER BY day, region;

-- microseconds
SELECT time_bucket(INTERVAL '90 minutes', time) AS b, host, avg(free) AS mean, sum(used) AS total FROM mem GROUP BY b, host ORDER BY b, host;

-- milliseconds
SELECT time_bucket(INTERVAL '5 minutes', time) AS b, typeof(b) AS kind, count(*) AS n, avg(took) AS mean FROM log GROUP BY b ORDER BY b;

-- seconds
SELECT date_trunc('day', time) AS b, typeof(b) AS kind, count(*) AS n, max(load) AS top FROM device GROUP BY b ORDER BY b;

-- before 1970
SELECT time_bucket(INTERVAL '1 microsecond', time) AS bucket, count(*) AS n FROM kinds WHERE time < '1971-01-01' GROUP BY bucket ORDER BY bucket;

-- days before and after 1970
SELECT date_trunc('day', time) AS day_of_time, count(*) AS n, min(id) AS first FROM kinds GROUP BY day_of_time ORDER BY day_of_time;

-- HAVING and LIMIT
SELECT time_bucket(INTERVAL '2 hours', time) AS b, max(usage) AS top FROM cpu GROUP BY b HAVING max(usage) > 98 ORDER BY b DESC LIMIT 5;

-- a bucket in an expression
SELECT hour(time_bucket(INTERVAL '6 hours', time)) AS h, count(*) AS n FROM cpu GROUP BY h ORDER BY h;

-- a bucket without aggregates
SELECT time_bucket(INTERVAL '8 hours', time) AS b, host, time FROM cpu WHERE host = 'h2' ORDER BY time;
