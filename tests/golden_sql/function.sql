-- Functions on numbers and text.

-- rounding
SELECT DISTINCT usage AS u, round(u) AS a, floor(u) AS b, ceil(u) AS c, trunc(u) AS d, round(u, -1) AS e FROM cpu WHERE host = 'h1' ORDER BY u;

-- roots and logarithms
SELECT time, sqrt(abs(v)) AS a, exp(v) AS b, ln(v + 2) AS c, power(v, 2) AS d, sign(v) AS e FROM single ORDER BY time;

-- text
SELECT DISTINCT host, reverse(host) AS a, lpad(host, 5, '*') AS b, repeat(host, 2) AS c, replace(host, 'h', 'x') AS d, position('1' IN host) AS e FROM cpu ORDER BY host;

-- splitting
SELECT seq, split_part(message, ' ', 2) AS a, string_split(message, ' ') AS b, message[1:3] AS c FROM log WHERE seq < 10 ORDER BY seq;

-- format
SELECT host, printf('%s: %.1f', host, max(usage)) AS a, format('{}-{}', host, count(*)) AS b FROM cpu GROUP BY host ORDER BY host;

-- chained calls
SELECT DISTINCT host.upper().lower() AS h FROM cpu ORDER BY h;

-- conditions as values
SELECT id, if(b, 'yes', 'no') AS a, b IS TRUE AS c, b IS NOT FALSE AS d, NOT b AS e, b = up AS f FROM kinds ORDER BY id;

-- bits
SELECT id, i & 255 AS a, l | 1 AS b, xor(i, 3) AS c, i >> 1 AS d FROM kinds WHERE i >= 0 AND l >= 0 ORDER BY id;

-- numbers as text
SELECT id, format('{:,}', i) AS a, to_base(abs(l), 16) AS b FROM kinds WHERE i IS NOT NULL AND l > -100 ORDER BY id;

-- widths
SELECT width_bucket, count(*) AS n FROM (SELECT least(floor(usage / 25)::INT, 3) AS width_bucket FROM cpu) GROUP BY ALL ORDER BY ALL;

-- dates by parts
SELECT id, year(day) AS y, month(day) AS m, last_day(day) AS l, quarter(day) AS q, make_date(2024, 1, 1) < day AS n FROM kinds ORDER BY id;

-- formats of time
SELECT DISTINCT strftime(time, '%d.%m.%Y %H:%M:%S') AS a, strptime('2024-03-31', '%Y-%m-%d') AS b FROM cpu WHERE host = 'h2' ORDER BY a LIMIT 5;
