"""What goes along with a new version of the manifest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Handover:
    """``obsolete``: the files that the version names no more.

    ``memory``: what is done to the memtables at the very moment that snapshots go over to the version, so that they see both or
    neither; nothing of it where the commit fails.
    """

    obsolete: list[str] = field(default_factory=list)
    memory: list[Callable[[], None]] = field(default_factory=list)
