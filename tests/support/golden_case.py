"""Golden SQL: files of queries over a fixed set of tables, which tsdb answers as DuckDB does over a copy.

A file (``tests/golden_sql/*.sql``) is a series of queries, each ended by a semicolon and named by a comment before it. A comment
that is the word ``DuckDB`` alone says that the next query is how DuckDB is asked the last one; ``-- zeros`` after the name says
that −0.0 and 0.0 may stand for each other. An ORDER BY at the end of a query must be total: rows are then compared in order.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.oracle import Flushed, Oracle, Question, TableCase, nan_with
from support.snapshots import Row, make_schema
from tsdb_format.types import (
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    STRING,
    TIMESTAMP_MS,
    TIMESTAMP_NS,
    TIMESTAMP_S,
    TIMESTAMP_US,
    ColumnType,
    Kind,
    Role,
)

FOLDER = Path(__file__).resolve().parent.parent / "golden_sql"
#: Where rows are when queries are asked; each table but the smallest is written in three commits or more.
PLACES: dict[str, Flushed] = {
    "files": lambda at, number: True,
    "memory": lambda at, number: False,
    "both": lambda at, number: number == 0,
}
#: What every query is asked under.
SETTINGS: dict[str, dict[str, object]] = {
    "filter": {"threads": 1},
    "no operators of ours": {"threads": 1, "enable_native_operators": False},
}
#: 2024-03-30 22:00 UTC: clocks in Berlin go forward three hours later, and the month ends a day after that.
START_S = 1_711_836_000
_QUARTER_S = 900
#: What happens to table ``changed`` after its rows were written: to whole hosts, to times, to values, and to columns.
_CHANGES = (
    "DELETE FROM changed WHERE host = 'h1' AND time < '2024-03-30 22:20:00'",
    "DELETE FROM changed WHERE time BETWEEN '2024-03-30 22:30:00' AND '2024-03-30 22:34:00'",
    "DELETE FROM changed WHERE a = 7",
    "INSERT INTO changed (time, host, a, b, s) VALUES ('2024-03-30 22:05:00', 'h1', 1000, 5, 'back')",
    "INSERT INTO changed (time, host, a, s) VALUES ('2024-03-30 22:31:00', 'h2', -1000, 'again')",
    "DELETE FROM changed WHERE host = 'h3'",
    "ALTER TABLE changed ADD COLUMN c DOUBLE",
    "ALTER TABLE changed DROP COLUMN s",
    "INSERT INTO changed (time, host, a, b, c) VALUES ('2024-03-31 00:00:00', 'h0', 1, 2, 0.5)",
    "INSERT INTO changed (time, host, b, c) VALUES ('2024-03-31 00:01:00', 'h4', 3, 1.5)",
    "ALTER TABLE changed ADD COLUMN s INT64",
    "INSERT INTO changed (time, host, c, s) VALUES ('2024-03-31 00:02:00', 'h4', 2.5, 9)",
    "DELETE FROM changed WHERE b = 2",
)


@dataclass(frozen=True)
class Script:
    """One query of a file."""

    path: Path
    line: int
    name: str
    question: Question

    @property
    def place(self) -> str:
        """File, line and name."""
        return f"{self.path.name}:{self.line}: {self.name}"


def read_scripts(path: Path) -> Iterator[Script]:
    """The queries of a file, in order."""
    made: Script | None = None
    comments: list[str] = []
    lines: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("--") or not line.strip():
            comments += [line.removeprefix("--").strip()] if line.strip() else []
            continue
        lines.append(line)
        if not line.endswith(";"):
            continue
        text = "\n".join(lines)[:-1]
        if comments[-1:] == ["DuckDB"] and made is not None:
            question = Question(
                text=made.question.text, ordered=_is_ordered(text), zeros=made.question.zeros, close=True, theirs=text
            )
            made = Script(path, made.line, made.name, question)
        else:
            if made is not None:
                yield made
            zeros = comments[-1:] == ["zeros"]
            name = comments[-2 if zeros else -1] if len(comments) > zeros else ""
            made = Script(path, number - len(lines) + 1, name, Question(text, _is_ordered(text), zeros, close=True))
        comments, lines = [], []
    assert not lines, f"{path}: the last query has no end"
    if made is not None:
        yield made


def _is_ordered(text: str) -> bool:
    """Whether the query itself, not only a part in parentheses, has an ORDER BY."""
    flat = re.sub(r"'[^']*'", "''", text)
    while (shorter := re.sub(r"\([^()]*\)", "", flat)) != flat:
        flat = shorter
    return "ORDER BY" in flat.upper()


def build(folder: Path, place: str) -> Oracle:
    """The tables at two page sizes, with their rows in files, in memory or in both; changes to them may be flushed, too."""
    made = Oracle.build(folder, tables(), flushed=PLACES[place])
    for number, statement in enumerate(_CHANGES):
        made.duck.execute(statement)
        for at, database in enumerate(made.databases.values()):
            database.sql(statement)
            if PLACES[place](at, number):
                database.flush()
    return made


# -------------------------------------------------------------------------------------------------- tables


def tables() -> list[TableCase]:
    """The tables that every file asks; DuckDB gets the rows that a reader should see."""
    return [_cpu(), _mem(), _odd(), _kinds(), _empty(), _named(), _device(), _log(), _single(), _changed()]


def _ns(seconds: float) -> int:
    return (START_S + math.floor(seconds)) * 10**9 + round(seconds % 1 * 10**9)


def _cpu() -> TableCase:
    """Six hosts, one without a region, that report every half hour for 28 hours; later commits overlay and add."""
    schema = make_schema(
        ("time", TIMESTAMP_NS, Role.TIME), ("host", STRING, Role.TAG), ("region", STRING, Role.TAG), ("usage", DOUBLE, Role.FIELD),
        ("idle", DOUBLE, Role.FIELD), ("cores", INT32, Role.FIELD), ("requests", INT64, Role.FIELD), ("note", STRING, Role.FIELD),
    )  # fmt: skip
    regions = ("eu", "eu", "us", "us", "ap", None)

    def row(host: int, tick: int) -> Row:
        usage = (host * 7919 + tick * 104_729) % 1000 / 10
        return {
            "time": _ns(tick * 1800 + (1e-9 * (host + 1) if host in (2, 4) else 0)), "host": f"h{host}", "region": regions[host],
            "usage": None if (host + tick) % 11 == 0 else usage, "idle": 100 - usage,
            "cores": None if host == 5 else 2 ** (host % 4),
            "requests": tick * tick * (host + 1) - 100, "note": None if tick % 3 else f"note {(host * 5 + tick) % 7}",
        }  # fmt: skip

    first = [row(host, tick) for host in range(6) for tick in range(32)]
    second = [row(host, tick) for host in range(6) for tick in range(32, 50)]
    again = [
        {key: row(host, tick)[key] for key in ("time", "host", "region")} | {"usage": 99.5, "note": "again"}
        for host in (0, 3)
        for tick in range(28, 36)
    ]
    last = [row(host, tick) for host in range(5) for tick in range(50, 57)]
    return TableCase("cpu", schema, [first, second, again, last])


def _mem() -> TableCase:
    """Some of the hosts, every quarter of an hour, in microseconds; one host that is not in ``cpu``."""
    schema = make_schema(
        ("time", TIMESTAMP_US, Role.TIME), ("host", STRING, Role.TAG), ("used", INT64, Role.FIELD), ("free", FLOAT, Role.FIELD),
        ("swapping", BOOLEAN, Role.FIELD),
    )  # fmt: skip
    rows: list[Row] = [
        {
            "time": (START_S + tick * _QUARTER_S) * 10**6 + (7 if host == "h1" else 0), "host": host,
            "used": None if tick % 9 == 4 else (tick * 37 + number * 11) % 64 * 2**20, "free": (tick % 16) / 4,
            "swapping": None if tick % 5 == 0 else tick % 3 == 0,
        }
        for number, host in enumerate(("h0", "h1", "h3", "h9"))
        for tick in range(number, 40 - number * 5)
    ]  # fmt: skip
    return TableCase("mem", schema, [rows[0::3], rows[1::3], rows[2::3]])


def _odd() -> TableCase:
    """Sparse values: NULL, NaN, infinities, zeros of both signs, the ends of the integers."""
    schema = make_schema(
        ("time", TIMESTAMP_NS, Role.TIME), ("k", STRING, Role.TAG), ("id", INT64, Role.FIELD), ("d", DOUBLE, Role.FIELD),
        ("f", FLOAT, Role.FIELD), ("i", INT64, Role.FIELD), ("n", DOUBLE, Role.FIELD),
    )  # fmt: skip
    doubles = [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5, nan_with(77), 5e-324, 1e308, 0.1]
    floats = [None, -0.0, 0.5, math.nan, -math.inf, 16777216.0, 0.0]
    integers = [None, 0, 2**63 - 1, -(2**63), 2**53 + 1, 1, -1, 7]
    keys = ["a", "b", "", None, "nan", "zero"]
    rows: list[Row] = []
    for number in range(84):
        key = keys[number % 6]
        value = {"nan": math.nan, "zero": (0.0, -0.0)[number // 6 % 2]}.get(key or "", doubles[number * 5 % 12])
        rows.append({"time": _ns(number - 40), "k": key, "id": number, "d": value, "f": floats[number * 3 % 7],
                     "i": integers[number * 3 % 8], "n": None})  # fmt: skip
    return TableCase("odd", schema, [rows[:30], rows[30:60], rows[60:]])


def _kinds() -> TableCase:
    """A column of every type, and tags of several; ``id`` tells rows apart."""
    schema = make_schema(
        ("time", TIMESTAMP_NS, Role.TIME), ("host", STRING, Role.TAG), ("slot", INT32, Role.TAG), ("up", BOOLEAN, Role.TAG),
        ("id", INT64, Role.FIELD), ("b", BOOLEAN, Role.FIELD), ("i", INT32, Role.FIELD), ("l", INT64, Role.FIELD),
        ("f", FLOAT, Role.FIELD), ("d", DOUBLE, Role.FIELD), ("s", STRING, Role.FIELD), ("day", DATE, Role.FIELD),
        ("ts", TIMESTAMP_S, Role.FIELD), ("tm", TIMESTAMP_MS, Role.FIELD), ("tu", TIMESTAMP_US, Role.FIELD),
        ("tn", TIMESTAMP_NS, Role.FIELD), ("raw", BLOB, Role.FIELD), ("vec", ColumnType(Kind.VECTOR, 2), Role.FIELD),
    )  # fmt: skip
    texts = ["", "a", "ä", "Zz", "it's", "a%b", "a_b", "日本", "NULL", None]
    moments_s = [0, START_S, -1, 951_782_400, None]
    rows: list[Row] = []
    for number in range(60):
        second = moments_s[number % 5]
        rows.append({
            "time": [0, -1, 1, 10**18, _ns(number), _ns(number / 7)][number % 6] + number // 6 * 1000,
            "host": ["a", "b", None][number % 3], "slot": [1, None, -2, 2][number // 3 % 4],
            "up": [True, False, None][number // 12 % 3],
            "id": number, "b": [True, False, None][number % 3], "i": [0, 2**31 - 1, -(2**31), 5, None, -7, 12][number % 7],
            "l": [0, 2**53 + 1, -3, 9, None][number * 3 % 5], "f": [0.5, 0.1, None, -3.25][number % 4],
            "d": [0.1, 1 / 3, -2.5, None, 1e18][number * 2 % 5], "s": texts[number * 3 % 10],
            "day": [0, 19_782, -1, 19_812, None][number % 5], "ts": second,
            "tm": None if second is None else second * 1000 + number, "tu": None if second is None else second * 10**6 + 999_999,
            "tn": None if second is None else second * 10**9 + 123_456_789, "raw": [b"", b"\x00\xff", b"abc", None][number % 4],
            "vec": [[0.0, 1.0], [number / 2, -1.0], None][number % 3],
        })  # fmt: skip
    return TableCase("kinds", schema, [rows[:25], rows[25:45], rows[45:]])


def _empty() -> TableCase:
    """No rows at all."""
    schema = make_schema(
        ("time", TIMESTAMP_NS, Role.TIME), ("host", STRING, Role.TAG), ("x", DOUBLE, Role.FIELD), ("n", INT64, Role.FIELD)
    )
    return TableCase("empty", schema, [])


def _named() -> TableCase:
    """Names that must be quoted, and text of many scripts."""
    schema = make_schema(
        ("Zeit punkt", TIMESTAMP_MS, Role.TIME), ("select", STRING, Role.TAG), ("Größe", DOUBLE, Role.FIELD),
        ("温度", INT64, Role.FIELD), ("a.b", STRING, Role.FIELD), ("it's", BOOLEAN, Role.FIELD),
    )  # fmt: skip
    words = ["ß", "SS", "İ", "e\u0301", "é", "😀", "日本語", "שלום", " a ", "\t", "Ω", "ﬁ"]
    tags = itertools.cycle(["ä", "Ä", "z", "日本", None])
    rows: list[Row] = [
        {
            "Zeit punkt": START_S * 1000 + number * 250, "select": next(tags), "Größe": None if number % 8 == 7 else number / 4,
            "温度": number * number - 20, "a.b": None if number % 13 == 12 else words[number % 12], "it's": number % 3 == 0,
        }
        for number in range(40)
    ]  # fmt: skip
    return TableCase("Größe der Welt", schema, [rows[:13], rows[13:27], rows[27:]])


def _device() -> TableCase:
    """Attributes: one value per host, the last that was given."""
    schema = make_schema(
        ("time", TIMESTAMP_S, Role.TIME), ("host", STRING, Role.TAG), ("owner", STRING, Role.ATTRIBUTE),
        ("floor", INT32, Role.ATTRIBUTE), ("status", STRING, Role.FIELD), ("load", DOUBLE, Role.FIELD),
    )  # fmt: skip
    owners = ["ann", None, "bob", "ann", "Zoë", "bob", "cy"]

    def row(host: int, hour: int) -> Row:
        return {
            "time": START_S + hour * 3600, "host": f"h{host}", "owner": owners[host] if hour < 6 else None,
            "floor": host % 3 or None,
            "status": ["ok", "warn", None, "down"][(host + hour) % 4], "load": (host * 3 + hour) % 10 / 2,
        }  # fmt: skip

    first = [row(host, hour) for host in range(7) for hour in range(5)]
    second = [row(host, hour) for host in range(7) for hour in range(5, 9)]
    moved: list[Row] = [{"time": START_S + 9 * 3600, "host": "h2", "owner": "dee", "floor": 9, "status": "ok", "load": 0.0}]
    return TableCase("device", schema, [first, second, moved])


def _log() -> TableCase:
    """A table that appends: several rows for one host and instant."""
    schema = make_schema(
        ("time", TIMESTAMP_MS, Role.TIME), ("host", STRING, Role.TAG), ("seq", INT64, Role.FIELD), ("level", STRING, Role.FIELD),
        ("message", STRING, Role.FIELD), ("took", DOUBLE, Role.FIELD),
    )  # fmt: skip
    rows: list[Row] = [
        {
            "time": (START_S + seq // 8 * 60) * 1000 + seq % 2, "host": f"h{seq % 3}", "seq": seq,
            "level": ("info", "warn", "error", None)[seq * 7 % 11 % 4],
            "message": f"GET /{'abc'[seq % 3]}?n={seq % 5} took {seq}ms",
            "took": None if seq % 10 == 9 else seq * 13 % 50 / 8,
        }
        for seq in range(120)
    ]  # fmt: skip
    return TableCase("log", schema, [rows[:50], rows[50:90], rows[90:]], mode="append")


def _single() -> TableCase:
    """A table without tags: one device."""
    schema = make_schema(("time", TIMESTAMP_US, Role.TIME), ("v", DOUBLE, Role.FIELD), ("c", INT64, Role.FIELD))
    rows: list[Row] = [
        {"time": (START_S + number * 61) * 10**6, "v": None if number % 7 == 3 else math.sin(number) + 1.5, "c": number * 3}
        for number in range(64)
    ]
    return TableCase("single", schema, [rows[:30], rows[30:50], rows[50:]])


def _changed() -> TableCase:
    """Four hosts by the minute, of which some rows are deleted later."""
    schema = make_schema(
        ("time", TIMESTAMP_NS, Role.TIME), ("host", STRING, Role.TAG), ("a", DOUBLE, Role.FIELD), ("b", INT64, Role.FIELD),
        ("s", STRING, Role.FIELD),
    )  # fmt: skip
    rows: list[Row] = [
        {"time": _ns(minute * 60), "host": f"h{host}", "a": float((minute * 3 + host) % 17), "b": minute * host, "s": f"{minute}"}
        for host in range(4)
        for minute in range(60)
    ]
    return TableCase("changed", schema, [rows[0::2], rows[1::2]])
