"""Everything that ``db.write`` takes, and what it refuses, by column and row."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tsdb.catalog.table import build_schema
from tsdb.ingest.arrow import columns_of
from tsdb_format.errors import InvalidInput, NotFound
from tsdb_format.types import Role

SCHEMA = build_schema(
    [
        ("time", "TIMESTAMP_US", Role.TIME),
        ("host", "STRING", Role.TAG),
        ("rack", "INT32", Role.TAG),
        ("b", "BOOLEAN", Role.FIELD),
        ("i", "INT64", Role.FIELD),
        ("f", "FLOAT", Role.FIELD),
        ("d", "DOUBLE", Role.FIELD),
        ("s", "STRING", Role.FIELD),
        ("day", "DATE", Role.FIELD),
        ("at", "TIMESTAMP_MS", Role.FIELD),
        ("raw", "BLOB", Role.FIELD),
        ("v", "VECTOR(2)", Role.FIELD),
    ]
)
UTC = datetime.UTC
ROWS = [
    {
        "time": datetime.datetime(2020, 1, 1, 0, 0, 0, 5),
        "host": "a",
        "rack": 1,
        "b": True,
        "i": 2**60,
        "f": 1.5,
        "d": 0.1,
        "s": "x",
        "day": datetime.date(2020, 1, 2),
        "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
        "raw": b"\0",
        "v": [1.0, 2.0],
    },
    dict.fromkeys(SCHEMA.by_name) | {"time": datetime.datetime(1970, 1, 1)},
    {
        "time": datetime.datetime(1970, 1, 1, 0, 0, 1),
        "host": "",
        "rack": -1,
        "b": False,
        "i": -1,
        "f": float("inf"),
        "d": -0.0,
        "s": "é",
        "day": datetime.date(1969, 12, 31),
        "at": datetime.datetime(1970, 1, 1),
        "raw": b"",
        "v": [0.0, -1.0],
    },
]
EXPECTED = {
    "time": [1577836800000005, 0, 1000000],
    "host": ["a", None, ""],
    "rack": [1, None, -1],
    "b": [True, None, False],
    "i": [2**60, None, -1],
    "f": [1.5, None, float("inf")],
    "d": [0.1, None, -0.0],
    "s": ["x", None, "é"],
    "day": [18263, None, -1],
    "at": [-1, None, 0],
    "raw": [b"\0", None, b""],
    "v": [[1.0, 2.0], None, [0.0, -1.0]],
}
TABLE = pa.Table.from_pylist(
    ROWS,
    schema=pa.schema(
        [
            ("time", pa.timestamp("us")),
            ("host", pa.string()),
            ("rack", pa.int32()),
            ("b", pa.bool_()),
            ("i", pa.int64()),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("s", pa.string()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("raw", pa.binary()),
            ("v", pa.list_(pa.float32(), 2)),
        ]
    ),
)


def _listed(data: Any) -> dict[str, list[Any]]:
    return {name: vector.to_physical_list() for name, vector in columns_of(data, SCHEMA).items()}


class _Stream:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        {name: [row[name] for row in ROWS] for name in SCHEMA.by_name},
        {name.upper(): [row[name] for row in ROWS] for name in SCHEMA.by_name},
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        TABLE.set_column(1, "host", TABLE["host"].dictionary_encode()),
        TABLE.set_column(1, "host", TABLE["host"].dictionary_encode(null_encoding="encode")),
        TABLE.set_column(7, "s", TABLE["s"].dictionary_encode(null_encoding="encode")),
        TABLE.set_column(7, "s", TABLE["s"].cast(pa.large_string())).set_column(10, "raw", TABLE["raw"].cast(pa.large_binary())),
        TABLE.set_column(1, "host", TABLE["host"].cast(pa.string_view())),
        TABLE.set_column(0, "time", TABLE["time"].cast(pa.timestamp("ns"))),
        TABLE.set_column(0, "time", TABLE["time"].cast(pa.timestamp("us", "Europe/Berlin"))),
        TABLE.set_column(4, "i", TABLE["i"].cast(pa.decimal128(20, 0))),
        TABLE.set_column(8, "day", TABLE["day"].cast(pa.timestamp("s"))),
        TABLE.set_column(11, "v", TABLE["v"].cast(pa.list_(pa.float64()))),
        dict(zip(TABLE.column_names, TABLE.columns, strict=True)),
        _Stream(),
        pl.from_arrow(TABLE),
    ],
)
def test_one_meaning_in_every_form(data: Any) -> None:
    if isinstance(data, pa.Table) and pa.types.is_decimal(data.schema.field("i").type):
        with pytest.raises(InvalidInput, match="'i' is INT64"):
            columns_of(data, SCHEMA)
        return
    assert _listed(data) == EXPECTED


def test_slices_start_where_they_say() -> None:
    assert _listed(TABLE.slice(1)) == {name: values[1:] for name, values in EXPECTED.items()}
    assert _listed(TABLE.to_batches()[0].slice(2, 1)) == {name: values[2:] for name, values in EXPECTED.items()}
    assert _listed(TABLE.slice(3)) == {name: [] for name in EXPECTED}


def test_pandas_frames() -> None:
    frame = pd.DataFrame(
        {"time": pd.to_datetime(["2020-01-01", "2020-01-02"]), "host": ["a", None], "d": [1.0, np.nan], "i": [1, 2]}
    )
    expected = {"time": [1577836800000000, 1577923200000000], "host": ["a", None], "d": [1.0, None], "i": [1, 2]}
    assert _listed(frame) == expected
    assert _listed(frame.set_index("time")[["host", "d", "i"]].reset_index()) == expected
    frame["host"] = frame["host"].astype("category")
    assert _listed(frame) == expected


def test_numpy_arrays() -> None:
    found = _listed(
        {
            "time": np.array(["2020-01-01", "1969-12-31T23:59:59.999999"], "datetime64[us]"),
            "host": np.array(["a", "bb"]),
            "d": np.array([np.nan, 1.5]),
            "i": np.ma.MaskedArray([1, 2], [False, True]),
            "f": np.array([0.1, 1e-3]),
            "rack": np.array([1, 2], np.uint64),
            "v": np.array([[1, 2], [3, 4]]),
            "b": np.array([True, False]),
        }
    )
    assert np.isnan(found["d"][0]), "a NaN in a numpy array is a NaN"
    assert found["time"] == [1577836800000000, -1]
    assert (found["i"], found["rack"], found["v"], found["b"]) == ([1, None], [1, 2], [[1, 2], [3, 4]], [True, False])
    assert found["f"] == np.array([0.1, 1e-3], np.float32).tolist()


def test_lossless_conversions() -> None:
    found = _listed(
        {
            "time": ["2020-01-01T00:00:00.000005Z", "1970-01-01 02:00:00+02:00"],
            "day": ["2020-01-02", ""],
            "i": [1.0, -(2.0**62)],
            "d": [Decimal("0.1"), Decimal(2)],
            "at": [1500, 2500],
        }
    )
    assert found == {"time": [1577836800000005, 0], "day": [18263, None], "i": [1, -(2**62)], "d": [0.1, 2.0], "at": [1500, 2500]}
    assert _listed({"time": [0], "d": [2**60]})["d"] == [2.0**60]
    assert _listed({"time": [0, 1], "d": [None, None]})["d"] == [None, None]


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("i", [1, 1.5], "'i', row 1: '1.5' is not a whole number"),
        ("i", [1.0, float("nan")], "'i', row 1.*outside"),
        ("i", ["1"], "'i' is INT64; the data has string"),
        ("i", np.array([0, 2**63], np.uint64), "'i', row 1: '9223372036854775808' is outside of the range of INT64"),
        ("rack", [0, 2**31], "'rack', row 1: '2147483648' is outside of the range of INT32"),
        ("d", [2**53 + 1], "'d', row 0: '9007199254740993' is not exactly a DOUBLE"),
        ("f", [1e300], "'f', row 0.*outside"),
        ("d", ["1.5"], "'d' is DOUBLE"),
        ("s", [1], "'s' is STRING"),
        ("s", [b"x"], "'s' is STRING"),
        ("b", [1], "'b' is BOOLEAN"),
        ("b", [True, "x"], "'b'"),
        ("time", ["2020-01-01T00:00:00.0000001"], "'time', row 0: .* is finer than TIMESTAMP_US"),
        ("time", ["2020-01-01", "yesterday"], "'time', row 1: 'yesterday' is not a time"),
        ("at", [datetime.datetime(2020, 1, 1, 0, 0, 0, 5)], "'at', row 0.*finer than TIMESTAMP_MS"),
        ("at", pa.array([2**62], pa.timestamp("s")), "'at', row 0.*outside"),
        ("day", [datetime.datetime(2020, 1, 1, 1)], "'day', row 0.*finer than DATE"),
        ("v", [[1.0, 2.0], [1.0]], "'v', row 1: .* is not a VECTOR"),
        ("v", [[1.0, None]], "'v', row 0"),
        ("v", [["a", "b"]], "'v' is VECTOR"),
        ("d", 1.5, "not an array"),
        ("d", "abc", "not an array"),
    ],
)
def test_what_does_not_fit_names_column_and_row(column: str, values: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        columns_of({column: values}, SCHEMA)


def test_unknown_columns_and_strange_data() -> None:
    with pytest.raises(NotFound, match="'usage'"):
        columns_of({"usage": [1]}, SCHEMA)
    with pytest.raises(InvalidInput, match="twice"):
        columns_of({"d": [1.0], "D": [1.0]}, SCHEMA)
    with pytest.raises(InvalidInput, match="same name"):
        columns_of(pa.table([[1.0], [2.0]], names=["d", "d"]), SCHEMA)
    for data in (5, "text", None, [1, 2]):
        with pytest.raises(InvalidInput):
            columns_of(data, SCHEMA)
    assert columns_of([], SCHEMA) == {}


def test_keys_that_only_later_rows_have() -> None:
    assert _listed([{"time": 0}, {"time": 1, "d": 2.0}]) == {"time": [0, 1], "d": [None, 2.0]}


def test_an_index_without_a_name_is_no_column() -> None:
    frame = pd.DataFrame({"time": pd.to_datetime(["2020-01-01", "2020-01-02"]), "d": [1.0, 2.0]})
    named = frame.set_index(pd.Index(["x", "y"])), frame.set_index([["a", "b"], [1, 2]])
    for given in (pd.concat([frame, frame]), frame[frame["d"] > 1], *named):
        made = columns_of(given, SCHEMA)
        assert list(made) == ["time", "d"]
        assert made["d"].values.tolist() == given["d"].tolist()
    assert set(columns_of(frame.set_index("time"), SCHEMA)) == {"time", "d"}
    partly = frame.set_index(["time", pd.Index(["x", "y"])])
    assert set(columns_of(partly, SCHEMA)) == {"time", "d"}
    with pytest.raises(NotFound, match="no column 'x'"):
        columns_of(frame.set_index(pd.Index(["u", "v"], name="x")), SCHEMA)
    with pytest.raises(NotFound, match="__index_level_0__"):
        columns_of({"time": [0], "__index_level_0__": [1]}, SCHEMA)
