"""Salvaging a database of ``damage_case``, and what the report and the result say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.damage_case import content, image
from support.table_model import vectors_of
from tsdb.storage import manifest as manifests
from tsdb.storage.check import check, examine
from tsdb.storage.salvage import SalvageReport, salvage
from tsdb.storage.store import Store

Row = dict[str, Any]


def salvaged(database: Path) -> tuple[SalvageReport, dict[str, list[Row]]]:
    """Salvage into a folder beside; the original is untouched, and the result is a sound database that can be written."""
    target = database.with_name("out")
    number = 0
    while target.exists():
        number += 1
        target = database.with_name(f"out{number}")
    before = image(database)
    report = salvage(database, target)
    assert image(database) == before
    assert [each for each in examine(target) if not each.note] == []
    found = content(target)
    assert {name: table for name, table in report.rows.items() if table} == {
        name: sum(file.rows for file in entry.files) for name, entry in manifests.load(target).tables.items() if entry.files
    }
    with Store.open(target) as store:
        for name in list(store.tables()):
            if {"v", "host"} <= set(store.table(name).schema.by_name):
                store.write_batch(name, one_row(store.table(name).schema))
        assert list(check(store)) == []
    return report, found


def one_row(schema: Any) -> dict[str, Any]:
    """A row to write later."""
    row = {"time": 10**6, "host": "later"}
    return vectors_of(schema, [row], ["time", "host"])


def losses(report: SalvageReport) -> list[str]:
    """What the report lists as lost."""
    return [each.message for each in report.lost if not each.note]


def without(rows: Sequence[Row], *names: str) -> list[Row]:
    """Rows without some columns."""
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def keys(rows: Sequence[Row]) -> set[tuple[Any, ...]]:
    """Device and time of each row."""
    return {(row["host"], row["slot"], row["time"]) for row in rows}
