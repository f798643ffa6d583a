-- first, last and their kin: by time, or by what is given.

-- arg_max and arg_min
SELECT host, arg_max(usage, time) AS last, arg_min(usage, time) AS first FROM cpu GROUP BY host ORDER BY host;

-- max_by and min_by
SELECT region, max_by(host, requests) AS most, min_by(requests, time) AS oldest FROM cpu WHERE region <> 'us' GROUP BY region ORDER BY region;

-- with the time itself
SELECT host, max(time) AS time, arg_max(usage, time) AS usage, arg_max(note, time) AS note FROM cpu GROUP BY host ORDER BY host;

-- the value may be NULL
SELECT host, arg_max_null(note, time) AS a, arg_max(note, time) AS b FROM cpu GROUP BY host ORDER BY host;

-- by something that has NULLs
SELECT host, arg_max(time, usage) AS top, arg_min(time, usage) AS low FROM cpu WHERE host <> 'h0' AND host <> 'h3' GROUP BY host ORDER BY host;

-- everywhere
SELECT arg_max(usage, requests) AS a, arg_max(host, requests) AS b FROM cpu;

-- last by time
SELECT host, last(usage) AS u, last(note) AS n FROM cpu GROUP BY host ORDER BY host;
-- DuckDB
SELECT host, last(usage ORDER BY time) AS u, last(note ORDER BY time) AS n FROM cpu GROUP BY host ORDER BY host;

-- first by time
SELECT host, first(usage) AS u, first(note) AS n FROM cpu GROUP BY host ORDER BY host;
-- DuckDB
SELECT host, first(usage ORDER BY time) AS u, first(note ORDER BY time) AS n FROM cpu GROUP BY host ORDER BY host;

-- last within buckets
SELECT time_bucket(INTERVAL 4 HOUR, time) AS b, host, last(requests) AS r, first(requests) AS f FROM cpu GROUP BY b, host ORDER BY b, host;
-- DuckDB
SELECT time_bucket(INTERVAL 4 HOUR, time) AS b, host, last(requests ORDER BY time) AS r, first(requests ORDER BY time) AS f FROM cpu GROUP BY b, host ORDER BY b, host;

-- last_by
SELECT host, last_by(usage, requests) AS a, first_by(note, requests) AS b FROM cpu GROUP BY host ORDER BY host;
-- DuckDB
SELECT host, arg_max_null(usage, requests) AS a, arg_min_null(note, requests) AS b FROM cpu GROUP BY host ORDER BY host;

-- last with a condition
SELECT host, last(usage) FILTER (WHERE usage < 50) AS u FROM cpu GROUP BY host ORDER BY host;
-- DuckDB
SELECT host, last(usage ORDER BY time) FILTER (WHERE usage < 50) AS u FROM cpu GROUP BY host ORDER BY host;

-- an order of one's own
SELECT host, first(time ORDER BY usage DESC NULLS LAST, time) AS at FROM cpu GROUP BY host ORDER BY host;

-- the last three values
SELECT host, arg_max(usage, time, 3) AS l FROM cpu WHERE usage IS NOT NULL GROUP BY host ORDER BY host;

-- last of every type
SELECT host, slot, up, last(b) AS b, last(i) AS i, last(f) AS f, last(d) AS d, last(s) AS s, last(day) AS day, last(tn) AS tn, last(raw) AS raw FROM kinds GROUP BY host, slot, up ORDER BY ALL;
-- DuckDB
SELECT host, slot, up, last(b ORDER BY time) AS b, last(i ORDER BY time) AS i, last(f ORDER BY time) AS f, last(d ORDER BY time) AS d, last(s ORDER BY time) AS s, last(day ORDER BY time) AS day, last(tn ORDER BY time) AS tn, last(raw ORDER BY time) AS raw FROM kinds GROUP BY host, slot, up ORDER BY ALL;
