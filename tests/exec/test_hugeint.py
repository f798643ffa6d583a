"""HUGEINT: what sums of integers are. It comes out as DuckDB gives it, and no column of a table can have it."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from tsdb.exec.arrow import Converter, arrow_type, vector_of
from tsdb.exec.batch import Batch
from tsdb.exec.context import ExecContext
from tsdb.exec.evaluate import evaluate
from tsdb.exec.literal import literal_batch
from tsdb.plan.node import Rows
from tsdb.plan.predicate import Compare, InSet
from tsdb.result import NativeSource, Result
from tsdb.settings import Settings
from tsdb_format.errors import InvalidInput
from tsdb_format.types import HUGEINT, STORED_KINDS, Kind, parse_type

VALUES = (0, -1, 2**63, None, -(2**63) - 1, 10**37)


def batch() -> Batch:
    return literal_batch(Rows(("x",), (HUGEINT,), tuple((value,) for value in VALUES)))


def test_results_are_duckdbs() -> None:
    pd = pytest.importorskip("pandas")
    run = lambda: (ExecContext(None, Settings()), iter([batch()]))  # type: ignore[arg-type]  # noqa: E731
    result = Result(NativeSource(["x"], [("x", HUGEINT)], run))
    connection = duckdb.connect()
    listed = ", ".join(f"({'NULL' if value is None else value}::HUGEINT)" for value in VALUES)
    relation = connection.sql(f"SELECT x FROM (VALUES {listed}) AS t(x)")
    assert result.types == [str(kind) for kind in relation.types] == ["HUGEINT"]
    assert result.fetchall() == relation.fetchall()
    assert result.arrow().equals(relation.to_arrow_table())
    mine, theirs = result.fetchnumpy()["x"], relation.fetchnumpy()["x"]
    assert repr(mine) == repr(theirs)
    pd.testing.assert_frame_equal(result.df(), relation.df())
    again = vector_of(result.arrow()["x"].combine_chunks(), HUGEINT)
    assert again.to_physical_list() == list(VALUES)
    assert arrow_type(HUGEINT) == relation.to_arrow_table().schema.field("x").type


@pytest.mark.parametrize("value", [10**38, -(10**38), 2**127 - 1])
def test_arrow_has_no_type_for_more_than_38_digits(value: int) -> None:
    wide = literal_batch(Rows(("x",), (HUGEINT,), ((1,), (value,))))
    with pytest.raises(pa.ArrowInvalid):
        Converter([("x", HUGEINT)]).record_batch(wide)
    almost = (value // abs(value)) * (10**38 - 1)
    found = Converter([("x", HUGEINT)]).record_batch(literal_batch(Rows(("x",), (HUGEINT,), ((almost,), (None,)))))
    assert found.column(0).equals(pa.array([almost, None], pa.decimal128(38, 0)))


def test_predicates_compare_whole_numbers_of_any_size() -> None:
    vector = batch().vectors["x"]
    assert evaluate(Compare("x", ">", 2**62), lambda _: vector, len(VALUES)).tolist() == [False, False, True, False, False, True]
    found = evaluate(InSet("x", (10**37, -1, *range(100, 110))), lambda _: vector, len(VALUES))
    assert found.tolist() == [False, True, False, False, False, True]


def test_no_column_has_it() -> None:
    assert Kind.HUGEINT not in STORED_KINDS
    with pytest.raises(InvalidInput, match="unknown column type 'HUGEINT'") as raised:
        parse_type("HUGEINT")
    assert "HUGEINT" not in str(raised.value).partition("known:")[2]
