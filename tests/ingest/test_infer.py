"""Types from values of which nearly all are alike: the odd ones are rejected and told, or decide that the column is text."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.table_model import merged_rows
from tsdb.ingest.ingest import IngestReport, ingest
from tsdb.storage.store import Store
from tsdb_format.errors import InvalidInput


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "db", threads=2) as opened:
        yield opened


def _create(store: Store, folder: Path, lines: list[str], **options: Any) -> tuple[IngestReport, list[dict[str, str]]]:
    """The report of a CSV of these lines, and what was rejected."""
    path, rejects = folder / "a.csv", folder / "rejects.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = ingest(store, "t", path, create=True, rejects=rejects, **options)
    assert report.read == report.inserted + report.updated + report.rejected
    with rejects.open(newline="", encoding="utf-8") as file:
        return report, list(csv.DictReader(file))


def _kinds(store: Store) -> dict[str, str]:
    return {column.name: str(column.type) for column in store.table("t").schema}


def _days(count: int) -> list[str]:
    return [f"2024-01-{day:02d}" for day in range(1, count + 1)]


def test_one_bad_number_is_rejected_and_told(store: Store, tmp_path: Path) -> None:
    lines = ["time,n,v"] + [f"{day},{at},{at}.5" for at, day in enumerate(_days(20))]
    lines[7] = "2024-01-07,seven,6.5"
    lines[9] = "2024-01-09,8,error"
    report, rejected = _create(store, tmp_path, lines)
    assert _kinds(store) == {"time": "TIMESTAMP_NS", "n": "INT64", "v": "DOUBLE"}
    assert (report.inserted, report.rejected) == (18, 2)
    assert [(int(row["line"]), row["column"], row["reason"]) for row in rejected] == [
        (8, "n", "'seven' is not an INT64"),
        (10, "v", "'error' is not a DOUBLE"),
    ]
    assert report.notes[:2] == (
        "column 'n' is INT64: 1 of 20 values looked at are not, such as 'seven'; such rows are rejected",
        "column 'v' is DOUBLE: 1 of 20 values looked at are not, such as 'error'; such rows are rejected",
    )


@pytest.mark.parametrize("name", ["time", "moment"])
def test_one_bad_time_does_not_hide_the_time_column(store: Store, tmp_path: Path, name: str) -> None:
    lines = [f"v,{name}"] + [f"1,{day}T00:00:00Z" for day in _days(20)]
    lines[3] = "1,yesterday"
    report, rejected = _create(store, tmp_path, lines)
    assert store.table("t").schema.time.name == name
    assert [(int(row["line"]), row["column"]) for row in rejected] == [(4, name)]
    assert f"column '{name}' is TIMESTAMP_NS: 1 of 20 values" in report.notes[0]


def test_a_time_column_known_by_name_needs_half_its_values(store: Store, tmp_path: Path) -> None:
    report, rejected = _create(store, tmp_path, ["time,v", "2024-01-01,1", "bad,2", "2024-01-03,3"])
    assert (report.inserted, [row["column"] for row in rejected]) == (2, ["time"])


def test_a_header_alone_makes_an_empty_table(store: Store, tmp_path: Path) -> None:
    report, _ = _create(store, tmp_path, ["v,time,host"], tags=["host"])
    assert _kinds(store) == {"time": "TIMESTAMP_NS", "host": "STRING", "v": "STRING"}
    assert report.read == 0


def test_an_ambiguous_column_is_text_and_says_why(store: Store, tmp_path: Path) -> None:
    lines = ["time,code,word"] + [f"{day},{at if at % 4 else 'x' + str(at)},w{at}" for at, day in enumerate(_days(20))]
    report, rejected = _create(store, tmp_path, lines)
    assert _kinds(store) == {"time": "TIMESTAMP_NS", "code": "STRING", "word": "STRING"}
    assert not rejected
    assert report.notes == ("column 'code' is STRING: 5 of 20 values looked at are unlike the others, such as 'x0'",)


def test_a_tag_is_text_where_one_value_is_no_number(store: Store, tmp_path: Path) -> None:
    lines = ["time,id,v"] + [f"{day},{at or 'main'},1" for at, day in enumerate(_days(20))]
    report, rejected = _create(store, tmp_path, lines, tags=["id"])
    assert _kinds(store)["id"] == "STRING"
    assert not rejected
    assert "'main'" in report.notes[0]


def test_a_tag_of_numbers_may_lack_some(store: Store, tmp_path: Path) -> None:
    lines = ["time,id,v"] + [f"{day},{'NA' if at == 3 else at},1" for at, day in enumerate(_days(20))]
    _, rejected = _create(store, tmp_path, lines, tags=["id"])
    assert _kinds(store)["id"] == "INT64"
    assert not rejected
    assert [row["id"] for row in merged_rows(store.snapshot().tables["t"])].count(None) == 1


def test_files_that_differ_are_told(store: Store, tmp_path: Path) -> None:
    for name, value in (("a", "1.5"), ("b", "word")):
        (tmp_path / f"{name}.csv").write_text(f"time,v\n2024-01-01,{value}\n")
    report = ingest(store, "t", [tmp_path / "a.csv", tmp_path / "b.csv"], create=True)
    assert report.notes == ("column 'v' is STRING: some files have DOUBLE in it and others STRING",)


def test_words_for_null_are_null(store: Store, tmp_path: Path) -> None:
    words = ["NULL", "null", "NA", "N/A", "n/a", "NaN", "nan", "None", "\\N", ""]
    lines = ["time,n,ok,day,word,only"] + [
        f"{day},{'' if w.lower() == 'nan' else w},{w},{w},{w},NA" for day, w in zip(_days(10), words, strict=True)
    ]
    lines.append("2024-01-11,1,true,2024-01-01,x,NA")
    _, rejected = _create(store, tmp_path, lines)
    assert _kinds(store) == {
        "time": "TIMESTAMP_NS", "n": "INT64", "ok": "BOOLEAN", "day": "DATE", "word": "STRING", "only": "STRING",
    }  # fmt: skip
    assert not rejected
    rows = merged_rows(store.snapshot().tables["t"])
    assert [(row["n"], row["ok"], row["day"]) for row in rows] == [(None, None, None)] * 10 + [(1, True, 19723)]
    assert [row["word"] for row in rows] == [*words[:-1], None, "x"], "text is what was written"


def test_a_word_for_null_is_no_time(store: Store, tmp_path: Path) -> None:
    report, rejected = _create(store, tmp_path, ["time,v", *(f"{day},1" for day in _days(4)), "NA,1"])
    assert report.rejected == 1
    assert [(row["line"], row["reason"]) for row in rejected] == [("6", "there is no time")]


def test_texts_in_parquet_that_are_nearly_all_times(store: Store, tmp_path: Path) -> None:
    texts = [f"{day}T01:00:00" for day in _days(20)]
    texts[4] = "?"
    pq.write_table(pa.table({"when": texts, "v": ["1"] * 20}), tmp_path / "a.parquet")
    report = ingest(store, "t", tmp_path / "a.parquet", create=True)
    assert _kinds(store) == {"when": "TIMESTAMP_NS", "v": "STRING"}
    assert (report.inserted, report.rejected) == (19, 1)


_CELLS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["", "NA", "nan", "x", "2024-01-01", "1e400", "true", "99999999999999999999"]),
)


@given(
    common=st.sampled_from(["7", "1.5", "2024-05-06", "2024-05-06 07:08:09", "word"]),
    odd=st.lists(st.tuples(st.integers(0, 39), _CELLS), max_size=12),
    bad_times=st.sets(st.integers(0, 39), max_size=8),
)
def test_no_row_is_lost(
    tmp_path_factory: pytest.TempPathFactory, common: str, odd: list[tuple[int, str]], bad_times: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("infer")
    cells = [common] * 40
    for at, cell in odd:
        cells[at] = cell
    times = ["soon" if at in bad_times else f"2024-03-01T00:00:{at:02d}" for at in range(40)]
    lines = ["time,v", *(f"{time},{cell}" for time, cell in zip(times, cells, strict=True))]
    with Store.open(folder / "db", threads=1) as store:
        try:
            report, rejected = _create(store, folder, lines)
        except InvalidInput as error:
            raise AssertionError(lines) from error
        assert report.read == 40
        assert len(rejected) == report.rejected
        kept = {row["time"] for row in merged_rows(store.snapshot().tables["t"])}
        lost = {int(row["line"]) for row in rejected}
        assert len(kept) + len(lost) == 40
        assert lost >= {at + 2 for at in bad_times}
        refused = len(lost) - len(bad_times)
        assert refused <= 40 * 0.1, "more than that decides that the column is text"
        assert refused == 0 or any("such rows are rejected" in note for note in report.notes)
