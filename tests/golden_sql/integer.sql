-- Integers at their ends, and the types of what is made of them.

-- sum of INT64 is HUGEINT
SELECT sum(i) AS total, typeof(sum(i)) AS kind FROM odd;

-- sum of INT32, of BOOLEAN
SELECT sum(i) AS a, sum(b) AS b, typeof(sum(i)) AS c, typeof(sum(b)) AS d FROM kinds;

-- avg, min, max of INT64
SELECT k, avg(i) AS mean, min(i) AS low, max(i) AS high FROM odd GROUP BY k ORDER BY k;

-- the ends are found
SELECT id, i FROM odd WHERE i = 9223372036854775807 OR i = -9223372036854775808 ORDER BY id;

-- sums per group are exact
SELECT k, sum(i) AS total, sum(i) % 10 AS digit FROM odd GROUP BY k ORDER BY k;

-- arithmetic on a sum
SELECT host, sum(requests) / count(*) AS mean, sum(requests) // 7 AS part, sum(cores) + 1 AS more FROM cpu GROUP BY host ORDER BY host;

-- bits
SELECT host, bit_and(requests) AS a, bit_or(cores) AS o, bit_xor(requests) AS x FROM cpu GROUP BY host ORDER BY host;

-- wider, so that nothing overflows
SELECT id, i::HUGEINT * 2 AS twice, l::HUGEINT * l AS square FROM kinds ORDER BY id;

-- division and modulo of negative numbers
SELECT DISTINCT i, i // 3 AS q, i % 3 AS r, i / 3 AS x FROM kinds ORDER BY i;

-- as text and back
SELECT id, l::VARCHAR AS t, l::VARCHAR::BIGINT = l AS same FROM kinds ORDER BY id;

-- an average is exact where a float sum is not
SELECT avg(l) AS a, sum(l) AS s FROM kinds WHERE l > 1000;

-- HUGEINT orders as a number
SELECT k, sum(i) AS total FROM odd GROUP BY k ORDER BY total DESC NULLS LAST, k;

-- a condition on HUGEINT
SELECT host, sum(requests) AS total FROM cpu GROUP BY host HAVING sum(requests) > 60000 ORDER BY host;
