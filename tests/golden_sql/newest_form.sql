-- The newest rows in forms that only look alike.

-- ascending and descending keys
SELECT DISTINCT ON (host) host, usage FROM cpu ORDER BY host DESC, time ASC;

-- a position
SELECT DISTINCT ON (1) host, time FROM cpu ORDER BY host, time DESC;

-- an expression of a tag
SELECT DISTINCT ON (upper(host)) host, time FROM cpu ORDER BY upper(host), time DESC;

-- not by the keys: the newest of all decides the order
SELECT DISTINCT ON (host) * FROM cpu ORDER BY time DESC, host;

-- expressions beside
SELECT DISTINCT ON (host) host, time, time + INTERVAL 1 HOUR AS later, usage * 2 AS u FROM cpu ORDER BY host, time DESC;

-- aliases of both keys
SELECT DISTINCT ON (h) host AS h, time AS t FROM cpu ORDER BY h, t DESC;

-- an alias that is not the time
SELECT DISTINCT ON (host) host, -epoch_ns(time) AS time FROM cpu ORDER BY host, time DESC;

-- another column that is called time
SELECT DISTINCT ON (host) requests AS time, host FROM cpu ORDER BY host, time DESC;

-- keys in another order
SELECT DISTINCT ON (region, host) * EXCLUDE (note) FROM cpu ORDER BY host, region, time DESC;

-- a condition above
SELECT * FROM (SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time DESC) WHERE usage > 20 ORDER BY host;

-- a row number and a condition
SELECT host, n FROM (SELECT host, row_number() OVER (PARTITION BY host ORDER BY time DESC) AS n, usage FROM cpu) WHERE n = 1 AND usage > 20 ORDER BY host;

-- row numbers from one to two
SELECT * EXCLUDE (n) FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY time DESC) AS n FROM cpu) WHERE n BETWEEN 1 AND 2 ORDER BY host, time;

-- the second
SELECT host, time FROM cpu QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC) = 2 ORDER BY host;

-- a rank
SELECT host, rank() OVER (PARTITION BY host ORDER BY time DESC) AS n FROM cpu QUALIFY n = 1 ORDER BY host;

-- a named window
SELECT host, time FROM cpu WINDOW w AS (PARTITION BY host ORDER BY time DESC) QUALIFY row_number() OVER w = 1 ORDER BY host;

-- a condition beside
SELECT host, time FROM cpu QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC) = 1 AND usage > 20 ORDER BY host;

-- of all
SELECT host, time FROM cpu QUALIFY row_number() OVER (ORDER BY time DESC, host) <= 4 ORDER BY time, host;

-- by the time of another query
SELECT host, time FROM cpu WHERE time = (SELECT max(time) FROM cpu c WHERE c.host = cpu.host) ORDER BY host;

-- lateral, of some hosts
SELECT d.host, l.time FROM (SELECT DISTINCT host FROM cpu WHERE region = 'eu') d, LATERAL (SELECT time FROM cpu WHERE host = d.host ORDER BY time DESC LIMIT 1) l ORDER BY d.host;

-- lateral, of rows that satisfy something
SELECT d.host, l.* FROM (SELECT DISTINCT host FROM cpu) d CROSS JOIN LATERAL (SELECT time, usage FROM cpu c WHERE c.host = d.host AND usage > 95 ORDER BY time DESC LIMIT 1) l ORDER BY d.host;
