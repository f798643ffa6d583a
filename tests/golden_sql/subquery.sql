-- Subqueries: scalar, correlated, IN, EXISTS, lateral.

-- scalar
SELECT host, time, usage FROM cpu WHERE usage > (SELECT avg(usage) * 1.7 FROM cpu) ORDER BY host, time;

-- in the list
SELECT host, count(*) AS n, (SELECT max(usage) FROM cpu) AS top FROM cpu GROUP BY host ORDER BY host;

-- correlated
SELECT host, time, usage FROM cpu a WHERE usage = (SELECT max(usage) FROM cpu b WHERE b.host = a.host) ORDER BY host, time;

-- correlated count
SELECT d.host, d.time, (SELECT count(*) FROM cpu c WHERE c.host = d.host AND c.time < d.time) AS before FROM device d ORDER BY d.host, d.time;

-- IN
SELECT DISTINCT host FROM mem WHERE host IN (SELECT host FROM cpu WHERE usage > 99) ORDER BY host;

-- NOT IN
SELECT DISTINCT host FROM mem WHERE host NOT IN (SELECT host FROM cpu) ORDER BY host;

-- EXISTS
SELECT DISTINCT host FROM cpu c WHERE EXISTS (SELECT 1 FROM mem m WHERE m.host = c.host AND m.swapping) ORDER BY host;

-- NOT EXISTS
SELECT host, time FROM mem m WHERE NOT EXISTS (FROM cpu c WHERE c.host = m.host AND c.time = m.time) AND host = 'h0' ORDER BY time;

-- ANY and ALL
SELECT DISTINCT host FROM cpu WHERE requests >= ALL (SELECT requests FROM cpu) OR cores = ANY (SELECT slot FROM kinds) ORDER BY host;

-- pairs
SELECT host, time FROM cpu WHERE (host, usage) IN (SELECT host, max(usage) FROM cpu GROUP BY host) ORDER BY host, time;

-- in FROM
SELECT half, count(*) AS n FROM (SELECT usage > 50 AS half FROM cpu WHERE usage IS NOT NULL) GROUP BY half ORDER BY half;

-- lateral: the newest two of each
SELECT h.host, q.time, q.usage FROM (SELECT DISTINCT host FROM cpu) h, LATERAL (SELECT time, usage FROM cpu c WHERE c.host = h.host ORDER BY time DESC LIMIT 2) q ORDER BY h.host, q.time;

-- lateral: the newest one, and a host without
SELECT h.host, q.used FROM (SELECT DISTINCT host FROM cpu) h LEFT JOIN LATERAL (SELECT used FROM mem m WHERE m.host = h.host ORDER BY time DESC LIMIT 1) q ON true ORDER BY h.host;

-- an array
SELECT array(SELECT DISTINCT host FROM cpu ORDER BY host) AS hosts;

-- a TopK inside
SELECT count(*) AS n, min(usage) AS low FROM (SELECT * FROM cpu ORDER BY time DESC, host LIMIT 20);

-- a TopK as a set
SELECT DISTINCT region FROM cpu WHERE host IN (SELECT host FROM cpu ORDER BY usage DESC NULLS LAST, time, host LIMIT 3) ORDER BY region;
