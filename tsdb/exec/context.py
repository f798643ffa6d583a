"""What an execution carries: the snapshot it reads, its settings and its counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tsdb.exec.stats import QueryStats
from tsdb_format.parallel import ordered_map, shared_map

if TYPE_CHECKING:
    from tsdb.exec.batch import Batch
    from tsdb.exec.domains import Domains
    from tsdb.exec.take import RowIds
    from tsdb.exec.under_way import UnderWay
    from tsdb.settings import Settings
    from tsdb.storage.snapshot import Snapshot

In = TypeVar("In")
Out = TypeVar("Out")
Kind = TypeVar("Kind")
_KEPT_MAX = 64


class Kept:
    """What operators know of a plan's nodes, whatever the rows are: it lives as long as the plan, and serves all of its runs."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, object], tuple[object, Any]] = {}

    def of(self, node: object, make: Callable[..., Kind], *about: Any) -> Kind:
        """What ``make`` makes of ``about`` for a node, made once."""
        found = self._held.get((id(node), make))
        if found is None:
            if len(self._held) >= _KEPT_MAX:  # by nodes that runs made for themselves
                self._held.clear()
            found = self._held[id(node), make] = node, make(*about)
        made: Kind = found[1]
        return made


@dataclass
class ExecContext:
    """One execution of one plan, never shared with another.

    ``row_ids`` are those of the scans below a Take, by its key. ``domains`` is what joins under way have learned for the scans that
    they stream, by the identity of the scan. ``given`` are the rows of ``Given`` nodes, by name. ``kept`` is
    that of the plan, where this is not its only run. ``feeds`` says that who takes the batches, as they are made, computes on them
    with as many threads itself.
    """

    snapshot: Snapshot
    settings: Settings
    threads: int = 1
    stats: QueryStats = field(default_factory=QueryStats)
    text: str = ""
    register: UnderWay | None = None
    row_ids: Mapping[str, RowIds] = field(default_factory=dict)
    domains: dict[int, Domains] = field(default_factory=dict)
    given: dict[str, Sequence[Batch]] = field(default_factory=dict)
    feeds: bool = False
    kept: Kept = field(default_factory=Kept)

    def mapped(self, function: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
        """``map`` for what is handed on as it is made, on the threads that are left for it."""
        if self.feeds:
            return shared_map(function, items, self.threads)
        return ordered_map(function, items, self.threads, first_alone=True)

    def under_way(self) -> AbstractContextManager[None]:
        """A block in which the execution is listed by SHOW QUERIES."""
        return nullcontext() if self.register is None else self.register.enter(self.text, self.stats)
