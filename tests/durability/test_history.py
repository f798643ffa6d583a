"""Any history of writes, deletes, schema changes, flushes, compactions, crashes and reopenings equals a dictionary's."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

import tsdb.storage.writer
from support.live_case import TIMES, Live, table_sql
from support.live_condition import conditions, literal, quoted
from support.live_model import VALUES, LiveColumn, LiveModel, LiveTable, batch_of, rows_of
from support.soak import SEED, pick
from tsdb_format.types import Role

_ALL = (Role.TIME, Role.TAG, Role.FIELD, Role.ATTRIBUTE)
_CODES = st.tuples(st.integers(*TIMES), st.integers(0, 4), st.integers(0, 2), *[st.integers(0, 4)] * 4)
_NAMES = ("usage", "note", "n", "owner", "x", "Weird name")
#: Rows from which a write goes around the log, in these tests.
_DIRECT_ROWS = 40
_HELD_MAX = 3


def _definition(ids: Iterator[int], mode: str) -> LiveTable:
    columns = [
        ("time", "TIMESTAMP_MS", Role.TIME),
        ("host", "STRING", Role.TAG),
        ("rack", "INT32", Role.TAG),
        ("usage", "DOUBLE", Role.FIELD),
        ("note", "STRING", Role.FIELD),
        ("owner", "STRING", Role.ATTRIBUTE),
    ]
    return LiveTable([LiveColumn(next(ids), *column) for column in columns], mode)


class History(RuleBasedStateMachine):
    """Two tables at most. Subclasses say how large pages are, and what is durable when."""

    rows_per_page: ClassVar[int] = 8192
    durability: ClassVar[str] = "commit"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="history-"))
        self.ids = itertools.count(1)
        self.live: Live

    @initialize(seed=st.integers(0, 999), memory=st.sampled_from([2**30, 200_000, 30_000]), data=st.data())
    def open(self, seed: int, memory: int, data: st.DataObject) -> None:
        self.live = Live(self.folder, durability=self.durability, memory_limit=memory, seed=seed + SEED)
        self._create("t", data)
        self._write_some("t", seed, 30, TIMES)

    def _create(self, name: str, data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(["table", "table", "table", "append"]), "mode")
        options = [f"rows_per_page = {self.rows_per_page}", f"mode = '{mode}'"]
        options.append(f"file_rows_max = {data.draw(st.sampled_from([16_777_216, 16_777_216, 30]), 'rows of a file')}")
        options += data.draw(st.sampled_from([[], [], ["partition = '16 ms'"]]), "partition")
        table = _definition(self.ids, mode)

        def change(model: LiveModel) -> None:
            model.tables[name] = table.copy()

        self._sql(table_sql(name, table, ", ".join(options)), change)

    def _sql(self, text: str, *changes: Callable[[LiveModel], object]) -> None:
        self.live.commit(lambda: self.live.session.run(text).fetchall(), *changes)

    def _table(self, data: st.DataObject) -> tuple[str, LiveTable]:
        name = data.draw(st.sampled_from(sorted(self.live.model.tables)), "table")
        return name, self.live.model.tables[name]

    def _has_table(self) -> bool:
        return bool(self.live.model.tables)

    def _has_rows(self) -> bool:
        return any(table.rows for table in self.live.model.tables.values())

    # ------------------------------------------------------------------------------------------------ rows

    @precondition(_has_table)
    @rule(data=st.data(), codes=st.lists(_CODES, min_size=1, max_size=8), given=st.integers(0, 7))
    def write(self, data: st.DataObject, codes: list[tuple[int, ...]], given: int) -> None:
        name, table = self._table(data)
        optional = [column.name for column in table.of(Role.FIELD, Role.ATTRIBUTE)]
        left_out = {column for place, column in enumerate(optional) if given & 1 << place}
        self._write(name, codes, [column.name for column in table.columns if column.name not in left_out])

    @precondition(_has_table)
    @rule(data=st.data(), seed=st.integers(0, 10**6))
    def write_late(self, data: st.DataObject, seed: int) -> None:
        self._write_some(self._table(data)[0], seed, 12, (TIMES[0], 20))

    @precondition(_has_table)
    @rule(data=st.data(), seed=st.integers(0, 10**6))
    def write_new(self, data: st.DataObject, seed: int) -> None:
        self._write_some(self._table(data)[0], seed, 12, (80, TIMES[1]))

    @precondition(_has_table)
    @rule(data=st.data(), seed=st.integers(0, 10**6), count=st.integers(_DIRECT_ROWS, 90))
    def write_directly(self, data: st.DataObject, seed: int, count: int) -> None:
        self._write_some(self._table(data)[0], seed, count, TIMES)

    def _write_some(self, name: str, seed: int, count: int, times: tuple[int, int]) -> None:
        rng = random.Random(seed)
        codes = [(rng.randint(*times), *(rng.randint(0, 4) for _ in range(6))) for _ in range(count)]
        self._write(name, codes, [column.name for column in self.live.model.tables[name].columns])

    def _write(self, name: str, codes: list[tuple[int, ...]], columns: list[str]) -> None:
        table = self.live.model.tables[name]
        rows = [{key: value for key, value in row.items() if key in columns} for row in rows_of(table, codes)]
        batch = batch_of(table, rows, columns)
        counts: list[tuple[int, int]] = []
        report = self.live.commit(
            lambda: self.live.store.write_batch(name, batch), lambda model: counts.append(model.tables[name].write(rows))
        )
        if report is not None:
            assert report.sequence == self.live.sequence
            if not table.hidden:
                assert (report.inserted, report.updated) == counts[0]

    @precondition(_has_rows)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name, table = self._table(data)
        rows = _ALL if table.mode == "table" else (Role.TIME, Role.TAG, Role.ATTRIBUTE)  # rows of a stream have no identity
        roles = data.draw(st.sampled_from([(Role.TIME,), (Role.TIME, Role.TAG), (Role.TIME, Role.TAG), rows]), "columns")
        condition = data.draw(conditions(table, TIMES, *roles), "condition")
        self._sql(f"DELETE FROM {quoted(name)} WHERE {condition.text}", lambda model: model.tables[name].delete(condition))

    @precondition(_has_rows)
    @rule(data=st.data())
    def delete_devices(self, data: st.DataObject) -> None:
        name, table = self._table(data)
        condition = data.draw(conditions(table, TIMES, Role.TAG, Role.ATTRIBUTE), "condition")
        text = f"DELETE DEVICES FROM {quoted(name)} WHERE {condition.text}"
        self._sql(text, lambda model: model.tables[name].delete_devices(condition))

    @precondition(_has_rows)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        name, table = self._table(data)
        attributes = table.of(Role.ATTRIBUTE)
        if attributes:
            column = data.draw(st.sampled_from(attributes), "attribute")
            value = data.draw(st.sampled_from(VALUES[column.kind]), "value")
            condition = data.draw(conditions(table, TIMES, Role.TAG, Role.ATTRIBUTE), "condition")
            text = f"UPDATE {quoted(name)} SET {quoted(column.name)} = {literal(value)} WHERE {condition.text}"
            now = self.live.clock_ms
            self._sql(text, lambda model: model.tables[name].update(condition, column.name, value, now))

    # ------------------------------------------------------------------------------------------------ tables

    @precondition(lambda self: len(self.live.model.tables) < 2)
    @rule(data=st.data(), name=st.sampled_from(["t", "other"]))
    def create(self, data: st.DataObject, name: str) -> None:
        if name not in self.live.model.tables:
            self._create(name, data)

    @precondition(_has_table)
    @rule(data=st.data(), make_anew=st.booleans())
    def drop(self, data: st.DataObject, make_anew: bool) -> None:
        name, _ = self._table(data)
        self._sql(f"DROP TABLE {quoted(name)}", lambda model: model.tables.pop(name))
        if make_anew and name not in self.live.model.tables:
            self._create(name, data)

    @precondition(_has_table)
    @rule(data=st.data(), new=st.sampled_from(_NAMES), kind=st.sampled_from(sorted(VALUES)), attribute=st.booleans())
    def alter(self, data: st.DataObject, new: str, kind: str, attribute: bool) -> None:
        name, table = self._table(data)
        taken = {column.name: column.role for column in table.columns}
        if new not in taken and len(table.columns) < 8:
            role = Role.ATTRIBUTE if attribute else Role.FIELD
            column = LiveColumn(next(self.ids), new, kind, role)
            text = f"ADD COLUMN {quoted(new)} {kind} {role.name}"
            self._sql(f"ALTER TABLE {quoted(name)} {text}", lambda model: model.tables[name].add_column(column))
        elif taken.get(new) in (Role.FIELD, Role.ATTRIBUTE):
            text = f"DROP COLUMN {quoted(new)}"
            self._sql(f"ALTER TABLE {quoted(name)} {text}", lambda model: model.tables[name].drop_column(new))

    @precondition(_has_table)
    @rule(data=st.data(), new=st.sampled_from((*_NAMES, "time", "host", "at", "machine")))
    def rename_column(self, data: st.DataObject, new: str) -> None:
        name, table = self._table(data)
        old = data.draw(st.sampled_from([column.name for column in table.columns]), "column")
        if new not in {column.name for column in table.columns}:
            text = f"ALTER TABLE {quoted(name)} RENAME COLUMN {quoted(old)} TO {quoted(new)}"
            self._sql(text, lambda model: model.tables[name].rename_column(old, new))

    @precondition(_has_table)
    @rule(data=st.data(), new=st.sampled_from(["t", "other", "third"]))
    def rename_table(self, data: st.DataObject, new: str) -> None:
        name, _ = self._table(data)

        def change(model: LiveModel) -> None:
            model.tables[new] = model.tables.pop(name)

        if new not in self.live.model.tables:
            self._sql(f"ALTER TABLE {quoted(name)} RENAME TO {quoted(new)}", change)

    @precondition(_has_table)
    @rule(data=st.data(), ttl=st.sampled_from([None, None, 200, 60, 30]))
    def set_ttl(self, data: st.DataObject, ttl: int | None) -> None:
        name, _ = self._table(data)

        def change(model: LiveModel) -> None:
            model.tables[name].ttl_ms = ttl

        text = "RESET TTL" if ttl is None else f"SET TTL '{ttl} ms'"
        self._sql(f"ALTER TABLE {quoted(name)} {text}", change)

    @rule(later=st.integers(1, 30))
    def wait(self, later: int) -> None:
        self.live.pass_time(later)

    # ------------------------------------------------------------------------------------------------ upkeep

    @rule()
    def flush(self) -> None:
        self.live.durable(self.live.store.flush)

    @rule()
    def compact(self) -> None:
        self.live.durable(self.live.store.compact)

    @rule()
    def tend(self) -> None:
        self.live.commit(lambda: self.live.store._maintenance._tend())
        self.live.commit(lambda: self.live.store._maintenance._compact())

    @rule()
    def reopen(self) -> None:
        self.live.reopen()

    @rule(operations=st.one_of(st.integers(1, 12), st.integers(1, 120)))
    def crash_soon(self, operations: int) -> None:
        self.live.crash_in(operations)

    @rule(again_in=st.sampled_from([0, 0, 1, 2, 5, 9, 20]))
    def crash(self, again_in: int) -> None:
        live = self.live
        live.recover([*live.older, live.model], again_in)

    # ------------------------------------------------------------------------------------------------ readers

    @precondition(lambda self: len(self.live.readers) < 2)
    @rule()
    def open_reader(self) -> None:
        self.live.open_reader()

    @precondition(lambda self: len(self.live.held) < _HELD_MAX)
    @rule(reader=st.sampled_from([None, 0, 1]))
    def hold_snapshot(self, reader: int | None) -> None:
        if reader is None or reader < len(self.live.readers):
            self.live.hold(reader)

    @precondition(lambda self: self.live.held)
    @rule()
    def let_go(self) -> None:
        self.live.check_held()
        self.live.held.pop(0)

    @precondition(_has_rows)
    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        name, table = self._table(data)
        condition = data.draw(conditions(table, TIMES, *_ALL), "condition")
        self.live.observer.where(name, table, condition, self.live.clock_ms)

    @invariant()
    def answers_are_the_models(self) -> None:
        self.live.observe(2)

    def teardown(self) -> None:
        try:
            if hasattr(self, "live"):
                self.live.check_held()
                self.live.close()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class SmallPages(History):
    rows_per_page = 4


class Unsynced(History):
    rows_per_page = 4
    durability = "off"


@pytest.mark.parametrize("machine", [History, SmallPages, Unsynced])
def test_any_history_equals_the_dictionary(machine: type[History], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsdb.storage.writer, "DIRECT_ROWS", _DIRECT_ROWS)
    phases = [Phase.generate] if os.environ.get("TSDB_NO_SHRINK") else [Phase.generate, Phase.shrink]
    examples, steps = pick(6, 400), pick(25, 60)
    chosen = settings(max_examples=examples, stateful_step_count=steps, derandomize=False, phases=phases)
    run_state_machine_as_test(seed(SEED)(machine), settings=chosen)
