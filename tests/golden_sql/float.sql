-- NaN, infinities and −0.0: order, equality, grouping, aggregates.

-- order of doubles: NaN after infinity
SELECT id, d FROM odd ORDER BY d, id;

-- and downwards, NULLs first
SELECT id, d FROM odd ORDER BY d DESC NULLS FIRST, id;

-- the largest
SELECT id, f FROM odd ORDER BY f DESC, id LIMIT 15;

-- the smallest that are not NULL
SELECT id, f FROM odd WHERE f IS NOT NULL ORDER BY f, id LIMIT 15;

-- NaN equals itself and exceeds infinity
SELECT count(*) FILTER (WHERE d = 'nan'::DOUBLE) AS a, count(*) FILTER (WHERE d > 'inf'::DOUBLE) AS b, count(*) FILTER (WHERE d >= 'inf') AS c, count(*) FILTER (WHERE d <> d) AS e FROM odd;

-- zeros are equal
SELECT id, d FROM odd WHERE d = 0 ORDER BY id;

-- zeros in a list
SELECT id FROM odd WHERE d IN (-0.0, 1.5) ORDER BY id;

-- min and max by tag
-- zeros
SELECT k, min(d) AS low, max(d) AS high FROM odd GROUP BY k ORDER BY k;

-- min and max of FLOAT
SELECT k, min(f) AS low, max(f) AS high, count(f) AS n FROM odd GROUP BY k ORDER BY k;

-- sums with infinities and NaN
SELECT k, sum(d) AS total, avg(f) AS mean FROM odd WHERE isfinite(d) AND abs(d) < 1e300 GROUP BY k ORDER BY k;

-- sums that are NaN or infinite
SELECT k, sum(d) AS total FROM odd WHERE k IN ('nan', 'zero') GROUP BY k ORDER BY k;

-- groups of a float
SELECT d, count(*) AS n FROM odd WHERE d <> 0 GROUP BY d ORDER BY d;

-- isnan, isinf, isfinite
SELECT count(*) FILTER (WHERE isnan(d)) AS a, count(*) FILTER (WHERE isinf(d)) AS b, count(*) FILTER (WHERE isfinite(d)) AS c FROM odd;

-- the sign of zero can be seen
SELECT id, d, signbit(d) AS negative, 1 / d AS inverse FROM odd WHERE k = 'zero' ORDER BY id;

-- between infinities
SELECT id FROM odd WHERE d BETWEEN '-inf' AND 'inf' ORDER BY id;

-- the smallest double
SELECT id FROM odd WHERE d > 0 AND d < 1e-300 ORDER BY id;
