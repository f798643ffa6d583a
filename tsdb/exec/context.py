"""What an execution carries: the snapshot it reads, its settings, its counters and its right to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tsdb.exec.stats import QueryStats

if TYPE_CHECKING:
    from tsdb.exec.runtime_filter import TopKFilter
    from tsdb.settings import Settings
    from tsdb.storage.snapshot import Snapshot


def _never() -> bool:
    return False


@dataclass
class ExecContext:
    """One execution of one plan. Runtime filters are made here, one per marked TopK and execution, never shared between either."""

    snapshot: Snapshot
    settings: Settings
    threads: int = 1
    stats: QueryStats = field(default_factory=QueryStats)
    cancelled: Callable[[], bool] = _never
    filters: dict[int, TopKFilter] = field(default_factory=dict)
