-- The newest row of each device, in QuestDB's words, and in those of SQL.

-- LATEST ON
SELECT host, time, usage FROM cpu LATEST ON time PARTITION BY host ORDER BY host;
-- DuckDB
SELECT host, time, usage FROM cpu QUALIFY row_number() OVER (PARTITION BY host ORDER BY time DESC) = 1 ORDER BY host;

-- LATEST BY
SELECT * FROM mem LATEST BY host ORDER BY host;
-- DuckDB
SELECT DISTINCT ON (host) * FROM mem ORDER BY host, time DESC;

-- of rows that satisfy something
SELECT host, time, usage FROM cpu WHERE usage > 90 AND region IS NOT NULL LATEST ON time PARTITION BY host ORDER BY host;
-- DuckDB
SELECT DISTINCT ON (host) host, time, usage FROM cpu WHERE usage > 90 AND region IS NOT NULL ORDER BY host, time DESC;

-- two tags
SELECT region, host, requests FROM cpu WHERE time < '2024-03-31 06:10:00' LATEST ON time PARTITION BY region, host ORDER BY host;
-- DuckDB
SELECT DISTINCT ON (host) region, host, requests FROM cpu WHERE time < '2024-03-31 06:10:00' ORDER BY host, time DESC;

-- aggregates of the newest rows
SELECT count(*) AS n, sum(requests) AS total, max(usage) AS top FROM cpu LATEST ON time PARTITION BY host;
-- DuckDB
SELECT count(*) AS n, sum(requests) AS total, max(usage) AS top FROM (SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time DESC);

-- by region of the newest rows
SELECT region, count(*) AS n, sum(requests) AS total FROM cpu LATEST ON time PARTITION BY host GROUP BY region ORDER BY region;
-- DuckDB
SELECT region, count(*) AS n, sum(requests) AS total FROM (SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time DESC) GROUP BY region ORDER BY region;

-- in a subquery, then a condition
SELECT * FROM (SELECT host, status, time FROM device LATEST ON time PARTITION BY host) WHERE status = 'ok' ORDER BY host;
-- DuckDB
SELECT * FROM (SELECT DISTINCT ON (host) host, status, time FROM device ORDER BY host, time DESC) WHERE status = 'ok' ORDER BY host;

-- joined
SELECT c.host, c.usage, m.used FROM (SELECT * FROM cpu LATEST ON time PARTITION BY host) c JOIN (SELECT * FROM mem LATEST ON time PARTITION BY host) m USING (host) ORDER BY host;
-- DuckDB
SELECT c.host, c.usage, m.used FROM (SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time DESC) c JOIN (SELECT DISTINCT ON (host) * FROM mem ORDER BY host, time DESC) m USING (host) ORDER BY host;

-- by an attribute
SELECT owner, max(load) AS top FROM device LATEST ON time PARTITION BY host GROUP BY owner ORDER BY owner;
-- DuckDB
SELECT owner, max(load) AS top FROM (SELECT DISTINCT ON (host) * FROM device ORDER BY host, time DESC) GROUP BY owner ORDER BY owner;

-- quoted names
SELECT "select", "Größe" FROM "Größe der Welt" LATEST ON "Zeit punkt" PARTITION BY "select" ORDER BY "select";
-- DuckDB
SELECT DISTINCT ON ("select") "select", "Größe" FROM "Größe der Welt" ORDER BY "select", "Zeit punkt" DESC;

-- tags of several types, with NULLs
SELECT * FROM kinds LATEST ON time PARTITION BY host, slot, up ORDER BY id;
-- DuckDB
SELECT * FROM (SELECT DISTINCT ON (host, slot, up) * FROM kinds ORDER BY host, slot, up, time DESC) ORDER BY id;

-- the last two of each, of a subquery
SELECT host, time, rn FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY time DESC) AS rn FROM cpu) WHERE rn <= 2 ORDER BY host, rn;

-- the oldest of each
SELECT * FROM mem QUALIFY row_number() OVER (PARTITION BY host ORDER BY time) = 1 ORDER BY host;

-- by max
SELECT a.host, a.time, a.usage FROM cpu a JOIN (SELECT host, max(time) AS time FROM cpu GROUP BY host) b ON a.host = b.host AND a.time = b.time ORDER BY a.host;
