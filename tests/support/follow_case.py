"""A writer whose every commit tells its number, and readers that check it: processes of their own.

    python -m support.follow_case write PATH MEMORY_LIMIT     until standard input ends; then tells the last commit's number
    python -m support.follow_case read PATH                   the same; then tells what it saw, as JSON

Commit n of the writer adds ``size(n)`` rows with ``n`` to table ``log``, and the commit after it overwrites all rows of table
``same`` with ``n``. So a count of ``log`` is that of a commit or it is wrong, and rows of ``same`` are alike.
"""

from __future__ import annotations

import json
import select
import sys
from dataclasses import dataclass
from typing import Any

HOSTS = 5


def size(number: int) -> int:
    """How many rows a commit has; large ones go around the log."""
    return 300 if number % 97 == 0 else 1 + number % 7


def total(number: int) -> int:
    """How many rows the first commits have together."""
    return sum(size(each) for each in range(1, number + 1))


def _is_over() -> bool:
    """Whether standard input has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def write(path: str, memory_limit: int) -> None:
    """Commit until standard input ends."""
    import numpy as np

    import tsdb.storage.writer
    from tsdb.session import Session
    from tsdb.settings import Settings
    from tsdb.storage.store import Store
    from tsdb_format.types import INT64, STRING, TIMESTAMP_MS
    from tsdb_format.vector import Pool, Vector

    tsdb.storage.writer.DIRECT_ROWS = 200
    pool = Pool.of([f"h{host}".encode() for host in range(HOSTS)])

    def batch(first: int, rows: int, number: int, late: bool) -> dict[str, Vector]:
        at = np.arange(first, first + rows)
        times = np.where(at % 3 == 0, at - 50, at) if late else np.zeros(rows, np.int64)
        return {
            "time": Vector(TIMESTAMP_MS, np.ascontiguousarray(times, np.int64) * (1 + late * 2) + (at % 3 if late else 0)),
            "host": Vector(STRING, (at % HOSTS).astype(np.int32), None, pool),
            "n": Vector(INT64, np.full(rows, number, np.int64)),
        }

    with Store.open(path, threads=1, memory_limit=memory_limit) as store:
        session = Session(store, Settings(threads=1))
        for name in ("log", "same"):
            session.run(f"CREATE TABLE {name} (time TIMESTAMP_MS TIME, host STRING TAG, n BIGINT) WITH (rows_per_page = 64)")
        print("ready", flush=True)
        number = rows = 0
        while not _is_over():
            number += 1
            store.write_batch("log", batch(rows, size(number), number, late=True))
            store.write_batch("same", batch(0, HOSTS, number, late=False))
            rows += size(number)
        print(json.dumps({"commits": number, **store.counters()}), flush=True)


@dataclass
class Fixed:
    """One snapshot, for several queries."""

    taken: Any
    mode: str = "r"

    def refresh(self) -> Any:
        """The snapshot."""
        return self.taken

    snapshot = refresh


def read(path: str) -> None:
    """Ask until standard input ends, and once more after it."""
    from tsdb.session import Session
    from tsdb.settings import Settings
    from tsdb.storage.store import Store

    refreshes = 0
    seen: set[int] = set()
    newest = last_count = 0
    totals = [0]
    kept: list[tuple[Any, int, int]] = []
    with Store.open(path, "r", threads=1) as store:
        over = False
        while not over:
            over = _is_over()
            snapshot = store.refresh()
            session = Session(Fixed(snapshot), Settings(threads=1))  # type: ignore[arg-type]
            [(count, number)] = session.run("SELECT count(*), coalesce(max(n), 0) FROM log").fetchall()
            same = {row[0] for row in session.run("SELECT n FROM same").fetchall()}
            top = [row[0] for row in session.run("SELECT n FROM log ORDER BY time DESC, host LIMIT 3").fetchall()]
            while len(totals) <= number:
                totals.append(totals[-1] + size(len(totals)))
            assert count == totals[number], f"{count} rows up to commit {number}, not {totals[number]}"
            assert number >= newest, f"commit {number} after commit {newest}"
            assert count >= last_count
            assert same in ({number}, {number - 1}) or (number <= 1 and not same), f"{same} beside commit {number}"
            assert all(each <= number for each in top)
            if not refreshes:
                print("ready", flush=True)
            refreshes, newest, last_count = refreshes + 1, number, count
            seen.add(number)
            if refreshes % 10 == 1:
                kept.append((session, count, number))
            if len(kept) > 3:
                older, before, then = kept.pop(0)
                assert older.run("SELECT count(*), coalesce(max(n), 0) FROM log").fetchall() == [(before, then)]
    print(json.dumps({"refreshes": refreshes, "states": len(seen), "commits": newest, "rows": last_count}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]))
    else:
        read(sys.argv[2])
