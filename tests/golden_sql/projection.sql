-- Select lists: columns, expressions, stars, names.

-- all columns
SELECT * FROM cpu ORDER BY host, time;

-- columns by name, in another order
SELECT usage, time, host FROM cpu ORDER BY host, time;

-- one column twice
SELECT host, host, host AS host2 FROM cpu WHERE usage > 99 ORDER BY host, time;

-- arithmetic keeps DuckDB's types
SELECT cores + 1 AS a, cores * 2.5 AS b, requests / 2 AS c, requests // 7 AS d, requests % 7 AS e, -cores AS f FROM cpu WHERE host = 'h2' ORDER BY time;

-- star without and with replaced columns
SELECT * EXCLUDE (note, idle) REPLACE (upper(host) AS host, usage / 100 AS usage) FROM cpu ORDER BY ALL;

-- renamed columns
SELECT * RENAME (usage AS load) FROM cpu WHERE host = 'h1' ORDER BY time LIMIT 7;

-- columns by pattern
SELECT COLUMNS('^(u|i)') FROM cpu WHERE host = 'h0' ORDER BY time;

-- a name for use later in the list
SELECT usage * 2 AS twice, twice + 1 AS more FROM cpu WHERE host = 'h1' AND usage IS NOT NULL ORDER BY time;

-- CASE with and without ELSE
SELECT host, CASE WHEN usage > 66 THEN 'high' WHEN usage > 33 THEN 'middle' ELSE 'low' END AS word, CASE host WHEN 'h0' THEN 1 END AS zero FROM cpu ORDER BY host, time;

-- a constant for every row
SELECT 1, 'x' AS x, NULL AS nothing FROM cpu WHERE host = 'h5' LIMIT 3;

-- the table first
FROM cpu SELECT host, time WHERE cores = 8 ORDER BY host, time;

-- only FROM
FROM single;

-- a row as a struct
SELECT single FROM single ORDER BY single.time LIMIT 5;

-- types of every column
SELECT typeof(COLUMNS(*)) FROM kinds LIMIT 1;
