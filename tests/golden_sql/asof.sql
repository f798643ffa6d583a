-- ASOF joins.

-- the last memory before each report
SELECT c.host, c.time, m.time AS at, m.used FROM cpu c ASOF JOIN mem m ON c.host = m.host AND c.time::TIMESTAMP >= m.time ORDER BY c.host, c.time;

-- left
SELECT c.host, c.time, m.used FROM cpu c ASOF LEFT JOIN mem m ON c.host = m.host AND c.time::TIMESTAMP >= m.time WHERE c.time < '2024-03-31' ORDER BY c.host, c.time;

-- strictly before
SELECT a.time, b.time AS before, b.v FROM single a ASOF JOIN single b ON a.time > b.time ORDER BY a.time;

-- the next one
SELECT a.time, b.time AS after FROM single a ASOF JOIN single b ON a.time < b.time ORDER BY a.time;

-- USING
SELECT host, time, m.free FROM mem m ASOF JOIN (SELECT host, time FROM mem WHERE swapping) s USING (host, time) ORDER BY host, time;

-- with an aggregate above
SELECT c.host, avg(m.free) AS mean, count(*) AS n FROM cpu c ASOF JOIN mem m ON c.host = m.host AND c.time::TIMESTAMP >= m.time GROUP BY c.host ORDER BY c.host;

-- without a tag
SELECT l.seq, s.c FROM log l ASOF JOIN single s ON l.time >= s.time WHERE l.seq % 9 = 0 ORDER BY l.seq;

-- three in a row
SELECT c.host, c.time, m.used, d.load FROM cpu c ASOF JOIN mem m ON c.host = m.host AND c.time::TIMESTAMP >= m.time ASOF JOIN device d ON c.host = d.host AND c.time::TIMESTAMP >= d.time WHERE c.usage > 80 ORDER BY c.host, c.time;
