"""Values as text and as JSON."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

from tsdb_cli.value import as_json, as_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("", ""),
        (True, "true"),
        (3, "3"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (float("nan"), "nan"),
        (datetime.datetime(2026, 1, 1, 2, 3, 4), "2026-01-01 02:03:04"),
        (datetime.datetime(2026, 1, 1, 2, 3, 4, 120_000), "2026-01-01 02:03:04.120"),
        (datetime.datetime(2026, 1, 1, 2, 3, 4, 120_001), "2026-01-01 02:03:04.120001"),
        (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "2026-01-01 00:00:00+00:00"),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 1_000, datetime.UTC), "1969-12-31 23:59:59.001+00:00"),
        (datetime.date(2026, 1, 31), "2026-01-31"),
        (np.datetime64("2026-01-01T00:00:00.000000001", "ns"), "2026-01-01 00:00:00.000000001"),
        (np.datetime64("2026-01-01T00:00:00.500000000", "ns"), "2026-01-01 00:00:00.500"),
        (np.datetime64("2026-01-01T00:00:00", "s"), "2026-01-01 00:00:00"),
        (b"ab\x00'\\\xff", "ab\\x00\\x27\\x5C\\xFF"),
        (np.float64(1.5), "1.5"),
        ([1.0, None, 2.5], "[1.0, NULL, 2.5]"),
        (np.array([1.0, 2.0], np.float32), "[1.0, 2.0]"),
    ],
)
def test_text(value: object, text: str) -> None:
    assert as_text(value) == text


def test_json_has_no_nan() -> None:
    row = {"a": float("nan"), "b": float("-inf"), "c": [1.0, float("nan")], "d": None, "e": np.int64(7), "f": b"\x01"}
    assert json.loads(json.dumps(as_json(row), allow_nan=False)) == {
        "a": None, "b": None, "c": [1.0, None], "d": None, "e": 7, "f": "\\x01",
    }  # fmt: skip
