"""The page about result sets says what happens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import tsdb
from support.command import run

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "result-sets.md").read_text(encoding="utf-8")


def _blocks(kind: str) -> list[str]:
    return [text for name, text in re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL) if name == kind]


def test_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [code] = _blocks("python")
    names: dict[str, object] = {}
    exec(
        code.replace("    m.results[0].fetchall()", "    rows = m.results[0].fetchall()").replace(
            "    m.sets", "    sets = m.sets"
        ),
        names,
    )
    assert repr(names["rows"]) in code
    assert repr(names["sets"][0]) in code
    [document] = _blocks("json")
    request = tmp_path / "request.json"
    request.write_text(document, encoding="utf-8")
    done = run("multi", "rooms.db", request, "--format", "csv")
    assert (done.code, done.out) == (0, "time,rack,celsius\n2026-01-01 07:30:00,A,41.5\n")
    script = re.search(r'multi_query\("""(.*?)"""', code, re.DOTALL)
    assert script is not None
    request.with_suffix(".sql").write_text(script[1], encoding="utf-8")
    shown = [line.strip() for line in _blocks("")[0].splitlines()[1:] if line.strip() != "…"]
    text = run("multi", "rooms.db", request.with_suffix(".sql"), "--analyze").out
    for line in shown:
        assert line.removesuffix("…").strip() in text
    with tsdb.open("rooms.db") as db:
        places = _blocks("sql")[0]
        assert db.sql(f"RESULT SET hosts AS (SELECT host FROM alarm WHERE level > 3); {places}").fetchall()


def test_keys_and_settings_are_those_there_are() -> None:
    from tsdb.resultset.document import _QUERY
    from tsdb.settings import SETTINGS

    table = PAGE.partition("| key of a query | |")[2].partition("\n\n")[0]
    assert {*re.findall(r"`(\w+)`", "\n".join(line.partition(" | ")[0] for line in table.splitlines()))} == {*_QUERY} - {
        "description"
    }
    for name in re.findall(r"`((?:enable_result|result_set_mat)\w+)`", PAGE):
        assert name in SETTINGS
    assert json.loads((Path(tsdb.__file__).parent / "resultset" / "request.schema.json").read_text())["title"]
