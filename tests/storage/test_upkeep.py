"""Check, backup and salvage after random histories: nothing is found, and both copies say what the database does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.damage_case import SCHEMA, contents, copy, files
from support.table_model import vectors_of
from tsdb.catalog.table import TableOptions, with_column, with_column_renamed, without_column
from tsdb.storage.backup import backup
from tsdb.storage.check import examine
from tsdb.storage.salvage import salvage
from tsdb.storage.store import Store
from tsdb_format.types import DOUBLE, STRING, Role
from tsdb_format.vector import Vector

HOSTS = ("a", "b", "c", "", None)


class History:
    """Random changes of one database."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._rng = np.random.default_rng(seed)
        self._tables = 0
        for mode in ("table", "append"):
            self._create(mode)

    def step(self) -> None:
        """Change something."""
        kinds = ("write", "write", "write", "write", "delete", "attribute", "flush", "compact", "alter", "table")
        kind = kinds[int(self._rng.integers(len(kinds)))]
        names = list(self._store.tables())
        getattr(self, f"_{kind}")(names[int(self._rng.integers(len(names)))])

    def _create(self, mode: str) -> None:
        self._tables += 1
        options = TableOptions(rows_per_page=4, mode=mode, file_rows_max=40)  # type: ignore[arg-type]
        self._store.create_table(f"t{self._tables}", SCHEMA, options)

    def _write(self, table: str) -> None:
        rng, schema = self._rng, self._store.table(table).schema
        low = int(rng.integers(0, 60))
        rows = [
            {
                "time": int(time),
                **{
                    tag.name: HOSTS[int(rng.integers(len(HOSTS)))] if tag.type == STRING else int(rng.integers(2))
                    for tag in schema.tags
                },
                **{
                    c.name: float(rng.integers(9)) if c.type == DOUBLE else f"x{rng.integers(5)}"
                    for c in schema.fields
                    if rng.random() < 0.7
                },
                **{
                    c.name: str(rng.integers(9))
                    for c in schema
                    if c.role is Role.ATTRIBUTE and c.type == STRING and rng.random() < 0.2
                },
            }
            for time in rng.integers(low, low + 20, int(rng.integers(1, 30)))
        ]
        given = [name for name in schema.by_name if any(name in row for row in rows)]
        self._store.write_batch(table, vectors_of(schema, rows, given))

    def _delete(self, table: str) -> None:
        rng = self._rng
        device = int(rng.integers(-1, max(0, self._store.snapshot().tables[table].devices.count)))
        low = int(rng.integers(0, 80))
        ranges = np.array([device], np.int32), np.array([low]), np.array([low + int(rng.integers(0, 9))])
        self._store.delete(table, lambda _: ranges)

    def _attribute(self, table: str) -> None:
        count = self._store.snapshot().tables[table].devices.count
        column = next((c for c in self._store.table(table).schema if c.role is Role.ATTRIBUTE and c.type == STRING), None)
        if count and column is not None:
            number = np.array([self._rng.integers(count)], np.int32)
            values: Vector = vectors_of(SCHEMA, [{"owner": f"o{self._rng.integers(9)}"}], ["owner"])["owner"]
            self._store.set_attributes(table, lambda _: (number, {column.name: values}))

    def _flush(self, _table: str) -> None:
        self._store.flush()

    def _compact(self, table: str) -> None:
        self._store.compact(table)

    def _alter(self, table: str) -> None:
        rng, schema = self._rng, self._store.table(table).schema
        fields = [column.name for column in (*schema.fields, *schema.tags)]
        name = fields[int(rng.integers(len(fields)))]
        match int(rng.integers(4)):
            case 0:
                kind, role = (DOUBLE, Role.FIELD) if rng.random() < 0.5 else (STRING, Role.ATTRIBUTE)
                self._store.alter_table(table, lambda t: with_column(t, f"c{t.next_column_id}", kind, role))
            case 1 if len(schema.fields) > 1:
                self._store.alter_table(table, lambda t: without_column(t, schema.fields[0].name))
            case 2:
                self._store.alter_table(table, lambda t: with_column_renamed(t, name, f"r{t.next_column_id}_{rng.integers(10**6)}"))
            case _:
                self._store.alter_table(table, lambda t: replace(t, name=f"n{t.id}_{rng.integers(10**6)}"))

    def _table(self, table: str) -> None:
        if self._rng.random() < 0.4 and len(self._store.tables()) > 1:
            self._store.drop_table(table)
        elif len(self._store.tables()) < 4:
            self._create("append" if self._rng.random() < 0.3 else "table")


@pytest.mark.parametrize("seed", range(6))
def test_after_random_histories(tmp_path: Path, seed: int) -> None:
    path, out = tmp_path / "db", tmp_path / "out"
    with Store.open(path, background=False) as store, Store.open(path, "r") as reader:
        history = History(store, seed)
        for number in range(60):
            history.step()
            if number % 6:
                continue
            expected = contents(store)
            assert list(examine(path)) == []
            with Store.open(path, "r") as fresh:
                assert contents(fresh) == expected
            backup(store if number % 4 else reader, out)
            assert list(examine(out)) == []
            with Store.open(out, "r") as copied:
                assert contents(copied) == expected
            report = salvage(copy(path, tmp_path / "copy"), tmp_path / f"salvaged{number}")
            assert report.lost == []
            assert list(examine(report.path)) == []
            with Store.open(report.path, "r") as salvaged:
                assert contents(salvaged) == expected
    assert len(files(out, "*.tsf")) > 1
