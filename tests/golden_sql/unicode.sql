-- Text of all scripts.

-- order is by code point
SELECT "a.b" FROM "Größe der Welt" WHERE "a.b" IS NOT NULL GROUP BY "a.b" ORDER BY "a.b";

-- composed and decomposed letters differ
SELECT count(*) FILTER (WHERE "a.b" = 'é') AS one, count(*) FILTER (WHERE nfc_normalize("a.b") = 'é') AS both FROM "Größe der Welt";

-- lengths
SELECT DISTINCT "a.b" AS t, length(t) AS points, strlen(t) AS bytes, length_grapheme(t) AS letters FROM "Größe der Welt" ORDER BY t;

-- case
SELECT DISTINCT "a.b" AS t, upper(t) AS u, lower(t) AS l FROM "Größe der Welt" ORDER BY t;

-- an emoji in a condition
SELECT "Zeit punkt" FROM "Größe der Welt" WHERE "a.b" = '😀' ORDER BY 1;

-- LIKE counts letters
SELECT DISTINCT "a.b" FROM "Größe der Welt" WHERE "a.b" LIKE '_' ORDER BY 1;

-- a tag in Japanese
SELECT "select", max("Größe") AS top FROM "Größe der Welt" WHERE "select" IN ('日本', 'ä') GROUP BY "select" ORDER BY "select";

-- umlauts are two tags
SELECT "select", count(*) AS n FROM "Größe der Welt" WHERE "select" ILIKE 'ä' GROUP BY "select" ORDER BY "select";

-- min and max of text
SELECT min("a.b") AS low, max("a.b") AS high, min("select") AS l, max("select") AS h FROM "Größe der Welt";

-- right to left, joined
SELECT string_agg("a.b", '|' ORDER BY "Zeit punkt") AS text FROM "Größe der Welt" WHERE "温度" < 200;

-- blanks stay
SELECT "Zeit punkt", '[' || "a.b" || ']' AS t FROM "Größe der Welt" WHERE trim("a.b") <> "a.b" ORDER BY 1;

-- substrings
SELECT DISTINCT left("a.b", 1) AS l, right("a.b", 1) AS r, reverse("a.b") AS v FROM "Größe der Welt" ORDER BY ALL;
