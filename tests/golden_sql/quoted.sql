-- Names that need quotes, and names in any case.

-- all of it
SELECT * FROM "Größe der Welt" ORDER BY "Zeit punkt";

-- columns
SELECT "select", "Größe", "温度", "it's" FROM "Größe der Welt" WHERE "温度" > 500 ORDER BY "Zeit punkt";

-- newest
SELECT "Zeit punkt", "a.b" FROM "Größe der Welt" ORDER BY "Zeit punkt" DESC LIMIT 4;

-- groups
SELECT "select", count(*) AS "Anzahl", sum("温度") AS "Σ", avg("Größe") FROM "Größe der Welt" GROUP BY "select" ORDER BY "select";

-- the names of aggregates
SELECT max("Größe"), min("a.b"), count("it's") FROM "Größe der Welt";

-- buckets
SELECT time_bucket(INTERVAL '2 seconds', "Zeit punkt") AS "Eimer", max("温度") FROM "Größe der Welt" GROUP BY "Eimer" ORDER BY "Eimer";

-- the last of each
SELECT DISTINCT ON ("select") "select", "Zeit punkt", "Größe" FROM "Größe der Welt" ORDER BY "select", "Zeit punkt" DESC;

-- an alias of the table
SELECT w."Größe" * 2 AS "doppelt so groß" FROM "Größe der Welt" w WHERE w."it's" ORDER BY w."Zeit punkt";

-- any case
SELECT HOST, Max(USAGE) AS "Top" FROM CPU GROUP BY Host ORDER BY hOST;

-- quotes that were not needed
SELECT "host", "cpu"."usage" FROM "cpu" WHERE "region" = 'ap' ORDER BY "time";

-- a quote in a name
SELECT host AS "a""b", count(*) AS " " FROM mem GROUP BY host ORDER BY host;

-- a keyword as an alias
SELECT host AS "from", max(time) AS "order" FROM cpu GROUP BY "from" ORDER BY "order" DESC, "from";

-- joined
SELECT w."温度", k.id FROM "Größe der Welt" w JOIN kinds k ON w."温度" = k.id ORDER BY ALL;
