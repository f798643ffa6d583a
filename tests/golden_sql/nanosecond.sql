-- Nanoseconds are lost only where DuckDB loses them.

-- min and max
SELECT host, min(time) AS a, max(time) AS b, typeof(max(time)) AS kind FROM cpu GROUP BY host ORDER BY host;

-- as a group
SELECT time, count(*) AS n FROM cpu WHERE time < '2024-03-30 23:00:00' GROUP BY time ORDER BY time;

-- distinct
SELECT count(DISTINCT time) AS a, count(DISTINCT time::TIMESTAMP) AS b FROM cpu;

-- a field of nanoseconds
SELECT id, tn, tn + INTERVAL 1 HOUR AS later FROM kinds ORDER BY id;

-- arg_max of a time
SELECT host, arg_max(time, usage) AS at FROM cpu WHERE host IN ('h2', 'h4') GROUP BY host ORDER BY host;

-- a list of times
SELECT host, list(time ORDER BY time)[1:2] AS l FROM cpu GROUP BY host ORDER BY host;

-- in a struct
SELECT {'t': time} AS q FROM cpu WHERE host = 'h4' ORDER BY time LIMIT 3;

-- compared across types
SELECT count(*) FILTER (WHERE c.time = m.time) AS a, count(*) FILTER (WHERE c.time::TIMESTAMP = m.time) AS b FROM cpu c JOIN mem m ON c.host = m.host;

-- through a union and a window
SELECT time, lag(time) OVER (ORDER BY time) AS before FROM (SELECT time FROM cpu WHERE host = 'h2' UNION ALL SELECT time FROM cpu WHERE host = 'h4') ORDER BY time LIMIT 9;

-- bucket, trunc and cast are microseconds
SELECT DISTINCT typeof(time_bucket(INTERVAL 1 HOUR, time)) AS a, typeof(date_trunc('day', time)) AS b, typeof(time::TIMESTAMP) AS c, typeof(time + INTERVAL 1 HOUR) AS d, typeof(max(time) OVER ()) AS e FROM cpu;

-- made from numbers
SELECT id, make_timestamp_ns(epoch_ns(time)) = time AS same FROM kinds ORDER BY id;

-- coalesce and CASE
SELECT id, coalesce(tn, time) AS a, CASE WHEN b THEN tn ELSE time END AS c FROM kinds ORDER BY id;

-- greatest
SELECT id, greatest(tn, time) AS g, least(tn, time) AS l FROM kinds ORDER BY id;
