-- A table without rows, and conditions that leave none.

-- counting nothing
SELECT count(*) AS n, count(x) AS x FROM empty;

-- aggregates of nothing
SELECT sum(x) AS a, sum(n) AS b, avg(x) AS c, min(time) AS d, max(host) AS e, stddev(x) AS f FROM empty;

-- groups of nothing
SELECT host, count(*) AS n FROM empty GROUP BY host ORDER BY host;

-- rows of nothing have types
SELECT * FROM empty ORDER BY time DESC LIMIT 5;

-- joined to something
SELECT c.host, max(e.x) AS x FROM cpu c LEFT JOIN empty e ON c.host = e.host GROUP BY c.host ORDER BY c.host;

-- nothing in a list
SELECT count(*) AS n FROM cpu WHERE host NOT IN (SELECT host FROM empty);

-- exists
SELECT EXISTS (FROM empty) AS a, (SELECT max(x) FROM empty) IS NULL AS b;

-- a union with nothing
SELECT host FROM empty UNION SELECT host FROM cpu ORDER BY host;

-- a condition that is false
SELECT count(*) AS n, max(usage) AS top FROM cpu WHERE false;

-- a condition that contradicts itself
SELECT count(*) AS n FROM cpu WHERE host = 'h0' AND host = 'h1';

-- GROUP BY () of nothing
SELECT count(*) AS n, max(x) AS top FROM empty GROUP BY ();

-- HAVING over nothing
SELECT count(*) AS n FROM empty HAVING count(*) = 0;

-- a window over nothing, counted
SELECT count(*) AS n FROM (SELECT row_number() OVER (ORDER BY time) AS r FROM empty);
