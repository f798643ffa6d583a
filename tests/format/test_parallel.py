"""The shared threads: order, look-ahead, errors, and what a forked child has of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tsdb_format.parallel import ordered_map


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


def test_an_error_comes_at_its_place_and_nothing_runs_after() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    results = ordered_map(work, range(100), 2)
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
