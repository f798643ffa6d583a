"""The public handle of a database: open, ask, write, close."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from tsdb.exec.under_way import UnderWay
from tsdb.settings import Settings
from tsdb.storage.store import Store
from tsdb_format.errors import Closed, ReadOnly
from tsdb_format.schema import Schema

if TYPE_CHECKING:
    from tsdb.catalog.table import TableOptions
    from tsdb.ingest.ingest import IngestReport
    from tsdb.result import Result
    from tsdb.resultset.multi_result import MultiResult
    from tsdb.session import Session
    from tsdb.sql.environment import Parameters
    from tsdb.storage.backup import BackupReport
    from tsdb.storage.check import Problem
    from tsdb.storage.report import WriteReport
    from tsdb.stream.live import LiveQuery
    from tsdb.stream.view.keeper import ViewKeeper


class Database:
    """An open database. May be shared by threads; each statement sees one snapshot. Close it, or use it as a context manager."""

    def __init__(self, path: str | Path, mode: str = "rw", **settings: object) -> None:
        """Open the database directory at ``path``: mode 'rw' (created if absent, one writer) or 'r'. Settings by name."""
        chosen = Settings().changed(settings)
        self._store: Store | None = Store.open(
            path, mode, threads=chosen.threads, durability=chosen.durability, memory_limit=chosen.memory_limit
        )
        self._session: Session | None = None
        self._opening = threading.Lock()
        self._under_way = UnderWay()
        self._initial = chosen
        self._views: ViewKeeper | None = None
        if mode == "rw" and self._store.views():
            self._keep_views()
        self.path = self._store.path
        self.mode = mode

    def sql(self, text: str, params: Parameters = None, *, settings: Mapping[str, object] | None = None) -> Result:
        """Run one statement. ``params`` fill ``?`` and ``$1`` (a list) or ``$name`` (a dict); ``settings`` hold for this statement.

        Raises InvalidInput, NotFound, ReadOnly, Closed, Corruption.
        """
        session = self._session
        if session is None:
            session = self._open_session()
        return session.run(text, params, settings)

    def stream(
        self, text: str, params: Parameters = None, *, settings: Mapping[str, object] | None = None, resume: str | None = None
    ) -> LiveQuery:
        """Follow a query live: batches without an end, of rows that are there (``seek_to``) and of those that come.

        ``resume`` is the ``token`` of an earlier live query of the same text, which is gone on from after its last batch. Raises
        InvalidInput for queries that need all rows, and as ``sql`` does.
        """
        from tsdb.stream.live import live_query

        chosen = self.settings if settings is None else self.settings.changed(settings)
        session = self._session or self._open_session()
        made = live_query(self._opened(), session, text, params, chosen, resume)
        self._under_way.follow(made)
        return made

    def multi_query(
        self,
        document: Mapping[str, Any] | str,
        params: Mapping[str, object] | None = None,
        *,
        settings: Mapping[str, object] | None = None,
    ) -> MultiResult:
        """Run several dependent queries, whose named result sets are computed once: a dict or JSON text, or a script of SQL.

        ``params`` fill ``$name`` in scripts. See docs/result-sets.md. Raises as ``sql`` does, and says where in what was given.
        """
        from tsdb.resultset.multi_result import multi_query

        session = self._session or self._open_session()
        return multi_query(self._opened(), session, document, params, settings)

    def explain_multi_query(
        self,
        document: Mapping[str, Any] | str,
        params: Mapping[str, object] | None = None,
        *,
        analyze: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> Result:
        """How ``multi_query`` would answer: the sets by level and what needs them; with ``analyze`` also what became of each."""
        from tsdb.resultset.explain import explain_multi_query

        session = self._session or self._open_session()
        return explain_multi_query(self._opened(), session, document, params, settings, analyze=analyze)

    def write(self, table: str, data: Any) -> WriteReport:
        """Write rows in one commit: pandas, polars, anything with ``__arrow_c_stream__``, a dict of arrays, a list of dicts.

        A row with the tags and time of one that exists overlays its fields; a NULL overlays nothing. In dicts a blob may be given
        as a path object, an open binary file or a ``BlobFile``, of any size, or as an ``ExternalBlob``, which is not copied.
        """
        store = self._writable()
        schema = store.table(table).schema
        if type(data) is list:
            from tsdb.ingest import few_rows

            row = few_rows.row_of(data[0], schema) if len(data) == 1 else None
            report = store.write_row(table, row) if row is not None else None
            if report is not None:
                return report
            batch = few_rows.batch_of(data, schema)
            if batch is not None:
                return store.write_pieces(table, batch)
        from tsdb.ingest.arrow import columns_of
        from tsdb.ingest.blob import blobs_as_files, write_with_files

        files = blobs_as_files(data, schema)
        if files:
            return write_with_files(store, table, data, files)
        return store.write_pieces(table, columns_of(data, schema))

    def ingest(self, table: str | None, paths: Any, **options: Any) -> IngestReport:
        """Read CSV or Parquet files into a table; the options are those of ``tsdb.ingest.ingest.ingest``."""
        from tsdb.ingest.ingest import ingest

        store = self._writable()
        options.setdefault("memory_limit", self.settings.memory_limit)
        return ingest(store, table, paths, **options)

    def refresh_view(self, name: str) -> int:
        """Bring a materialized view up to the newest commit now, also one that was stopped; how many rows it wrote.

        Raises NotFound, and whatever stops the view.
        """
        self._writable()
        return self._keeper().refresh(name)

    def flush(self) -> None:
        """Write what is in memory to data files now. Commits are durable without it; it happens by itself when memory is full."""
        self._writable().flush()

    def compact(self, table: str | None = None) -> int:
        """Merge data files, and drop what is deleted, expired or overwritten, now; how many rewrites it took."""
        return self._writable().compact(table)

    def backup(self, path: str | Path, *, link: bool = True) -> BackupReport:
        """Make the directory ``path`` a backup as of the last commit, or bring an earlier one up to date; others write meanwhile.

        It is a complete database. Without ``link`` files are copied also where hard links would do.
        """
        return self._opened().backup(path, link=link)

    @property
    def compaction_problem(self) -> str | None:
        """Why the last compaction, by itself or asked for, left files as they are; None where it did not."""
        return self._writable().compaction_problem

    def counters(self) -> dict[str, int | float]:
        """What this handle has written, by reason, with the write amplification."""
        return self._writable().counters()

    def tables(self) -> list[str]:
        """The names of the tables."""
        return sorted(self._current().tables())

    def schema(self, table: str) -> Schema:
        """The columns of a table; raises NotFound."""
        return self._current().table(table).schema

    def options(self, table: str) -> TableOptions:
        """How a table keeps its rows, as CREATE TABLE said; raises NotFound."""
        return self._current().table(table).options

    def check(self, table: str | None = None) -> list[Problem]:
        """Verify every checksum; what is damaged or missing, by file. Nothing is repaired."""
        from tsdb.storage.check import check

        return list(check(self._current(), table))

    @property
    def settings(self) -> Settings:
        """The session's settings, as SET changed them."""
        return self._initial if self._session is None else self._session.settings

    @property
    def closed(self) -> bool:
        """Whether the database was closed."""
        return self._store is None

    def close(self) -> None:
        """Release the database. Results that were read stay as they are; anything else raises Closed from now on."""
        store, self._store, self._session = self._store, None, None
        if store is None:
            return
        with store.closing:
            for live in self._under_way.live:
                live.close()
            if self._views is not None:
                self._views.close()
            store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._store is None else f"mode={self.mode!r}"
        return f"Database({self.path!r}, {state})"

    def _open_session(self) -> Session:
        from tsdb.session import Session

        with self._opening:
            session = self._session
            if session is None:
                session = self._session = Session(self._opened(), self._initial, self._under_way)
                session.views_changed = _weakly(self._keep_views)
        return session

    def _keeper(self) -> ViewKeeper:
        from tsdb.stream.view.keeper import ViewKeeper

        with self._opening:
            if self._views is None:
                self._views = ViewKeeper(self._opened(), self._initial)
            return self._views

    def _keep_views(self) -> None:
        """See to it that the materialized views are kept up."""
        keeper = self._keeper()
        if self._initial.enable_view_maintenance:
            keeper.start()

    def _opened(self) -> Store:
        if self._store is None:
            raise Closed(f"the database {self.path} was closed")
        return self._store

    def _current(self) -> Store:
        store = self._opened()
        store.refresh()
        return store

    def _writable(self) -> Store:
        store = self._opened()
        if store.mode == "r":
            raise ReadOnly(f"{self.path} was opened for reading")
        return store


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """A call of a method that does not keep its object alive."""
    held = WeakMethod(method)

    def call() -> None:
        found = held()
        if found is not None:
            found()

    return call


def open_database(path: str | Path, mode: str = "rw", **settings: object) -> Database:
    """Open the database directory at ``path``, creating it if it is absent: ``tsdb.open``.

    ``mode`` is 'rw' for the one process that writes, 'r' for any number of readers beside it. Settings are keywords: ``threads=4``.
    Raises Locked, NotFound (mode 'r'), Corruption, UnsupportedFormat, InvalidInput.
    """
    return Database(path, mode, **settings)
