-- Aggregates over a whole table and over a part of it.

-- counting
SELECT count(*), count(usage), count(region), count(1) FROM cpu;

-- the names that DuckDB gives
SELECT sum(usage), avg(usage), min(time), max(host), count(*) FROM cpu;

-- of times
SELECT min(time) AS first, max(time) AS last, max(time) - min(time) AS span FROM cpu;

-- of one host
SELECT count(*) AS n, min(usage) AS low, max(usage) AS high, avg(usage) AS mean FROM cpu WHERE host = 'h3';

-- of a range of time
SELECT count(*) AS n, sum(requests) AS total, avg(idle) AS mean FROM cpu WHERE time >= '2024-03-31 03:00:00' AND time < '2024-03-31 09:00:00';

-- of a condition on a field
SELECT count(*) AS n, sum(usage) AS total FROM cpu WHERE usage > 50 AND note IS NOT NULL;

-- of no rows
SELECT count(*) AS n, sum(requests) AS a, avg(usage) AS b, min(host) AS c, max(time) AS d FROM cpu WHERE host = 'nobody';

-- spread
SELECT stddev(usage) AS a, stddev_pop(usage) AS b, variance(usage) AS c, var_pop(usage) AS d, var_samp(requests) AS e FROM cpu;

-- min and max of every type
SELECT min(b) AS b, max(b), min(i), max(i), min(l), max(l), min(f), max(f), min(d), max(d), min(s), max(s) FROM kinds;

-- min and max of times and bytes
SELECT min(day), max(day), min(ts), max(ts), min(tm), max(tm), min(tu), max(tu), min(tn), max(tn), min(raw), max(raw) FROM kinds;

-- FILTER
SELECT count(*) FILTER (WHERE usage > 90) AS a, sum(requests) FILTER (WHERE region = 'eu') AS b, avg(usage) FILTER (WHERE cores = 4) AS c, max(time) FILTER (WHERE note IS NULL) AS d FROM cpu;

-- count_if and sum of a condition
SELECT count_if(usage > 50) AS a, count_if(region IS NULL) AS b, sum((usage > 50)::INT) AS c FROM cpu;

-- count_if over nothing and over NULL
SELECT count_if(usage > 50) AS a, count(*) FILTER (WHERE usage > 50) AS b FROM cpu WHERE usage IS NULL;

-- aggregates in expressions
SELECT round(avg(usage), 2) AS mean, (max(usage) - min(usage)) / 2 AS half, coalesce(sum(usage), 0) AS total FROM cpu;

-- an aggregate of an expression
SELECT sum(usage * cores) AS work, max(abs(requests)) AS most, avg(100 - idle) AS busy, min(length(note)) AS short FROM cpu;

-- quantiles
SELECT median(usage) AS a, quantile_cont(usage, 0.9) AS b, quantile_disc(requests, [0.1, 0.5]) AS c, mode(cores) AS d FROM cpu;

-- correlation and regression
SELECT corr(usage, requests) AS a, covar_pop(usage, requests) AS b, regr_slope(requests, cores) AS c FROM cpu WHERE cores IS NOT NULL;
