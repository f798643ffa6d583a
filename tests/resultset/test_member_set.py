"""Member sets against plain Python: every type, few and many members, tuples, several runs; verdicts never lose a member."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from support.result_set_case import COLUMNS, key_of
from tsdb.exec import key_domain
from tsdb.exec.kernels import numbering
from tsdb.exec.key_domain import KeyDomain
from tsdb.exec.literal import literal_vector
from tsdb.exec.prune import CANNOT_MATCH
from tsdb.resultset import member_set
from tsdb.resultset.member_set import Distinct
from tsdb.resultset.set_table import Spill, memory_members, memory_table, table_of
from tsdb_format.summary import new_summary
from tsdb_format.types import DOUBLE, INT32, INT64, STRING, ColumnType, parse_type
from tsdb_format.vector import Pool, Vector

KINDS = [parse_type(kind) for kind in dict.fromkeys(kind for kind, _, _ in COLUMNS.values())]


def _values(kind: ColumnType, random: Random, count: int) -> list[Any]:
    """Values in the type's physical domain, few of them different."""
    texts = ["", "a", "b", "ä", "a text of many bytes", "a text of many bytez", "zz"]
    pools: dict[str, list[Any]] = {
        "STRING": texts, "BLOB": [text.encode() for text in texts], "BOOLEAN": [True, False],
        "DOUBLE": [0.0, -0.0, 1.5, float("nan"), float("inf"), -3.0], "FLOAT": [0.0, -0.0, 1.5, float("nan"), 2.0],
        "VECTOR": [[0.0, 1.0], [-0.0, 1.0], [float("nan"), 2.0], [3.0, 4.0]],
    }  # fmt: skip
    pool = pools.get(kind.kind.name, [0, 1, 2, 3, -5, 100, 2**31 - 1])
    return [random.choice(pool) for _ in range(count)]


def _vector(kind: ColumnType, values: list[Any]) -> Vector:
    if not kind.width:
        return literal_vector(kind, tuple(values))
    validity = np.array([value is not None for value in values])
    filled = [[0.0] * kind.width if value is None else value for value in values]
    return Vector(kind, np.array(filled, np.float32).reshape(-1, kind.width), None if validity.all() else validity)


def _with_nulls(values: list[Any], random: Random) -> list[Any]:
    return [None if random.random() < 0.2 else value for value in values]


@pytest.mark.parametrize("seed", range(30))
def test_members_are_those_of_plain_python(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    if seed % 3 == 0:  # as if there were many
        monkeypatch.setattr(member_set, "_DOMAIN_KEYS_MAX", 1)
        monkeypatch.setattr(key_domain, "_RANGES_MIN", random.choice((1, 2)))
    kinds = [random.choice(KINDS) for _ in range(random.choice((1, 1, 2, 3)))]
    kept = [_with_nulls(_values(kind, random, 8), random) for kind in kinds]
    asked = [_with_nulls(_values(kind, random, 300), random) for kind in kinds]
    members = {tuple(map(key_of, row)) for row in zip(*kept, strict=True) if None not in row}
    expected = [None not in row and tuple(map(key_of, row)) in members for row in zip(*asked, strict=True)]
    distinct = Distinct(kinds)
    for part in (slice(0, 3), slice(3, None)):
        distinct.add([_vector(kind, values[part]) for kind, values in zip(kinds, kept, strict=True)])
    assert len(distinct) == len(members)
    table = table_of("t", kinds)
    if not members:
        assert memory_table(table, distinct).files == ()
        return
    found = [memory_members("s", distinct)]
    with Spill(table, tmp_path) as spill:
        spill.add(distinct, 1)
        if seed % 2:
            spill.add(distinct, 1)
        found.append(spill.members("s"))
    assert [each.name for each in tmp_path.rglob("*.tsf")] == []
    for each in found:
        vectors = [_vector(kind, values) for kind, values in zip(kinds, asked, strict=True)]
        assert each.contains(vectors).tolist() == expected
        assert each.count == len(members) * (1 + (each.table_bytes > 0 and seed % 2))
        _check_verdicts(each, vectors, expected)


def _check_verdicts(members: member_set.MemberSet, vectors: list[Vector], expected: list[bool]) -> None:
    """No page with a member is left out."""
    statistics = []
    for vector in vectors:
        summary = new_summary(vector, 16)
        summary.add(0, vector)
        statistics.append(summary.statistics(16, 64, len(vector)).take(slice(0, -(-len(vector) // 16))))
    pages = -(-len(expected) // 16)
    verdicts = members.verdicts(statistics, pages)
    for page in range(pages):
        assert verdicts[page] != CANNOT_MATCH or not any(expected[page * 16 : (page + 1) * 16])


@pytest.mark.parametrize("kind", [INT64, INT32, DOUBLE, STRING], ids=str)
def test_many_keys_prune_by_ranges_of_neighbours(kind: ColumnType) -> None:
    keys = [number for number in range(100_000) if number % 20_000 < 1_000]
    made: list[Any] = [f"{number:06}" for number in keys] if kind is STRING else [float(n) if kind is DOUBLE else n for n in keys]
    domain = KeyDomain("c", _vector(kind, made), 10)
    assert not domain.is_exact
    whole = list(range(100_000))
    asked = _vector(kind, [f"{n:06}" for n in whole] if kind is STRING else [float(n) if kind is DOUBLE else n for n in whole])
    found = domain.contains(asked)
    assert found[keys].all()
    assert found.sum() < len(keys) + 0.01 * (len(whole) - len(keys))
    summary = new_summary(asked, 500)
    for at in range(0, 100_000, 32_000):
        summary.add(at // 500, asked.take(slice(at, at + 32_000)))
    verdicts = domain.named("d").verdicts(summary.statistics(500, 64, 100_000).take(slice(0, 200)), 200)
    wanted = [page * 500 % 20_000 < 1_000 for page in range(200)]
    assert [verdict != CANNOT_MATCH for verdict in verdicts] == wanted


@pytest.mark.parametrize("mode", ["python", "jit"])
def test_hashes_of_strings_are_those_of_each(mode: str) -> None:
    texts = [b"", b"a", b"eight by", b"nine byte", "ä".encode() * 30, b"\x00"]
    pool = Pool.of(texts)
    hashes = np.empty(len(texts), np.uint64)
    with np.errstate(over="ignore"):
        numbering.hash_strings.resolve(mode)(pool.offsets, pool.data, hashes)
        alone = [numbering.hash_bytes(pool.data, pool.offsets[at], pool.offsets[at + 1]) for at in range(len(texts))]
    assert hashes.tolist() == [int(each) for each in alone]
    assert len(set(hashes.tolist())) == len(texts)


def test_loading_happens_once_and_only_for_rows_that_may_be_members(tmp_path: Path) -> None:
    distinct = Distinct([STRING, INT64])
    distinct.add([_vector(STRING, ["a", "b"]), _vector(INT64, [1, 2])])
    with Spill(table_of("t", distinct.types), tmp_path) as spill:
        spill.add(distinct, 1)
        members = spill.members("s")
    loads = []
    load = members._load
    members._load = lambda: loads.append(1) or load()
    assert members.contains([_vector(STRING, ["x", None]), _vector(INT64, [1, 1])]).tolist() == [False, False]
    assert loads == []
    for _ in range(2):
        assert members.contains([_vector(STRING, ["a", "a"]), _vector(INT64, [1, 2])]).tolist() == [True, False]
    assert loads == [1]
    assert repr(members) == "MemberSet('s', 2 members, table)"
