"""A live query as its consumer has it: batches without an end, each a ``Result``, and a token to go on from after each."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tsdb.exec.batch import Batch, concat_batches
from tsdb.exec.context import ExecContext
from tsdb.exec.stats import QueryStats
from tsdb.result import NativeSource, Result
from tsdb.stream.arrow_rows import ArrowRows
from tsdb.stream.feed import Feed
from tsdb.stream.pipeline import pipeline_of
from tsdb.stream.position import decoded, encoded
from tsdb.stream.stage import NativeStage
from tsdb_format.errors import Closed, InvalidInput

if TYPE_CHECKING:
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.sql.statement import Query
    from tsdb.storage.store import Store
    from tsdb.stream.stage import Stage


class LiveQuery(Iterator[Result], AsyncIterator[Result]):
    """Rows that are there, if ``seek_to`` asks for them, then those that come, in batches; made by ``Database.stream``.

    Iterate it, in a ``for`` or an ``async for``: the next batch is waited for. Nothing is read ahead of the consumer, or kept for
    it. ``close`` may be called from any thread, and ends the iteration at once; leaving a ``with`` block closes, too.
    """

    def __init__(self, store: Store, query: Query, parameters: Parameters, settings: Settings, resume: str | None = None) -> None:
        position = None if resume is None else decoded(resume)
        self._feed = Feed(store)
        self._closing = store.closing
        self._stats = QueryStats()
        self._turns: ThreadPoolExecutor | None = None
        self._turn = threading.Lock()
        try:
            self._pipeline = pipeline_of(query, parameters, settings, self._feed, self._stats, position)
        except BaseException:
            self._feed.close()
            raise
        self._stage = self._pipeline.stage
        self._settings = settings
        weakref.finalize(self, self._feed.close)
        self._results = self._run()
        self._token = self._encoded()

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
        """Where to go on after the batch that was given last, for ``resume``; None where this query cannot go on from there."""
        return self._token

    @property
    def closed(self) -> bool:
        """Whether no more batches come."""
        return self._feed.closed

    def close(self) -> None:
        """End it: whoever waits for a batch gets none."""
        self._feed.close()
        if self._turn.acquire(blocking=False):  # else whoever takes a batch just now finds it closed
            try:
                self._finish()
            finally:
                self._turn.release()

    def __iter__(self) -> LiveQuery:
        return self

    def __next__(self) -> Result:
        with self._turn:
            if self._feed.closed:
                self._finish()
                raise StopIteration
            try:
                return next(self._results)
            except Closed:
                self._finish()
                raise StopIteration from None
            except BaseException:
                self._feed.close()
                self._finish()
                raise

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

    def _run(self) -> Iterator[Result]:
        for made in self._pipeline.outputs():
            if made and self._feed.closed:  # nobody gets these rows, and no token is behind them
                return
            self._token = self._encoded()
            if made:
                yield result_of(self._stage, made, self._settings)
        self._token = self._encoded()

    def _encoded(self) -> str | None:
        position = self._pipeline.position
        return None if position is None else encoded(position)

    def _finish(self) -> None:
        """Let go of everything, in the turn of one thread; where the database is being closed, that is done then."""
        self._results.close()  # type: ignore[attr-defined]  # it is a generator
        self._pipeline.close()
        if self._turns is not None:
            self._turns.shutdown(wait=False)
        with self._closing:
            pass


def result_of(stage: Stage, made: list[Any], settings: Settings) -> Result:
    """What a stage made of one batch, as whoever asked has it."""
    context = ExecContext(None, settings)  # type: ignore[arg-type]  # nothing is read any more
    if not isinstance(stage, NativeStage):
        return Result(ArrowRows(made[0], stage.columns, stage.types, context))
    rows: Batch = concat_batches(made)
    return Result(NativeSource(stage.columns, stage.schema, lambda: (context, iter([rows]))))


def live_query(store: Store, text: str, parameters: Parameters, settings: Settings, resume: str | None) -> LiveQuery:
    """The live query that a text asks for. Raises InvalidInput where it is none."""
    from tsdb.sql.reader import read_statement
    from tsdb.sql.statement import Query

    statement = read_statement(text)
    if not isinstance(statement, Query):
        raise InvalidInput("only queries can be followed live")
    return LiveQuery(store, statement, parameters, settings.changed(statement.settings), resume)
