"""What a multi-query returns: a result for each of its queries, and what became of its sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tsdb.result import Result
from tsdb.resultset.document import read_document
from tsdb.resultset.request import Request
from tsdb.resultset.run import Outcome, Run
from tsdb.resultset.script import read_script
from tsdb_format.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tsdb.session import Session
    from tsdb.settings import Settings
    from tsdb.sql.environment import Parameters
    from tsdb.storage.store import Store


class ResultSet(NamedTuple):
    """What became of one result set: ``fate`` is 'inlined', 'table', 'skipped' or 'repeated', and ``reason`` says why it was that.

    ``members`` counts them, None where they were not all found; ``level`` is from 1.
    """

    name: str
    level: int
    fate: str
    members: int | None
    reason: str


class MultiResult:
    """The results of a multi-query. Each is read like that of any statement, in any order; all see the same snapshot.

    ``results`` has one for every query that is not ``result_set_only``, in order, ``names`` their names, ``stats`` the counters of
    the sets, ``sets`` what became of each that was needed. Close it, or use it as a context manager, to let go of the snapshot.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.results = [Result(each.source) for each in outcome.queries]
        self.names = [each.step.name for each in outcome.queries]
        self.stats: dict[str, int] = outcome.counters()
        self.sets = [
            ResultSet(
                run.declaration.name, run.level, run.fate,
                None if run.fate == "repeated" else 0 if run.members is None else run.members.count, run.reason,
            )
            for run in outcome.sets
        ]  # fmt: skip

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __getitem__(self, key: int | str) -> Result:
        """A result by its place or its query's name; raises NotFound for a name that there is not."""
        if isinstance(key, int):
            return self.results[key]
        if key not in self.names:
            raise NotFound(f"no query is named {key!r}; there are: {', '.join(self.names)}")
        return self.results[self.names.index(key)]

    def close(self) -> None:
        """Let go of the snapshot, of the tables of result sets and of DuckDB's connections."""
        self._outcome.close()

    def __enter__(self) -> MultiResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"MultiResult({', '.join(self.names)}; {', '.join(f'{name}={count}' for name, count in self.stats.items())})"


def read_request(store: Store, document: Mapping[str, Any] | str, parameters: Mapping[str, object] | None) -> Request:
    """A request from a document, as a dict or JSON text, or from a script of SQL."""
    if not isinstance(document, Mapping | str):  # whatever the caller's types say
        raise InvalidInput(f"a multi-query is a dict, JSON text or a script of SQL, not {type(document).__name__}")
    if isinstance(document, str) and document.lstrip()[:1] not in ("{", "["):
        return read_script(document)
    if parameters:
        raise InvalidInput("a document has no parameters: it is made of values")
    return read_document(document, {name.lower(): table for name, table in store.tables().items()})


def multi_query(
    store: Store,
    session: Session,
    document: Mapping[str, Any] | str,
    parameters: Mapping[str, object] | None,
    settings: Mapping[str, object] | None,
) -> MultiResult:
    """Run a multi-query: its sets now, its queries when their results are read."""
    chosen = session.settings.changed(settings or {})
    request = read_request(store, document, parameters)
    return MultiResult(Run(store, session, request, chosen, parameters).run())


def script_result(store: Store, session: Session, text: str, parameters: Parameters, settings: Settings) -> Result:
    """The rows of the one query of a script; raises InvalidInput where it has none, or several."""
    request = read_script(text)
    count = sum(step.query is not None for step in request.steps)
    if count != 1:
        raise InvalidInput(
            "RESULT SET is for a query behind it, and there is none"
            if count == 0
            else f"the script has {count} queries: db.multi_query(text) and tsdb multi give the rows of each"
        )
    return MultiResult(Run(store, session, request, settings, parameters).run()).results[0]
