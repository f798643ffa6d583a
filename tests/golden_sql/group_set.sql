-- ROLLUP, CUBE, GROUPING SETS, and aggregates that make lists and text.

-- rollup
SELECT region, host, count(*) AS n FROM cpu GROUP BY ROLLUP (region, host) ORDER BY ALL;

-- cube
SELECT region, cores, sum(requests) AS total FROM cpu GROUP BY CUBE (region, cores) ORDER BY ALL;

-- grouping sets, and which it is
SELECT region, host, grouping(region, host) AS g, max(usage) AS top FROM cpu GROUP BY GROUPING SETS ((region), (host), ()) ORDER BY g, region, host;

-- a list in order
SELECT host, list(usage ORDER BY time) AS l FROM cpu WHERE time < '2024-03-31' GROUP BY host ORDER BY host;

-- joined text
SELECT host, string_agg(note, ', ' ORDER BY time) AS notes FROM cpu WHERE time < '2024-03-31' GROUP BY host ORDER BY host;

-- the first of a list
SELECT host, list(requests ORDER BY time DESC)[1:3] AS l FROM cpu GROUP BY host ORDER BY host;

-- histogram
SELECT region, histogram(cores) AS h FROM cpu GROUP BY region ORDER BY region;

-- an aggregate over an aggregate
SELECT avg(top) AS mean, count(*) AS hosts FROM (SELECT host, max(usage) AS top FROM cpu GROUP BY host);

-- any value where there is one
SELECT host, any_value(region) AS region, any_value(cores) AS cores FROM cpu GROUP BY host ORDER BY host;

-- a struct as a group
SELECT {'r': region, 'c': cores} AS key, count(*) AS n FROM cpu GROUP BY key ORDER BY key;

-- distinct and filter together
SELECT region, count(DISTINCT host) FILTER (WHERE usage > 90) AS busy FROM cpu GROUP BY region ORDER BY region;

-- product, entropy, geometric mean
SELECT host, product(cores) FILTER (WHERE time < '2024-03-30 23:00:00') AS p, geometric_mean(usage) AS g FROM cpu WHERE usage > 0 GROUP BY host ORDER BY host;
