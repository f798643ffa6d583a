"""``now()`` in conditions, as text: every condition of a statement sees the same moment, in DuckDB as in our scans."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from tsdb.sql.environment import Environment
from tsdb.sql.statement import Query

_CALLS = frozenset({"NOW", "TRANSACTION_TIMESTAMP", "GET_CURRENT_TIMESTAMP", "TODAY", "CURRENT_LOCALTIMESTAMP"})
_WORDS = frozenset({"CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP"})
_WITHOUT_ZONE = frozenset({"LOCALTIMESTAMP", "CURRENT_LOCALTIMESTAMP"})
#: Words that are times of the day at the moment, which nothing of ours is compared with.
TIMES_OF_DAY = frozenset({"CURRENT_TIME", "LOCALTIME"})
_CONDITIONS = frozenset({"WHERE", "ON", "HAVING", "QUALIFY"})
_OTHERS = frozenset(
    {"SELECT", "FROM", "GROUP", "ORDER", "LIMIT", "OFFSET", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "VALUES", "JOIN"}
)


def now_splices(query: Query, environment: Environment) -> list[tuple[int, int, str]]:
    """Replacements of the calls inside conditions, once a condition was bound that uses the moment."""
    return list(_splices(query, environment)) if environment.used_now else []


def now_text(word: str, environment: Environment, *, zoned: bool = False) -> str:
    """The moment as a literal; without a zone, unless ``zoned``, where it is compared with a timestamp of nanoseconds."""
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=environment.now_ns // 1_000)
    if word in ("TODAY", "CURRENT_DATE"):
        return f"DATE '{moment:%Y-%m-%d}'"
    plain = word in _WITHOUT_ZONE or (environment.compared_zone and not zoned)
    return f"TIMESTAMP '{moment.isoformat(' ')}'" if plain else f"TIMESTAMPTZ '{moment.isoformat(' ')}+00'"


def is_now(query: Query, at: int) -> int:
    """The number of tokens of a now-call at position ``at``, 0 where there is none."""
    tokens = query.tokens
    word = tokens[at].upper
    if at and tokens[at - 1].is_symbol("."):
        return 0
    if word in _WORDS:
        return 1
    called = at + 2 < len(tokens) and tokens[at + 1].is_symbol("(") and tokens[at + 2].is_symbol(")")
    return 3 if word in _CALLS and called else 0


def _splices(query: Query, environment: Environment) -> Iterator[tuple[int, int, str]]:
    inside = [False]
    for at, token in enumerate(query.tokens):
        if token.is_symbol("("):
            inside.append(inside[-1])
        elif token.is_symbol(")") and len(inside) > 1:
            inside.pop()
        elif token.upper in _CONDITIONS:
            inside[-1] = True
        elif token.upper in _OTHERS:
            inside[-1] = False
        elif inside[-1] and (length := is_now(query, at)):
            yield token.start, query.tokens[at + length - 1].end, now_text(token.upper, environment)
