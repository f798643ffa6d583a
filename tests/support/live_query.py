"""What is asked of a live store: every kind of query whose answer a dictionary can tell, over every table."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

from support.live_condition import literal, moment, quoted
from support.live_model import HOSTS, Condition, LiveModel, LiveTable, Row
from tsdb.session import Session
from tsdb_format.types import Role

_FILTER_OFF = {"enable_topk_runtime_filter": False}
_NO_STATISTICS = {"enable_statistics_aggregation": False}
#: Where buckets of less than a month start counting.
_ORIGIN = datetime.datetime(2000, 1, 3)
_DUCKDB_ALONE = {"enable_native_operators": False}
Answer = list[tuple[Any, ...]]
#: (statement, settings, expected rows)
Question = tuple[str, dict[str, object], Answer]


class Observer:
    """Asks one session, and compares with a model."""

    def __init__(self, session: Session, turn: int = 0) -> None:
        """``turn`` says which questions come first."""
        self._session = session
        self._turn = turn

    def run(self, text: str, settings: dict[str, object] | None = None) -> Answer:
        """The rows of a query."""
        return self._session.run(text, None, settings).fetchall()

    def check(self, model: LiveModel, now_ms: int) -> None:
        """Tables, columns and all rows are the model's. Rows that the TTL hid for a while are taken as they are found."""
        assert sorted(row[0] for row in self.run("SHOW TABLES")) == sorted(model.tables)
        for name, table in model.tables.items():
            self.check_table(name, table, now_ms)

    def check_table(self, name: str, table: LiveTable, now_ms: int = 0) -> None:
        """Columns and rows are the model's."""
        described = [(row[0], row[2]) for row in self.run(f"DESCRIBE {quoted(name)}")]
        assert described == [(column.name, column.role.name) for column in table.columns]
        found = self.run(f"SELECT * FROM {quoted(name)} {_in_order(table)}")
        names = [column.name for column in table.columns]
        table.adopt([dict(zip(names, row, strict=True)) for row in found], now_ms)
        _same(found, _tuples(table, table.visible(now_ms)), table.mode == "table", f"SELECT * FROM {name}")

    def ask(self, model: LiveModel, now_ms: int, most: int | None = None) -> None:
        """The other kinds of question; with ``most`` that many of them, and the next ones the next time."""
        for name, table in model.tables.items():
            count = len(_KINDS) if most is None else most
            rows = table.visible(now_ms)
            for _ in range(count):
                kind = _KINDS[self._turn % len(_KINDS)]
                self._turn += 1
                for text, settings, expected in kind(name, table, rows, self._turn):
                    _same(self.run(text, settings), expected, True, f"{text} with {settings}")

    def where(self, name: str, table: LiveTable, condition: Condition, now_ms: int) -> None:
        """The rows that satisfy a condition."""
        rows = [row for row in table.visible(now_ms) if condition.holds(row) is True]
        text = f"SELECT * FROM {quoted(name)} WHERE {condition.text} {_in_order(table)}"
        _same(self.run(text), _tuples(table, rows), table.mode == "table", text)
        text = f"SELECT count(*) FROM {quoted(name)} WHERE {condition.text}"
        _same(self.run(text), [(len(rows),)], True, text)


def _same(found: Answer, expected: Answer, ordered: bool, what: str) -> None:
    if not ordered:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    if found != expected:
        lost, more = [row for row in expected if row not in found], [row for row in found if row not in expected]
        raise AssertionError(f"{what}: {len(found)} rows, not {len(expected)}\nmissing {lost[:9]}\nunexpected {more[:9]}")


def _tuples(table: LiveTable, rows: list[Row]) -> Answer:
    return [tuple(row[column.name] for column in table.columns) for row in rows]


def _in_order(table: LiveTable) -> str:
    keys = [quoted(column.name) for column in table.of(Role.TAG)]
    return f"ORDER BY {', '.join([*keys, quoted(table.time)])}"


