-- Conditions on time.

-- a half-open range
SELECT host, time FROM cpu WHERE time >= '2024-03-31 00:00:00' AND time < '2024-03-31 02:00:00' ORDER BY host, time;

-- to the nanosecond
SELECT host, time FROM cpu WHERE time = TIMESTAMP_NS '2024-03-31 00:00:00.000000003' ORDER BY host;

-- a nanosecond later there is nothing of that host
SELECT count(*) AS n FROM cpu WHERE host = 'h2' AND time BETWEEN TIMESTAMP_NS '2024-03-31 00:00:00.000000004' AND '2024-03-31 00:29:59';

-- a zone in the literal
SELECT host, time FROM cpu WHERE time >= '2024-03-31 02:00:00+02' AND time < '2024-03-31 03:00:00+02' ORDER BY host, time;

-- intervals
SELECT host, max(time) FROM cpu WHERE time > TIMESTAMP '2024-04-01 00:00:00' - INTERVAL '1 day 30 minutes' AND time < TIMESTAMP '2024-03-31' + INTERVAL 90 MINUTE GROUP BY host ORDER BY host;

-- a month back from a day that the month does not have
SELECT count(*) AS n FROM cpu WHERE time - INTERVAL 1 MONTH > TIMESTAMP '2024-02-29';

-- parts of a time
SELECT host, time FROM cpu WHERE extract(hour FROM time) = 1 AND minute(time) = 30 ORDER BY host, time;

-- the date of a time
SELECT time::DATE AS day, count(*) AS n FROM cpu WHERE time::DATE IN (DATE '2024-03-30', DATE '2024-04-01') GROUP BY day ORDER BY day;

-- seconds against a fraction
SELECT host, time FROM device WHERE time > '2024-03-30 22:59:59.5' AND time <= '2024-03-31 00:00:00.5' ORDER BY host, time;

-- milliseconds
SELECT seq, time FROM log WHERE time = '2024-03-30 22:03:00.001' ORDER BY seq;

-- microseconds of one host
SELECT time, used FROM mem WHERE host = 'h1' AND time > TIMESTAMP '2024-03-31 00:00:00.000006' AND time < TIMESTAMP '2024-03-31 02:00:00.000007' ORDER BY time;

-- before 1970
SELECT id, time FROM kinds WHERE time < '1970-01-01' ORDER BY id;

-- a subquery's time
SELECT host, time FROM cpu WHERE time > (SELECT max(time) - INTERVAL 1 HOUR FROM cpu) ORDER BY host, time;
