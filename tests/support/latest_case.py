"""Random histories for live LATEST JOINs: two tables, groups of commits, and queries that follow them in every way there is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import tsdb
from support.latest_model import Key, Model, ModelTable, Row, comparable
from support.quiet import without_background
from tsdb.stream.live import LiveQuery

_ON = {"enable_streaming_join_key_domain_pushdown": True}
#: Columns of keys: left, right.
KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "tag": (("k", "ki"),),
    "field": (("ki", "ki"),),
    "text": (("s", "s"),),
    "composite": (("k", "ki"), ("s", "s")),
    "float": (("d", "d"),),
    "unequal": (("k", "i4"),),
    "time": (("time", "t"),),
}
#: Left columns of keys where DuckDB computes the left side.
_COMPUTED = {
    "k": "k + 0 AS k", "ki": "ki + 0 AS ki", "s": "s || '' AS s", "d": "d * 1.0 AS d", "time": "time",
}  # fmt: skip
#: Keys for which the pushdown is declined.
DECLINED = frozenset({"float", "unequal"})
_FLOATS = (0.0, -0.0, float("nan"), 1.5, None)
_SENTINEL = -1


@dataclass(frozen=True)
class Shape:
    """What one case is: its query, and the tables' modes."""

    keys: str
    kind: str
    left_mode: str
    right_mode: str
    where: bool
    renamed: bool
    bounded_right: bool
    seek: str
    shards: str
    asof: str
    #: What of the left side is computed: nothing, the keys too, or all but these.
    computed: str

    @property
    def is_declined(self) -> bool:
        """Whether left history is not read through keys, whatever the settings."""
        computes = self.computed == "keys" and self.keys != "time"
        return self.kind == "LEFT" or self.keys in DECLINED or computes

    @property
    def sql(self) -> str:
        """The query."""
        pairs = KEYS[self.keys]
        right_name = "table(m)" if self.bounded_right else "m"
        right = f"{right_name} AS m"
        names = {column: column for _, column in pairs}
        if self.where or self.renamed:
            if self.renamed:
                names = {column: f"{column}_" for column in names}
            listed = ", ".join([*(f"{column} AS {name}" for column, name in names.items()), *(["t"] if "t" not in names else [])])
            right = f"(SELECT {listed}, r FROM {right_name}{' WHERE flag = 1' if self.where else ''}) AS m"
        on = " AND ".join(f"f.{left} = m.{names[column]}" for left, column in pairs)
        left_side = "f"
        if self.computed:
            items = ("v + 0 AS v", *(_COMPUTED[left] if self.computed == "keys" else left for left, _ in pairs))
            left_side = f"(SELECT {', '.join(dict.fromkeys((*items, 'time')))} FROM f WHERE v + 1 > 0) AS f"
        if self.asof:
            return f"SELECT f.v, m.r FROM {left_side} ASOF {self.kind} JOIN {right} ON {on} AND f.time {self.asof} m.t"
        return f"SELECT f.v, m.r FROM {left_side} {self.kind} LATEST JOIN {right} ON {on}"


def random_shape(rng: random.Random) -> Shape:
    """A shape; most are plain."""
    made = _any_shape(rng)
    return replace(made, asof="") if made.keys == "time" else made


def _any_shape(rng: random.Random) -> Shape:
    return Shape(
        rng.choice([*KEYS, "tag", "field", "composite"]),
        rng.choice(("INNER", "INNER", "LEFT")),
        rng.choice(("append", "append", "append", "table", "versioned_kv")),
        rng.choice(("append", "append", "table", "versioned_kv")),
        rng.random() < 0.3,
        rng.random() < 0.3,
        rng.random() < 0.1,
        rng.choice(("earliest", "earliest", "earliest", "latest")),
        rng.choice(("", "k", "hash(k)", "ki", "s", "k, s", "k % 3")),
        rng.choice(("", "", "", ">=", ">")),
        rng.choice(("", "", "", "", "", "", "keys", "others")),
    )


