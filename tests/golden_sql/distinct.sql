-- DISTINCT and DISTINCT ON.

-- distinct tags
SELECT DISTINCT host, region FROM cpu ORDER BY ALL;

-- distinct fields
SELECT DISTINCT cores FROM cpu ORDER BY cores;

-- distinct of an expression
SELECT DISTINCT usage > 50 AS high, region FROM cpu ORDER BY ALL;

-- the last row of each host
SELECT DISTINCT ON (host) host, time, usage FROM cpu ORDER BY host, time DESC;

-- the first row of each host
SELECT DISTINCT ON (host) * FROM cpu ORDER BY host, time;

-- the last row of each region: ties by host
SELECT DISTINCT ON (region) region, time, host FROM cpu ORDER BY region, time DESC, host;

-- with a condition
SELECT DISTINCT ON (host) host, time, usage FROM cpu WHERE usage > 50 AND time < '2024-03-31 12:00:00' ORDER BY host, time DESC;

-- and a limit
SELECT DISTINCT ON (host) host, time FROM cpu ORDER BY host DESC, time DESC LIMIT 3;

-- where the newest value is
SELECT DISTINCT ON (host) host, time, note FROM cpu WHERE note IS NOT NULL ORDER BY host, time DESC;

-- of two tags
SELECT DISTINCT ON (region, host) region, host, requests FROM cpu ORDER BY region, host, time DESC;

-- by value
SELECT DISTINCT ON (host) host, usage, time FROM cpu ORDER BY host, usage DESC NULLS LAST, time;

-- count distinct
SELECT region, count(DISTINCT host) AS hosts, count(DISTINCT cores) AS cores FROM cpu GROUP BY region ORDER BY region;

-- NULL tags are one device
SELECT DISTINCT ON (host) host, id FROM kinds ORDER BY host, time DESC, id;
