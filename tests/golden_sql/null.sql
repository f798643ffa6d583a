-- NULL: in conditions, functions, tags and aggregates.

-- IS NULL of a tag
SELECT host, region, count(*) AS n FROM cpu WHERE region IS NULL GROUP BY ALL ORDER BY ALL;

-- a tag that is not NULL
SELECT DISTINCT region FROM cpu WHERE region IS NOT NULL ORDER BY region;

-- NULL is a group
SELECT region, count(*) AS n, count(usage) AS u FROM cpu GROUP BY region ORDER BY region;

-- NULLS FIRST
SELECT region, count(*) AS n FROM cpu GROUP BY region ORDER BY region NULLS FIRST;

-- coalesce and its kin
SELECT id, coalesce(i, l, 0) AS a, ifnull(s, '-') AS b, nullif(i, 5) AS c, i IS NULL AS d FROM kinds ORDER BY id;

-- aggregates of NULLs only
SELECT count(n) AS a, sum(n) AS b, avg(n) AS c, min(n) AS d, max(n) AS e, stddev(n) AS f FROM odd;

-- NULL and comparison
SELECT count(*) FILTER (WHERE n = NULL) AS a, count(*) FILTER (WHERE n IS NOT DISTINCT FROM NULL) AS b FROM odd;

-- NULLs in arithmetic and text
SELECT id, i + l AS sum, s || '!' AS text, concat(s, '!') AS other FROM kinds ORDER BY id;

-- greatest and least skip NULL
SELECT id, greatest(i, l) AS g, least(i, l) AS l FROM kinds ORDER BY id;

-- NOT IN a subquery with NULL
SELECT count(*) AS n FROM cpu WHERE region NOT IN (SELECT region FROM cpu);

-- IN a subquery with NULL
SELECT DISTINCT host FROM cpu WHERE region IN (SELECT region FROM cpu WHERE host IN ('h1', 'h5')) ORDER BY host;

-- bool_and, bool_or with NULL
SELECT host, bool_and(swapping) AS every, bool_or(swapping) AS some, count(swapping) AS n FROM mem GROUP BY host ORDER BY host;
