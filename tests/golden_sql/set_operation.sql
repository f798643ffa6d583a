-- UNION, INTERSECT, EXCEPT.

-- union of two tables
SELECT host FROM cpu UNION SELECT host FROM mem ORDER BY host;

-- union all keeps both
SELECT host, count(*) AS n FROM (SELECT host FROM cpu UNION ALL SELECT host FROM mem) GROUP BY host ORDER BY host;

-- by name
SELECT host, max(usage) AS usage FROM cpu GROUP BY host UNION ALL BY NAME SELECT max(used) AS used, host FROM mem GROUP BY host ORDER BY ALL;

-- intersect
SELECT host FROM cpu INTERSECT SELECT host FROM mem ORDER BY host;

-- except
SELECT host FROM mem EXCEPT SELECT host FROM cpu;

-- except all
SELECT cores FROM cpu EXCEPT ALL SELECT cores FROM cpu WHERE time > '2024-03-30 23:00:00' ORDER BY cores;

-- types meet
SELECT cores AS x FROM cpu WHERE host = 'h1' UNION SELECT usage FROM cpu WHERE host = 'h1' ORDER BY x;

-- newest and oldest
(SELECT host, time FROM cpu ORDER BY time DESC, host LIMIT 3) UNION ALL (SELECT host, time FROM cpu ORDER BY time, host LIMIT 3) ORDER BY time, host;

-- times of two types
SELECT max(time) AS t FROM cpu UNION ALL SELECT max(time) FROM mem ORDER BY t;

-- three
SELECT host FROM cpu UNION SELECT host FROM mem UNION SELECT host FROM device EXCEPT SELECT 'h3' ORDER BY host;
