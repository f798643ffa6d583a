"""Files into tables: CSV and Parquet, streamed in bounded memory, resumable, with every bad row accounted for.

One thread reads and converts the next chunk while this one sorts and writes the last. Each chunk is one commit, which also records
how far every source was read: an interrupted ingest goes on from there, a finished one is not done twice.
"""

from __future__ import annotations

import os
import threading
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tsdb.catalog.table import Table, create_table_text
from tsdb.ingest.blob import blob_columns, contents_of
from tsdb.ingest.block import INTERNED, Block, TextPools
from tsdb.ingest.chunk import Ahead, Chunk, ChunkBuilder
from tsdb.ingest.csv_block import read_csv_blocks
from tsdb.ingest.csv_text import PIECE_BYTES
from tsdb.ingest.file_plan import FilePlan, TimeOptions, plan_csv, plan_parquet
from tsdb.ingest.infer import infer_schema, table_name
from tsdb.ingest.parquet_block import BATCH_ROWS, read_parquet_blocks
from tsdb.ingest.reject import RejectFile
from tsdb.ingest.source import Position, Source, find_sources, resume_point
from tsdb.settings import memory_default
from tsdb.storage.blob_intake import PutBlob
from tsdb.storage.store import Store
from tsdb_format.errors import Error, InvalidInput, NotFound
from tsdb_format.schema import Schema
from tsdb_format.types import Role
from tsdb_format.vector import Vector

#: Of the memory limit, what reading may take: DuckDB for Parquet, pieces in flight for CSV.
READER_SHARE = 4
#: Copies of a chunk that exist at once: the one being written, that one sorted, the next one, and what encoding needs besides.
COPIES = 3.5
#: The least that files are read with.
READER_BYTES_MIN = 128 * 2**20
#: What a piece of CSV takes while it is converted: its text and room to unescape, the places of its cells, and their values.
PIECE_COST = 8 * PIECE_BYTES
#: The least that a commit gathers, however little memory there is: files of fewer rows are not worth their name.
CHUNK_BYTES_MIN = 2**20
#: Files that are skipped by name; of more only the number is told.
UNCHANGED_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class IngestReport:
    """``read`` = ``inserted`` + ``updated`` + ``rejected``. ``notes`` are sentences for people, ``schema`` a CREATE TABLE text."""

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
    blob: Mapping[str, str] | None = None,
) -> IngestReport:
    """Read files, globs and directories into a table.

    ``time`` names the files' time column where the table calls it otherwise (or, with ``create``, where it cannot be told);
    ``time_unit`` (s, ms, us, ns) is the unit of epoch numbers, ``timezone`` the zone of times that do not name one (default UTC).
    ``tag_from_path`` such as ``{group}/{metric}.csv`` takes tags from the end of each path. ``create`` makes the table if there is
    none, with ``tags`` as its tags and types by inference. Bad rows go to the file ``rejects``. Files that were ingested before and
    did not change are skipped unless ``again``. ``memory_limit`` bytes default to a quarter of the machine's. For BLOB columns
    ``blob`` names the files' columns of paths, relative to the file they are in, of what is to become blobs; with ``create`` they
    are there in place of these.

    Raises NotFound, InvalidInput (what was committed until then stays), ReadOnly.
    """
    started = clock.perf_counter()
    sources = find_sources(paths, format, tag_from_path)
    options = TimeOptions(time, time_unit, timezone)
    limit = memory_limit or memory_default()
    with _Reader(store.threads, limit) as reader:
        made = partial(infer_schema, reader.connection, sources, tags, options, blob or {}) if create else None
        target, created = _target(store, table or table_name(sources), sources, tags, made)
        options.table_gives = target.options.time_is_now
        try:
            job = _Job(store, target, reader, sources, options, limit, again, blob_columns(target.schema, blob or {}))
            with RejectFile(rejects, more=job.resumes()) as reject_file:
                inserted, updated = job.run(reject_file, on_progress)
        except BaseException:
            if created and not store.entry(target.name).files:
                with suppress(Error):
                    store.drop_table(target.name)
            raise
    rejected = reject_file.count
    seconds = clock.perf_counter() - started
    schema = create_table_text(target) if created else None
    notes = (*job.notes, *options.finish(), *(f"rejected: {example}" for example in reject_file.examples))
    return IngestReport(job.read, inserted, updated, rejected, seconds, target.name, job.files, schema, notes)