class LatestCase:
    """One database with its model, and the queries that follow it."""

    def __init__(self, path: Path, rng: random.Random, shape: Shape) -> None:
        self.rng = rng
        self.shape = shape
        self.database = without_background(tsdb.open(path, durability="off", threads=2))
        page = rng.choice((4, 8192))
        left = "time TIMESTAMP_NS TIME, k INT64 TAG, ki INT64, s STRING, d DOUBLE, i4 INT32, v INT64"
        right = "time TIMESTAMP_NS TIME, id INT64 TAG, ki INT64, s STRING, d DOUBLE, i4 INT32, t TIMESTAMP_NS, flag INT64, r INT64"
        for name, columns, mode, tag in (("f", left, shape.left_mode, "k"), ("m", right, shape.right_mode, "id")):
            what = "TABLE" if mode == "table" else "STREAM"
            key = f" PRIMARY KEY ({tag})" if mode == "versioned_kv" else ""
            spread = "k" if mode == "table" and shape.shards else shape.shards
            shards = f" SHARDS {rng.randint(2, 5)} BY ({spread})" if name == "f" and spread else ""
            self.database.sql(f"CREATE {what} {name} ({columns}){key}{shards} WITH (mode = '{mode}', page_rows = {page})")
        pairs = KEYS[shape.keys]
        self.model = Model(
            ModelTable(shape.left_mode),
            ModelTable(shape.right_mode),
            lambda row: _key(row, [left for left, _ in pairs]),
            lambda row: _key(row, [right for _, right in pairs]),
            lambda row: not shape.where or row.values["flag"] == 1,
            shape.kind,
            not shape.bounded_right,
        )
        if shape.asof:
            inclusive = shape.asof == ">="
            self.model.fits = lambda row, other: other.values["t"] < row.time + inclusive
            self.model.order = lambda row: row.values["t"]
            self.model.keep = rng.choice((0, 0, 1, 3))
        self.count = 0
        #: Of each left row that was ever written, by its number: tag, time and commit.
        self.places: dict[int, tuple[int, int, int]] = {}
        self.deleted = self.ever_deleted = False
        self.keys_max = rng.choice((2, 4, 12))
        self._write("m", [self._sentinel("m")])

    # ------------------------------------------------------------------------------------------------ commits

    def _sentinel(self, table: str) -> dict[str, Any]:
        self.count += 1
        row = {"time": self.count, "ki": _SENTINEL, "s": "~", "d": -1.0, "i4": _SENTINEL}
        if table == "f":
            time = _SENTINEL if self.shape.keys == "time" else self.count
            return {**row, "time": time, "k": _SENTINEL, "v": self.count}
        return {**row, "id": _SENTINEL, "t": _SENTINEL, "flag": 1, "r": self.count}

    def _row(self, table: str) -> dict[str, Any]:
        rng = self.rng
        self.count += 1

        def number() -> int:
            return min(int(rng.expovariate(0.5)), self.keys_max)

        row: dict[str, Any] = {"time": rng.randrange(12), "s": rng.choice(("", "a", "b", "bb")), "d": rng.choice(_FLOATS)}
        row |= {"ki": number(), "i4": number()}
        for name in ("ki", "s", "i4"):
            if rng.random() < 0.05:
                row[name] = None
        if table == "f":
            return {**row, "k": number(), "v": self.count}
        return {**row, "id": rng.randrange(6), "t": rng.randrange(12), "flag": int(rng.random() < 0.7), "r": self.count}

    def _write(self, table: str, rows: list[dict[str, Any]]) -> None:
        model = self.model.left if table == "f" else self.model.right
        tag = "k" if table == "f" else "id"
        if model.mode == "table":  # one row of each identity a commit
            rows = list({(row[tag], row["time"]): row for row in rows}.values())
        elif model.mode == "versioned_kv":
            rows = list({row[tag]: row for row in rows}.values())
        self.database.write(table, {name: [row[name] for row in rows] for name in rows[0]})
        sequence = self.newest
        model.write([Row(sequence, row["time"], row[tag], {**row}) for row in rows])
        if table == "f":
            self.places |= {row["v"]: (row[tag], row["time"], sequence) for row in rows}

    @property
    def resumable(self) -> bool:
        """Whether what both sides held at any commit can be told afterwards."""
        shape = self.shape
        return shape.right_mode == "append" and shape.left_mode != "table" and not self.ever_deleted and not shape.bounded_right

    @property
    def newest(self) -> int:
        """The number of the newest commit."""
        store = self.database._store
        assert store is not None
        return store.newest()

    def commit(self) -> None:
        """Something happens."""
        rng = self.rng
        match rng.choices(("f", "m", "delete m", "delete f", "flush", "compact"), (8, 6, 2, 0.5, 1, 0.3))[0]:
            case "flush" | "compact" if self.deleted:  # then it is not known when that was, as ``test_latest_delete`` tests
                pass
            case "flush":
                self.database.flush()
            case "compact":
                self.database.compact()
            case "delete m":
                self.deleted = self.ever_deleted = True
                self._delete("m", "id")
            case "delete f":
                self.ever_deleted = True
                self._delete("f", "k")
            case table:
                self._write(table, [self._row(table) for _ in range(rng.randint(1, 6))])

    def _delete(self, table: str, tag: str) -> None:
        rng = self.rng
        chosen, low = rng.randrange(6), rng.randrange(12)
        model = self.model.left if table == "f" else self.model.right
        if rng.random() < 0.5:
            self.database.sql(f"DELETE FROM {table} WHERE {tag} = {chosen}")
            covers = lambda row: row.tag == chosen  # noqa: E731
        else:
            condition = f"{tag} >= 0 AND time >= make_timestamp_ns({low}) AND time <= make_timestamp_ns({low + 3})"
            self.database.sql(f"DELETE FROM {table} WHERE {condition}")
            covers = lambda row: row.tag >= 0 and low <= row.time <= low + 3  # noqa: E731
        if model.mode == "versioned_kv":  # what is deleted goes with all its versions
            gone = {row.tag for row in model.shown() if covers(row)}
            covers = lambda row: row.tag in gone  # noqa: E731
        model.delete(self.newest, covers)

    def group(self) -> int:
        """Some commits, and a left row by which each query knows that it has seen them; its number."""
        self.deleted = False
        for _ in range(self.rng.randint(0, 5)):
            self.commit()
        sentinel = self._sentinel("f")
        self._write("f", [sentinel])
        return int(sentinel["v"])

    # ------------------------------------------------------------------------------------------------ queries

    def variants(self) -> dict[str, dict[str, Any]]:
        """Settings by what they are called; 'off' is the plain plan."""
        rng = self.rng
        return {
            "off": {"threads": rng.choice((1, 3))},
            "on": {**_ON, "stream_batch_rows": rng.choice((1, 3, 1000))},
            "set": {**_ON, "streaming_join_key_domain_pushdown_disjunctive_filter_max_rows": 0, "threads": 4},
            "capped": {**_ON, "streaming_join_key_domain_pushdown_max_rows": rng.randint(0, 6)},
            "bytes": {**_ON, "streaming_join_key_domain_pushdown_max_bytes": rng.randint(1, 60)},
            "bloom": {
                **_ON, "streaming_join_key_domain_pushdown_max_rows": 0, "enable_streaming_join_key_domain_bloom_filter": True,
            },
            "shards": {**_ON, "enable_streaming_join_key_domain_shard_pruning": True, "enable_streaming_join_asof_bound": True},
            "reused": {**_ON, "enable_streaming_join_snapshot_reuse": True},
            "resumed": {**_ON, "stream_batch_rows": 2},
            "reused again": {"enable_streaming_join_snapshot_reuse": True},
        }  # fmt: skip

    def expected_start(self) -> list[tuple[Any, Any]]:
        """What comes first: the history; the model is at the newest commit then."""
        return _values(self.model.start(self.newest, history=self.shape.seek == "earliest"))

    def expected(self) -> list[tuple[Any, Any]]:
        """What the commits since gave."""
        return _values(self.model.go_on(self.newest))

    def expected_bounded(self) -> list[tuple[Any, Any]]:
        """What a query of everything that is there now gives."""
        model = replace(self.model)
        return _values(model.start(self.newest, history=True, versions=False))

    def follow(self, settings: dict[str, Any]) -> Following:
        """A query from now on."""
        settings = {"seek_to": self.shape.seek, "keep_versions": self.model.keep, **settings}
        return Following(lambda token: self.database.stream(self.shape.sql, settings=settings, resume=token))

    def ordered(self, rows: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Rows in their order, left rows that are alike in tag, time and commit by their numbers: shards may part these."""
        made: list[tuple[Any, Any]] = []
        for _, alike in groupby(rows, key=lambda row: self.places[row[0]]):
            made += sorted(alike, key=lambda row: row[0])
        return made


class Following:
    """One live query, and what it has given."""

    def __init__(self, start: Callable[[str | None], LiveQuery]) -> None:
        self._start = start
        self.query = start(None)
        self.rows: list[tuple[Any, Any]] = []

    def go_on(self) -> None:
        """End the query, and start another where it was."""
        token = self.query.token
        self.query.close()
        self.query = self._start(token)

    def until(self, sentinel: int, *, going_on: bool = False) -> None:
        """Take batches until a left row has come; ``going_on``: each from a query of its own."""
        while not any(row[0] == sentinel for row in self.rows):
            self.rows += next(self.query).fetchall()
            if going_on:
                self.go_on()


def _values(joined: list[tuple[Row, Row | None]]) -> list[tuple[Any, Any]]:
    return [(left.values["v"], None if right is None else right.values["r"]) for left, right in joined]


def _key(row: Row, names: list[str]) -> Key | None:
    values = tuple(comparable(row.values[name]) for name in names)
    return None if None in values else values
