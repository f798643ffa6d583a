"""Resolution: which result set each name means, which sets are needed, and in which order they can be computed.

A set is visible to the queries after the one that declares it, so the sets that are needed form levels: those of the first need no
other, those of the next only these, and so on. What nothing needs is never computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tsdb.resultset.request import Declaration, Reference, Request, references
from tsdb.sql.statement import Query
from tsdb.suggestion import hint
from tsdb_format.errors import InvalidInput, NotFound


@dataclass(frozen=True, slots=True, eq=False)
class Resolution:
    """The sets that are needed, by level, and those that are not. ``needs`` are the sets that each one refers to, by name."""

    levels: tuple[tuple[Declaration, ...], ...]
    unused: tuple[Declaration, ...]
    needs: Mapping[str, tuple[Declaration, ...]]


def resolve(request: Request) -> Resolution:
    """Resolve every name; raises InvalidInput for a duplicate or cyclic one, NotFound for one that nothing before it declares."""
    declared = _declared(request)
    needs: dict[str, tuple[Declaration, ...]] = {}
    wanted: dict[str, None] = {}
    for number, step in enumerate(request.steps):
        for each in step.declares:
            needs[each.name] = tuple(_found(number, each.query, declared, request))
        if step.query is not None:
            wanted.update((each.name, None) for each in _found(number, step.query, declared, request))
    level: dict[str, int] = {}
    for step in request.steps:  # what a set needs is declared before it
        for each in step.declares:
            level[each.name] = 1 + max((level[need.name] for need in needs[each.name]), default=-1)
    waiting = list(wanted)
    while waiting:
        more = [need.name for need in needs[waiting.pop()] if need.name not in wanted]
        wanted.update(dict.fromkeys(more))
        waiting += more
    every = [each for step in request.steps for each in step.declares]
    used = [each for each in every if each.name in wanted]
    count = 1 + max((level[each.name] for each in used), default=-1)
    levels = tuple(tuple(each for each in used if level[each.name] == at) for at in range(count))
    return Resolution(levels, tuple(each for each in every if each.name not in wanted), needs)


def _declared(request: Request) -> dict[str, tuple[int, Declaration]]:
    """Every set by its name in lower case, with the number of the step that declares it."""
    declared: dict[str, tuple[int, Declaration]] = {}
    for number, step in enumerate(request.steps):
        for each in step.declares:
            before = declared.get(each.name.lower())
            if before is not None:
                raise InvalidInput(f"result set {each.name!r} is declared twice: {before[1].place} and {each.place}")
            declared[each.name.lower()] = number, each
    return declared


def _found(number: int, query: Query, declared: dict[str, tuple[int, Declaration]], request: Request) -> Iterator[Declaration]:
    """The sets that a query of a step refers to, each once."""
    seen: dict[str, Declaration] = {}
    for reference in references(query):
        where = f"{request.steps[number].place}, {reference.place}" if query.origins else reference.place  # of a document's filter
        found = declared.get(reference.name.lower())
        if found is None:
            visible = [each.name for at, each in declared.values() if at < number]
            known = hint(reference.name, visible, "no query before it declares one")
            raise NotFound(f"no result set {reference.name!r} ({where}); {known}")
        if found[0] >= number:
            raise InvalidInput(_not_visible(number, reference, declared, request, where))
        seen[found[1].name] = found[1]
    yield from seen.values()


def _not_visible(
    number: int, reference: Reference, declared: dict[str, tuple[int, Declaration]], request: Request, where: str
) -> str:
    """Why a set cannot be seen by a step that is not after its declaration."""
    cycle = _cycle(number, reference.name.lower(), declared, request)
    if cycle:
        return f"result sets need each other: {' → '.join(cycle)} ({where})"
    at, found = declared[reference.name.lower()]
    own = "the same query" if at == number else "a later query"
    return f"result set {reference.name!r} ({where}) is declared by {own} ({found.place}): sets are visible to the queries after it"


def _cycle(number: int, name: str, declared: dict[str, tuple[int, Declaration]], request: Request) -> list[str]:
    """The names on the way from a step's set to itself, by way of the set ``name``; none where there is no such way."""
    own = {each.name.lower() for each in request.steps[number].declares}
    waiting = [[name]]
    seen = {name}
    while waiting:
        path = waiting.pop()
        if path[-1] in own:
            return [declared[path[-1]][1].name, *(declared[each][1].name for each in path)]
        for reference in references(declared[path[-1]][1].query):
            needed = reference.name.lower()
            if needed in declared and needed not in seen:
                seen.add(needed)
                waiting.append([*path, needed])
    return []
