-- GROUP BY tags, expressions of tags, and fields.

-- by host
SELECT host, count(*) AS n, avg(usage) AS mean, max(usage) AS top FROM cpu GROUP BY host ORDER BY host;

-- by two tags
SELECT region, host, sum(requests) AS total FROM cpu GROUP BY region, host ORDER BY region, host;

-- by position and alias
SELECT region AS r, min(usage) AS low FROM cpu GROUP BY 1 ORDER BY r;

-- GROUP BY ALL
SELECT region, cores, count(*) AS n FROM cpu GROUP BY ALL ORDER BY ALL;

-- by an expression of a tag
SELECT upper(host) AS name, substr(host, 2)::INT % 2 AS odd, count(usage) AS n FROM cpu GROUP BY name, odd ORDER BY name;

-- several tags fall into one group
SELECT region IN ('eu', 'us') AS western, count(*) AS n, max(time) AS last FROM cpu GROUP BY western ORDER BY western;

-- CASE of a tag
SELECT CASE WHEN host < 'h3' THEN 'low' ELSE 'high' END AS half, sum(usage) AS total FROM cpu GROUP BY half ORDER BY half;

-- by a field
SELECT cores, count(*) AS n, avg(usage) AS mean FROM cpu GROUP BY cores ORDER BY cores;

-- by an expression of a field
SELECT floor(usage / 10) AS decade, count(*) AS n FROM cpu GROUP BY decade ORDER BY decade;

-- HAVING
SELECT host, max(usage) AS top FROM cpu GROUP BY host HAVING max(usage) > 99 AND count(*) > 50 ORDER BY host;

-- HAVING of what is not selected
SELECT region FROM cpu GROUP BY region HAVING count(DISTINCT host) > 1 ORDER BY region;

-- ordered by an aggregate, limited
SELECT host, sum(requests) AS total FROM cpu GROUP BY host ORDER BY total DESC LIMIT 3;

-- ordered by an aggregate that is not selected
SELECT host FROM cpu GROUP BY host ORDER BY max(requests) DESC, host;

-- groups without aggregates
SELECT region, host FROM cpu GROUP BY region, host ORDER BY ALL;

-- only some groups have rows
SELECT host, count(*) AS n FROM cpu WHERE usage > 98 GROUP BY host ORDER BY host;

-- tags of several types
SELECT host, slot, up, count(*) AS n, min(id) AS first FROM kinds GROUP BY host, slot, up ORDER BY ALL;

-- some of the tags
SELECT up, slot, sum(i) AS total, max(s) AS text FROM kinds GROUP BY up, slot ORDER BY ALL;
