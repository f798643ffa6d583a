"""Windows over live rows: rows are held until their windows are over, and the query's text runs over those of whole windows.

The data comes from a pipeline of its own, whose feed makes its steps end where a window is over. After each step the windows that
are due are given, in one batch. Where the windows go by the table's own time, the watermark is that of all its rows, whatever the
data leaves out of them; else that of the rows that arrive.

A position is one before the first row that is held, with the watermark there: a query that is resumed takes these rows in again,
step by step as before, and gives nothing until it is where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tsdb.stream.window.emission import Emission
from tsdb.stream.window.held import HeldRows
from tsdb.stream.window.span import ticks

if TYPE_CHECKING:
    from tsdb.stream.pipeline import Stateless
    from tsdb.stream.stage import Stage
    from tsdb.stream.window.intake import Intake
    from tsdb.stream.window.paced import PacedFeed
    from tsdb.stream.window.reduction import Reduction
    from tsdb.stream.window.watermark import Watermark

#: The wall's clock in seconds, whose differences alone count. Tests set it.
wall_clock: Callable[[], float] = time.monotonic


class Windowed:
    """See ``Pipeline``."""

    def __init__(
        self,
        data: Stateless,
        feed: PacedFeed,
        watermark: Watermark,
        intake: Intake,
        stage: Stage,
        reduction: Reduction | None,
        emission: Emission,
        idle: float | None,
        position: dict[str, Any] | None,
    ) -> None:
        """``idle`` is the silence, in seconds, after which open windows are over; None: never."""
        self.stage = stage
        self._data = data
        self._feed = feed
        self._watermark = watermark
        self._intake = intake
        self._held = HeldRows(watermark.windows, reduction)
        self._reduction = reduction
        self._emission = emission
        self._idle = idle
        #: The last commit up to which an earlier query has given what there is to give.
        self._given_upto = -1 if position is None else int(position["upto"])
        self._upto = self._given_upto
        self._passed = -1
        self._place = self._here()
        self._arrived_at = self._emitted_at = wall_clock()
        self._late = self._emitted = 0
        feed.timeout = lambda: self.seconds_left

    # ------------------------------------------------------------------------------------------------ as a pipeline

    @property
    def position(self) -> dict[str, Any] | None:
        """See ``Pipeline``."""
        place = self._held.since or self._place
        if place is None:
            return None
        data, watermark = place
        since = self._held.oldest_start()
        if self._feed.times is not None and since is not None and data.get("bound") is not None and data.get("place") is None:
            first = ticks(since, self._intake.kind)
            data = {**data, "since": first if data["since"] is None else max(first, data["since"])}
        return {"data": data, "watermark": watermark, "upto": self._upto}

    @property
    def counters(self) -> dict[str, int]:
        """See ``Pipeline``."""
        own = {"late_rows": self._late, "held_rows": self._held.count, "windows_emitted": self._emitted}
        return {**self._data.counters, **own}

    def outputs(self) -> Iterator[list[Any]]:
        """See ``Pipeline``."""
        for made in self._data.outputs():
            if made:
                for part in made:
                    self._take_in(part)
                continue
            for numbers in self._step():
                rows, reduced = self._held.rows_of(numbers)
                self._held.drop(self._watermark.gone)
                self._place = self._here()
                self._emitted += len(numbers)
                stage = self._reduction.final if reduced and self._reduction is not None else self.stage
                found = list(stage.run(rows)) if rows.row_count else []
                if found:
                    yield found
            self._held.drop(self._watermark.gone)
            self._place = self._here()
            yield []

    def close(self) -> None:
        """See ``Pipeline``."""
        self._data.close()
        self.stage.close()
        if self._reduction is not None:
            self._reduction.close()

    # ------------------------------------------------------------------------------------------------ what is due

    @property
    def seconds_left(self) -> float | None:
        """See ``Pipeline``."""
        due = []
        if self._idle is not None and self._open():
            due.append(self._arrived_at + self._idle)
        if self._emission.every is not None and len(self._held.changed):
            due.append(self._emitted_at + self._emission.every)
        return max(min(due) - wall_clock(), 0.0) if due else None

    def _take_in(self, part: Any) -> None:
        rows, times, wanted = self._intake.rows(part)
        if self._feed.times is None and len(times):
            self._feed.arrived = True
            self._feed.reached = max(self._feed.reached, int(times.max()))
        late = self._held.add(rows, times, self._watermark.gone, self._place, wanted)
        self._late += 0 if self._feed.repeats else late

    def _step(self) -> Iterator[Any]:
        """The data pauses: the windows that are due now, by number."""
        now = wall_clock()
        position = self._data.position
        repeated = False
        if position is not None and position["bound"] is None and position["after"] != self._passed:
            self._passed = position["after"]
            self._feed.turned(self._passed)
            self._upto = max(self._upto, self._passed)
            repeated = self._passed <= self._given_upto
        if self._feed.arrived:
            self._feed.arrived, self._arrived_at = False, now
        numbers = self._due(now)
        if len(numbers) and not repeated:
            yield numbers
        newest = self._held.newest
        if self._idle is not None and newest is not None and self._open() and now - self._arrived_at >= self._idle:
            self._watermark.release(newest)
            numbers = self._held.take_changed(None)
            if len(numbers):
                yield numbers

    def _due(self, now: float) -> Any:
        if self._emission.open_too:
            if self._emission.every is None:
                return self._held.take_changed(None)
            if now - self._emitted_at >= self._emission.every:
                self._emitted_at = now
                return self._held.take_changed(None)
        return self._held.take_changed(self._watermark.over)

    def _open(self) -> bool:
        """Whether rows are held whose windows are not over."""
        newest = self._held.newest
        return newest is not None and newest > self._watermark.over

    def _here(self) -> tuple[dict[str, Any], list[int]] | None:
        position = self._data.position
        return None if position is None else (position, self._watermark.to_json())
