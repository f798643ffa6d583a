"""Resume tokens that are damaged, of another query or of another build: one clear error each, and never other rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsdb
from tsdb.stream.position import read_token
from tsdb_format.errors import InvalidInput

SETTINGS = {"seek_to": "earliest", "stream_batch_rows": 3}
ROWS = "SELECT k, v FROM s WHERE v >= $low"
JOIN = "SELECT s.v, m.r FROM s INNER LATEST JOIN m ON s.k = m.k WHERE s.v >= $low"
WINDOWS = "SELECT window_start, count(*) AS n FROM TUMBLE(s, time, INTERVAL '1 minute') WHERE v >= $low GROUP BY window_start"
QUERIES = [ROWS, JOIN, WINDOWS]
LOW = {"low": 0}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tsdb.Database]:
    with tsdb.open(tmp_path / "db", durability="off", threads=1) as made:
        made.sql("CREATE STREAM s (k BIGINT, v BIGINT) PRIMARY KEY k")
        made.sql("CREATE STREAM m (k BIGINT, r BIGINT)")
        made.sql("INSERT INTO m VALUES (0, 10), (1, 20)")
        for v in range(10):
            made.sql("INSERT INTO s VALUES (?, ?)", [v % 2, v])
        yield made


def token_within(db: tsdb.Database, sql: str) -> str:
    """A token within the history, behind some rows where the query gives them."""
    with db.stream(sql, LOW, settings=SETTINGS) as live:
        if sql is not WINDOWS:
            next(live)
        assert live.token is not None
        return live.token


def padded(token: str) -> str:
    return token + "=" * (-len(token) % 4)


def document_of(token: str) -> dict[str, Any]:
    raw = base64.urlsafe_b64decode(padded(token))
    return dict(json.loads(raw[:-8]))


def written(document: dict[str, Any]) -> str:
    """A token of a build that wrote no checksum."""
    return base64.urlsafe_b64encode(json.dumps(document).replace(" ", "").encode()).decode().rstrip("=")


@pytest.mark.parametrize("sql", QUERIES)
def test_no_character_can_be_another(db: tsdb.Database, sql: str) -> None:
    token = token_within(db, sql)
    for at, character in enumerate(token):
        for other in {"A", "z", "0", "-", "!", chr(ord(character) ^ 1)} - {character}:
            with pytest.raises(InvalidInput, match="token"):
                read_token(token[:at] + other + token[at + 1 :])
        with pytest.raises(InvalidInput, match="token"):
            read_token(token[:at])
    with pytest.raises(InvalidInput, match="lost or changed"):
        db.stream(sql, LOW, resume=token[:40] + ("A" if token[40] != "A" else "B") + token[41:])
    with db.stream(sql, LOW, resume=f" {token}\n") as live:
        assert live.token == token


@pytest.mark.parametrize("given", ["", "null", "e30", "bnVsbA", "é", "\0", "A" * 5_000, b"bytes", 5, ["x"]])
def test_what_is_none(db: tsdb.Database, given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"no resume token|does not know"):
        db.stream("SELECT k FROM s", resume=given)


@pytest.mark.parametrize("sql", QUERIES)
def test_another_query(db: tsdb.Database, sql: str) -> None:
    token = token_within(db, sql)
    for other in [*(text for text in QUERIES if text is not sql), sql.replace(">=", ">"), sql.replace("$low", "$low + 1")]:
        with pytest.raises(InvalidInput, match=r"of another|not of these tables"):
            db.stream(other, LOW, resume=token)
    for low in (1, 0.5, "0", True):
        with pytest.raises(InvalidInput, match="of another query"):
            db.stream(sql, {"low": low}, resume=token)


@pytest.mark.parametrize("sql", QUERIES)
def test_the_same_query_written_otherwise(db: tsdb.Database, sql: str) -> None:
    token = token_within(db, sql)
    again = f"/* again */ {sql.replace(' WHERE', '  WHERE')} SETTINGS threads = 1;"
    with db.stream(again, {"low": np.int32(0)}, resume=token) as live:
        assert live.token == token


def test_values_that_the_caller_changes_meanwhile(db: tsdb.Database) -> None:
    given = dict(LOW)
    with db.stream(ROWS, given, settings=SETTINGS) as live:
        next(live)
        given["low"] = 5
        token = live.token
    with db.stream(ROWS, LOW, resume=token) as live:
        assert live.token == token


def test_after_an_error_and_the_end_of_the_database(tmp_path: Path) -> None:
    with tsdb.open(tmp_path / "db", durability="off") as db:
        db.sql("CREATE STREAM s (k BIGINT, v BIGINT) PRIMARY KEY k")
        db.sql("INSERT INTO s VALUES (1, 1), (2, 2), (3, 3)")
        db.flush()
        sql = "SELECT v FROM s WHERE error(CASE WHEN v = 3 THEN 'three' END) IS NULL"
        live = db.stream(sql, settings={**SETTINGS, "stream_batch_rows": 1})
        assert [next(live).fetchall() for _ in range(2)] == [[(1,)], [(2,)]]
        with pytest.raises(tsdb.Error, match="three"):
            next(live)
    assert document_of(str(live.token))["place"][0] == [2]


@pytest.mark.parametrize("name", ["watermark_delay", "allowed_lateness", "emit"])
def test_windows_by_other_settings(db: tsdb.Database, name: str) -> None:
    settings = {name: "on update" if name == "emit" else "10s"}
    with pytest.raises(InvalidInput, match="of another query"):
        db.stream(WINDOWS, LOW, settings=settings, resume=token_within(db, WINDOWS))
    token = token_within(db, ROWS)
    with db.stream(ROWS, LOW, settings=settings, resume=token) as live:
        assert live.token == token


def test_other_builds(db: tsdb.Database) -> None:
    token = token_within(db, ROWS)
    with db.stream(ROWS, LOW, resume=token) as live:
        expected = next(live).fetchall()
    document = document_of(token)
    document.pop("query")
    with db.stream(ROWS, LOW, resume=written({**document, "version": 1})) as live:
        assert next(live).fetchall() == expected
    for version in (3, 10, 2.5, None):
        with pytest.raises(InvalidInput, match="does not know"):
            db.stream(ROWS, LOW, resume=written({**document, "version": version}))
    with pytest.raises(InvalidInput, match="does not know"):  # a later form, whatever follows
        db.stream(ROWS, LOW, resume=base64.urlsafe_b64encode(b'{"version":3,"x":1}seal').decode())
    for changed in ({"after": 1e400}, {"after": "x"}, {"place": 5}, {"place": [[0], 1]}, {"bound": {}}, {"since": []}):
        with pytest.raises(InvalidInput, match="token"):
            db.stream(ROWS, LOW, resume=written({**document, "version": 1, **changed}).replace("Infinity", "1e400"))
