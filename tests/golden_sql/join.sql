-- Joins.

-- inner, on tags and time
SELECT c.host, c.time, c.usage, m.used FROM cpu c JOIN mem m ON c.host = m.host AND c.time = m.time ORDER BY c.host, c.time;

-- USING
SELECT host, c.time AS t, free FROM cpu c JOIN mem m USING (host) WHERE m.used = 0 AND c.usage > 95 ORDER BY host, t, m.time;

-- left, and what has no partner
SELECT DISTINCT c.host, m.host AS other FROM cpu c LEFT JOIN mem m ON c.host = m.host ORDER BY ALL;

-- right
SELECT DISTINCT c.host, m.host AS other FROM cpu c RIGHT JOIN mem m ON c.host = m.host ORDER BY ALL;

-- full
SELECT coalesce(c.host, m.host) AS host, count(c.time) AS a, count(m.time) AS b FROM cpu c FULL JOIN mem m ON c.host = m.host AND c.time = m.time GROUP BY 1 ORDER BY 1;

-- semi and anti
SELECT host, count(*) AS n FROM cpu SEMI JOIN mem USING (host) GROUP BY host ORDER BY host;

-- anti
SELECT host, count(*) AS n FROM cpu c ANTI JOIN mem m ON c.host = m.host AND c.time = m.time GROUP BY host ORDER BY host;

-- cross
SELECT a.host AS one, b.host AS two FROM (SELECT DISTINCT host FROM cpu) a CROSS JOIN (SELECT DISTINCT host FROM mem) b ORDER BY ALL;

-- natural
SELECT host, count(*) AS n FROM mem NATURAL JOIN cpu GROUP BY host ORDER BY host;

-- a table with itself: neighbours in time
SELECT a.host, a.time, b.usage - a.usage AS change FROM cpu a JOIN cpu b ON a.host = b.host AND b.time = a.time + INTERVAL 30 MINUTE ORDER BY a.host, a.time;

-- three tables
SELECT c.host, d.owner, max(m.free) AS free, max(c.usage) AS top FROM cpu c JOIN mem m USING (host) JOIN device d USING (host) WHERE d.status = 'ok' GROUP BY ALL ORDER BY ALL;

-- on NULL tags nothing joins
SELECT count(*) AS n FROM cpu a JOIN cpu b ON a.region = b.region AND a.time = b.time;

-- unless it may
SELECT count(*) AS n FROM cpu a JOIN cpu b ON a.region IS NOT DISTINCT FROM b.region AND a.time = b.time;

-- with values
SELECT v.word, count(*) AS n FROM cpu JOIN (VALUES ('h0', 'zero'), ('h1', 'one'), ('h8', 'eight')) v(host, word) ON cpu.host = v.host GROUP BY v.word ORDER BY v.word;

-- with a series of numbers
SELECT g.n, count(k.id) AS rows FROM range(8) g(n) LEFT JOIN kinds k ON k.slot = g.n - 3 GROUP BY g.n ORDER BY g.n;

-- an inequality
SELECT count(*) AS n FROM mem a JOIN mem b ON a.host = b.host AND a.time < b.time AND a.used > b.used;

-- of aggregates
SELECT a.host, a.top, b.used FROM (SELECT host, max(usage) AS top FROM cpu GROUP BY host) a JOIN (SELECT host, avg(used) AS used FROM mem GROUP BY host) b USING (host) ORDER BY host;

-- of buckets
SELECT a.b, a.n, b.m FROM (SELECT time_bucket(INTERVAL 1 HOUR, time) AS b, count(*) AS n FROM cpu GROUP BY b) a JOIN (SELECT time_bucket(INTERVAL 1 HOUR, time) AS b, count(*) AS m FROM mem GROUP BY b) b USING (b) ORDER BY b;
