"""The shared threads: order, look-ahead, errors, and what a forked child has of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from tsdb_format import parallel
from tsdb_format.parallel import ordered_map, shared_map


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("ahead", "first_alone"), [(0, False), (0, True), (1, False), (4, True)])
def test_results_come_in_order_and_few_are_ahead(threads: int, ahead: int, first_alone: bool) -> None:
    pulled = 0

    def items() -> Iterator[int]:
        nonlocal pulled
        for number in range(50):
            pulled += 1
            yield number

    for at, found in enumerate(ordered_map(lambda number: number * number, items(), threads, ahead=ahead, first_alone=first_alone)):
        assert found == at * at
        assert pulled <= at + 1 + (0 if threads == 1 else ahead or 2 * threads)
        assert at or not first_alone or pulled == 1


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(parallel, "perf_counter", lambda: self.now)


@pytest.mark.parametrize(("making", "away"), [(1.0, 2.0), (1.0, 0.5), (0.0, 0.0)])
@pytest.mark.parametrize("threads", [1, 2, 16])
def test_a_consumer_that_is_busy_makes_its_results_itself(
    making: float, away: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    pulled = 0

    def items() -> Iterator[int]:
        nonlocal pulled
        for number in range(50):
            pulled += 1
            yield number

    def work(number: int) -> tuple[int, int]:
        clock.now += making
        return number, threading.get_ident()

    for at, found in enumerate(shared_map(work, items(), threads)):
        assert found == (at, threading.get_ident())
        assert pulled == at + 1
        clock.now += away


@pytest.mark.parametrize("threads", [2, 3])
def test_a_consumer_that_waits_has_results_made_ahead(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    makers: list[int] = []
    pulled = most = 0

    def items() -> Iterator[int]:
        nonlocal pulled
        for number in range(60):
            pulled += 1
            yield number

    def work(number: int) -> int:
        makers.append(threading.get_ident())
        if makers[-1] == consumer:
            clock.now += 1
        return number

    consumer = threading.get_ident()
    for at, found in enumerate(shared_map(work, items(), threads)):
        assert found == at
        assert pulled <= at + 1 + 2 * threads
        most = max(most, pulled - at - 1)
        if at >= 40:  # from here on it is away for long
            clock.now += 3
        if at >= 50:
            assert pulled <= at + 2
    assert most == 2 * threads
    assert makers.count(consumer) < 30


def test_what_is_ahead_of_a_consumer_that_wants_no_more_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    begun: list[int] = []
    going_on = threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        clock.now += not number
        if number > 1:
            going_on.wait(60)
        return number

    results = shared_map(work, range(100), 2)
    assert [next(results), next(results)] == [0, 1]
    threading.Timer(0.05, going_on.set).start()
    results.close()  # type: ignore[attr-defined]  # a generator
    assert max(begun) <= 2
    made = len(begun)
    assert list(results) == []
    assert len(begun) == made


@pytest.mark.parametrize("way", [ordered_map, shared_map])
def test_an_error_comes_at_its_place_and_nothing_runs_after(way: Callable[..., Iterator[int]]) -> None:
    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    results = way(work, range(100), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
    assert list(results) == []


def test_a_forked_child_starts_threads_of_its_own() -> None:
    code = """
import os
from tsdb_format.parallel import ordered_map

assert list(ordered_map(abs, range(-9, 0), 2)) == list(range(9, 0, -1))
child = os.fork()
if child == 0:
    os._exit(0 if list(ordered_map(abs, range(-9, 0), 2)) == list(range(9, 0, -1)) else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, check=True, timeout=60)


def test_what_runs_at_exit_after_the_threads_have_ended_runs_by_itself() -> None:
    code = """
import atexit
from tsdb_format.parallel import Task, ordered_map, submit


def last():
    assert list(ordered_map(abs, range(-9, 0), 2)) == list(range(9, 0, -1))
    task = Task(lambda: "done")
    submit(task, 2)
    print(task.result())


atexit.register(last)
list(ordered_map(abs, range(-9, 0), 2))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("done\n", "")
