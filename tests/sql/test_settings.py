"""Settings: values in the forms people write them, and errors that say what fits."""

from __future__ import annotations

import pytest

import tsdb
from tsdb.settings import SETTINGS, Settings, find, parse_bytes, show


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("enable_topk_runtime_filter", "FALSE", False), ("enable_topk_runtime_filter", 0, False),
        ("ENABLE_TOPK_RUNTIME_FILTER", "on", True), ("threads", "3", 3), ("threads", 3.0, 3),
        ("memory_limit", "16 MiB", 16 * 2**20), ("memory_limit", "1.5GB", 1_500_000_000), ("memory_limit", 1_000, 1_000),
        ("durability", "Interval", "interval"), ("seek_to", "EARLIEST", "earliest"), ("seek_to", "2024-01-01", "2024-01-01"),
        ("streaming_join_key_domain_pushdown_max_rows", "1_000", 1_000),
    ],
)  # fmt: skip
def test_values(name: str, value: object, wanted: object) -> None:
    changed = Settings().changed({name: value})
    assert getattr(changed, name.lower()) == wanted
    assert type(getattr(changed, name.lower())) is type(wanted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable_topk_runtime_filter", "maybe"), ("enable_topk_runtime_filter", 2), ("threads", 0), ("threads", "a few"),
        ("threads", 1.5), ("threads", True), ("memory_limit", "16 MiBs"), ("memory_limit", -1), ("durability", "never"),
        ("durability", 1), ("seek_to", ""), ("result_set_materialization_max_size", 2**63),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(name: str, value: object) -> None:
    with pytest.raises(tsdb.InvalidInput, match=name):
        Settings().changed({name: value})


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(tsdb.NotFound, match="did you mean memory_limit"):
        find("memory_limits")
    with pytest.raises(tsdb.NotFound, match="SHOW SETTINGS"):
        find("xyz")


def test_a_change_leaves_the_original_alone() -> None:
    before = Settings()
    after = before.changed([("enable_native_operators", False)])
    assert before.enable_native_operators
    assert not after.enable_native_operators
    assert before.changed({}) is before
    assert before.planning != after.planning
    assert before.planning == before.changed({"threads": before.threads + 1}).planning


def test_every_setting_has_a_default_and_a_meaning() -> None:
    for info in SETTINGS.values():
        value = getattr(Settings(), info.name)
        assert info.parse(value) == value
        assert info.parse(show(value)) == value
        assert info.meaning


@pytest.mark.parametrize("text", ["", "MiB", "1 2", "1e3", "-5", "5 parsecs"])
def test_bytes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_bytes(text)
