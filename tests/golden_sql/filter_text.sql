-- Conditions on text.

-- equal, ignoring nothing
SELECT id, s FROM kinds WHERE s = 'a' OR s = 'A' ORDER BY id;

-- order is bytewise
SELECT id, s FROM kinds WHERE s > 'a' ORDER BY s, id;

-- LIKE with both wildcards
SELECT id, s FROM kinds WHERE s LIKE '_%' AND s NOT LIKE 'a%' ORDER BY id;

-- LIKE with an escape
SELECT id, s FROM kinds WHERE s LIKE 'a$%b' ESCAPE '$' OR s LIKE 'a$_b' ESCAPE '$' ORDER BY id;

-- ILIKE
SELECT id, s FROM kinds WHERE s ILIKE 'ZZ' OR s ILIKE 'Ä' ORDER BY id;

-- regular expressions
SELECT seq, message FROM log WHERE regexp_matches(message, 'n=[12] took \d*[16]ms') ORDER BY seq;

-- SIMILAR TO and ~
SELECT count(*) FILTER (WHERE message SIMILAR TO 'GET /(a|b).*') AS a, count(*) FILTER (WHERE message ~ 'GET /c.*') AS b FROM log;

-- starts with, contains, suffix
SELECT seq FROM log WHERE starts_with(message, 'GET /a') AND contains(message, 'n=2') AND suffix(message, 'ms') ORDER BY seq;

-- the empty string is not NULL
SELECT count(*) FILTER (WHERE s = '') AS empty, count(*) FILTER (WHERE s IS NULL) AS nothing, count(*) FILTER (WHERE s <> '') AS some FROM kinds;

-- the word NULL is not NULL
SELECT id FROM kinds WHERE s = 'NULL' ORDER BY id;

-- a quote within
SELECT id, s FROM kinds WHERE s = 'it''s' ORDER BY id;

-- GLOB
SELECT DISTINCT host FROM cpu WHERE host GLOB 'h[0-2]' ORDER BY host;
