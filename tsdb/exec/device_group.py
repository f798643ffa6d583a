"""Groups of devices: those that agree in some of their tags or attributes, numbered in the order of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tsdb.exec.order import device_ranks
from tsdb_format.types import Role

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable


class DeviceGroups(NamedTuple):
    """``number`` of each device's group, below ``size`` and ascending by the keys, NULL last. ``example``: a device of each."""

    number: NDArray[np.int32]
    size: int
    example: NDArray[np.int32]


_GROUPS: WeakKeyDictionary[DeviceTable, dict[tuple[str, ...], DeviceGroups]] = WeakKeyDictionary()


def device_groups(devices: DeviceTable, names: tuple[str, ...]) -> DeviceGroups:
    """The groups of a table's devices by the tags and attributes ``names``; one group for no names. Found once per device table."""
    known = _GROUPS.setdefault(devices, {})
    found = known.get(names)
    if found is None:
        found = known[names] = _found(devices, names)
    return found


def _found(devices: DeviceTable, names: tuple[str, ...]) -> DeviceGroups:
    if names == tuple(tag.name for tag in devices.schema.tags):
        return DeviceGroups(devices.rank, devices.count, devices.by_rank)
    return grouped([_last_null(device_ranks(devices, name)) for name in names], devices.count)


def grouped(keys: list[NDArray[np.int64]], count: int) -> DeviceGroups:
    """The groups of ``count`` devices that agree in all of some integer keys, ascending by these."""
    if not keys or not count:
        present = min(count, 1) if keys else 1
        return DeviceGroups(np.zeros(count, np.int32), present, np.zeros(min(present, count), np.int32))
    order = np.lexsort(keys[::-1])
    new = np.zeros(count, np.bool_)
    new[0] = True
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    number = np.empty(count, np.int32)
    number[order] = np.cumsum(new, dtype=np.int32) - 1
    return DeviceGroups(number, int(np.count_nonzero(new)), order[new].astype(np.int32))


def _last_null(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranks with NULL, -1 there, after all."""
    return np.where(ranks < 0, np.iinfo(np.int64).max, ranks)


def is_by_device(devices: DeviceTable, names: tuple[str, ...]) -> bool:
    """Whether every group is one device: all tags are among the keys."""
    return {column.name for column in devices.schema if column.role is Role.TAG} <= set(names)
