"""Groups of devices: tags, attributes and expressions of them are decided once per device, never per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from tsdb.catalog.tag_order import value_ranks
from tsdb.exec.order import device_ranks
from tsdb.plan.grouping import ColumnKey, ExpressionKey
from tsdb_format.vector import BoolArray, IntArray, Vector

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable

DeviceKey = ColumnKey | ExpressionKey

_ALL = np.empty(0, np.bool_)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups 0..count-1 of a table's devices, ascending by their keys, NULL last. Without keys there is one, of all devices.

    ``of_device`` i64 is -1 for a device that is not wanted; ``members`` holds one device of each group.
    """

    count: int
    of_device: IntArray
    members: IntArray

    def wanted(self, mask: BoolArray) -> Groups:
        """The groups that some devices (mask by number) are in, renumbered."""
        devices = np.flatnonzero(mask)
        held = self.of_device[devices]
        first = np.full(self.count, -1, np.int64)
        first[held[::-1]] = devices[::-1]
        kept = np.flatnonzero(first >= 0)
        number = np.full(self.count, -1, np.int64)
        number[kept] = np.arange(len(kept))
        of_device = np.full(len(self.of_device), -1, np.int64)
        of_device[devices] = number[held]
        return Groups(len(kept), of_device, first[kept])


#: What devices are grouped by: columns' names and expressions' texts, whatever the keys are called.
_Known = tuple[str | tuple[str], ...]
_GROUPS: WeakKeyDictionary[DeviceTable, dict[_Known, Groups]] = WeakKeyDictionary()
_VALUES: WeakKeyDictionary[DeviceTable, dict[str, Vector]] = WeakKeyDictionary()
#: Groupings and expressions kept per device table: dashboards ask by the same few keys.
_KEPT_MAX = 16


def groups_of(devices: DeviceTable, keys: Sequence[DeviceKey], mask: BoolArray = _ALL) -> tuple[Groups, list[Vector]]:
    """The groups of the devices that ``mask`` leaves (empty: all), and each key's values per device."""
    known = tuple(key.column if isinstance(key, ColumnKey) else (key.sql,) for key in keys)
    evaluated = [_values(devices, key, mask) for key in keys]
    values = [vector for vector, _ in evaluated]
    held = _GROUPS.setdefault(devices, {})
    found = held.get(known)
    if found is None:
        found = _made(devices, known, values)
        if all(whole for _, whole in evaluated):
            _remember(held, known, found)
    return found.wanted(mask) if len(mask) and keys else found, values


def _values(devices: DeviceTable, key: DeviceKey, mask: BoolArray) -> tuple[Vector, bool]:
    """A key's value per device, and whether it is known for all of them."""
    if isinstance(key, ColumnKey):
        return devices.values(key.column), True
    held = _VALUES.setdefault(devices, {})
    known = held.get(key.sql)
    if known is not None:
        return known, True
    from tsdb.exec.aggregate.expression import evaluate

    found, whole = evaluate(key.sql, key.columns, key.type, devices, mask)
    if whole:
        _remember(held, key.sql, found)
    return found, whole


def _remember(held: dict[Any, Any], key: object, value: object) -> None:
    if len(held) >= _KEPT_MAX:
        held.clear()
    held[key] = value


def _made(devices: DeviceTable, known: _Known, values: Sequence[Vector]) -> Groups:
    if not known:
        return Groups(1, np.zeros(devices.count, np.int64), np.zeros(1, np.int64))
    if known == tuple(tag.name for tag in devices.schema.tags):
        return Groups(devices.count, devices.rank.astype(np.int64), devices.by_rank.astype(np.int64))
    ranks = [_ranks(devices, key, vector) for key, vector in zip(known, values, strict=True)]
    joined = ranks[0]
    for more in ranks[1:]:
        _, joined = np.unique(joined * (int(more.max(initial=0)) + 1) + more, return_inverse=True)
    _, first, of_device = np.unique(joined, return_index=True, return_inverse=True)
    return Groups(len(first), of_device.astype(np.int64), first)


def _ranks(devices: DeviceTable, key: str | tuple[str], vector: Vector) -> IntArray:
    """A rank per device of its key's value, NULL last."""
    if isinstance(key, tuple):
        return value_ranks(vector)
    ranks = device_ranks(devices, key)
    found: IntArray = np.where(ranks < 0, ranks.max(initial=0) + 1, ranks)
    return found
