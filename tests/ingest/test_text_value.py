"""Timestamps and whole numbers out of text: exact, or marked; never rounded, never the previous row's value."""

from __future__ import annotations

import datetime
import zoneinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.exec.kernels import text_value
from tsdb.exec.kernels.text_value import ABSOLUTE, BLANK, FINER, LOCAL, MALFORMED, OUTSIDE
from tsdb.ingest.instant import SKIPPED, TimeReading, guess_unit
from tsdb.ingest.zone import Zone
from tsdb_format.errors import InvalidInput
from tsdb_format.types import TIMESTAMP_MS, TIMESTAMP_NS, TIMESTAMP_S, TIMESTAMP_US
from tsdb_format.vector import Pool

NS = 10**9
NO_NULL = np.empty(0, np.bool_)
EPOCH = datetime.datetime(1970, 1, 1)


def _run(kernel: Any, mode: str, texts: list[str], *numbers: int, valid: np.ndarray = NO_NULL) -> list[tuple[int, int]]:
    pool = Pool.of([text.encode() for text in texts])
    values, status = np.empty(len(texts), np.int64), np.empty(len(texts), np.uint8)
    run = kernel.resolve(mode)
    failed = run(pool.offsets, pool.data, valid, *numbers, values, status)
    assert failed == int((status > (LOCAL if kernel is text_value.parse_times else ABSOLUTE)).sum())
    return list(zip(values.tolist(), status.tolist(), strict=True))


TIMES = [
    ("1970-01-01", 0, LOCAL),
    ("1970-01-01T00:00:00Z", 0, ABSOLUTE),
    ("1970-01-01t00:00:00z", 0, ABSOLUTE),
    ("1970-01-01 00:00", 0, LOCAL),
    ("  1970-01-01 00:00:01  ", NS, LOCAL),
    ("1970/1/1 0:00:01", NS, LOCAL),
    ("2020-01-01T00:00:00.123456789Z", 1577836800123456789, ABSOLUTE),
    ("2020-01-01T00:00:00,5", 1577836800500000000, LOCAL),
    ("2020-01-01T00:00:00.1234567890000", 1577836800123456789, LOCAL),
    ("2020-01-01T00:00:00.1234567891", 0, FINER),
    ("1969-12-31 23:59:59.999999999", -1, LOCAL),
    ("1969-12-31T23:59:59.5Z", -500_000_000, ABSOLUTE),
    ("2020-01-01 02:00:00+02:00", 1577836800 * NS, ABSOLUTE),
    ("2019-12-31 18:30:00 -0530", 1577836800 * NS, ABSOLUTE),
    ("2020-01-01 02:00:00+02", 1577836800 * NS, ABSOLUTE),
    ("2020-01-01 00:00:00 UTC", 1577836800 * NS, ABSOLUTE),
    ("2020-02-29", 1582934400 * NS, LOCAL),
    ("2262-04-11T23:47:14Z", 9223372034 * NS, ABSOLUTE),
    ("2262-04-12", 0, OUTSIDE),
    ("1677-09-01", 0, OUTSIDE),
    ("0001-01-01", 0, OUTSIDE),
    ("", 0, BLANK),
    ("   ", 0, BLANK),
    *(
        (bad, 0, MALFORMED)
        for bad in (
            "x",
            "2021-02-29",
            "2020-13-01",
            "2020-00-01",
            "2020-01-32",
            "2020-01-01T24:00",
            "2020-01-01T23:60",
            "2020-01-01T23:59:60",
            "2020-01-01T1",
            "2020-01-01T01",
            "2020-01-01T01:",
            "2020-01-01T01:1",
            "2020-01-01T01:01:",
            "2020-01-01T01:01:1",
            "2020-01-01T01:01:01.",
            "2020-01-01T01:01:01+",
            "2020-01-01T01:01:01+1",
            "2020-01-01T01:01:01+24:00",
            "2020-01-01T01:01:01 CET",
            "2020-01/01",
            "2020",
            "2020-",
            "2020-1",
            "2020-1-",
            "20200101",
            "0000-01-01",
            "1577836800",
            "null",
            "2020-01-01x01:01",
            "é",
        )
    ),
]


