"""A small database that has one of everything, for tests that damage it or let its disk fail."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from support.kill_case import new_table
from support.live_condition import moment
from support.live_model import Condition, LiveModel, LiveTable, batch_of, rows_of
from support.live_query import Observer
from tsdb.session import Session
from tsdb.settings import Settings
from tsdb.storage.store import Store

_COLUMNS = "(time TIMESTAMP_MS TIME, host STRING TAG, rack INT32 TAG, usage DOUBLE, note STRING, owner STRING ATTRIBUTE)"
#: One change, to the store and to the model.
Change = tuple[Callable[[Store], object], Callable[[LiveModel], object]]


def session(store: Store) -> Session:
    """A session that asks from one thread."""
    return Session(store, Settings(threads=1))


def observer(store: Store, turn: int = 0) -> Observer:
    """Asks a store; ``turn`` says which questions come first."""
    return Observer(session(store), turn)


def sql(text: str) -> Callable[[Store], object]:
    """A statement as something to do."""
    return lambda store: session(store).run(text).fetchall()


def writes(name: str, seed: int, count: int, low: int = 0, high: int = 60) -> Change:
    """Some rows."""
    rng = random.Random(seed)
    codes = [(rng.randint(low, high), *(rng.randint(0, 4) for _ in range(5))) for _ in range(count)]

    def act(store: Store) -> object:
        table = new_table()
        return store.write_batch(name, batch_of(table, rows_of(table, codes)))

    return act, lambda model: model.tables[name].write(rows_of(model.tables[name], codes))


def creates(name: str) -> Change:
    """A table."""
    return sql(f"CREATE TABLE {name} {_COLUMNS} WITH (rows_per_page = 4)"), lambda model: model.tables.update({name: new_table()})


def deletes(name: str, low: int, high: int) -> Change:
    """The rows of host 'a' at some times."""
    first, last = moment(low), moment(high)
    condition = Condition("", lambda row: row["host"] == "a" and first <= row["time"] <= last)
    text = f"DELETE FROM {name} WHERE host = 'a' AND time BETWEEN TIMESTAMP '{first}' AND TIMESTAMP '{last}'"
    return sql(text), lambda model: model.tables[name].delete(condition)


def updates(name: str, value: str) -> Change:
    """An attribute."""
    condition = Condition("", lambda row: row["host"] == "b")
    text = f"UPDATE {name} SET owner = '{value}' WHERE host = 'b'"
    return sql(text), lambda model: model.tables[name].update(condition, "owner", value, 0)


#: A commit to table u that nothing else touches.
LATER = writes("u", 30, 2, 1_000, 1_010)
FLUSH: Change = (lambda store: store.flush(), lambda model: None)
_IN_FILES = [
    creates("t"), creates("u"), writes("t", 1, 20), writes("u", 2, 9), FLUSH, writes("t", 3, 15), FLUSH, deletes("t", 10, 40),
    updates("t", "someone"), writes("t", 4, 8, 30, 90), FLUSH,
]  # fmt: skip
_IN_LOG = [writes("t", 5, 6), deletes("t", 5, 50), writes("u", 6, 3), updates("t", "somebody else")]
_IN_LOG_LATER = [writes("t", 7, 5, 50, 90), writes("u", 8, 2), writes("t", 9, 3)]


def build(path: Path) -> list[LiveModel]:
    """Make the database in ``path``, as if its writer had just been killed; its states, from that in files to the newest.

    Two tables; files that overlap, deletes and attributes; and a log of two segments of which the second is not finished.
    """
    working = path.with_name(path.name + ".working")
    states = [LiveModel()]
    with Store.open(working, threads=1, background=False) as store:
        for change in _IN_FILES:
            _do(store, change, states)
        del states[:-1]
        for change in _IN_LOG:
            _do(store, change, states)
    with Store.open(working, threads=1, background=False) as store:
        for change in _IN_LOG_LATER:
            _do(store, change, states)
        shutil.copytree(working, path)
    shutil.rmtree(working)
    assert len(list((path / "log").iterdir())) == 2
    return states


def _do(store: Store, change: Change, states: list[LiveModel]) -> None:
    act, apply = change
    act(store)
    states.append(states[-1].copy())
    apply(states[-1])


def shows(store: Store, model: LiveModel) -> bool:
    """Whether a store has just the rows of a model."""
    return bool(shown(store, [model]))


def shown(store: Store, models: list[LiveModel]) -> list[int]:
    """Which of the models have just the rows of a store."""
    asking = session(store)
    tables = {row[0] for row in asking.run("SHOW TABLES").fetchall()}
    found = {name: Counter(asking.run(f"SELECT * FROM {name}").fetchall()) for name in tables}
    return [number for number, model in enumerate(models) if found == {name: _rows(table) for name, table in model.tables.items()}]


def _rows(table: LiveTable) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.visible(0))
