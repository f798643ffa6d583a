-- Names in queries with groups: aliases that hide columns, columns that hide aliases, positions.

-- an aggregate named as its column, in ORDER BY
SELECT host, max(usage) AS usage FROM cpu GROUP BY host ORDER BY usage DESC, host;

-- and in HAVING
SELECT host, max(usage) AS usage FROM cpu GROUP BY host HAVING usage > 99 ORDER BY host;

-- GROUP BY takes the column before the alias
SELECT upper(host) AS host, count(*) AS n FROM cpu GROUP BY host ORDER BY host;

-- an alias that is another column
SELECT region AS host, count(*) AS n FROM cpu GROUP BY region ORDER BY host;

-- a bucket named time, by position
SELECT time_bucket(INTERVAL 1 DAY, time) AS time, count(*) AS n FROM cpu GROUP BY 1 ORDER BY 1;

-- a bucket named time, by ALL
SELECT time_bucket(INTERVAL 1 DAY, time) AS time, count(*) AS n FROM cpu GROUP BY ALL ORDER BY time;

-- ordered by an aggregate of what the alias hides
SELECT time_bucket(INTERVAL 1 DAY, time) AS time, max(time) AS t FROM cpu GROUP BY 1 ORDER BY max(time);

-- an alias of the table
SELECT c.host, max(c.usage) FROM cpu c GROUP BY c.host ORDER BY c.host;

-- a schema
SELECT cpu.host, max(cpu.usage) FROM main.cpu GROUP BY cpu.host ORDER BY cpu.host;

-- aliases without AS
SELECT host h, max(usage) m FROM cpu GROUP BY h ORDER BY m DESC NULLS LAST, h;

-- quotes and another case
SELECT host, max(usage) FROM cpu GROUP BY "host" ORDER BY "HOST";

-- groups that are not shown
SELECT count(*) AS n, max(usage) AS top FROM cpu GROUP BY host, region ORDER BY region, host;

-- a bucket that is not shown
SELECT max(usage) AS m FROM cpu GROUP BY time_bucket(INTERVAL 6 HOUR, time) ORDER BY time_bucket(INTERVAL 6 HOUR, time);

-- an expression of a bucket that is a group
SELECT time_bucket(INTERVAL 6 HOUR, time) + INTERVAL 6 HOUR AS stop, max(usage) AS m FROM cpu GROUP BY time_bucket(INTERVAL 6 HOUR, time) ORDER BY stop;

-- that is the group itself
SELECT epoch(time_bucket(INTERVAL 6 HOUR, time)) AS e, max(usage) AS m FROM cpu GROUP BY 1 ORDER BY 1;

-- constants beside groups
SELECT host, 'k' AS k, count(*) AS n FROM cpu GROUP BY ALL ORDER BY ALL;

-- columns by pattern within an aggregate
SELECT host, max(COLUMNS(* EXCLUDE (host, region, note))) FROM cpu GROUP BY host ORDER BY host;

-- a window over groups
SELECT max(max(usage)) OVER () AS m, host, rank() OVER (ORDER BY count(*) DESC, host) AS r FROM cpu GROUP BY host ORDER BY host;

-- QUALIFY over groups
SELECT host, count(*) FROM cpu GROUP BY host QUALIFY row_number() OVER (ORDER BY count(*) DESC, host) <= 2 ORDER BY host;

-- DISTINCT over groups
SELECT DISTINCT max(usage) > 99.8 AS busy FROM cpu GROUP BY host ORDER BY busy;

-- DISTINCT ON over groups
SELECT DISTINCT ON (region) region, count(*) AS n FROM cpu GROUP BY region, host ORDER BY region, n DESC;

-- a condition above groups
SELECT * FROM (SELECT host, time_bucket(INTERVAL 1 DAY, time) AS b, max(usage) AS m FROM cpu GROUP BY ALL) WHERE b = '2024-03-31' AND m > 50 ORDER BY host;

-- a subquery in HAVING
SELECT host FROM cpu GROUP BY host HAVING max(usage) > (SELECT avg(usage) * 1.7 FROM cpu) ORDER BY host;

-- groups twice
WITH g AS (SELECT host, count(*) AS n FROM cpu GROUP BY host) SELECT a.host, b.n FROM g a JOIN g b ON a.n = b.n ORDER BY ALL;

-- counts of subqueries
SELECT (SELECT count(*) FROM (SELECT host FROM cpu GROUP BY host)) AS a, (SELECT count(*) FROM (SELECT * FROM cpu WHERE usage > 50)) AS b;

-- aggregates of attributes and tags
SELECT min(owner), max(owner), count(floor), sum(floor), max(host) FROM device WHERE time > '2024-03-31 01:00:00';

-- averages of times
SELECT avg(tu) AS a, avg(ts) AS b, avg(day) AS c FROM kinds;

-- spread of one value
SELECT stddev(usage) AS s, var_pop(usage) AS v FROM cpu WHERE host = 'h1' AND time < '2024-03-30 22:10:00';