class _Reader:
    """What files are read with: threads for CSV, as many as memory allows, and DuckDB for Parquet, started when first needed."""

    def __init__(self, threads: int, limit: int) -> None:
        self._config = {"threads": max(1, threads), "memory_limit": f"{_reader_bytes(limit)}B"}
        self.csv_threads = max(1, min(threads, _reader_bytes(limit) // PIECE_COST))
        self._connection: Any = None

    def connection(self) -> Any:
        """The one connection."""
        if self._connection is None:
            from tsdb.exec.duck_instance import instance

            self._connection = instance(**self._config)
            for setting in ("arrow_large_buffer_size=true", "preserve_insertion_order=true"):
                self._connection.execute(f"SET {setting}").fetchall()
        return self._connection

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()


def _reader_bytes(limit: int) -> int:
    return max(READER_BYTES_MIN, limit // READER_SHARE)


def _target(
    store: Store, name: str, sources: Sequence[Source], tags: Sequence[str], schema: Callable[[], Schema] | None
) -> tuple[Table, bool]:
    """The table to fill, and whether it was made just now, of ``schema``."""
    try:
        table = store.table(name)
    except NotFound as error:
        if schema is None:
            raise NotFound(f"{error}; create=True (--create) makes it from the files") from None
        return store.create_table(name, schema()), True
    for tag in (*tags, *sources[0].path_tags):
        column = table.schema.by_name.get(tag)
        if column is None or column.role is Role.TIME or (tag in tags and column.role is not Role.TAG):
            tags_text = ", ".join(c.name for c in table.schema.tags) or "none"
            raise InvalidInput(f"table {table.name!r} has no tag {tag!r}; its tags: {tags_text}")
    return table, False


@dataclass
class _Job:
    """One ingest: what it reads, into what, and how far it is."""

    store: Store
    table: Table
    reader: _Reader
    sources: list[Source]
    options: TimeOptions
    memory_limit: int
    again: bool
    blobs: dict[str, str]
    read: int = 0
    files: int = 0
    notes: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    rows_seen: int = 0
    bytes_before: int = 0
    bytes_here: float = 0.0
    path: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    put: PutBlob = field(init=False)

    def resumes(self) -> bool:
        """Whether some source was left half-read."""
        known = self.store.entry(self.table.name).sources
        return not self.again and any(not known[source.path].finished for source in self.sources if source.path in known)

    def run(self, rejects: RejectFile, on_progress: Callable[[Progress], None] | None) -> tuple[int, int]:
        """Read and commit everything; (inserted, updated). Rejects are told when what surrounds them is committed."""
        inserted = updated = 0
        total = sum(source.bytes for source in self.sources)

        def show() -> None:
            if on_progress is not None:
                on_progress(Progress(self.rows_seen, min(total, self.bytes_before + int(self.bytes_here)), total, self.path))

        with self.store.writer.blobs(self.table) as self.put:
            chunks = Ahead(self._chunks(), 1, show, self.stop)
            try:
                for chunk in chunks:
                    show()
                    report = self.store.write_pieces(self.table.name, chunk.columns, chunk.sources)
                    chunk.columns.clear()
                    rejects.add(chunk.rejects)
                    inserted, updated = inserted + report.inserted, updated + report.updated
            finally:
                chunks.close()
        show()
        return inserted, updated

    def _chunks(self) -> Iterator[Chunk]:
        """Everything to commit, in order of the sources. Runs in the reading thread."""
        budget = max(CHUNK_BYTES_MIN, int((self.memory_limit - _reader_bytes(self.memory_limit)) / COPIES))
        builder = ChunkBuilder(TextPools(self.table.schema), budget, self.table.options.file_rows_max)
        ignored: dict[str, None] = {}
        for source in self.sources:
            self.path, self.bytes_here = source.path, 0.0
            known = self.store.entry(self.table.name).sources.get(source.path)
            start, note = resume_point(source, known, append=not self.table.options.overlays, again=self.again)
            if note:
                (self.unchanged if start is None else self.notes).append(note)
            if start is not None:
                self.files += 1
                plan = self._plan(source)
                if plan is None:
                    builder.sources[source.path] = source.record(start, 0, finished=True)
                else:
                    ignored.update(dict.fromkeys(plan.ignored))
                    yield from self._read(plan, builder, start, known.rejected if known is not None and start.rows else 0)
            self.bytes_before += source.bytes
        self._note_what_was_left_out(list(ignored))
        if builder.row_count or builder.sources:
            yield builder.take()

    def _note_what_was_left_out(self, ignored: list[str]) -> None:
        if len(self.unchanged) > UNCHANGED_NAMED_MAX:
            count = len(self.unchanged)
            self.unchanged = [f"{count:,} files were ingested before and are unchanged; ask for them again to read them anew"]
        self.notes += self.unchanged
        if ignored:
            self.notes.append(f"columns that table {self.table.name!r} does not have were left out: {', '.join(ignored)}")

    def _plan(self, source: Source) -> FilePlan | None:
        if source.format == "csv":
            return plan_csv(source, self.table.schema, self.options, self.blobs)
        return plan_parquet(self.reader.connection(), source, self.table.schema, self.options, self.blobs)

    def _blocks(self, plan: FilePlan, pools: TextPools, start: Position) -> Iterator[Block]:
        if plan.layout is not None:
            return read_csv_blocks(plan, pools, start, self.reader.csv_threads)
        return read_parquet_blocks(self.reader.connection(), plan, pools, start)

    def _contents(self, block: Block, name: str, pools: TextPools, source: Source) -> Vector:
        """What is in the files that a column of a block names."""
        paths = block.columns[name]
        if paths.pool is INTERNED:
            paths = Vector(paths.type, paths.values, paths.validity, pools.pools[name].pool)
        return contents_of(
            paths, os.path.dirname(os.path.abspath(source.path)), self.table.options.blob_limits(name), self.put, name
        )

    def _read(self, plan: FilePlan, builder: ChunkBuilder, start: Position, rejected: int) -> Iterator[Chunk]:
        """One file's chunks; its last rows stay in the builder."""
        source, reached = plan.source, start
        row_bytes = source.bytes / max(1, plan.row_estimate())
        for block in self._blocks(plan, builder.pools, start):
            if self.stop.is_set():
                return
            for name in self.blobs:
                block.columns[name] = self._contents(block, name, builder.pools, source)
            builder.add(block)
            rejected += len(block.rejects)
            reached = block.position
            self.rows_seen += block.row_count
            self.bytes_here = min(float(source.bytes), reached.rows * row_bytes)
            if builder.full(BATCH_ROWS):  # before the next block is looked up, whose strings belong to the next chunk
                builder.sources[source.path] = source.record(reached, rejected, finished=False)
                yield builder.take()
        self.read += reached.rows - start.rows
        builder.sources[source.path] = source.record(reached, rejected, finished=True)
