"""What a live query does not do: read its text again, look at a file twice to plan, or read for tokens that nobody asks for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import tsdb
from tsdb import session
from tsdb.exec.kernels import pieces
from tsdb.exec.source import FileSource
from tsdb.sql import binder
from tsdb.stream.position import read_token
from tsdb_format.errors import NotFound

HISTORY: dict[str, object] = {"seek_to": "earliest", "stream_batch_rows": 3}


def stream_of(path: Path, files: int = 3) -> tsdb.Database:
    """A stream of two devices whose files follow each other, with rows alike in all that a place says, across batches."""
    db = tsdb.open(path, durability="off", threads=1)
    db.sql("CREATE STREAM s (time TIMESTAMP_NS TIME, k VARCHAR TAG, v BIGINT) WITH (mode = 'append', rows_per_page = 2)")
    for number in range(files):
        db.write("s", {"time": [number] * 8, "k": ["a", "b"] * 4, "v": list(range(8 * number, 8 * number + 8))})
        db.flush()
    return db


def rest_after(db: tsdb.Database, token: str | None, count: int) -> list[Any]:
    rows: list[Any] = []
    with db.stream("SELECT v FROM s", resume=token) as live:
        while len(rows) < count:
            rows += next(live).fetchall()
    return rows


def test_a_text_is_read_and_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stream_of(tmp_path / "db") as db:
        calls: list[str] = []
        read, parse = session.read_statement, binder.parse_query
        monkeypatch.setattr(session, "read_statement", lambda text: calls.append("read") or read(text))
        monkeypatch.setattr(binder, "parse_query", lambda *given: calls.append("parse") or parse(*given))
        for _ in range(3):
            with db.stream("SELECT * FROM s", settings=HISTORY) as live:
                assert live.columns == ["time", "k", "v"]
        assert calls == ["read", "parse"]
        db.sql("ALTER TABLE s ADD COLUMN w BIGINT")
        with db.stream("SELECT * FROM s", settings=HISTORY) as live:
            assert live.columns == ["time", "k", "v", "w"], "what it means is found anew"
        db.sql("DROP TABLE s")
        with pytest.raises(NotFound):
            db.stream("SELECT * FROM s", settings=HISTORY)


def test_every_file_is_looked_at_once_for_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stream_of(tmp_path / "db", files=5) as db:
        calls: list[int] = []
        wanted = pieces.wanted
        monkeypatch.setattr(pieces, "wanted", lambda *given: calls.append(1) or wanted(*given))
        with db.stream("SELECT v FROM s WHERE k = 'b'", settings=HISTORY) as live:
            assert sum(len(next(live).fetchall()) for _ in range(7)) == 20
        assert len(calls) == 5


def test_places_are_read_for_the_tokens_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[str] = []
    touch = FileSource.touch
    monkeypatch.setattr(FileSource, "touch", lambda source, name, *rows: touched.append(name) or touch(source, name, *rows))
    with stream_of(tmp_path / "db") as db:
        reads = []
        for asked in (0, 1, 2):
            touched.clear()
            with db.stream("SELECT v FROM s", settings=HISTORY) as live:
                for batch in range(8):
                    next(live)
                    assert batch >= asked or live.token is not None
                assert sorted(set(touched)) == sorted({"v", *(["_sn", "time"] if asked else [])})
                reads.append(touched.count("time"))
        assert reads[0] == 0 < reads[1] < reads[2] < touched.count("time"), "and for the last batch before the files may be closed"


def test_what_is_read_for_tokens_is_not_counted(tmp_path: Path) -> None:
    counted = []
    for asked in (False, True):
        with stream_of(tmp_path / str(asked)) as db, db.stream("SELECT v FROM s", settings=HISTORY) as live:
            for _ in range(8):
                next(live)
                assert not asked or live.token is not None
            db.write("s", {"time": [99], "k": ["a"], "v": [24]})
            assert next(live).fetchall() == [(24,)]
            counted.append(live.stats)
    assert counted[0] == counted[1]


def test_of_one_commit_that_comes_its_number_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[str] = []
    touch = FileSource.touch
    monkeypatch.setattr(FileSource, "touch", lambda source, name, *rows: touched.append(name) or touch(source, name, *rows))
    with stream_of(tmp_path / "db") as db, db.stream("SELECT v FROM s") as live:
        db.write("s", {"time": [99, 98], "k": ["a", "b"], "v": [24, 25]})
        assert next(live).fetchall() == [(24,), (25,)]
        assert touched.count("_sn") == 2, "for both ends of the window"
        before, after = live.token, db.write("s", {"time": [99], "k": ["a"], "v": [26]}).sequence
        assert next(live).fetchall() == [(26,)]
        assert read_token(str(before))[0]["after"] == after - 2
        assert read_token(str(live.token))[0]["place"][2] == after


def test_tokens_are_the_same_whenever_they_are_asked_for(tmp_path: Path) -> None:
    db = stream_of(tmp_path / "db")
    expected = [v for (v,) in db.sql("SELECT v FROM s ORDER BY k, time, _sn").fetchall()]
    for batches in range(1, 9):
        with db.stream("SELECT v FROM s", settings=HISTORY) as asked:
            for _ in range(batches):
                next(asked)
                at_once = asked.token
        live = db.stream("SELECT v FROM s", settings=HISTORY)
        given = [v for _ in range(batches) for (v,) in next(live).fetchall()]
        live.close()
        assert live.token == at_once
        assert given == expected[: len(given)]
        assert [v for (v,) in rest_after(db, live.token, 24 - len(given))] == expected[len(given) :]
    last = db.stream("SELECT v FROM s", settings=HISTORY)
    next(last)
    db.close()
    token = last.token
    with tsdb.open(tmp_path / "db") as again:
        assert [v for (v,) in rest_after(again, token, 21)] == expected[3:]


@pytest.mark.parametrize("whole", [False, True], ids=["query", "database"])
def test_a_close_between_a_batch_and_its_token(tmp_path: Path, whole: bool) -> None:
    db = stream_of(tmp_path / "db")
    live = db.stream("SELECT v FROM s", settings=HISTORY)
    first = next(live).fetchall()
    here = live._here

    def closed_meanwhile() -> Any:
        reached = here()
        closer = threading.Thread(target=db.close if whole else live.close)
        closer.start()
        closer.join()
        return reached

    live._here = closed_meanwhile  # type: ignore[method-assign]
    assert list(live) == [], "nobody gets the batch"
    token = live.token
    with tsdb.open(tmp_path / "db") if whole else db as again:
        rest = rest_after(again, token, 21)
        assert sorted(first + rest) == [(v,) for v in range(24)]
