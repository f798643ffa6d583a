"""Synthetic fleets: the rows are those of the seed, whatever the order they come in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tsdb_cli.fleet import COLUMNS, END_NS, INTERVAL_NS, PERCENTAGES, Fleet


def _rows(fleet: Fleet, order: str = "device") -> pa.Table:
    table = pa.concat_tables(fleet.tables(order))
    return table.cast(pa.schema([(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]))


@pytest.mark.parametrize("aligned", [False, True])
def test_both_orders_hold_the_same_rows(aligned: bool) -> None:
    fleet = Fleet(700, 1_500, aligned, seed=7)  # more rows than one group and one table hold
    by_device, by_time = _rows(fleet), _rows(fleet, "time")
    assert by_device.num_rows == by_time.num_rows == fleet.rows
    assert by_device.equals(by_time.sort_by([("host", "ascending"), ("time", "ascending")]))
    times = by_time["time"].cast(pa.int64()).to_numpy()
    assert np.all(times[1:] >= times[:-1])


def test_rows_look_like_a_fleet() -> None:
    fleet = Fleet(50, 2_000)
    table = _rows(fleet)
    assert tuple(table.column_names) == COLUMNS
    for name in PERCENTAGES:
        values = table[name].to_numpy()
        assert values.min() >= 0
        assert values.max() <= 100
        assert np.array_equal(np.rint(values * 100) / 100, values)
        assert 0.5 < np.abs(np.diff(values)).mean() < 1.5
    counter = table["packets"].to_numpy().reshape(50, 2_000)
    assert np.all(np.diff(counter, axis=1) >= 0)
    times = table["time"].cast(pa.int64()).to_numpy().reshape(50, 2_000)
    assert np.all(np.diff(times, axis=1) == INTERVAL_NS)
    assert len(np.unique(times[:, -1])) == 50
    assert times.max() == END_NS
    assert len(table["region"].unique()) > 1


def test_seeds_differ_and_repeat() -> None:
    assert _rows(Fleet(10, 100, seed=1)).equals(_rows(Fleet(10, 100, seed=1)))
    assert not _rows(Fleet(10, 100, seed=1)).equals(_rows(Fleet(10, 100, seed=2)))


def test_the_rows_of_a_seed_never_change() -> None:
    table = _rows(Fleet(3, 50, seed=1))
    assert table.slice(0, 1).to_pylist()[0]["host"] == "host_0000"
    sums = [round(sum(table[name].to_pylist()), 2) for name in PERCENTAGES]
    assert (sums, sum(table["packets"].to_pylist())) == ([7962.38, 5881.83, 6693.92, 6778.31, 10410.52], 1_706_119_915)


@pytest.mark.parametrize(("name", "devices", "ticks"), [("A", 1_000, 10_000), ("b", 10_000, 1_000), ("C", 100_000, 100)])
def test_named_fleets(name: str, devices: int, ticks: int) -> None:
    fleet = Fleet.named(name)
    assert (fleet.devices, fleet.ticks, fleet.rows) == (devices, ticks, 10_000_000)


def test_a_small_fleet_of_a_large_name_has_fewer_devices() -> None:
    assert Fleet.named("C", 1_000).devices == 100
    assert Fleet.named("A", 1).rows == 1