def _settings() -> Iterator[dict[str, object]]:
    yield {}
    yield _FILTER_OFF


# ---------------------------------------------------------------------------------------------- kinds of questions


def _counts(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    names = [column.name for column in table.of(Role.FIELD, Role.ATTRIBUTE)]
    items = "".join(f", count({quoted(column)})" for column in names)
    counted = tuple(sum(row[column] is not None for row in rows) for column in names)
    times = [row[table.time] for row in rows]
    time = quoted(table.time)
    expected = (len(rows), min(times, default=None), max(times, default=None), *counted)
    settings = _DUCKDB_ALONE if turn % 2 else {}
    yield f"SELECT count(*), min({time}), max({time}){items} FROM {quoted(name)}", settings, [expected]


def _aggregates(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    host = table.of(Role.TAG)[0].name
    numbers = [column.name for column in table.of(Role.FIELD) if column.kind in ("DOUBLE", "INT64", "INT32")]
    items = "".join(f", min({quoted(n)}), max({quoted(n)}), sum({quoted(n)})" for n in numbers)
    expected: Answer = []
    for each in sorted({row[host] for row in rows}, key=lambda value: (value is None, value)):
        mine = [row for row in rows if row[host] == each]
        found: list[Any] = [each, len(mine), max(row[table.time] for row in mine)]
        for number in numbers:
            values = [row[number] for row in mine if row[number] is not None]
            found += [min(values), max(values), sum(values)] if values else [None] * 3
        expected.append(tuple(found))
    grouped = f"GROUP BY {quoted(host)} ORDER BY {quoted(host)}"
    yield f"SELECT {quoted(host)}, count(*), max({quoted(table.time)}){items} FROM {quoted(name)} {grouped}", {}, expected


def _newest(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    yield from _top(name, table, sorted(rows, key=lambda row: row[table.time], reverse=True), f"{quoted(table.time)} DESC", turn)


def _oldest(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    yield from _top(name, table, sorted(rows, key=lambda row: row[table.time]), quoted(table.time), turn)


def _top(name: str, table: LiveTable, rows: list[Row], order: str, turn: int) -> Iterator[Question]:
    """Equal times are in the order of storage: ``rows`` were sorted stably from that."""
    limit, offset = (1, 2, 5, 10)[turn % 4], (0, 0, 3)[turn % 3]
    columns = table.columns
    if table.mode != "table":  # rows of equal tags and time are in the order of their commits, which a model of sets has not
        columns = table.of(Role.TIME, Role.TAG)
    expected = [tuple(row[column.name] for column in columns) for row in rows[offset : offset + limit]]
    items = ", ".join(quoted(column.name) for column in columns)
    for settings in _settings():
        yield f"SELECT {items} FROM {quoted(name)} ORDER BY {order} LIMIT {limit} OFFSET {offset}", settings, expected


def _newest_of_some(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    host = table.of(Role.TAG)[0].name
    wanted = HOSTS[1:][turn % (len(HOSTS) - 1)]
    mine = sorted((row for row in rows if row[host] == wanted), key=lambda row: row[table.time], reverse=True)[:3]
    text = f"SELECT {quoted(table.time)} FROM {quoted(name)} WHERE {quoted(host)} = {literal(wanted)}"
    for settings in _settings():
        yield f"{text} ORDER BY {quoted(table.time)} DESC LIMIT 3", settings, [(row[table.time],) for row in mine]


def _largest(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    fields = [column.name for column in table.of(Role.FIELD)]
    if not fields:
        return
    chosen = fields[turn % len(fields)]
    down = turn % 2 == 0
    values = sorted((row[chosen] for row in rows if row[chosen] is not None), reverse=down)
    ordered = [*values, *[None] * (len(rows) - len(values))]
    direction = "DESC" if down else "ASC"
    for settings in _settings():
        text = f"SELECT {quoted(chosen)} FROM {quoted(name)} ORDER BY {quoted(chosen)} {direction} NULLS LAST LIMIT 4"
        yield text, settings, [(value,) for value in ordered[:4]]


def _in_a_range(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    low = moment(-20 + 7 * (turn % 17))
    high = low + datetime.timedelta(milliseconds=(0, 4, 30)[turn % 3])
    time = quoted(table.time)
    mine = [row for row in rows if low <= row[table.time] <= high]
    text = f"FROM {quoted(name)} WHERE {time} BETWEEN {literal(low)} AND {literal(high)}"
    yield f"SELECT {time} {text} {_in_order(table)}", {}, [(row[table.time],) for row in mine]
    yield f"SELECT count(*) {text}", {}, [(len(mine),)]


def _last_rows(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    tags = [column.name for column in table.of(Role.TAG)]
    last: dict[tuple[Any, ...], Any] = {}
    for row in rows:
        last[tuple(row[tag] for tag in tags)] = row[table.time]
    listed = ", ".join(map(quoted, tags))
    text = f"SELECT {listed}, max({quoted(table.time)}) FROM {quoted(name)} GROUP BY {listed} ORDER BY {listed}"
    yield text, {}, [(*device, time) for device, time in last.items()]


def _newest_of_each(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    columns = table.columns if table.mode == "table" else table.of(Role.TIME, Role.TAG)
    tags = [column.name for column in table.of(Role.TAG)]
    last = {tuple(row[tag] for tag in tags): row for row in rows}
    listed, items = ", ".join(map(quoted, tags)), ", ".join(quoted(column.name) for column in columns)
    text = f"SELECT DISTINCT ON ({listed}) {items} FROM {quoted(name)} ORDER BY {listed}, {quoted(table.time)} DESC"
    for settings in _settings():
        yield text, settings, [tuple(row[column.name] for column in columns) for row in last.values()]


def _buckets(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    """Buckets of some milliseconds, of all rows and of each host's; with statistics and without."""
    width = datetime.timedelta(milliseconds=(5, 16, 40)[turn % 3])
    host, time = table.of(Role.TAG)[0].name, quoted(table.time)
    number = next((column.name for column in table.of(Role.FIELD) if column.kind in ("DOUBLE", "INT64", "INT32")), None)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        start = _ORIGIN + (row[table.time] - _ORIGIN) // width * width
        groups.setdefault((start, row[host]) if turn % 2 else (start,), []).append(row)
    items = f"count(*), min({time}), max({time})" + (f", sum({quoted(number)})" if number else "")
    expected: Answer = []
    for key in sorted(groups, key=lambda key: tuple((value is None, value) for value in key)):
        times, values = (
            [row[table.time] for row in groups[key]],
            [row[number] for row in groups[key] if number and row[number] is not None],
        )
        expected.append((*key, len(times), min(times), max(times), *([sum(values) if values else None] if number else [])))
    keys = f"time_bucket(INTERVAL '{width.microseconds} microseconds', {time})" + (f", {quoted(host)}" if turn % 2 else "")
    for settings in ({}, _NO_STATISTICS):
        yield f"SELECT {keys}, {items} FROM {quoted(name)} GROUP BY ALL ORDER BY ALL", settings, expected


def _devices(name: str, table: LiveTable, rows: list[Row], turn: int) -> Iterator[Question]:
    columns = [column.name for column in table.of(Role.TAG, Role.ATTRIBUTE)]
    times: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        times.setdefault(tuple(row[column] for column in columns), []).append(row[table.time])
    expected = [(*device, min(held), max(held), len(held)) for device, held in times.items()]
    yield f"SHOW DEVICES FROM {quoted(name)}", {}, expected


Kind = Callable[[str, LiveTable, list[Row], int], Iterator[Question]]
_KINDS: tuple[Kind, ...] = (
    _newest, _counts, _oldest, _aggregates, _newest_of_some, _in_a_range, _buckets, _largest, _last_rows, _newest, _devices,
    _newest_of_each,
)  # fmt: skip
