"""Rows as an aligned text table.

Column widths come from the first rows, so that a result of any length streams; a later cell that is wider pushes its line out.
On a terminal long cells are cut to fit; into a pipe or file every value is written whole. Control characters are always escaped.
"""

from __future__ import annotations

import itertools
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from tsdb_cli import terminal
from tsdb_cli.value import as_text

NULL = "NULL"
_SAMPLE_ROWS = 1_000
_CELL_MIN = 24
_NUMERIC = ("INT", "FLOAT", "DOUBLE", "DECIMAL", "BIGINT", "HUGEINT", "SMALLINT", "TINYINT", "UBIGINT", "UINTEGER")


def write_table(
    names: Sequence[str], types: Sequence[object], rows: Iterable[Sequence[Any]], stream: TextIO, rows_max: int | None = None
) -> int:
    """Write a table and return the number of rows in the result. Rows after ``rows_max`` are counted and not written."""
    remaining = iter(rows)
    sample = [[_cell(value) for value in row] for row in itertools.islice(remaining, _SAMPLE_ROWS)]
    right = [str(kind).upper().startswith(_NUMERIC) and "[" not in str(kind) for kind in types]
    widths = _fit([max([_width(name), *(_width(row[i]) for row in sample)]) for i, name in enumerate(names)], stream)
    _line([terminal.escaped(name) for name in names], widths, right, stream, "bold")
    rule = "  ".join("─" * width for width in widths)
    stream.write(terminal.style(rule[: terminal.width()] if terminal.is_terminal(stream) else rule, "dim", stream) + "\n")
    count = 0
    for row in itertools.chain(sample, ([_cell(value) for value in row] for row in remaining)):
        count += 1
        if rows_max is None or count <= rows_max:
            _line(row, widths, right, stream)
    return count


def write_lines(lines: Sequence[str], stream: TextIO) -> int:
    """Write a text without a heading and return the number of lines."""
    stream.writelines(f"{terminal.escaped(line)}\n" for line in lines)
    return len(lines)


def write_pairs(pairs: Iterable[tuple[str, object]], stream: TextIO) -> None:
    """Names and values, one pair a line, values aligned."""
    listed = [
        (name, f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else _cell(value)) for name, value in pairs
    ]
    width = max((_width(name) for name, _ in listed), default=0)
    stream.writelines(f"{terminal.style(name, 'dim', stream)}{' ' * (width - _width(name))}  {text}\n" for name, text in listed)


def write_counters(counters: Mapping[str, object], stream: TextIO) -> None:
    """A query's counters: what became of the units of each level as a grid, then the rest by name."""
    from tsdb.exec.stats import FATES, LEVELS

    fates = [fate for fate in FATES if any(counters.get(f"{level}_{fate}") for level in LEVELS)]
    levels = [level for level in LEVELS if counters.get(f"{level}_total")]
    if levels:
        heading = ["", *(fate.replace("_", " ") for fate in fates)]
        grid = [heading, *([level, *(f"{counters.get(f'{level}_{fate}', 0):,}" for fate in fates)] for level in levels)]
        widths = [max(len(row[i]) for row in grid) for i in range(len(heading))]
        for number, row in enumerate(grid):
            _line(row, widths, [False, *(True for _ in fates)], stream, None if number else "dim")
    gridded = {f"{level}_{fate}" for level in LEVELS for fate in FATES}
    write_pairs(((name, value) for name, value in counters.items() if value not in (0, None) and name not in gridded), stream)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], stream: TextIO, look: str | None = None) -> None:
    cut = terminal.is_terminal(stream)
    parts = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        text = _cut(cell, width) if cut else cell
        fill = " " * max(width - _width(text), 0)
        shown = terminal.style(text, look, stream) if look else terminal.style(text, "dim", stream) if text == NULL else text
        parts.append(fill + shown if to_right else shown + fill)
    stream.write("  ".join(parts).rstrip() + "\n")


def _fit(widths: list[int], stream: TextIO) -> list[int]:
    """Shrink the widest columns until a terminal's line holds all of them, or none can give more; a text alone is not cut."""
    if not terminal.is_terminal(stream) or len(widths) == 1:
        return widths
    excess = sum(widths) + 2 * (len(widths) - 1) - terminal.width()
    while excess > 0 and (widest := max(widths)) > _CELL_MIN:
        widths[widths.index(widest)] -= 1
        excess -= 1
    return widths


def _cell(value: Any) -> str:
    return NULL if value is None else terminal.escaped(as_text(value))


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    kept = text
    while kept and _width(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"


def stdout_rows_max() -> int | None:
    """How many rows a person at a terminal wants to scroll through; no limit where nobody looks."""
    return 500 if terminal.is_terminal(sys.stdout) else None
