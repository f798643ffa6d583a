"""Snapshots: what one query sees. Immutable, and pinned for as long as somebody holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tsdb.catalog.device import DeviceTable
from tsdb.catalog.table import Table
from tsdb_format.reader import TsFile


class OpenFile:
    """One data file of a table. Opened when first needed, so that a damaged file is named then and hides no other.

    ``name`` is relative to the database; ``row_count``, ``min_time``, ``max_time`` and the sequence bounds come from the manifest
    and are known without opening it. ``file`` and ``device_number`` (file device → table-wide number) raise Corruption or NotFound.
    """

    name: str
    row_count: int
    min_time: int
    max_time: int
    min_sequence: int
    max_sequence: int

    @property
    def file(self) -> TsFile:
        """The open file."""
        raise NotImplementedError

    @property
    def device_number(self) -> NDArray[np.int32]:
        """Table-wide number of each of the file's devices."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class TableSnapshot:
    """A table as of one manifest version. ``files`` ascend by ``max_sequence``; ``now_ns`` is the clock that TTL is measured by."""

    table: Table
    files: tuple[OpenFile, ...]
    devices: DeviceTable
    sequence: int
    now_ns: Callable[[], int]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The database as of one manifest version. Tables are opened when they are first asked for."""

    version: int
    sequence: int
    tables: Mapping[str, TableSnapshot]
