"""Memory is used again when nothing has it any more, and never while anything does."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tsdb_format.recycling import Recycling

ITEMS = 1 << 16


def address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)


def test_memory_is_used_again_once_nothing_has_it() -> None:
    blocks = Recycling(4)
    first = blocks.array(ITEMS, np.uint64)
    place = address(first)
    view = first.view(np.float64)[5:]
    assert address(blocks.array(ITEMS, np.uint64)) != place
    del first
    assert address(blocks.array(ITEMS, np.uint64)) != place, "a view has it"
    shared = pa.py_buffer(view)
    del view
    assert address(blocks.array(ITEMS, np.uint64)) != place, "a buffer of Arrow's has it"
    del shared
    assert place in {address(blocks.array(ITEMS - 10, np.uint64)) for _ in range(4)}


def test_memory_of_another_size_is_left_alone() -> None:
    blocks = Recycling(4)
    place = address(blocks.array(ITEMS, np.uint64))
    few, many = blocks.array(ITEMS // 2 - 1, np.uint64), blocks.array(ITEMS + 1, np.uint64)
    assert place not in (address(few), address(many))
    assert len(few) == ITEMS // 2 - 1
    assert few.base is not None
    assert blocks.array(10, np.int32).base is None
    assert blocks.array(1 << 24, np.int32).base is None


def test_what_is_kept_is_forgotten_and_stays_as_it_is() -> None:
    blocks = Recycling(2)
    kept = [blocks.array(ITEMS, np.int64) for _ in range(6)]
    for number, array in enumerate(kept):
        array[:] = number
    for _ in range(10):
        blocks.array(ITEMS, np.int64)[:] = -1
    assert [set(array.tolist()) for array in kept] == [{number} for number in range(6)]


def test_threads_never_share_memory() -> None:
    blocks, wrong = Recycling(6), []

    def work(number: int) -> None:
        for turn in range(200):
            array = blocks.array(ITEMS // 2, np.int64)
            array[:] = number * 1_000 + turn
            if int(array.min()) != int(array.max()):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
