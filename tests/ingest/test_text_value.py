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
from tsdb.exec.kernels.text_value import ABSOLUTE, BLANK, FINER, INEXACT, LOCAL, MALFORMED, OUTSIDE
from tsdb.ingest.cells import Cells, read_cells
from tsdb.ingest.instant import SKIPPED, TimeReading, guess_unit
from tsdb.ingest.zone import Zone
from tsdb_format.errors import InvalidInput
from tsdb_format.schema import Column
from tsdb_format.types import TIMESTAMP_MS, TIMESTAMP_NS, TIMESTAMP_S, TIMESTAMP_US, Role, parse_type
from tsdb_format.vector import Pool

NS = 10**9
EPOCH = datetime.datetime(1970, 1, 1)


def _run(kernel: Any, mode: str, texts: list[str | None], *numbers: Any, dtype: Any = np.int64) -> list[tuple[Any, int]]:
    pool = Pool.of([(text or "").encode() for text in texts])
    starts = np.array([-1 if text is None else start for text, start in zip(texts, pool.offsets, strict=False)], np.int64)
    values, status = np.empty(len(texts), dtype), np.empty(len(texts), np.uint8)
    failed = kernel.resolve(mode)(starts, pool.offsets[1:], pool.data, *numbers, values, status)
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
    found = _run(text_value.parse_times, "auto", ["2020-01-01", "bad", "", None], NS)
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


POWERS = 10.0 ** np.arange(23)
REALS = [
    ("0", 0.0, ABSOLUTE), ("-0", -0.0, ABSOLUTE), ("1.5", 1.5, ABSOLUTE), (" +1.5 ", 1.5, ABSOLUTE), (".5", 0.5, ABSOLUTE),
    ("5.", 5.0, ABSOLUTE), ("1e3", 1000.0, ABSOLUTE), ("1E-3", 0.001, ABSOLUTE), ("-1.25e+2", -125.0, ABSOLUTE),
    ("0e999", 0.0, ABSOLUTE),
    ("9007199254740992", 2.0**53, ABSOLUTE), ("9007199254740993", 0.0, INEXACT), ("51.846000000000004", 0.0, INEXACT),
    ("1e23", 0.0, INEXACT), ("1e400", 0.0, INEXACT), ("0." + "0" * 30 + "1", 0.0, INEXACT), ("1" * 30, 0.0, INEXACT),
    ("inf", np.inf, ABSOLUTE), ("-Infinity", -np.inf, ABSOLUTE), ("", 0.0, BLANK), (None, 0.0, BLANK),
    *((bad, 0.0, MALFORMED) for bad in (".", "-", "e5", "1e", "1e+", "1.2.3", "1,5", "0x10", "1_000", "one", "--1", "1 2", "1e5x")),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["python", "jit"])
def test_reals(mode: str) -> None:
    found = _run(text_value.parse_reals, mode, [text for text, *_ in REALS], 2**53, 22, POWERS, dtype=np.float64)
    for (text, value, status), (there, verdict) in zip(REALS, found, strict=True):
        assert (text, verdict) == (text, status)
        assert np.float64(value).tobytes() == np.float64(there).tobytes(), text
    [(value, status)] = _run(text_value.parse_reals, mode, ["NaN"], 2**53, 22, POWERS, dtype=np.float64)
    assert np.isnan(value)
    assert status == ABSOLUTE


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@given(
    data=st.lists(
        st.one_of(st.floats(), st.floats(width=32), st.decimals(-1000, 1000, places=3).map(float)), min_size=1, max_size=40
    )
)
def test_reals_are_those_that_python_reads(kind: str, data: list[float]) -> None:
    texts = [repr(value) for value in data] + [f"{value:.2f}" for value in data] + [f"{value:.25e}" for value in data]
    converted = read_cells(Cells.of(texts), Column("x", parse_type(kind), Role.FIELD, 1), TimeReading(), numbers=True)
    assert converted.status is None
    with np.errstate(over="ignore"):
        expected = np.array([float(text) for text in texts]) if kind == "DOUBLE" else np.array([np.float32(text) for text in texts])
    assert np.array_equal(converted.vector.values, expected, equal_nan=True)
    assert (np.signbit(converted.vector.values) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("mode", ["python", "jit"])
def test_truth(mode: str) -> None:
    texts = ["true", "T", "Yes", "y", "1", "FALSE", "f", "no", "N", "0", " true ", "", None, "2", "tru", "truefalse", "on"]
    found = _run(text_value.parse_booleans, mode, texts, dtype=np.bool_)
    assert [value for value, _ in found] == [True] * 5 + [False] * 5 + [True] + [False] * 6
    assert [status for _, status in found] == [ABSOLUTE] * 11 + [BLANK] * 2 + [MALFORMED] * 4


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
    values, status = TimeReading.of(unit, None).text(kind, pool.offsets[:-1], pool.offsets[1:], pool.data, numbers=True)
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
    values, status = reading.text(TIMESTAMP_S, pool.offsets[:-1], pool.offsets[1:], pool.data, numbers=False)
    assert status.tolist() == [0, SKIPPED, 0, 0, 0, 0, 0]
    assert values[[0, 2, 3, 4, 5]].tolist() == [1711846799, 1711846800, 1729989000, 1729994400, 1711852200]
    assert reading.ambiguous == 1
    first = datetime.datetime(1800, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    assert values[6] == int(first.timestamp())


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "+99:00", "../etc/passwd"])
def test_unknown_zones(name: str) -> None:
    with pytest.raises(InvalidInput):
        Zone.of(name)
