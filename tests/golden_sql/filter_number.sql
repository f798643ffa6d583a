-- Conditions on numbers.

-- greater than a decimal
SELECT host, time, usage FROM cpu WHERE usage > 66.6 ORDER BY host, time;

-- between, also negated
SELECT host, time, requests FROM cpu WHERE requests BETWEEN 0 AND 500 AND NOT (requests BETWEEN 100 AND 300) ORDER BY host, time;

-- in a list with NULL
SELECT host, cores FROM cpu WHERE cores IN (2, 8, NULL) ORDER BY host, time;

-- not in a list
SELECT count(*) AS n FROM cpu WHERE cores NOT IN (1, 2);

-- not in a list with NULL is never true
SELECT count(*) AS n FROM cpu WHERE cores NOT IN (1, 2, NULL);

-- NULL and distinct from
SELECT count(*) FILTER (WHERE cores IS NULL) AS a, count(*) FILTER (WHERE cores IS DISTINCT FROM 4) AS b, count(*) FILTER (WHERE cores <> 4) AS c FROM cpu;

-- an integer against a fraction
SELECT count(*) AS n FROM cpu WHERE cores > 1.5 AND cores < 4.5;

-- a big integer against a float that cannot tell it from its neighbour
SELECT id, l FROM kinds WHERE l >= 9007199254740992.0 ORDER BY id;

-- an integer beyond the type
SELECT count(*) AS n FROM kinds WHERE i < 99999999999;

-- a FLOAT column against a DOUBLE and a FLOAT
SELECT id, f, f = 0.1 AS a, f = 0.1::FLOAT AS b FROM kinds WHERE f IS NOT NULL ORDER BY id;

-- columns against each other
SELECT host, time FROM cpu WHERE idle < usage AND cores < 8 ORDER BY host, time;

-- three-valued OR
SELECT id FROM kinds WHERE i > 0 OR l > 0 ORDER BY id;

-- NOT over NULL
SELECT id FROM kinds WHERE NOT (i > 0 AND d > 0) ORDER BY id;
