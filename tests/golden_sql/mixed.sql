-- Questions as people ask them.

-- the busiest hour of each host
SELECT DISTINCT ON (host) host, b, mean FROM (SELECT host, time_bucket(INTERVAL 1 HOUR, time) AS b, avg(usage) AS mean FROM cpu GROUP BY ALL) ORDER BY host, mean DESC NULLS LAST, b;

-- hosts above their region's average
SELECT h.host, h.mean > r.mean AS above FROM (SELECT host, region, avg(usage) AS mean FROM cpu GROUP BY ALL) h JOIN (SELECT region, avg(usage) AS mean FROM cpu GROUP BY region) r ON h.region IS NOT DISTINCT FROM r.region ORDER BY h.host;

-- how long each host was busy in a row
SELECT host, min(time) AS start, count(*) AS rows FROM (SELECT host, time, row_number() OVER (PARTITION BY host ORDER BY time) - row_number() OVER (PARTITION BY host, usage > 50 ORDER BY time) AS island, usage > 50 AS busy FROM cpu) WHERE busy GROUP BY host, island ORDER BY host, start;

-- sessions: gaps of more than half an hour
SELECT host, session, count(*) AS n, min(time) AS first FROM (SELECT host, time, sum(CASE WHEN gap > INTERVAL 20 MINUTE THEN 1 ELSE 0 END) OVER (PARTITION BY host ORDER BY time) AS session FROM (SELECT host, time, time - lag(time) OVER (PARTITION BY host ORDER BY time) AS gap FROM mem WHERE swapping IS NOT NULL)) GROUP BY ALL ORDER BY host, session;

-- today against yesterday
SELECT a.host, hour(a.time) AS h, a.usage - b.usage AS change FROM cpu a JOIN cpu b ON a.host = b.host AND a.time = b.time + INTERVAL 1 DAY ORDER BY a.host, a.time;

-- each host's share of its region's requests
SELECT region, host, sum(requests) AS r, r / sum(r) OVER (PARTITION BY region) AS share FROM cpu GROUP BY region, host ORDER BY region, host;

-- hosts that were silent at the end
SELECT host, max(time) AS last FROM cpu GROUP BY host HAVING max(time) < (SELECT max(time) FROM cpu) - INTERVAL 1 HOUR ORDER BY host;

-- reports per hour that are missing
SELECT h.host, g.b FROM (SELECT DISTINCT host FROM cpu) h, generate_series(TIMESTAMP '2024-04-01 00:00:00', TIMESTAMP '2024-04-01 02:00:00', INTERVAL 30 MINUTE) g(b) WHERE NOT EXISTS (FROM cpu c WHERE c.host = h.host AND c.time::TIMESTAMP = g.b) ORDER BY h.host, g.b;

-- a table of percentiles
SELECT region, unnest([0.5, 0.9]) AS p, unnest(quantile_cont(usage, [0.5, 0.9])) AS usage FROM cpu GROUP BY region ORDER BY region, p;

-- the newest state of everything
SELECT c.host, c.usage, m.used, d.status FROM (SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time DESC) c LEFT JOIN (SELECT DISTINCT ON (host) * FROM mem ORDER BY host, time DESC) m USING (host) LEFT JOIN (SELECT DISTINCT ON (host) * FROM device ORDER BY host, time DESC) d USING (host) ORDER BY c.host;

-- counts of both tables in one row
SELECT (SELECT count(*) FROM cpu) AS cpu, (SELECT count(*) FROM mem) AS mem, (SELECT count(*) FROM log WHERE level = 'error') AS errors;
