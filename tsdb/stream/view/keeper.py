"""What keeps a database's materialized views up, in the process that writes: a thread that each commit wakes, or whoever asks."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from tsdb.storage.view import note_problem
from tsdb.storage.worker import Worker
from tsdb_format.errors import Closed, Error, NotFound

if TYPE_CHECKING:
    from tsdb.settings import Settings
    from tsdb.storage.store import Store
    from tsdb.stream.view.run import ViewRun

#: Seconds between two looks where no view knows when it will have rows by itself.
_LOOK_SECONDS = 60.0


class ViewKeeper:
    """Keeps the views of one writer's handle up. One thread at a time is at work on them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._runs: dict[int, ViewRun] = {}
        self._turn = threading.Lock()
        self._worker = Worker("tsdb-view")
        self._listeners = store.listeners
        self._listeners.add(self._worker)

    def start(self) -> None:
        """Keep views up in the background from now on."""
        self._worker.start(self, self._keep_up)
        self._worker.wake()

    def refresh(self, name: str) -> int:
        """Bring a view up to the newest commit, also one that was stopped; how many rows that were.

        Raises NotFound, and what stops the view.
        """
        with self._turn:
            view = self._store.view(name)
            written = self._step(view.id)
            if view.problem is not None:
                note_problem(self._store.writer, view, None)
            return written

    def close(self) -> None:
        """End the work; waits for what it is at."""
        self._listeners.discard(self._worker)
        self._worker.stop()
        with self._turn:
            for run in self._runs.values():
                run.close()
            self._runs.clear()

    def _keep_up(self) -> float:
        """Bring all views up that are not stopped; the seconds until that is due again though nothing is committed."""
        with self._turn:
            views = {view.id: view for view in self._store.views().values()}
            for number in self._runs.keys() - views.keys():
                self._runs.pop(number).close()
            for number, view in views.items():
                if view.problem is None:
                    with suppress(Error, Closed):  # the view tells
                        self._step(number)
            left = [run.seconds_left for run in self._runs.values()]
        return min((seconds for seconds in left if seconds is not None), default=_LOOK_SECONDS)

    def _step(self, number: int) -> int:
        from tsdb.stream.view.run import ViewRun  # loads what only asking needs, in the thread that asks

        view = next((view for view in self._store.views().values() if view.id == number), None)
        if view is None:
            raise NotFound("the materialized view was dropped just now")
        try:
            run = self._runs.get(number)
            if run is None:
                run = self._runs[number] = ViewRun(self._store, view, self._settings)
            return run.step()
        except Exception as error:
            found = self._runs.pop(number, None)
            if found is not None:
                found.close()
            with suppress(Error):
                note_problem(self._store.writer, view, f"{type(error).__name__}: {error}")
            if isinstance(error, Error):
                raise
            raise Error(f"materialized view {view.name!r} was stopped: {error!r}") from error
