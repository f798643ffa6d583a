"""Groups of devices, against tuples in a dict."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tsdb.catalog.device import DeviceTable
from tsdb.exec import device_group
from tsdb.exec.device_group import DeviceKey, groups_of
from tsdb.plan.grouping import ColumnKey, ExpressionKey
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.schema import Column, Schema
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_US, ColumnType, Role
from tsdb_format.vector import Pool, Vector

_SCHEMA = Schema((
    Column("time", TIMESTAMP_US, Role.TIME, 0), Column("host", STRING, Role.TAG, 1), Column("rack", INT64, Role.TAG, 2),
    Column("weight", DOUBLE, Role.ATTRIBUTE, 3),
))  # fmt: skip
_HOSTS = ["b", "a", "a", "b", None, "c", None, "c"]
_RACKS = [1, -5, None, 2, 1, None, None, 2**62]
_WEIGHTS = [-0.0, math.nan, None, 0.0, 1.5, math.nan, -1.5, 0.0]
_KEYS: list[list[DeviceKey]] = [
    [ColumnKey("host", "host"), ColumnKey("rack", "rack")], [ColumnKey("rack", "rack"), ColumnKey("host", "host")],
    [ColumnKey("host", "host")], [ColumnKey("weight", "weight")], [ColumnKey("weight", "weight"), ColumnKey("host", "host")], [],
    [ExpressionKey("e", "weight * -1", ("weight",), DOUBLE)],
    [ColumnKey("host", "host"), ExpressionKey("e", "upper(host)", ("host",), STRING)],
]  # fmt: skip


def _vector(kind: ColumnType, values: list[Any]) -> Vector:
    valid = np.array([value is not None for value in values])
    if kind == STRING:
        return Vector(kind, np.arange(len(values), dtype=np.int32), valid, Pool.of([(value or "").encode() for value in values]))
    return Vector(kind, np.array([0 if value is None else value for value in values], kind.physical), valid)


@pytest.fixture
def devices() -> DeviceTable:
    tags = {"host": _vector(STRING, _HOSTS), "rack": _vector(INT64, _RACKS)}
    numbers, made = DeviceTable.empty(_SCHEMA).resolve(tags, len(_HOSTS))
    return made.with_attributes(numbers, {"weight": _vector(DOUBLE, _WEIGHTS)})


def _order(value: Any) -> tuple[Any, ...]:
    """NULL last, before it NaN."""
    if value is None:
        return (2,)
    return (1,) if isinstance(value, float) and math.isnan(value) else (0, value)


@pytest.mark.parametrize("keys", _KEYS)
@pytest.mark.parametrize("wanted", [[], [0, 2, 3, 6], [5]])
def test_devices_that_agree_are_a_group(devices: DeviceTable, keys: list[DeviceKey], wanted: list[int]) -> None:
    mask = np.isin(np.arange(devices.count), wanted) if wanted else np.empty(0, np.bool_)
    groups, values = groups_of(devices, keys, mask)
    lists = [vector.to_physical_list() for vector in values]
    of = [tuple(_order(value[device]) for value in lists) for device in range(devices.count)]
    ordered = sorted({of[device] for device in wanted or range(devices.count)})
    if keys:
        assert groups.of_device.tolist() == [
            ordered.index(of[device]) if not wanted or device in wanted else -1 for device in range(devices.count)
        ]
        assert [of[member] for member in groups.members] == ordered
    else:
        assert groups.of_device.tolist() == [0] * devices.count
    assert groups.count == len(ordered)


def test_devices_for_which_an_expression_fails_are_a_group_of_their_own(devices: DeviceTable) -> None:
    keys = [ExpressionKey("e", "CASE WHEN host <> 'a' THEN host::BIGINT ELSE rack END", ("host", "rack"), INT64)]
    groups, (values,) = groups_of(devices, keys)
    failing = [device for device, host in enumerate(_HOSTS) if host not in (None, "a")]
    whole = [device for device in range(devices.count) if device not in failing]
    assert len({groups.of_device[device] for device in failing}) == 1
    assert values.take(np.array(whole)).to_physical_list() == [_RACKS[device] for device in whole]
    groups.check(groups.of_device[whole])
    for wanted in (groups, groups.wanted(np.isin(np.arange(devices.count), [1, 3]))):
        with pytest.raises(InvalidInput, match="Could not convert string"):
            wanted.check(wanted.of_device[[1, 3]])
    with pytest.raises(NotFound, match="nosuch"):
        groups_of(devices, [ExpressionKey("e", "nosuch(host)", ("host",), INT64)])


def test_groups_are_found_once_whatever_keys_are_called(devices: DeviceTable) -> None:
    one, _ = groups_of(devices, [ColumnKey("host", "host")])
    other, _ = groups_of(devices, [ColumnKey("h", "host")])
    assert one is other


def test_threads_that_ask_for_many_expressions(devices: DeviceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one thread has just found known another may forget at once."""

    class Forgetful(dict[Any, Any]):
        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            self.clear()
            return found

    key = ExpressionKey("e", "rack + 1", ("rack",), INT64)
    monkeypatch.setitem(device_group._VALUES, devices, Forgetful())
    for _ in range(2):
        _, (values,) = groups_of(devices, [key])
        assert values.to_physical_list() == [None if rack is None else rack + 1 for rack in _RACKS]
    with ThreadPoolExecutor(4) as threads:
        keys = [ExpressionKey("e", f"rack % {n}", ("rack",), INT64) for n in range(2, 40)]
        found = list(threads.map(lambda each: groups_of(devices, [each])[1][0], keys))
    assert [vector.to_physical_list()[0] for vector in found] == [1] * len(keys)
