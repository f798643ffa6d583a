-- WITH.

-- one name
WITH busy AS (SELECT * FROM cpu WHERE usage > 80) SELECT host, count(*) AS n FROM busy GROUP BY host ORDER BY host;

-- two names, one from the other
WITH a AS (SELECT host, max(usage) AS top FROM cpu GROUP BY host), b AS (SELECT * FROM a WHERE top > 99) SELECT count(*) AS n FROM b;

-- a name that hides the table
WITH cpu AS (SELECT host, usage FROM cpu WHERE host = 'h0') SELECT count(*) AS n, max(host) AS host FROM cpu;

-- joined with itself
WITH m AS (SELECT host, time_bucket(INTERVAL 1 HOUR, time) AS b, avg(usage) AS mean FROM cpu GROUP BY ALL) SELECT a.host, a.b, b.mean - a.mean AS change FROM m a JOIN m b ON a.host = b.host AND b.b = a.b + INTERVAL 1 HOUR ORDER BY a.host, a.b;

-- materialized
WITH m AS MATERIALIZED (SELECT host, used FROM mem) SELECT a.host, count(*) AS n FROM m a JOIN m b USING (host) GROUP BY a.host ORDER BY a.host;

-- recursive
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n, (SELECT count(*) FROM cpu WHERE cores = n) AS c FROM r ORDER BY n;

-- recursive over a table
WITH RECURSIVE r AS (SELECT id, i FROM kinds WHERE id = 0 UNION ALL SELECT k.id, k.i FROM kinds k JOIN r ON k.id = r.id * 2 + 1 WHERE k.id < 60) SELECT * FROM r ORDER BY id;

-- column names
WITH q(h, n) AS (SELECT host, count(*) FROM log GROUP BY host) SELECT h, n FROM q ORDER BY h;

-- within a subquery
SELECT host, n FROM (WITH c AS (SELECT host, count(*) AS n FROM mem GROUP BY host) SELECT * FROM c WHERE n > 30) ORDER BY host;

-- the newest and then their history
WITH newest AS (SELECT host FROM cpu ORDER BY time DESC, host LIMIT 2) SELECT c.host, count(*) AS n, avg(c.usage) AS mean FROM cpu c JOIN newest USING (host) GROUP BY c.host ORDER BY c.host;