@pytest.mark.parametrize("mode", ["python", "jit"])
def test_times(mode: str) -> None:
    found = _run(text_value.parse_times, mode, [text for text, *_ in TIMES], NS)
    assert [(text, *pair) for (text, *_), pair in zip(TIMES, found, strict=True)] == TIMES


def test_a_failed_time_is_not_the_one_before() -> None:
    found = _run(
        text_value.parse_times, "auto", ["2020-01-01", "bad", "", "2020-01-01"], NS, valid=np.array([True, True, True, False])
    )
    assert found == [(1577836800 * NS, LOCAL), (0, MALFORMED), (0, BLANK), (0, BLANK)]


@pytest.mark.parametrize(
    ("text", "per_second", "expected"),
    [
        ("2020-01-01T00:00:00.5Z", 1, (0, FINER)),
        ("2020-01-01T00:00:00.5Z", 1000, (1577836800500, ABSOLUTE)),
        ("1969-12-31T23:59:59.999Z", 1000, (-1, ABSOLUTE)),
        ("1969-12-31T23:59:59.9995Z", 1000, (0, FINER)),
        ("0001-01-01", 1, (-62135596800, LOCAL)),
        ("9999-12-31T23:59:59.999999Z", 10**6, (253402300799999999, ABSOLUTE)),
        ("2020-01-02", 0, (18263, LOCAL)),
        ("1969-12-31", 0, (-1, LOCAL)),
        ("2020-01-02T00:00:01", 0, (18263, FINER)),
    ],
)
def test_units(text: str, per_second: int, expected: tuple[int, int]) -> None:
    assert _run(text_value.parse_times, "auto", [text], per_second) == [expected]


