"""The devices of a table: every distinct tuple of tags, numbered in order of first appearance.

On query paths a device is its number. The table-wide numbers are dense int32 and never change; ``rank`` gives each device's
position in tag order. Tags by number, ranks and attributes are arrays in one memory-mapped file per version, shared by all
snapshots that saw it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tsdb_format.schema import Schema
from tsdb_format.vector import Vector

Int32Array = NDArray[np.int32]


@dataclass(slots=True)
class DeviceTable:
    """Devices 0..count-1 of one table version.

    ``tags`` and ``attributes`` hold one value per device number; ``rank[number]`` is the device's position in tag order (ascending,
    strings bytewise, NULL last) and ``by_rank`` its inverse. Never changed once made.
    """

    schema: Schema
    count: int
    tags: dict[str, Vector]
    rank: Int32Array
    by_rank: Int32Array
    attributes: dict[str, Vector] = field(default_factory=dict)

    def resolve(self, tags: dict[str, Vector], row_count: int) -> tuple[Int32Array, DeviceTable]:
        """The device number of each row, and the table with the unknown devices added (itself where there are none).

        A tag that ``tags`` leaves out is NULL in every row.
        """
        raise NotImplementedError

    def find(self, tags: dict[str, Vector], row_count: int) -> Int32Array:
        """The device number of each row, or -1 where the table has no such device."""
        raise NotImplementedError
