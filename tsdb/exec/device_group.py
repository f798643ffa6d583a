"""Groups of devices: tags, attributes and expressions of them are decided once per device, never per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tsdb.catalog.tag_order import value_ranks
from tsdb.exec.order import device_ranks
from tsdb.plan.grouping import ColumnKey, ExpressionKey
from tsdb_format.vector import BoolArray, IntArray, Vector

if TYPE_CHECKING:
    from tsdb.catalog.device import DeviceTable
    from tsdb_format.errors import Error

DeviceKey = ColumnKey | ExpressionKey

#: As a mask of wanted devices: all of them.
_ALL = np.empty(0, np.bool_)
NOWHERE = np.empty(0, np.bool_)


class Evaluated(NamedTuple):
    """A key's value per device, NULL for those where it ``failed``, and what the ``failure`` was; None: it did nowhere."""

    values: Vector
    failed: BoolArray = NOWHERE
    failure: Error | None = None


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups 0..count-1 of a table's devices, ascending by their keys, NULL last. Without keys there is one, of all devices.

    ``of_device`` i64 is -1 for a device that is not wanted; ``members`` holds one device of each group. ``failures`` are those of
    expressions, with the groups of the devices for which they fail: that matters only where such a group has rows.
    """

    count: int
    of_device: IntArray
    members: IntArray
    failures: tuple[tuple[BoolArray, Error], ...] = ()

    def check(self, groups: IntArray) -> None:
        """Raise the failure of an expression for the devices of some groups."""
        for failed, failure in self.failures:
            if failed[groups].any():
                raise type(failure)(str(failure))

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
        failures = tuple((failed[kept], failure) for failed, failure in self.failures)
        return Groups(len(kept), of_device, first[kept], failures)


#: What devices are grouped by: columns' names and expressions' texts, whatever the keys are called.
_Known = tuple[str | tuple[str], ...]
_GROUPS: WeakKeyDictionary[DeviceTable, dict[_Known, Groups]] = WeakKeyDictionary()
_VALUES: WeakKeyDictionary[DeviceTable, dict[str, Evaluated]] = WeakKeyDictionary()
#: Groupings and expressions kept per device table: dashboards ask by the same few keys.
_KEPT_MAX = 16


def groups_of(devices: DeviceTable, keys: Sequence[DeviceKey], mask: BoolArray = _ALL) -> tuple[Groups, list[Vector]]:
    """The groups of the devices that ``mask`` leaves (empty: all), and each key's values per device."""
    known = tuple(key.column if isinstance(key, ColumnKey) else (key.sql,) for key in keys)
    evaluated = [_evaluated(devices, key) for key in keys]
    held = _GROUPS.setdefault(devices, {})
    found = held.get(known)
    if found is None:
        found = _made(devices, known, evaluated)
        _remember(held, known, found)
    return found.wanted(mask) if len(mask) and keys else found, [each.values for each in evaluated]


def _evaluated(devices: DeviceTable, key: DeviceKey) -> Evaluated:
    """A key for all devices."""
    if isinstance(key, ColumnKey):
        return Evaluated(devices.values(key.column))
    held = _VALUES.setdefault(devices, {})
    known = held.get(key.sql)
    if known is not None:
        return known
    from tsdb.exec.aggregate.expression import evaluate

    found = evaluate(key.sql, key.columns, key.type, devices)
    _remember(held, key.sql, found)
    return found


def _remember(held: dict[Any, Any], key: object, value: object) -> None:
    if len(held) >= _KEPT_MAX:
        held.clear()
    held[key] = value


def _made(devices: DeviceTable, known: _Known, evaluated: Sequence[Evaluated]) -> Groups:
    if not known:
        return Groups(1, np.zeros(devices.count, np.int64), np.zeros(1, np.int64))
    if known == tuple(tag.name for tag in devices.schema.tags):
        return Groups(devices.count, devices.rank.astype(np.int64), devices.by_rank.astype(np.int64))
    ranks = [_ranks(devices, key, each) for key, each in zip(known, evaluated, strict=True)]
    joined = ranks[0]
    for more in ranks[1:]:
        _, joined = np.unique(joined * (int(more.max(initial=0)) + 1) + more, return_inverse=True)
    _, first, of_device = np.unique(joined, return_index=True, return_inverse=True)
    failures = tuple((each.failed[first], each.failure) for each in evaluated if each.failure is not None)
    return Groups(len(first), of_device.astype(np.int64), first, failures)


def _ranks(devices: DeviceTable, key: str | tuple[str], evaluated: Evaluated) -> IntArray:
    """A rank per device of its key's value, NULL last, and behind it what failed."""
    if isinstance(key, str):
        ranks = device_ranks(devices, key)
        found: IntArray = np.where(ranks < 0, ranks.max(initial=0) + 1, ranks)
        return found
    ranks = value_ranks(evaluated.values)
    if evaluated.failure is not None:
        ranks[evaluated.failed] = ranks.max(initial=0) + 1
    return ranks
