"""Text to statement. Ours are read to the end; queries, conditions and INSERT stay text, for the binder and for DuckDB."""

from __future__ import annotations

from tsdb.sql.absent import refuse_absent
from tsdb.sql.nesting import nesting
from tsdb.sql.statement import (
    AlterTable,
    Checkpoint,
    CreateTable,
    CreateView,
    Describe,
    DropTable,
    DropView,
    Explain,
    Insert,
    Query,
    Script,
    SetSetting,
    SettingValues,
    ShowCreateTable,
    ShowCreateView,
    ShowFiles,
    ShowQueries,
    ShowSettings,
    ShowTables,
    ShowViews,
    Statement,
)
from tsdb.sql.token import PARAMETER, Cursor, Token, begins_script, place, tokenize
from tsdb.suggestion import nearest
from tsdb_format.errors import InvalidInput

#: First words of the statements that DuckDB may run over our scans: all of them only read.
_QUERY_WORDS = frozenset(
    {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER", "SUMMARIZE"}
)
_OTHER_WORDS = frozenset(
    {
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "CREATE",
        "ALTER",
        "DROP",
        "SHOW",
        "DESCRIBE",
        "SET",
        "RESET",
        "EXPLAIN",
        "CHECKPOINT",
    }
)


def read_statement(text: str) -> Statement:
    """The one statement in ``text``; raises InvalidInput."""
    tokens = tokenize(text)
    while tokens and tokens[-1].is_symbol(";"):
        tokens.pop()
    if not tokens:
        raise InvalidInput("there is no statement to run")
    if begins_script(tokens):
        return Script(text)
    if tokens[0].upper == "EXPLAIN" and any(begins_script(tokens[at : at + 2]) for at in range(1, len(tokens))):
        raise InvalidInput(
            "EXPLAIN is for queries; of a script with result sets it is db.explain_multi_query or tsdb multi --explain"
        )
    if any(token.is_symbol(";") for token in tokens):
        raise InvalidInput("one statement at a time: there is text after ';'")
    return read_tokens(text, tokens)


def read_query(text: str, tokens: list[Token]) -> Query:
    """The query that some tokens of a text are; raises InvalidInput for other statements."""
    statement = read_tokens(text, tokens)
    if not isinstance(statement, Query):
        raise InvalidInput(f"a query is wanted, not {tokens[0].text.upper()} ({place(text, tokens[0].start)})")
    return statement


def read_tokens(text: str, tokens: list[Token]) -> Statement:
    """The one statement that some tokens of a text are; raises InvalidInput."""
    cursor = Cursor(text, tokens)
    word = cursor.word()
    refuse_absent(cursor)
    match word:
        case "EXPLAIN":
            return _read_explain(cursor)
        case "CREATE":
            return _read_create(cursor)
        case "DROP":
            return _read_drop(cursor)
        case "SHOW":
            return _read_conditional(word, cursor) if cursor.word(1) == "DEVICES" else _read_show(cursor)
        case "DESCRIBE" | "DESC":
            return _read_describe(cursor)
        case "SET" | "RESET":
            return _read_set(cursor)
        case "INSERT":
            return _read_insert(cursor)
        case "ALTER":
            return _read_alter(cursor)
        case "CHECKPOINT":
            cursor.expect("CHECKPOINT")
            cursor.end()
            return Checkpoint()
        case "DELETE" | "TRUNCATE" | "UPDATE":
            return _read_conditional(word, cursor)
    if word in _QUERY_WORDS or cursor.symbol() == "(":
        _refuse_writing(text, tokens)
        return _read_query(text, tokens)
    found = text[tokens[0].start : tokens[0].end]
    close = nearest(word, _QUERY_WORDS | _OTHER_WORDS) if word else None
    raise InvalidInput(f"unknown statement {found!r}" + (f"; did you mean {close}?" if close and close != word else ""))


def _read_query(text: str, tokens: list[Token]) -> Query:
    """Cut a trailing SETTINGS clause off and shift token offsets to the query's own text."""
    at = _settings_clause(tokens)
    settings: SettingValues = ()
    if at is not None:
        settings = _read_assignments(Cursor(text, tokens[at + 1 :]))
        tokens = tokens[:at]
    start, end = tokens[0].start, tokens[-1].end
    shifted = [Token(kind, value, begin - start, stop - start) for kind, value, begin, stop in tokens]
    return Query(*_number_parameters(text[start:end], shifted), settings, text, start)


def _number_parameters(text: str, tokens: list[Token]) -> tuple[str, tuple[Token, ...]]:
    """Write every ``?`` as ``$1``, ``$2`` and so on: a tree does not keep the order of the text."""
    kinds = {
        ("?" if token.text == "?" else "$1" if token.text[1:].isdigit() else "$name") for token in tokens if token.kind == PARAMETER
    }
    if len(kinds) > 1:
        raise InvalidInput(f"parameters are all of one kind: ?, $1 or $name, not {' and '.join(sorted(kinds))} in one statement")
    if "?" not in kinds:
        return text, tuple(tokens)
    pieces, at, count = [], 0, 0
    for token in tokens:
        if token.kind == PARAMETER:
            count += 1
            pieces += [text[at : token.start], f"${count}"]
            at = token.end
    numbered = "".join(pieces) + text[at:]
    return numbered, tuple(tokenize(numbered))


def _refuse_writing(text: str, tokens: list[Token]) -> None:
    """A query that starts with WITH only reads."""
    depth, reads = 0, False
    for token, following in zip(tokens, tokens[1:], strict=False):
        depth += token.is_symbol("(") - token.is_symbol(")")
        reads = reads or (depth == 0 and token.upper in _QUERY_WORDS - {"WITH"})
        if token.upper == "INSERT" and following.upper == "INTO" and depth == 0:
            raise InvalidInput(f"INSERT comes first: INSERT INTO t WITH … SELECT … ({place(text, token.start)})")
        if token.upper in ("DELETE", "UPDATE") and depth == 0 and not reads:
            raise InvalidInput(f"{token.upper} takes no WITH: write the subquery where it is used ({place(text, token.start)})")
        if token.is_symbol("(") and following.upper in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            raise InvalidInput(f"{following.upper} cannot stand inside a query ({place(text, following.start)})")


def _settings_clause(tokens: list[Token]) -> int | None:
    """Where ``SETTINGS name = …`` starts outside of parentheses; a name called settings is never followed by ``name =``."""
    depth = 0
    for at, token in enumerate(tokens[:-2]):
        depth += nesting(token)
        if depth == 0 < at and token.upper == "SETTINGS" and tokens[at + 1].is_name and tokens[at + 2].is_symbol("="):
            return at
    return None


def _read_assignments(cursor: Cursor) -> SettingValues:
    values = []
    while True:
        name = cursor.name("a setting's name")
        cursor.expect_symbol("=")
        values.append((name, cursor.literal(f"a value for {name}")))
        if not cursor.accept_symbol(","):
            break
    cursor.end()
    return tuple(values)


def _read_explain(cursor: Cursor) -> Explain:
    cursor.expect("EXPLAIN")
    options = {"ANALYZE": cursor.accept("ANALYZE") or cursor.accept("ANALYSE"), "TIMINGS": False, "RULES": False}
    options["VERBOSE"] = cursor.accept("VERBOSE")
    form = "text"
    if cursor.symbol() == "(" and (cursor.word(1) in options or cursor.word(1) == "FORMAT"):
        cursor.at += 1
        while True:
            word = cursor.word()
            if cursor.accept("FORMAT"):
                form = cursor.name("TEXT or JSON").lower()
                if form not in ("text", "json"):
                    raise InvalidInput(f"EXPLAIN has no format {form!r}: it takes TEXT or JSON")
            elif word in options:
                cursor.at += 1
                options[word] = _switch(cursor)
            else:
                cursor.fail("ANALYZE, TIMINGS, RULES, VERBOSE or FORMAT")
            if not cursor.accept_symbol(","):
                break
        cursor.expect_symbol(")")
    if cursor.done:
        cursor.fail("a query to explain")
    if cursor.word() == "EXPLAIN":
        raise InvalidInput("EXPLAIN is for queries")
    statement = read_tokens(cursor.text, cursor.tokens[cursor.at :])
    if not isinstance(statement, Query):
        raise InvalidInput("EXPLAIN is for queries")
    return Explain(statement, options["ANALYZE"], options["TIMINGS"], options["RULES"], form, options["VERBOSE"])


def _switch(cursor: Cursor) -> bool:
    """What an option is set to: on, where nothing is said."""
    for value, words in ((True, ("TRUE", "ON")), (False, ("FALSE", "OFF"))):
        if any(cursor.accept(word) for word in words):
            return value
    if cursor.symbol() in (",", ")"):
        return True
    return cursor.fail("TRUE or FALSE")


def _read_create(cursor: Cursor) -> CreateTable | CreateView:
    cursor.expect("CREATE")
    if cursor.accept("MATERIALIZED", "VIEW"):
        return _read_create_view(cursor)
    if cursor.accept("OR", "REPLACE"):
        raise InvalidInput("CREATE OR REPLACE is not known: DROP TABLE IF EXISTS first")
    if cursor.word() not in ("TABLE", "STREAM"):
        cursor.fail("TABLE or STREAM after CREATE")
    from tsdb.sql.ddl import read_create_table

    return read_create_table(cursor)


def _read_create_view(cursor: Cursor) -> CreateView:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.relation("a view name")
    target = cursor.relation("a table name") if cursor.accept("INTO") else None
    cursor.expect("AS")
    if cursor.done:
        cursor.fail("a query")
    tokens = cursor.tokens[cursor.at :]
    read_query(cursor.text, tokens)
    return CreateView(name, target, cursor.text[tokens[0].start : tokens[-1].end], if_not_exists)


def _read_alter(cursor: Cursor) -> AlterTable:
    cursor.expect("ALTER")
    if not cursor.accept("STREAM"):
        cursor.expect("TABLE")
    from tsdb.sql.alter import read_alter_table

    return read_alter_table(cursor)


def _read_conditional(word: str, cursor: Cursor) -> Statement:
    from tsdb.sql import conditional

    query = _read_query(cursor.text, cursor.tokens)
    match word:
        case "DELETE":
            return conditional.read_delete(query)
        case "TRUNCATE":
            return conditional.read_truncate(query)
        case "UPDATE":
            return conditional.read_update(query)
    return conditional.read_show_devices(query)


def _read_drop(cursor: Cursor) -> DropTable | DropView:
    cursor.expect("DROP")
    if cursor.accept("MATERIALIZED", "VIEW"):
        view = DropView(if_exists=cursor.accept("IF", "EXISTS"), name=cursor.relation("a view name"))
        cursor.end()
        return view
    if not cursor.accept("STREAM"):
        cursor.expect("TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.relation("a table name")
    cursor.end()
    return DropTable(name, if_exists)


def _read_show(cursor: Cursor) -> Statement:
    cursor.expect("SHOW")
    made: Statement
    if cursor.accept("TABLES"):
        made = ShowTables()
    elif cursor.accept("MATERIALIZED", "VIEWS"):
        made = ShowViews()
    elif cursor.accept("FILES"):
        made = ShowFiles(cursor.relation("a table name") if cursor.accept("FROM") else None)
    elif cursor.accept("QUERIES"):
        made = ShowQueries()
    elif cursor.accept("CREATE", "TABLE") or cursor.accept("CREATE", "STREAM"):
        made = ShowCreateTable(cursor.relation("a table name"))
    elif cursor.accept("CREATE", "MATERIALIZED", "VIEW"):
        made = ShowCreateView(cursor.relation("a view name"))
    elif cursor.accept("SETTINGS"):
        made = ShowSettings()
    else:
        wanted = "TABLES, MATERIALIZED VIEWS, DEVICES, FILES, QUERIES, CREATE TABLE, SETTINGS or the name of a setting"
        made = ShowSettings(cursor.name(wanted))
    cursor.end()
    return made


def _read_describe(cursor: Cursor) -> Statement:
    """DESCRIBE of a table is ours, of a query DuckDB's."""
    cursor.at += 1
    if cursor.word() in _QUERY_WORDS - {"TABLE"} or cursor.symbol() == "(":
        return _read_query(cursor.text, cursor.tokens)
    cursor.accept("TABLE")
    name = cursor.relation("a table name")
    cursor.end()
    return Describe(name)


def _read_set(cursor: Cursor) -> SetSetting:
    reset = cursor.accept("RESET")
    if not reset:
        cursor.expect("SET")
    if cursor.word() in ("SESSION", "GLOBAL", "LOCAL") and cursor.symbol(1) not in ("=", ""):
        cursor.at += 1
    name = cursor.name("a setting's name")
    if reset:
        cursor.end()
        return SetSetting(name, None)
    if not cursor.accept_symbol("="):
        cursor.expect("TO")
    value = cursor.literal(f"a value for {name}")
    cursor.end()
    return SetSetting(name, value)


def _read_insert(cursor: Cursor) -> Insert:
    tokens = cursor.tokens
    if cursor.word(1) == "OR":
        raise InvalidInput("INSERT OR … is not known: INSERT INTO already overlays the row with the same tags and time")
    cursor.expect("INSERT", "INTO")
    name = cursor.relation("a table name")
    at = cursor.at - 1
    if any(a.upper == "ON" and b.upper == "CONFLICT" for a, b in zip(tokens, tokens[1:], strict=False)):
        raise InvalidInput("ON CONFLICT is not known: INSERT INTO already overlays the row with the same tags and time")
    query = _read_query(cursor.text, tokens)
    target = query.tokens[at]
    return Insert(name, (target.start, target.end), query)
