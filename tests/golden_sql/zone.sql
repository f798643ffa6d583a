-- Time zones: the night in which clocks go forward.

-- local time
SELECT DISTINCT time, timezone('Europe/Berlin', time::TIMESTAMP::TIMESTAMPTZ) AS local FROM cpu WHERE host = 'h0' AND time < '2024-03-31 04:00:00' ORDER BY time;

-- AT TIME ZONE twice
SELECT time, time::TIMESTAMP AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' AS local FROM cpu WHERE host = 'h1' ORDER BY time LIMIT 10;

-- days in Berlin
SELECT date_trunc('day', timezone('Europe/Berlin', time::TIMESTAMPTZ)) AS day, count(*) AS n FROM mem GROUP BY day ORDER BY day;

-- days in Berlin as moments
SELECT time_bucket(INTERVAL '1 day', time::TIMESTAMPTZ, 'Europe/Berlin') AS day, count(*) AS n, sum(used) AS total FROM mem GROUP BY day ORDER BY day;

-- months in Auckland
SELECT time_bucket(INTERVAL '1 month', time::TIMESTAMP AT TIME ZONE 'UTC', 'Pacific/Auckland') AS month, count(*) AS n FROM cpu GROUP BY month ORDER BY month;

-- hours by the clock of New York
SELECT hour(time::TIMESTAMP AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York') AS h, count(*) AS n FROM cpu GROUP BY h ORDER BY h;

-- the offset itself
SELECT DISTINCT timezone('Europe/Berlin', time::TIMESTAMPTZ) - time AS ahead FROM mem ORDER BY ahead;

-- a condition on local time
SELECT host, time FROM mem WHERE timezone('Europe/Berlin', time::TIMESTAMPTZ) >= TIMESTAMP '2024-03-31 03:00:00' AND host = 'h0' ORDER BY time;

-- moments with zones as parameters of a range
SELECT count(*) AS n FROM cpu WHERE time >= TIMESTAMPTZ '2024-03-31 01:00:00+01'::TIMESTAMP AND time < '2024-03-31 05:00:00+02';

-- printed with a zone
SELECT DISTINCT strftime(timezone('Asia/Kolkata', time::TIMESTAMPTZ), '%Y-%m-%d %H:%M') AS text FROM mem WHERE host = 'h0' ORDER BY text LIMIT 6;
