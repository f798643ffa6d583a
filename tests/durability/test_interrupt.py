"""Ctrl-C between any two steps of a change: it happened or not, and what comes after it on the same handle is kept."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import pytest

import tsdb.storage.writer
from support.interrupt import Interrupts
from support.kill_case import new_table
from support.live_model import LiveModel, rows_of
from support.sample_case import FLUSH, LATER, Change, build, creates, deletes, observer, shows, sql, updates, writes
from support.soak import SOAK
from support.storage import CrashStorage
from tsdb.ingest.few_rows import row_of
from tsdb.storage.check import check
from tsdb.storage.store import Store
from tsdb_format.errors import Error


def _write_row(store: Store) -> None:
    row = row_of(dict(_ROW), store.table("t").schema)
    assert row is not None
    assert store.write_row("t", row) is not None


#: Of a device that the sample has.
_ROW = rows_of(new_table(), [(5_000, 1, 1, 2, 1)])[0]
COMPACT: Change = (lambda store: store.compact(), lambda model: None)
CHANGES: dict[str, Change] = {
    "write": writes("t", 20, 4),
    "write a row": (_write_row, lambda model: model.tables["t"].write([dict(_ROW)])),
    "write to a new device": writes("u", 21, 30, 500, 900),
    "write directly": writes("t", 22, 60),
    "delete": deletes("t", 0, 100),
    "update": updates("t", "nobody"),
    "create": creates("v"),
    "drop": (sql("DROP TABLE t"), lambda model: model.tables.pop("t")),
    "alter": (sql("ALTER TABLE t DROP COLUMN note"), lambda model: model.tables["t"].drop_column("note")),
    "flush": FLUSH,
    "compact": COMPACT,
}
#: Commits after the interruption: rows of devices that are known and of one that is not, around the log too, and files.
_AFTER = [LATER, writes("u", 31, 6, 2_000, 2_010), FLUSH, writes("u", 32, 2, 3_000, 3_010)]
#: About how many lines of a change are interrupted in `make test`.
_SAMPLE = 12
#: What moves a handle on, in one step as far as anybody can see.
_MOVING = ("install", "_move", "pin", "drop", "alter", "keep", "_replace")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LiveModel]:
    path = tmp_path_factory.mktemp("interrupt") / "db"
    return path, build(path)[-1]


def _opened(path: Path) -> Store:
    return Store.open(path, threads=1, background=False, storage=CrashStorage(path))


@pytest.mark.parametrize("name", CHANGES)
def test_an_interrupted_change_happened_or_not(
    sample: tuple[Path, LiveModel], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsdb.storage.writer, "DIRECT_ROWS", 50)
    _interrupt_all(tmp_path, sample, name, (), 1 if SOAK else 0)


@pytest.mark.parametrize("name", ["alter", "flush", "update"])
def test_a_handle_is_moved_on_as_a_whole_or_not_at_all(
    sample: tuple[Path, LiveModel], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line of what goes over to a new manifest, and of what puts merged rows in the place of their parts."""
    monkeypatch.setattr(tsdb.storage.writer, "DIRECT_ROWS", 50)
    _interrupt_all(tmp_path, sample, name, _MOVING, 1)


def _interrupt_all(path: Path, sample: tuple[Path, LiveModel], name: str, within: Collection[str], step: int) -> None:
    """Interrupt a change before every ``step``-th line of the functions ``within``, 0: before about ``_SAMPLE`` of them."""
    counting = Interrupts()
    for _ in range(2):  # what is done once in a process is not counted
        counting = Interrupts(within=within)
        shutil.copytree(sample[0], path / "counted")
        with _opened(path / "counted") as store:
            counting.run(lambda: CHANGES[name][0](store))
        shutil.rmtree(path / "counted")
    assert counting.lines
    for at in range(1, counting.lines + 1, step or 1 + counting.lines // _SAMPLE):
        interrupts = Interrupts(at, within)
        try:
            _interrupt(path / f"{at}", sample, CHANGES[name], interrupts)
        except BaseException as error:
            error.add_note(f"{name}, interrupted before line {at} of {counting.lines}: {interrupts.place}")
            raise
        shutil.rmtree(path / f"{at}")


def _interrupt(path: Path, sample: tuple[Path, LiveModel], change: Change, interrupts: Interrupts) -> None:
    shutil.copytree(sample[0], path)
    store = _opened(path)
    before, after = sample[1].copy(), sample[1].copy()
    change[1](after)
    states = [before, after]
    with suppress(KeyboardInterrupt):
        interrupts.run(lambda: change[0](store))
    if not interrupts.place:
        states = [after]
    _require(store, states)
    for act, apply in _AFTER:
        try:
            act(store)
        except Error as error:
            if "no more writes" not in str(error):
                raise
        else:
            for state in states:
                apply(state)
        _require(store, states)
    with suppress(Error):
        store.close()
    with _opened(path) as again:
        _require(again, states)
        assert not list(check(again))
        again.flush()
        again.compact()
        _require(again, states)
        assert not list(check(again))


def _require(store: Store, states: list[LiveModel]) -> None:
    if not any(shows(store, state) for state in states):
        observer(store).check(states[-1], 0)  # tells what differs
        raise AssertionError("neither as before the change nor as after it")
