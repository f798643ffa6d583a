"""EXPLAIN of a multi-query: its sets by level, what each needs, what becomes of it, and its queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tsdb.plan import explain
from tsdb.result import Result
from tsdb.resultset.multi_result import read_request
from tsdb.resultset.request import Request
from tsdb.resultset.resolution import Resolution, resolve
from tsdb.resultset.run import Outcome, Run, SetRun
from tsdb.session import text_result

if TYPE_CHECKING:
    from tsdb.plan.node import Plan
    from tsdb.result import Source
    from tsdb.session import Session
    from tsdb.storage.store import Store


def explain_multi_query(
    store: Store,
    session: Session,
    document: Mapping[str, Any] | str,
    parameters: Mapping[str, object] | None,
    settings: Mapping[str, object] | None,
    *,
    analyze: bool,
) -> Result:
    """The levels of a request as a text; with ``analyze`` it is run, and every plan shows what was read."""
    request = read_request(store, document, parameters)
    if not analyze:
        return text_result("plan", list(_declared(request, resolve(request))))
    chosen = session.settings.changed(settings or {})
    outcome = Run(store, session, request, chosen, parameters, keeps_plans=True).run()
    try:
        return text_result("plan", list(_done(outcome)))
    finally:
        outcome.close()


def _declared(request: Request, resolution: Resolution) -> Iterator[str]:
    """What would be done, as far as that is known before anything has run."""
    for number, level in enumerate(resolution.levels, 1):
        yield f"Level {number}"
        for each in level:
            yield f"  ResultSet {each.name}{_needs(each.name, resolution)}"
            yield f"    {' '.join(each.query.text.split())}"
    yield "Queries"
    for step in request.steps:
        if step.query is not None:
            yield f"  Query {step.name}"
            yield f"    {' '.join(step.query.text.split())}"
    yield from _unused(resolution)


def _done(outcome: Outcome) -> Iterator[str]:
    """What was done."""
    for number in range(1, len(outcome.resolution.levels) + 1):
        yield f"Level {number}"
        for run in outcome.sets:
            if run.level == number:
                yield f"  ResultSet {run.declaration.name}{_needs(run.declaration.name, outcome.resolution)}: {_fate(run)}"
                yield from _plan(run.plan, run.source if run.ran else None, outcome, settle=False)
    yield "Queries"
    for query in outcome.queries:
        yield f"  Query {query.step.name}{': empty, answered without a scan' if query.empty else ''}"
        yield from _plan(query.plan, None if query.empty else query.source, outcome, settle=True)
    yield from _unused(outcome.resolution)
    yield from (f"{name}={count}" for name, count in outcome.counters().items())


def _plan(plan: Plan | None, source: Source | None, outcome: Outcome, *, settle: bool) -> Iterator[str]:
    """A plan; with a source that has run, or is to, also what its scans read."""
    if plan is None:
        return
    stats = pushed = None
    if source is not None:
        pushed = source.pushed()
        if settle:
            source.settle()
        stats = source.context.stats
    for line in explain.lines(plan, outcome.tables, stats, pushed):
        yield f"    {line}"


def _fate(run: SetRun) -> str:
    count = 0 if run.members is None else run.members.count
    members = f"{count:,} member{'s' if count != 1 else ''}"
    match run.fate:
        case "inlined":
            return f"run, {members}, inlined"
        case "table":
            assert run.members is not None
            return f"run, {members}, in a temporary table of {run.members.table_bytes:,} bytes"
        case "skipped":
            return "skipped, its filter is false"
        case "repeated":
            return f"repeated by each query that uses it: {run.reason}"


def _needs(name: str, resolution: Resolution) -> str:
    needed = ", ".join(each.name for each in resolution.needs[name])
    return f" (needs {needed})" if needed else ""


def _unused(resolution: Resolution) -> Iterator[str]:
    if resolution.unused:
        yield f"Never run: {', '.join(each.name for each in resolution.unused)}"
