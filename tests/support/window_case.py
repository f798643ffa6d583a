"""Live windows in steps: a consumer that takes what is there and never waits, and the windows of rows by a plain model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tsdb
from tsdb.stream.live import LiveQuery, result_of

#: (time in seconds, host, value)
Row = tuple[int, str, float]
#: (window start, window end, host) → values
Groups = dict[tuple[int, int, str], list[float]]


class Consumer:
    """Takes the batches of a live query that come without waiting."""

    def __init__(self, db: tsdb.Database, text: str, resume: str | None = None, **settings: object) -> None:
        self.db = db
        self.query: LiveQuery = db.stream(text, settings=settings, resume=resume)
        self._outputs = self.query._pipeline.outputs()
        self.token = self.query.token

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """The batches up to the newest commit; ``token`` is that after the last one that was taken."""
        while self._position() < self.db._opened().newest():
            made = next(self._outputs)
            self.token = self.query._here().token()
            if made:
                yield result_of(self.query._stage, made, self.query._settings).fetchall()

    def take(self) -> list[list[tuple[Any, ...]]]:
        """All of these."""
        return list(self.batches())

    def _position(self) -> int:
        position = self.query._pipeline._data.driver.position  # type: ignore[attr-defined]
        return -1 if position["bound"] is not None or position["place"] is not None else position["after"]

    def close(self) -> None:
        """End it."""
        self.query.close()


@dataclass
class Model:
    """What windows of rows a live query gives, one commit after the other."""

    size: int
    slide: int
    delay: int = 0
    lateness: int = 0
    seen: int | None = None
    late: int = 0
    kept: list[Row] = field(default_factory=list)
    _groups: dict[tuple[int, int], list[Row]] = field(default_factory=lambda: defaultdict(list))
    _changed: set[tuple[int, int]] = field(default_factory=set)

    def windows(self, time: int) -> list[tuple[int, int]]:
        """The windows that a time is in."""
        start = time // self.slide * self.slide
        found = []
        while start + self.size > time:
            found.append((start, start + self.size))
            start -= self.slide
        return found

    def commit(self, rows: Sequence[Row]) -> Groups:
        """The groups of the windows that are given after a commit of these rows."""
        gone = None if self.seen is None else self.seen - self.delay - self.lateness
        for row in rows:
            windows = self.windows(row[0])
            taken = [window for window in windows if gone is None or window[1] > gone]
            self.late += bool(windows) and not taken
            if taken:
                self.kept.append(row)
            for window in taken:
                self._groups[window].append(row)
                self._changed.add(window)
        if rows:
            self.seen = max(self.seen if self.seen is not None else rows[0][0], *(time for time, _, _ in rows))
        over = {window for window in self._changed if self.seen is not None and window[1] <= self.seen - self.delay}
        self._changed -= over
        return self.groups(over)

    def groups(self, windows: set[tuple[int, int]]) -> Groups:
        """Values by window and host."""
        made: Groups = defaultdict(list)
        for start, end in windows:
            for _, host, value in self._groups[start, end]:
                made[start, end, host].append(value)
        return dict(made)
