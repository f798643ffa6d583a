"""Chunks: as many rows as one commit takes, gathered from blocks of one file or many, within a budget of memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tsdb.ingest.block import INTERNED, Block, TextPools
from tsdb.ingest.reject import Reject
from tsdb.storage.batch import Pieces
from tsdb.storage.manifest import SourceEntry
from tsdb_format.vector import Pool, Vector

T = TypeVar("T")

#: What a reject costs besides its line.
REJECT_BYTES = 400


@dataclass(slots=True)
class Chunk:
    """The rows of one commit, those refused among them, and how far it brings each source."""

    columns: dict[str, Pieces]
    row_count: int
    sources: list[SourceEntry]
    rejects: list[Reject]


@dataclass(slots=True)
class ChunkBuilder:
    """Gathers blocks. ``bytes_max`` bounds what is held here, ``rows_max`` the rows of one file of the database."""

    pools: TextPools
    bytes_max: int
    rows_max: int
    bytes: int = 0
    row_count: int = 0
    rejects: list[Reject] = field(default_factory=list)
    sources: dict[str, SourceEntry] = field(default_factory=dict)
    _pieces: dict[str, list[Vector]] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Take a block's rows."""
        if block.row_count:
            missing = self._pieces.keys() - block.columns.keys()
            for name, vector in block.columns.items():
                if name not in self._pieces:
                    self._pieces[name] = [_nulls_like(vector, self.row_count)] if self.row_count else []
                self._pieces[name].append(vector)
                self.bytes += _bytes_of(vector)
            for name in missing:
                self._pieces[name].append(_nulls_like(self._pieces[name][0], block.row_count))
        self.row_count += block.row_count
        self.rejects += block.rejects
        self.bytes += sum(len(reject.raw) + REJECT_BYTES for reject in block.rejects)

    def full(self, next_rows: int) -> bool:
        """Whether ``next_rows`` more would be too many."""
        return self.bytes >= self.bytes_max or self.row_count + next_rows > max(self.rows_max, next_rows)

    def take(self) -> Chunk:
        """Hand over what was gathered and start anew."""
        columns: dict[str, Pieces] = {}
        for name, pieces in self._pieces.items():
            shared = self.pools.pools[name].pool if name in self.pools.pools else None
            pool = shared if shared is not None and len(shared) else Pool.of([b""])
            columns[name] = [Vector(v.type, v.values, v.validity, pool) if v.pool is INTERNED else v for v in pieces]
        chunk = Chunk(columns, self.row_count, list(self.sources.values()), self.rejects)
        self._pieces, self.sources, self.rejects = {}, {}, []
        self.bytes = self.row_count = 0
        self.pools.next_chunk()
        return chunk


def _bytes_of(vector: Vector) -> int:
    """Bytes of a vector; the pool that chunks share is nobody's."""
    return (vector if vector.pool is not INTERNED else Vector(vector.type, vector.values, vector.validity)).nbytes


def _nulls_like(vector: Vector, count: int) -> Vector:
    """NULLs for rows of files that lack a column."""
    import numpy as np

    values = np.zeros((count, *vector.values.shape[1:]), vector.values.dtype)
    pool = vector.pool if vector.pool is None or vector.pool is INTERNED else Pool.of([b""])
    return Vector(vector.type, values, np.zeros(count, np.bool_), pool)


class Ahead(Generic[T]):
    """Runs a generator in a thread, at most ``ahead`` items before the consumer is done with the one it has.

    Iterating yields the items and calls ``while_waiting`` now and then; an error in the thread is raised here. ``stop`` tells the
    generator too that nobody wants more.
    """

    def __init__(self, items: Iterator[T], ahead: int, while_waiting: Callable[[], None], stop: threading.Event) -> None:
        self._items = items
        self._slots = threading.Semaphore(1 + ahead)
        self._queue: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
        self._stop = stop
        self._while_waiting = while_waiting
        self._thread = threading.Thread(target=self._run, name="tsdb-ingest-read", daemon=True)

    def __iter__(self) -> Iterator[T]:
        self._thread.start()
        while True:
            try:
                item, error = self._queue.get(timeout=0.1)
            except queue.Empty:
                self._while_waiting()
                continue
            if error is not None:
                raise error
            if item is None:
                return
            yield item
            del item
            self._slots.release()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        self._slots.release()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                self._slots.acquire()
                if self._stop.is_set():
                    break
                item = next(self._items, None)
                self._queue.put((item, None))
                if item is None:
                    return
                del item
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, whatever it is
            self._queue.put((None, error))
        finally:
            with suppress(Exception):
                self._items.close()  # type: ignore[attr-defined]
