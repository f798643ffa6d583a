"""The page about SQL: every example runs, natively and not, and gives the rows that the page shows.

``TSDB_UPDATE_SCRIPTS=1 pytest tests/sql/test_sql_page.py`` writes what is found into the page, for a reviewer to read as a diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import tsdb

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
_EXAMPLE = re.compile(r"```sql\n(.*?)\n```\n(?:```text\n(.*?)\n```\n)?", re.DOTALL)


def _shown(database: tsdb.Database, sql: str) -> str:
    texts = set()
    for native in (True, False):
        result = database.sql(sql, settings={"enable_native_operators": native})
        lines = [" | ".join(result.columns), *(" | ".join(map(_value, row)) for row in result.fetchall())]
        texts.add("\n".join(line.rstrip() for line in lines))
    assert len(texts) == 1, sql
    return texts.pop()


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def test_examples(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    made = []
    with tsdb.open(tmp_path / "db") as database:
        for sql, wanted in _EXAMPLE.findall(page):
            if sql.startswith(("CREATE", "INSERT")):
                database.sql(sql)
                made.append(f"```sql\n{sql}\n```\n")
                continue
            shown = _shown(database, sql)
            made.append(f"```sql\n{sql}\n```\n```text\n{shown}\n```\n")
            if os.environ.get("TSDB_UPDATE_SCRIPTS") != "1":
                assert shown == wanted, sql
    assert len(made) >= 15
    if os.environ.get("TSDB_UPDATE_SCRIPTS") == "1":
        examples = iter(made)
        PAGE.write_text(_EXAMPLE.sub(lambda _: next(examples), page), encoding="utf-8")
