"""A live query over windows in two: what is followed, and the text over the rows of windows that are given.

``SELECT … FROM TUMBLE(data, time, size) GROUP BY window_start, …`` follows ``data``, a table or a query of any kind that can be
followed, and runs as it is written over a table of its rows and their windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tsdb.catalog.table import Table
from tsdb.quoting import quoted_name
from tsdb.sql.environment import Parameters, bind_parameters, parameter_names
from tsdb.sql.nesting import closing
from tsdb.sql.series.call import Call
from tsdb.sql.series.draft import Draft, Edit, Part
from tsdb.sql.series.expansion import with_windows_by_time
from tsdb.sql.series.width import interval
from tsdb.sql.series.window import alias, arguments, in_from, origin_of, time_column
from tsdb.sql.statement import Query
from tsdb.sql.token import Token, tokenize
from tsdb.stream.window.held import HELD
from tsdb.stream.window.span import Windows
from tsdb_format.errors import InvalidInput

if TYPE_CHECKING:
    from tsdb.sql.nesting import Range


@dataclass(frozen=True, slots=True, eq=False)
class WindowedQuery:
    """``data`` is followed; ``text`` reads the table ``HELD``. ``time`` is the column of ``data`` that the windows go by.

    ``wanted`` are names, in lower case, among which are those of all columns that the text needs; None: it may need all.
    """

    data: Query
    text: Query
    time: str
    windows: Windows
    wanted: frozenset[str] | None
    parameters: Mapping[str, object]

    def parameters_of(self, query: Query) -> dict[str, object]:
        """The parameters that one of the two uses."""
        return {name: self.parameters[name] for _, name in parameter_names(query.tokens)}


def windowed_query(query: Query, parameters: Parameters, tables: Mapping[str, Table]) -> WindowedQuery | None:
    """The two parts of a live query over windows; None where it has none, or makes its rows one by one. Raises InvalidInput."""
    words = {token.upper for token in query.tokens}
    if words.isdisjoint(("TUMBLE", "HOP", "SESSION")):
        return None
    if not query.latest_joins:  # whose places are those of the text as it is
        query = with_windows_by_time(query, tables)
    draft = Draft.of(query)
    found = [(call, start, stop) for call, start, stop in in_from(draft) if not _is_bounded(draft, call)]
    if not found:
        return None
    from tsdb.stream.window.shape import is_grouped

    call, start, stop = found[0]
    text = _rest(draft, call, start, stop)
    if not is_grouped(text, tables):
        return None
    if call.name == "SESSION":
        draft.fail("a live query has windows of TUMBLE and HOP: a SESSION may always go on", call.at)
    if len(found) > 1:
        draft.fail("a live query has one TUMBLE or HOP: write table(name) in the others", found[1][0].at)
    if text.latest_joins:
        draft.fail("a LATEST JOIN of a live query over windows stands in the query that is their data", call.at)
    parts = arguments(call)
    time = _name(draft, time_column(call, parts["timecol"]), parts["timecol"])
    wanted = _wanted(text, time)
    data = _data(draft, parts["data"], tables, wanted)
    values = bind_parameters(query.tokens, parameters)
    return WindowedQuery(data, text, time, _windows(call, parts), wanted, values)


def _is_bounded(draft: Draft, call: Call) -> bool:
    """Whether the data is ``table(name)``."""
    start, end = arguments(call)["data"]
    return end - start == 4 and draft.tokens[start].upper == "TABLE" and draft.tokens[start + 1].is_symbol("(")


def _rest(draft: Draft, call: Call, start: int, stop: int) -> Query:
    """The text with a table in the place of the windows."""
    named = alias(draft, call, stop)
    made = draft.edited([Edit(*draft.span(start, stop), (quoted_name(HELD), named))])
    low, high = draft.span(start, stop)
    shift = len(made.text) - len(draft.text)
    joins = frozenset(at if at < low else at + shift for at in draft.query.latest_joins if not low <= at < high)
    return replace(draft.query, text=made.text, tokens=made.tokens, origins=_origins(draft.query, made.origins), latest_joins=joins)


def _data(draft: Draft, part: Range, tables: Mapping[str, Table], wanted: frozenset[str] | None) -> Query:
    """The query that is followed."""
    query, tokens, (start, end) = draft.query, draft.tokens, part
    if tokens[start].upper == "TABLE" and end - start > 1:
        start += 1
    if tokens[start].is_symbol("(") and closing(tokens, start) == end - 1:
        low, high = draft.span(start + 1, end - 1)
        inside = tuple(Token(each.kind, each.text, each.start - low, each.end - low) for each in tokens[start + 1 : end - 1])
        joins = frozenset(at - low for at in query.latest_joins if low <= at < high)
        origins = _origins(query, range(start + 1, end - 1))
        return replace(query, text=query.text[low:high], tokens=inside, origins=origins, latest_joins=joins)
    if end - start != 1:
        draft.fail("the data of live windows is a table or a query in parentheses", start)
    table = tables.get(name := tokens[start].text.lower())
    if any(each.is_name and each.text.lower() == name and after.upper == "AS" for each, after in pairwise(tokens)) and not table:
        draft.fail("the data of live windows is a table or a query in parentheses, not one of WITH", start)
    columns = "*"
    if table is not None and wanted is not None:
        time = table.schema.time.name
        columns = ", ".join(quoted_name(each.name) for each in table.schema if each.name == time or each.name.lower() in wanted)
    text = f"SELECT {columns} FROM {quoted_name(tokens[start].text)}"
    made = tuple(tokenize(text))
    return replace(query, text=text, tokens=made, origins=_origins(query, [start] * len(made)), latest_joins=frozenset())


def _origins(query: Query, places: Sequence[int]) -> tuple[int, ...]:
    return tuple(query.origins[at] for at in places) if query.origins else tuple(places)


def _wanted(query: Query, time: str) -> frozenset[str] | None:
    tokens = query.tokens
    if any(token.is_symbol("*") and not tokens[at - 1].is_symbol("(") for at, token in enumerate(tokens)):
        return None
    if any(map(partial(_means_columns, tokens), range(len(tokens)))):
        return None
    return frozenset((time.lower(), *(token.text.lower() for token in tokens if token.is_name)))


def _means_columns(tokens: Sequence[Token], at: int) -> bool:
    """Whether columns may be meant without being named, as by FROM without a SELECT."""
    if tokens[at].upper == "FROM":
        return at == 0 or tokens[at - 1].is_symbol("(")
    return tokens[at].upper in ("COLUMNS", "NATURAL")


def _name(draft: Draft, parts: tuple[Part, ...], place: Range) -> str:
    """The name that the time column is written with."""
    text = "".join(part if isinstance(part, str) else draft.text[part[0] : part[1]] for part in parts)
    tokens = tokenize(text)
    if len(tokens) != 1 or not tokens[0].is_name:
        draft.fail("the time of live windows is a column of their data", place[0])
    return tokens[0].text


def _windows(call: Call, parts: Mapping[str, Range]) -> Windows:
    draft = call.draft

    def written(made: tuple[Part, ...]) -> str:
        return "".join(part if isinstance(part, str) else draft.text[part[0] : part[1]] for part in made)

    origin = written(origin_of(call, parts.get("origin"))).removeprefix(", ")
    size, slide = (written(interval(draft, *parts[name])) if name in parts else None for name in ("size", "slide"))
    asked = [f"CAST({text} AS INTERVAL)" for text in (size, slide) if text] + ([f"CAST({origin} AS TIMESTAMP)"] if origin else [])
    values = _computed(draft, asked, call.at)
    lengths = [_length(value) for value in values[: 1 + bool(slide)]]
    try:
        return Windows.of(lengths[0], lengths[1] if slide else None, values[-1] if origin else None)
    except InvalidInput as error:
        draft.fail(str(error), call.at)


def _computed(draft: Draft, texts: Sequence[str], at: int) -> list[Any]:
    """The values of expressions without columns."""
    import duckdb

    from tsdb.exec.duck_call import interruptible
    from tsdb.exec.duck_instance import cursor
    from tsdb.settings import Settings

    connection = cursor(Settings())
    try:
        row = interruptible(lambda: connection.sql(f"SELECT {', '.join(texts)}").to_arrow_table(), connection)
    except duckdb.Error:
        draft.fail("the size, slide and origin of live windows are constants", at)
    finally:
        connection.close()
    return [column[0].as_py() for column in row.columns]


def _length(value: Any) -> tuple[int, int]:
    """Months and microseconds of an interval. A day is 24 hours."""
    if value is None:
        return 0, 0
    return value.months, value.days * 86_400 * 10**6 + value.nanoseconds // 1_000
