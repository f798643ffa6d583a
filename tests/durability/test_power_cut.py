"""The machine stops while several threads commit, and flushes and compactions go on behind them: group commit keeps its word."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdb.storage.writer
from support.kill_case import DIRECT_ROWS, TABLES, Step, new_table
from support.plan_case import Progress
from support.soak import SEED, pick
from support.storage import Crash, CrashStorage
from tsdb.session import Session
from tsdb.settings import Settings
from tsdb.storage.check import check
from tsdb.storage.store import Store
from tsdb_format.errors import Error

#: Memory limits, as in ``test_kill``.
_MEMORY = (2**30, 400_000, 64_000)


def _commit(store: Store, name: str, progress: Progress, acknowledged: dict[str, int], failures: list[BaseException]) -> None:
    """Follow a table's plan until the machine stops."""
    session = Session(store, Settings(threads=1))
    table = progress.models[name].copy() if name in progress.models else new_table()
    number = progress.done[name] + 1
    try:
        while True:
            step = Step(name, number, progress.seed)
            step.run(store, session, table)
            acknowledged[name] = number
            step.apply(table)
            number += 1
    except Crash:
        pass
    except Error as error:
        if "no more writes" not in str(error):  # as after a flush that crashed
            failures.append(error)
    except BaseException as error:  # noqa: BLE001
        failures.append(error)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the world stops for the store's threads too
@pytest.mark.parametrize("number", range(pick(2, 20)))
def test_what_was_acknowledged_outlives_the_machine(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsdb.storage.writer, "DIRECT_ROWS", DIRECT_ROWS)
    seed = SEED + number
    rng = random.Random(seed)
    progress = Progress(seed)
    root = tmp_path / "0"
    root.mkdir()
    for count in range(1, pick(5, 15)):
        storage = CrashStorage(root)
        memory_limit = rng.choice(_MEMORY)
        with suppress(Crash):
            store = Store.open(root, threads=1, memory_limit=memory_limit, storage=storage)
            progress.settle(store)
            storage.crash_at = storage.operations + rng.choice([5, 50, 300, 1_000])
            acknowledged: dict[str, int] = {}
            failures: list[BaseException] = []
            arguments: list[Any] = [(store, name, progress, acknowledged, failures) for name in TABLES]
            threads = [threading.Thread(target=_commit, args=each) for each in arguments]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert storage.crashed
            assert not failures, failures
            print(f"seed {seed} crash {count} in {storage.calls[-1]}, acknowledged {acknowledged}")
            for name, last in acknowledged.items():
                while progress.done[name] < last:
                    progress.advance(name)
            store.close()
        root = tmp_path / f"{count}"
        storage.after_crash(root, np.random.default_rng(seed * 1_000 + count))
        root.mkdir(exist_ok=True)
    with Store.open(root, threads=1) as store:
        progress.settle(store)
        assert not list(check(store))
