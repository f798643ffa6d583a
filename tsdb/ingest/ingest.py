"""Files into tables: CSV and Parquet, streamed in bounded memory, resumable, with every bad row accounted for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tsdb.storage.store import Store


@dataclass(frozen=True, slots=True)
class IngestReport:
    """``read`` = ``inserted`` + ``updated`` + ``rejected``. ``notes`` are sentences for people; ``schema`` the CREATE TABLE text."""

    read: int
    inserted: int
    updated: int
    rejected: int
    seconds: float
    table: str = ""
    files: int = 0
    schema: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an ingest is: rows and source bytes so far, of how many bytes, and the file being read."""

    rows: int
    bytes_done: int
    bytes_total: int
    path: str


def ingest(
    store: Store,
    table: str | None,
    paths: str | Path | Sequence[str | Path],
    *,
    time: str | None = None,
    tags: Sequence[str] = (),
    time_unit: str | None = None,
    timezone: str | None = None,
    tag_from_path: str | None = None,
    format: str | None = None,
    create: bool = False,
    rejects: str | Path | None = None,
    memory_limit: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    again: bool = False,
) -> IngestReport:
    """Read files, globs and directories into a table."""
    raise NotImplementedError
