"""The devices that a join's keys name, where the keys are tags: a key domain of whole tuples, asked once for a table's devices.

A domain for each column lets pass what has every part of some key; tuples let pass the keys alone. Few keys are looked up one by
one among the devices, by the hash that also numbers them; of more keys every device is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tsdb_format.vector import BoolArray, Vector

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable
    from tsdb.exec.join_key import KeyNumbers


class DeviceDomain:
    """The tuples that ``vectors`` hold, without NULLs, asked about the tags ``columns``."""

    def __init__(self, columns: Sequence[str], vectors: Sequence[Vector], *, as_points: bool) -> None:
        """``as_points``: look each tuple up where the columns are all tags of a table."""
        self.columns = tuple(columns)
        self._vectors = list(vectors)
        self._as_points = as_points
        self._numbers: KeyNumbers | None = None

    def wanted(self, devices: DeviceTable) -> BoolArray:
        """Which devices have one of the tuples."""
        tags = [column.name for column in devices.schema.tags]
        if self._as_points and sorted(tags) == sorted(self.columns):
            found = devices.find(dict(zip(self.columns, self._vectors, strict=True)), len(self._vectors[0]))
            mask = np.zeros(devices.count, np.bool_)
            mask[found[found >= 0]] = True
            return mask
        if self._numbers is None:
            from tsdb.exec.join_key import KeyNumbers

            self._numbers = KeyNumbers(len(self.columns))
            self._numbers.numbers(self._vectors, add=True)
        known: BoolArray = self._numbers.numbers([devices.values(name) for name in self.columns], add=False) >= 0
        return known
