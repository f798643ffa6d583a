"""Random histories of a stream or table beside a live query, and what that has to give by a plain model.

The model holds rows as lists, and knows what a live query promises: the rows of its start in the order of storage, then those of
later commits by commit, each as it is when its window is read.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tsdb
from tsdb.stream.live import result_of

HOSTS = ("a", "b", "c", None)
#: What a live query of the tests shows of a row.
SHOWN = "host, time, v, w, _sn"
TABLES = {
    "append": "CREATE STREAM s (time TIMESTAMP TIME, host VARCHAR TAG, v BIGINT, w BIGINT) WITH (mode = 'append', page_rows = 4)",
    "sharded": "CREATE STREAM s (host VARCHAR, v BIGINT, w BIGINT, time TIMESTAMP TIME) PRIMARY KEY host SHARDS 3 BY (hash(host)) "
    "WITH (page_rows = 4)",
    "versioned_kv": "CREATE STREAM s (host VARCHAR, v BIGINT, w BIGINT, time TIMESTAMP TIME) PRIMARY KEY (host) "
    "WITH (mode = 'versioned_kv', page_rows = 4)",
    "table": "CREATE TABLE s (time TIMESTAMP TIME, host VARCHAR TAG, v BIGINT, w BIGINT) WITH (page_rows = 4)",
}
#: (host, time, v, w, sequence)
Row = tuple[Any, ...]


def storage_order(row: Row) -> tuple[Any, ...]:
    """NULL is the last of tags."""
    return (row[0] is None, row[0] or "", row[1], row[4])


def commit_order(row: Row) -> tuple[Any, ...]:
    return (row[4], row[0] is None, row[0] or "", row[1])


class Consumer:
    """Takes the batches of a live query that come without waiting; ``token`` is that after the last one that was taken."""

    def __init__(self, db: tsdb.Database, text: str, resume: str | None = None, **settings: object) -> None:
        self.db = db
        self.query = db.stream(text, settings=settings, resume=resume)
        self.token = self.query.token
        self._outputs = self.query._pipeline.outputs()

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """The batches up to the newest commit."""
        while not self._is_done():
            made = next(self._outputs)
            self.token = self.query._here().token()
            if made:
                yield result_of(self.query._stage, made, self.query._settings).fetchall()

    def _is_done(self) -> bool:
        position: Any = self.query._pipeline.position
        busy = position["bound"] is not None or position["place"] is not None
        return not busy and position["after"] >= self.db._opened().newest()

    def close(self) -> None:
        """End it."""
        self.query.close()


@dataclass
class StreamModel:
    """The rows of a table, in the order of their arrival."""

    mode: str
    rows: list[Row] = field(default_factory=list)

    def write(self, rows: list[tuple[Any, ...]], sequence: int) -> None:
        for host, time, v, w in rows:
            if self.mode == "table":
                old = next((row for row in self.rows if row[:2] == (host, time)), None)
                if old is not None:
                    self.rows.remove(old)
                    v, w = old[2] if v is None else v, old[3] if w is None else w
            self.rows.append((host, time, v, w, sequence))

    def delete(self, host: Any, low: int, high: int) -> None:
        if self.mode == "versioned_kv":
            newest = max((row for row in self.rows if row[0] == host), key=lambda row: (row[4], row[1]), default=None)
            gone = newest is not None and low <= newest[1] <= high
            self.rows = [row for row in self.rows if not (gone and row[0] == host)]
            return
        self.rows = [row for row in self.rows if not (row[0] == host and low <= row[1] <= high)]

    def history(self, bound: int, after: Row | None = None, count: int = 0) -> list[Row]:
        """Rows of commits up to ``bound``, after the ``count``-th row that is placed like ``after``."""
        return _after(sorted((row for row in self.rows if row[4] <= bound), key=storage_order), storage_order, after, count)

    def changes(self, first: int, after: Row | None = None, count: int = 0) -> list[Row]:
        """Rows of commits above ``first``."""
        return _after(sorted((row for row in self.rows if row[4] > first), key=commit_order), commit_order, after, count)


def _after(rows: list[Row], order: Any, after: Row | None, count: int) -> list[Row]:
    if after is None:
        return rows
    place = order(after)
    alike = [row for row in rows if order(row) == place]
    return alike[count:] + [row for row in rows if order(row) > place]


@dataclass
class Expected:
    """What one consumer is to be given: the model's side of a live query."""

    model: StreamModel
    bound: int
    pending: list[Row]
    in_history: bool
    last: Row | None = None
    count: int = 0
    resumes: bool = False

    @classmethod
    def start(cls, model: StreamModel, newest: int, earliest: bool) -> Expected:
        return cls(model, newest, model.history(newest) if earliest else [], earliest)

    def resumed(self) -> Expected:
        """As a consumer that goes on from here sees it: by the state of then."""
        history = self.in_history and (self.last is not None or self.count == 0)
        if history:
            return Expected(
                self.model, self.bound, self.model.history(self.bound, self.last, self.count), True, self.last, self.count
            )
        if self.last is None:
            return Expected(self.model, self.bound, [], False)
        return Expected(self.model, self.last[4] - 1, [], False, self.last, self.count, resumes=True)

    def take(self, batches: Iterator[list[tuple[Any, ...]]], newest: int, most: int | None) -> Iterator[None]:
        """Check some batches, or all up to the newest commit; yields after each."""
        for number, batch in enumerate(batches):
            for row in batch:
                if not self.pending and self.in_history:
                    self.in_history, self.last, self.count = False, None, 0
                if not self.pending:
                    after = (self.last, self.count) if self.resumes else (None, 0)
                    self.pending, self.bound, self.resumes = self.model.changes(self.bound, *after), newest, False
                assert self.pending, f"a row too many: {row}"
                wanted = self.pending.pop(0)
                assert tuple(row) == wanted, f"{row} came instead of {wanted}; then {self.pending[:5]}"
                same = self.last is not None and (self.last[:2], self.last[4]) == (wanted[:2], wanted[4])
                self.last, self.count = wanted, self.count + 1 if same else 1
            yield
            if most is not None and number + 1 >= most:
                return


