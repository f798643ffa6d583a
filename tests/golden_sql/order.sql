-- ORDER BY and LIMIT.

-- newest rows
SELECT time, host, usage FROM cpu ORDER BY time DESC, host LIMIT 10;

-- oldest rows
SELECT time, host FROM cpu ORDER BY time, host LIMIT 10 OFFSET 3;

-- by value, then time
SELECT usage, time, host FROM cpu ORDER BY usage DESC NULLS LAST, time, host LIMIT 12;

-- NULLs first
SELECT usage, time, host FROM cpu ORDER BY usage NULLS FIRST, time DESC, host DESC LIMIT 40;

-- by an alias
SELECT host, usage / 10 AS tenth, time FROM cpu ORDER BY tenth DESC NULLS LAST, host, time LIMIT 9;

-- by position
SELECT host, time, cores FROM cpu ORDER BY 3 DESC NULLS FIRST, 2, 1 LIMIT 20;

-- by an expression
SELECT host, time, requests FROM cpu ORDER BY requests % 10, requests, host, time LIMIT 20;

-- ORDER BY ALL
SELECT region, host FROM cpu WHERE usage > 95 ORDER BY ALL;

-- a column that is not shown
SELECT host FROM cpu WHERE region = 'eu' ORDER BY time DESC, host LIMIT 9;

-- text, without case
SELECT s, id FROM kinds ORDER BY lower(s) DESC, id;

-- no rows
SELECT * FROM cpu ORDER BY time LIMIT 0;

-- an offset without limit
SELECT host, time FROM cpu ORDER BY host, time OFFSET 330;

-- a share of the rows
SELECT host, time FROM cpu ORDER BY host DESC, time LIMIT 3%;

-- every type as a key
SELECT id, day, ts, tm FROM kinds ORDER BY day DESC, ts NULLS FIRST, tm, id;

-- booleans and blobs
SELECT id, b, raw FROM kinds ORDER BY b, raw DESC, id;

-- a TopK of a TopK
SELECT * FROM (SELECT * FROM cpu ORDER BY time DESC, host LIMIT 30) ORDER BY usage, time, host LIMIT 5;
