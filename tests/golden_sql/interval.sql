-- Intervals and arithmetic on times.

-- nanoseconds survive an interval
SELECT host, time + INTERVAL 1 DAY AS a, time - INTERVAL '1 month' AS b, typeof(time + INTERVAL 1 DAY) AS c FROM cpu WHERE host IN ('h2', 'h4') ORDER BY host, time LIMIT 12;

-- differences of nanoseconds
SELECT a.host, a.time - b.time AS d, typeof(a.time - b.time) AS kind FROM cpu a JOIN cpu b ON a.requests = b.requests AND a.host = b.host WHERE a.host = 'h2' ORDER BY a.time LIMIT 3;

-- differences between types of time
SELECT c.host, c.time - m.time AS d FROM cpu c JOIN mem m ON c.host = m.host AND c.time::TIMESTAMP > m.time WHERE c.time < '2024-03-31' ORDER BY c.host, c.time, m.time;

-- age, datediff, datesub
SELECT DISTINCT age(time::TIMESTAMP, TIMESTAMP '2024-02-29') AS a, datediff('hour', TIMESTAMP '2024-03-30 22:45:00', time::TIMESTAMP) AS b, datesub('hour', TIMESTAMP '2024-03-30 22:45:00', time::TIMESTAMP) AS c FROM cpu WHERE host = 'h0' ORDER BY a;

-- a month from the end of a month
SELECT DISTINCT time::DATE AS day, (time::DATE + INTERVAL 1 MONTH) AS later FROM cpu ORDER BY day;

-- intervals by number
SELECT id, tu + to_hours(slot) AS a, tu - INTERVAL (slot) DAY AS b FROM kinds WHERE slot IS NOT NULL AND tu IS NOT NULL ORDER BY id;

-- a date and a number
SELECT id, day + 1 AS next, day - DATE '2024-01-01' AS days FROM kinds ORDER BY id;

-- intervals compare
SELECT count(*) FILTER (WHERE time - TIMESTAMP_NS '2024-03-31' > INTERVAL 1 HOUR) AS a, count(*) FILTER (WHERE INTERVAL 30 DAY = INTERVAL 1 MONTH) AS b FROM cpu;

-- an interval as a result
SELECT host, max(time) - min(time) AS span FROM mem GROUP BY host ORDER BY span DESC, host;

-- the average of a difference
SELECT host, avg(epoch_ns(time) - 1711836000000000000) AS mean FROM cpu GROUP BY host ORDER BY host;

-- parts
SELECT DISTINCT extract(epoch FROM time) AS e, date_part('doy', time) AS d, dayname(time) AS n, isodow(time) AS w, week(time) AS k FROM cpu WHERE host = 'h0' ORDER BY e LIMIT 8;

-- epochs keep nanoseconds
SELECT id, epoch_ns(time) AS a, epoch_us(tu) AS b, epoch_ms(tu) AS c, epoch_ns(tn) AS d FROM kinds ORDER BY id;

-- text of a time has all its digits
SELECT id, time::VARCHAR AS a, strftime(time, '%Y %n') AS b, ts::VARCHAR AS c, tm::VARCHAR AS d, tu::VARCHAR AS e FROM kinds ORDER BY id;