class StreamCase:
    """One random history with a live query beside it."""

    def __init__(self, folder: Path, mode: str, seed: int, *, beside: bool = False) -> None:
        """``beside``: the live query belongs to a reader's handle, which follows the writer's as another process does."""
        self.random = random.Random(seed)
        self.path = folder / "db"
        self.threads = 1 + 2 * (seed % 2)
        self.db = tsdb.open(self.path, threads=self.threads)
        self.db.sql(TABLES[mode])
        self.beside = beside
        self.follower = self._open_follower()
        self.model = StreamModel("append" if mode == "sharded" else mode)
        self.earliest = False
        self.consumer, self.expected = self._begin()

    def _open_follower(self) -> tsdb.Database:
        return tsdb.open(self.path, mode="r", threads=self.threads) if self.beside else self.db

    def _begin(self) -> tuple[Consumer, Expected]:
        self.earliest = self.random.random() < 0.7
        newest = self.db._opened().newest()
        seek = "earliest" if self.earliest else "latest"
        made = Consumer(self.follower, f"SELECT {SHOWN} FROM s", seek_to=seek, stream_batch_rows=self.random.choice((1, 2, 3, 100)))
        return made, Expected.start(self.model, newest, self.earliest)

    def _resume(self) -> None:
        """Go on from the consumer's token, as another process would."""
        token = self.consumer.token
        self.consumer.close()
        rows = self.random.choice((1, 2, 3, 100))
        self.consumer = Consumer(self.follower, f"SELECT {SHOWN} FROM s", resume=token, stream_batch_rows=rows)
        self.expected = self.expected.resumed()

    def take(self, most: int | None) -> None:
        newest = self.db._opened().newest()
        for _ in self.expected.take(self._batches(), newest, most):
            pass
        if most is None:
            assert not self.expected.pending
            assert not self.model.changes(newest)

    def _batches(self) -> Iterator[list[tuple[Any, ...]]]:
        for batch in self.consumer.batches():
            yield [(row[0], _ticks(row[1]), *row[2:]) for row in batch]

    def step(self) -> None:
        roll = self.random.random()
        if roll < 0.45:
            rows = [self._row() for _ in range(self.random.choice((1, 1, 2, 5, 9)))]
            self.db.write("s", [{"host": h, "time": t, "v": v, "w": w} for h, t, v, w in rows])
            self.model.write(rows, self.db._opened().newest())
        elif roll < 0.55:
            host, low = self.random.choice(HOSTS), self.random.randrange(12)
            high = low + self.random.randrange(4)
            where = "host IS NULL" if host is None else f"host = '{host}'"
            between = f"time BETWEEN make_timestamp({low}) AND make_timestamp({high})"
            self.db.sql(f"DELETE FROM s WHERE {where} AND {between}")
            self.model.delete(host, low, high)
        elif roll < 0.63:
            self.db.flush()
        elif roll < 0.69:
            self.db.compact()
        elif roll < 0.74:
            token = self.consumer.token
            self.follower.close()
            self.db.close()
            self.db = tsdb.open(self.path, threads=self.threads)
            self.follower = self._open_follower()
            self.consumer.token = token
            self._resume()
        elif roll < 0.82:
            self._resume()
        elif roll < 0.84:
            self.take(None)
            self.consumer.close()
            self.consumer, self.expected = self._begin()
        else:
            self.take(self.random.choice((1, 2, None)))

    def _row(self) -> tuple[Any, ...]:
        values = [None if self.random.random() < 0.3 else self.random.randrange(100) for _ in range(2)]
        return self.random.choice(HOSTS), self.random.randrange(12), *values

    def finish(self) -> None:
        """Take what is left, and go through all of it once more."""
        self.take(None)
        self.consumer.close()
        self.follower.close()
        self.db.close()


def _ticks(value: datetime.datetime) -> int:
    """A time of these tests: so many microseconds."""
    return (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
