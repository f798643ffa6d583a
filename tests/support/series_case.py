"""A table of several devices with gaps, NULLs and counters, in tsdb and in DuckDB, for the words of time series."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tsdb
from support.twin import Twin

DDL = "time TIMESTAMP_NS TIME, host STRING TAG, rack INT32 TAG, v DOUBLE FIELD, n INT64 FIELD, note STRING FIELD"
START = datetime.datetime(2024, 3, 30)
#: How the rows lie: pieces of a twin, by name.
LAYOUTS: dict[str, dict[str, int]] = {
    "one file": {},
    "small pages, three files": {"page_rows": 4, "files": 3},
    "files and memory": {"page_rows": 7, "files": 2, "memory": 1},
    "memory": {"files": 1, "memory": 1},
}


def device_rows(seed: int = 5, minutes: int = 60 * 50) -> list[dict[str, str]]:
    """Rows of four devices (one whose host is NULL) over some fifty hours around a change of the clock in Europe."""
    rng, rows = random.Random(seed), []
    for host, rack in (("'a'", "1"), ("'a'", "2"), ("'b'", "1"), ("NULL", "NULL")):
        at, count = rng.randrange(40), 0
        while at < minutes:
            count = 0 if rng.random() < 0.1 else count + rng.randrange(50)
            rows.append(
                {
                    "time": f"TIMESTAMP_NS '{START + datetime.timedelta(minutes=at)}.{rng.randrange(10**9):09d}'",
                    "host": host,
                    "rack": rack,
                    "v": "NULL" if rng.random() < 0.2 else str(round(rng.uniform(-5, 5), 3)),
                    "n": "NULL" if rng.random() < 0.15 else str(count),
                    "note": rng.choice(["'x'", "'it''s'", "NULL"]),
                }
            )
            at += rng.randrange(1, 50) + (rng.random() < 0.1) * 300
    return rows


class SeriesTwin(Twin):
    """A twin whose table ``t`` is that of ``DDL``; ``empty`` has the same columns and no rows."""

    def __init__(self, folder: Path, rows: list[dict[str, str]], **pieces: int) -> None:
        super().__init__(folder, rows, ddl=DDL, **pieces)
        self.db.sql(f"CREATE TABLE empty ({DDL})")
        self.duck.execute("CREATE TABLE empty AS FROM t LIMIT 0")

    def same(self, ours: str, theirs: str, params: Any = None, *, ordered: bool = False) -> list[tuple[Any, ...]]:
        """Assert that our words mean what DuckDB's do, with native operators and without; the rows."""
        wanted = self.duck.execute(theirs, params or []).fetchall()
        for native in (True, False):
            found = self.found(ours, params, native=native)
            assert_same(found, wanted, ordered=ordered, what=f"{ours}\nnative={native}")
        return wanted

    def model(self, ours: str, wanted: Sequence[tuple[Any, ...]], params: Any = None, *, ordered: bool = False) -> None:
        """Assert that our words give the rows of a model."""
        for native in (True, False):
            assert_same(self.found(ours, params, native=native), wanted, ordered=ordered, what=f"{ours}\nnative={native}")

    def found(self, sql: str, params: Any = None, *, native: bool = True) -> list[tuple[Any, ...]]:
        """tsdb's rows."""
        return self.db.sql(sql, params, settings={"enable_native_operators": native}).fetchall()

    def columns(self, sql: str) -> list[str]:
        """The names that tsdb shows, the same with native operators and without."""
        native, duck = (list(self.db.sql(sql, settings={"enable_native_operators": on}).columns) for on in (True, False))
        assert native == duck
        return native

    def refused(self, sql: str, params: Any = None) -> str:
        """The message with which a statement is refused: one line, the same either way."""
        messages = set()
        for native in (True, False):
            try:
                self.found(sql, params, native=native)
            except tsdb.Error as error:
                messages.add(str(error))
            else:
                raise AssertionError(f"not refused: {sql}")
        assert len(messages) == 1, messages
        [message] = messages
        assert "\n" not in message
        return message


def series_twins(folder: Path, layout: str) -> Iterator[SeriesTwin]:
    """A twin for a fixture."""
    made = SeriesTwin(folder, device_rows(), **LAYOUTS[layout])
    yield made
    made.close()


def assert_same(found: Sequence[tuple[Any, ...]], wanted: Sequence[tuple[Any, ...]], *, ordered: bool, what: str) -> None:
    """Equal rows, floats but for the last digits; in the same order if ``ordered``."""
    left, right = ([tuple(row) for row in rows] for rows in (found, wanted))
    if not ordered:
        left.sort(key=_sortable)
        right.sort(key=_sortable)
    assert len(left) == len(right), f"{what}\n{len(left)} rows, not {len(right)}"
    for one, other in zip(left, right, strict=True):
        assert len(one) == len(other), what
        assert all(_equal(a, b) for a, b in zip(one, other, strict=True)), f"{what}\n{one}\n{other}"


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def _sortable(row: tuple[Any, ...]) -> list[tuple[bool, str]]:
    return [(value is None, f"{value:.6g}" if isinstance(value, float) else repr(value)) for value in row]
