"""Device tables against a dictionary: numbers, tag order, attributes, and the file they are kept in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.snapshots import vector_of
from support.table_model import vectors_of
from tsdb.catalog.device import DeviceTable
from tsdb.catalog.device_file import read_device_file, write_device_file
from tsdb.catalog.interner import Interner
from tsdb.catalog.table import build_schema
from tsdb.exec.kernels import numbering
from tsdb_format.errors import Corruption, Error
from tsdb_format.types import STRING, Role
from tsdb_format.vector import Pool, Vector

SCHEMA = build_schema(
    [
        ("time", "TIMESTAMP_NS", Role.TIME),
        ("host", "STRING", Role.TAG),
        ("rack", "INT32", Role.TAG),
        ("big", "INT64", Role.TAG),
        ("on", "BOOLEAN", Role.TAG),
        ("owner", "STRING", Role.ATTRIBUTE),
        ("weight", "DOUBLE", Role.ATTRIBUTE),
    ]
)
TAGS = ("host", "rack", "big", "on")


def _rows(seed: int, count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    hosts = [None, "", "null", "NULL", "a", "a\0", "a\0b", "é", "\U0001f600", "x" * 40, "x" * 40 + "y", "x" * 40 + "z"]
    return [
        {
            "host": hosts[rng.integers(len(hosts))],
            "rack": [None, 0, -1, 2**31 - 1][rng.integers(4)],
            "big": [None, 0, 2**63 - 1, -(2**63)][rng.integers(4)],
            "on": [None, False, True][rng.integers(3)],
            "owner": [None, "ann", "bob", ""][rng.integers(4)],
            "weight": [None, 1.5, -0.0][rng.integers(3)],
        }
        for _ in range(count)
    ]


def _listed(table: DeviceTable) -> list[tuple[Any, ...]]:
    return list(zip(*(table.tags[name].to_physical_list() for name in TAGS), strict=True))


def test_numbers_and_order_against_a_dictionary(tmp_path: Path) -> None:
    table = DeviceTable.empty(SCHEMA)
    numbers: dict[tuple[Any, ...], int] = {}
    owners: dict[tuple[Any, ...], str] = {}
    for seed in range(6):
        rows = _rows(seed, 150)
        found, grown = table.resolve(vectors_of(SCHEMA, rows, TAGS), len(rows))
        assert table.count == len(table.rank) == len(table.tags["host"]), "the older version did not change"
        table = grown.with_attributes(found, vectors_of(SCHEMA, rows, ["owner", "weight"]))
        for row, number in zip(rows, found.tolist(), strict=True):
            key = tuple(row[name] for name in TAGS)
            assert numbers.setdefault(key, len(numbers)) == number
            if row["owner"] is not None:
                owners[key] = row["owner"]
        assert _listed(table) == list(numbers)
        assert table.attributes["owner"].to_physical_list() == [owners.get(key) for key in numbers]
        order = sorted(
            numbers, key=lambda key: [(v is None, 0 if v is None else v.encode() if isinstance(v, str) else v) for v in key]
        )
        assert [list(numbers)[number] for number in table.by_rank.tolist()] == order
        assert table.rank[table.by_rank].tolist() == list(range(table.count))
        if seed % 2:
            write_device_file(str(tmp_path / "d.dev"), table)
            table = read_device_file(str(tmp_path / "d.dev"), SCHEMA)


def test_resolving_known_devices_returns_the_same_table() -> None:
    rows = _rows(1, 50)
    found, table = DeviceTable.empty(SCHEMA).resolve(vectors_of(SCHEMA, rows, TAGS), 50)
    again, same = table.resolve(vectors_of(SCHEMA, rows, TAGS), 50)
    assert same is table
    assert again.tolist() == found.tolist()


def test_null_empty_and_the_word_null_are_three_devices() -> None:
    schema = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("host", "STRING", Role.TAG)])
    found, table = DeviceTable.empty(schema).resolve({"host": vector_of(STRING, [None, "", "null", None, "NULL", ""])}, 6)
    assert found.tolist() == [0, 1, 2, 0, 3, 1]
    assert table.tags["host"].to_physical_list() == [None, "", "null", "NULL"]
    assert table.by_rank.tolist() == [1, 3, 2, 0]


def test_tags_left_out_are_null_and_no_tags_is_one_device() -> None:
    found, table = DeviceTable.empty(SCHEMA).resolve({"rack": vectors_of(SCHEMA, [{"rack": 1}, {"rack": 2}], ["rack"])["rack"]}, 2)
    assert found.tolist() == [0, 1]
    assert _listed(table) == [(None, 1, None, None), (None, 2, None, None)]
    plain = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("v", "DOUBLE", Role.FIELD)])
    found, table = DeviceTable.empty(plain).resolve({}, 3)
    assert (found.tolist(), table.count, table.by_rank.tolist()) == ([0, 0, 0], 1, [0])


def test_a_write_that_failed_leaves_no_numbers_behind() -> None:
    _, table = DeviceTable.empty(SCHEMA).resolve(vectors_of(SCHEMA, _rows(1, 5), TAGS), 5)
    table.resolve(vectors_of(SCHEMA, [{"host": "lost"}], TAGS), 1)
    found, grown = table.resolve(vectors_of(SCHEMA, [{"host": "kept"}], TAGS), 1)
    assert (found.tolist(), grown.count) == ([table.count], table.count + 1)
    assert grown.find(vectors_of(SCHEMA, [{"host": "lost"}, {"host": "kept"}], TAGS), 2).tolist() == [-1, table.count]


def test_find_never_adds() -> None:
    _, table = DeviceTable.empty(SCHEMA).resolve(vectors_of(SCHEMA, _rows(1, 5), TAGS), 5)
    _, newer = table.resolve(vectors_of(SCHEMA, [{"host": "later"}], TAGS), 1)
    wanted = vectors_of(SCHEMA, [{"host": "later"}, {"host": "never"}], TAGS)
    assert table.find(wanted, 2).tolist() == [-1, -1]
    assert newer.find(wanted, 2).tolist() == [table.count, -1]


def test_pool_entries_that_no_row_uses_are_not_kept() -> None:
    schema = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("host", "STRING", Role.TAG)])
    vector = Vector(STRING, np.array([2, 0, 2], np.int32), np.array([True, False, True]), Pool.of([b"unused", b"also", b"used"]))
    found, table = DeviceTable.empty(schema).resolve({"host": vector}, 3)
    assert found.tolist() == [0, 1, 0]
    pool = table.tags["host"].pool
    assert pool is not None
    assert pool.tolist() == [b"used"]


def test_many_devices_in_several_batches() -> None:
    schema = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("host", "STRING", Role.TAG)])
    names = Pool.of([f"host_{number:05}".encode() for number in range(20_000)])
    table = DeviceTable.empty(schema)
    for start in (5_000, 0, 10_000):
        codes = np.arange(start, start + 10_000, dtype=np.int32)
        found, table = table.resolve({"host": Vector(STRING, codes, None, names)}, len(codes))
        back = table.tags["host"].take(found)
        assert back.pool is not None
        assert [back.pool.bytes_at(code) for code in back.values[:3].tolist()] == names.tolist()[start : start + 3]
    assert table.count == 20_000
    assert table.tags["host"].take(table.by_rank).to_physical_list() == sorted(table.tags["host"].to_physical_list())


@pytest.mark.parametrize("mode", ["python", "jit"])
def test_kernels_both_ways(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("intern_strings", "number_rows", "rebuild_slots"):
        kernel = getattr(numbering, name)
        monkeypatch.setattr(kernel, "_run", kernel.resolve(mode))
    strings = [f"s{number % 90}".encode() * (number % 11) for number in range(300)]
    pool = Pool.of(strings)
    interner = Interner()
    with np.errstate(over="ignore"):
        codes = interner.pool_codes(pool)
    distinct = list(dict.fromkeys(strings))
    assert codes.tolist() == [distinct.index(string) for string in strings]
    assert interner.pool.tolist() == distinct


def test_a_damaged_device_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.dev"
    _, table = DeviceTable.empty(SCHEMA).resolve(vectors_of(SCHEMA, _rows(1, 20), TAGS), 20)
    write_device_file(str(path), table)
    raw = path.read_bytes()
    listed = _listed(table)
    for at in range(0, len(raw), 7):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0x40]) + raw[at + 1 :])
        try:
            found = _listed(read_device_file(str(path), SCHEMA))  # padding between sections carries nothing
        except Error as error:
            found = listed if str(path) in str(error) else []
        assert found == listed
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(Corruption, match=r"d\.dev"):
        read_device_file(str(path), SCHEMA)


def test_few_devices_are_ranked_among_themselves() -> None:
    schema = build_schema([("time", "TIMESTAMP_S", Role.TIME), ("host", "STRING", Role.TAG), ("rack", "INT32", Role.TAG)])
    rng = np.random.default_rng(5)
    hosts = [None, b"", *(f"h{number % 37}".encode() for number in range(198))]
    tags = {
        "host": vector_of(schema.column("host").type, [None if each is None else each.decode() for each in hosts]),
        "rack": vector_of(schema.column("rack").type, [None if number % 5 == 0 else number for number in range(200)]),
    }
    numbers, table = DeviceTable.empty(schema).resolve(tags, 200)
    chosen = numbers[rng.integers(0, 200, 20)]
    rank, by_rank = table.ranks_of(chosen)
    assert by_rank.tolist() == sorted(set(chosen.tolist()), key=table.rank.__getitem__)
    assert by_rank[rank].tolist() == chosen.tolist()
    again, by_all = table.ranks_of(chosen)  # by now all are ranked
    assert by_all[again].tolist() == chosen.tolist()
