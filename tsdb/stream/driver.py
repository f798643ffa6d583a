"""Drivers: what runs the live node of a plan, and says after each batch where it is.

The driver of a scan goes through the history of its table up to the newest commit of the moment, if it is asked to, and from then
on through windows of commits. Both read the same rows by the same predicate, and a row is in just one of them, by its commit; so a
row comes exactly once, whatever is written, flushed or compacted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from tsdb.exec.batch import Batch
from tsdb.stream.position import LastPlace, Place, Skipper
from tsdb_format.errors import InvalidInput

if TYPE_CHECKING:
    from tsdb.storage.snapshot import Snapshot
    from tsdb.stream.arrivals import Arrivals
    from tsdb.stream.feed import Commits
    from tsdb.stream.latest_join import LatestJoin
    from tsdb.stream.seek import Seek
    from tsdb.stream.source import LiveSource

#: A batch without rows: everything up to the driver's position has been given.
PAUSE = Batch({}, 0)


class Driver(Protocol):
    """What runs a live node, in one thread."""

    @property
    def position(self) -> dict[str, Any] | None:
        """Where one goes on after the last batch that was taken; None where that is not possible now.

        It is a new document of plain JSON values, but for a ``LastPlace`` that nobody has looked up.
        """

    @property
    def counters(self) -> dict[str, Any]:
        """Its own counters, by public names."""

    def batches(self) -> Iterator[Batch]:
        """The rows, without an end, until its feed is closed.

        ``PAUSE`` comes when all of the history did, when all of some commits did, and when the feed waited in vain.
        """


@dataclass(frozen=True, slots=True)
class _Position:
    """``bound`` is the last commit of the history, None where that is over; ``after`` the last commit of which every row came.

    ``place`` is that of the last row, where more of the history or of its commit may follow. ``since`` bounds the history's times.
    """

    after: int = 0
    bound: int | None = None
    place: Place | LastPlace | None = None
    since: int | None = None

    def to_json(self) -> dict[str, Any]:
        place = self.place.to_json() if isinstance(self.place, Place) else self.place
        return {"after": self.after, "bound": self.bound, "place": place, "since": self.since}

    def found_place(self) -> Place | None:
        return self.place.found() if isinstance(self.place, LastPlace) else self.place

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> _Position:
        place, bound, since = value["place"], value["bound"], value["since"]
        return cls(
            int(value["after"]),
            None if bound is None else int(bound),
            None if place is None else Place.from_json(place),
            None if since is None else int(since),
        )


class ScanDriver:
    """Runs the scan of a live source."""

    def __init__(
        self,
        source: LiveSource | LatestJoin,
        feed: Commits,
        snapshot: Snapshot,
        seek: Seek,
        resume: dict[str, Any] | None,
        rows_max: int,
    ) -> None:
        """``snapshot`` is the state at the query's start; ``resume`` a position of an earlier driver, used instead of ``seek``."""
        self._source = source
        self._feed = feed
        self._rows_max = rows_max
        self._start: Snapshot | None = snapshot
        self._windows = 0
        if resume is None:
            bound = snapshot.sequence if seek.history else None
            after = snapshot.sequence if seek.sequence is None else min(seek.sequence - 1, snapshot.sequence)
            self._at = _Position(after, bound, None, seek.since(source.table))
        else:
            self._at = _resumed(resume, source, snapshot)

    @property
    def position(self) -> dict[str, Any]:
        """See ``Driver``."""
        return {"table": self._source.table.id, **self._at.to_json()}

    @property
    def counters(self) -> dict[str, Any]:
        """See ``Driver``."""
        return {
            "stream_history_rows": self._source.history_stats.rows_returned,
            "stream_live_rows": self._source.change_stats.rows_returned,
            "stream_windows": self._windows,
        }

    def batches(self) -> Iterator[Batch]:
        """See ``Driver``."""
        yield from self._history()
        yield from self._live()

    def _history(self) -> Iterator[Batch]:
        at, snapshot, self._start = self._at, self._start, None
        assert snapshot is not None, "a driver runs once"
        bound = at.bound
        if bound is None:
            return
        source = self._source
        devices = source.snapshot_of(snapshot).devices
        place = at.found_place()
        skipper = None if place is None else Skipper(place, devices, by_commit=False)
        first_rank = 0 if skipper is None else skipper.rank
        for rows in source.history(snapshot, bound, rows_max=self._rows_max, first_rank=first_rank, since=at.since):
            left = rows if skipper is None else skipper.rest(rows, devices)
            if self._ends():
                return
            if left.count:
                at = self._at = replace(at, place=LastPlace(left, devices, at.place))
                yield left.batch
        self._at = _Position(bound)
        yield PAUSE

    def _live(self) -> Iterator[Batch]:
        skips = self._at.place is not None
        while not self._ends():
            at = self._at
            if self._feed.wait(at.after) <= at.after:
                if not self._ends():
                    self._source.snapshot_of(self._feed.snapshot())  # it may be gone
                yield PAUSE
                continue
            snapshot = self._feed.snapshot()
            self._windows += 1
            devices = self._source.snapshot_of(snapshot).devices
            place = at.found_place() if skips else None
            skipper = None if place is None else Skipper(place, devices, by_commit=True)
            skips = False
            for rows in self._source.changes(snapshot, at.after, snapshot.sequence, self._rows_max):
                left = rows if skipper is None else skipper.rest(rows, devices)
                if self._ends():
                    return
                if left.count:
                    self._passed(left, devices)
                    yield left.batch
            self._at = _Position(snapshot.sequence)
            del snapshot, devices, skipper, at  # nothing is pinned while it waits
            yield PAUSE

    def _ends(self) -> bool:
        """Whether the consumer wants no more; asked anew each time, since any thread may say so."""
        return self._feed.closed

    def _passed(self, rows: Arrivals, devices: Any) -> None:
        last = rows.places.slice(rows.count - 1, rows.count)
        self._at = _Position(int(last.sequence[0]) - 1, None, LastPlace(rows, devices, self._at.place))


def _resumed(position: dict[str, Any], source: LiveSource | LatestJoin, snapshot: Snapshot) -> _Position:
    try:
        number, found = position["table"], _Position.from_json(position)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InvalidInput("the resume token is of another kind of query") from None
    if number != source.table.id:
        raise InvalidInput(f"the resume token is not of table {source.table.name!r}: that was dropped, or the query was another")
    newest = max(found.after, found.bound or 0)
    if newest > snapshot.sequence:
        raise InvalidInput(f"the resume token knows commit {newest:,}, and the database has {snapshot.sequence:,} only")
    return found
