"""Files of every format version that was ever written open for ever, and the SPEC's example is a real file."""

from __future__ import annotations

import difflib
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from support import spec_reader
from support.blob_case import blob_case, every_kind
from support.file_case import every_encoding_case, random_case
from tsdb_format.dump import dump_file
from tsdb_format.reader import TsFile
from tsdb_format.schema import SEQUENCE_NAME, Column, Schema
from tsdb_format.section import FORMAT_VERSION
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_NS, Role
from tsdb_format.vector import Pool, Vector
from tsdb_format.writer import write_file

FOLDER = Path(__file__).parent.parent / "golden"
SPEC = Path(__file__).parent.parent.parent / "format" / "SPEC.md"
GOLDENS = sorted(FOLDER.glob("v*/*.tsf"))


def _maker() -> ModuleType:
    place = importlib.util.spec_from_file_location("golden_make", FOLDER / "make.py")
    assert place is not None
    assert place.loader is not None
    made = importlib.util.module_from_spec(place)
    place.loader.exec_module(made)
    return made


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden_files_read_as_they_were_written(path: Path) -> None:
    expected: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    plain_values = _maker().plain_values
    with TsFile(path) as file:
        assert [[c.id, c.name, str(c.type), c.role.name] for c in file.schema] == expected["columns"]
        assert file.rows_per_page == expected["rows_per_page"]
        assert file.row_start.tolist() == expected["row_start"]
        assert {name: plain_values(vector) for name, vector in file.device_tags.items()} == expected["tags"]
        everything = np.zeros(1, np.int64), np.array([file.row_count])
        for name, values in expected["values"].items():
            assert plain_values(file.read(name, *everything)) == values, name
        assert not file.resource.rebuilt
        numbers = file.resource.device_number
        assert (None if numbers is None else numbers.tolist()) == expected["device_number"]
        file.verify()


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden_dumps(path: Path) -> None:
    expected = path.with_suffix(".bytes").read_text(encoding="utf-8").splitlines()
    difference = list(difflib.unified_diff(expected, list(dump_file(path)), "golden", "now", lineterm="", n=0))
    assert not difference, "\n".join(difference[:40])


def test_the_current_version_has_goldens() -> None:
    assert {path.stem for path in (FOLDER / f"v{FORMAT_VERSION}").glob("*.tsf")} == set(_maker().goldens())


def example(path: Path) -> list[str]:
    """The dump of the SPEC's example; of the directory's entries, which are alike, the first."""
    tag, usage = Column("host", STRING, Role.TAG, 2), Column("usage", DOUBLE, Role.FIELD, 3)
    host = Vector(STRING, np.zeros(1, np.int32), None, Pool.of([b"a"]))
    write_file(
        str(path), schema=Schema((Column("time", TIMESTAMP_NS, Role.TIME, 1), tag, usage)), device_tags={"host": host},
        row_start=np.array([0, 2]), columns={
            "time": Vector(TIMESTAMP_NS, np.array([1_700_000_000_000_000_000, 1_700_000_005_000_000_000])),
            SEQUENCE_NAME: Vector(INT64, np.ones(2, np.int64)),
            "usage": Vector(DOUBLE, np.array([97.5, 0.0]), np.array([True, False])),
        }, table="cpu", sync=False,
    )  # fmt: skip
    lines = list(dump_file(path))
    alike = [i for i, line in enumerate(lines) if "  directory[" in line and "directory[device.row_start]" not in line]
    lines[alike[0] : alike[-1] + 1] = [f"           … {len(alike) // 7} more entries"]
    return lines


def test_the_specs_example_is_a_real_file(tmp_path: Path) -> None:
    text = SPEC.read_text(encoding="utf-8")
    lines = example(tmp_path / "a.tsf")
    assert "\n".join(["```", *lines, "```"]) in text
    sizes = [(tmp_path / name).stat().st_size for name in ("a.tsf", "a.res")]
    assert f"is {sizes[0]:,} bytes for two rows, and its sidecar {sizes[1]:,} more" in text


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_reader_written_from_the_spec_reads_the_same(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    found = spec_reader.File(path.read_bytes(), path.with_suffix(".res").read_bytes(), path.parent)
    assert found.row_start == expected["row_start"]
    assert found.tags == expected["tags"]
    for name, values in expected["values"].items():
        mine = [value.hex() if isinstance(value, bytes) else value for value in found.values[name]]
        assert mine == values, name
    assert found.resource["device_number"] == expected["device_number"]


@pytest.mark.parametrize("rows", [1, 15, 1_023, 1_025, 5_000])
def test_a_reader_written_from_the_spec_reads_new_files(tmp_path: Path, rows: int) -> None:
    plain_values = _maker().plain_values
    cases = [random_case(rows, devices=1, rows=rows, rows_per_page=2_048, tags=()), every_encoding_case(max(rows, 2), 1_024)]
    for case in cases:
        case.write(tmp_path / "a.tsf")
        found = spec_reader.File((tmp_path / "a.tsf").read_bytes(), (tmp_path / "a.res").read_bytes())
        for name, vector in case.columns.items():
            mine = [value.hex() if isinstance(value, bytes) else value for value in found.values[name]]
            assert mine == plain_values(vector), name


def test_a_reader_written_from_the_spec_reads_blobs_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "camera.raw").write_bytes(b"0123456789abcdef")
    blob_case(every_kind(tmp_path / "camera.raw"), 4).write(tmp_path / "a.tsf")
    found = spec_reader.File((tmp_path / "a.tsf").read_bytes(), (tmp_path / "a.res").read_bytes(), tmp_path)
    with TsFile(tmp_path / "a.tsf") as file:
        assert found.values["image"] == file.read("image", np.zeros(1, np.int64), np.array([8])).to_physical_list()
