"""Tables of every column type from a seed: commits that overlap, with NULLs, ties, odd floats and the ends of the integers."""

from __future__ import annotations

import functools
import math
from random import Random
from typing import Any

from support.oracle import TableCase, nan_with
from support.snapshots import Row, make_schema, tag_order
from tsdb_format.schema import Schema
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

TIME_TYPES = (TIMESTAMP_NS, TIMESTAMP_US, TIMESTAMP_MS, TIMESTAMP_S)
#: The second from which times count: 2024-02-28 23:59:57, so that small steps cross a day that is no month's last.
EPOCH_S = 1_709_164_797
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

HOSTS = (None, "", "null", "a", "b", "ab", "ä", "a host name of more than sixteen bytes", "a host name of more than sixteen bytez")
USAGES = (None, 0.0, 1.5, -1.5, 90.25, 12.0, 12.25, 99.5, -40.0)
ODDS = (None, 0.0, -0.0, math.inf, -math.inf, math.nan, nan_with(77), 1e-300, -1e300, 0.1, 1 / 3, 5e-324, 2.0**53)
SMALLS = (None, 0.5, -0.25, 3.0, math.nan, math.inf, -0.0, 16777216.0)
COUNTS = (None, 0, 1, -1, 7, 5, 2**53 + 1, INT64_MAX, INT64_MIN)
LEVELS = (None, 0, 1, 2, -3, 2**31 - 1, -(2**31))
NOTES = (
    None,
    "",
    "x",
    "X",
    "null",
    "y%",
    "_",
    "a longer note than sixteen bytes",
    "a longer note than sixteen bytez",
    "Ünï",
    "it's",
)
DAYS = (None, 0, 19_781, 19_782, 19_783, -1)
RAWS = (None, b"", b"\x00", b"\xff\x00", b"abc", b"abd")
VECTORS = (None, [0.0, 1.0], [0.0, 1.5], [-1.0, 2.0], [math.inf, 0.0])


#: Which columns name a device, and which are one value per device; all others are fields. Queries mean the same whichever it is.
ROLES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("host", "slot"), ()), (("host", "slot"), ()), ((), ()), (("host", "count", "up"), ()),
    (("host",), ("note", "level", "slot")), (("note", "slot", "host"), ("usage", "day", "seen", "up", "raw")),
)  # fmt: skip


def schema_of(time: ColumnType, seen: ColumnType, tags: tuple[str, ...], attributes: tuple[str, ...]) -> Schema:
    """A table with a column of every type."""
    kinds = {
        "host": STRING, "slot": INT32, "usage": DOUBLE, "odd": DOUBLE, "small": FLOAT, "count": INT64, "level": INT32,
        "note": STRING, "up": BOOLEAN, "day": DATE, "seen": seen, "raw": BLOB, "vec": ColumnType(Kind.VECTOR, 2),
    }  # fmt: skip
    roles = {**dict.fromkeys(tags, Role.TAG), **dict.fromkeys(attributes, Role.ATTRIBUTE)}
    others = ((name, kind, roles.get(name, Role.FIELD)) for name, kind in kinds.items())
    return make_schema(("time", time, Role.TIME), *others)


def ticks(seconds: float, kind: ColumnType) -> int:
    """A moment some seconds after the epoch of these tables, in the type's unit."""
    return (EPOCH_S + math.floor(seconds)) * kind.units_per_second + math.floor((seconds % 1) * kind.units_per_second)


@functools.lru_cache(maxsize=64)
def random_tables(seed: int) -> tuple[TableCase, ...]:
    """Three tables: ``t`` with overlaid rows, ``s`` that appends, ``d`` small, for joins. ``seed % 4`` is the unit of time."""
    random = Random(seed)
    time, seen = TIME_TYPES[seed % 4], TIME_TYPES[random.randrange(4)]
    schema = schema_of(time, seen, *random.choice(ROLES))
    extremes, big = has_extremes(seed), seed % 5 == 4
    options = random.choice(["", "", ", file_rows = 20"] if extremes or big else ["", ", file_rows = 20", ", partition = '10s'"])
    commits = _commits(random, schema, extremes, 5_000 if big else random.choice([12, 40, 150]), 2 if big else 5)
    appended = [_distinct(schema, commit) for commit in _commits(random, schema, extremes, 60, 3)]
    dimension = make_schema(
        ("time", time, Role.TIME), ("host", STRING, Role.TAG), ("region", STRING, Role.FIELD), ("weight", INT64, Role.FIELD)
    )
    rows: list[Row] = [
        {"time": ticks(step, time), "host": host, "region": random.choice(("north", "south", None)), "weight": random.randrange(5)}
        for host in (None, "a", "b", "ä", "elsewhere")
        for step in (0, 3)
    ]
    return (
        TableCase("t", schema, commits, options=options),
        TableCase("s", schema, appended, mode="append", options=options),
        TableCase("d", dimension, [rows, rows[:4]]),
    )


def has_extremes(seed: int) -> bool:
    """Whether the times of ``random_tables(seed)`` reach the ends of int64, where arithmetic on them fails."""
    return seed % 3 == 0


def _distinct(schema: Schema, rows: list[Row]) -> list[Row]:
    """One row per tags and time: what one commit appends to one instant has no order that SQL could ask for."""
    device = tag_order(schema)
    return list({(device(row), row["time"]): row for row in rows}.values())


def _commits(random: Random, schema: Schema, extremes: bool, rows: int, count: int) -> list[list[Row]]:
    return [_commit(random, schema, extremes, random.randrange(1, rows + 1)) for _ in range(random.randrange(1, count + 1))]


def _commit(random: Random, schema: Schema, extremes: bool, rows: int) -> list[Row]:
    """Rows of few devices at few instants; sometimes of some columns only."""
    time, seen = schema.time.type, schema.column("seen").type
    hosts = random.sample(HOSTS, random.randrange(1, len(HOSTS)))
    span = random.choice([3, 20, rows // 3 + 1])
    step = random.choice([1, 0.25, 0.001]) if time.units_per_second > 1 else 1
    others = [c.name for c in schema if c.role in (Role.FIELD, Role.ATTRIBUTE)]
    given = {tag.name for tag in schema.tags} | set(others if random.random() < 0.7 else random.sample(others, 5))
    made = []
    for _ in range(rows):
        at = ticks(random.randrange(-3, span) * step, time)
        if extremes and random.random() < 0.05:
            at = random.choice([INT64_MIN + 1, INT64_MIN + 2, INT64_MAX, INT64_MAX - 1, 0, -1])
        values: dict[str, Any] = {
            "host": random.choice(hosts), "slot": random.choice((None, 0, 1, 2)), "usage": random.choice(USAGES),
            "odd": random.choice(ODDS), "small": random.choice(SMALLS),
            "count": random.choice(COUNTS), "level": random.choice(LEVELS), "note": random.choice(NOTES),
            "up": random.choice((None, True, False)), "day": random.choice(DAYS),
            "seen": random.choice((None, 0, ticks(1.5, seen), ticks(2, seen), ticks(3.75, seen))),
            "raw": random.choice(RAWS), "vec": random.choice(VECTORS),
        }  # fmt: skip
        made.append({"time": at, **{name: value for name, value in values.items() if name in given}})
    return made
