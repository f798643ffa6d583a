"""A writer to be killed: a process that changes tables by a known plan and tells which steps were acknowledged.

    python -m support.kill_case PATH SEED MEMORY_LIMIT STEP…

One thread per table, each going on with its table's STEP. A line ``<table> <step>`` on standard output acknowledges a step. The
plan depends on the seed, the table and the step alone, so that whoever killed the process can tell what must be there.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.live_condition import literal, moment, quoted
from support.live_model import Condition, LiveColumn, LiveTable, batch_of, rows_of
from tsdb_format.types import Role

TABLES = ("a", "b", "c")
#: Rows from which a write goes around the log in that process.
DIRECT_ROWS = 40
_KINDS = ("rows", "rows", "rows", "rows", "rows", "rows", "many", "delete", "update", "add", "flush", "compact")
_CREATE = "(time TIMESTAMP_MS TIME, host STRING TAG, rack INT32 TAG, usage DOUBLE, note STRING, owner STRING ATTRIBUTE)"


def new_table() -> LiveTable:
    """The model of a table after its first step, which creates it."""
    named = [
        ("time", "TIMESTAMP_MS", Role.TIME),
        ("host", "STRING", Role.TAG),
        ("rack", "INT32", Role.TAG),
        ("usage", "DOUBLE", Role.FIELD),
        ("note", "STRING", Role.FIELD),
        ("owner", "STRING", Role.ATTRIBUTE),
    ]
    return LiveTable([LiveColumn(number, *column) for number, column in enumerate(named, 1)])


@dataclass(frozen=True)
class Step:
    """One step of a table's plan; step 1 creates the table."""

    table: str
    number: int
    seed: int

    @property
    def kind(self) -> str:
        """What it does."""
        return "create" if self.number == 1 else self._rng().choice(_KINDS)

    def _rng(self) -> random.Random:
        return random.Random(f"{self.seed} {self.table} {self.number}")

    def _details(self) -> random.Random:
        rng = self._rng()
        rng.choice(_KINDS)
        return rng

    def _rows(self, table: LiveTable) -> list[dict[str, Any]]:
        rng = self._details()
        count = DIRECT_ROWS + 20 if self.kind == "many" else rng.randint(1, 6)
        late = rng.random() < 0.3
        times = (self.number - 300, self.number) if late else (self.number, self.number + 9)
        return rows_of(table, [(rng.randint(*times), *(rng.randint(0, 4) for _ in range(6))) for _ in range(count)])

    def _condition(self, table: LiveTable) -> Condition:
        rng = self._details()
        low = self.number - rng.randint(0, 200)
        first, last = moment(low), moment(low + rng.randint(0, 30))
        time, host = table.time, table.of(Role.TAG)[0].name
        text = f"{quoted(time)} BETWEEN {literal(first)} AND {literal(last)}"
        if rng.random() < 0.5:
            return Condition(text, lambda row: first <= row[time] <= last)
        return Condition(f"{text} AND {quoted(host)} = 'a'", lambda row: first <= row[time] <= last and row[host] == "a")

    def apply(self, table: LiveTable) -> None:
        """Do it to the model."""
        match self.kind:
            case "rows" | "many":
                table.write(self._rows(table))
            case "delete":
                table.delete(self._condition(table))
            case "update":
                table.update(Condition("", lambda row: row["host"] == "b"), "owner", f"step {self.number}", 0)
            case "add" if table.columns[-1].name == "extra":
                table.drop_column("extra")
            case "add":
                table.add_column(LiveColumn(1_000 + self.number, "extra", "INT64", Role.FIELD))

    def run(self, store: Any, session: Any, table: LiveTable) -> None:
        """Do it to the store; ``table`` is the model as before the step."""
        match self.kind:
            case "create":
                session.run(f"CREATE TABLE {self.table} {_CREATE} WITH (rows_per_page = 4)")
            case "rows" | "many":
                store.write_batch(self.table, batch_of(table, self._rows(table)))
            case "delete":
                session.run(f"DELETE FROM {self.table} WHERE {self._condition(table).text}")
            case "update":
                session.run(f"UPDATE {self.table} SET owner = 'step {self.number}' WHERE host = 'b'")
            case "add" if table.columns[-1].name == "extra":
                session.run(f"ALTER TABLE {self.table} DROP COLUMN extra")
            case "add":
                session.run(f"ALTER TABLE {self.table} ADD COLUMN extra BIGINT")
            case "flush":
                store.flush()
            case "compact":
                store.compact(self.table)


def main(arguments: Sequence[str]) -> None:
    """Write until somebody kills this process."""
    import tsdb.storage.writer
    from tsdb.session import Session
    from tsdb.settings import Settings
    from tsdb.storage.store import Store

    path, seed, memory, *steps = arguments
    tsdb.storage.writer.DIRECT_ROWS = DIRECT_ROWS
    store = Store.open(path, threads=1, memory_limit=int(memory))
    session = Session(store, Settings(threads=1))

    def write(name: str, first: int) -> None:
        table = new_table()
        for number in range(1, first):
            Step(name, number, int(seed)).apply(table)
        number = first
        while True:
            step = Step(name, number, int(seed))
            step.run(store, session, table)
            os.write(1, f"{name} {number}\n".encode())
            step.apply(table)
            number += 1

    threads = [threading.Thread(target=write, args=(name, int(step))) for name, step in zip(TABLES, steps, strict=False)]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main(sys.argv[1:])
