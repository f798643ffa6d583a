"""What writes are told and what they tell."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tsdb.catalog.device import Int32Array
from tsdb_format.vector import IntArray, Vector

_NO_DEVICES = np.empty(0, np.int32)
_NO_TIMES = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a write did: rows new to the table, rows that overlaid another one, and the commit's sequence number."""

    inserted: int
    updated: int
    sequence: int


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """A change of what is there, in one commit.

    Of each range ``deleted_device`` (−1: every device) loses its rows from ``deleted_low`` to ``deleted_high``, both included.
    ``attribute_devices`` get the values in ``attributes``, by column name; NULL takes a value away.
    """

    deleted_device: Int32Array = field(default_factory=lambda: _NO_DEVICES)
    deleted_low: IntArray = field(default_factory=lambda: _NO_TIMES)
    deleted_high: IntArray = field(default_factory=lambda: _NO_TIMES)
    attribute_devices: Int32Array = field(default_factory=lambda: _NO_DEVICES)
    attributes: dict[str, Vector] = field(default_factory=dict)
