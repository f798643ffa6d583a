-- Rows that were written twice: the later value counts, NULL does not overwrite.

-- the rows themselves
SELECT host, time, usage, idle, note FROM cpu WHERE host IN ('h0', 'h3') AND time BETWEEN '2024-03-31 11:00:00' AND '2024-03-31 16:30:00' ORDER BY host, time;

-- found by the new value
SELECT host, count(*) AS n FROM cpu WHERE usage = 99.5 GROUP BY host ORDER BY host;

-- not found by the old one
SELECT count(*) AS n FROM cpu WHERE note = 'again' AND usage <> 99.5;

-- counted once
SELECT host, count(*) AS n, count(note) AS notes FROM cpu GROUP BY host ORDER BY host;

-- summed once
SELECT host, sum(usage) AS a, sum(requests) AS b FROM cpu WHERE host IN ('h0', 'h3') GROUP BY host ORDER BY host;

-- in buckets
SELECT time_bucket(INTERVAL 2 HOUR, time) AS b, max(usage) AS top, count(*) AS n FROM cpu WHERE host = 'h0' GROUP BY b ORDER BY b;

-- the largest are new values
SELECT host, time, usage FROM cpu ORDER BY usage DESC NULLS LAST, time, host LIMIT 20;

-- min and max go by new values
SELECT host, min(usage) AS low, max(usage) AS high, min(note) AS a, max(note) AS z FROM cpu GROUP BY host ORDER BY host;

-- the last of a range that ends within
SELECT DISTINCT ON (host) host, time, usage, note FROM cpu WHERE time < '2024-03-31 13:15:00' ORDER BY host, time DESC;
