"""Splitting CSV text into records and cells, in one pass, with a verdict for every record that is not well formed."""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel

#: Verdicts on a record.
FINE, SHORT, LONG, BAD_QUOTE, BAD_TEXT = range(5)
#: Places in ``state``: the next byte, the next line number, the end of unescaped cells, and the extent of the last quoted cell.
AT, LINE, SPARE, START, STOP = range(5)


@kernel("(u8[in], i64, i64) -> i64")
def line_end(data, at, size):  # type: ignore[no-untyped-def]
    """The next line break from ``at`` on, or ``size``."""
    while at < size and data[at] != 10 and data[at] != 13:
        at += 1
    return at


@kernel("(u8[out], i64, i64, u8, i64[out]) -> i64")
def read_quoted(data, at, size, quote, state):  # type: ignore[no-untyped-def]
    """Read the quoted cell whose text begins at ``at``; returns the place after its closing quote, or -1 where that is missing.

    state[START], state[STOP] become the cell's extent: in place, or unescaped at state[SPARE] where it has doubled quotes.
    """
    start = at
    moved = -1
    while at < size:
        byte = data[at]
        if byte == quote:
            if at + 1 >= size or data[at + 1] != quote:
                state[START] = start if moved < 0 else moved
                state[STOP] = at if moved < 0 else state[SPARE]
                return at + 1
            if moved < 0:
                moved = state[SPARE]
                for i in range(start, at):
                    data[state[SPARE]] = data[i]
                    state[SPARE] += 1
            at += 1
        elif byte == 10:
            state[LINE] += 1
        if moved >= 0:
            data[state[SPARE]] = byte
            state[SPARE] += 1
        at += 1
    return -1


@kernel(
    "(u8[out], i64, b1, u8, u8, i64[in], i64[out], i64[out,2], i64[out,2], i64[out], i64[out], i64[out], u8[out], i64[out]) -> i64"
)
def split_records(  # type: ignore[no-untyped-def]
    data, size, final, delimiter, quote, slot, state, starts, stops, record_start, record_stop, record_line, verdict, cells
):
    """Split the complete records from state[AT] on; returns how many, and leaves the next one's place in ``state``.

    data u8[]: the text in [0, size), and room behind it for unescaped cells. ``final``: the text ends at size, so that a record
    without a line break is complete and an open quote is never closed. slot i64[width]: the row of starts, stops i64[k,m] that
    takes a column's cells, or -1; empty cells beyond the width are ignored. state i64[5]. record_start, record_stop, record_line,
    cells i64[m], verdict u8[m]: each record's extent, first line, number of cells and verdict. An unquoted empty cell has start and
    stop -1. Empty lines are no records. A record with a bad quote ends with the line it began on.
    """
    width = len(slot)
    count = 0
    while state[AT] < size and count < len(verdict):
        begin, begin_line, begin_spare = state[AT], state[LINE], state[SPARE]
        at = begin
        column = 0
        found = FINE
        more = data[at] != 10 and data[at] != 13
        while more:
            start = at
            while at < size and data[at] == 32:
                at += 1
            if at < size and data[at] == quote:
                at = read_quoted(data, at + 1, size, quote, state)
                while 0 <= at < size and data[at] == 32:
                    at += 1
                if at < 0 or (at < size and data[at] != delimiter and data[at] != 10 and data[at] != 13):
                    found = BAD_QUOTE
                    break
                start, stop = state[START], state[STOP]
            else:
                while at < size and data[at] != delimiter and data[at] != 10 and data[at] != 13:
                    at += 1
                stop = at
                if start == stop:
                    start, stop = -1, -1
            if column >= width:
                found = LONG if start >= 0 else found
            elif slot[column] >= 0:
                starts[slot[column], count] = start
                stops[slot[column], count] = stop
            column += 1
            more = at < size and data[at] == delimiter
            at += more
        if found == BAD_QUOTE and (final or at >= 0):
            at = line_end(data, begin, size)
            state[LINE] = begin_line
        if (at < 0 or at >= size or (at + 1 == size and data[at] == 13)) and not final:
            state[LINE], state[SPARE] = begin_line, begin_spare
            break
        if column > 0 or found == BAD_QUOTE:
            record_start[count], record_stop[count], record_line[count] = begin, at, begin_line
            verdict[count] = SHORT if found == FINE and column < width else found
            cells[count] = column
            count += 1
        state[LINE] += 1
        state[AT] = at + 2 if at + 1 < size and data[at] == 13 and data[at + 1] == 10 else at + 1
    return count


@kernel("(u8[in], i64, i64) -> b1")
def is_utf8(data, at, stop):  # type: ignore[no-untyped-def]
    """Whether the bytes are well-formed UTF-8: no stray or missing continuation, nothing overlong, no surrogate."""
    while at < stop:
        lead = data[at]
        at += 1
        if lead < 0x80:
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        length = 1 + (lead >= 0xE0) + (lead >= 0xF0)
        if at + length > stop:
            return False
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if data[at] < low or data[at] > high:
            return False
        for i in range(at + 1, at + length):
            if data[i] < 0x80 or data[i] > 0xBF:
                return False
        at += length
    return True


@kernel("(u8[in], i64[in], i64[in], u8[out]) -> void")
def check_text(data, record_start, record_stop, verdict):  # type: ignore[no-untyped-def]
    """Give records that are fine but not UTF-8 the verdict BAD_TEXT. record_start, record_stop i64[m], verdict u8[m]."""
    for row in range(len(verdict)):
        if verdict[row] == FINE and not is_utf8(data, record_start[row], record_stop[row]):
            verdict[row] = BAD_TEXT
