-- PIVOT, UNPIVOT, lists and structs.

-- hosts as columns
PIVOT (SELECT time_bucket(INTERVAL 6 HOUR, time) AS b, host, usage FROM cpu) ON host USING max(usage) GROUP BY b ORDER BY b;

-- given columns
PIVOT cpu ON region IN ('eu', 'us') USING count(*) AS n, sum(requests) AS total GROUP BY cores ORDER BY cores;

-- standard words
FROM (SELECT host, cores, region FROM cpu) PIVOT (count(*) FOR region IN ('eu', 'ap') GROUP BY cores) ORDER BY ALL;

-- unpivot
UNPIVOT (SELECT host, time, usage, idle FROM cpu WHERE time < '2024-03-30 23:00:00') ON usage, idle INTO NAME field VALUE value ORDER BY ALL;

-- unpivot with NULLs
FROM (SELECT id, f::DOUBLE AS f, d FROM kinds) UNPIVOT INCLUDE NULLS (v FOR k IN (f, d)) ORDER BY id, k;

-- a list of structs
SELECT host, list({'t': time, 'u': usage} ORDER BY time)[1] AS first FROM cpu GROUP BY host ORDER BY host;

-- unnest
SELECT host, unnest([cores, 7]) AS c FROM cpu WHERE time = '2024-03-31' ORDER BY ALL;

-- transform and filter
SELECT host, list_transform(list(cores ORDER BY time)[1:3], lambda x: x + 1) AS a, list_filter([1, 2, 3], lambda x: x > max(cores)) AS b FROM cpu GROUP BY host ORDER BY host;

-- a map
SELECT host, MAP {'low': min(usage), 'high': max(usage)} AS m FROM cpu GROUP BY host ORDER BY host;

-- JSON
SELECT to_json({'h': host, 'n': count(*)}) AS j FROM cpu GROUP BY host ORDER BY host;

-- parts of a vector
SELECT id, vec, vec[1] AS x, array_distance(vec, [0.0, 0.0]::FLOAT[2]) AS d FROM kinds ORDER BY id;

-- a list as text
SELECT region, list_sort(list(DISTINCT host))::VARCHAR AS hosts FROM cpu GROUP BY region ORDER BY region;