@given(st.lists(st.datetimes(datetime.datetime(1, 1, 2)), min_size=1, max_size=50), st.sampled_from(["T", " "]))
def test_times_as_python_reads_them(moments: list[datetime.datetime], separator: str) -> None:
    found = _run(text_value.parse_times, "auto", [moment.isoformat(separator) for moment in moments], 10**6)
    assert found == [((moment - EPOCH) // datetime.timedelta(microseconds=1), LOCAL) for moment in moments]


NUMBERS = [
    ("0", 0, ABSOLUTE),
    ("-0", 0, ABSOLUTE),
    ("+7", 7, ABSOLUTE),
    (" 7 ", 7, ABSOLUTE),
    ("007", 7, ABSOLUTE),
    ("1.0", 1, ABSOLUTE),
    (".0", 0, ABSOLUTE),
    ("1.", 1, ABSOLUTE),
    ("-3.000", -3, ABSOLUTE),
    ("1.5", 0, FINER),
    ("", 0, BLANK),
    (" ", 0, BLANK),
    ("9223372036854775807", 2**63 - 1, ABSOLUTE),
    ("9223372036854775808", 0, OUTSIDE),
    ("-9223372036854775808", -(2**63), ABSOLUTE),
    ("-9223372036854775809", 0, OUTSIDE),
    ("9" * 30, 0, OUTSIDE),
    *((bad, 0, MALFORMED) for bad in ("-", "+", ".", "1.2.3", "1e3", "0x10", "1_000", "1,5", "--1", "nan", "1 2", "٣")),
]


@pytest.mark.parametrize("mode", ["python", "jit"])
def test_whole_numbers(mode: str) -> None:
    found = _run(text_value.parse_numbers, mode, [text for text, *_ in NUMBERS], 1, 1)
    assert [(text, *pair) for (text, *_), pair in zip(NUMBERS, found, strict=True)] == NUMBERS


@given(
    st.lists(st.decimals(-(10**20), 10**20, allow_nan=False, places=12), min_size=1, max_size=30),
    st.sampled_from([(1, 1), (1000, 1), (10**9, 1), (1, 1000), (1, 10**6)]),
)
def test_scaled_numbers_as_decimals(numbers: list[Decimal], factors: tuple[int, int]) -> None:
    scale, divisor = factors
    texts = [format(number.normalize(), "f") for number in numbers]
    for text, (value, status) in zip(texts, _run(text_value.parse_numbers, "auto", texts, scale, divisor), strict=True):
        exact = Decimal(text) * scale / divisor
        if status == ABSOLUTE:
            assert value == exact
        else:
            assert status == OUTSIDE or (status == FINER and exact != int(exact))
            assert status == FINER or not -(2**63) <= Decimal(text) * scale < 2**63


@pytest.mark.parametrize(
    ("text", "unit", "kind", "expected"),
    [
        ("1600000000", "s", TIMESTAMP_NS, 1600000000 * NS),
        ("1600000000.123456789", "s", TIMESTAMP_NS, 1600000000123456789),
        ("1600000000123", "ms", TIMESTAMP_NS, 1600000000123 * 10**6),
        ("1600000000123456", "us", TIMESTAMP_NS, 1600000000123456 * 1000),
        ("1600000000123456789", "ns", TIMESTAMP_NS, 1600000000123456789),
        ("-1.5", "s", TIMESTAMP_MS, -1500),
        ("1600000000123", "ms", TIMESTAMP_S, None),
        ("1600000000000", "ms", TIMESTAMP_S, 1600000000),
        ("1.6e9", "s", TIMESTAMP_US, 1600000000 * 10**6),
        ("1e300", "s", TIMESTAMP_US, None),
        ("1e-3", "s", TIMESTAMP_S, None),
        ("2020-01-01", "s", TIMESTAMP_US, None),
    ],
)
def test_epoch_numbers(text: str, unit: str, kind: Any, expected: int | None) -> None:
    pool = Pool.of([text.encode()])
    values, status = TimeReading.of(unit, None).text(kind, pool.offsets, pool.data, None, numbers=True)
    assert (int(values[0]) if not status[0] else None) == expected


def test_units_are_guessed_by_size() -> None:
    assert [guess_unit(1.6 * 10.0**power) for power in (9, 12, 15, 18)] == ["s", "ms", "us", "ns"]
    with pytest.raises(InvalidInput, match="time unit 'm'"):
        TimeReading.of("m", None)


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC", "+05:30", "-0300"]
)
def test_zones_as_python_knows_them(name: str) -> None:
    zone = Zone.of(name)
    start = datetime.datetime(1965, 1, 1)
    local = [start + datetime.timedelta(minutes=7 * 60 * number + number % 60) for number in range(40_000)]
    seconds = np.array([(moment - EPOCH) // datetime.timedelta(seconds=1) for moment in local], np.int64)
    found, skipped, ambiguous = zone.to_utc(seconds, 1)
    info = zone.info
    there = np.array([int(moment.replace(tzinfo=info).timestamp()) for moment in local])
    assert (found == there)[~skipped].all()
    back = [datetime.datetime.fromtimestamp(int(second), info).replace(tzinfo=None) for second in there]
    assert skipped.tolist() == [a != b for a, b in zip(local, back, strict=True)]
    folds = [moment.replace(tzinfo=info).utcoffset() != moment.replace(tzinfo=info, fold=1).utcoffset() for moment in local]
    assert ambiguous == sum(folds) - int(skipped.sum())


def test_the_hour_that_was_skipped_and_the_one_shown_twice() -> None:
    reading = TimeReading.of(None, "Europe/Berlin")
    texts = ["2024-03-31 01:59:59", "2024-03-31 02:30:00", "2024-03-31 03:00:00", "2024-10-27 02:30:00", "2024-10-27 03:00:00"]
    texts += ["2024-03-31T02:30:00Z", "1800-01-01"]
    pool = Pool.of([text.encode() for text in texts])
    values, status = reading.text(TIMESTAMP_S, pool.offsets, pool.data, None, numbers=False)
    assert status.tolist() == [0, SKIPPED, 0, 0, 0, 0, 0]
    assert values[[0, 2, 3, 4, 5]].tolist() == [1711846799, 1711846800, 1729989000, 1729994400, 1711852200]
    assert reading.ambiguous == 1
    first = datetime.datetime(1800, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    assert values[6] == int(first.timestamp())


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "+99:00", "../etc/passwd"])
def test_unknown_zones(name: str) -> None:
    with pytest.raises(InvalidInput):
        Zone.of(name)
