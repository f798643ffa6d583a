-- Every type: out as it went in, cast, compared.

-- everything
SELECT * FROM kinds ORDER BY id;

-- everything, newest
SELECT * FROM kinds ORDER BY time DESC, host, slot, up LIMIT 11;

-- casts to text
SELECT id, b::VARCHAR, i::VARCHAR, f::VARCHAR, d::VARCHAR, day::VARCHAR, raw::VARCHAR, vec::VARCHAR FROM kinds ORDER BY id;

-- casts between numbers
SELECT id, d::FLOAT AS a, f::DOUBLE AS b, i::DOUBLE AS c, i::BIGINT AS d, b::INT AS e, slot::UTINYINT IS NULL AS f FROM kinds WHERE slot IS NULL OR slot >= 0 ORDER BY id;

-- try_cast
SELECT id, try_cast(s AS INT) AS a, try_cast(l AS INT) AS b, try_cast(d AS TINYINT) AS c FROM kinds ORDER BY id;

-- decimals
SELECT id, i::DECIMAL(12, 2) / 4 AS a, round(d::DECIMAL(30, 4), 2) AS b FROM kinds ORDER BY id;

-- times of all units compare
SELECT id, ts < tm AS a, tm < tu AS b, tu = ts AS c, tn > tu AS d FROM kinds ORDER BY id;

-- a date and a time
SELECT id, day, day = ts AS a, ts::DATE AS b, tn::DATE AS c, day::TIMESTAMP AS d FROM kinds ORDER BY id;

-- time of day
SELECT id, tu::TIME AS a, ts::TIME AS b, tm::TIME AS c FROM kinds ORDER BY id;

-- bytes
SELECT id, raw, octet_length(raw) AS n, hex(raw) AS h, raw = '\x00\xFF'::BLOB AS e FROM kinds ORDER BY id;

-- bytes in order
SELECT DISTINCT raw FROM kinds WHERE raw > ''::BLOB ORDER BY raw;

-- booleans
SELECT id FROM kinds WHERE b AND up IS NOT TRUE ORDER BY id;

-- tags of several types
SELECT id FROM kinds WHERE slot = -2 OR (slot IS NULL AND up) ORDER BY id;

-- vectors that are equal
SELECT id FROM kinds WHERE vec = [0, 1]::FLOAT[2] ORDER BY id;

-- a hash of each
SELECT id, hash(host, slot, up) AS a, md5(s) AS b FROM kinds ORDER BY id;

-- an enum
SELECT host::ENUM ('h0', 'h1', 'h2', 'h3', 'h4', 'h5') AS e, count(*) AS n FROM cpu GROUP BY e ORDER BY e;

-- UUID and bits
SELECT id, bin(i) AS a, bit_count(l) AS b FROM kinds WHERE i >= 0 ORDER BY id;
