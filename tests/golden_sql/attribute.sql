-- Attributes: one value per device.

-- everything
SELECT * FROM device ORDER BY host, time;

-- a condition on an attribute
SELECT host, time, load FROM device WHERE owner = 'bob' ORDER BY host, time;

-- the last that was given counts for all rows
SELECT host, count(*) AS n, min(floor) AS low, max(floor) AS high FROM device WHERE owner = 'dee' GROUP BY host ORDER BY host;

-- groups by an attribute
SELECT owner, count(*) AS n, avg(load) AS mean, count(DISTINCT host) AS hosts FROM device GROUP BY owner ORDER BY owner;

-- by two of them
SELECT owner, floor, max(time) AS last FROM device GROUP BY ALL ORDER BY ALL;

-- buckets by an attribute
SELECT time_bucket(INTERVAL 2 HOUR, time) AS b, owner, sum(load) AS total FROM device GROUP BY b, owner ORDER BY b, owner;

-- newest per device
SELECT DISTINCT ON (host) host, owner, status, time FROM device ORDER BY host, time DESC;

-- newest per owner
SELECT owner, max(time) AS last, max(load) AS top FROM device WHERE status IS NOT NULL GROUP BY owner HAVING count(*) > 5 ORDER BY owner;

-- ordered by an attribute
SELECT owner, host, time FROM device ORDER BY owner DESC, host, time LIMIT 15;

-- joined to measurements
SELECT d.owner, avg(c.usage) AS mean FROM cpu c JOIN (SELECT DISTINCT host, owner FROM device) d USING (host) GROUP BY d.owner ORDER BY d.owner;

-- NULL attributes
SELECT host, count(*) AS n FROM device WHERE owner IS NULL OR floor IS NULL GROUP BY host ORDER BY host;
