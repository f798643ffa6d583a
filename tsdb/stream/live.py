"""A live query as its consumer has it: batches without an end, each a ``Result``, and a token to go on from after each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.context import ExecContext
from tsdb.exec.stats import QueryStats
from tsdb.result import NativeSource, Result
from tsdb.stream.arrow_rows import ArrowRows
from tsdb.stream.feed import Feed
from tsdb.stream.pipeline import pipeline_of
from tsdb.stream.position import mark_of, read_token, token_of
from tsdb.stream.stage import NativeStage
from tsdb_format.errors import Closed, Error, InvalidInput

if TYPE_CHECKING:
    from tsdb.exec.under_way import Progress
    from tsdb.session import Session
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.sql.planner import Planner
    from tsdb.storage.store import Store
    from tsdb.stream.stage import Stage


class LiveQuery(Iterator[Result], AsyncIterator[Result]):
    """Rows that are there, if ``seek_to`` asks for them, then those that come, in batches; made by ``Database.stream``.

    Iterate it, in a ``for`` or an ``async for``: the next batch is waited for. Nothing is read ahead of the consumer, or kept for
    it. ``close`` may be called from any thread, and ends the iteration at once; leaving a ``with`` block closes, too.
    """

    def __init__(
        self, store: Store, planner: Planner, parameters: Parameters, settings: Settings, resume: str | None = None
    ) -> None:
        query = planner.query
        position, mark = (None, None) if resume is None else read_token(resume)
        self._feed = Feed(store)
        self._closing = store.closing
        self._stats = QueryStats()
        self._turns: ThreadPoolExecutor | None = None
        self._turn = threading.Lock()
        try:
            self._mark = cache(partial(mark_of, query, copy(parameters), settings))  # a caller may go on with other values in it
            self._pipeline = pipeline_of(planner, parameters, settings, self._feed, self._stats, position)
            if mark not in (None, self._mark()):
                self._pipeline.close()
                raise InvalidInput("the resume token is of another query: its text, parameters or windows were others")
        except BaseException:
            self._feed.close()
            raise
        self._stage = self._pipeline.stage
        self._settings = settings
        self._outputs = self._pipeline.outputs()
        #: Where the consumer is; and, while a batch is about to be given, where it is after that.
        self._reached: tuple[_Reached, ...] = (self._here(),)
        self._started = time.monotonic()
        self._delivered = 0
        self.text = query.text
        #: Its number among the queries of its database's handle.
        self.number = 0

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self._stage.columns)

    @property
    def types(self) -> list[str]:
        """The columns' types, as DuckDB names them."""
        return list(self._stage.types)

    @property
    def stats(self) -> dict[str, Any]:
        """What was read so far and what was not, with counters of the live query: ``stream_history_rows``, ``stream_live_rows``."""
        return {**self._stats.as_dict(), **self._pipeline.counters}

    @property
    def token(self) -> str | None:
        """Where to go on after the batch that was given last, for ``resume``; None where this query cannot go on from there.

        Raises Corruption where the place of that batch's last row cannot be read.
        """
        return self._reached[0].token()

    @property
    def closed(self) -> bool:
        """Whether no more batches come."""
        return self._feed.closed

    def close(self) -> None:
        """End it: whoever waits for a batch gets none."""
        self._feed.close()
        for each in self._reached:  # files may be closed from now on; of what is reached later no rows are given
            with suppress(Error):
                each.token()
        if not self._turn.locked():  # else whoever takes a batch just now finds it closed; from now on that takes no time
            with self._turn:
                self._finish()

    def __iter__(self) -> LiveQuery:
        return self

    def __next__(self) -> Result:
        with self._turn:
            found = self._next()
        if found is None:
            with self._closing:  # where the database is being closed, that is done when the iteration ends
                raise StopIteration
        return found

    def __aiter__(self) -> LiveQuery:
        return self

    async def __anext__(self) -> Result:
        if self._turns is None:
            self._turns = ThreadPoolExecutor(1, thread_name_prefix="tsdb-live")
        try:
            turn = asyncio.get_running_loop().run_in_executor(self._turns, next, self, None)
        except RuntimeError:  # it was closed, and its thread let go
            raise StopAsyncIteration from None
        try:
            found = await turn
        except asyncio.CancelledError:
            self.close()
            raise
        if found is None:
            raise StopAsyncIteration
        return found

    def __enter__(self) -> LiveQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> LiveQuery:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LiveQuery({', '.join(self.columns)}{', closed' if self.closed else ''})"

    def progress(self) -> Progress:
        """(number, text, seconds, rows that were given, phase, the commit whose rows were all given) for SHOW QUERIES.

        The phase is 'history' or 'live'; what is not known now is None.
        """
        position = self._pipeline.position
        place = {} if position is None else position.get("data", position)
        phase = None if not place else "live" if place.get("bound") is None else "history"
        after = place.get("after") if phase == "live" else None
        return self.number, self.text, time.monotonic() - self._started, self._delivered, phase, after

    def _next(self) -> Result | None:
        """The next batch; None where none comes any more."""
        try:
            for made in self._outputs if not self._feed.closed else ():
                here = self._here()
                if made:
                    self._reached = self._reached[0], here
                    if self._feed.closed:  # nobody gets these rows, and no token is behind them
                        break
                self._reached = (here,)
                if made:
                    self._delivered += sum(part.row_count if isinstance(part, Batch) else part.num_rows for part in made)
                    return result_of(self._stage, made, self._settings)
            else:
                self._reached = (self._here(),)
        except Closed:
            pass
        except BaseException:
            self._feed.close()
            self._finish()
            raise
        self._feed.close()
        self._finish()
        return None

    def _here(self) -> _Reached:
        """Where one goes on after what was taken last."""
        return _Reached(self._pipeline.position, self._mark)

    def _finish(self) -> None:
        """Let go of everything, in the turn of one thread."""
        with suppress(Error):  # the token is asked for after errors, too, and after the database was closed
            self._reached[0].token()
        self._outputs.close()  # type: ignore[attr-defined]  # it is a generator
        self._pipeline.close()
        if self._turns is not None:
            self._turns.shutdown(wait=False)


class _Reached:
    """A position that becomes a token once somebody asks, in any thread."""

    def __init__(self, position: dict[str, Any] | None, mark: Callable[[], str]) -> None:
        self._position = position
        self._mark = mark
        self._token: str | None = None

    def token(self) -> str | None:
        """The token; None where there is no position. Raises Corruption, and Closed where it is asked too late."""
        position = self._position
        if position is not None:
            self._token = token_of(position, self._mark())
            self._position = None  # the rows that it is made of are let go
        return self._token


def result_of(stage: Stage, made: list[Any], settings: Settings) -> Result:
    """What a stage made of one batch, as whoever asked has it."""
    context = ExecContext(None, settings)  # type: ignore[arg-type]  # nothing is read any more
    if not isinstance(stage, NativeStage):
        return Result(ArrowRows(made[0], stage.columns, stage.types, context))
    rows: Batch = concat_batches(made)
    return Result(NativeSource(stage.columns, stage.schema, lambda: (context, iter([rows]))))


def live_query(
    store: Store, session: Session, text: str, parameters: Parameters, settings: Settings, resume: str | None
) -> LiveQuery:
    """The live query that a text asks for. Raises InvalidInput where it is none."""
    from tsdb.sql.statement import Query

    statement = session.statement(text)
    if not isinstance(statement, Query):
        raise InvalidInput("only queries can be followed live")
    return LiveQuery(store, session.planner(statement), parameters, settings.changed(statement.settings), resume)
