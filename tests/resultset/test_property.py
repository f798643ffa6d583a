"""Random multi-queries answer what nested evaluation does, whatever becomes of their sets, and run no more than they must."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import tsdb
from support.result_set_case import Model, comparable, document_of, expected, make_database, random_document, rows_of
from tsdb.resultset import run as runs

_DOCUMENTS = 15
SEED = int(os.environ.get("TSDB_SEED", "0"))


def _caps(random: Random, model: Model) -> list[int]:
    """Caps around the size of one of the sets."""
    sizes = sorted({len(model.sets[name]) for name in model.referenced}) or [0]
    size = random.choice(sizes)
    return sorted({0, 1, max(size - 1, 0), size, size + 1, 2**40})


def _check(db: tsdb.Database, document: object, model: Model, settings: dict[str, object], limits: list[int | None]) -> None:
    with db.multi_query(document, settings=settings) as m:
        for result, rows, limit in sorted(zip(m.results, model.rows, limits, strict=True), key=id):  # in any order
            found = comparable(result.fetchall())
            if limit is None:
                assert found == comparable(rows)
            else:
                assert len(found) == min(limit, len(rows))
                assert not Counter(found) - Counter(comparable(rows))
        _check_counters(m, model, settings)
    folder = Path(db.path) / "temporary"
    assert not folder.exists() or not list(folder.iterdir())


def _check_counters(m: object, model: Model, settings: dict[str, object]) -> None:
    cap, tables = settings["result_set_materialization_max_size"], settings.get("enable_result_set_tables", True)
    fates = {each.name: each.fate for each in m.sets}
    assert fates.keys() == model.referenced
    if not settings.get("enable_result_set_materialization", True):
        assert set(fates.values()) <= {"repeated"}
        assert (m.stats["result_sets_run"], m.stats["statements"]) == (0, len(m.results))
        return
    for each in m.sets:
        size = len(model.sets[each.name])
        if each.name in model.skipped:
            assert (each.fate, size) == ("skipped", 0)
        else:
            assert each.fate == ("inlined" if size <= cap else "table" if tables else "repeated")
            assert each.members in (size, None if each.fate == "repeated" else size)
    counts = {fate: sum(each == fate for each in fates.values()) for fate in ("inlined", "table", "skipped")}
    assert m.stats["result_sets_skipped"] == counts["skipped"]
    assert m.stats["result_sets_inlined"] == counts["inlined"]
    assert m.stats["result_sets_table_backed"] == counts["table"]
    assert m.stats["result_sets_run"] == len(fates) - counts["skipped"]
    assert m.stats["statements"] == model.statements


@pytest.mark.parametrize("seed", range(6))
def test_random_documents(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"{SEED} {seed}")
    if seed % 3 == 1:  # as if no table's members could be held
        monkeypatch.setattr(runs, "_HELD_SHARE", 0)
    skips = empties = 0
    with make_database(tmp_path / "db", random) as db:
        tables = rows_of(db)
        for _ in range(_DOCUMENTS):
            queries = random_document(random, random.randint(2, 6))
            deduplicate = random.random() < 0.3 and all(query.limit is None for query in queries)
            model = expected(queries, tables, deduplicate=deduplicate)
            document = document_of(queries, random) | {"deduplicate": deduplicate}
            limits = [query.limit for query in queries if not query.only]
            for cap in _caps(random, model):
                settings = {"result_set_materialization_max_size": cap, "enable_result_set_tables": random.random() < 0.6}
                if random.random() < 0.15:
                    settings["enable_native_operators"] = False
                _check(db, document, model, settings, limits)
            off = {"enable_result_set_materialization": False, "result_set_materialization_max_size": 5}
            _check(db, document, model, off, limits)
            skips += len(model.skipped)
            empties += sum(not rows for rows in model.rows)
    assert skips > 0 < empties
