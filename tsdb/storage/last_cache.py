"""The last cache: what the newest, or oldest, rows of a file's devices hold, kept between queries.

A column at a time, once it was asked of most devices: a vector with one value per device of the file. Files never change, so it is
never stale; it goes with its file, or when all files of the process hold more than the budget, the oldest first.
"""

from __future__ import annotations

from tsdb_format.encoding.kept import Kept
from tsdb_format.vector import Vector

#: What the edges of all files of the process hold.
LAST_CACHE = Kept(0)


class FileEdges:
    """The kept columns of one open file. Threads may share it: what two of them read at once is the same.

    A slot is a column's id and an edge of the devices' rows, as ``slot_of`` makes it.
    """

    def __init__(self) -> None:
        self._columns: dict[int, Vector] = {}

    @staticmethod
    def slot_of(column_id: int, *, newest: bool) -> int:
        """The slot of a column's values in the newest, or else the oldest, rows."""
        return 2 * column_id + newest

    def get(self, slot: int) -> Vector | None:
        """What is kept in a slot, one value per device of the file; its arrays must not be written."""
        return self._columns.get(slot)

    def keep(self, slot: int, column: Vector, bytes_max: int) -> None:
        """Keep a column, where it and what other files hold take no more than ``bytes_max`` bytes; older ones make room."""
        if column.nbytes <= bytes_max:
            self._columns[slot] = column
            LAST_CACHE.note(self, slot, column.nbytes, bytes_max)

    def let_go(self, slot: int) -> None:
        """Forget a column; readers that have it go on with it."""
        self._columns.pop(slot, None)
